//! Equal bits on any number of ranks: losses, weights and scores, against one rank and against the interpreter.

use crate::check::{Case, Way};
use crate::data::{Shape, planted};
use crate::models::{APPNP, GAT, GCN, GCNII, GIN, RGCN, SAGE, TYPED, shape};
use gnnc::ir::plan::{Cover, Knobs, Placement};
use gnnc::ir::program::{Halo, Instr};
use gnnc::ir::words::mesh::Mesh;
use gnnc::ir::words::storage::Storage;
use gnnc::ir::words::wire::Wire;
use gnnc::planner::placement::PlacementSpec;

const MODELS: [&str; 7] = [GCN, SAGE, GAT, GIN, GCNII, APPNP, SHARED];

/// A weight and a scale that a loop reads in every iteration, means and variances over all vertices, and one tensor with two
/// biases.
const SHARED: &str = "let w = parameter(6, rows = 6)
     let s = parameter(1)
     let h = x |> linear(6) |> batch_norm
     repeat i in 1..=3 { h = tanh(matmul(h, w)) + 0.1 * s * (h |> aggregate(mean)) }
     let h = h + parameter(6) |> sage_conv(6) |> layer_norm |> tanh
     loss cross_entropy(h |> linear(classes), labels, on = train)";

fn equal() -> Knobs {
    Knobs {
        equal_bits: Some(true),
        ..Knobs::default()
    }
}

/// What a run computes, as bits.
#[derive(Debug, PartialEq)]
struct Bits {
    losses: Vec<u64>,
    weights: Vec<u32>,
    logits: Vec<u32>,
    validation: Option<u64>,
}

fn bits(case: &Case, way: Way) -> Bits {
    let mut trainer = case.start(way);
    trainer.session.set_learning_rate(0.05);
    let losses = (0..4).map(|_| trainer.epoch().unwrap().loss.to_bits());
    let losses: Vec<u64> = losses.collect();
    assert!(losses.windows(2).all(|pair| pair[0] != pair[1]));
    let metrics = trainer.evaluate().unwrap();
    let tensors = trainer.session.parameters().unwrap();
    let weights = tensors.iter().flat_map(|tensor| &tensor.values);
    let logits = trainer.session.logits().unwrap();
    Bits {
        losses,
        weights: weights.map(|x| x.to_bits()).collect(),
        logits: logits.iter().map(|x| x.to_bits()).collect(),
        validation: metrics.val_loss.map(f64::to_bits),
    }
}

/// All numbers of ranks, each with another number of threads.
fn same_on_all(case: &Case, placement: Placement, all_ranks: impl Iterator<Item = u32>) {
    let way = |placement, ranks| Way {
        placement,
        ranks,
        partitioner: "metis",
        threads: 1 + ranks as usize % 3,
    };
    let one = bits(case, way(Placement::Graph, 1));
    for ranks in all_ranks {
        let many = bits(case, way(placement, ranks));
        assert!(one == many, "{placement}, {ranks} ranks\n{}", case.text);
    }
}

#[test]
fn any_number_of_ranks_computes_the_same_bits() {
    for body in MODELS {
        // Directed graphs have other targets than sources.
        for sparse in [false, true] {
            let mut case = Case::new("", body, planted(shape(sparse)));
            case.knobs = equal();
            same_on_all(&case, Placement::Graph, 2..=8);
        }
    }
}

#[test]
fn sliced_columns_compute_the_same_bits() {
    for body in [GCN, SAGE, GIN, GCNII, APPNP] {
        let mut case = Case::new("", body, planted(shape(true)));
        case.knobs = equal();
        same_on_all(&case, Placement::Tensor, [2, 3, 5].into_iter());
    }
}

