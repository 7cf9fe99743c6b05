//! METIS: recursive bisection that keeps most edges within parts.

use super::{Partition, Partitioner, check_parts};
use crate::csr::Csr;
use crate::{GraphError, Topology};
use metis::option::{NCuts, Seed};
use std::sync::{Mutex, PoisonError};

/// METIS's multilevel bisection (Karypis and Kumar, 1998), applied recursively to the symmetrized,
/// unweighted graph. Published replication factors come from recursive bisection; METIS's k-way
/// method is 4 to 10 % worse on the graphs of those publications.
///
/// METIS 5.2 handles graphs of many components badly: it merges a component that has shrunk to a
/// single vertex with any other vertex, which ties small components to a large one for no reason. A
/// bisection of several components is therefore tried a second time with light edges that string
/// the small ones together, and the smaller cut wins. On CiteSeer in four parts this lowers the
/// replication factor from 0.044 to 0.032, the value of METIS 5.1.
#[derive(Clone, Copy, Debug)]
pub struct Metis {
    /// Random seed; METIS uses the low 31 bits.
    pub seed: u64,
    /// Balance the in-neighbors of the parts as well as their vertices. Without it, the parts of
    /// skewed graphs differ several-fold in work; with it, more edges are cut.
    pub balance_edges: bool,
}

impl Default for Metis {
    fn default() -> Self {
        Self {
            seed: 1,
            balance_edges: false,
        }
    }
}

/// Raised when the same graph, seed and number of parts or chunks give another result than before.
const REVISION: u32 = 1;

/// METIS draws from the C library's single random sequence, so concurrent runs would disturb each
/// other's results.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Cuts METIS makes of a strung graph; the smallest is kept. When a graph falls into many pieces,
/// the quality of a single cut varies much with the seed.
const STRUNG_CUTS: i32 = 2;

/// Weight of real edges in a graph that also has light edges between components.
const REAL_EDGE: i32 = 10;

impl Partitioner for Metis {
    fn name(&self) -> &'static str {
        if self.balance_edges {
            "metis-edges"
        } else {
            "metis"
        }
    }

    fn partition(&self, topology: &Topology, parts: u32) -> Result<Partition, GraphError> {
        check_parts(topology, parts)?;
        let all = (0..topology.vertices()).collect();
        Partition::new(parts, self.divide(topology, vec![all], parts)?)
    }

    /// The same results as one by one, but several divisions share a bisection of the same vertices
    /// with the same shares. A division into half as many parts as another one is free.
    fn partitions(&self, topology: &Topology, parts: &[u32]) -> Result<Vec<Partition>, GraphError> {
        for parts in parts {
            check_parts(topology, *parts)?;
        }
        let all = (0..topology.vertices()).collect();
        let owners = self.divide_each(topology, vec![all], parts)?;
        let made = parts.iter().zip(owners);
        made.map(|(parts, owner)| Partition::new(*parts, owner))
            .collect()
    }

    fn key(&self) -> Option<String> {
        let name = self.name();
        Some(format!("{name} revision {REVISION} seed {}", self.seed))
    }

    /// Bisection of a number of parts that `parts`, a power of two, divides begins with the cuts of a division into
    /// `parts`: both halve. Not so if a set has so few vertices that the finer division deals them out.
    fn merged(&self, finer: &Partition, parts: u32) -> Option<Partition> {
        if !parts.is_power_of_two() || !finer.parts().is_multiple_of(parts) {
            return None;
        }
        let each = finer.parts() / parts;
        let owner: Vec<u32> = finer.owner().iter().map(|&part| part / each).collect();
        // The sets before the last cut; those before earlier cuts are as large as several of them.
        let mut sizes = vec![0u64; parts.div_ceil(2) as usize];
        for part in &owner {
            sizes[*part as usize / 2] += 1;
        }
        if sizes.iter().any(|size| *size <= 2 * u64::from(each)) {
            return None;
        }
        Partition::new(parts, owner).ok()
    }
}

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

impl Metis {
    /// Divides each of several disjoint sets of vertices into `parts` parts, using the edges within
    /// the set. Returns the part of each vertex.
    pub(super) fn divide(
        &self,
        topology: &Topology,
        sets: Vec<Vec<u32>>,
        parts: u32,
    ) -> Result<Vec<u32>, GraphError> {
        let mut owners = self.divide_each(topology, sets, &[parts])?;
        Ok(owners.pop().unwrap_or_default())
    }

