//! Topologies of arrays that are checked.

use super::{Topology, check_vertices};
use crate::csr::{check_indices, check_indptr};
use crate::{GraphError, Values};

impl Topology {
    /// A topology from its two arrays, which are checked.
    ///
    /// # Errors
    /// A row pointer that does not start at 0, descends, or does not end at the number of indices;
    /// an index that names no vertex; neighbors that are not strictly ascending; self loops.
    pub fn new(
        indptr: impl Into<Values<u64>>,
        indices: impl Into<Values<u32>>,
    ) -> Result<Self, GraphError> {
        let topology = Self::of_rows(indptr.into(), indices.into())?;
        topology.check_order()?;
        Ok(topology)
    }

    /// The same with a type for each edge. Neighbors have to ascend by vertex and then by type.
    ///
    /// # Errors
    /// As [`Topology::new`]; types that are not one for each edge, or not below `relations`.
    pub(crate) fn with_edge_types(
        indptr: Values<u64>,
        indices: Values<u32>,
        relations: u32,
        types: Values<u16>,
    ) -> Result<Self, GraphError> {
        const AT: &str = "edge types";
        if types.len() != indices.len() {
            return Err(GraphError::WrongLength {
                at: AT.to_owned(),
                unit: "edges",
                found: types.len() as u64,
                expected: indices.len() as u64,
            });
        }
        if let Some(position) = types.iter().position(|kind| u32::from(*kind) >= relations) {
            return Err(GraphError::IndexOutOfRange {
                at: AT.to_owned(),
                position: position as u64,
                found: i128::from(types[position]),
                limit: u64::from(relations),
            });
        }
        let topology = Self::of_rows(indptr, indices)?.with_types(relations, types);
        topology.check_order()?;
        Ok(topology)
    }

    /// A topology whose rows may be in any order.
    fn of_rows(indptr: Values<u64>, indices: Values<u32>) -> Result<Self, GraphError> {
        const AT: &str = "topology";
        check_indptr(AT, &indptr, indices.len())?;
        let vertices = check_vertices(AT, indptr.len() as u128 - 1, indices.len() as u64)?;
        check_indices(AT, &indices, u64::from(vertices))?;
        Ok(Self::untyped(indptr, indices))
    }

    /// Checks that the edges into each vertex ascend by source and type, and that none is a self loop.
    fn check_order(&self) -> Result<(), GraphError> {
        for v in 0..self.vertices() {
            let (row, types) = (self.in_neighbours(v), self.types_into(v));
            let ascend = |n: usize| match types {
                [] => row[n - 1] < row[n],
                types => (row[n - 1], types[n - 1]) < (row[n], types[n]),
            };
            if let Some(n) = (1..row.len()).find(|n| !ascend(*n)) {
                return Err(GraphError::Unsorted {
                    at: "topology".to_owned(),
                    vertex: v,
                    before: row[n - 1],
                    after: row[n],
                });
            }
            if row.binary_search(&v).is_ok() {
                return Err(GraphError::SelfLoop {
                    at: "topology".to_owned(),
                    vertex: v,
                });
            }
        }
        Ok(())
    }
}