/// With more leaves than the fewest.
#[test]
fn many_leaves_compute_the_same_bits() {
    let data = planted(Shape {
        vertices: 70_000,
        edges: 200_000,
        directed: true,
        sparse: false,
        seed: 5,
    });
    let mut case = Case::new("", SAGE, data);
    case.knobs = equal();
    same_on_all(&case, Placement::Graph, [3, 4, 7].into_iter());
}

#[test]
fn rows_that_cross_to_a_node_once_compute_the_same_bits() {
    for body in [GCN, GAT] {
        let mut case = Case::new("", body, planted(shape(true)));
        case.knobs = Knobs {
            node_ranks: Some(2),
            ..equal()
        };
        same_on_all(&case, Placement::Graph, [4, 6].into_iter());
    }
}

#[test]
fn equal_bits_are_what_the_interpreter_computes() {
    for body in MODELS {
        let mut case = Case::new("", body, planted(shape(true)));
        case.knobs = equal();
        for ranks in [1, 3, 4] {
            case.check(Way::varied(Placement::Graph, ranks));
        }
    }
}

/// Kernels that check each access.
#[test]
fn equal_bits_touch_only_their_own_memory() {
    for body in [GCNII, GAT] {
        let mut case = Case::new("", body, planted(shape(true)));
        (case.checked, case.knobs) = (true, equal());
        case.check(Way::varied(Placement::Graph, 5));
    }
}

/// No sum of another rank's vertices is sent, and nothing computes with a share.
#[test]
fn programs_send_rows_and_add_at_once() {
    for body in MODELS {
        let case = Case::new("", body, planted(shape(true)));
        let mut spec = PlacementSpec::new(Placement::Graph, 4);
        spec.knobs = equal();
        let program = case.compiled.programs(&spec).unwrap().remove(0);
        assert!(program.equal_bits && program.halo == Halo::BothEnds);
        let reduces = |instr: &Instr| matches!(instr.whole(), Instr::HaloReduce(_));
        let all = program.step.iter().chain(
            program
                .step
                .iter()
                .flat_map(|i| i.body().unwrap_or_default()),
        );
        assert_eq!(all.filter(|instr| reduces(instr)).count(), 0);
    }
}

#[test]
fn what_depends_on_the_number_of_ranks_is_refused() {
    let refused = |body: &str, placement, knobs: Knobs| {
        let case = Case::new("", body, planted(shape(true)));
        let spec = PlacementSpec {
            knobs: Knobs {
                equal_bits: Some(true),
                ..knobs
            },
            ..PlacementSpec::new(placement, 4)
        };
        let error = case.compiled.programs(&spec).unwrap_err().to_string();
        assert!(
            error.contains("equal bits") || error.contains("--equal-bits"),
            "{error}"
        );
        error
    };
    let open = Knobs::default;
    let error = |body, placement| refused(body, placement, open());
    assert!(error(GCN, Placement::Broadcast).contains("blocks of rows"));
    assert!(error(GCN, Placement::PushPull).contains("shares of a product"));
    assert!(error(GCN, Placement::Pipeline).contains("stages"));
    assert!(error(GAT, Placement::Tensor).contains("ranks divide"));
    assert!(error(RGCN, Placement::Graph).contains("edges"));
    assert!(error(TYPED, Placement::Graph).contains("edges"));
    let knob = |knobs| refused(GCN, Placement::Graph, knobs);
    let cover = Some(Cover::Joint);
    assert!(knob(Knobs { cover, ..open() }).contains("cover=joint"));
    let wire = Some(Wire::Bf16);
    assert!(knob(Knobs { wire, ..open() }).contains("fewer bits"));
    let storage = Storage::Bf16;
    assert!(knob(Knobs { storage, ..open() }).contains("16 bits"));
    let interior = Some(true);
    assert!(knob(Knobs { interior, ..open() }).contains("interior=yes"));
    let slices = Some(Mesh {
        slices: 2,
        apart: false,
    });
    let groups = refused(GCN, Placement::Tensor, Knobs { slices, ..open() });
    assert!(groups.contains("groups"), "{groups}");
}
