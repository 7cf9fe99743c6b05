//! Which share of the rows that batches read belongs to other parts.

use super::{Batches, Rule, SampleError, by_edges};
use crate::{Partition, Topology};

/// The expected share of the rows of level 0 that the ranks of a partition read of each other, if each works on the
/// seeds that it owns: over all parts, the probabilities that a batch of the part reads a vertex of another part, over
/// those that it reads any ([`by_edges`]). 0 if nothing is read. It takes time linear in edges, hops and parts.
///
/// # Errors
/// Fanouts by type that do not fit the graph.
pub fn remote_share(
    topology: &Topology,
    partition: &Partition,
    rule: &Rule,
    batches: &Batches,
) -> Result<f64, SampleError> {
    let owner = partition.owner();
    let seeds = batches.seeds();
    // Batches of an even cut hold each seed once.
    let is_seed = 1.0 / f64::from(batches.count());
    let (mut read, mut remote) = (0.0, 0.0);
    for part in 0..partition.parts() {
        let mut included = vec![0.0; owner.len()];
        for seed in seeds.iter().filter(|v| owner[**v as usize] == part) {
            included[*seed as usize] = is_seed;
        }
        by_edges(topology, rule, &mut included)?;
        for (p, owner) in included.iter().zip(owner) {
            read += p;
            if *owner != part {
                remote += p;
            }
        }
    }
    Ok(if read > 0.0 { remote / read } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use crate::sample::{Cut, Fanout, Kind};

    fn share(train: &[u32], owner: &[u32], size: u32) -> f64 {
        let g8 = example::g8().topology;
        let rule = Rule::new(Kind::Neighbor, vec![Fanout::Each(2); 2], 0).unwrap();
        let batches = Batches::new(train.to_vec(), size, Cut::Even, 0).unwrap();
        let parts = owner.iter().max().map_or(1, |last| last + 1);
        let partition = Partition::new(parts, owner.to_vec()).unwrap();
        remote_share(&g8, &partition, &rule, &batches).unwrap()
    }

    /// Blocks around 0 and 7 have all that these read; dealt out, a seed and what it reads are apart.
    #[test]
    fn blocks_of_g8_read_nothing_of_each_other() {
        assert!(share(&[0, 7], &[1, 1, 1, 1, 0, 0, 0, 0], 2) < 0.15);
        assert!(share(&[0, 7], &[0, 1, 0, 1, 0, 1, 0, 1], 2) > 0.4);
        assert_eq!(share(&[0, 7], &[0; 8], 2), 0.0);
    }

    /// Vertex 0 has the edges from 1 and 2. Both are read, and so are their sources 0 and 2, 0 and 1, and two of three
    /// of the former, and of the latter.
    #[test]
    fn shares_are_those_computed_by_hand() {
        // Seed 0: level 1 is 0, 1, 2. Vertex 1 keeps 0 and 2; vertex 2 keeps two of 0, 1 and 3.
        let read = 3.0 + 2.0 / 3.0;
        let owner = [0, 0, 0, 1, 1, 1, 1, 1];
        assert!((share(&[0], &owner, 1) - 2.0 / 3.0 / read).abs() < 1e-12);
        // A part without seeds reads nothing, and a batch of half as many seeds no other share here.
        let apart = [0, 1, 1, 1, 1, 1, 1, 1];
        assert!((share(&[0], &apart, 1) - (read - 1.0) / read).abs() < 1e-12);
    }
}
