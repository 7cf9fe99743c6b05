//! Forms of whole models: expected results, and equal values.

use crate::{models, numbers, text};
use gnnc_ir::words::types::NamedEdges;
use gnnc_ir::{Graph, Op};
use gnnc_planner::facts::Facts;
use gnnc_planner::forms::{Form, FormError, RegionReport, RewriteOptions, rewrite};
use gnnc_planner::proof::check_explanation;

/// A graph of the size of ogbn-arxiv.
fn facts(features: u32) -> Facts {
    Facts {
        named_edges: NamedEdges::NONE,
        vertices: 169_343,
        edges: 2_315_598,
        features,
        feature_nonzeros: 169_343 * u64::from(features),
        sparse_features: false,
        classes: 40,
        train: true,
    }
}

fn form(graph: &Graph, facts: &Facts) -> Form {
    rewrite(graph, facts, &RewriteOptions::default()).unwrap()
}

/// Number of nodes whose line contains a text.
fn count(graph: &Graph, text: &str) -> usize {
    graph
        .to_string()
        .lines()
        .filter(|line| line.contains(text))
        .count()
}

#[test]
fn gcn_becomes_an_unweighted_sum_between_row_scalings() {
    let model = models::gcn(500, &[16, 7], true);
    let form = form(&model, &facts(500));
    assert!(numbers::agree(&model, &form.graph), "{}", form.graph);
    // only the rows of products travel; nothing else is taken to the edges
    assert_eq!(count(&form.graph, "take"), 2, "{}", form.graph);
    assert_eq!(count(&form.graph, "[E+ x 16] = take"), 1, "{}", form.graph);
    assert_eq!(count(&form.graph, "[E+ x 7] = take"), 1, "{}", form.graph);
    assert_eq!(count(&form.graph, "[E+ x"), 2, "{}", form.graph);
    // each inverse root is computed once for both layers
    assert_eq!(count(&form.graph, "rsqrt"), 2, "{}", form.graph);
    assert!(form.report.after.seconds < form.report.before.seconds / 4.0);
}

#[test]
fn the_narrower_side_of_a_product_travels() {
    let model = models::gcn(100, &[16, 64], true);
    let form = form(&model, &facts(100));
    assert!(numbers::agree(&model, &form.graph));
    // 100 -> 16: product first; 16 -> 64: sum first
    assert_eq!(count(&form.graph, "[E+ x 16] = take"), 2, "{}", form.graph);
    assert_eq!(count(&form.graph, "[E+ x"), 2, "{}", form.graph);
}

#[test]
fn what_no_parameter_changes_is_aggregated_once() {
    let model = models::gcn(100, &[16, 7], false);
    let form = form(&model, &facts(100));
    assert!(numbers::agree(&model, &form.graph));
    // without dropout, the first sum is over the features themselves
    assert_eq!(count(&form.graph, "[E+ x 100] = take"), 1, "{}", form.graph);
    let single = Facts {
        train: false,
        ..facts(100)
    };
    let form = rewrite(&model, &single, &RewriteOptions::default()).unwrap();
    assert_eq!(count(&form.graph, "[E+ x 100]"), 0, "{}", form.graph);
}

#[test]
fn sage_splits_its_matrix_and_sends_the_narrower_product() {
    let model = models::sage(500, &[16, 7], true);
    let form = form(&model, &facts(500));
    assert!(numbers::agree(&model, &form.graph));
    assert_eq!(count(&form.graph, "concat"), 0, "{}", form.graph);
    assert_eq!(count(&form.graph, "[E x 16] = take"), 1, "{}", form.graph);
    assert_eq!(count(&form.graph, "[E x"), 2, "{}", form.graph);

    let constant = models::sage(500, &[16, 7], false);
    let form = rewrite(&constant, &facts(500), &RewriteOptions::default()).unwrap();
    assert!(numbers::agree(&constant, &form.graph));
    assert_eq!(count(&form.graph, "[E x 500] = take"), 1, "{}", form.graph);
}

#[test]
fn gat_scores_edges_by_two_numbers_of_their_ends() {
    let model = models::gat(500, &[(8, 8), (1, 7)]);
    let form = form(&model, &facts(500));
    assert!(numbers::agree(&model, &form.graph));
    assert_eq!(count(&form.graph, "concat"), 0, "{}", form.graph);
    assert_eq!(
        count(&form.graph, "[E+ x 8 x 1] = take E+ dst"),
        1,
        "{}",
        form.graph
    );
    assert_eq!(
        count(&form.graph, "[E+ x 8 x 1] = take E+ src"),
        1,
        "{}",
        form.graph
    );
    // the rows themselves are taken for the weighted sum only
    assert_eq!(
        count(&form.graph, "[E+ x 8 x 8] = take E+ src"),
        1,
        "{}",
        form.graph
    );
    assert_eq!(
        count(&form.graph, "[E+ x 8 x 8] = take E+ dst"),
        0,
        "{}",
        form.graph
    );
    assert_eq!(count(&form.graph, "reduce width sum"), 4, "{}", form.graph);
    assert!(
        !form
            .graph
            .to_string()
            .lines()
            .any(|l| l.contains("[E+") && l.contains("reduce"))
    );
}

