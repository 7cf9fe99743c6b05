//! From how far away an instruction gets what it touches.
//!
//! What was touched a moment ago lies in a near cache, what was touched long ago does not. The
//! distance of an operand is the number of bytes that were touched since it was touched last, itself
//! included: the reuse distance of Mattson et al., Evaluation techniques for storage hierarchies (IBM
//! Systems Journal 9(2), 1970), by addresses of [`layout`], so that buffers which share memory share
//! what lies in caches. A list of instructions follows itself, as epochs do.

use super::{INDEX, OFFSET, launched, stored};
use crate::kernel::{Body, End};
use crate::memory::layout;
use crate::program::{Instr, Product, Program, RankSizes, Ref};
use crate::types::EdgeSet;
use std::collections::BTreeMap;
use std::ops::Range;

/// Levels of what nobody has touched before: far away.
const UNKNOWN: f64 = 28.0;

/// The distances of what one instruction touches, as logarithms of bytes to base two; means over bytes,
/// iterations and chunks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Far {
    buffers: Vec<(Ref, f64)>,
    structure: Option<f64>,
}

impl Far {
    /// The distance of an operand.
    pub fn of(&self, at: Ref) -> f64 {
        let found = self.buffers.iter().find(|(known, _)| *known == at);
        found.map_or(UNKNOWN, |(_, level)| *level)
    }

    /// The distance of what the arcs, or the indices of sparse features, are stored in.
    pub fn structure(&self) -> f64 {
        self.structure.unwrap_or(UNKNOWN)
    }
}

/// Distances by the place of an instruction in a list, as traces have it: its number, those of loops in front.
pub fn reuse(program: &Program, instrs: &[Instr], sizes: &RankSizes) -> BTreeMap<String, Far> {
    let mut walk = Walk::new(program, sizes);
    walk.list(instrs, "", 0, Part::ALL);
    distances(walk.places, walk.touches)
}

/// Which run of rows, of how many.
#[derive(Clone, Copy)]
struct Part {
    index: u64,
    of: u64,
}

impl Part {
    const ALL: Self = Self { index: 0, of: 1 };

    fn within(self, bytes: &Range<u64>) -> Range<u64> {
        let length = u128::from(bytes.end - bytes.start);
        let at = |n: u64| bytes.start + (length * u128::from(n) / u128::from(self.of)) as u64;
        at(self.index)..at(self.index + 1)
    }
}

/// What an instruction touches: an operand, or else the structure of the graph.
struct Touch {
    place: usize,
    what: Option<Ref>,
    bytes: Range<u64>,
}

struct Walk<'a> {
    program: &'a Program,
    sizes: &'a RankSizes,
    /// First byte of each buffer.
    offsets: Vec<u64>,
    /// First byte behind all buffers.
    end: u64,
    places: BTreeMap<String, usize>,
    touches: Vec<Touch>,
}

impl<'a> Walk<'a> {
    fn new(program: &'a Program, sizes: &'a RankSizes) -> Self {
        let layout = layout(program, sizes);
        Self {
            program,
            sizes,
            offsets: layout.offsets.iter().map(|o| o.saturating_mul(4)).collect(),
            end: layout.total_bytes,
            places: BTreeMap::new(),
            touches: Vec::new(),
        }
    }

    fn list(&mut self, instrs: &[Instr], prefix: &str, iteration: u32, part: Part) {
        for (i, instr) in instrs.iter().enumerate() {
            let at = match prefix {
                "" => i.to_string(),
                _ => format!("{prefix}.{i}"),
            };
            match instr {
                Instr::Repeat {
                    count,
                    reverse,
                    body,
                } => {
                    for n in 0..*count {
                        let iteration = if *reverse { count - 1 - n } else { n };
                        self.list(body, &at, iteration, part);
                    }
                }
                Instr::Chunks { reverse, body } => {
                    let of = self.program.pipeline.map_or(1, |p| p.chunks.max(1));
                    for n in 0..of {
                        let index = u64::from(if *reverse { of - 1 - n } else { n });
                        let of = u64::from(of);
                        self.list(body, &at, iteration, Part { index, of });
                    }
                }
                // Of these only a few rows are touched, or they do not pass through the cache.
                Instr::HaloExchange { .. }
                | Instr::HaloReduce { .. }
                | Instr::Begin(_)
                | Instr::Move { .. }
                | Instr::Send(_)
                | Instr::Receive(_) => {}
                Instr::Finish(transfer) if passes_by(&transfer.what) => {}
                _ => self.instr(instr, at, iteration, part),
            }
        }
    }

