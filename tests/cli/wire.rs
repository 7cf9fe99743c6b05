//! Options about what workers send: what they need, where they have no effect, and what plans make of them.

use crate::support::{example, gnnc, refused};

fn train(more: &str) -> Vec<String> {
    let words = more.split_whitespace().map(str::to_owned);
    let model = example("gcnii_cora.gir");
    let first = ["train", &model, "--epochs", "1", "--workers", "4"].map(str::to_owned);
    first.into_iter().chain(words).collect()
}

#[test]
fn options_without_effect_are_refused() {
    for (options, reason) in [
        ("--wire int8", "permit it with --allow quantise"),
        (
            "--placement skip-broadcast --allow stale,quantise --wire int8",
            "found --wire int8 with placement skip-broadcast, which keeps copies of rows and compares them; leave it out",
        ),
        (
            "--placement pipeline --stages 4 --allow stale --cover joint",
            "found --cover joint with placement pipeline",
        ),
        (
            "--placement tensor --node-ranks 2",
            "found --node-ranks 2 with placement tensor",
        ),
        ("--wire int7", "expected one of f32, bf16, int8"),
        (
            "--set hidden=8 --allow quantise --wire int8",
            "nothing here sends rows of 16 numbers or more",
        ),
    ] {
        let words = train(options);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        refused(1, &words, &[reason]);
    }
}

/// With permission, a plan lists each candidate in all formats, and its bytes are those that a run sends.
#[test]
fn plans_try_all_formats_where_they_are_permitted() {
    let model = example("gcnii_cora.gir");
    let plan = |more: &[&str]| {
        let first = [
            "plan",
            &model,
            "--cluster",
            "nodes=2 gpus=2 gpu=t4",
            "--pin",
        ];
        let last = ["--format", "json"];
        let pin = "ranks=4,placement=graph,partitioner=metis,node-ranks=1,cover=rows";
        gnnc([&first[..], &[pin], more, &last].concat()).json()
    };
    let names = |plan: &serde_json::Value| -> Vec<String> {
        let candidates = plan["candidates"].as_array().unwrap().iter();
        let wire = |one: &serde_json::Value| {
            one["parameters"]["wire"]
                .as_str()
                .unwrap_or("f32")
                .to_owned()
        };
        let mut names: Vec<String> = candidates.map(wire).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names(&plan(&[])), ["f32"]);
    let all = plan(&["--allow", "quantise"]);
    assert_eq!(names(&all), ["bf16", "f32", "int8"]);
    for candidate in all["candidates"].as_array().unwrap() {
        let wire = candidate["parameters"]["wire"].as_str().unwrap_or("f32");
        let options = format!(
            "--allow quantise --wire {wire} --partitioner metis --evaluate-every 1 --format json"
        );
        let run = gnnc(train(&options)).json();
        assert_eq!(run["bytes_sent"], candidate["bytes"], "{wire}");
    }
}
