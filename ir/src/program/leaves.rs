//! Sums over the vertices in an order that does not depend on the number of ranks.
//!
//! The vertices of a graph are divided into leaves, a power of two that follows from their number. Each rank owns consecutive
//! leaves. What is summed over vertices is summed in each leaf, and the sums of leaves are added in pairs, those in pairs
//! again, and so on: a perfect binary tree, whatever the number of ranks. Of its leaves, a rank adds up the largest subtrees;
//! an all-reduce adds the rest. After TBIK (arXiv 2511.17826), which does so for tensor parallelism.

use super::{Among, BufferId, Chunk, Extent, Halo, Instr, Product, Program, Ref};
use crate::graph::op::Redistribute;
use crate::kernel::Body;
use crate::program::access::accesses;
use crate::program::trace::Phase;
use std::collections::BTreeSet;
use std::ops::Range;

/// Most leaves.
pub const MOST_LEAVES: u32 = 64;

/// Fewest leaves of a graph with so many vertices.
const FEWEST_LEAVES: u64 = 8;

/// Vertices of a leaf of a graph with many, unless it has [`MOST_LEAVES`]: the sums of more leaves would take longer to add
/// than the products that they are sums of.
const VERTICES: u64 = 2048;

/// A perfect subtree of a tree of leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subtree {
    /// Its first leaf, a multiple of the number of its leaves.
    pub first: u32,
    /// Number of its leaves, a power of two.
    pub leaves: u32,
}

/// Number of leaves of a graph with `vertices` vertices: a power of two, at most [`MOST_LEAVES`] and not more than the
/// vertices; 1 without vertices.
pub fn leaves(vertices: u64) -> u32 {
    let wanted = (vertices / VERTICES)
        .max(FEWEST_LEAVES)
        .min(vertices.max(1));
    let wanted = wanted.min(u64::from(MOST_LEAVES)) as u32;
    1 << wanted.ilog2()
}

/// The leaves that a rank owns: runs whose lengths differ by at most one.
pub fn owned(leaves: u32, ranks: u32, rank: u32) -> Range<u32> {
    let bound = |rank: u32| (u64::from(rank) * u64::from(leaves) / u64::from(ranks.max(1))) as u32;
    bound(rank)..bound(rank + 1)
}

/// The rank that owns a leaf.
pub fn owner(leaves: u32, ranks: u32, leaf: u32) -> u32 {
    let (leaf, ranks) = (u64::from(leaf), u64::from(ranks));
    (((leaf + 1) * ranks - 1) / u64::from(leaves.max(1))) as u32
}

/// The fewest perfect subtrees that have consecutive leaves, in order.
pub fn subtrees(mut of: Range<u32>) -> Vec<Subtree> {
    let mut found = Vec::new();
    while of.start < of.end {
        let aligned = match of.start {
            0 => u32::MAX,
            first => 1 << first.trailing_zeros(),
        };
        let leaves = aligned.min(1 << (of.end - of.start).ilog2());
        found.push(Subtree {
            first: of.start,
            leaves,
        });
        of.start += leaves;
    }
    found
}

/// Number of subtrees that a rank adds up.
pub fn shares(leaves: u32, ranks: u32, rank: u32) -> u32 {
    subtrees(owned(leaves, ranks, rank)).len() as u32
}

/// Numbers of subtrees that all ranks add up, together.
pub fn all_shares(leaves: u32, ranks: u32) -> u32 {
    (0..ranks).map(|rank| shares(leaves, ranks, rank)).sum()
}

/// Most subtrees that a rank adds up; 1 if the number of ranks is a power of two.
pub fn most_shares(leaves: u32, ranks: u32) -> u32 {
    let ranks = ranks.max(1);
    let each = (0..ranks).map(|rank| shares(leaves, ranks, rank));
    each.max().unwrap_or(1).max(1)
}

