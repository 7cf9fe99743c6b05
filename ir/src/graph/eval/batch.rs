//! Sampled batches in the interpreter.

use super::edges::Edges;
use super::{EvalError, Tensor};
use crate::words::sampling::Drawn;
use crate::words::types::{EdgeSet, Level};

/// A sampled batch. Level `L` are its seeds, and every level is a prefix of the one below.
#[derive(Clone, Debug, PartialEq)]
pub struct EvalBatch {
    /// Vertices of level 0.
    pub ids: Vec<u32>,
    /// Rows of each level, from level 0.
    pub levels: Vec<usize>,
    /// The edges into level 1, then those into level 2, and so on.
    pub layers: Vec<EvalLayer>,
}

/// The edges from one level into the next one.
#[derive(Clone, Debug, PartialEq)]
pub struct EvalLayer {
    /// The first edge of each row, and one past the last.
    pub indptr: Vec<u64>,
    /// Row of the source of every edge in the level below.
    pub indices: Vec<u32>,
    /// For each edge, the edges of its type into its destination in the whole graph over those
    /// kept.
    pub scales: Vec<f64>,
    /// Type of every edge; empty if edges have no types.
    pub types: Vec<u16>,
    /// For each edge, the edges of its type into its destination in the whole graph; empty if
    /// edges have no types.
    pub degrees: Vec<f64>,
    /// The features of each edge, edge by edge; empty if edges have none.
    pub features: Vec<f64>,
}

/// A batch with its edges listed; without one, there are no rows.
pub(super) struct Levels<'a> {
    batch: Option<&'a EvalBatch>,
    /// By layer: the edges of the set that it runs over, and these with self loops.
    edges: Vec<[Edges; 2]>,
    none: Edges,
}

impl<'a> Levels<'a> {
    pub(super) fn new(batch: Option<&'a EvalBatch>, vertices: usize) -> Result<Self, EvalError> {
        let mut edges = Vec::new();
        for (number, layer) in batch
            .iter()
            .flat_map(|batch| batch.layers.iter().enumerate())
        {
            let below = batch.map_or(0, |batch| batch.levels[number]);
            let plain = Edges::between(&layer.indptr, &layer.indices, below)?;
            let looped = plain.with_loops();
            edges.push([plain, looped]);
        }
        if let Some(id) = batch
            .iter()
            .flat_map(|batch| &batch.ids)
            .find(|id| **id as usize >= vertices)
        {
            let why = format!("vertex {id} of a batch in a graph of {vertices} vertices");
            return Err(EvalError::Topology(why));
        }
        let none = Edges::between(&[0], &[], 0)?;
        Ok(Self { batch, edges, none })
    }

    pub(super) fn rows(&self, level: Level) -> usize {
        let levels = self.batch.map_or(&[][..], |batch| &batch.levels);
        levels.get(usize::from(level.number)).copied().unwrap_or(0)
    }

    pub(super) fn vertex(&self, row: u32) -> u32 {
        let ids = self.batch.map_or(&[][..], |batch| &batch.ids);
        ids.get(row as usize).copied().unwrap_or(0)
    }

    /// The edges into a level.
    pub(super) fn edges(&self, layer: Level, set: EdgeSet) -> &Edges {
        let found = usize::from(layer.number)
            .checked_sub(1)
            .and_then(|number| self.edges.get(number));
        match (found, set) {
            (None, _) => &self.none,
            (Some([plain, _]), EdgeSet::Plain | EdgeSet::Named(_)) => plain,
            (Some([_, looped]), EdgeSet::Looped) => looped,
        }
    }

    /// Numbers of the batch. `degrees` are those that are asked for, of all vertices and without self
    /// loops.
    pub(super) fn drawn(&self, drawn: Drawn, degrees: &[f64]) -> Tensor {
        let ty = drawn.ty();
        let layer = |layer: Level| {
            let number = usize::from(layer.number).checked_sub(1)?;
            self.batch?.layers.get(number)
        };
        let data: Vec<f64> = match drawn {
            Drawn::Kept(level, set) => {
                let edges = self.edges(level, set);
                edges.degrees(crate::kernel::End::Dst)
            }
            Drawn::Degree(level, set, _) => {
                let ids = self.batch.map_or(&[][..], |batch| &batch.ids);
                let loops = set.loops() as f64;
                let degree = |id: &u32| loops + degrees.get(*id as usize).copied().unwrap_or(0.0);
                ids[..self.rows(level)].iter().map(degree).collect()
            }
            Drawn::Scale(into, set) => {
                let scales = layer(into).map_or(&[][..], |layer| &layer.scales);
                let mut kept = scales.iter().copied();
                let edges = self.edges(into, set).list.iter();
                edges
                    .map(|(src, dst)| match src == dst {
                        true => 1.0,
                        false => kept.next().unwrap_or(0.0),
                    })
                    .collect()
            }
            Drawn::Relation(into, _) => {
                let types = layer(into).map_or(&[][..], |layer| &layer.types);
                types.iter().map(|kind| f64::from(*kind)).collect()
            }
            Drawn::RelationDegree(into, _) => {
                layer(into).map_or(Vec::new(), |layer| layer.degrees.clone())
            }
            Drawn::EdgeFeatures(into, ..) => {
                layer(into).map_or(Vec::new(), |layer| layer.features.clone())
            }
        };
        Tensor::new(ty, data.len() / ty.columns().max(1) as usize, data)
    }
}
