//! Layout of a program's buffers in a rank's memory.
//!
//! The executor allocates what [`layout`] returns, and the simulator reports it, so the
//! predicted buffer memory is the allocated one.

mod lifetime;
mod shelves;

pub use lifetime::{Lifetime, begins, lifetimes, positions};

use crate::program::{BufferId, Capacity, Chunk, Extent, Instr, Program};
use shelves::Shelves;

/// Alignment of every offset, in floats: 64 bytes.
pub const ALIGN: u64 = 16;

/// Least rows per block of a transposed product.
const PRODUCT_BLOCK: u64 = 512;
/// Most blocks of a transposed product.
const PRODUCT_BLOCKS: u64 = 32;

/// Number of temporary buffers beyond which only one placement order is tried, because each takes
/// long.
const MANY: usize = 500;

/// Position of every buffer in a rank's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// First float of each buffer.
    pub offsets: Vec<u64>,
    /// First float of the partial sums of column reductions and transposed products.
    pub scratch: u64,
    /// Bytes of the buffers in host memory; their offsets are relative to it.
    pub host_bytes: u64,
    /// Bytes of the buffers that live as long as the program.
    pub persistent_bytes: u64,
    /// Bytes in total.
    pub total_bytes: u64,
}

/// Places the buffers of a program on a rank; see [`Lives::layout`].
pub fn layout(program: &Program, capacity: &Capacity) -> Layout {
    Lives::of(program).layout(capacity)
}

/// Bytes of the buffers in host memory.
pub fn host_bytes(program: &Program, capacity: &Capacity) -> u64 {
    let hosted = program.hosted.iter();
    let floats = hosted.map(|id| aligned(program.buffer(*id).words(capacity)));
    floats.fold(0, u64::saturating_add).saturating_mul(4)
}

/// The lifetimes of a program's buffers. They do not depend on the rank's sizes.
#[derive(Clone, Debug)]
pub struct Lives<'a> {
    program: &'a Program,
    lifetimes: Vec<Lifetime>,
}

/// Placed temporary buffers: their first floats, and the end of the last one.
#[derive(Default)]
struct Placed {
    top: u64,
    offsets: Vec<(usize, u64)>,
}

/// Placement order of buffers.
#[derive(Clone, Copy)]
enum First {
    Largest,
    Longest,
    LargestForLongest,
    Earliest,
}

impl<'a> Lives<'a> {
    /// Computes the lifetimes of a program.
    pub fn of(program: &'a Program) -> Self {
        Self {
            program,
            lifetimes: lifetimes(program),
        }
    }

