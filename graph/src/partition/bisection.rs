//! Recursive bisection by METIS, balanced by one or several weights of the vertices.

use crate::csr::Csr;
use crate::{GraphError, Topology};
use metis::option::{NCuts, Seed};
use std::sync::{Mutex, PoisonError};

/// METIS draws from the C library's single random sequence, so concurrent runs would disturb each
/// other's results.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Cuts METIS makes of a strung graph; the smallest is kept. When a graph falls into many pieces,
/// the quality of a single cut varies much with the seed.
const STRUNG_CUTS: i32 = 2;

/// Weight of real edges in a graph that also has light edges between components.
const REAL_EDGE: i32 = 10;

/// The number of parts a set of vertices is to be divided into.
#[derive(Clone, Copy)]
struct Wanted {
    /// Index of the division that asks for it.
    division: usize,
    /// The first of these parts.
    first: u32,
    parts: u32,
}

impl Wanted {
    /// The first side's share of the vertices in the next cut.
    fn share(self) -> f32 {
        (self.parts / 2) as f32 / self.parts as f32
    }

    /// The division of the two sides.
    fn halves(self) -> [Self; 2] {
        let left = self.parts / 2;
        let half = |first, parts| Self {
            division: self.division,
            first,
            parts,
        };
        [
            half(self.first, left),
            half(self.first + left, self.parts - left),
        ]
    }
}

/// What METIS balances besides edges between parts, which it keeps few.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Weights {
    /// Weights of a vertex; 0 if each vertex counts 1.
    pub(super) components: usize,
    /// `vertices * components` weights, vertex by vertex.
    pub(super) of: Vec<i32>,
    /// How much of a component a part may have, over its share. METIS's own limit if `None`.
    pub(super) most: Option<f32>,
}

/// The weights of some vertices, in one component.
#[derive(Clone, Copy, Default)]
pub(super) struct Component {
    pub(super) sum: u64,
    /// The largest weight of a vertex.
    pub(super) heaviest: u64,
}

impl Component {
    /// How much a part may have, over its share of the sum, if it should be `most`. A part that is short of its share
    /// may need one more vertex. METIS would ignore all balances but the worst if that one could not be reached.
    pub(super) fn limit(self, most: f64, share: f64) -> f64 {
        most.max(1.0 + self.heaviest as f64 / (share * self.sum as f64).max(1.0))
    }
}

impl Weights {
    /// The weights of a vertex.
    pub(super) fn row(&self, v: usize) -> &[i32] {
        &self.of[v * self.components..(v + 1) * self.components]
    }

    /// Each component.
    pub(super) fn sums(&self) -> Vec<Component> {
        let mut sums = vec![Component::default(); self.components];
        for row in self.of.chunks_exact(self.components.max(1)) {
            for (component, weight) in sums.iter_mut().zip(row) {
                let weight = u64::from(weight.unsigned_abs());
                component.sum += weight;
                component.heaviest = component.heaviest.max(weight);
            }
        }
        sums
    }

    /// How much of each component a part may have, over its share. METIS's own limits if `None`.
    fn limits(&self, share: f32) -> Option<Vec<f32>> {
        let most = self.most.filter(|_| self.components > 0)?;
        let sums = self.sums().into_iter();
        let limits = sums.map(|sum| sum.limit(most.into(), share.into()) as f32);
        Some(limits.collect())
    }
}

/// A graph with an edge back for each edge, and how METIS is to divide it.
pub(super) struct MetisGraph {
    partitioner: &'static str,
    seed: i32,
    both: Topology,
    weights: Weights,
}

