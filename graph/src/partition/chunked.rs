//! Chunks of parts, which pipelines process one after another (GNNPipe, section 3.0).

use super::{Metis, Partition};
use crate::{GraphError, Topology};

/// Attempted cuts before a chunk without vertices is an error.
const TRIES: u32 = 4;

impl Partition {
    /// The same parts, each cut into `chunks` chunks. Chunk `c` of the graph is the union of chunk
    /// `c` of all parts.
    ///
    /// # Errors
    /// If `chunks` is 0, `chunk` does not have one entry per vertex, or an entry is not below
    /// `chunks`.
    pub fn with_chunks(self, chunks: u32, chunk: Vec<u32>) -> Result<Self, GraphError> {
        if chunks == 0 {
            return Err(GraphError::NoChunks);
        }
        let (found, expected) = (chunk.len(), self.owner.len());
        if found != expected {
            return Err(GraphError::PartitionLength { found, expected });
        }
        match chunk.iter().position(|&chunk| chunk >= chunks) {
            Some(vertex) => Err(GraphError::NoSuchChunk {
                vertex: vertex as u32,
                chunk: chunk[vertex],
                chunks,
            }),
            None => Ok(Self {
                chunks,
                chunk: if chunks == 1 { Vec::new() } else { chunk },
                ..self
            }),
        }
    }

    /// The same parts, each cut by METIS into `chunks` chunks with few edges between them. If a cut
    /// leaves a chunk without vertices, it is repeated with other seeds. The same input gives the
    /// same result.
    ///
    /// # Errors
    /// A partition of another graph; no chunks, or more than some part's vertices; a chunk left
    /// without vertices by every attempt; a graph METIS cannot handle.
    pub fn cut_chunks(
        self,
        topology: &Topology,
        chunks: u32,
        seed: u64,
    ) -> Result<Self, GraphError> {
        self.check(topology)?;
        if chunks == 0 {
            return Err(GraphError::NoChunks);
        }
        let members = self.members();
        let small = (members.iter().zip(0..)).find(|(part, _)| part.len() < chunks as usize);
        if let Some((vertices, part)) = small {
            return Err(GraphError::TooManyChunks {
                part,
                vertices: vertices.len(),
                chunks,
            });
        }
        let mut left_out = None;
        for attempt in 0..TRIES {
            let metis = Metis {
                seed: seed.wrapping_add(u64::from(attempt)),
                balance_edges: false,
            };
            let chunk = match chunks {
                1 => vec![0; self.owner.len()],
                _ => metis.divide(topology, members.clone(), chunks)?,
            };
            left_out = self.empty(chunks, &chunk);
            if left_out.is_none() {
                return self.with_chunks(chunks, chunk);
            }
        }
        let (part, chunk) = left_out.unwrap_or_default();
        Err(GraphError::EmptyChunk {
            part,
            chunk,
            chunks,
            tries: TRIES,
        })
    }

    /// Chunks per part; 1 if parts are not cut.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// The chunk of a vertex.
    pub fn chunk_of(&self, vertex: u32) -> u32 {
        self.chunk.get(vertex as usize).copied().unwrap_or(0)
    }

    /// The first part that lacks a chunk's vertices, and that chunk.
    fn empty(&self, chunks: u32, chunk: &[u32]) -> Option<(u32, u32)> {
        let mut seen = vec![false; self.parts as usize * chunks as usize];
        for (&part, &chunk) in self.owner.iter().zip(chunk) {
            seen[part as usize * chunks as usize + chunk as usize] = true;
        }
        let place = seen.iter().position(|seen| !seen)? as u32;
        Some((place / chunks, place % chunks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use crate::partition::{Partitioner, Range};

    #[test]
    fn parts_are_cut_into_chunks() {
        let g8 = example::g8().topology;
        let whole = Partition::whole(8).cut_chunks(&g8, 4, 7).unwrap();
        assert_eq!(whole.chunks(), 4);
        let halves = Range.partition((&g8).into(), 2).unwrap();
        let cut = halves.clone().cut_chunks(&g8, 2, 7).unwrap();
        assert_eq!(cut, halves.clone().cut_chunks(&g8, 2, 7).unwrap());
        assert_eq!(cut.owner(), halves.owner());
        for half in [0..4, 4..8] {
            let ones = half.filter(|&v| cut.chunk_of(v) == 1).count();
            assert_eq!(ones, 2, "{cut:?}");
        }
        assert_eq!(halves.clone().cut_chunks(&g8, 1, 7).unwrap(), halves);
    }

    #[test]
    fn impossible_chunks_are_refused() {
        let g8 = example::g8().topology;
        let halves = Range.partition((&g8).into(), 2).unwrap();
        let error = |result: Result<Partition, GraphError>| result.unwrap_err().to_string();
        let many = error(halves.clone().cut_chunks(&g8, 5, 1));
        assert!(
            many.contains("part 0 has 4 vertices, too few for 5"),
            "{many}"
        );
        let none = error(halves.clone().cut_chunks(&g8, 0, 1));
        assert!(none.contains("0 chunks"), "{none}");
        let chunks = |chunks, of: &[u32]| error(halves.clone().with_chunks(chunks, of.to_vec()));
        assert!(chunks(2, &[0; 7]).contains("covers 7 vertices"));
        assert!(chunks(2, &[0, 1, 0, 1, 0, 1, 0, 2]).contains("vertex 7 belongs to chunk 2"));
        let (larger, _) = Topology::from_edges(9, [(0, 8)]).unwrap();
        assert!(error(halves.clone().cut_chunks(&larger, 2, 1)).contains("the graph has 9"));
        let skipped = halves.empty(2, &[0, 0, 0, 1, 1, 1, 1, 1]);
        assert_eq!(skipped, Some((1, 0)));
    }
}