    fn instr(&mut self, instr: &Instr, at: String, iteration: u32, part: Part) {
        let next = self.places.len();
        let place = *self.places.entry(at).or_insert(next);
        let (mut refs, writes) = instr.accesses();
        refs.extend(writes);
        refs.sort_unstable();
        refs.dedup();
        let part = match instr {
            Instr::Launch(launch) => launch.chunk.map_or(part, |chunk| Part {
                index: u64::from(chunk.index),
                of: u64::from(chunk.of.max(1)),
            }),
            _ => part,
        };
        for what in refs {
            let buffer = self.program.buffer(what.buffer);
            let slot = buffer.slot_words(self.sizes).saturating_mul(4);
            let number = u64::from(what.slot(iteration, buffer.slots));
            let offset = self.offsets.get(what.buffer.0 as usize).copied();
            let first = offset
                .unwrap_or(0)
                .saturating_add(slot.saturating_mul(number));
            let bytes = part.within(&(first..first.saturating_add(slot)));
            self.touch(place, Some(what), bytes);
        }
        if let Some((number, bytes)) = self.structure(instr) {
            // Each kind of structure has addresses of its own, far enough from the next.
            let first = self.end.saturating_add(number << 48);
            let bytes = part.within(&(first..first.saturating_add(bytes)));
            self.touch(place, None, bytes);
        }
    }

    fn touch(&mut self, place: usize, what: Option<Ref>, bytes: Range<u64>) {
        if !bytes.is_empty() {
            self.touches.push(Touch { place, what, bytes });
        }
    }

    /// A number for what an instruction reads beside its operands, and its bytes.
    fn structure(&self, instr: &Instr) -> Option<(u64, u64)> {
        match instr {
            Instr::Launch(launch) => {
                let body = &self.program.kernel(launch.kernel).body;
                let set = body.edge_set()?;
                let (number, bytes) = match (body, set) {
                    (Body::Gather { to: End::Src, .. }, EdgeSet::Plain) => (1, 2 * INDEX),
                    (Body::Gather { to: End::Src, .. }, EdgeSet::Looped) => (2, 2 * INDEX),
                    (Body::TypeSum { .. }, _) => (7, INDEX),
                    (_, EdgeSet::Plain) => (3, INDEX),
                    (_, EdgeSet::Looped) => (4, INDEX),
                };
                let arcs = launch.rows.arcs(set);
                let sizes = &launched(instr, self.sizes);
                let rows = sizes.rows(launch.rows).saturating_mul(OFFSET);
                Some((
                    number,
                    rows.saturating_add(sizes.rows(arcs).saturating_mul(bytes)),
                ))
            }
            Instr::SparseMatMul {
                product, values, ..
            } => {
                let nonzeros = stored(self.program, *values, self.sizes).1;
                Some(match product {
                    Product::Tn => (5, nonzeros.saturating_mul(2 * INDEX)),
                    Product::Nn | Product::Nt => (6, nonzeros.saturating_mul(INDEX)),
                })
            }
            _ => None,
        }
    }
}

fn passes_by(instr: &Instr) -> bool {
    matches!(
        instr,
        Instr::HaloExchange { .. } | Instr::HaloReduce { .. } | Instr::Move { .. }
    )
}

/// Goes through the touches twice and measures in the second round.
fn distances(places: BTreeMap<String, usize>, touches: Vec<Touch>) -> BTreeMap<String, Far> {
    let mut borders: Vec<u64> = touches
        .iter()
        .flat_map(|t| [t.bytes.start, t.bytes.end])
        .collect();
    borders.sort_unstable();
    borders.dedup();
    let number = |at: u64| borders.partition_point(|border| *border < at);
    let mut stack = Stack::new(&borders, 2 * touches.len());
    let mut found: BTreeMap<(usize, Option<Ref>), (f64, f64)> = BTreeMap::new();
    for round in 0..2 {
        for touch in &touches {
            let (from, to) = (number(touch.bytes.start), number(touch.bytes.end));
            let (mut sum, mut total) = (0.0, 0.0);
            for segment in from..to {
                if let Some(distance) = stack.distance(segment) {
                    let bytes = stack.bytes[segment] as f64;
                    sum += bytes * (distance.max(1) as f64).log2();
                    total += bytes;
                }
            }
            (from..to).for_each(|segment| stack.touch(segment));
            stack.time += 1;
            if round == 1 {
                let entry = found.entry((touch.place, touch.what)).or_default();
                *entry = (entry.0 + sum, entry.1 + total);
            }
        }
    }
    let mut far = vec![Far::default(); places.len()];
    for ((place, what), (sum, total)) in found {
        let level = if total > 0.0 { sum / total } else { UNKNOWN };
        match what {
            Some(at) => far[place].buffers.push((at, level)),
            None => far[place].structure = Some(level),
        }
    }
    let named = |(at, place): (String, usize)| (at, std::mem::take(&mut far[place]));
    places.into_iter().map(named).collect()
}