    /// The program.
    pub fn program(&self) -> &'a Program {
        self.program
    }

    /// Places the buffers on a rank. Temporary buffers share memory if their lifetimes allow
    /// it. Sizes saturate at 64 bits.
    pub fn layout(&self, capacity: &Capacity) -> Layout {
        let floats = self.floats(capacity);
        let mut offsets = vec![0; floats.len()];
        let (mut end, mut hosted) = (0u64, 0u64);
        for (id, lifetime) in self.lifetimes.iter().enumerate() {
            if self.program.is_hosted(BufferId(id as u32)) {
                offsets[id] = hosted;
                hosted = hosted.saturating_add(floats[id]);
            } else if *lifetime == Lifetime::Always {
                offsets[id] = end;
                end = end.saturating_add(floats[id]);
            }
        }
        let persistent = end;
        let (_, most) = self.fullest(&|id| floats[id]);
        let placed = self.tightest(&floats, most);
        for (id, offset) in placed.offsets {
            offsets[id] = persistent.saturating_add(offset);
        }
        let scratch = persistent.saturating_add(placed.top);
        Layout {
            offsets,
            scratch,
            host_bytes: hosted.saturating_mul(4),
            persistent_bytes: persistent.saturating_mul(4),
            total_bytes: scratch
                .saturating_add(self.scratch(capacity))
                .saturating_mul(4),
        }
    }

    /// Lower bound on the bytes of any layout: buffers that live as long as the program,
    /// temporary buffers that are live at the same time, and partial sums.
    pub fn least(&self, capacity: &Capacity) -> u64 {
        let floats = self.floats(capacity);
        let (_, most) = self.fullest(&|id| floats[id]);
        let fixed = self.fixed(&floats, capacity);
        fixed.saturating_add(most).saturating_mul(4)
    }

    /// Whether [`layout`](Self::layout) needs at most `bytes`, but faster.
    pub fn fits(&self, capacity: &Capacity, bytes: u64) -> bool {
        let floats = self.floats(capacity);
        let (_, most) = self.fullest(&|id| floats[id]);
        let fixed = self.fixed(&floats, capacity);
        let within = |top: u64| fixed.saturating_add(top).saturating_mul(4) <= bytes;
        let enough = (bytes / 4).saturating_sub(fixed);
        let below = Some(enough.saturating_add(1));
        let placed = |order| self.first_fit(order, &floats, below).is_some();
        // Side by side, they need no placing.
        let side_by_side = self.temporary(&floats);
        let side_by_side = side_by_side.fold(0u64, |sum, id| sum.saturating_add(floats[id]));
        within(side_by_side) || within(most) && self.orders(&floats).any(placed)
    }

    /// The first position at which temporary buffers have the largest total `measure`, and that
    /// total.
    pub fn fullest(&self, measure: &dyn Fn(usize) -> u64) -> (u32, u64) {
        // By position: what becomes live, less what was live up to the one before. All sums are
        // below 2^96.
        let mut changes: Vec<i128> = Vec::new();
        for (id, lifetime) in self.lifetimes.iter().enumerate() {
            let Lifetime::During(stretches) = lifetime else {
                continue;
            };
            let mut size = None;
            for (first, last) in stretches.iter().flatten() {
                let end = *last as usize + 1;
                if changes.len() <= end {
                    changes.resize(end + 1, 0);
                }
                let size = i128::from(*size.get_or_insert_with(|| measure(id)));
                changes[*first as usize] += size;
                changes[end] -= size;
            }
        }
        let (mut live, mut most, mut at) = (0, 0, None);
        for (position, change) in (0..).zip(changes) {
            live += change;
            if live > most {
                (most, at) = (live, Some(position));
            }
        }
        let at = at.unwrap_or_else(|| begins(self.program)[1]);
        (at, u64::try_from(most).unwrap_or(u64::MAX))
    }

    /// Floats of each buffer.
    fn floats(&self, capacity: &Capacity) -> Vec<u64> {
        let buffers = self.program.buffers.iter();
        let words = buffers.map(|buffer| buffer.words(capacity));
        if !self.program.equal_bits {
            return words.map(aligned).collect();
        }
        let shares = self.program.room_for_shares(capacity.most().vertices);
        let all = words.zip(shares);
        all.map(|(words, shares)| aligned(words.saturating_mul(shares)))
            .collect()
    }

    /// Floats of persistent buffers and of partial sums.
    fn fixed(&self, floats: &[u64], capacity: &Capacity) -> u64 {
        let all = self.lifetimes.iter().zip(floats);
        let always = all.filter(|(lifetime, _)| **lifetime == Lifetime::Always);
        let scratch = self.scratch(capacity);
        always.fold(scratch, |sum, (_, floats)| sum.saturating_add(*floats))
    }

    /// Floats of partial sums.
    fn scratch(&self, capacity: &Capacity) -> u64 {
        let program = self.program;
        let lists = [&program.setup, &program.step, &program.eval].into_iter();
        let floats = lists.map(|list| scratch_floats(list, program, capacity));
        aligned(floats.max().unwrap_or(0))
    }

    /// Places temporary buffers in several orders, stops once they need at most `enough`
    /// floats, and returns the tightest result.
    fn tightest(&self, floats: &[u64], enough: u64) -> Placed {
        let mut best: Option<Placed> = None;
        for order in self.orders(floats) {
            let below = best.as_ref().map(|best| best.top);
            best = self.first_fit(order, floats, below).or(best);
            if best.as_ref().is_some_and(|best| best.top <= enough) {
                break;
            }
        }
        best.unwrap_or_default()
    }

    /// The temporary buffers that are used.
    fn temporary<'b>(&'b self, floats: &'b [u64]) -> impl Iterator<Item = usize> + use<'b> {
        let lives = |id: &usize| {
            let during = matches!(self.lifetimes[*id], Lifetime::During(_));
            during && self.lifetimes[*id].hull().is_some() && floats[*id] > 0
        };
        (0..floats.len()).filter(lives)
    }

    /// The temporary buffers in the orders in which to try to place them.
    fn orders(&self, floats: &[u64]) -> impl Iterator<Item = Vec<usize>> {
        let temporary: Vec<usize> = self.temporary(floats).collect();
        let orders = [
            First::Largest,
            First::Longest,
            First::LargestForLongest,
            First::Earliest,
        ];
        let tried = if temporary.len() > MANY { 1 } else { 4 };
        let orders = orders.into_iter().take(tried);
        orders.map(move |order| self.sorted(&temporary, floats, order))
    }

    /// Sorts buffers in a placement order.
    fn sorted(&self, ids: &[usize], floats: &[u64], order: First) -> Vec<usize> {
        let key = |id: usize| {
            let (floats, life) = (floats[id], &self.lifetimes[id]);
            match order {
                First::Largest => (floats, life.length()),
                First::Longest => (life.length(), floats),
                First::LargestForLongest => (floats.saturating_mul(life.length()), 0),
                First::Earliest => {
                    let begin = life.hull().map_or(0, |(first, _)| first);
                    (u64::MAX - u64::from(begin), floats)
                }
            }
        };
        let keyed = ids.iter().map(|id| (std::cmp::Reverse(key(*id)), *id));
        let mut keyed: Vec<_> = keyed.collect();
        keyed.sort_unstable();
        keyed.into_iter().map(|(_, id)| id).collect()
    }

    /// Places each buffer at the lowest free offset; `None` if that does not stay `below` a limit.
    fn first_fit(&self, order: Vec<usize>, floats: &[u64], below: Option<u64>) -> Option<Placed> {
        let mut shelves = Shelves::default();
        let mut placed = Placed::default();
        for id in order {
            let Lifetime::During(life) = &self.lifetimes[id] else {
                continue;
            };
            let offset = shelves.lowest(floats[id], life);
            let end = offset.saturating_add(floats[id]);
            placed.top = placed.top.max(end);
            if below.is_some_and(|below| placed.top >= below) {
                return None;
            }
            shelves.take(offset, end, life);
            placed.offsets.push((id, offset));
        }
        Some(placed)
    }
}

