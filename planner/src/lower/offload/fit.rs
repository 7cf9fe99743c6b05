//! Moves tensors one by one until the buffers fit.

use super::{Choice, Means, MemoryBudget, Short, choose, home, ring, split, stream};
use gnnc_ir::program::memory::Lives;
use gnnc_ir::program::{Program, RankSizes};

/// Programs with some tensors already moved, and the known shortages of ranks.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) programs: Vec<Program>,
    pub(super) budgets: Vec<MemoryBudget>,
    /// Bytes each budget lacked when it was last checked; possibly fewer, if that is still more
    /// than all others lack.
    missing: Vec<u64>,
    /// Budgets to check now.
    changed: Vec<usize>,
}

impl State {
    pub(super) fn new(programs: Vec<Program>, budgets: Vec<MemoryBudget>) -> Self {
        Self {
            missing: vec![0; budgets.len()],
            changed: tight(&budgets),
            programs,
            budgets,
        }
    }

    /// Repeatedly makes the best move until the first program, which needs the most memory, fits
    /// all budgets.
    ///
    /// # Errors
    /// How much memory is missing when nothing is left to move.
    pub(super) fn fit(&mut self, means: Means, looks: &mut u32) -> Result<(), Short> {
        loop {
            *looks += 1;
            let Some((budget, choice)) = self.next(means)? else {
                return Ok(());
            };
            let bytes = self.missing[budget];
            let mut all = self.programs.iter_mut();
            if !all.all(|program| apply(program, choice, means)) {
                return Err(Short { bytes });
            }
            self.changed = vec![budget];
        }
    }

    /// The budget with the largest shortage, and the best change; `None` if everything fits.
    fn next(&mut self, means: Means) -> Result<Option<(usize, Choice)>, Short> {
        let Some(first) = self.programs.first() else {
            return Ok(None);
        };
        let lives = Lives::of(first);
        look(&lives, &self.budgets, &mut self.missing, &self.changed);
        let worst = (0..self.budgets.len()).max_by_key(|n| (self.missing[*n], usize::MAX - n));
        let Some(worst) = worst.filter(|n| self.missing[*n] > 0) else {
            return Ok(None);
        };
        let budget = &self.budgets[worst];
        match choose(&lives, &budget.capacity, means) {
            Some(choice) => Ok(Some((worst, choice))),
            None => Err(Short {
                bytes: beyond(&lives, budget),
            }),
        }
    }
}

/// Computes the shortages of changed budgets; if they lack nothing, those of all budgets.
fn look(lives: &Lives, budgets: &[MemoryBudget], missing: &mut [u64], changed: &[usize]) {
    for n in changed {
        let others = missing.iter().enumerate().filter(|(other, _)| other != n);
        let others = match changed.len() {
            1 => others.map(|(_, bytes)| *bytes).max().unwrap_or(0),
            _ => u64::MAX,
        };
        // A lower bound above the others' shortage is enough to know.
        let least = lacking(lives.least(&budgets[*n].capacity), &budgets[*n]);
        missing[*n] = match least > others {
            true => least,
            false => beyond(lives, &budgets[*n]),
        };
    }
    if changed.iter().all(|n| missing[*n] == 0) {
        for (missing, budget) in missing.iter_mut().zip(budgets) {
            *missing = beyond(lives, budget);
        }
    }
}

/// Bytes by which a program's buffers exceed a budget.
pub(super) fn beyond(lives: &Lives, budget: &MemoryBudget) -> u64 {
    match fits(lives, budget) {
        true => 0,
        false => lacking(lives.layout(&budget.capacity).total_bytes, budget),
    }
}

/// Whether a program's buffers fit a budget.
pub(super) fn fits(lives: &Lives, budget: &MemoryBudget) -> bool {
    let bytes = budget.bytes.checked_sub(budget.lacking);
    bytes.is_some_and(|bytes| lives.fits(&budget.capacity, bytes))
}

/// The same for the budget that is exceeded the most.
pub(super) fn most_beyond(lives: &Lives, budgets: &[MemoryBudget]) -> u64 {
    let all = budgets.iter().map(|budget| beyond(lives, budget));
    all.max().unwrap_or(0)
}

/// Bytes a budget lacks for buffers of `bytes` bytes.
pub(super) fn lacking(bytes: u64, budget: &MemoryBudget) -> u64 {
    let needed = bytes.saturating_add(budget.lacking);
    needed.saturating_sub(budget.bytes)
}

/// The budgets with less memory for more data than others, the first of equal ones. A program that
/// fits these probably fits all.
fn tight(budgets: &[MemoryBudget]) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    for (n, budget) in budgets.iter().enumerate() {
        if !found.iter().any(|other| tighter(&budgets[*other], budget)) {
            found.retain(|other| !tighter(budget, &budgets[*other]));
            found.push(n);
        }
    }
    found
}

/// Whether a budget has no more memory than another, for no less data.
fn tighter(a: &MemoryBudget, b: &MemoryBudget) -> bool {
    let sizes = |sizes: &RankSizes| {
        let RankSizes {
            inner,
            halo,
            edges,
            named_edges,
            feature_nonzeros,
            slice_nonzeros,
            vertices,
            elsewhere: _,
            all_halo,
            all_edges,
            all_named_edges,
            max_degree,
            // Memory does not depend on these.
            train: _,
            reach: _,
            batch: _,
        } = *sizes;
        let own = [inner, halo, edges, feature_nonzeros, slice_nonzeros];
        let all = [vertices, all_halo, all_edges, max_degree];
        let named = [named_edges, all_named_edges].map(|edges| edges.numbers());
        own.into_iter()
            .chain(all)
            .chain(named.into_iter().flatten())
    };
    let mut all = sizes(a.capacity.most()).zip(sizes(b.capacity.most()));
    let same_batch = a.capacity.most().batch == b.capacity.most().batch;
    a.bytes <= b.bytes
        && same_batch
        && a.lacking >= b.lacking
        && a.lists == b.lists
        && all.all(|(a, b)| a >= b)
}

/// Makes a change; returns whether it was possible.
fn apply(program: &mut Program, choice: Choice, means: Means) -> bool {
    match choice {
        Choice::Split(phase, id, gap) => split::split(program, phase, id, gap),
        Choice::Home(id) => {
            home::home(program, id);
        }
        Choice::Ring(phase, id) => {
            if let Some(ring) = ring::Ring::of(program, phase, id, means.style) {
                ring.apply(program);
            }
        }
        Choice::Stream(phase, place, id) => {
            return stream::stream(program, (phase, place), id, means).is_some();
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnnc_ir::program::Capacity;

    fn budget(inner: u64, edges: u64, bytes: u64) -> MemoryBudget {
        MemoryBudget {
            capacity: Capacity::of(RankSizes {
                inner,
                edges,
                ..RankSizes::default()
            }),
            bytes,
            lacking: 0,
            lists: true,
        }
    }

    #[test]
    fn rooms_that_others_are_tighter_than_are_not_looked_at() {
        let budgets = [
            budget(9, 80, 100),
            budget(10, 70, 100),
            budget(9, 70, 100),
            budget(10, 80, 101),
            budget(10, 70, 100),
        ];
        assert_eq!(tight(&budgets), [0, 1, 3]);
        assert_eq!(tight(&[budgets[2], budgets[1]]), [1]);
        assert!(tight(&[]).is_empty());
    }
}
