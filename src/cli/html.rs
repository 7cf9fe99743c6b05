//! `--html`: a page with pictures of what a command found. Everything it needs is in its one file.

use super::files::{replace, writable};
use super::output::Failure;
use clap::Args;
use gnnc::ir::plan::Plan;
use gnnc::pictures::Pictured;
use gnnc::planner::forms::RewriteReport;
use gnnc::planner::rules;
use gnnc::{Compiled, Error, Loaded};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// The page without its style, script and data.
const FRAME: &str = include_str!("../html/page.html");
const STYLE: &str = include_str!("../html/style.css");
/// The script, in the order in which it runs.
const SCRIPTS: [&str; 11] = [
    include_str!("../html/units.js"),
    include_str!("../html/elements.js"),
    include_str!("../html/charts.js"),
    include_str!("../html/ranking.js"),
    include_str!("../html/lanes.js"),
    include_str!("../html/timeline.js"),
    include_str!("../html/memory.js"),
    include_str!("../html/sections.js"),
    include_str!("../html/run.js"),
    include_str!("../html/sweep.js"),
    include_str!("../html/main.js"),
];
/// Most candidates of a plan on a page, the best ones.
const MOST_CANDIDATES: usize = 1000;

/// The page that a command writes.
#[derive(Args)]
pub struct HtmlArgs {
    /// Write a page with pictures to this file: one file, which needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl HtmlArgs {
    /// The file, if one is asked for.
    pub fn file(&self) -> Option<&Path> {
        self.html.as_deref()
    }

    /// Checks the file before anything is read.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn fits(&self) -> Result<(), Failure> {
        match &self.html {
            Some(path) => writable(path, "page"),
            None => Ok(()),
        }
    }

    /// Compiles a model; for a page, with what each rewrite saves.
    ///
    /// # Errors
    /// As [`gnnc::compile`].
    pub fn compile(&self, loaded: &Loaded) -> Result<Compiled, Error> {
        match self.html {
            Some(_) => gnnc::compile_explained(&loaded.model, &loaded.workload),
            None => gnnc::compile(&loaded.model, &loaded.workload),
        }
    }
}

/// What a page shows.
pub struct Page {
    data: Map<String, Value>,
    left_out: Vec<String>,
}

impl Page {
    /// A page of a command about a model and its graph.
    pub fn new(command: &str, loaded: &Loaded) -> Self {
        let mut graph = json!(loaded.workload);
        for large in ["column_nonzeros", "reuse", "partitions", "replication"] {
            if let Some(facts) = graph.as_object_mut() {
                facts.remove(large);
            }
        }
        let mut page = Self {
            data: Map::new(),
            left_out: Vec::new(),
        };
        page.set("format", json!("gnnc-page"));
        page.set("version", json!(1));
        page.set("gnnc", json!(gnnc::version()));
        page.set("command", json!(command));
        page.set("model", json!(loaded.model.name));
        page.set("graph", graph);
        page
    }

    /// Adds a value.
    pub fn set(&mut self, name: &str, value: Value) {
        self.data.insert(name.to_owned(), value);
    }

    /// Says what is not on the page, in a sentence.
    pub fn leave_out(&mut self, what: String) {
        self.left_out.push(what);
    }

    /// Adds a plan, and what its rewrites saved.
    pub fn plan(&mut self, plan: &Plan, compiled: &Compiled) {
        let mut value = json!(plan);
        if let Some(candidates) = value["candidates"].as_array_mut() {
            let all = candidates.len();
            candidates.truncate(MOST_CANDIDATES);
            if all > MOST_CANDIDATES {
                self.left_out.push(format!(
                    "The ranking has the best {MOST_CANDIDATES} of {all} candidates."
                ));
            }
            for (value, candidate) in candidates.iter_mut().zip(&plan.candidates) {
                value["name"] = json!(candidate.name());
                let mut needs: Vec<&str> = (candidate.relaxations.iter())
                    .map(|relaxation| relaxation.permission().name())
                    .collect();
                needs.dedup();
                value["needs"] = json!(needs);
            }
        }
        self.set("plan", value);
        self.set("rewrites", rewrites(&compiled.form.report));
    }

    /// Adds a candidate in detail, with its number in the plan.
    pub fn pictured(&mut self, pictured: &Pictured, number: usize) {
        let mut value = json!(pictured);
        value["number"] = json!(number);
        self.set("pictured", value);
    }

    /// Writes the page.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(mut self, path: &Path) -> Result<(), Error> {
        let left_out = json!(self.left_out);
        self.set("left_out", left_out);
        replace(path, page(&Value::Object(self.data)).as_bytes())
    }
}

/// The rewrites of a model, with their equations and without the operators of each step.
fn rewrites(report: &RewriteReport) -> Value {
    let mut value = json!(report);
    for region in value["regions"].as_array_mut().into_iter().flatten() {
        if let Some(region) = region.as_object_mut() {
            region.remove("explanation");
        }
        for used in region["rules"].as_array_mut().into_iter().flatten() {
            let rule = used["rule"].as_str().and_then(rules::find);
            used["equation"] = json!(rule.map(|rule| rule.equation));
        }
    }
    value
}

/// The text of a page. Data cannot end its own element: every `<` of it is written as an escape of JSON.
fn page(data: &Value) -> String {
    let data = data.to_string().replace('<', "\\u003c");
    let script = SCRIPTS.concat();
    let parts = [
        ("/*STYLE*/", STYLE),
        ("/*DATA*/", &data),
        ("/*SCRIPT*/", &script),
    ];
    let mut text = String::with_capacity(FRAME.len() + STYLE.len() + data.len() + script.len());
    let mut rest = FRAME;
    for (mark, content) in parts {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        text.push_str(before);
        text.push_str(content);
        rest = after;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_cannot_leave_its_element() {
        let hostile = "</script><script>alert(1)</script><!-- /*SCRIPT*/";
        let text = page(&json!({ "model": hostile, "left_out": ["/*STYLE*/"] }));
        let begin = text.find("application/json\">").unwrap();
        let data = text[begin..].split_once('>').unwrap().1;
        let data = data.split_once("</script>").unwrap().0;
        let read: Value = serde_json::from_str(data).unwrap();
        assert_eq!(read["model"], hostile);
        assert_eq!(text.matches("alert(1)").count(), 1);
        // The page's own script follows, whole.
        assert!(text.contains(SCRIPTS[10]));
    }

    #[test]
    fn the_frame_has_each_place_once_in_order() {
        let places = ["/*STYLE*/", "/*DATA*/", "/*SCRIPT*/"].map(|mark| {
            assert_eq!(FRAME.matches(mark).count(), 1, "{mark}");
            FRAME.find(mark)
        });
        assert!(places.is_sorted());
    }
}
