//! The documentation pages print and name what the program prints and knows.

use super::support::{ROOT, gnnc};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Most columns in a line of prose.
const MOST_COLUMNS: usize = 150;

/// Names and texts of the pages.
fn pages() -> Vec<(String, String)> {
    let of_root = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    ];
    let mut paths: Vec<String> = of_root.map(str::to_owned).to_vec();
    paths.push("fuzz/README.md".to_owned());
    for folder in ["docs", "docs/design"] {
        let entries = fs::read_dir(Path::new(ROOT).join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let pages = names.filter(|name| name.ends_with(".md"));
        paths.extend(pages.map(|name| format!("{folder}/{name}")));
    }
    let text = |path: String| {
        let text = fs::read_to_string(Path::new(ROOT).join(&path)).unwrap();
        (path, text)
    };
    paths.into_iter().map(text).collect()
}

/// Commands on a page that start with `program`: indented lines, and text between backticks.
fn commands<'a>(page: &'a str, program: &str) -> Vec<String> {
    let indented = page.lines().filter_map(|line| line.strip_prefix("    "));
    let prose: Vec<&'a str> = page
        .lines()
        .filter(|line| !line.starts_with("    "))
        .collect();
    let prose = prose.join(" ");
    let quoted = prose.split('`').skip(1).step_by(2);
    let all = indented.map(str::to_owned).chain(quoted.map(str::to_owned));
    // A line may hold several commands, with remarks after them.
    let parts = all.flat_map(|line| {
        let line = line.split(" # ").next().unwrap_or_default().to_owned();
        line.split("&&")
            .map(|part| part.trim().to_owned())
            .collect::<Vec<_>>()
    });
    let begins = |part: &String| part.split_whitespace().next() == Some(program);
    parts.filter(begins).collect()
}

/// A truncated page would not start with its title.
#[test]
fn pages_have_a_title_and_lines_that_can_be_read() {
    for (name, text) in pages() {
        let first = text.lines().next().unwrap_or_default();
        assert!(
            first.starts_with("# "),
            "{name} begins with `{first}`, not with its title"
        );
        for (number, line) in (1..).zip(text.lines()) {
            let free = line.starts_with('|') || line.starts_with("    ");
            let columns = line.chars().count();
            assert!(
                free || columns <= MOST_COLUMNS,
                "{name}:{number}: {columns} columns, expected at most {MOST_COLUMNS}"
            );
        }
    }
}

#[test]
fn the_first_page_prints_what_a_plan_prints() {
    let (_, page) = pages().remove(0);
    let (before, after) = page.split_once(" prints\n\n").expect("a plan");
    let command = before.rsplit('`').nth(1).expect("its command");
    let run = gnnc(command.split_whitespace().skip(1));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let shown = after
        .lines()
        .take_while(|line| line.is_empty() || line.starts_with("    "));
    let shown: Vec<&str> = shown
        .map(|line| line.get(4..).unwrap_or_default())
        .collect();
    assert!(shown.len() > 10, "found {shown:?}");
    assert_eq!(
        shown.join("\n").trim_end(),
        run.stdout.trim_end(),
        "README.md is not what `{command}` prints"
    );
}

/// A line `...` in a listing stands for omitted lines.
#[test]
fn listings_of_pages_are_what_is_printed() {
    let mut seen = 0;
    for (name, page) in pages() {
        let mut rest = page.as_str();
        while let Some((before, after)) = rest.split_once("` prints\n\n") {
            rest = after;
            let command = before.rsplit('`').next().unwrap_or_default();
            let replayed = ["gnnc emit program ", "gnnc graph sample "];
            if !replayed.iter().any(|start| command.starts_with(start)) {
                continue;
            }
            seen += 1;
            let run = gnnc(command.split_whitespace().skip(1));
            assert_eq!(run.code, Some(0), "{name}: `{command}`: {}", run.stderr);
            let mut printed = run.stdout.lines().map(str::trim);
            let block = after
                .lines()
                .take_while(|line| line.is_empty() || line.starts_with("    "));
            for shown in block
                .map(str::trim)
                .filter(|line| !matches!(*line, "" | "..."))
            {
                assert!(
                    printed.any(|line| line == shown),
                    "{name}: `{command}` does not print `{shown}` (any more, or not in this order)"
                );
            }
        }
    }
    assert!(seen > 5, "found {seen} listings only");
}

#[test]
fn options_that_pages_name_exist() {
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    let mut seen = 0;
    let mut wrong = BTreeSet::new();
    for (name, page) in pages() {
        for command in commands(&page, "gnnc") {
            let words: Vec<&str> = command.split_whitespace().skip(1).collect();
            let Some(first) = words
                .first()
                .filter(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
                .filter(|word| **word != "--version")
            else {
                continue;
            };
            let part = words.get(1).filter(|_| ["trace", "graph"].contains(first));
            // `graph stats|partition` names two commands.
            let part = part.and_then(|part| part.trim_end_matches('\\').split(['|', '\\']).next());
            let path = [Some(*first), part]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>();
            let help = helps.entry(path.join(" ")).or_insert_with(|| {
                let run = gnnc(path.iter().copied().chain(["--help"]));
                assert_eq!(
                    run.code,
                    Some(0),
                    "{name}: `gnnc {}`: {}",
                    path.join(" "),
                    run.stderr
                );
                run.stdout
            });
            let known: BTreeSet<&str> = help
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
                .collect();
            for word in &words {
                let option = word
                    .split(['=', '|', ',', ';'])
                    .next()
                    .unwrap_or_default()
                    .trim_end_matches(['`', ')']);
                if option.starts_with("--") {
                    seen += 1;
                    if !known.contains(option) {
                        wrong.insert(format!("{name}: `{command}`: there is no {option}"));
                    }
                }
            }
        }
    }
    assert!(seen > 50, "found {seen} options only");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn tests_that_pages_name_are_there() {
    let folders = [
        ("gnnc", ""),
        ("gnnc-ir", "ir"),
        ("gnnc-lang", "lang"),
        ("gnnc-graph", "graph"),
        ("gnnc-planner", "planner"),
    ];
    let folders = folders
        .into_iter()
        .chain([("gnnc-codegen", "codegen"), ("gnnc-runtime", "runtime")]);
    let folders: BTreeMap<&str, &str> = folders.collect();
    let mut wrong = BTreeSet::new();
    let mut seen = 0;
    for (name, page) in pages() {
        for command in commands(&page, "cargo") {
            let words: Vec<&str> = command.split_whitespace().collect();
            let after = |option: &'static str| {
                let pairs = words.windows(2).filter(move |pair| pair[0] == option);
                pairs.map(|pair| pair[1]).collect::<Vec<_>>()
            };
            let mut crates: Vec<&str> = after("-p")
                .iter()
                .map(|name| folders.get(name).copied().unwrap_or("?"))
                .collect();
            if words.contains(&"--workspace") {
                crates = folders.values().copied().collect();
            } else if crates.is_empty() {
                crates = vec![""];
            }
            for test in after("--test") {
                seen += 1;
                let places = crates.iter().flat_map(|folder| {
                    let tests = Path::new(ROOT).join(folder).join("tests");
                    [
                        tests.join(format!("{test}.rs")),
                        tests.join(test).join("main.rs"),
                    ]
                });
                if !places.into_iter().any(|path| path.is_file()) {
                    wrong.insert(format!(
                        "{name}: `{command}`: these packages have no test {test}"
                    ));
                }
            }
        }
    }
    assert!(seen > 3, "found {seen} tests only");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
