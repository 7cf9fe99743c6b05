//! Measured facts of real graphs, against values measured elsewhere.
//!
//! Some graphs ship in `examples/data`. Others are searched in the folder that `GNNC_DATA`
//! names, or in `../shared/data` beside the checkout; missing graphs are skipped, and the test
//! prints that.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop, and says what it skips"
)]

use gnnc_graph::partition::{Hash, Metis, MetisSplits, Partition, Partitioner};
use gnnc_graph::{
    Features, GraphData, Labels, LoadOptions, LocalPart, load, replication, summarise,
};
use std::path::{Path, PathBuf};
use std::time::Instant;

fn folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("../examples/data")];
    folders.extend(std::env::var_os("GNNC_DATA").map(PathBuf::from));
    folders.push(root.join("../../shared/data"));
    folders
}

fn find(name: &str) -> Option<GraphData> {
    let file = folders()
        .into_iter()
        .map(|f| f.join(format!("{name}.npz")))
        .find(|f| f.exists())?;
    Some(load(file, &LoadOptions::default()).unwrap())
}

/// Runs `check` on the graphs that exist. Shipped ones must exist.
fn on_each(names: &[&str], mut check: impl FnMut(&str, GraphData)) {
    let mut skipped = Vec::new();
    for name in names {
        match find(name) {
            Some(data) => check(name, data),
            None => skipped.push(*name),
        }
    }
    for shipped in ["cora", "citeseer", "squirrel", "photo"] {
        assert!(
            !skipped.contains(&shipped),
            "{shipped}.npz is missing from examples/data"
        );
    }
    if !skipped.is_empty() {
        println!(
            "skipped {} of {} graphs, not found: {}",
            skipped.len(),
            names.len(),
            skipped.join(", ")
        );
    }
}

