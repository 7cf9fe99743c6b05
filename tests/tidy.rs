//! Rules for the repository's files as text: sizes, headings, modules, and names in the pages
//! that must exist.

#[path = "tidy/catch_all.rs"]
mod catch_all;
#[path = "tidy/circles.rs"]
mod circles;

use gnnc::lang::diagnostic::CODES;
use gnnc::planner::rules;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const MOST_LINES: usize = 500;
/// Folders of crates; `""` is the root package.
const CRATES: &[&str] = &[
    "", "files", "ir", "lang", "graph", "planner", "codegen", "runtime", "fuzz", "python",
];
/// Names of folders with generated files.
const SKIPPED: &[&str] = &[
    "target",
    "corpus",
    "artifacts",
    "coverage",
    "__pycache__",
    "node_modules",
];

#[test]
fn source_files_start_with_what_they_are() {
    check(sources().filter_map(|(name, text)| {
        let first = text.lines().next().unwrap_or_default();
        let fine = first
            .strip_prefix("//! ")
            .is_some_and(|says| !says.trim().is_empty());
        (!fine).then(|| format!("{name}: the first line is `{first}`, expected `//! ..`"))
    }));
}

#[test]
fn source_files_are_short() {
    check(sources().filter_map(|(name, text)| {
        let lines = text.lines().count();
        let help = "split it by the nouns in it";
        (lines > MOST_LINES)
            .then(|| format!("{name}: {lines} lines, expected at most {MOST_LINES}; {help}"))
    }));
}

#[test]
fn nothing_is_left_to_do() {
    // Built here, so that this file does not contain them.
    let marks = ["todo", "unimplemented", "dbg"].map(|name| format!("{name}!"));
    check(sources().flat_map(|(name, text)| {
        let found = |(i, line): (usize, &str)| {
            let code = line.split("//").next().unwrap_or_default();
            let mark = marks.iter().find(|mark| has_macro(code, mark))?;
            Some(format!("{name}:{}: holds `{mark}`", i + 1))
        };
        text.lines()
            .enumerate()
            .filter_map(found)
            .collect::<Vec<_>>()
    }));
}

#[test]
fn rooms_do_not_import_each_other_in_a_circle() {
    check(CRATES.iter().flat_map(|folder| {
        let root = Path::new(ROOT).join(folder).join("src");
        let mut files = BTreeSet::new();
        walk(&root, &mut files);
        files.retain(|path| is_rust(path));
        let files: Vec<_> = files
            .into_iter()
            .map(|path| (path.clone(), read(&path)))
            .collect();
        let circles = circles::circles(&root, &files);
        let line = |circle| format!("{}: these import each other: {circle}", name(&root));
        circles.into_iter().map(line).collect::<Vec<_>>()
    }));
}

#[test]
fn matches_over_closed_enums_name_every_variant() {
    let text = |(_, text): (String, String)| text;
    let all: String = sources().map(text).collect();
    for name in catch_all::CLOSED {
        let declared = all.contains(&format!("\npub enum {name} {{"));
        assert!(declared, "there is no enum `{name}`; mend the list");
    }
    let in_tests = |name: &str| {
        name.split('/')
            .any(|part| ["tests", "tests.rs"].contains(&part))
    };
    let help = "catches variants of a closed enum; name them, ask about one with `if let`, or ask \
                a method of the enum that names them";
    check(
        sources()
            .filter(|(name, _)| name.contains("src/") && !in_tests(name))
            .flat_map(|(name, text)| match catch_all::catch_alls(&text) {
                Ok(lines) => lines
                    .iter()
                    .map(|line| format!("{name}:{line}: {help}"))
                    .collect(),
                Err(error) => vec![format!("{name}: {error}")],
            }),
    );
}

