//! Caches of other workers' rows in plans.

use crate::support::{example, gnnc};

/// A candidate's peak memory and the rows that it keeps.
struct Kept {
    memory: f64,
    rows: u64,
    fits: bool,
}

/// The candidates on batches for devices with so much memory.
fn kept(memory: &str, more: &[&str]) -> Vec<Kept> {
    let model = example("sage_cora.gir");
    let cluster = format!("nodes=1 gpus=4 gpu=cpu-core link=10gb memory={memory}");
    let args = [
        "plan",
        &model,
        "--allow",
        "sample",
        "--batch",
        "35",
        "--fanouts",
        "5,5",
        "--all",
    ];
    let pin = [
        "--cluster",
        &cluster,
        "--pin",
        "placement=minibatch,ranks=4,partitioner=metis",
    ];
    let answer = gnnc(
        args.iter()
            .chain(&pin)
            .chain(more)
            .chain(&["--format", "json"]),
    )
    .plan();
    let of = |candidate: &serde_json::Value| Kept {
        memory: candidate["peak_memory_bytes"].as_f64().unwrap(),
        rows: candidate["parameters"]["sampling"]["cache"]
            .as_u64()
            .unwrap_or(0),
        fits: candidate["fits"].as_bool().unwrap(),
    };
    answer["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .map(of)
        .collect()
}

#[test]
fn a_plan_keeps_as_many_rows_as_fit() {
    let all = kept("1GiB", &[]);
    assert_eq!(all.iter().map(|one| one.rows).max(), Some(2708));
    let full = all.iter().map(|one| one.memory).fold(0.0, f64::max);
    // Twelve MiB less than all rows take.
    let memory = (full / f64::from(1 << 20)) as u64 - 12;
    let limited = kept(&format!("{memory}MiB"), &[]);
    let most = limited.iter().max_by_key(|one| one.rows).unwrap();
    let has = (memory << 20) as f64;
    assert!((100..2708).contains(&most.rows), "{}", most.rows);
    assert!(limited.iter().all(|one| one.fits));
    assert!(
        most.memory <= has && most.memory > 0.99 * has,
        "{} of {has}",
        most.memory
    );
    // A number of rows that was asked for stays.
    let asked = kept(&format!("{memory}MiB"), &["--cache", "2708"]);
    assert!(asked.iter().all(|one| one.rows == 2708 && !one.fits));
}

#[test]
fn no_memory_is_left_for_a_cache() {
    let none = kept("1GiB", &["--cache", "0"]);
    let memory = none[0].memory as u64 + 2000;
    let limited = kept(&format!("{memory}B"), &[]);
    assert_eq!(limited.iter().map(|one| one.rows).collect::<Vec<_>>(), [0]);
    assert!(limited[0].fits);
}