    /// The same for several numbers of parts.
    fn divide_each(
        &self,
        topology: &Topology,
        sets: Vec<Vec<u32>>,
        divisions: &[u32],
    ) -> Result<Vec<Vec<u32>>, GraphError> {
        let vertices = topology.vertices();
        let both = topology.symmetrised();
        let failed = |reason: String| GraphError::Partitioner {
            partitioner: self.name(),
            vertices,
            edges: both.edges(),
            reason,
        };
        // METIS also sums weights in 32 bits; a string adds two edges per vertex.
        let largest_sum = (both.edges() + 2 * u64::from(vertices)) * REAL_EDGE as u64;
        if largest_sum > i32::MAX as u64 {
            return Err(failed(format!(
                "it counts in 32 bits, and {largest_sum} is more than {}",
                i32::MAX
            )));
        }
        let mut owners = vec![vec![0u32; vertices as usize]; divisions.len()];
        let mut local = vec![u32::MAX; vertices as usize];
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
                let graph = Bisection::induced(&both, topology, &members, &mut local);
                let side = graph.best(self, share).map_err(|e| failed(e.to_string()))?;
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
    /// In-degree of each vertex in the whole graph.
    in_degree: Vec<i32>,
}

impl Bisection {
    /// The subgraph of `members`. `local` is scratch space with one entry per vertex.
    fn induced(both: &Topology, topology: &Topology, members: &[u32], local: &mut [u32]) -> Self {
        for (i, &v) in members.iter().enumerate() {
            local[v as usize] = i as u32;
        }
        let mut xadj = vec![0];
        let mut adjncy = Vec::new();
        for &v in members {
            let neighbours = both.in_neighbours(v).iter().map(|&u| local[u as usize]);
            adjncy.extend(neighbours.filter(|&u| u != u32::MAX).map(|u| u as i32));
            xadj.push(adjncy.len() as i32);
        }
        for &v in members {
            local[v as usize] = u32::MAX;
        }
        let in_degree = |&v: &u32| topology.in_neighbours(v).len() as i32;
        Self {
            xadj,
            adjncy,
            in_degree: members.iter().map(in_degree).collect(),
        }
    }

    /// The side of each vertex. Side 0 gets the fraction `left` of the weights.
    fn best(&self, metis: &Metis, left: f32) -> Result<Vec<i32>, metis::Error> {
        let plain = self.cut(metis, left, &self.xadj, &self.adjncy, None)?;
        let across = self.edges_across(&plain);
        let small = self.small_components();
        if small.len() < 2 || across == 0 {
            return Ok(plain);
        }
        let (xadj, adjncy, weights) = self.strung(&small);
        let strung = self.cut(metis, left, &xadj, &adjncy, Some(&weights))?;
        let better = self.edges_across(&strung) < across;
        Ok(if better { strung } else { plain })
    }

    fn cut(
        &self,
        metis: &Metis,
        left: f32,
        xadj: &[i32],
        adjncy: &[i32],
        edge_weights: Option<&[i32]>,
    ) -> Result<Vec<i32>, metis::Error> {
        let constraints = if metis.balance_edges { 2 } else { 1 };
        let mut targets = vec![left; constraints];
        targets.resize(2 * constraints, 1.0 - left);
        let weights: Vec<i32> = self.in_degree.iter().flat_map(|&d| [1, d]).collect();
        let mut graph = metis::Graph::new(constraints as i32, 2, xadj, adjncy)?
            .set_tpwgts(&targets)
            .set_option(Seed((metis.seed & 0x7fff_ffff) as i32));
        if metis.balance_edges {
            graph = graph.set_vwgt(&weights);
        }
        if let Some(edge_weights) = edge_weights {
            graph = graph
                .set_adjwgt(edge_weights)
                .set_option(NCuts(STRUNG_CUTS));
        }
        let mut side = vec![0; self.in_degree.len()];
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
        let mut seen = vec![false; self.in_degree.len()];
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
        for v in 0..self.in_degree.len() {
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
        for v in 0..self.in_degree.len() {
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
