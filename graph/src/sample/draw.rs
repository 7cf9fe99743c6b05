//! Which edges into a vertex are kept.

use super::pairs::Drawn;
use super::{Kind, LeftOut, Rule};
use crate::Topology;
use gnnc_ir::kernel::{mix32, vertex_hash};

/// Fanouts above this are drawn into a bit set whatever the degree.
const LARGE_FANOUT: u32 = 1024;

/// Memory of one thread for its draws.
#[derive(Default)]
pub(super) struct Scratch {
    /// Taken positions, as bits.
    taken: Vec<u64>,
    /// Number of a source << 32 | its position.
    ranked: Vec<u64>,
    /// Sources of the edges of one type.
    sources: Vec<u32>,
    /// Edges of the current row by type; 0 between rows.
    by_type: Vec<u32>,
    /// Types of the current row.
    types: Vec<u16>,
    /// Positions of the current row, grouped by type.
    grouped: Vec<u32>,
    /// Positions of the current row that are not left out.
    rest: Vec<u32>,
}

/// The draws of one hop of one batch.
pub(super) struct Hop<'a> {
    topology: &'a Topology,
    rule: &'a Rule,
    /// From 1, next to the seeds.
    number: usize,
    step: u32,
    key: u64,
    fanout: u32,
    /// Edges that are not drawn.
    left_out: Option<&'a LeftOut>,
    /// The ends of pairs that replace those of the graph.
    pairs: Option<Drawn<'a>>,
}

impl<'a> Hop<'a> {
    pub fn new(topology: &'a Topology, rule: &'a Rule, number: usize, step: u32) -> Self {
        Self {
            topology,
            rule,
            number,
            step,
            key: rule.key(step, number, 0),
            fanout: rule.fanouts[number - 1].of(0),
            left_out: None,
            pairs: None,
        }
    }

    /// The same without some edges, or to ends of pairs that are drawn.
    pub fn of_pairs(self, left_out: Option<&'a LeftOut>, pairs: Option<Drawn<'a>>) -> Self {
        Self {
            left_out,
            pairs,
            ..self
        }
    }

