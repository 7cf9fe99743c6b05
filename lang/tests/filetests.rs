//! Runs the files of `tests/filetests`: texts with their expected diagnostics.
//!
//! Directives are comments of the form `# word: ..`. Unknown ones fail, and so does a file
//! without an expectation.
//!
//! | directive | meaning |
//! | --- | --- |
//! | `# error: E0201 text` | an error on this line whose message holds `text`; several are separated by `\|` |
//! | `# error+2: ..` | the same, two lines below |
//! | `# warning: ..` | the same for warnings |
//! | `# anywhere: E0404 text` | a diagnostic without a place |
//! | `# expect: nothing` | no diagnostics |
//! | `# set: name=value` | a model parameter from outside |
//! | `# prints: text` | a line of the printed operator graph holds `text`, after the one before |
//! | `# lacks: text` | no line of the printed operator graph holds `text` |
//!
//! Formatter tests are an input, a line `# ----`, and the output.

use gnnc_ir::workload::GraphFacts;
use gnnc_lang::check::elaborate;
use gnnc_lang::diagnostic::{CODES, Diagnostic, Severity, code, position};
use gnnc_lang::syntax::{parse, print};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/filetests")
        .join(folder);
    let entries = fs::read_dir(&root).expect("the folder of file tests");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", root.display());
    let read = |path: PathBuf| {
        assert_eq!(
            path.extension().and_then(|e| e.to_str()),
            Some("gir"),
            "{}",
            path.display()
        );
        let text = fs::read_to_string(&path).expect("a readable file");
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

#[derive(Default)]
struct Expected {
    /// Line (0 for none), code, part of the message, severity.
    diagnostics: Vec<(usize, String, String, Option<Severity>)>,
    nothing: bool,
    set: Vec<(String, f64)>,
    prints: Vec<String>,
    lacks: Vec<String>,
}

/// The directives of a text, or an error in them.
fn directives(text: &str) -> Result<Expected, String> {
    let mut expected = Expected::default();
    for (k, line) in text.lines().enumerate() {
        let Some((_, comment)) = line.split_once('#') else {
            continue;
        };
        let Some((word, rest)) = comment.trim().split_once(':') else {
            continue;
        };
        if !word
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '+')
        {
            continue;
        }
        let rest = rest.trim();
        let (word, below) = match word.split_once('+') {
            Some((word, n)) => (word, n.parse::<usize>().map_err(|e| e.to_string())?),
            None => (word, 0),
        };
        let (line, severity) = match word {
            "error" => (k + 1 + below, Some(Severity::Error)),
            "warning" => (k + 1 + below, Some(Severity::Warning)),
            "anywhere" => (0, None),
            "expect" if rest == "nothing" => {
                expected.nothing = true;
                continue;
            }
            "set" => {
                let (name, value) = rest.split_once('=').ok_or("set without =")?;
                let value = value.parse().map_err(|e| format!("{e}"))?;
                expected.set.push((name.to_owned(), value));
                continue;
            }
            "prints" => {
                expected.prints.push(rest.to_owned());
                continue;
            }
            "lacks" => {
                expected.lacks.push(rest.to_owned());
                continue;
            }
            _ => {
                return Err(format!(
                    "line {}: unknown directive `{}`",
                    k + 1,
                    comment.trim()
                ));
            }
        };
        for one in rest.split(" | ") {
            let (code, part) = one
                .trim()
                .split_once(' ')
                .ok_or("an error needs a code and text")?;
            let entry = (line, code.to_owned(), part.trim().to_owned(), severity);
            expected.diagnostics.push(entry);
        }
    }
    let some = !expected.diagnostics.is_empty() || !expected.prints.is_empty();
    if !some && !expected.nothing {
        return Err("no expectation: write `# expect: nothing` or an error".to_owned());
    }
    Ok(expected)
}

