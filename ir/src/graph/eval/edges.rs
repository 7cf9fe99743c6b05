//! Message passing over an explicit list of edges.

use super::{EvalError, Tensor};
use crate::kernel::{End, Reduce};
use crate::words::types::{EdgeSet, Rows, Type};
use std::collections::BTreeMap;

/// Edges by destination, with sources sorted within each.
pub(super) struct Edges {
    /// Rows at the destinations.
    vertices: usize,
    /// Rows at the sources.
    sources: usize,
    /// Source and destination of every edge.
    pub(super) list: Vec<(u32, u32)>,
    /// Place of every edge among those of all sets; empty with self loops.
    pub(super) places: Vec<usize>,
}

impl Edges {
    /// Reads the edges of an in-neighbor CSR.
    pub(super) fn plain(indptr: &[u64], indices: &[u32]) -> Result<Self, EvalError> {
        Self::between(indptr, indices, indptr.len().saturating_sub(1))
    }

    /// The same with another number of sources.
    pub(super) fn between(
        indptr: &[u64],
        indices: &[u32],
        sources: usize,
    ) -> Result<Self, EvalError> {
        let bad = |why: String| Err(EvalError::Topology(why));
        let (Some(first), Some(last)) = (indptr.first(), indptr.last()) else {
            return bad("indptr is empty, expected one entry more than vertices".into());
        };
        if *first != 0 || *last != indices.len() as u64 {
            let edges = indices.len();
            return bad(format!(
                "indptr runs from {first} to {last}, expected 0 to {edges}"
            ));
        }
        let vertices = indptr.len() - 1;
        let mut list = Vec::with_capacity(indices.len());
        for (dst, ends) in indptr.windows(2).enumerate() {
            let Some(row) = indices.get(ends[0] as usize..ends[1] as usize) else {
                return bad(format!("indptr decreases after vertex {dst}"));
            };
            for src in row {
                if *src as usize >= sources {
                    return bad(format!(
                        "edge {src} -> {dst} in a graph of {sources} vertices"
                    ));
                }
                list.push((*src, dst as u32));
            }
        }
        Ok(Self {
            vertices,
            sources,
            places: (0..list.len()).collect(),
            list,
        })
    }

    /// The edges of the set with a number; 0 is the plain one. `sets` has that of every edge, or is
    /// empty if all are plain.
    pub(super) fn of_set(&self, sets: &[u8], number: u8) -> Self {
        let of = |place: &usize| sets.get(*place).copied().unwrap_or(0) == number;
        let places: Vec<usize> = (0..self.list.len()).filter(of).collect();
        Self {
            vertices: self.vertices,
            sources: self.sources,
            list: places.iter().map(|place| self.list[*place]).collect(),
            places,
        }
    }

    /// The same edges plus one self loop per vertex, placed before the first larger source.
    pub(super) fn with_loops(&self) -> Self {
        let mut list = Vec::with_capacity(self.list.len() + self.vertices);
        let mut rest = self.list.as_slice();
        for v in 0..self.vertices as u32 {
            let row = rest.iter().take_while(|(_, dst)| *dst == v).count();
            let before = rest[..row].iter().take_while(|(src, _)| *src <= v).count();
            list.extend_from_slice(&rest[..before]);
            list.push((v, v));
            list.extend_from_slice(&rest[before..row]);
            rest = &rest[row..];
        }
        Self {
            vertices: self.vertices,
            sources: self.sources,
            list,
            places: Vec::new(),
        }
    }

    fn rows(&self, end: End) -> usize {
        match end {
            End::Src => self.sources,
            End::Dst => self.vertices,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Number of edges at an end of each vertex.
    pub(super) fn degrees(&self, end: End) -> Vec<f64> {
        let mut degrees = vec![0.0; self.rows(end)];
        for edge in &self.list {
            degrees[at(end, *edge)] += 1.0;
        }
        degrees
    }

    /// For each edge, the number of edges of its type into its destination.
    pub(super) fn relation_degrees(&self, types: &[u16]) -> Vec<f64> {
        let kinds = || {
            self.list
                .iter()
                .map(|(_, dst)| *dst)
                .zip(self.places.iter().map(|place| types[*place]))
        };
        let mut counts: BTreeMap<(u32, u16), f64> = BTreeMap::new();
        kinds().for_each(|kind| *counts.entry(kind).or_default() += 1.0);
        kinds()
            .filter_map(|kind| counts.get(&kind).copied())
            .collect()
    }

    /// 1 for edges whose source does not come after the destination, 0 for the others.
    pub(super) fn fresh(&self, set: EdgeSet, order: &[u32]) -> Tensor {
        let place = |v: u32| order.get(v as usize).copied().unwrap_or(0);
        let edges = self.list.iter();
        let fresh = edges.map(|&(src, dst)| f64::from(u8::from(place(src) <= place(dst))));
        Tensor::new(
            Type::new(Rows::Edges(set), 1, 1),
            self.len(),
            fresh.collect(),
        )
    }

    /// Vertex rows to edge rows.
    pub(super) fn take(&self, ty: Type, end: End, x: &Tensor) -> Tensor {
        let data = self
            .list
            .iter()
            .flat_map(|edge| x.row(at(end, *edge)).iter().copied());
        Tensor::new(ty, self.len(), data.collect())
    }

    /// Edge rows to vertex rows; 0 where a vertex has no edges.
    pub(super) fn gather(&self, ty: Type, end: End, reduce: Reduce, x: &Tensor) -> Tensor {
        let mut out = Tensor::full(ty, self.rows(end), 0.0);
        let columns = ty.columns() as usize;
        let mut seen = vec![false; self.rows(end)];
        for (e, edge) in self.list.iter().enumerate() {
            let v = at(end, *edge);
            let first = !std::mem::replace(&mut seen[v], true);
            for (sum, value) in out.data[v * columns..].iter_mut().zip(x.row(e)) {
                *sum = match first {
                    true => *value,
                    false => reduce.fold([*sum, *value].into_iter()),
                };
            }
        }
        out
    }

    /// Mean over the edges into each vertex; 0 where there are none.
    pub(super) fn mean(&self, ty: Type, x: &Tensor) -> Tensor {
        let mut out = self.gather(ty, End::Dst, Reduce::Sum, x);
        let columns = ty.columns() as usize;
        for (v, degree) in self.degrees(End::Dst).iter().enumerate() {
            for value in &mut out.data[v * columns..(v + 1) * columns] {
                *value /= degree.max(1.0);
            }
        }
        out
    }

    /// Softmax over the edges into each vertex, for every column.
    pub(super) fn softmax(&self, ty: Type, x: &Tensor) -> Tensor {
        let vertex = Type {
            rows: crate::words::types::Rows::Vertices,
            ..ty
        };
        let top = self.take(ty, End::Dst, &self.gather(vertex, End::Dst, Reduce::Max, x));
        let exp = x
            .data
            .iter()
            .zip(&top.data)
            .map(|(x, top)| (x - top).exp())
            .collect();
        let mut out = Tensor::new(ty, self.len(), exp);
        let sum = self.take(
            ty,
            End::Dst,
            &self.gather(vertex, End::Dst, Reduce::Sum, &out),
        );
        for (value, sum) in out.data.iter_mut().zip(&sum.data) {
            *value /= sum;
        }
        out
    }
}

fn at(end: End, (src, dst): (u32, u32)) -> usize {
    match end {
        End::Src => src as usize,
        End::Dst => dst as usize,
    }
}