/// Rounds up to a multiple of [`ALIGN`].
fn aligned(floats: u64) -> u64 {
    floats.checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX)
}

/// Rows per block of a transposed product over `rows` rows. Each block gives a partial sum, and
/// partial sums are added in order. Never depends on threads.
pub fn product_block(rows: u64) -> u64 {
    rows.div_ceil(PRODUCT_BLOCKS)
        .next_multiple_of(64)
        .max(PRODUCT_BLOCK)
}

/// Most blocks of a transposed product over at most so many rows. Fewer rows may give more blocks.
pub(super) fn most_product_blocks(rows: u64) -> u64 {
    rows.div_ceil(PRODUCT_BLOCK).min(PRODUCT_BLOCKS)
}

/// Rows summed at a time.
pub(super) fn at_once(chunk: Option<Chunk>, rows: Extent, capacity: &Capacity) -> u64 {
    let longest = chunk.and_then(|chunk| {
        chunk
            .even
            .map(|even| even.longest(chunk.of, capacity.most()))
    });
    longest.unwrap_or(capacity.rows(rows))
}

/// Floats of partial sums in the instruction that has most.
pub(super) fn scratch_floats(instrs: &[Instr], program: &Program, capacity: &Capacity) -> u64 {
    let one = |instr: &Instr| instr.scratch_floats(program, capacity);
    instrs.iter().map(one).max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
