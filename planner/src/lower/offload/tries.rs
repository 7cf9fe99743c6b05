//! Attempts at making programs fit. Shares the work that attempts have in common, and skips
//! attempts known to fail.

use super::fit::{State, most_beyond};
use super::{Means, MemoryBudget, Short, Style, bound, ring, stream, topology, widen};
use gnnc_ir::program::Program;
use gnnc_ir::program::memory::Lives;

/// Attempts at fitting programs into budgets.
pub(super) struct Tries<'a> {
    programs: &'a [Program],
    budgets: &'a [MemoryBudget],
    /// By style: the result without chunks, which is where attempts with chunks start.
    whole: [Option<(State, Result<(), Short>)>; 2],
    /// Whether there is any stack; only stacks make styles differ without chunks.
    stacks: bool,
    /// The last attempt, with its shortage if it was made.
    last: Option<(Means, Option<Short>)>,
    /// How often memory needs were computed.
    looks: &'a mut u32,
}

impl<'a> Tries<'a> {
    pub(super) fn new(
        programs: &'a [Program],
        budgets: &'a [MemoryBudget],
        looks: &'a mut u32,
    ) -> Self {
        let mut buffers = programs.iter().flat_map(|program| &program.buffers);
        Self {
            programs,
            budgets,
            whole: [None, None],
            stacks: buffers.any(|buffer| buffer.slots >= ring::FEWEST),
            last: None,
            looks,
        }
    }

    /// The fitting programs, if these means succeed.
    pub(super) fn attempt(&mut self, means: Means) -> Option<State> {
        let listed = self.listed(means);
        let (programs, budgets) = match &listed {
            Some(state) => (&state.programs[..], &state.budgets[..]),
            None => (self.programs, self.budgets),
        };
        let first = programs.first();
        *self.looks += 1;
        if first.is_some_and(|first| bound::hopeless(first, budgets, means)) {
            self.last = Some((means, None));
            return None;
        }
        match self.run(listed, means) {
            Ok(state) => Some(state),
            Err(short) => {
                self.last = Some((means, Some(short)));
                None
            }
        }
    }

    /// The shortage of the last attempt; makes the attempt now if it was skipped as hopeless.
    pub(super) fn shortage(mut self) -> Short {
        let short = match self.last {
            Some((means, None)) => {
                let listed = self.listed(means);
                self.run(listed, means).err()
            }
            Some((_, short)) => short,
            None => None,
        };
        short.unwrap_or(Short { bytes: 0 })
    }

    /// The programs of a state, with copies overlapping computation as far as memory allows.
    pub(super) fn widened(&mut self, state: State) -> Vec<Program> {
        widen::widen(state.programs, &state.budgets, self.looks)
    }

    /// The programs with the ends of edges on the host, if that is among the means.
    fn listed(&self, means: Means) -> Option<State> {
        means.lists.then(|| {
            let (mut programs, mut budgets) = (self.programs.to_vec(), self.budgets.to_vec());
            topology::topology(&mut programs, &mut budgets, means);
            State::new(programs, budgets)
        })
    }

    fn run(&mut self, listed: Option<State>, means: Means) -> Result<State, Short> {
        let mut state = match listed {
            Some(state) => state,
            None => {
                let (state, whole) = self.whole(means);
                if means.chunks.is_none() {
                    (*whole)?;
                }
                state.clone()
            }
        };
        state.fit(means, self.looks)?;
        state.programs.iter_mut().for_each(stream::unroll);
        *self.looks += 1;
        let first = state.programs.first();
        match first.map_or(0, |first| most_beyond(&Lives::of(first), &state.budgets)) {
            0 => Ok(state),
            bytes => Err(Short { bytes }),
        }
    }

    /// The result of these means without chunks.
    fn whole(&mut self, means: Means) -> &(State, Result<(), Short>) {
        let alike = means.style == Style::Roomy || !self.stacks;
        self.whole[usize::from(!alike)].get_or_insert_with(|| {
            let mut state = State::new(self.programs.to_vec(), self.budgets.to_vec());
            let means = Means {
                chunks: None,
                ..means
            };
            let whole = state.fit(means, self.looks);
            (state, whole)
        })
    }
}