/// Compares diagnostics with expectations; returns the differences.
fn differences(text: &str, found: &[Diagnostic], expected: &Expected) -> Vec<String> {
    let mut missing = expected.diagnostics.clone();
    let mut wrong = Vec::new();
    for d in found {
        assert!(code(d.code).is_some(), "{} is not registered", d.code);
        let line = d.span.map_or(0, |s| position(text, s.start).line);
        let matching = missing.iter().position(|(l, code, part, severity)| {
            *l == line
                && code == d.code
                && d.message.contains(part.as_str())
                && severity.is_none_or(|s| s == d.severity)
        });
        match matching {
            Some(at) => drop(missing.remove(at)),
            None => wrong.push(format!("line {line}: unexpected {} {}", d.code, d.message)),
        }
    }
    wrong.extend(
        missing
            .iter()
            .map(|m| format!("line {}: missing {} {}", m.0, m.1, m.2)),
    );
    wrong
}

fn run(folder: &str, stage: impl Fn(&str, &Expected) -> (Vec<Diagnostic>, Option<String>)) {
    let mut failures = String::new();
    for (path, text) in files(folder) {
        let wrong = match directives(&text) {
            Err(why) => vec![why],
            Ok(expected) => {
                let (found, graph) = stage(&text, &expected);
                let mut wrong = differences(&text, &found, &expected);
                wrong.extend(graph_differences(graph.as_deref(), &expected));
                wrong
            }
        };
        for line in wrong {
            failures.push_str(&format!("{}: {line}\n", path.display()));
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

fn graph_differences(graph: Option<&str>, expected: &Expected) -> Vec<String> {
    if expected.prints.is_empty() && expected.lacks.is_empty() {
        return Vec::new();
    }
    let Some(graph) = graph else {
        return vec!["there is no graph to print".to_owned()];
    };
    let mut wrong = Vec::new();
    let mut lines = graph.lines();
    for part in &expected.prints {
        if !lines.any(|line| line.contains(part.as_str())) {
            wrong.push(format!("no line (any more) prints `{part}` in\n{graph}"));
        }
    }
    for part in &expected.lacks {
        if graph.contains(part.as_str()) {
            wrong.push(format!("`{part}` is in\n{graph}"));
        }
    }
    wrong
}

#[test]
fn parse_files() {
    run("parse", |text, _| (parse(text).1, None));
}

#[test]
fn check_files() {
    run("check", |text, expected| {
        let (module, mut diagnostics) = parse(text);
        let source = module.graph_source();
        let facts = source
            .and_then(|s| s.facts())
            .unwrap_or(GraphFacts::PLACEHOLDER);
        let (model, more) = elaborate(&module, &facts, &expected.set);
        let graph = model.map(|m| {
            m.graph.verify().expect("a well-formed graph");
            m.graph.to_string()
        });
        diagnostics.extend(more);
        (diagnostics, graph)
    });
}

#[test]
fn fmt_files() {
    for (path, text) in files("fmt") {
        let parts: Vec<&str> = text.split("# ----\n").collect();
        let [input, output] = parts[..] else {
            panic!("{}: one `# ----`", path.display())
        };
        let (module, diagnostics) = parse(input);
        assert_eq!(diagnostics, [], "{}", path.display());
        let printed = print(&module);
        assert_eq!(printed, output, "{}", path.display());
        assert_eq!(
            print(&parse(&printed).0),
            printed,
            "{}: printed twice",
            path.display()
        );
    }
}

#[test]
fn every_code_has_a_file() {
    let mut seen = BTreeSet::new();
    for folder in ["parse", "check"] {
        for (_, text) in files(folder) {
            let expected = directives(&text).expect("correct directives");
            seen.extend(expected.diagnostics.into_iter().map(|d| d.1));
        }
    }
    let without: Vec<_> = CODES.iter().filter(|c| !seen.contains(c.code)).collect();
    assert!(without.is_empty(), "no file test for {without:?}");
}

#[test]
fn unknown_directives_and_missing_expectations_fail() {
    assert!(directives("let x = 1 # eror: E0101 x").is_err());
    assert!(directives("let x = 1 # a comment").is_err());
    assert!(directives("# expect: nothing").is_ok());
}