impl Subtree {
    /// The subtree of two others of which `right` follows this one; `None` if they are no siblings.
    pub fn joined(self, right: Self) -> Option<Self> {
        let siblings = self.leaves == right.leaves && self.first.is_multiple_of(2 * self.leaves);
        let joined = siblings && self.first + self.leaves == right.first;
        joined.then_some(Self {
            first: self.first,
            leaves: 2 * self.leaves,
        })
    }
}

/// How a rank that sums a chunk of an all-reduce adds the shares of all ranks along the tree. Sums lie in slots of the length
/// of the chunk; the result is in slot 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Additions {
    /// What happens to the shares of each rank, in rank order.
    pub of_ranks: Vec<Taken>,
    /// Slots.
    pub slots: usize,
}

/// The shares of a rank in an all-reduce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Where they are put, one after the other.
    pub slots: Vec<usize>,
    /// What is added then.
    pub added: Vec<Added>,
}

/// A slot that is added to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    /// The slot whose content is added.
    pub from: usize,
    /// The slot with the sum.
    pub to: usize,
}

impl Additions {
    /// Takes the shares in rank order; two subtrees are added as soon as both are there, so that few are kept.
    pub fn new(leaves: u32, ranks: u32) -> Self {
        struct Summed {
            subtree: Subtree,
            slot: usize,
        }
        let mut stack: Vec<Summed> = Vec::new();
        let (mut of_ranks, mut most) = (Vec::new(), 0);
        for rank in 0..ranks {
            let own = subtrees(owned(leaves, ranks, rank));
            let is_free = |slot: &usize| stack.iter().all(|one| one.slot != *slot);
            let slots: Vec<usize> = (0..).filter(is_free).take(own.len()).collect();
            let mut added = Vec::new();
            for (&slot, subtree) in slots.iter().zip(own) {
                stack.push(Summed { subtree, slot });
                while let [.., left, right] = &stack[..]
                    && let Some(subtree) = left.subtree.joined(right.subtree)
                {
                    let (from, to) = (right.slot, left.slot);
                    added.push(Added { from, to });
                    stack.truncate(stack.len() - 2);
                    stack.push(Summed { subtree, slot: to });
                }
            }
            most = slots.iter().fold(most, |most, slot| most.max(slot + 1));
            of_ranks.push(Taken { slots, added });
        }
        Self {
            of_ranks,
            slots: most,
        }
    }
}

impl Program {
    /// Number of leaves of sums over the vertices of a graph; `None` if sums follow the rows of ranks.
    pub fn leaves(&self, vertices: u64) -> Option<u32> {
        self.equal_bits.then(|| leaves(vertices))
    }

    /// Whether sums over so many rows are sums over leaves.
    pub fn sums_leaves(&self, rows: Extent) -> bool {
        self.equal_bits && rows == Extent::Inner
    }

    /// How many sums of subtrees each buffer has room for: those that are summed over ranks have some for each rank.
    pub(in crate::program) fn room_for_shares(&self, vertices: u64) -> Vec<u64> {
        let mut room = vec![1; self.buffers.len()];
        let most = match self.leaves(vertices) {
            Some(leaves) => most_shares(leaves, self.ranks),
            None => 1,
        };
        if most > 1 {
            for id in self.summed_over_ranks() {
                if let Some(room) = room.get_mut(id.0 as usize) {
                    *room = u64::from(most);
                }
            }
        }
        room
    }

    /// The buffers that all-reduces sum.
    fn summed_over_ranks(&self) -> BTreeSet<BufferId> {
        let mut found = BTreeSet::new();
        for phase in Phase::ALL {
            summed(self.list(phase), &mut found);
        }
        found
    }
}