type Facts = (&'static str, u32, u64, u32, u32, [u64; 3]);

const FACTS: [Facts; 10] = [
    ("cora", 2708, 10_556, 1433, 7, [140, 500, 1000]),
    ("citeseer", 3327, 9104, 3703, 6, [120, 500, 1000]),
    ("squirrel", 5201, 396_706, 2089, 5, [2496, 1664, 1041]),
    ("photo", 7650, 238_162, 745, 8, [4590, 1530, 1530]),
    ("computers", 13_752, 491_722, 767, 10, [8251, 2750, 2751]),
    ("minesweeper", 10_000, 78_804, 7, 2, [5000, 2500, 2500]),
    // 29,043 edges of 45 relations, and the reverse of each with a relation of its own.
    ("aifb", 8285, 58_086, 0, 4, [140, 0, 36]),
    ("ego_twitter", 81_306, 2_684_592, 0, 0, [0, 0, 0]),
    ("wiki_vote", 7115, 103_689, 0, 0, [0, 0, 0]),
    ("wing_mesh", 62_032, 243_088, 0, 0, [0, 0, 0]),
];

#[test]
fn graphs_are_read_as_documented() {
    on_each(&FACTS.map(|f| f.0), |name, data| {
        let (_, vertices, edges, features, classes, split) =
            *FACTS.iter().find(|f| f.0 == name).unwrap();
        let workload = summarise(&data, &[]).unwrap();
        assert_eq!(
            (data.vertices(), workload.edges),
            (vertices, edges),
            "{name}"
        );
        assert_eq!(
            (workload.features, workload.classes),
            (features, classes),
            "{name}"
        );
        assert_eq!(workload.split, split, "{name}");
        assert_eq!(
            workload.degree_histogram.iter().sum::<u64>(),
            u64::from(vertices),
            "{name}"
        );
        assert_eq!(data.name, name);
    });
}

#[test]
fn cora_has_sparse_counts_that_sum_to_one_when_normalized() {
    let cora = find("cora").unwrap();
    assert_eq!(cora.features.stored(), 49_216);
    assert!(matches!(cora.features, Features::Sparse { .. }));
    let normalized = cora.features.row_normalized(1433);
    let Features::Sparse { indptr, values, .. } = &normalized else {
        panic!()
    };
    for row in indptr.windows(2).filter(|w| w[0] < w[1]) {
        let sum: f32 = values[row[0] as usize..row[1] as usize].iter().sum();
        assert!((sum - 1.0).abs() < 1e-5);
    }
    assert!(matches!(&cora.labels, Labels::Single(labels) if labels.len() == 2708));
    assert!(summarise(&cora, &[]).unwrap().sparse_features());
}

/// Reference: METIS 5, recursive bisection, mean of three seeds, at 2, 4, 8 and 16 parts.
#[test]
fn replication_factors_are_the_reference_ones() {
    let reference: [(&str, [f64; 4]); 5] = [
        ("cora", [0.099, 0.179, 0.286, 0.419]),
        ("citeseer", [0.015, 0.032, 0.077, 0.139]),
        ("squirrel", [0.478, 1.21, 2.19, 3.46]),
        ("computers", [0.348, 0.833, 1.53, 2.47]),
        ("wing_mesh", [0.027, 0.062, 0.092, 0.142]),
    ];
    let mut wrong = Vec::new();
    on_each(&reference.map(|r| r.0), |name, data| {
        let both = data.topology.symmetrised();
        let expected = reference.iter().find(|r| r.0 == name).unwrap().1;
        for (parts, expected) in [2, 4, 8, 16].into_iter().zip(expected) {
            let alpha = |seed| {
                let metis = Metis {
                    seed,
                    balance_edges: false,
                };
                replication(&both, &metis.partition((&both).into(), parts).unwrap())
                    .unwrap()
                    .alpha
            };
            let mean = (alpha(1) + alpha(2) + alpha(3)) / 3.0;
            println!("{name} x {parts}: {mean:.4} (reference {expected})");
            if (mean / expected - 1.0).abs() >= 0.06 {
                wrong.push(format!("{name} x {parts}: {mean:.4} instead of {expected}"));
            }
        }
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// When asked for several numbers of parts, METIS bisects each vertex set once for all of them;
/// the parts do not change.
#[test]
fn parts_are_the_same_asked_together_and_one_by_one() {
    let counts = [2, 3, 4, 6, 12, 16];
    on_each(&["cora", "citeseer", "squirrel"], |name, data| {
        for balance_edges in [false, true] {
            let metis = Metis {
                seed: 0,
                balance_edges,
            };
            let together = metis.partitions((&data.topology).into(), &counts).unwrap();
            for (parts, found) in counts.into_iter().zip(together) {
                let alone = metis.partition((&data.topology).into(), parts).unwrap();
                assert_eq!(found.parts(), parts);
                assert!(found == alone, "{name} x {parts}, edges: {balance_edges}");
            }
        }
    });
    let cora = find("cora").unwrap();
    let many = Metis::default().partitions((&cora.topology).into(), &[2, 9999]);
    assert!(many.unwrap_err().to_string().contains("9999"));
}

/// A partition into half, a quarter, ... as many parts is the union of neighbors in a stored one.
#[test]
fn fewer_parts_are_those_of_more_parts_merged() {
    on_each(&["cora", "citeseer", "squirrel"], |name, data| {
        for balance_edges in [false, true] {
            let metis = Metis {
                seed: 0,
                balance_edges,
            };
            let parted = |parts| metis.partition((&data.topology).into(), parts).unwrap();
            for (more, merges) in [(16, &[2, 4, 8][..]), (12, &[2, 4])] {
                let finer = parted(more);
                for parts in 2..more {
                    let expected = merges.contains(&parts).then(|| parted(parts));
                    let found = metis.merged(&finer, parts);
                    assert!(found == expected, "{name} x {parts} of {more}");
                }
            }
        }
    });
}

/// Stored partitions are found by the revision in the key. If this fails, results have changed: raise `REVISION` in
/// `graph/src/partition/metis.rs` or `metis_splits.rs`, and only then write the new values here.
#[test]
fn results_are_those_of_the_revision() {
    let (cora, squirrel) = (find("cora").unwrap(), find("squirrel").unwrap());
    let mut found = Vec::new();
    for balance_edges in [false, true] {
        let metis = Metis {
            seed: 0,
            balance_edges,
        };
        found.push(
            metis
                .key((&cora).into())
                .unwrap()
                .lines()
                .next()
                .unwrap()
                .to_owned(),
        );
        for data in [&cora, &squirrel] {
            let parts = metis.partition((&data.topology).into(), 6).unwrap();
            found.push(parts.fingerprint());
        }
    }
    let splits = MetisSplits { seed: 0 };
    let key = splits.key((&cora).into()).unwrap();
    found.push(key.lines().next().unwrap().to_owned());
    for data in [&cora, &squirrel] {
        let parts = splits.partition(data.into(), 6).unwrap();
        found.push(parts.fingerprint());
    }
    let whole = Partition::whole(cora.vertices());
    let cut = whole.cut_chunks(&cora.topology, 5, 0).unwrap();
    let chunk = (0..cora.vertices()).map(|v| cut.chunk_of(v)).collect();
    found.push(Partition::new(5, chunk).unwrap().fingerprint());
    let expected = [
        "metis revision 1 seed 0",
        "76e1f896dc3b7f38",
        "df3ec5210b9f2e32",
        "metis-edges revision 1 seed 0",
        "88906fb94b6a0ada",
        "4e5e8791d7ebaf40",
        "metis-splits revision 1 seed 0",
        "28548d1ad7888d0c",
        "bdf0112c1e288e01",
        "b6beb9c21dfc4ebd",
    ];
    assert_eq!(found, expected);
}

/// Nested halves are bisected once: 2 to 64 parts take little longer than 64 alone.
#[test]
fn parts_of_which_twice_as_many_are_asked_for_cost_little() {
    let squirrel = find("squirrel").unwrap().topology;
    let metis = Metis {
        seed: 0,
        balance_edges: true,
    };
    let seconds = |parts: &[u32]| {
        let once = || {
            let begin = Instant::now();
            metis.partitions((&squirrel).into(), parts).unwrap();
            begin.elapsed().as_secs_f64()
        };
        (0..3).map(|_| once()).fold(f64::MAX, f64::min)
    };
    let (one, all) = (seconds(&[64]), seconds(&[2, 4, 8, 16, 32, 64]));
    println!("64 parts: {one:.2} s, 2 to 64 parts: {all:.2} s");
    assert!(all < 1.6 * one, "{all} s instead of {one} s");
}

/// A random partition has α = (k-1)/V · Σᵥ [1 - (1 - 1/k)^deg(v)].
#[test]
fn hash_partitions_replicate_as_random_ones() {
    on_each(&["squirrel", "photo"], |name, data| {
        for parts in [2u32, 4, 8] {
            let k = f64::from(parts);
            let partition = Hash.partition((&data.topology).into(), parts).unwrap();
            let measured = replication(&data.topology, &partition).unwrap().alpha;
            // A vertex is copied to each other part that holds an out-neighbor of it.
            let copies: f64 = data
                .topology
                .out_degrees()
                .iter()
                .map(|&d| 1.0 - (1.0 - 1.0 / k).powi(d as i32))
                .sum();
            let expected = (k - 1.0) * copies / f64::from(data.vertices());
            assert!(
                (measured / expected - 1.0).abs() < 0.013,
                "{name} x {parts}: {measured} {expected}"
            );
        }
    });
}

#[test]
fn edges_are_balanced_on_request() {
    let squirrel = find("squirrel").unwrap();
    let imbalance = |balance_edges| {
        let metis = Metis {
            seed: 1,
            balance_edges,
        };
        let workload = summarise(&squirrel, &[(8, &metis)]).unwrap();
        let loads = &workload.partitions[&8][0].parts;
        let max = loads.iter().map(|l| l.edges).max().unwrap() as f64;
        max * 8.0 / workload.edges as f64
    };
    let (without, with) = (imbalance(false), imbalance(true));
    println!("squirrel x 8, most over mean edges: {without:.2} without, {with:.2} with balance");
    assert!(without > 3.0 && with < 1.2, "{without} {with}");
}

#[test]
fn all_parts_of_a_real_graph_hold_all_edges() {
    let photo = find("photo").unwrap();
    let partition = Metis::default()
        .partition((&photo.topology).into(), 4)
        .unwrap();
    let summary = summarise(&photo, &[(4, &Metis::default())]).unwrap();
    let parts = LocalPart::build_all(&photo.topology, &partition).unwrap();
    for (part, load) in parts.iter().zip(&summary.partitions[&4][0].parts) {
        let edges = part.edges(gnnc_ir::EdgeSet::Plain);
        assert_eq!(edges.in_csr.indices.len() as u64, load.edges);
        assert_eq!(
            (part.inner as u64, part.halo() as u64),
            (load.inner, load.halo)
        );
        assert_eq!(Some(part.reach()), load.reach);
        let mut sent = vec![0; 4];
        for (reader, rows) in &part.send {
            sent[*reader as usize] = rows.len() as u64;
        }
        let messages = &summary.partitions[&4][0].messages;
        assert_eq!(sent, messages[part.rank as usize]);
    }
}
