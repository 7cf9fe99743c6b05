//! The pairs of a graph, as far as batches of them are drawn: which are links to train on, and the ends of
//! pairs without a link, drawn anew in every step.

use crate::links::Ends;
use crate::{GraphData, Topology};
use gnnc_ir::EdgeSet;
use gnnc_ir::kernel::{End, mask_key, mix32, vertex_hash};
use gnnc_ir::words::sampling::Negatives;

/// Sites of the keys of drawn ends; sites of masks and hops are below them.
const SITE: u32 = 0xc000_0000;

/// Draws after which a pair is kept although it is a link.
const TRIES: u32 = 8;

/// The pairs of a graph, which are its last vertices.
#[derive(Clone, Debug)]
pub struct Pairs {
    /// The vertex of the first pair.
    first: u32,
    /// Of each pair.
    ends: Vec<Ends>,
    /// Whether a pair is a link to train on (true), a pair to train on without one (false), or neither.
    trained: Vec<Option<bool>>,
    /// The sets of edges from both ends.
    sets: [EdgeSet; 2],
    /// Whether each link to train on begins at the smaller of two vertices that have edges both ways.
    ordered: bool,
}

/// A pair without a link that was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negative {
    /// Its ends.
    pub ends: Ends,
    /// Whether it is a link or a vertex with itself all the same, as all draws were.
    pub is_link: bool,
}

impl Pairs {
    /// The pairs of a graph; `None` if it has none.
    pub fn of(data: &GraphData) -> Option<Self> {
        let (sets, ends, subjects) = (data.end_sets()?, data.ends()?, data.subjects());
        let is_trained = |v: u32| data.train.get(v as usize) == Some(&true);
        let trained = |v: u32| data.is_link(v).filter(|_| is_trained(v));
        let trained: Vec<Option<bool>> = subjects.clone().map(trained).collect();
        let mut links = ends.iter().zip(&trained);
        let ordered =
            links.all(|(ends, trained)| *trained != Some(true) || ends.source < ends.target);
        Some(Self {
            first: subjects.start,
            ordered: ordered && data.topology.only(EdgeSet::Plain).is_symmetric(),
            ends,
            trained,
            sets,
        })
    }

    /// Whether a pair of two vertices begins at the smaller one.
    pub fn ordered(&self) -> bool {
        self.ordered
    }

    /// The ends of a pair, by its vertex, if it is a link to train on.
    pub fn link(&self, pair: u32) -> Option<Ends> {
        let place = pair.checked_sub(self.first)? as usize;
        let is_link = self.trained.get(place).copied().flatten() == Some(true);
        self.ends.get(place).copied().filter(|_| is_link)
    }

    /// At which end of pairs the edges of a set are.
    pub(super) fn end_of(&self, set: EdgeSet) -> Option<End> {
        let [sources, targets] = self.sets;
        match set {
            set if set == sources => Some(End::Src),
            set if set == targets => Some(End::Dst),
            _ => None,
        }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        9 * self.ends.len()
    }

    /// The ends that a pair to train on without a link has in a step of the run with this seed; `None` for
    /// other vertices. `plain` are the edges that models see.
    pub fn negative(
        &self,
        plain: &Topology,
        how: Negatives,
        (seed, step): (u64, u32),
        pair: u32,
    ) -> Option<Negative> {
        let place = pair.checked_sub(self.first)? as usize;
        let is_drawn = self.trained.get(place).copied().flatten() == Some(false);
        let given = self.ends.get(place).copied().filter(|_| is_drawn)?;
        if how == Negatives::Given {
            return None;
        }
        let row = vertex_hash(mask_key(seed, step, SITE, 0), pair);
        let vertex = |number: u32| {
            let bits = mix32(row ^ number.wrapping_mul(0x9e37_79b9));
            ((u64::from(bits) * u64::from(self.first)) >> 32) as u32
        };
        let draw = |attempt: u32| {
            let target = vertex(2 * attempt + 1);
            let drawn = match how {
                Negatives::Targets | Negatives::Given => given.source,
                Negatives::Fresh => vertex(2 * attempt),
            };
            let swapped = self.ordered && how == Negatives::Fresh && drawn > target;
            let (source, target) = match swapped {
                true => (target, drawn),
                false => (drawn, target),
            };
            Ends { source, target }
        };
        let is_link = |ends: Ends| {
            let sources = plain.in_neighbours(ends.target);
            ends.source == ends.target || sources.binary_search(&ends.source).is_ok()
        };
        let mut found = Negative {
            ends: draw(0),
            is_link: true,
        };
        for attempt in 0..TRIES {
            let ends = draw(attempt);
            found = Negative {
                ends,
                is_link: is_link(ends),
            };
            if !found.is_link {
                break;
            }
        }
        Some(found)
    }
}

/// What draws the ends of pairs in one hop of a batch.
pub(super) struct Drawn<'a> {
    pub pairs: &'a Pairs,
    pub plain: &'a Topology,
    pub how: Negatives,
    /// Seed and step of the run.
    pub at: (u64, u32),
    /// The end that the hop runs over.
    pub end: End,
}

impl Drawn<'_> {
    /// The end of a pair, if it is drawn.
    pub fn end(&self, pair: u32) -> Option<u32> {
        let drawn = self.pairs.negative(self.plain, self.how, self.at, pair)?;
        Some(match self.end {
            End::Src => drawn.ends.source,
            End::Dst => drawn.ends.target,
        })
    }
}