#[test]
fn gin_sends_the_product_where_that_is_narrower() {
    let model = models::gin(500, 64, 2);
    let form = form(&model, &facts(500));
    assert!(numbers::agree(&model, &form.graph));
    assert!(form.report.after.seconds <= form.report.before.seconds);

    // However large the model is: 64 columns of products travel, not 8000 of sparse features.
    let documents = Facts {
        named_edges: NamedEdges::NONE,
        vertices: 18_333,
        edges: 163_788,
        feature_nonzeros: 18_333 * 60,
        sparse_features: true,
        ..facts(8000)
    };
    for depth in [1, 3, 9] {
        let form = self::form(&models::gin(8000, 64, depth), &documents);
        let sums = count(&form.graph, "gather");
        let narrow = count(&form.graph, "[E x 64] = take");
        assert_eq!(
            (sums, narrow),
            (depth as usize, depth as usize),
            "{}",
            form.graph
        );
    }
}

#[test]
fn sgc_is_aggregated_before_training() {
    let model = models::sgc(100, 7);
    let form = form(&model, &facts(100));
    assert!(numbers::agree(&model, &form.graph));
    assert_eq!(count(&form.graph, "[E+ x 100] = take"), 2, "{}", form.graph);
    assert_eq!(count(&form.graph, "[E+ x"), 2, "{}", form.graph);
}

#[test]
fn sparse_features_are_multiplied_as_they_are_stored() {
    // Cora: 1.3 % of the features are non-zero; dropout prevents aggregating them only once
    let cora = Facts {
        named_edges: NamedEdges::NONE,
        vertices: 2708,
        edges: 10_556,
        features: 1433,
        feature_nonzeros: 49_216,
        sparse_features: true,
        classes: 7,
        train: true,
    };
    let model = models::gcn(1433, &[16, 7], true);
    let form = form(&model, &cora);
    assert_eq!(count(&form.graph, "[E+ x 16] = take"), 1, "{}", form.graph);
    assert_eq!(count(&form.graph, "[E+ x 1433]"), 0, "{}", form.graph);
}

#[test]
fn a_loop_body_is_one_region_whatever_its_depth() {
    let model = models::gcnii(50, 16, 7, 128);
    let form = form(&model, &facts(50));
    let repeated = |region: &&RegionReport| region.repeats > 1;
    let bodies: Vec<_> = form.report.regions.iter().filter(repeated).collect();
    assert_eq!(bodies.len(), 1, "{:#?}", form.report.regions);
    let body = bodies[0];
    assert_eq!(
        (body.scope.as_str(), body.instances, body.repeats),
        ("gcnii_conv", 1, 128)
    );
    let small = models::gcnii(5, 4, 3, 3);
    let rewritten = rewrite(&small, &facts(5), &RewriteOptions::default()).unwrap();
    assert!(
        numbers::agree(&small, &rewritten.graph),
        "{}",
        rewritten.graph
    );
    let scan = form.graph.nodes.iter().find_map(|node| match &node.op {
        Op::Scan(scan) => Some(scan),
        _ => None,
    });
    let body = &scan.unwrap().body;
    assert_eq!(count(body, "[E+ x"), 1, "{body}");
    assert_eq!(scan.unwrap().count, 128);
    // both inverse roots are the same in every iteration
    assert_eq!(
        (count(body, "rsqrt"), count(&form.graph, "rsqrt")),
        (0, 2),
        "{}",
        form.graph
    );
    assert_eq!(scan.unwrap().consts, 3);
}

#[test]
fn equal_layers_are_saturated_once() {
    let model = models::gcn(32, &[32; 40], true);
    let form = form(&model, &facts(32));
    // the first layer reads the features, and the last has no relu
    assert!(
        form.report.regions.len() <= 4,
        "{}",
        form.report.regions.len()
    );
    let most = form
        .report
        .regions
        .iter()
        .map(|region| region.instances)
        .max()
        .unwrap();
    assert!(most >= 37, "{most}");
    assert!(numbers::agree(&model, &form.graph));
    // every node stays with its layer
    let scopes: Vec<u32> = form.graph.nodes.iter().map(|node| node.scope).collect();
    assert!((1..=40).all(|scope| scopes.contains(&scope)));
}

