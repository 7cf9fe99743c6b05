//! Iteration over the instructions of a list, through its loops.

use gnnc_ir::program::Instr;
use gnnc_ir::program::instr;

/// Walks a list. Visits the instructions inside loops, but not the loops themselves.
pub(crate) struct Steps<'a> {
    levels: Vec<Level<'a>>,
    order: Vec<u32>,
    /// Batches of an epoch.
    batches: u32,
    /// Sets of a batch.
    sets: u32,
}

/// One visited instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step<'a> {
    pub(crate) instr: &'a Instr,
    /// The iteration index of the enclosing repetitions.
    pub(crate) iteration: u32,
    /// The current chunk; `None` if all rows are current.
    pub(crate) chunk: Option<u32>,
    /// Position of the chunk in the order as it is run; 0 outside of chunk loops.
    pub(crate) turn: u32,
    /// The batch of the epoch; `None` outside of batches.
    pub(crate) batch: Option<u32>,
    /// The set of the batch; `None` outside of sets.
    pub(crate) set: Option<u32>,
}

/// A list and the position in it.
struct Level<'a> {
    list: &'a [Instr],
    next: usize,
    around: Loop,
    /// Number of finished runs of the list.
    turn: u32,
    /// Of batches: how many periods behind the instructions are.
    lag: u32,
    /// The iteration index of the repetitions outside of it.
    outer: u32,
    /// Of sets: the batch that they belong to.
    batch: Option<i64>,
}

/// How often loops run whose length the data say.
#[derive(Clone, Copy)]
struct Counts {
    chunks: u32,
    batches: u32,
    sets: u32,
}

/// The loop whose body a list is.
#[derive(Clone, Copy)]
enum Loop {
    None,
    Repeat { count: u32, reverse: bool },
    Chunks { reverse: bool },
    Batches,
    Sets,
}

impl<'a> Steps<'a> {
    /// The steps of a list, with chunks in this order and so many batches of so many sets.
    pub(crate) fn new(list: &'a [Instr], order: Vec<u32>, batches: u32, sets: u32) -> Self {
        let level = Level {
            list,
            next: 0,
            around: Loop::None,
            turn: 0,
            lag: 0,
            outer: 0,
            batch: None,
        };
        Self {
            levels: vec![level],
            order,
            batches,
            sets,
        }
    }

    /// The indices of the current instruction, through loop bodies.
    pub(crate) fn path(&self) -> impl Iterator<Item = usize> + '_ {
        self.levels.iter().map(|level| level.next.saturating_sub(1))
    }
}

impl<'a> Iterator for Steps<'a> {
    type Item = Step<'a>;

    fn next(&mut self) -> Option<Step<'a>> {
        loop {
            let counts = Counts {
                chunks: self.order.len() as u32,
                batches: self.batches,
                sets: self.sets,
            };
            let level = self.levels.last_mut()?;
            let list = level.list;
            let Some(instr) = list.get(level.next) else {
                level.turn += 1;
                (level.next, level.lag) = (0, 0);
                if level.turn >= level.around.turns(list, counts) {
                    self.levels.pop();
                }
                continue;
            };
            level.next += 1;
            let iteration = level.iteration();
            if let Instr::Lag(lag) = instr {
                level.lag = lag.by;
                continue;
            }
            let batch = level.batch();
            if batch.is_some_and(|batch| batch >= i64::from(counts.batches) || batch < 0) {
                continue;
            }
            let Some((around, body)) = Loop::of(instr) else {
                let (chunk, turn) = level.chunk(&self.order);
                let batch = batch.map(|batch| batch as u32);
                return Some(Step {
                    instr,
                    iteration,
                    chunk,
                    turn,
                    batch,
                    set: level.set(),
                });
            };
            if around.turns(body, counts) > 0 {
                self.levels.push(Level {
                    list: body,
                    next: 0,
                    around,
                    turn: 0,
                    lag: 0,
                    outer: iteration,
                    batch,
                });
            }
        }
    }
}

impl Loop {
    /// A loop and what it runs.
    fn of(instr: &Instr) -> Option<(Self, &[Instr])> {
        let body = instr.body()?;
        if let Instr::Repeat(instr::Repeat { count, reverse, .. }) = *instr {
            return Some((Self::Repeat { count, reverse }, body));
        }
        if matches!(instr, Instr::Batches(_)) {
            return Some((Self::Batches, body));
        }
        if matches!(instr, Instr::Sets(_)) {
            return Some((Self::Sets, body));
        }
        let reverse = matches!(instr, Instr::Chunks(instr::Chunks { reverse: true, .. }));
        Some((Self::Chunks { reverse }, body))
    }