/// When each segment was touched last, and how many bytes were touched last at each time: sums
/// over times by a Fenwick tree.
struct Stack {
    bytes: Vec<u64>,
    last: Vec<Option<usize>>,
    sums: Vec<u64>,
    total: u64,
    time: usize,
}

impl Stack {
    /// Segments between sorted borders, and that many times.
    fn new(borders: &[u64], times: usize) -> Self {
        Self {
            bytes: borders.windows(2).map(|pair| pair[1] - pair[0]).collect(),
            last: vec![None; borders.len()],
            sums: vec![0; times + 1],
            total: 0,
            time: 0,
        }
    }

    /// Bytes that were touched since a segment was, itself and what was touched with it included.
    fn distance(&self, segment: usize) -> Option<u64> {
        let mut time = self.last[segment]?;
        let mut before = 0;
        while time > 0 {
            before += self.sums[time];
            time &= time - 1;
        }
        Some(self.total - before)
    }

    fn touch(&mut self, segment: usize) {
        let bytes = self.bytes[segment];
        match self.last[segment].replace(self.time) {
            Some(last) => self.change(last, |sum| sum - bytes),
            None => self.total += bytes,
        }
        self.change(self.time, |sum| sum + bytes);
    }

    fn change(&mut self, time: usize, change: impl Fn(u64) -> u64) {
        let mut at = time + 1;
        while let Some(sum) = self.sums.get_mut(at) {
            *sum = change(*sum);
            at += at & at.wrapping_neg();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Buffer, BufferId, Extent, Role};
    use crate::storage::Storage;

    /// Four KiB a slot.
    const BYTES: f64 = 4096.0;

    fn program(slots: &[u32]) -> Program {
        let buffer = |&slots: &u32| Buffer {
            name: String::new(),
            extent: Extent::Fixed(1024),
            columns: 1,
            slots,
            role: Role::Static,
            storage: Storage::F32,
        };
        Program {
            buffers: slots.iter().map(buffer).collect(),
            ..Program::default()
        }
    }

    fn at(buffer: u32, in_loop: bool) -> Ref {
        Ref {
            buffer: BufferId(buffer),
            base: 0,
            in_loop,
        }
    }

    fn touch(from: Ref, history: Ref) -> Instr {
        Instr::Remember { from, history }
    }

    fn slots(level: f64) -> f64 {
        level.exp2() / BYTES
    }

    #[test]
    fn what_lies_between_two_touches_is_counted_once_round_the_epoch() {
        let [a, b, c] = [0, 1, 2].map(|n| at(n, false));
        let list = [touch(a, b), touch(b, c), touch(a, c)];
        let found = reuse(&program(&[1, 1, 1]), &list, &RankSizes::default());
        let wanted = [("0", a, 2.0), ("0", b, 3.0), ("1", b, 1.0)];
        let others = [("1", c, 3.0), ("2", a, 3.0), ("2", c, 2.0)];
        for (place, what, distance) in wanted.into_iter().chain(others) {
            let level = found[place].of(what);
            assert!(
                (slots(level) - distance).abs() < 1e-9,
                "{place} {what:?} {level}"
            );
        }
        assert!((found["0"].of(c) - UNKNOWN).abs() < 1e-9);
        assert!((found["0"].structure() - UNKNOWN).abs() < 1e-9);
    }

    #[test]
    fn iterations_touch_slots_of_their_own() {
        let (kept, carried) = (at(0, true), at(1, false));
        let body = vec![touch(kept, carried)];
        let there = Instr::Repeat {
            count: 4,
            reverse: false,
            body: body.clone(),
        };
        let back = Instr::Repeat {
            count: 4,
            reverse: true,
            body,
        };
        let found = reuse(&program(&[4, 1]), &[there, back], &RankSizes::default());
        // On the way back: the slot itself, those that came after it, and the carried one.
        let levels = [2.0f64, 3.0, 4.0, 5.0].map(|slots| (slots * BYTES).log2());
        let mean = levels.iter().sum::<f64>() / 4.0;
        for place in ["0.0", "1.0"] {
            let level = found[place].of(kept);
            assert!((level - mean).abs() < 1e-9, "{place} {level} {mean}");
        }
    }
}
