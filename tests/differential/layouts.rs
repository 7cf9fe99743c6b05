//! What can be divided by columns, what cannot, and where ranks must communicate.

use crate::check::Case;
use crate::data::{Shape, planted};
use gnnc::ir::plan::Placement;
use gnnc::ir::program::instr;
use gnnc::ir::program::{Instr, Program};
use gnnc::planner::layout::uncut;
use gnnc::planner::placement::PlacementSpec;

const RANKS: u32 = 2;

const LAYERS: &str = "
    layer message_norm(h) {
      let m = h@src - h@dst
      return gather(m * rsqrt(sum_cols(m * m) + 1), sum)
    }
    layer class_softmax(h) {
      let m = exp(tanh(h@src - h@dst))
      return gather(m / sum_cols(m), sum)
    }
    layer rotated(h) {
      let m = tanh(h@src * h@dst)
      return gather(m * concat(slice(m, 1, width(h) - 1), slice(m, 0, 1)), sum)
    }
    layer mixed(h) {
      let w = parameter(width(h), rows = width(h), name = \"w\")
      return gather(matmul(tanh(h@src * h@dst), w), max)
    }";

fn case(body: &str) -> Case {
    ending(body, "linear(h, classes)")
}

fn ending(body: &str, logits: &str) -> Case {
    let shape = Shape {
        vertices: 64,
        edges: 300,
        directed: true,
        sparse: false,
        seed: 4,
    };
    let end = format!("loss cross_entropy({logits}, labels, on = train)");
    Case::new(LAYERS, &format!("{body}\n{end}"), planted(shape))
}

fn program(case: &Case, placement: Placement) -> Program {
    case.compiled
        .program(&PlacementSpec::new(placement, RANKS))
        .unwrap()
}

/// The communications of an epoch, by name, in order.
fn meetings(program: &Program) -> Vec<&'static str> {
    fn of(code: &[Instr], program: &Program, found: &mut Vec<&'static str>) {
        for instr in code {
            match instr {
                Instr::Repeat(instr::Repeat { body, .. }) => of(body, program, found),
                Instr::Begin(transfer) => found.push(transfer.what.name(program)),
                instr if instr.communicates() => found.push(instr.name(program)),
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    of(&program.step, program, &mut found);
    found
}

/// Expects an aggregation that mixes columns to stay by rows, forward and backward, with this
/// reason.
#[track_caller]
fn stays_by_rows(layer: &str, reason: &str) {
    let case = case(&format!("let h = x |> linear(8) |> tanh |> {layer}"));
    let reasons = uncut(&case.compiled.training.backward.graph, RANKS);
    assert!(
        reasons.iter().any(|uncut| uncut.why.contains(reason)),
        "{layer}: {reasons:?}"
    );
    let meetings = meetings(&program(&case, Placement::Tensor));
    assert!(!meetings.contains(&"split"), "{layer}: {meetings:?}");
    assert!(meetings.contains(&"halo-exchange"), "{layer}: {meetings:?}");
}

#[test]
fn norms_of_messages_are_not_cut() {
    stays_by_rows(
        "message_norm",
        "it adds a partial sum over columns to a complete tensor",
    );
}

#[test]
fn softmax_over_classes_is_not_cut() {
    stays_by_rows(
        "class_softmax",
        "div cannot be cut: it combines a sum over columns",
    );
}

#[test]
fn columns_that_move_are_not_cut() {
    stays_by_rows("rotated", "mixes or moves columns");
}

#[test]
fn products_on_edges_are_not_cut() {
    stays_by_rows("mixed", "reads columns of a tensor that is not cut");
}

/// A row norm between two aggregations needs whole rows: columns are joined before it and split
/// after it. Element-wise functions need nothing.
#[test]
fn norms_over_rows_are_computed_on_whole_rows() {
    let between = |what: &str| {
        let text = format!("let h = x |> linear(classes) |> propagate{what} |> propagate");
        meetings(&program(&ending(&text, "h"), Placement::Tensor))
    };
    let joined = |m: &[&str]| m.iter().filter(|name| **name == "join").count();
    let (plain, element, norm) = (between(""), between(" |> tanh"), between(" |> layer_norm"));
    assert_eq!(joined(&plain), 2, "{plain:?}");
    assert_eq!(joined(&element), joined(&plain), "{element:?}");
    assert!(joined(&norm) > joined(&plain), "{norm:?}");
}

/// Where ranks communicate in attention is derived, not written down. Forward, rows of `W h`
/// are split, the scores of both ends go to all ranks, and sums come back. Backward, the same
/// happens to gradients, and gradients of scores, which every rank has only for its columns,
/// are summed on the way.
#[test]
fn attention_meets_where_it_must() {
    let attention = case("let h = x |> gat_conv(8)");
    let found = meetings(&program(&attention, Placement::Tensor));
    let count = |name: &str| found.iter().filter(|m| **m == name).count();
    assert_eq!(count("split"), 2, "{found:?}");
    assert_eq!(count("join"), 2, "{found:?}");
    assert_eq!(count("replicate"), 2, "{found:?}");
    assert_eq!(count("reduce-rows"), 2, "{found:?}");
    assert_eq!(count("all-reduce"), 1, "{found:?}");
    assert_eq!(found.len(), 9, "{found:?}");
    // If every rank holds some heads, no scores of other ranks are needed.
    let heads = case("let h = x |> gat_conv(4, heads = 2)");
    let found = meetings(&program(&heads, Placement::Tensor));
    let count = |name: &str| found.iter().filter(|m| **m == name).count();
    assert_eq!(count("replicate") + count("reduce-rows"), 0, "{found:?}");
}