/// What a program does that gives other bits on another number of ranks, besides sums along the tree of leaves.
pub fn unequal(program: &Program) -> Option<&'static str> {
    if program.pipeline.is_some() {
        return Some("layers in stages, whose histories are as old as there are stages");
    }
    if program.sampling.is_some() || program.evaluation.is_some() {
        return Some("sampled batches, which ranks draw from their own seeds");
    }
    if program.in_groups() {
        return Some("groups of ranks, which add shares of columns in another order");
    }
    match program.halo {
        Halo::Boundary | Halo::BothEnds => {}
        Halo::Cover => return Some("partial sums, one for each part"),
        Halo::Everything => return Some("blocks of rows that are sent whole"),
    }
    for phase in Phase::ALL {
        let mut open = BTreeSet::new();
        if let Some(found) = in_list(program.list(phase), program, &mut open) {
            return Some(found);
        }
        if !open.is_empty() {
            return Some(NEVER_ADDED);
        }
    }
    None
}

const NEVER_ADDED: &str = "shares of a sum that are never added";

/// The same of a list. `open` are the buffers with shares that are still to be added.
fn in_list(
    instrs: &[Instr],
    program: &Program,
    open: &mut BTreeSet<BufferId>,
) -> Option<&'static str> {
    for instr in instrs
        .iter()
        .filter(|instr| !matches!(instr, Instr::Finish(_)))
    {
        let whole = instr.whole();
        if let Instr::AllReduce(one) = whole {
            let added = one
                .buffers
                .iter()
                .all(|at| open.remove(&at.buffer) || program.ranks == 1);
            if !added {
                return Some("sums over ranks of what is no sum over vertices");
            }
        }
        let sum = sum_over_rows(whole, program);
        if let Some(found) = sum.as_ref().and_then(RowSum::unequal) {
            return Some(found);
        }
        let of_leaves = sum.filter(|sum| sum.rows == Extent::Inner);
        let out = of_leaves.and_then(|sum| sum.out);
        if let Some(body) = whole.body() {
            if let Some(found) = in_list(body, program, open) {
                return Some(found);
            }
        } else if accesses(whole, program)
            .iter()
            .any(|access| open.contains(&access.buffer) && Some(access.buffer) != out)
        {
            return Some("shares of a sum that something reads before they are added");
        }
        open.extend(out.filter(|_| program.ranks > 1));
        if let Some(found) = of_instr(whole, program) {
            return Some(found);
        }
    }
    None
}

/// A sum over rows, which ranks may divide.
struct RowSum {
    rows: Extent,
    chunk: Option<Chunk>,
    out: Option<BufferId>,
    /// Whether a kernel follows that computes with the sum.
    finished: bool,
}

impl RowSum {
    /// Why it is made in another order on another number of ranks, if it is.
    fn unequal(&self) -> Option<&'static str> {
        if let Extent::Fixed(_) = self.rows {
            return None;
        }
        if self.rows.of_edges() {
            return Some("sums over edges");
        }
        if self.rows != Extent::Inner {
            return Some("sums of columns that ranks divide over all vertices");
        }
        if self.chunk.is_some() {
            return Some("sums over one chunk of vertices after the other");
        }
        let computes = "kernels that compute with a share of a product";
        self.finished.then_some(computes)
    }
}

fn sum_over_rows(instr: &Instr, program: &Program) -> Option<RowSum> {
    let of = |rows, out: Option<Ref>| RowSum {
        rows,
        chunk: instr.chunk(),
        out: out.map(|at| at.buffer),
        finished: matches!(instr, Instr::MatMul(one) if one.finish.is_some()),
    };
    let logits = |at: Ref| program.buffer(at.buffer).extent.without_halo();
    if let Instr::MatMul(one) = instr {
        let sum = one.product == Product::Tn;
        return sum.then(|| of(one.rows, Some(one.out.at)));
    }
    if let Instr::SparseMatMul(one) = instr {
        let sum = one.product == Product::Tn;
        return sum.then(|| of(program.sparse_rows(one.values), Some(one.out.at)));
    }
    if let Instr::Loss(one) = instr {
        return Some(of(logits(one.logits), one.out));
    }
    if let Instr::Metrics(one) = instr {
        return Some(of(logits(one.logits), Some(one.out)));
    }
    let launch = instr.launch()?;
    let body = &program.kernels.get(launch.kernel.0 as usize)?.body;
    let sum = matches!(body, Body::ColReduce { .. });
    sum.then(|| of(launch.rows, launch.outputs.first().copied()))
}