    /// Positions of the edges into `v` that are left out.
    #[inline]
    pub fn left_out(&self, v: u32) -> &'a [u32] {
        self.left_out.map_or(&[], |left_out| left_out.into(v))
    }

    /// The end of the pair `v`, if it is drawn.
    #[inline]
    pub fn end_of(&self, v: u32) -> Option<u32> {
        self.pairs.as_ref()?.end(v)
    }

    pub fn is_typed(&self) -> bool {
        self.topology.relations() > 0
    }

    /// How many edges are kept of `degree` without types.
    pub fn kept_of(&self, degree: u32) -> u32 {
        degree.min(self.fanout)
    }

    /// How many edges into `v` are kept, of `degree` that may be.
    pub fn kept(&self, v: u32, degree: u32, scratch: &mut Scratch) -> u32 {
        if !self.is_typed() {
            return self.kept_of(degree);
        }
        scratch.count_types(self.topology, v, self.left_out(v));
        let mut kept = 0;
        for kind in scratch.types.drain(..) {
            let degree = std::mem::take(&mut scratch.by_type[usize::from(kind)]);
            kept += degree.min(self.rule.fanouts[self.number - 1].of(kind));
        }
        kept
    }

    /// Writes the kept positions of the edges into `v`, ascending. `out` has room for
    /// [`kept`](Self::kept) positions.
    pub fn draw(&self, v: u32, degree: u32, out: &mut [u32], scratch: &mut Scratch) {
        let left_out = self.left_out(v);
        if !left_out.is_empty() && !self.is_typed() {
            let mut rest = std::mem::take(&mut scratch.rest);
            rest.clear();
            let all = 0..degree + left_out.len() as u32;
            rest.extend(all.filter(|position| left_out.binary_search(position).is_err()));
            match out.len() == rest.len() {
                true => out.copy_from_slice(&rest),
                false => self.draw_from(self.key, v, degree, Some(&rest), out, scratch),
            }
            scratch.rest = rest;
        } else if left_out.is_empty() && out.len() == degree as usize {
            out.iter_mut().zip(0..).for_each(|(to, p)| *to = p);
        } else if !self.is_typed() {
            self.draw_from(self.key, v, degree, None, out, scratch);
        } else {
            self.draw_typed(v, out, scratch);
        }
    }

    /// Draws `out.len()`, fewer than `degree`, of the edges into `v`: of those at the positions
    /// `among`, or of all.
    fn draw_from(
        &self,
        key: u64,
        v: u32,
        degree: u32,
        among: Option<&[u32]>,
        out: &mut [u32],
        scratch: &mut Scratch,
    ) {
        match self.rule.kind {
            Kind::Labor => {
                let mut sources = self.topology.in_neighbours(v);
                if let Some(among) = among {
                    scratch.sources.clear();
                    let chosen = among.iter().map(|p| sources[*p as usize]);
                    scratch.sources.extend(chosen);
                    sources = &scratch.sources;
                }
                smallest(key, sources, out, &mut scratch.ranked);
            }
            // `Full` has no fanouts that a degree could exceed.
            Kind::Neighbor | Kind::Full => {
                floyd(vertex_hash(key, v), degree, out, &mut scratch.taken);
            }
        }
        if let Some(among) = among {
            out.iter_mut().for_each(|p| *p = among[*p as usize]);
        }
    }

    /// Draws from the edges of each type.
    fn draw_typed(&self, v: u32, out: &mut [u32], scratch: &mut Scratch) {
        let left_out = self.left_out(v);
        let degree = scratch.count_types(self.topology, v, left_out);
        // Positions by type, each type's in order.
        let mut grouped = std::mem::take(&mut scratch.grouped);
        let types = std::mem::take(&mut scratch.types);
        grouped.clear();
        grouped.resize(degree, 0);
        let mut begin = 0;
        for kind in &types {
            let count = &mut scratch.by_type[usize::from(*kind)];
            begin += std::mem::replace(count, begin);
        }
        for (position, kind) in (0..).zip(self.topology.types_into(v)) {
            if left_out.binary_search(&position).is_ok() {
                continue;
            }
            let next = &mut scratch.by_type[usize::from(*kind)];
            grouped[*next as usize] = position;
            *next += 1;
        }
        let (mut begin, mut done) = (0, 0);
        for kind in &types {
            let end = std::mem::take(&mut scratch.by_type[usize::from(*kind)]);
            let among = &grouped[begin as usize..end as usize];
            let degree = end - begin;
            let kept = degree.min(self.rule.fanouts[self.number - 1].of(*kind));
            let out = &mut out[done..done + kept as usize];
            if kept == degree {
                out.copy_from_slice(among);
            } else {
                let key = self.rule.key(self.step, self.number, *kind);
                self.draw_from(key, v, degree, Some(among), out, scratch);
            }
            done += kept as usize;
            begin = end;
        }
        out.sort_unstable();
        scratch.grouped = grouped;
        scratch.types = types;
        scratch.types.clear();
    }

    /// For each kept edge into `v`, the edges of its type into `v` over those that are kept.
    pub fn scales(&self, v: u32, positions: &[u32], out: &mut [f32], scratch: &mut Scratch) {
        scratch.count_types(self.topology, v, self.left_out(v));
        let types = self.topology.types_into(v);
        for (scale, position) in out.iter_mut().zip(positions) {
            let kind = types[*position as usize];
            let degree = scratch.by_type[usize::from(kind)];
            let kept = degree.min(self.rule.fanouts[self.number - 1].of(kind));
            *scale = scale_of(degree, kept);
        }
        for kind in scratch.types.drain(..) {
            scratch.by_type[usize::from(kind)] = 0;
        }
    }
}

/// What a kept edge counts in a sum: edges over kept edges.
pub(super) fn scale_of(degree: u32, kept: u32) -> f32 {
    if kept == 0 {
        return 0.0;
    }
    degree as f32 / kept as f32
}

impl Scratch {
    /// Counts the edges into `v` by type, without those at some positions; returns how many there are.
    fn count_types(&mut self, topology: &Topology, v: u32, left_out: &[u32]) -> usize {
        self.by_type.resize(topology.relations() as usize, 0);
        let types = topology.types_into(v);
        for kind in types {
            let count = &mut self.by_type[usize::from(*kind)];
            if *count == 0 {
                self.types.push(*kind);
            }
            *count += 1;
        }
        for position in left_out {
            self.by_type[usize::from(types[*position as usize])] -= 1;
        }
        types.len() - left_out.len()
    }
}

/// Draw `j` of a row: a number from 0 to `top`.
fn draw(row: u32, j: u32, top: u32) -> u32 {
    let bits = mix32(row ^ j.wrapping_mul(0x9e37_79b9));
    ((u64::from(bits) * (u64::from(top) + 1)) >> 32) as u32
}

