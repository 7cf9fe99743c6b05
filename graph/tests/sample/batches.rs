//! The seeds of batches.

use gnnc_graph::example::g8;
use gnnc_graph::partition::{Partition, Partitioner, Range};
use gnnc_graph::sample::{At, Batches, Cut, SampleError, home, shares};
use std::collections::BTreeSet;

fn batches(seeds: u32, size: u32, cut: Cut) -> Batches {
    Batches::new((0..seeds).collect(), size, cut, 0).unwrap()
}

#[test]
fn orders_are_these() {
    let batches = batches(8, 8, Cut::Even);
    assert_eq!(batches.epoch(0).unwrap().seeds(0), [0, 2, 3, 4, 1, 7, 5, 6]);
    assert_eq!(batches.epoch(1).unwrap().seeds(0), [6, 7, 2, 4, 1, 3, 0, 5]);
    let other = Batches::new(vec![30, 10, 20], 3, Cut::Even, 0).unwrap();
    assert_eq!(other.seeds(), [10, 20, 30]);
    let mut seeds = other.epoch(5).unwrap().seeds(0).to_vec();
    seeds.sort_unstable();
    assert_eq!(seeds, [10, 20, 30]);
}

#[test]
fn cuts_have_these_sizes() {
    for (seeds, size, cut, sizes) in [
        (10, 4, Cut::Even, &[4, 3, 3][..]),
        (10, 4, Cut::Short, &[4, 4, 2]),
        (10, 4, Cut::Drop, &[4, 4]),
        (10, 5, Cut::Drop, &[5, 5]),
        (3, 10, Cut::Even, &[3]),
        (3, 10, Cut::Short, &[3]),
        (3, u32::MAX, Cut::Short, &[3]),
    ] {
        let batches = batches(seeds, size, cut);
        for epoch in 0..2 {
            let epoch = batches.epoch(epoch).unwrap();
            let found: Vec<usize> = (0..batches.count()).map(|b| epoch.seeds(b).len()).collect();
            assert_eq!(found, sizes, "{seeds} seeds, {size} a batch, {cut:?}");
            let all: BTreeSet<u32> = (0..batches.count())
                .flat_map(|b| epoch.seeds(b).to_vec())
                .collect();
            assert_eq!(
                all.len(),
                sizes.iter().sum::<usize>(),
                "no seed comes twice"
            );
            assert!(epoch.seeds(batches.count()).is_empty());
        }
    }
}

#[test]
fn steps_are_counted_over_the_run() {
    let batches = batches(10, 4, Cut::Even);
    assert_eq!(batches.epoch(0).unwrap().step(2), 2);
    assert_eq!(batches.epoch(7).unwrap().step(1), 22);
    let last = u32::MAX / 3 - 1;
    assert_eq!(batches.epoch(last).unwrap().step(2), u32::MAX - 1);
    let refused = batches.epoch(last + 1).unwrap_err();
    assert!(matches!(
        refused,
        SampleError::TooManySteps { batches: 3, .. }
    ));
}

#[test]
fn what_leaves_no_batch_is_refused() {
    let new = |seeds: u32, size, cut| Batches::new((0..seeds).collect(), size, cut, 0).err();
    assert_eq!(new(0, 4, Cut::Even), Some(SampleError::NoSeeds));
    assert_eq!(new(4, 0, Cut::Even), Some(SampleError::EmptyBatch));
    let expected = SampleError::NothingLeft { size: 5, seeds: 4 };
    assert_eq!(new(4, 5, Cut::Drop), Some(expected));
}

#[test]
fn ranks_share_each_batch() {
    let topology = g8().topology;
    let halves = Range.partition((&topology).into(), 2).unwrap();
    let batches = batches(8, 5, Cut::Even);
    let epoch = batches.epoch(0).unwrap();
    assert_eq!(epoch.seeds(1), [1, 7, 5, 6]);
    let dealt = [0, 1, 2].map(|rank| epoch.dealt(1, 3, rank));
    assert_eq!(dealt, [&[1, 7][..], &[5], &[6]]);
    assert!(epoch.dealt(1, 5, 4).is_empty());
    let mut own = Vec::new();
    home(epoch.seeds(1), &halves, 0, &mut own);
    assert_eq!(own, [1]);
    home(epoch.seeds(1), &halves, 1, &mut own);
    assert_eq!(own, [7, 5, 6]);
}

#[test]
fn own_shares_differ_by_one_and_make_as_many_batches() {
    let halves = Partition::new(2, vec![0, 0, 0, 0, 1, 1, 1, 1]).unwrap();
    assert_eq!(shares(&[0, 1, 2, 5], &halves), [[0, 1], [2, 5]]);
    // The first run is of rank 1, two others mostly of rank 2, which gets the first of them.
    let crossed = Partition::new(3, vec![2, 2, 2, 2, 1, 1, 1, 1]).unwrap();
    let found = shares(&[0, 1, 2, 3, 4, 5, 6, 7], &crossed);
    assert_eq!(found, [vec![2, 3], vec![4, 5, 6], vec![7, 0, 1]]);

    let own = Batches::own(&[vec![0, 1, 2], vec![5, 4]], 2, 0).unwrap();
    assert_eq!([own[0].count(), own[1].count()], [3, 3]);
    for (rank, sizes) in [[1, 1, 1], [1, 1, 0]].into_iter().enumerate() {
        let epoch = own[rank].epoch(4).unwrap();
        assert_eq!([0, 1, 2].map(|b| epoch.seeds(b).len()), sizes);
        assert_eq!(epoch.step(0), 12);
    }
    let many = |rank: usize| {
        let share: Vec<u32> = (0..100).collect();
        let own = Batches::own(&[share.clone(), share], 200, 0).unwrap();
        own[rank].epoch(0).unwrap().seeds(0).to_vec()
    };
    assert_ne!(many(0), many(1), "ranks have orders of their own");
    assert!(Batches::own(&[vec![], vec![]], 2, 0).is_err());
}

/// A batch that is asked for ahead must be the one that is needed later; any other is drawn in vain.
#[test]
fn batches_ahead_are_those_of_later_steps() {
    let at = At {
        epoch: 2,
        batch: 3,
        step: 13,
    };
    let later = |batch, step| At { batch, step, ..at };
    assert_eq!(at.ahead(0, 5), Some(at));
    assert_eq!(at.ahead(1, 5), Some(later(4, 14)));
    assert_eq!(at.ahead(2, 5), None, "the epoch has five batches");
    let evaluation = At::evaluation(0);
    assert_eq!(evaluation.ahead(2, 5), Some(At::evaluation(2)));
}
