//! Summaries of data graphs for the planner.

use crate::cover::Covers;
use crate::local::both_ends;
use crate::partition::{Partition, Partitioner};
use crate::replication::{Replication, replication};
use crate::reuse::reuse;
use crate::routes::node_loads;
use crate::{Features, GraphData, GraphError, Topology};
use gnnc_ir::EdgeSet;
use gnnc_ir::words::types::share;
use gnnc_ir::workload::{
    COLUMN_RUNS, NamedSet, Origin, PartLoad, PartitionSummary, TargetLoads, Workload,
};
use std::collections::BTreeMap;

/// Counts everything in a [`Workload`], and partitions the graph once for each entry of `parts`.
///
/// # Errors
/// Those of the partitioners.
pub fn summarise(
    data: &GraphData,
    parts: &[(u32, &dyn Partitioner)],
) -> Result<Workload, GraphError> {
    let plain = data.topology.only(EdgeSet::Plain);
    let degrees = plain.in_degrees();
    let most = |degrees: &[u32]| u64::from(degrees.iter().copied().max().unwrap_or(0));
    let count = |mask: &[bool]| mask.iter().filter(|&&in_split| in_split).count() as u64;
    let mut workload = Workload {
        name: data.name.clone(),
        origin: Origin::Measured,
        vertices: u64::from(data.vertices()),
        edges: plain.edges(),
        features: data.features.columns(),
        feature_nonzeros: data.features.stored(),
        identity_features: data.features.is_identity(),
        column_nonzeros: column_nonzeros(&data.features),
        vertex_types: data.vertex_types.len() as u32,
        classes: data.classes(),
        relations: data.topology.relations(),
        edge_features: data.edge_features.columns,
        edge_sets: named_sets(&data.topology),
        split: [count(&data.train), count(&data.val), count(&data.test)],
        max_degree: most(&degrees),
        max_out_degree: Some(most(&plain.out_degrees()))
            .filter(|out| *out > most(&degrees))
            .unwrap_or(0),
        degree_histogram: degree_histogram(&degrees),
        reuse: reuse(&data.topology),
        replication: BTreeMap::new(),
        partitions: BTreeMap::new(),
    };
    for &(count, partitioner) in parts {
        let partition = partitioner.partition(data.into(), count)?;
        let summary = summarise_partition(data, &partition, partitioner.name(), &[])?;
        workload.add_partition(count, summary);
    }
    Ok(workload)
}

/// The named sets of edges.
fn named_sets(topology: &Topology) -> Vec<NamedSet> {
    let mut sets = Vec::new();
    for (number, name) in (1..).zip(topology.set_names()) {
        let edges = topology.only(EdgeSet::Named(number));
        sets.push(NamedSet {
            name: name.clone(),
            edges: edges.edges(),
            max_degree: edges.max_degree().into(),
        });
    }
    sets
}

/// Stored values per run of columns; empty if all columns are equally full.
fn column_nonzeros(features: &Features) -> Vec<u64> {
    let Features::Sparse {
        columns, indices, ..
    } = features
    else {
        return Vec::new();
    };
    let runs = COLUMN_RUNS.min(*columns);
    let mut found = vec![0; runs as usize];
    let mut run_of = Vec::with_capacity(*columns as usize);
    for run in 0..runs {
        run_of.extend(share(*columns, runs, run).map(|_| run as usize));
    }
    for column in indices.iter() {
        found[run_of[*column as usize]] += 1;
    }
    found
}

/// Counts the vertices and edges each part of a partition holds and reads, what crosses to nodes of so many parts, and the
/// same of groups of all sizes that divide the parts.
///
/// # Errors
/// A partition of another graph.
pub fn summarise_partition(
    data: &GraphData,
    partition: &Partition,
    partitioner: &str,
    of_nodes: &[u32],
) -> Result<PartitionSummary, GraphError> {
    let replication = replication(&data.topology, partition)?;
    let mut loads: Vec<PartLoad> = replication
        .boundary
        .iter()
        .map(|boundary| PartLoad {
            halo: boundary.len() as u64,
            ..PartLoad::default()
        })
        .collect();
    for (v, &part) in partition.owner().iter().enumerate() {
        let load = &mut loads[part as usize];
        load.inner += 1;
        let sources = data.topology.in_neighbours(v as u32);
        let first = data.topology.indptr()[v] as usize;
        let (mut edges, mut far, mut interior) = (0, 0, true);
        for (place, u) in (first..).zip(sources) {
            let remote = partition.owner()[*u as usize] != part;
            interior &= !remote;
            match data.topology.set_at(place) {
                EdgeSet::Named(number) => load.named_edges.add(number, 1),
                EdgeSet::Plain | EdgeSet::Looped => {
                    edges += 1;
                    far += u64::from(remote);
                }
            }
        }
        load.edges += edges;
        let reach = load.reach.get_or_insert_default();
        reach.halo_edges += far;
        if interior {
            reach.interior += 1;
            reach.interior_edges += edges;
        }
        for (count, split) in [
            (&mut load.train, &data.train),
            (&mut load.val, &data.val),
            (&mut load.test, &data.test),
        ] {
            *count += u64::from(split.get(v).copied().unwrap_or(false));
        }
        load.feature_nonzeros += data.features.stored_in_row(v);
    }
    let mut summary = PartitionSummary {
        partitioner: partitioner.to_owned(),
        alpha: replication.alpha,
        parts: loads,
        nodes: node_loads(partition.owner(), &replication, of_nodes),
        cover: None,
        both_ends: None,
        groups: Vec::new(),
        messages: replication.messages.clone(),
    };
    let sizes = 2..partition.parts();
    let sizes = sizes.filter(|size| partition.parts().is_multiple_of(*size));
    let of_size = |size| groups(partition, &replication, &summary, size);
    summary.groups = sizes.map(of_size).collect();
    Ok(summary)
}

