//! The ends of the pairs of a graph.

use super::{Ends, SOURCES, TARGETS};
use crate::{GraphData, GraphError, Labels, Topology};
use gnnc_ir::EdgeSet;
use std::iter::once;

impl GraphData {
    /// Whether the last vertices stand for pairs.
    pub fn has_pairs(&self) -> bool {
        self.topology.set_names().iter().any(|name| name == SOURCES)
    }

    /// The sets of edges from the first and from the second ends of pairs; `None` if there are no pairs.
    pub fn end_sets(&self) -> Option<[EdgeSet; 2]> {
        let names = self.topology.set_names();
        let place = |name: &str| names.iter().position(|known| known == name);
        let set = |name: &str| place(name).map(|place| EdgeSet::Named(place as u8 + 1));
        Some([set(SOURCES)?, set(TARGETS)?])
    }

    /// The ends of each pair, in order; `None` if there are no pairs.
    pub fn ends(&self) -> Option<Vec<Ends>> {
        let [sources, targets] = self.end_sets()?.map(|set| self.topology.only(set));
        let end = |edges: &Topology, v: u32| edges.in_neighbours(v).first().copied();
        let ends = self.subjects().map(|v| {
            Some(Ends {
                source: end(&sources, v)?,
                target: end(&targets, v)?,
            })
        });
        ends.collect()
    }

    /// Whether a pair is a link, if that is known.
    pub fn is_link(&self, pair: u32) -> Option<bool> {
        let label = match &self.labels {
            Labels::Values { width: 1, values } => values.get(pair as usize).copied(),
            Labels::None | Labels::Single(_) | Labels::Values { .. } => None,
        };
        match label {
            Some(1.0) => Some(true),
            Some(0.0) => Some(false),
            _ => None,
        }
    }

    /// For each vertex, those among which it is ranked have the same number: for a pair its source, for
    /// others 0.
    pub fn rivals(&self) -> Vec<u32> {
        let mut rivals = vec![0; self.vertices() as usize];
        for (pair, ends) in self.subjects().zip(self.ends().unwrap_or_default()) {
            rivals[pair as usize] = ends.source;
        }
        rivals
    }

    /// The same edges, with other ends of the pairs. Of fewer ends than there are pairs, the last ones are used
    /// again.
    ///
    /// # Errors
    /// No pairs, or no ends; ends that are no vertices.
    pub fn with_ends(&self, ends: &[Ends]) -> Result<Topology, GraphError> {
        let (Some([sources, targets]), Some(last)) = (self.end_sets(), ends.last()) else {
            return Err(GraphError::Unsupported {
                at: "links".to_owned(),
                found: "no pairs".to_owned(),
                expected: "at least one".to_owned(),
            });
        };
        let names = self.topology.set_names().to_vec();
        let plain = self.topology.relations().max(1) as u16;
        let kind = |set: EdgeSet| match set {
            EdgeSet::Plain | EdgeSet::Looped => 0,
            EdgeSet::Named(number) => plain + u16::from(number) - 1,
        };
        let of_pair = |kept: u16| kept == kind(sources) || kept == kind(targets);
        let others = self.topology.typed_edges();
        let others = others.filter(|(_, _, kind)| !of_pair(*kind));
        let ends = ends.iter().chain(std::iter::repeat(last));
        let of_pairs = self.subjects().zip(ends).flat_map(|(pair, ends)| {
            once((ends.source, pair, kind(sources))).chain(once((ends.target, pair, kind(targets))))
        });
        let types = u32::from(plain) + names.len() as u32;
        let (topology, _) = Topology::typed(self.vertices(), types, others.chain(of_pairs))?;
        topology.with_sets(names)
    }
}
