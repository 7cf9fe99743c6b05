//! The edges that hops run over.

use super::{Pairs, SampleError};
use crate::{GraphData, Topology};
use gnnc_ir::EdgeSet;
use std::borrow::Borrow;
use std::sync::Arc;

/// The edges of a graph by set, as far as hops run over them.
#[derive(Clone, Debug)]
pub struct HopEdges<T> {
    plain: T,
    named: Vec<(EdgeSet, Arc<Topology>)>,
    /// If hops may run over the two ends of pairs.
    pairs: Option<Arc<Pairs>>,
}

impl<T> HopEdges<T> {
    /// The plain edges of a graph without named sets.
    pub fn plain(plain: T) -> Self {
        Self {
            plain,
            named: Vec::new(),
            pairs: None,
        }
    }

    /// The `plain` edges of a graph, and its named sets among those that hops run `over`; its pairs, if hops
    /// run over such sets.
    pub fn new(plain: T, data: &GraphData, over: &[EdgeSet]) -> Self {
        let graph = &data.topology;
        let mut named: Vec<(EdgeSet, Arc<Topology>)> = Vec::new();
        for set in over {
            let is_named = matches!(set, EdgeSet::Named(_));
            if is_named && named.iter().all(|(known, _)| known != set) {
                named.push((*set, Arc::new(graph.only(*set).into_owned())));
            }
        }
        let pairs = match named.is_empty() {
            true => None,
            false => Pairs::of(data).map(Arc::new),
        };
        Self {
            plain,
            named,
            pairs,
        }
    }
}

impl<T: Borrow<Topology>> HopEdges<T> {
    /// The pairs whose ends hops may run over.
    pub fn pairs(&self) -> Option<&Pairs> {
        self.pairs.as_deref()
    }

    /// The edges of a set, without self loops; `None` if no hop runs over it.
    pub fn of(&self, set: EdgeSet) -> Option<&Topology> {
        match set {
            EdgeSet::Plain | EdgeSet::Looped => Some(self.plain.borrow()),
            EdgeSet::Named(_) => {
                let found = self.named.iter().find(|(known, _)| *known == set);
                found.map(|(_, edges)| &**edges)
            }
        }
    }

    /// The edges that a hop (from 1, next to the seeds) runs over.
    ///
    /// # Errors
    /// No hop was said to run over that set.
    pub(super) fn of_hop(&self, set: EdgeSet, hop: usize) -> Result<&Topology, SampleError> {
        self.of(set).ok_or(SampleError::NoSet { hop })
    }

    /// Edges of all sets.
    pub fn edges(&self) -> u64 {
        let named = self.named.iter().map(|(_, edges)| edges.edges());
        self.plain.borrow().edges() + named.sum::<u64>()
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        let lists = 1 + self.named.len() as u64;
        let pairs = self.pairs.as_ref().map_or(0, |pairs| pairs.bytes() as u64);
        8 * lists * u64::from(self.plain.borrow().vertices()) + 4 * self.edges() + pairs
    }
}
