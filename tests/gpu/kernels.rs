//! Every kind of kernel on a GPU against the interpreter: the kernels that the tests of the
//! code generator run on the processor.

use crate::live;
use crate::support::kernels::{DENSE_SHAPES, Form, SHAPES, dense_kernel, forms, random_kernel};
use crate::support::{Case, Part, Random};
use gnnc::codegen::cuda::schedule::HUB_EDGES;
use gnnc::ir::kernel::Kernel;
use gnnc::runtime::device::gpu::driver::Driver;
use gnnc::runtime::device::gpu::single::{Arrays, Loaded};

type Named = (String, Kernel);

/// Edges from which a row is a hub: few, or so many that there are none.
const HUBS: [u64; 2] = [7, 1 << 40];

fn run(
    driver: &mut dyn Driver,
    loaded: &Loaded,
    number: usize,
    case: &Case,
    hub_edges: u64,
) -> Vec<Vec<f32>> {
    let (indptr, indices) = case.edges();
    let outputs = case.outputs();
    let arrays = Arrays {
        indptr,
        indices,
        positions: &case.part.positions,
        ids: &case.part.ids,
        list: &case.part.list,
        inputs: case.inputs.iter().map(Vec::as_slice).collect(),
        outputs: outputs.iter().map(Vec::as_slice).collect(),
        scalars: &case.scalars,
        keys: &case.keys,
        rows: case.part.rows(case.kernel) as u64,
        hub_edges,
    };
    let single = loaded.single(driver, number, &arrays).unwrap();
    single.enqueue(driver).unwrap();
    let outputs = single.outputs(driver).unwrap();
    single.release(driver).unwrap();
    outputs
}

/// Compares kernels with the interpreter, for several hub thresholds; running twice gives the
/// same bits.
fn check(test: &str, part: &Part, kernels: Vec<Named>, hubs: [u64; 2], random: &mut Random) {
    let Some(mut live) = live(test) else {
        return;
    };
    let (names, kernels): (Vec<String>, Vec<Kernel>) = kernels.into_iter().unzip();
    let loaded = Loaded::new(&mut *live, &kernels).unwrap();
    let bits = |x: Vec<Vec<f32>>| -> Vec<u32> { x.concat().iter().map(|x| x.to_bits()).collect() };
    for (number, (name, kernel)) in names.iter().zip(&kernels).enumerate() {
        let case = Case::random(kernel, part, random);
        for hub_edges in hubs {
            let found = run(&mut *live, &loaded, number, &case, hub_edges);
            case.compare(&format!("{name}, hubs from {hub_edges}"), &found);
            let again = run(&mut *live, &loaded, number, &case, hub_edges);
            assert_eq!(bits(found), bits(again), "{name} differs from run to run");
        }
    }
}

fn of_all(shapes: &[(u32, u32)], mut kernel: impl FnMut(Form, u32, u32) -> Kernel) -> Vec<Named> {
    let mut kernels = Vec::new();
    for form in forms() {
        for &(heads, width) in shapes {
            let name = format!("{form:?} {heads} x {width}");
            kernels.push((name, kernel(form, heads, width)));
        }
    }
    kernels
}

#[test]
fn every_body_and_shape_agrees() {
    let random = &mut Random(1);
    let part = Part::random(random, 13, 6, 60);
    let kernels = of_all(&SHAPES, |form, heads, width| {
        let size = 1 + random.below(3);
        random_kernel(random, form, heads, width, size)
    });
    check(
        "every_body_and_shape_agrees",
        &part,
        kernels,
        HUBS,
        &mut Random(2),
    );
}

#[test]
fn contiguous_rows_agree() {
    let random = &mut Random(7);
    let part = Part::random(random, 20, 5, 150);
    let kernels = of_all(&DENSE_SHAPES, |form, heads, width| {
        dense_kernel(form, heads, width)
    });
    check("contiguous_rows_agree", &part, kernels, HUBS, random);
}

/// Many blocks, many partial sums, rows longer than a block.
#[test]
fn large_graphs_agree() {
    let random = &mut Random(3);
    let part = Part::random(random, 20_000, 900, 300_000);
    let shapes = [(1, 16), (2, 3)];
    let kernels = of_all(&shapes, |form, heads, width| {
        random_kernel(random, form, heads, width, 2)
    });
    // Without hubs, a sum over all edges of a type would add 60,000 floats in sequence.
    let hubs = [7, HUB_EDGES];
    check("large_graphs_agree", &part, kernels, hubs, &mut Random(4));
}

#[test]
fn graphs_without_edges_or_rows_agree() {
    for (inner, edges) in [(3, 0), (0, 0), (5, 1)] {
        let random = &mut Random(5);
        let part = Part::random(random, inner, 2, edges);
        let kernels = of_all(&[(2, 5)], |form, heads, width| {
            random_kernel(random, form, heads, width, 2)
        });
        check(
            "graphs_without_edges_or_rows_agree",
            &part,
            kernels,
            HUBS,
            random,
        );
    }
}