impl MetisGraph {
    /// A graph for the partitioner of this name. METIS uses the low 31 bits of the seed.
    ///
    /// # Errors
    /// More edges or weights than METIS can count.
    pub(super) fn new(
        partitioner: &'static str,
        seed: u64,
        topology: &Topology,
        weights: Weights,
    ) -> Result<Self, GraphError> {
        let graph = Self {
            partitioner,
            seed: (seed & 0x7fff_ffff) as i32,
            both: topology.symmetrised(),
            weights,
        };
        // METIS also sums weights in 32 bits; a string adds two edges per vertex.
        let vertices = u64::from(topology.vertices());
        let largest_sum = (graph.both.edges() + 2 * vertices) * REAL_EDGE as u64;
        let largest = largest_sum.max(graph.weights.of.len() as u64);
        if largest > i32::MAX as u64 {
            let most = i32::MAX;
            return Err(graph.failed(format!(
                "it counts in 32 bits, and {largest} is more than {most}"
            )));
        }
        Ok(graph)
    }

    fn failed(&self, reason: String) -> GraphError {
        GraphError::Partitioner {
            partitioner: self.partitioner,
            vertices: self.both.vertices(),
            edges: self.both.edges(),
            reason,
        }
    }

    /// Divides each of several disjoint sets of vertices by recursive bisection, using the edges within the
    /// set, once for each number of parts in `divisions`. Returns the part of each vertex.
    pub(super) fn bisected(
        &self,
        sets: Vec<Vec<u32>>,
        divisions: &[u32],
    ) -> Result<Vec<Vec<u32>>, GraphError> {
        let vertices = self.both.vertices() as usize;
        let mut owners = vec![vec![0u32; vertices]; divisions.len()];
        let mut local = vec![u32::MAX; vertices];
        let wanted = divisions.iter().enumerate();
        let wanted: Vec<Wanted> = wanted
            .map(|(division, &parts)| Wanted {
                division,
                first: 0,
                parts,
            })
            .collect();
        let mut open: Vec<(Vec<u32>, Vec<Wanted>)> =
            sets.into_iter().map(|set| (set, wanted.clone())).collect();
        while let Some((members, wanted)) = open.pop() {
            for (share, wanted) in cuts(&members, &wanted, &mut owners) {
                let graph = Bisection::induced(self, &members, &mut local);
                let side = graph.best(share);
                let side = side.map_err(|e| self.failed(e.to_string()))?;
                let (mut left, mut right) = (Vec::new(), Vec::new());
                for (&v, &side) in members.iter().zip(&side) {
                    if side == 0 { &mut left } else { &mut right }.push(v);
                }
                let (of_left, of_right) = wanted.into_iter().map(|w| w.halves().into()).unzip();
                open.push((left, of_left));
                open.push((right, of_right));
            }
        }
        Ok(owners)
    }

    /// Divides all vertices into `parts` parts at once. Returns the part of each vertex.
    pub(super) fn k_way(&self, parts: u32) -> Result<Vec<u32>, GraphError> {
        let part = self.cut_k_way(parts);
        let part = part.map_err(|e| self.failed(e.to_string()))?;
        Ok(part.into_iter().map(|part| part as u32).collect())
    }

    fn cut_k_way(&self, parts: u32) -> Result<Vec<i32>, metis::Error> {
        let xadj: Vec<i32> = self.both.indptr().iter().map(|at| *at as i32).collect();
        let adjncy: Vec<i32> = self.both.indices().iter().map(|u| *u as i32).collect();
        let weights = &self.weights;
        let constraints = weights.components.max(1);
        let limits = weights.limits(1.0 / parts as f32);
        let mut graph = metis::Graph::new(constraints as i32, parts as i32, &xadj, &adjncy)?
            .set_option(Seed(self.seed));
        if weights.components > 0 {
            graph = graph.set_vwgt(&weights.of);
        }
        if let Some(limits) = &limits {
            graph = graph.set_ubvec(limits);
        }
        let mut part = vec![0; self.both.vertices() as usize];
        let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        graph.part_kway(&mut part)?;
        drop(guard);
        Ok(part)
    }

    /// Edges between parts, each counted in both directions.
    pub(super) fn edges_between(&self, owner: &[u32]) -> u64 {
        let between = |v: u32| {
            let neighbors = self.both.in_neighbours(v).iter();
            let other = neighbors.filter(|u| owner[**u as usize] != owner[v as usize]);
            other.count() as u64
        };
        (0..self.both.vertices()).map(between).sum()
    }

