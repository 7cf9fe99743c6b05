//! Interior rows computed while halo rows are in flight give the same bits as all rows at once,
//! also on graphs where all rows or none are interior.

use crate::check::{Case, Way};
use crate::data::{Shape, planted, with_edge_features};
use crate::flow::{halves, programs, run};
use crate::models::{APPNP, GAT, GCN, GCNII, GIN, RGCN, SAGE};
use gnnc::graph::partition::{Partitioner, Range};
use gnnc::graph::{GraphData, LocalPart, Topology};
use gnnc::ir::plan::{Knobs, Placement};
use gnnc::ir::program::trace::Phase;
use gnnc::ir::program::{Chunk, Instr, Vertices};

const MODELS: [&str; 7] = [GCN, SAGE, GAT, GIN, GCNII, APPNP, RGCN];

/// Placements whose ranks read rows of each other.
const EXACT: [Placement; 5] = [
    Placement::Graph,
    Placement::Broadcast,
    Placement::SkipBroadcast,
    Placement::PushPull,
    Placement::Mixed,
];

/// Interior rows are computed separately, if so; messages overlap, if so.
fn knobs(interior: bool, overlap: bool) -> Knobs {
    Knobs {
        interior: Some(interior),
        overlap: Some(overlap),
        ..Knobs::default()
    }
}

/// Nearby vertices are neighbors, so that parts have both kinds of rows.
fn band() -> GraphData {
    let mut data = planted(Shape {
        vertices: 90,
        edges: 500,
        directed: true,
        sparse: true,
        seed: 3,
    });
    let near = (0..90u32).flat_map(|v| [1, 2, 5].map(|step| (v, v + step)));
    let near = near.filter(|(u, v)| *v < 90 && u % 11 != 4 && v % 11 != 4);
    let edges = near.flat_map(|(u, v)| [(u, v), (v, u)]);
    let directed = edges.filter(|(u, v)| u < v || !(u + 2 * v).is_multiple_of(3));
    data.topology = with_types(directed);
    with_edge_features(data)
}

/// The edges of a graph with 90 vertices, with types.
fn with_types(edges: impl Iterator<Item = (u32, u32)>) -> Topology {
    let typed = edges.map(|(u, v)| (u, v, ((u + v) % 5) as u16));
    Topology::typed(90, 5, typed).unwrap().0
}

/// Graphs on which parts have only interior rows, only boundary rows, both, or no edges.
fn graphs() -> Vec<(&'static str, GraphData)> {
    let with = |topology| with_edge_features(GraphData { topology, ..band() });
    let pairs = (0..90u32)
        .filter(|v| v % 2 == 0)
        .flat_map(|v| [(v, v + 1), (v + 1, v)]);
    let all = (0..90u32).flat_map(|v| [(v, (v + 45) % 90), (v, (v + 60) % 90), (v, (v + 20) % 90)]);
    // Nothing reads the first half of the vertices, which read the others.
    let one_way = (0..45u32).flat_map(|v| (45..90).step_by(3).map(move |u| (u, v)));
    vec![
        ("band", band()),
        ("pairs", with(with_types(pairs))),
        ("far", with(with_types(all))),
        ("one way", with(with_types(one_way))),
        ("no edges", with(with_types(std::iter::empty()))),
    ]
}

#[test]
fn interior_is_what_the_interpreter_computes() {
    for body in MODELS {
        let mut case = Case::new("", body, band());
        case.knobs = knobs(true, true);
        for ranks in [1, 2, 3, 5] {
            for placement in EXACT {
                if ranks == 1 && placement != Placement::Graph {
                    continue;
                }
                case.check(Way::varied(placement, ranks));
            }
        }
    }
}

/// The same on the fake device, whose driver reports unordered work.
#[test]
fn interior_on_a_device_is_what_the_interpreter_computes() {
    for body in [GCN, GAT, GCNII] {
        let mut case = Case::new("", body, band());
        (case.knobs, case.device) = (knobs(true, true), true);
        for (placement, ranks) in [(Placement::Graph, 3), (Placement::SkipBroadcast, 2)] {
            case.check(Way {
                placement,
                ranks,
                partitioner: "range",
                threads: 1,
            });
        }
    }
}

