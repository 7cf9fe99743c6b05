//! The top-level modules of a crate do not import each other in cycles.
//!
//! A room is a top-level module with all files below it. Files of one room may import each
//! other in cycles, but a cycle of files across rooms is refused. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A module's path below its crate's root: `["program", "verify"]`.
type Module = Vec<String>;

/// What each module of a crate imports from its own crate.
struct Imports(BTreeMap<Module, BTreeSet<Module>>);

/// The cycles of files across rooms of a crate, one line each.
pub fn circles(root: &Path, files: &[(std::path::PathBuf, String)]) -> Vec<String> {
    let imports = Imports::of(root, files);
    let circles = imports.0.keys().filter_map(|start| {
        let around: Vec<&Module> = imports
            .reached(start)
            .into_iter()
            .filter(|other| imports.reached(other).contains(start))
            .collect();
        let rooms: BTreeSet<&String> = around.iter().filter_map(|module| module.first()).collect();
        let first = around.first() == Some(&start);
        let names: Vec<String> = around.iter().map(|module| module.join("::")).collect();
        (first && rooms.len() > 1).then(|| names.join(", "))
    });
    circles.collect()
}

impl Imports {
    fn of(root: &Path, files: &[(std::path::PathBuf, String)]) -> Self {
        let module = |path: &Path| -> Option<Module> {
            let inner = path.strip_prefix(root).ok()?.with_extension("");
            let mut parts: Module = inner.iter().map(|p| p.to_string_lossy().into()).collect();
            if parts
                .last()
                .is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str()))
            {
                parts.pop();
            }
            (!parts.is_empty() && !parts.contains(&"tests".to_owned())).then_some(parts)
        };
        let known: BTreeMap<Module, String> = files
            .iter()
            .filter_map(|(path, text)| Some((module(path)?, code(text))))
            .collect();
        let facade = files.iter().find(|(path, _)| path.ends_with("lib.rs"));
        let facade = facade.map_or(String::new(), |(_, text)| code(text));
        let names = Names::of(known, &facade);
        let imported = |(from, code): (&Module, &String)| {
            let found = paths(code)
                .into_iter()
                .filter_map(|path| names.target(from, &path, 0));
            (from.clone(), found.filter(|to| to != from).collect())
        };
        Self(names.modules.iter().map(imported).collect())
    }

    /// The modules reachable from one; includes itself only if it is on a cycle.
    fn reached<'a>(&'a self, from: &'a Module) -> BTreeSet<&'a Module> {
        let mut found = BTreeSet::new();
        let mut waiting: Vec<&Module> = self.0[from].iter().collect();
        while let Some(next) = waiting.pop() {
            if found.insert(next) {
                waiting.extend(&self.0[next]);
            }
        }
        found
    }
}

/// The code of a file, without comments and without the tests at its end.
fn code(text: &str) -> String {
    let tests = "#[cfg(test)]\nmod tests {";
    let text = text.split(tests).next().unwrap_or_default();
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// What the names of a crate stand for.
struct Names {
    /// The code of each module.
    modules: BTreeMap<Module, String>,
    /// What a module (the crate, if empty) exports again under a name: the path that it gives.
    exported: BTreeMap<(Module, String), Vec<String>>,
}

impl Names {
    fn of(modules: BTreeMap<Module, String>, facade: &str) -> Self {
        let mut exported = BTreeMap::new();
        let root = (Module::new(), facade.to_owned());
        for (module, code) in modules.iter().chain([(&root.0, &root.1)]) {
            for (at, _) in code.match_indices("pub use ") {
                let mut found = Vec::new();
                expand(&code[at + "pub use ".len()..], Vec::new(), &mut found);
                for path in found {
                    let name = path.last().cloned().unwrap_or_default();
                    exported.insert((module.clone(), name), path);
                }
            }
        }
        Self { modules, exported }
    }

    /// The module that a path refers to, through at most five exports, if it belongs to the crate.
    fn target(&self, from: &Module, path: &[String], depth: u32) -> Option<Module> {
        let supers = path.iter().take_while(|part| *part == "super").count();
        let (mut at, rest): (Module, &[String]) = match path.first()?.as_str() {
            "crate" => (Vec::new(), &path[1..]),
            "self" => (from.clone(), &path[1..]),
            "super" => (
                from[..from.len().checked_sub(supers)?].to_vec(),
                &path[supers..],
            ),
            _ => {
                let child = [&from[..], &path[..1]].concat();
                self.modules.contains_key(&child).then_some(())?;
                (from.clone(), path)
            }
        };
        for part in rest {
            at.push(part.clone());
            if !self.modules.contains_key(&at) {
                at.pop();
                let export = self.exported.get(&(at.clone(), part.clone()));
                if let Some(path) = export.filter(|_| depth < 5) {
                    return self.target(&at, path, depth + 1);
                }
                break;
            }
        }
        self.modules.contains_key(&at).then_some(at)
    }
}

/// The paths that start with `crate`, `super` or `self`, including those in braces.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                expand(&code[at..], Vec::new(), &mut found);
            }
        }
    }
    found
}

/// Reads one tree of a path, such as `a::{b, c::d}`, and returns the text after it.
fn expand<'a>(text: &'a str, mut path: Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    let mut rest = text.trim_start();
    loop {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let (word, behind) = rest.split_at(end.unwrap_or(rest.len()));
        path.push(word.to_owned());
        let Some(next) = behind.strip_prefix("::") else {
            found.push(path);
            return behind;
        };
        let Some(mut inner) = next.trim_start().strip_prefix('{') else {
            rest = next;
            continue;
        };
        loop {
            inner = expand(inner, path.clone(), found).trim_start();
            // Ignores `as name` and `*`.
            inner = inner.trim_start_matches(|c: char| !",}".contains(c));
            match inner.strip_prefix(',').map(str::trim_start) {
                Some(more) if !more.starts_with('}') => inner = more,
                Some(more) => return &more[1..],
                None => return inner.get(1..).unwrap_or_default(),
            }
        }
    }
}

#[test]
fn a_circle_is_found() {
    let file = |name: &str, text: &str| (Path::new("src").join(name), text.to_owned());
    let files = [
        file("lib.rs", "mod a;\nmod b;\nmod c;"),
        file("a.rs", "use crate::{b::deep::{self, X as Y}, c::*};"),
        file("b/mod.rs", "pub mod deep;"),
        file("b/deep.rs", "use super::super::a::Z; // crate::c"),
        file("c.rs", "#[cfg(test)]\nmod tests {\n    use crate::a;\n}"),
    ];
    assert_eq!(circles(Path::new("src"), &files), ["a, b::deep"]);
    let files = [
        file("lib.rs", "mod a;\nmod b;\npub use b::{Thing, Other};"),
        file("a.rs", "use crate::{Other, Thing};"),
        file("b/mod.rs", "mod deep;\npub use deep::Thing;"),
        file("b/deep.rs", "use crate::a::X;"),
    ];
    assert_eq!(circles(Path::new("src"), &files), ["a, b::deep"]);
}