fn of_instr(instr: &Instr, program: &Program) -> Option<&'static str> {
    if matches!(instr, Instr::HaloReduce(_)) && program.ranks > 1 {
        return Some("gradients of halo rows, of which each rank sends a sum");
    }
    if let Instr::HaloExchange(one) = instr
        && one.skip.is_some()
    {
        return Some("exchanges that may be left out");
    }
    if matches!(instr, Instr::Move(_)) {
        return Some("tensors that rest on the host");
    }
    if let Instr::AllReduce(one) = instr {
        let shares = one.among != Among::All || one.slice.is_some();
        return shares.then_some("sums of slices of columns");
    }
    if let Instr::Redistribute(one) = instr {
        let shares = one.how == Redistribute::Reduce;
        return shares.then_some("shares of a product that ranks divide by columns");
    }
    let launch = instr.launch()?;
    let body = &program.kernels.get(launch.kernel.0 as usize)?.body;
    matches!(body, Body::TypeSum { .. }).then_some("sums over the edges of each type")
}

fn summed(instrs: &[Instr], found: &mut BTreeSet<BufferId>) {
    for instr in instrs {
        if let Instr::AllReduce(one) = instr.whole() {
            found.extend(one.buffers.iter().map(|at| at.buffer));
        }
        summed(instr.body().unwrap_or_default(), found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_of_leaves() {
        let found = [0, 1, 3, 8, 2708, 18_333, 65_536, 200_000, 1 << 40].map(leaves);
        assert_eq!(found, [1, 1, 2, 8, 8, 8, 32, 64, 64]);
    }

    /// Counted by hand: with 64 leaves, 3, 5, 6 and 7 ranks together have 11, 17, 18 and 22 subtrees.
    #[test]
    fn subtrees_of_other_numbers_of_ranks() {
        let all = |ranks| (0..ranks).map(|rank| shares(64, ranks, rank)).sum::<u32>();
        assert_eq!([1, 2, 4, 8].map(all), [1, 2, 4, 8]);
        assert_eq!([3, 5, 6, 7].map(all), [11, 17, 18, 22]);
        assert_eq!(
            [1, 2, 3, 64].map(|ranks| most_shares(64, ranks)),
            [1, 1, 5, 1]
        );
    }

    /// Ranks with leaves 0 | 1 | 2, 3.
    #[test]
    fn three_ranks_add_four_leaves() {
        let order = Additions::new(4, 3);
        let taken = |slots, added| Taken { slots, added };
        let add = Added { from: 1, to: 0 };
        let expected = [
            taken(vec![0], vec![]),
            taken(vec![1], vec![add]),
            taken(vec![1], vec![add]),
        ];
        assert_eq!((&order.of_ranks[..], order.slots), (&expected[..], 2));
    }

    #[test]
    fn slots_are_few() {
        let slots = [1, 2, 3, 5, 8, 64].map(|ranks| Additions::new(64, ranks).slots);
        assert_eq!(slots, [1, 2, 8, 8, 4, 7]);
    }

    proptest! {
        #[test]
        fn leaves_are_owned_once_and_subtrees_join(power in 0u32..7, ranks in 1u32..70) {
            let leaves = 1 << power;
            let mut stack: Vec<Subtree> = Vec::new();
            for rank in 0..ranks {
                let own = owned(leaves, ranks, rank);
                prop_assert!(own.clone().all(|leaf| owner(leaves, ranks, leaf) == rank));
                for subtree in subtrees(own) {
                    stack.push(subtree);
                    while let [.., left, right] = stack[..]
                        && let Some(joined) = left.joined(right)
                    {
                        stack.truncate(stack.len() - 2);
                        stack.push(joined);
                    }
                }
            }
            prop_assert_eq!(stack, [Subtree { first: 0, leaves }]);
        }
    }
}