#[test]
fn forms_are_explained_step_by_step() {
    let options = RewriteOptions {
        explain: true,
        ..RewriteOptions::default()
    };
    for (model, features, must) in [
        (models::gcn(500, &[16, 7], true), 500, "gather-dst-factor"),
        (models::sage(500, &[16, 7], true), 500, "matmul-concat"),
        (models::gat(500, &[(8, 8)]), 500, "attention-split"),
        (models::gin(500, 64, 1), 500, "matmul-add"),
    ] {
        let facts = facts(features);
        let form = rewrite(&model, &facts, &options).unwrap();
        let region = &form.report.regions[0];
        let explanation = region.explanation.as_ref().expect("an explanation");
        check_explanation(explanation, &facts).unwrap();
        for step in &explanation.steps {
            assert!(
                numbers::agree(&explanation.start, &step.graph),
                "{}",
                step.rule
            );
        }
        let used = region.rules.iter().find(|rule| rule.rule == must);
        let used = used.unwrap_or_else(|| panic!("{must} is not among {:?}", region.rules));
        assert!(
            used.applications > 0 && used.saved_seconds > 0.0,
            "{used:?}"
        );
        let text = serde_json::to_string(&form.report).unwrap();
        let read: gnnc_planner::forms::RewriteReport = serde_json::from_str(&text).unwrap();
        assert_eq!(read.regions.len(), form.report.regions.len());
    }
}

#[test]
fn a_wrong_explanation_is_refused() {
    let facts = facts(20);
    let options = RewriteOptions {
        explain: true,
        ..RewriteOptions::default()
    };
    let form = rewrite(&models::gcn(20, &[4], true), &facts, &options).unwrap();
    let right = form.report.regions[0].explanation.clone().unwrap();
    assert!(!right.steps.is_empty());
    let mut wrong = right.clone();
    wrong.steps[0].rule = "neg-neg".into();
    assert!(check_explanation(&wrong, &facts).is_err());
    let mut wrong = right.clone();
    wrong.steps.remove(0);
    assert!(check_explanation(&wrong, &facts).is_err());
    let mut wrong = right;
    wrong.steps[0].rule = "no-such-rule".into();
    let error = check_explanation(&wrong, &facts).unwrap_err();
    assert_eq!(
        error.to_string(),
        "step 1 uses rule `no-such-rule`, which does not exist"
    );
}

#[test]
fn rules_can_be_left_out() {
    let model = models::gcn(500, &[16], true);
    let without = RewriteOptions {
        without: vec!["matmul-gather".into(), "matmul-gather-weighted".into()],
        ..RewriteOptions::default()
    };
    let form = rewrite(&model, &facts(500), &without).unwrap();
    assert_eq!(count(&form.graph, "[E+ x 500] = take"), 1, "{}", form.graph);
    let unknown = RewriteOptions {
        without: vec!["magic".into()],
        ..RewriteOptions::default()
    };
    let error = rewrite(&model, &facts(500), &unknown).unwrap_err();
    assert_eq!(error, FormError::UnknownRule("magic".into()));
}

#[test]
fn the_form_does_not_depend_on_the_order_of_nodes() {
    let lines = [
        "let a = (matmul (gather+ sum dst (mul (take+ src features) n)) w)",
        "let b = (matmul (concat features (mean (take src features))) v)",
        "let c = (relu (matmul features u))",
    ];
    let setup = "features 20\nparams w: 20 x 4, v: 40 x 4, u: 20 x 4\n\
                 let n = (rsqrt (mul (take+ src out_degree+) (take+ dst in_degree+)))\n";
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    let forms: Vec<Form> = (0..20)
        .map(|run| {
            let order = orders[run % orders.len()];
            let body: Vec<&str> = order.iter().map(|i| lines[*i]).collect();
            let text = format!("{setup}{}\nresult (add (add a b) c)\n", body.join("\n"));
            form(&text::graph(&text), &facts(20))
        })
        .collect();
    for other in &forms[1..] {
        assert_eq!(other.graph.to_string(), forms[0].graph.to_string());
        assert_eq!(other.report, forms[0].report);
    }
}

#[test]
fn a_graph_that_breaks_an_invariant_is_refused() {
    let mut graph = models::gcn(20, &[4], true);
    graph.nodes[3].ty.width += 1;
    let error = rewrite(&graph, &facts(20), &RewriteOptions::default()).unwrap_err();
    assert!(matches!(error, FormError::Invalid(_)), "{error}");
    let empty = Graph::new(3);
    assert_eq!(form(&empty, &facts(3)).graph, empty);
}