#[test]
fn every_source_file_is_a_module() {
    let mut roots = Vec::new();
    let mut files = BTreeSet::new();
    for folder in CRATES {
        let folder = Path::new(ROOT).join(folder);
        roots.extend(["src/lib.rs", "src/main.rs"].map(|root| folder.join(root)));
        for part in ["src/bin", "tests", "benches", "examples", "fuzz_targets"] {
            for path in entries(&folder.join(part)) {
                roots.push(path.join("main.rs"));
                roots.push(path);
            }
        }
        for part in ["src", "tests", "benches", "examples", "fuzz_targets"] {
            walk(&folder.join(part), &mut files);
        }
    }
    files.retain(|path| is_rust(path));
    let mut reached = BTreeSet::new();
    roots.retain(|path| is_rust(path) && path.is_file());
    let mut waiting: Vec<(PathBuf, bool)> = roots.into_iter().map(|path| (path, true)).collect();
    assert!(
        waiting.len() > CRATES.len(),
        "found few crate roots: {waiting:?}"
    );
    while let Some((path, root)) = waiting.pop() {
        let folder = path.parent().expect("a folder").to_owned();
        let folder = match root || path.ends_with("mod.rs") {
            true => folder,
            false => folder.join(path.file_stem().expect("a name")),
        };
        let text = read(&path);
        let beside = path.parent().expect("a folder");
        waiting.extend(named_paths(&text).map(|p| (beside.join(p), false)));
        for module in modules(&text) {
            let places = [
                folder.join(format!("{module}.rs")),
                folder.join(&module).join("mod.rs"),
            ];
            waiting.extend(
                places
                    .into_iter()
                    .filter(|p| p.is_file())
                    .map(|p| (p, false)),
            );
        }
        reached.insert(path);
    }
    let lost = files.difference(&reached);
    check(lost.map(|path| format!("{}: no `mod` declares it", name(path))));
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    let places = ["home", "root", "work", "Users"].map(|place| format!("/{place}/"));
    check(texts().flat_map(|(name, text)| {
        let found = |(i, line): (usize, &str)| {
            let place = places.iter().find(|place| begins_path(line, place))?;
            Some(format!("{name}:{}: an absolute path, `{place}..`", i + 1))
        };
        text.lines()
            .enumerate()
            .filter_map(found)
            .collect::<Vec<_>>()
    }));
}

#[test]
fn every_rule_and_every_diagnostic_is_documented() {
    let rewrites = read(&Path::new(ROOT).join("docs/rewrites.md"));
    let language = read(&Path::new(ROOT).join("docs/language.md"));
    let row = |page: &str, start: String| page.lines().any(|line| line.starts_with(&start));
    let rules = rules::table()
        .filter(|rule| !row(&rewrites, format!("| `{}` |", rule.name)))
        .map(|rule| format!("docs/rewrites.md: no row for the rule `{}`", rule.name));
    let codes = CODES
        .iter()
        .filter(|code| !row(&language, format!("| {} | {} |", code.code, code.meaning)))
        .map(|code| {
            format!(
                "docs/language.md: no row `| {} | {} |`",
                code.code, code.meaning
            )
        });
    let is_code = |word: &&str| {
        let (letter, digits) = word.split_at(word.len().min(1));
        matches!(letter, "E" | "W") && digits.len() == 4 && digits.parse::<u16>().is_ok()
    };
    let unknown = language
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(' ').next())
        .filter(is_code)
        .filter(|word| !CODES.iter().any(|code| code.code == *word))
        .map(|word| format!("docs/language.md: there is no code {word}"));
    check(rules.chain(codes).chain(unknown));
}

#[test]
fn every_example_is_mentioned_in_a_page() {
    let pages: String = texts()
        .filter(|(name, _)| name.ends_with(".md"))
        .map(|(_, text)| text)
        .collect();
    let examples = entries(&Path::new(ROOT).join("examples"));
    let models: Vec<String> = examples
        .iter()
        .map(|path| name(path))
        .filter(|name| name.ends_with(".gir"))
        .collect();
    assert!(!models.is_empty(), "there are no examples");
    let file = |model: &&String| !pages.contains(model.trim_start_matches("examples/"));
    let lost = models.iter().filter(file);
    check(lost.map(|model| format!("{model}: no page mentions it")));
}

