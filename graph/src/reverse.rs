//! Reverse edges.

use crate::{GraphError, Topology};

impl Topology {
    /// The graph with missing reverse edges added; of typed edges, each reverse has a type of its own.
    ///
    /// # Errors
    /// Named sets of edges; as [`Topology::with_inverse_relations`].
    pub fn with_reverses(&self) -> Result<Self, GraphError> {
        let expected =
            "a graph without them to add reverse edges to; add those of each set to the file";
        self.refuse_sets("edges", expected)?;
        let both = match self.relations() {
            0 => self.symmetrised(),
            _ => self.with_inverse_relations()?,
        };
        both.on_curve(self.places_on_curve().to_vec())
    }

    /// The graph with the reverse of every edge added; the reverse of an edge of type `r` has type
    /// `relations + r`.
    ///
    /// # Errors
    /// If the result has more than [`MAX_RELATIONS`](gnnc_ir::workload::MAX_RELATIONS) relations.
    pub fn with_inverse_relations(&self) -> Result<Self, GraphError> {
        let count = self.relations();
        let inverse =
            |(src, dst, kind): (u32, u32, u16)| (dst, src, kind.saturating_add(count as u16));
        let both = self.typed_edges().chain(self.typed_edges().map(inverse));
        Self::typed(self.vertices(), 2 * count, both).map(|(topology, _)| topology)
    }

    /// The same graph with every edge reversed, without types.
    pub fn transposed(&self) -> Self {
        let n = self.vertices() as usize;
        let mut indptr = vec![0u64; n + 1];
        for &u in self.indices() {
            indptr[u as usize + 1] += 1;
        }
        for v in 0..n {
            indptr[v + 1] += indptr[v];
        }
        let mut next = indptr.clone();
        let mut indices = vec![0u32; self.indices().len()];
        for v in 0..n as u32 {
            for &u in self.in_neighbours(v) {
                let slot = &mut next[u as usize];
                indices[*slot as usize] = v;
                *slot += 1;
            }
        }
        Self::untyped(indptr, indices)
    }

    /// The graph with missing reverse edges added, without types.
    pub fn symmetrised(&self) -> Self {
        let reverse = self.transposed();
        let mut indptr = Vec::with_capacity(self.indptr().len());
        let mut indices = Vec::with_capacity(self.indices().len());
        indptr.push(0);
        for v in 0..self.vertices() {
            merge(
                self.in_neighbours(v),
                reverse.in_neighbours(v),
                &mut indices,
            );
            indptr.push(indices.len() as u64);
        }
        Self::untyped(indptr, indices)
    }

    /// Whether every edge has its reverse.
    pub fn is_symmetric(&self) -> bool {
        let reversed = self.transposed();
        (self.indptr(), self.indices()) == (reversed.indptr(), reversed.indices())
    }
}

/// Appends the union of two ascending lists.
pub(crate) fn merge<T: Copy + Ord>(a: &[T], b: &[T], out: &mut Vec<T>) {
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        let next = a[i].min(b[j]);
        i += usize::from(a[i] == next);
        j += usize::from(b[j] == next);
        out.push(next);
    }
    out.extend_from_slice(&a[i..]);
    out.extend_from_slice(&b[j..]);
}
