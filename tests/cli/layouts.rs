//! `explain --layouts`: every layout and every message of a plan names the decision that it comes from.

use crate::support::{example, gnnc};
use serde_json::Value;

const CLUSTER: [&str; 2] = ["--cluster", "nodes=2 gpus=4 gpu=t4"];

/// What is said of the best candidate, and the plan.
fn explained(model: &str, more: &[&str]) -> (Value, Value) {
    let model = example(model);
    let args = |command: &[&'static str]| {
        let mut args: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        args.push(model.clone());
        args.extend(CLUSTER.iter().chain(more).map(|word| (*word).to_owned()));
        args.extend(["--format", "json"].map(str::to_owned));
        args
    };
    let found = gnnc(args(&["explain", "--layouts"])).json();
    let plan = gnnc(args(&["plan"])).json();
    let chosen = plan["chosen"].as_u64().unwrap() as usize;
    (found, plan["candidates"][chosen].clone())
}

#[test]
fn bytes_of_messages_are_those_of_the_plan() {
    let sampled = "sample --batch 64 --fanouts 5,5";
    for (model, pin, allow) in [
        ("gat_cora.gir", "placement=graph", ""),
        ("gcn_cora.gir", "placement=graph,cover=joint", ""),
        (
            "gcnii_cora.gir",
            "placement=graph,node-ranks=4,wire=int8",
            "quantise",
        ),
        (
            "gcnii_cora.gir",
            "placement=graph,node-ranks=4,cover=joint",
            "",
        ),
        ("gat_ppr_citeseer.gir", "placement=mixed", ""),
        ("gcn_cora.gir", "placement=tensor,chunks=4", ""),
        (
            "gcn_cora.gir",
            "placement=tensor,partitioner=metis,slices=2",
            "",
        ),
        ("gcn_cora.gir", "placement=push-pull", ""),
        ("sage_cora.gir", "placement=broadcast", ""),
        ("gcnii_cora.gir", "placement=hybrid,stages=2", "stale"),
        ("sage_cora.gir", "placement=minibatch", sampled),
    ] {
        let pin = format!("{pin},ranks=8");
        let mut more = vec!["--pin", &pin];
        if !allow.is_empty() {
            more.push("--allow");
            more.extend(allow.split(' '));
        }
        let (found, candidate) = explained(model, &more);
        let messages = found["messages"].as_array().unwrap();
        let bytes = messages.iter().map(|one| one["bytes"].as_u64().unwrap());
        assert_eq!(
            bytes.sum::<u64>(),
            candidate["bytes"].as_u64().unwrap(),
            "{model} {pin}"
        );
        for message in messages {
            let decisions = message["decisions"].as_array().unwrap();
            assert!(!decisions.is_empty(), "{message}");
            assert!(!message["tensor"].as_str().unwrap().is_empty(), "{message}");
        }
    }
}

/// What was asked for is a pin, what was not is found by the search, and what cannot be is forced.
#[test]
fn decisions_have_origins() {
    let kinds = |found: &Value| -> Vec<(String, String, String)> {
        let decisions = found["decisions"].as_array().unwrap().iter();
        let layouts = found["layouts"].as_array().unwrap().iter();
        let one = |of: &Value| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let value = if of["value"].is_null() {
                &of["layout"]
            } else {
                &of["value"]
            };
            (text(&of["name"]), text(value), text(&of["origin"]["kind"]))
        };
        decisions.chain(layouts).map(one).collect()
    };
    let has = |found: &[(String, String, String)], name: &str, value: &str, kind: &str| {
        let known = found
            .iter()
            .any(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str()) == (name, value, kind));
        assert!(known, "no {name} {value} {kind} in {found:?}");
    };
    let pinned = ["--pin", "ranks=8,cover=joint,partitioner=metis"];
    let (found, _) = explained("gcn_cora.gir", &pinned);
    let of = kinds(&found);
    has(&of, "cover", "joint", "pin");
    has(&of, "partitioner", "metis", "pin");
    has(&of, "placement", "graph", "search");
    has(&of, "features", "rows", "search");
    let (found, _) = explained(
        "gat_ppr_citeseer.gir",
        &["--pin", "placement=mixed,ranks=8"],
    );
    let of = kinds(&found);
    has(&of, "placement", "mixed", "pin");
    let layouts = |layout: &str| {
        of.iter()
            .filter(|(_, value, kind)| value == layout && kind == "search")
            .count()
    };
    assert!(layouts("rows") > 0 && layouts("columns") > 0, "{of:?}");
    let (found, _) = explained("gcn_cora.gir", &["--pin", "placement=tensor,ranks=8"]);
    has(&kinds(&found), "features", "rows", "follows");
}

#[test]
fn the_tables_are_as_documented() {
    let model = example("gcnii_128_reddit.gir");
    let args = ["explain", "--layouts", &model, "--gpus", "64"];
    insta::assert_snapshot!(gnnc(args).report());
}
