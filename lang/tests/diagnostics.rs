//! Runs the examples of `docs/diagnostics.md`: in each section the first file reports the code, the second reports nothing.

use gnnc_ir::workload::GraphFacts;
use gnnc_lang::check::elaborate;
use gnnc_lang::diagnostic::CODES;
use gnnc_lang::syntax::parse;
use std::fs;
use std::path::Path;

/// A fenced block of the page.
struct Example<'a> {
    text: &'a str,
    /// Model parameters from `set=NAME=VALUE` on the line of the opening fence.
    set: Vec<(String, f64)>,
}

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/diagnostics.md");
    fs::read_to_string(path).expect("the page of diagnostics")
}

/// The sections of the page, each with the code in its heading.
fn sections(page: &str) -> Vec<(&str, &str)> {
    let sections = page.split("\n## ").skip(1);
    sections
        .map(|section| {
            section
                .split_once(": ")
                .expect("a heading `## CODE: title`")
        })
        .collect()
}

fn examples(section: &str) -> Vec<Example<'_>> {
    let blocks = section.split("\n```gir").skip(1);
    blocks
        .map(|block| {
            let (info, rest) = block.split_once('\n').expect("a line after the fence");
            let (text, _) = rest.split_once("```\n").expect("a closing fence");
            let set = info.split_whitespace().map(setting).collect();
            Example { text, set }
        })
        .collect()
}

/// `set=NAME=VALUE`
fn setting(word: &str) -> (String, f64) {
    let pair = word.strip_prefix("set=").and_then(|w| w.split_once('='));
    let (name, value) = pair.expect("`set=NAME=VALUE` behind `gir`");
    (name.to_owned(), value.parse().expect("a number"))
}

/// The codes that an example reports, in order.
fn reported(example: &Example) -> Vec<&'static str> {
    let (module, mut diagnostics) = parse(example.text);
    let source = module.graph_source();
    let facts = source
        .and_then(|s| s.facts())
        .unwrap_or(GraphFacts::PLACEHOLDER);
    diagnostics.extend(elaborate(&module, &facts, &example.set).1);
    diagnostics.iter().map(|d| d.code).collect()
}

#[test]
fn every_code_has_one_section_in_order() {
    let page = page();
    let headings: Vec<&str> = sections(&page).iter().map(|(code, _)| *code).collect();
    let codes: Vec<&str> = CODES.iter().map(|c| c.code).collect();
    assert_eq!(headings, codes);
}

#[test]
fn examples_report_what_their_section_says() {
    let page = page();
    for (code, section) in sections(&page) {
        let examples = examples(section);
        let [wrong, right] = &examples[..] else {
            panic!("{code}: {} examples, expected 2", examples.len())
        };
        let found = reported(wrong);
        assert_eq!(found.first(), Some(&code), "{code}: reported {found:?}");
        let found = reported(right);
        assert!(
            found.is_empty(),
            "{code}: the second example reports {found:?}"
        );
    }
}