    /// The weights.
    pub(super) fn weights(&self) -> &Weights {
        &self.weights
    }
}

/// Groups the divisions of these vertices by the first side's share in their next cut. Where no
/// choice is left, writes the owners instead.
fn cuts(members: &[u32], wanted: &[Wanted], owners: &mut [Vec<u32>]) -> Vec<(f32, Vec<Wanted>)> {
    let mut cuts: Vec<(f32, Vec<Wanted>)> = Vec::new();
    for wanted in wanted {
        if wanted.parts == 1 || members.len() <= wanted.parts as usize {
            let owner = &mut owners[wanted.division];
            for (i, &v) in (0..).zip(members) {
                owner[v as usize] = wanted.first + if wanted.parts == 1 { 0 } else { i };
            }
            continue;
        }
        let share = wanted.share();
        match cuts.iter_mut().find(|(known, _)| *known == share) {
            Some((_, alike)) => alike.push(*wanted),
            None => cuts.push((share, vec![*wanted])),
        }
    }
    cuts
}

/// A symmetric graph to cut in two.
struct Bisection {
    xadj: Vec<i32>,
    adjncy: Vec<i32>,
    weights: Weights,
    seed: i32,
}

impl Bisection {
    /// The subgraph of `members`. `local` is scratch space with one entry per vertex.
    fn induced(graph: &MetisGraph, members: &[u32], local: &mut [u32]) -> Self {
        for (i, &v) in members.iter().enumerate() {
            local[v as usize] = i as u32;
        }
        let mut xadj = vec![0];
        let mut adjncy = Vec::new();
        for &v in members {
            let neighbours = graph.both.in_neighbours(v).iter();
            let neighbours = neighbours.map(|&u| local[u as usize]);
            adjncy.extend(neighbours.filter(|&u| u != u32::MAX).map(|u| u as i32));
            xadj.push(adjncy.len() as i32);
        }
        for &v in members {
            local[v as usize] = u32::MAX;
        }
        let rows = members.iter().map(|v| graph.weights.row(*v as usize));
        Self {
            xadj,
            adjncy,
            weights: Weights {
                of: rows.flatten().copied().collect(),
                ..graph.weights
            },
            seed: graph.seed,
        }
    }

    /// Number of vertices.
    fn size(&self) -> usize {
        self.xadj.len() - 1
    }

    /// The side of each vertex. Side 0 gets the fraction `left` of the weights.
    fn best(&self, left: f32) -> Result<Vec<i32>, metis::Error> {
        let plain = self.cut(left, &self.xadj, &self.adjncy, None)?;
        let across = self.edges_across(&plain);
        let small = self.small_components();
        if small.len() < 2 || across == 0 {
            return Ok(plain);
        }
        let (xadj, adjncy, weights) = self.strung(&small);
        let strung = self.cut(left, &xadj, &adjncy, Some(&weights))?;
        let better = self.edges_across(&strung) < across;
        Ok(if better { strung } else { plain })
    }

    fn cut(
        &self,
        left: f32,
        xadj: &[i32],
        adjncy: &[i32],
        edge_weights: Option<&[i32]>,
    ) -> Result<Vec<i32>, metis::Error> {
        let constraints = self.weights.components.max(1);
        let mut targets = vec![left; constraints];
        targets.resize(2 * constraints, 1.0 - left);
        let limits = self.weights.limits(left.min(1.0 - left));
        let mut graph = metis::Graph::new(constraints as i32, 2, xadj, adjncy)?
            .set_tpwgts(&targets)
            .set_option(Seed(self.seed));
        if self.weights.components > 0 {
            graph = graph.set_vwgt(&self.weights.of);
        }
        if let Some(limits) = &limits {
            graph = graph.set_ubvec(limits);
        }
        if let Some(edge_weights) = edge_weights {
            graph = graph
                .set_adjwgt(edge_weights)
                .set_option(NCuts(STRUNG_CUTS));
        }
        let mut side = vec![0; self.size()];
        let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        graph.part_recursive(&mut side)?;
        drop(guard);
        Ok(side)
    }