#[test]
fn files_that_pages_name_are_there() {
    let folders = [
        "files", "ir", "lang", "graph", "planner", "codegen", "runtime", "src", "tests", "docs",
        "examples", "fuzz", "benches", "scripts", "python",
    ];
    let pages = texts().filter(|(name, _)| name.ends_with(".md"));
    check(pages.flat_map(|(name, text)| {
        let quoted = text.split('`').skip(1).step_by(2);
        let is_path = |word: &&str| {
            let plain =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "/._-".contains(c);
            let starts = |f: &&str| {
                word.strip_prefix(f)
                    .is_some_and(|rest| rest.starts_with('/'))
            };
            // With an extension or a slash, so that types such as `ir/graph` do not count.
            let is_file = word.ends_with('/')
                || word
                    .rsplit('/')
                    .next()
                    .is_some_and(|last| last.contains('.'));
            folders.iter().any(starts) && is_file && word.chars().all(plain)
        };
        let lost = |word: &&str| !Path::new(ROOT).join(word).exists();
        let lost: BTreeSet<&str> = quoted.filter(is_path).filter(lost).collect();
        lost.into_iter()
            .map(|word| format!("{name}: names `{word}`, which is not there"))
            .collect::<Vec<_>>()
    }));
}

/// Fails with all problems at once.
fn check(problems: impl Iterator<Item = String>) {
    let problems: Vec<String> = problems.collect();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// Names and texts of the Rust files.
fn sources() -> impl Iterator<Item = (String, String)> {
    let mut rust = texts()
        .filter(|(name, _)| is_rust(Path::new(name)))
        .peekable();
    assert!(rust.peek().is_some(), "there are no source files");
    rust
}

/// Names and contents of text files.
fn texts() -> impl Iterator<Item = (String, String)> {
    let mut files = BTreeSet::new();
    walk(Path::new(ROOT), &mut files);
    files.into_iter().filter_map(|path| {
        let text = String::from_utf8(fs::read(&path).ok()?).ok()?;
        Some((name(&path), text))
    })
}

fn walk(folder: &Path, files: &mut BTreeSet<PathBuf>) {
    for path in entries(folder) {
        // In a linked worktree, `.git` is a file that names its folder.
        if path.is_file() && !path.ends_with(".git") {
            files.insert(path);
        } else if path.is_dir() && !path.is_symlink() {
            let name = path
                .file_name()
                .and_then(|n| n.to_str())
                .unwrap_or_default();
            // `.ci` and similar folders belong to the repository as well.
            let made = SKIPPED.contains(&name) || name == ".git" || name.starts_with(".venv");
            if !made {
                walk(&path, files);
            }
        }
    }
}

/// Entries of a folder, sorted; none if it does not exist.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = found.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Path relative to the root.
fn name(path: &Path) -> String {
    let inner = path.strip_prefix(ROOT).unwrap_or(path);
    inner.display().to_string()
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "rs")
}

/// Whether code calls this macro, not one whose name ends the same way.
fn has_macro(code: &str, call: &str) -> bool {
    let named = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(call)
        .any(|(at, _)| !code[..at].ends_with(named))
}

/// Whether a line holds an absolute path that starts with `place`, not a longer path that
/// contains it.
fn begins_path(line: &str, place: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || "._-~}/".contains(c);
    line.match_indices(place)
        .any(|(at, _)| !line[..at].ends_with(inside))
}

/// Files that `#[path = ".."]` names.
fn named_paths(text: &str) -> impl Iterator<Item = &str> {
    let named = |line: &'_ str| line.trim().starts_with("#[path = ");
    let lines = text.lines().filter(move |line| named(line));
    lines.filter_map(|line| line.split('"').nth(1))
}

/// Modules declared in a file that have their own file.
fn modules(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines().filter_map(|line| {
        let line = line.trim();
        let declared = match line.strip_prefix("pub") {
            Some(rest) => rest
                .split_once("mod ")
                .map(|(visible, rest)| (visible.trim(), rest)),
            None => line.strip_prefix("mod ").map(|rest| ("", rest)),
        };
        let (visible, rest) = declared?;
        let fine = visible.is_empty() || visible.starts_with('(') && visible.ends_with(')');
        let module = rest
            .split(';')
            .next()
            .filter(|_| fine && rest.contains(';'))?;
        Some(module.trim().to_owned())
    })
}