    /// How often the loop runs its body.
    fn turns(self, body: &[Instr], counts: Counts) -> u32 {
        match self {
            Self::None => 1,
            Self::Repeat { count, .. } => count,
            Self::Chunks { .. } => counts.chunks,
            Self::Sets => counts.sets,
            Self::Batches if counts.batches == 0 => 0,
            Self::Batches => counts.batches + instr::Batches::lag(body),
        }
    }
}

impl Level<'_> {
    fn iteration(&self) -> u32 {
        match self.around {
            Loop::Repeat { count, reverse } => {
                let index = if reverse {
                    count - 1 - self.turn
                } else {
                    self.turn
                };
                self.outer * count + index
            }
            Loop::None | Loop::Chunks { .. } | Loop::Batches | Loop::Sets => self.outer,
        }
    }

    /// The batch, within batches; there may be no such batch.
    fn batch(&self) -> Option<i64> {
        match self.around {
            Loop::Batches => Some(i64::from(self.turn) - i64::from(self.lag)),
            Loop::None | Loop::Repeat { .. } | Loop::Chunks { .. } | Loop::Sets => self.batch,
        }
    }

    /// The set, within sets.
    fn set(&self) -> Option<u32> {
        matches!(self.around, Loop::Sets).then_some(self.turn)
    }

    fn chunk(&self, order: &[u32]) -> (Option<u32>, u32) {
        let Loop::Chunks { reverse } = self.around else {
            return (None, 0);
        };
        let place = match reverse {
            true => order.len() - 1 - self.turn as usize,
            false => self.turn as usize,
        };
        (order.get(place).copied(), self.turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnnc_ir::program::{BufferId, StageMessage};

    fn leaf(n: u32) -> Instr {
        Instr::AllReduce(instr::AllReduce::whole(vec![BufferId(n)]))
    }

    fn visited(list: &[Instr], order: Vec<u32>) -> Vec<(Vec<usize>, u32, Option<u32>, u32)> {
        let mut steps = Steps::new(list, order, 1, 1);
        let mut found = Vec::new();
        while let Some(step) = steps.next() {
            found.push((
                steps.path().collect(),
                step.iteration,
                step.chunk,
                step.turn,
            ));
        }
        found
    }

    #[test]
    fn loops_are_run_in_their_order() {
        let inner = Instr::Repeat(instr::Repeat {
            count: 2,
            reverse: true,
            body: vec![leaf(1)],
        });
        let outer = Instr::Repeat(instr::Repeat {
            count: 2,
            reverse: false,
            body: vec![leaf(0), inner],
        });
        let found = visited(&[leaf(2), outer, leaf(3)], Vec::new());
        let expected = [
            (vec![0], 0),
            (vec![1, 0], 0),
            (vec![1, 1, 0], 1),
            (vec![1, 1, 0], 0),
            (vec![1, 0], 1),
            (vec![1, 1, 0], 3),
            (vec![1, 1, 0], 2),
            (vec![2], 0),
        ];
        let expected = expected.map(|(path, iteration)| (path, iteration, None, 0));
        assert_eq!(found, expected);
    }

    #[test]
    fn chunks_are_run_in_the_order_of_the_epoch() {
        let body = vec![Instr::Send(StageMessage::of(
            gnnc_ir::program::Neighbour::Next,
            Vec::new(),
        ))];
        let list = [
            Instr::Chunks(instr::Chunks {
                reverse: true,
                body: body.clone(),
            }),
            Instr::Chunks(instr::Chunks {
                reverse: false,
                body,
            }),
        ];
        let chunks: Vec<_> = visited(&list, vec![2, 0, 1])
            .into_iter()
            .map(|(_, _, chunk, turn)| (chunk, turn))
            .collect();
        let expected = [(1, 0), (0, 1), (2, 2), (2, 0), (0, 1), (1, 2)];
        assert_eq!(chunks, expected.map(|(chunk, turn)| (Some(chunk), turn)));
        assert_eq!(visited(&list, Vec::new()), []);
    }
}