    fn neighbours(&self, v: usize) -> &[i32] {
        &self.adjncy[self.xadj[v] as usize..self.xadj[v + 1] as usize]
    }

    fn edges_across(&self, side: &[i32]) -> usize {
        let across = |v: usize| {
            let neighbours = self.neighbours(v).iter();
            neighbours.filter(|&&u| side[u as usize] != side[v]).count()
        };
        (0..side.len()).map(across).sum()
    }

    /// The first vertex of each connected component except the largest.
    fn small_components(&self) -> Vec<i32> {
        let mut seen = vec![false; self.size()];
        let mut components: Vec<(i32, usize)> = Vec::new();
        let mut open = Vec::new();
        for first in 0..seen.len() {
            if seen[first] {
                continue;
            }
            seen[first] = true;
            open.push(first);
            let mut size = 0;
            while let Some(v) = open.pop() {
                size += 1;
                for &u in self.neighbours(v) {
                    if !std::mem::replace(&mut seen[u as usize], true) {
                        open.push(u as usize);
                    }
                }
            }
            components.push((first as i32, size));
        }
        let largest = components.iter().map(|c| c.1).max();
        let place = components.iter().position(|c| Some(c.1) == largest);
        if let Some(place) = place {
            components.remove(place);
        }
        components.into_iter().map(|(first, _)| first).collect()
    }

    /// The graph plus light edges from each vertex of `string` to the next, and the weights of all
    /// edges.
    fn strung(&self, string: &[i32]) -> (Vec<i32>, Vec<i32>, Vec<i32>) {
        let mut links = Csr {
            indptr: vec![0],
            indices: Vec::new(),
        };
        let mut next = 0;
        for v in 0..self.size() {
            if string.get(next) == Some(&(v as i32)) {
                if next > 0 {
                    links.indices.push(string[next - 1] as u32);
                }
                links
                    .indices
                    .extend(string.get(next + 1).map(|&u| u as u32));
                next += 1;
            }
            links.indptr.push(links.indices.len() as u64);
        }
        let (mut xadj, mut adjncy, mut weights) = (vec![0], Vec::new(), Vec::new());
        for v in 0..self.size() {
            adjncy.extend_from_slice(self.neighbours(v));
            weights.resize(adjncy.len(), REAL_EDGE);
            adjncy.extend(links.row(v).iter().map(|&u| u as i32));
            weights.resize(adjncy.len(), 1);
            xadj.push(adjncy.len() as i32);
        }
        (xadj, adjncy, weights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_all_even_numbers_of_parts_are_one_cut() {
        let members: Vec<u32> = (0..100).collect();
        let divisions = [64, 3, 2, 1, 6, 100];
        let wanted = (0..).zip(divisions).map(|(division, parts)| Wanted {
            division,
            first: 0,
            parts,
        });
        let wanted: Vec<Wanted> = wanted.collect();
        let mut owners = vec![vec![7; 100]; divisions.len()];
        let found = cuts(&members, &wanted, &mut owners);
        let parts = |wanted: &[Wanted]| wanted.iter().map(|w| w.parts).collect::<Vec<_>>();
        let found: Vec<_> = found.iter().map(|(share, w)| (*share, parts(w))).collect();
        assert_eq!(found, [(0.5, vec![64, 2, 6]), (1.0 / 3.0, vec![3])]);
        // Sets that are one part, or have one vertex per part, are settled.
        assert_eq!(owners[3], vec![0; 100]);
        assert_eq!(owners[5], members);
        assert!([0, 1, 2, 4].iter().all(|n| owners[*n] == vec![7; 100]));
        let [left, right] = wanted[1].halves();
        assert_eq!([left.parts, left.first], [1, 0]);
        assert_eq!([right.parts, right.first, right.division as u32], [2, 1, 1]);
    }
}
