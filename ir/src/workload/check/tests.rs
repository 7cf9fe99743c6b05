//! Sound statistics pass, and every field is looked at.

use super::*;
use crate::program::Reach;
use crate::workload::PartLoad;

/// A path of four vertices, both ways, cut in the middle.
fn path() -> Workload {
    let load = PartLoad {
        inner: 2,
        halo: 1,
        edges: 3,
        named_edges: Default::default(),
        train: 1,
        val: 0,
        test: 0,
        feature_nonzeros: 6,
        reach: Some(Reach {
            interior: 1,
            interior_edges: 1,
            halo_edges: 1,
        }),
    };
    let halves = PartitionSummary {
        groups: Vec::new(),
        partitioner: "metis".to_owned(),
        alpha: 0.5,
        parts: vec![load; 2],
        messages: vec![vec![0, 1], vec![1, 0]],
        nodes: Vec::new(),
        cover: None,
        both_ends: None,
    };
    Workload {
        edge_sets: Vec::new(),
        name: "path".to_owned(),
        origin: Origin::Measured,
        vertices: 4,
        edges: 6,
        features: 3,
        feature_nonzeros: 12,
        identity_features: false,
        column_nonzeros: vec![5, 3, 4],
        classes: 2,
        vertex_types: 0,
        relations: 0,
        edge_features: 0,
        split: [2, 1, 1],
        max_degree: 2,
        max_out_degree: 0,
        degree_histogram: vec![0, 2, 2],
        reuse: Vec::new(),
        replication: [(2, 0.5)].into(),
        partitions: [(2, vec![halves])].into(),
    }
}

fn half(workload: &mut Workload) -> &mut PartitionSummary {
    &mut workload.partitions.get_mut(&2).unwrap()[0]
}

fn reach(workload: &mut Workload) -> &mut Reach {
    half(workload).parts[0].reach.as_mut().unwrap()
}

#[test]
fn sound_workloads_pass() {
    assert_eq!(path().check(), Ok(()));
    let mut declared = path();
    declared.origin = Origin::Declared;
    declared.edges = 12;
    half(&mut declared).messages.clear();
    declared.partitions.clear();
    assert_eq!(declared.check(), Ok(()));
    declared.edges = 13;
    assert!(
        declared.check().is_err(),
        "one edge from a vertex to another"
    );
    declared.relations = 2;
    assert_eq!(declared.check(), Ok(()));
    declared.degree_histogram.clear();
    assert_eq!(declared.check(), Ok(()));
}

#[test]
fn every_field_is_looked_at() {
    type Change = fn(&mut Workload);
    #[rustfmt::skip]
    let cases: &[(&str, Change)] = &[
        ("vertices",                        |w| w.vertices = 0),
        ("vertices",                        |w| w.vertices = u64::MAX),
        ("edges",                           |w| w.edges = 13),
        ("edges",                           |w| w.edges = 4),
        ("edges",                           |w| w.edges = 9),
        ("features",                        |w| w.features = 0),
        ("classes",                         |w| w.classes = u32::MAX),
        ("feature_nonzeros",                |w| w.feature_nonzeros = 13),
        ("identity_features",               |w| w.identity_features = true),
        ("column_nonzeros",                 |w| w.column_nonzeros[0] = 6),
        ("column_nonzeros",                 |w| w.column_nonzeros = vec![3; 4]),
        ("split[1]",                        |w| w.split[1] = 5),
        ("max_degree",                      |w| w.max_degree = 5),
        ("degree_histogram",                |w| w.max_degree = 1),
        ("degree_histogram",                |w| w.degree_histogram[0] = 1),
        ("degree_histogram",                |w| w.degree_histogram.push(u64::MAX)),
        ("replication.2",                   |w| { w.replication.insert(2, 1.5); }),
        ("replication.2",                   |w| { w.replication.insert(2, -0.5); }),
        ("replication.2",                   |w| { w.replication.insert(2, f64::NAN); }),
        ("replication.0",                   |w| { w.replication.insert(0, 0.0); }),
        ("replication.5",                   |w| { w.replication.insert(5, 0.5); }),
        ("partitions.3[0].parts",           |w| { let p = half(w).clone(); w.partitions.insert(3, vec![p]); }),
        ("partitions.2[1].partitioner",     |w| { let p = half(w).clone(); w.partitions.insert(2, vec![p.clone(), p]); }),
        ("partitions.9",                    |w| { w.partitions.insert(9, Vec::new()); }),
        ("partitions.2[0].parts[1].halo",      |w| half(w).parts[1].halo = 3),
        ("partitions.2[0].parts[0].reach.interior",       |w| reach(w).interior = 3),
        ("partitions.2[0].parts[0].reach.interior_edges", |w| reach(w).interior_edges = 4),
        ("partitions.2[0].parts[0].reach.halo_edges",     |w| reach(w).halo_edges = 3),
        ("partitions.2[0].parts[..].inner",    |w| half(w).parts[1].inner = 1),
        ("partitions.2[0].parts[..].edges",    |w| half(w).parts[1].edges = u64::MAX),
        ("partitions.2[0].parts[..].train",    |w| half(w).parts[1].train = 0),
        ("partitions.2[0].parts[..].feature_nonzeros", |w| half(w).parts[1].feature_nonzeros = 0),
        ("partitions.2[0].alpha",              |w| half(w).alpha = f64::INFINITY),
        ("partitions.2[0].alpha",              |w| half(w).alpha = 0.6),
        ("partitions.2[0].messages",           |w| { half(w).messages.pop(); }),
        ("partitions.2[0].messages[0][0]",     |w| half(w).messages[0][0] = 1),
        ("partitions.2[0].messages[1][0]",     |w| half(w).messages[1][0] = 3),
        ("partitions.2[0].messages[..][0]",    |w| half(w).messages[1][0] = 2),
    ];
    for (field, change) in cases {
        let mut workload = path();
        change(&mut workload);
        let error = workload.check().unwrap_err();
        assert_eq!(error.field, *field, "{error}");
    }
}