#[test]
fn interior_changes_no_bit() {
    let mut begun = 0;
    for (graph, data) in graphs() {
        for body in MODELS {
            let case = Case::new("", body, data.clone());
            for ranks in [1, 2, 3, 5] {
                for placement in [Placement::Graph, Placement::Broadcast] {
                    let expected = programs(&case, placement, ranks, knobs(false, true));
                    let expected = run(expected, &case, None);
                    for (overlap, delays) in [(false, None), (true, None), (true, Some(7))] {
                        let found = programs(&case, placement, ranks, knobs(true, overlap));
                        begun += halves(found[0].list(Phase::Step));
                        let found = run(found, &case, delays);
                        assert!(
                            expected == found,
                            "{placement} x {ranks} on {graph}, overlap {overlap}, {delays:?}: {body}"
                        );
                    }
                }
            }
        }
    }
    assert!(
        begun > 1000,
        "{begun} communications have something in between"
    );
}

/// The parts of [`graphs`] have the advertised kinds of rows.
#[test]
fn interior_rows_come_first() {
    for (graph, data) in graphs() {
        for ranks in [2, 5] {
            let partition = Range.partition((&data.topology).into(), ranks).unwrap();
            let parts = LocalPart::build_all(&data.topology, &partition).unwrap();
            for part in &parts {
                let reach = part.reach();
                let edges = part.edges(gnnc::ir::EdgeSet::Plain).in_csr;
                let remote = |row| edges.row(row).iter().any(|u| *u as usize >= part.inner);
                let boundary: Vec<bool> = (0..part.inner).map(remote).collect();
                assert!(boundary.is_sorted(), "{graph}: {boundary:?}");
                let interior = boundary.iter().filter(|remote| !**remote).count();
                assert_eq!(reach.interior as usize, interior);
                assert_eq!(reach.interior_edges, edges.indptr[interior]);
                match graph {
                    "pairs" | "no edges" => assert!(interior + 1 >= part.inner),
                    "far" => assert_eq!(interior, 0),
                    "band" => assert!(interior > 0 && interior < part.inner),
                    _ => {}
                }
            }
        }
    }
}

/// Positions in a list of launches over such rows.
fn places(list: &[Instr], rows: Vertices, index: u32) -> Vec<usize> {
    let cut = |chunk: Chunk| chunk.reach() == Some(rows) && chunk.index == index;
    let all = list.iter().enumerate();
    let found = all.filter(|(_, instr)| instr.chunk().is_some_and(cut));
    found.map(|(place, _)| place).collect()
}

/// Interior rows are computed while halo rows arrive, and boundary rows after that. Of sums,
/// halo rows are computed before they are sent, and own rows meanwhile.
#[test]
fn interior_rows_are_computed_between_the_halves() {
    let case = Case::new("", GCN, band());
    let programs = programs(&case, Placement::Graph, 3, knobs(true, true));
    let list = programs[0].list(Phase::Step);
    let half = |name: &str, begins: bool| -> Vec<usize> {
        let all = list.iter().enumerate();
        let found = all.filter(|(_, instr)| match instr {
            Instr::Begin(t) => begins && t.what.name(&programs[0]) == name,
            Instr::Finish(t) => !begins && t.what.name(&programs[0]) == name,
            _ => false,
        });
        found.map(|(place, _)| place).collect()
    };
    let between = |begin: &[usize], place: usize, end: &[usize]| {
        let mut pairs = begin.iter().zip(end);
        pairs.any(|(begin, end)| *begin < place && place < *end)
    };
    let [comes, here] = [true, false].map(|begins| half("halo-exchange", begins));
    let (interior, boundary) = (
        places(list, Vertices::Inner, 0),
        places(list, Vertices::Inner, 1),
    );
    assert!(!interior.is_empty() && interior.len() == boundary.len());
    assert!(interior.iter().any(|place| between(&comes, *place, &here)));
    for (interior, boundary) in interior.iter().zip(&boundary) {
        assert!(here.iter().any(|end| interior < end && end < boundary));
    }
    let [goes, there] = [true, false].map(|begins| half("halo-reduce", begins));
    let (own, halo) = (
        places(list, Vertices::Local, 0),
        places(list, Vertices::Local, 1),
    );
    assert!(!own.is_empty() && own.len() == halo.len());
    for (own, halo) in own.iter().zip(&halo) {
        assert!(halo < own && between(&goes, *own, &there));
    }
}
