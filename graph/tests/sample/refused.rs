//! Unusual batches, and what is refused.

use crate::{rule, sampled};
use gnnc_graph::Topology;
use gnnc_graph::example::g8;
use gnnc_graph::sample::{ALL, Blocks, Fanout, Kind, MAX_HOPS, Rule, SampleError, Sampler};

#[test]
fn fanouts_above_every_degree_keep_everything() {
    let topology = g8().topology;
    let full = sampled(&topology, &rule(Kind::Full, &[ALL, ALL], 0), &[3, 0], 4);
    assert_eq!(full.layer(2).edges.row(0).len(), 3);
    assert_eq!(full.layer(2).scales, [1.0, 1.0]);
    for kind in Kind::ALL.iter().copied() {
        let fanouts = if kind == Kind::Full { [ALL; 2] } else { [3; 2] };
        let rule = rule(kind, &fanouts, 0);
        assert_eq!(sampled(&topology, &rule, &[3, 0], 4), full);
    }
}

#[test]
fn fanout_0_keeps_nothing() {
    for kind in [Kind::Neighbor, Kind::Labor] {
        let blocks = sampled(&g8().topology, &rule(kind, &[0, 2], 0), &[3, 0], 0);
        assert_eq!(blocks.level(1), [3, 0]);
        assert_eq!(blocks.layer(2).edges.indptr, [0, 0, 0]);
        assert_eq!(blocks.layer(2).scales, [0.0, 0.0]);
        assert_eq!(blocks.layer(1).edges.indices.len(), 4);
    }
}

#[test]
fn isolated_seeds_and_no_seeds_are_fine() {
    let (topology, _) = Topology::from_edges(4, [(0, 1)]).unwrap();
    for threads in [1, 2] {
        for kind in [Kind::Neighbor, Kind::Labor] {
            let rule = rule(kind, &[2, 2], 0);
            let mut sampler = Sampler::new(&topology, &rule, threads).unwrap();
            let mut blocks = Blocks::default();
            sampler.sample(&[3, 2], 0, &mut blocks).unwrap();
            assert_eq!((blocks.level(0), blocks.edges()), (&[3, 2][..], 0));
            assert_eq!(blocks.layer(2).scales, [0.0, 0.0]);
            sampler.sample(&[], 0, &mut blocks).unwrap();
            assert_eq!((blocks.layers(), blocks.edges()), (2, 0));
            assert_eq!(blocks.level(0), [0u32; 0]);
            assert_eq!(blocks.layer(1).edges.indptr, [0]);
        }
    }
}

/// A refused batch leaves the sampler as it was.
#[test]
fn seeds_that_are_none_are_refused() {
    let topology = g8().topology;
    for threads in [1, 2] {
        let rule = rule(Kind::Neighbor, &[2, 2], 0);
        let mut sampler = Sampler::new(&topology, &rule, threads).unwrap();
        let mut blocks = Blocks::default();
        let refused = sampler.sample(&[3, 8], 0, &mut blocks).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "seed 8 at position 1 names no vertex; the graph has 8"
        );
        assert_eq!(blocks.layers(), 0);
        sampler.sample(&[3], 0, &mut blocks).unwrap();
        assert_eq!(blocks, sampled(&topology, &rule, &[3], 0));
    }
}

#[test]
fn of_repeated_seeds_the_first_stays() {
    let topology = g8().topology;
    let rule = rule(Kind::Neighbor, &[2, 2], 0);
    let repeated = sampled(&topology, &rule, &[3, 0, 3, 3, 0, 5], 0);
    assert_eq!(repeated, sampled(&topology, &rule, &[3, 0, 5], 0));
    assert_eq!(repeated.level(2), [3, 0, 5]);
}

#[test]
fn fanouts_that_do_not_fit_are_refused() {
    let each = |number| vec![Fanout::Each(2); number];
    for found in [0, MAX_HOPS + 1] {
        let refused = Rule::new(Kind::Neighbor, each(found), 0);
        assert_eq!(refused, Err(SampleError::Hops { found }));
    }
    let deep = Rule::new(Kind::Neighbor, each(MAX_HOPS), 0).unwrap();
    assert_eq!(sampled(&g8().topology, &deep, &[3], 0).layers(), MAX_HOPS);

    let fanouts = vec![Fanout::Each(ALL), Fanout::Each(2)];
    let refused = Rule::new(Kind::Full, fanouts, 0);
    assert_eq!(refused, Err(SampleError::LimitOfFull { hop: 2 }));

    let by_type = Rule::new(Kind::Labor, vec![Fanout::Types(vec![1, 2])], 0).unwrap();
    let refused = Sampler::new(&g8().topology, &by_type, 1).err();
    let expected = SampleError::Types {
        hop: 1,
        found: 2,
        relations: 0,
    };
    assert_eq!(refused, Some(expected));
}