/// Counts the same of groups of consecutive parts, from what was counted of parts. What needs no other group is not.
fn groups(
    partition: &Partition,
    replication: &Replication,
    parts: &PartitionSummary,
    size: u32,
) -> PartitionSummary {
    let count = (partition.parts() / size) as usize;
    let group = |part: u32| (part / size) as usize;
    let mut loads = vec![PartLoad::default(); count];
    for (part, load) in (0..).zip(&parts.parts) {
        loads[group(part)].include(load);
    }
    let mut messages = vec![vec![0; count]; count];
    // The last group whose boundary has each vertex, counted from 1.
    let mut seen = vec![0; partition.owner().len()];
    for (part, boundary) in (0..).zip(&replication.boundary) {
        let reader = group(part);
        for &vertex in boundary {
            let vertex = vertex as usize;
            let owner = group(partition.owner()[vertex]);
            let known = std::mem::replace(&mut seen[vertex], reader + 1) == reader + 1;
            if owner != reader && !known {
                messages[owner][reader] += 1;
                loads[reader].halo += 1;
            }
        }
    }
    let rows: u64 = loads.iter().map(|load| load.halo).sum();
    PartitionSummary {
        partitioner: parts.partitioner.clone(),
        alpha: rows as f64 / partition.owner().len().max(1) as f64,
        parts: loads,
        messages,
        nodes: Vec::new(),
        cover: None,
        both_ends: None,
        groups: Vec::new(),
    }
}

/// Counts what the parts of a partition send and add up if they send the fewest rows and partial sums. `None` for a graph
/// with named sets of edges, which have sums of their own.
pub fn cover_loads(data: &GraphData, partition: &Partition) -> Option<TargetLoads> {
    let topology = &data.topology;
    let alone = topology.sets().is_none() && partition.check(topology).is_ok();
    alone.then(|| Covers::of(topology, partition, 1).loads(topology, partition))
}

/// Counts what the parts of a partition send and have if each has the edges into its vertices and those out of them. `None` as
/// for [`cover_loads`].
pub fn both_ends_loads(data: &GraphData, partition: &Partition) -> Option<TargetLoads> {
    let topology = &data.topology;
    let alone = topology.sets().is_none() && partition.check(topology).is_ok();
    alone.then(|| both_ends::loads(topology, partition))
}

/// A histogram of degrees: entry 0 counts the vertices of degree 0, entry `k` those of degree
/// `2^(k-1)` to `2^k - 1`.
pub fn degree_histogram(degrees: &[u32]) -> Vec<u64> {
    let mut histogram = Vec::new();
    for degree in degrees {
        let bucket = (u32::BITS - degree.leading_zeros()) as usize;
        if histogram.len() <= bucket {
            histogram.resize(bucket + 1, 0);
        }
        histogram[bucket] += 1;
    }
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use crate::partition::{Hash, Range};
    use gnnc_ir::program::Reach;

    #[test]
    fn g8_summed_up() {
        let workload = summarise(&example::g8(), &[(2, &Range), (4, &Hash)]).unwrap();
        assert_eq!(
            (workload.vertices, workload.edges, workload.classes),
            (8, 20, 2)
        );
        assert_eq!((workload.features, workload.feature_nonzeros), (4, 32));
        assert_eq!(workload.split, [4, 2, 2]);
        assert_eq!(
            (workload.max_degree, &workload.degree_histogram),
            (3, &vec![0, 0, 8])
        );
        let halves = workload.partition(2, "range").unwrap();
        assert_eq!(halves.alpha, 0.375);
        assert!(workload.replication.is_empty(), "nothing is known of METIS");
        assert!(workload.partition(4, "range").is_none());
        let reach = |interior, interior_edges| {
            let halo_edges = 2;
            Some(Reach {
                interior,
                interior_edges,
                halo_edges,
            })
        };
        let load = PartLoad {
            inner: 4,
            halo: 2,
            edges: 10,
            named_edges: Default::default(),
            train: 2,
            val: 1,
            test: 1,
            feature_nonzeros: 16,
            reach: reach(3, 7),
        };
        let other = PartLoad {
            halo: 1,
            reach: reach(2, 4),
            ..load
        };
        assert_eq!(halves.parts, [load, other]);
        assert_eq!(halves.messages, [[0, 1], [2, 0]]);
    }

    #[test]
    fn the_histogram_has_powers_of_two() {
        assert_eq!(degree_histogram(&[0, 1, 2, 3, 4, 7, 8]), [1, 1, 2, 2, 1]);
        assert_eq!(degree_histogram(&[]), [0; 0]);
    }
}
