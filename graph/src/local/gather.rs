//! The edges of some parts as rows of the whole graph.

use super::{LocalPart, of_plain};
use crate::{GraphError, Topology};

impl LocalPart {
    /// The plain edges into the inner vertices of some parts of a graph with so many vertices, without their types.
    /// Other vertices have no edges into them.
    ///
    /// # Errors
    /// Parts of a larger graph.
    pub fn edges_into(parts: &[&Self], vertices: u32) -> Result<Topology, GraphError> {
        let plain: Vec<_> = parts
            .iter()
            .map(|part| of_plain(&part.edges, &part.types, part.sets.as_ref()).edges)
            .collect();
        let mut row_of = vec![None; vertices as usize];
        for (number, part) in parts.iter().enumerate() {
            for (row, v) in part.global[..part.inner].iter().enumerate() {
                if let Some(place) = row_of.get_mut(*v as usize) {
                    *place = Some((number as u32, row as u32));
                }
            }
        }
        let edges: usize = plain.iter().map(|edges| edges.indices.len()).sum();
        let mut indptr = Vec::with_capacity(row_of.len() + 1);
        let mut indices = Vec::with_capacity(edges);
        indptr.push(0);
        for place in row_of {
            if let Some((number, row)) = place {
                let (number, row) = (number as usize, row as usize);
                let global = &parts[number].global;
                let sources = plain[number].row(row).iter();
                indices.extend(sources.map(|source| global[*source as usize]));
            }
            indptr.push(indices.len() as u64);
        }
        Topology::new(indptr, indices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Partition, example};

    #[test]
    fn parts_have_the_edges_into_their_vertices() {
        let graph = example::g8().topology;
        let partition = Partition::new(2, vec![0, 1, 0, 1, 0, 1, 0, 1]).unwrap();
        let parts = LocalPart::build_all(&graph, &partition).unwrap();
        let all: Vec<&LocalPart> = parts.iter().collect();
        assert_eq!(LocalPart::edges_into(&all, 8).unwrap(), graph);
        let odd = LocalPart::edges_into(&all[1..], 8).unwrap();
        for v in 0..8 {
            let expected = if v % 2 == 1 {
                graph.in_neighbours(v)
            } else {
                &[]
            };
            assert_eq!(odd.in_neighbours(v), expected);
        }
    }
}
