//! Every example is valid and formatted.

use crate::support::{ROOT, gnnc};

/// The models of `examples/`, sorted.
pub fn models() -> Vec<String> {
    let entries = std::fs::read_dir(format!("{ROOT}/examples")).unwrap();
    let paths = entries.map(|e| e.unwrap().path());
    let mut models: Vec<String> = paths
        .filter(|p| p.extension().is_some_and(|e| e == "gir"))
        .map(|p| p.to_str().unwrap().to_owned())
        .collect();
    models.sort();
    assert!(models.len() > 10);
    models
}

#[test]
fn examples_have_no_errors() {
    let report = gnnc(["check".to_owned()].into_iter().chain(models())).ok();
    assert_eq!(report.lines().count(), models().len());
    assert!(
        report.lines().all(|line| line.ends_with("no errors")),
        "{report}"
    );
}

#[test]
fn examples_have_the_one_true_form() {
    let args = ["fmt".to_owned(), "--check".to_owned()];
    assert_eq!(gnnc(args.into_iter().chain(models())).ok(), "");
}

#[test]
fn examples_are_explained_and_emitted() {
    for model in models() {
        let report = gnnc(["explain", &model]).report();
        assert!(!report.contains("WRONG"), "{report}");
        gnnc(["emit", "program", &model, "--workers", "2"]).report();
    }
}