/// Draws `out.len()`, fewer than `degree`, of `0..degree` without replacement, ascending (R. Floyd;
/// Bentley, Communications of the ACM 30(9), 1987).
fn floyd(row: u32, degree: u32, out: &mut [u32], taken: &mut Vec<u64>) {
    let fanout = out.len() as u32;
    if degree <= 64 {
        let mut bits = 0u64;
        for j in 0..fanout {
            let top = degree - fanout + j;
            let p = draw(row, j, top);
            let p = if bits >> p & 1 == 0 { p } else { top };
            bits |= 1 << p;
        }
        for to in out {
            *to = bits.trailing_zeros();
            bits &= bits - 1;
        }
    } else if u64::from(degree) <= u64::from(fanout) * 64 || fanout > LARGE_FANOUT {
        taken.clear();
        taken.resize(degree.div_ceil(64) as usize, 0);
        for j in 0..fanout {
            let top = degree - fanout + j;
            let p = draw(row, j, top);
            let is_free = taken[p as usize / 64] >> (p % 64) & 1 == 0;
            let p = if is_free { p } else { top };
            taken[p as usize / 64] |= 1 << (p % 64);
        }
        let mut out = out.iter_mut();
        for (base, mut word) in (0..).step_by(64).zip(taken.iter().copied()) {
            while word != 0 {
                if let Some(to) = out.next() {
                    *to = base + word.trailing_zeros();
                }
                word &= word - 1;
            }
        }
    } else {
        for j in 0..fanout {
            let top = degree - fanout + j;
            insert(&mut out[..=j as usize], draw(row, j, top), top);
        }
    }
}

/// Adds `p` to the ascending numbers before the last place of `sorted`, or `top`, which exceeds
/// them all, if `p` is among them.
fn insert(sorted: &mut [u32], p: u32, top: u32) {
    let last = sorted.len() - 1;
    let place = sorted[..last].partition_point(|q| *q < p);
    if place < last && sorted[place] == p {
        sorted[last] = top;
    } else {
        sorted.copy_within(place..last, place + 1);
        sorted[place] = p;
    }
}

/// Picks the `out.len()` sources, fewer than there are, with the smallest numbers under a key, ties
/// by position; writes their positions, ascending.
fn smallest(key: u64, sources: &[u32], out: &mut [u32], ranked: &mut Vec<u64>) {
    let fanout = out.len();
    if fanout == 0 {
        return;
    }
    if ranked.len() < sources.len() {
        ranked.resize(sources.len(), 0);
    }
    // Almost always enough sources lie below this number, so few are ranked.
    let expected = fanout as f64 + 3.0 * (fanout as f64).sqrt() + 4.0;
    let limit = expected / sources.len() as f64 * (1u64 << 32) as f64;
    let mut found = rank(key, sources, limit.min(f64::from(u32::MAX)) as u32, ranked);
    if found < fanout {
        found = rank(key, sources, u32::MAX, ranked);
    }
    let found = &mut ranked[..found];
    if found.len() > fanout {
        found.select_nth_unstable(fanout - 1);
    }
    for (to, rank) in out.iter_mut().zip(found) {
        *to = *rank as u32;
    }
    out.sort_unstable();
}

/// Writes the sources whose numbers under a key are at most `limit` to `ranked`, which has room for
/// all sources; returns how many there are.
fn rank(key: u64, sources: &[u32], limit: u32, ranked: &mut [u64]) -> usize {
    /// Sources whose numbers are computed together.
    const LANES: usize = 16;
    let mut found = 0;
    for (group, first) in sources.chunks(LANES).zip((0u64..).step_by(LANES)) {
        let mut numbers = [u32::MAX; LANES];
        match <&[u32; LANES]>::try_from(group) {
            Ok(group) => numbers = group.map(|u| mix32(vertex_hash(key, u))),
            Err(_) => {
                for (number, u) in numbers.iter_mut().zip(group) {
                    *number = mix32(vertex_hash(key, *u));
                }
            }
        }
        if numbers.iter().all(|number| *number > limit) {
            continue;
        }
        for (number, position) in numbers[..group.len()].iter().zip(first..) {
            // No branch: which numbers are small cannot be predicted.
            ranked[found] = u64::from(*number) << 32 | position;
            found += usize::from(*number <= limit);
        }
    }
    found
}
