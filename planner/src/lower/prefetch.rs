//! Fetches rows of batches ahead of time.
//!
//! A rank draws a batch and asks the owners of its rows some periods before it trains on it. So the
//! questions and the rows are in flight while earlier batches are trained on, and a rank waits for
//! none of them as long as ranks keep pace. Neither draws nor features depend on parameters: no number
//! changes. Rows of parameters are taken after the step before, or with a delay of `late` batches before
//! the last `late` steps (DistDGL's asynchronous embeddings, with a fixed age).
//!
//! | lag | a batch |
//! | --- | --- |
//! | 0 | is drawn, and asks for rows, or shares its levels |
//! | 1 | answers what others ask |
//! | `ahead - late` | answers with rows of parameters, if they may be late |
//! | `ahead` | takes its rows, or the levels of others, and is trained on |
//!
//! A rank fills its own rows when it answers, so that all rows of a batch are of the same age. One rank
//! asks nobody, and copies late rows as long before it trains.

use gnnc_ir::program::instr::{self, Lag, MOST_LAG};
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{BufferId, Instr, Program, Ref, Role, Transfer};
use std::collections::{BTreeMap, BTreeSet};

/// How far batches are ahead.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ahead {
    /// Periods between the draw of a batch and its training; by default as many as it waits for messages.
    pub periods: Option<u32>,
    /// Steps that rows of parameters may lack in training, 0 for none.
    pub late: u32,
}

impl Ahead {
    /// The fewest periods between the draw and the training of batches whose rows are `late` steps late, on
    /// ranks that ask each other for rows.
    pub fn least(late: u32) -> u32 {
        late + 1
    }
}

/// The largest delay of rows: so many batches are under way at most.
pub const MOST_LATE: u32 = MOST_LAG - 1;

/// The program with batches of some lists that are drawn ahead of their use.
pub fn prefetch(mut program: Program, phases_of: &[Phase], ahead: Ahead) -> Program {
    let mut tag = last_tag_of(&program);
    for phase in phases_of.iter().copied() {
        let trains = phase == Phase::Step;
        let late = if trains { ahead.late } else { 0 };
        let (waits, least) = match (program.asks(phase), program.shares(phase)) {
            (Some(_), _) if late > 0 => (2, Ahead::least(late)),
            (Some(_), _) => (2, 0),
            (None, Some(_)) => (1, 0),
            (None, None) => (0, late),
        };
        let periods = match waits {
            0 => least,
            _ => ahead.periods.unwrap_or(waits).max(least).min(MOST_LAG),
        };
        if periods == 0 {
            continue;
        }
        for (list, index) in program.batch_loops() {
            let Instr::Batches(instr::Batches { body }) = &program.list(phase)[index] else {
                continue;
            };
            if list != phase {
                continue;
            }
            let is_weight = |role: Role| trains && matches!(role, Role::Param(_));
            let buffers = (0..).map(BufferId).zip(&program.buffers);
            let weights = buffers.filter(|(_, one)| is_weight(one.role));
            let cut = Cut {
                periods,
                late,
                weights: weights.map(|(id, _)| id).collect(),
            };
            let (mut body, held) = cut.by_lag(body.clone(), &mut tag);
            for id in &held {
                program.buffers[id.0 as usize].slots = late + 1;
            }
            for instr in &mut body {
                instr.each_ref(&mut |at| at.in_loop |= held.contains(&at.buffer));
            }
            program.list_mut(phase)[index] = Instr::Batches(instr::Batches { body });
        }
    }
    program
}

/// How the instructions of a batch are spread over lags.
struct Cut {
    /// The lag of training.
    periods: u32,
    /// Steps that rows of weights lack.
    late: u32,
    /// Buffers that training changes.
    weights: BTreeSet<BufferId>,
}

impl Cut {
    /// The body by lags, and the buffers of rows that are taken with an earlier lag than they are used.
    fn by_lag(&self, body: Vec<Instr>, tag: &mut u32) -> (Vec<Instr>, BTreeSet<BufferId>) {
        let mut lags: BTreeMap<u32, Vec<Instr>> = BTreeMap::new();
        let mut held = BTreeSet::new();
        // The optimizer steps current rows, and puts them back.
        let is_put = |to: Ref| {
            let puts = |instr: &Instr| matches!(instr, Instr::PutRows(put) if put.from.buffer == to.buffer);
            body.iter().any(puts)
        };
        let is_weight = |at: Ref| self.weights.contains(&at.buffer);
        let takes = self.periods - self.late;
        // The lags of the two halves; those of a whole instruction are equal.
        let halves = body.iter().map(|instr| {
            if let Instr::Sample(_) | Instr::DrawEdges(_) = instr {
                return (0, 0);
            }
            if let Instr::AskRows(_) = instr {
                return (0, 1);
            }
            if let Instr::ShareLevels(_) = instr {
                return (0, self.periods);
            }
            if let Instr::ServeRows(serve) = instr {
                // Batches change the cache, so one batch takes its rows before the next one.
                if !is_weight(serve.from) && !serve.renews {
                    return (1, self.periods);
                }
                if self.late > 0 {
                    held.insert(serve.to.buffer);
                    return (takes, takes + 1);
                }
            }
            if let Instr::FetchRows(fetch) = instr
                && self.late > 0
                && is_weight(fetch.from)
                && !is_put(fetch.to)
            {
                held.insert(fetch.to.buffer);
                return (takes, takes);
            }
            (self.periods, self.periods)
        });
        let halves: Vec<(u32, u32)> = halves.collect();
        for (instr, (begin, finish)) in body.into_iter().zip(halves) {
            if begin == finish {
                lags.entry(begin).or_default().push(instr);
                continue;
            }
            *tag += 1;
            let transfer = Transfer {
                tag: *tag,
                what: Box::new(instr),
            };
            lags.entry(begin)
                .or_default()
                .push(Instr::Begin(transfer.clone()));
            lags.entry(finish)
                .or_default()
                .push(Instr::Finish(transfer));
        }
        let mut all = Vec::new();
        for (by, instrs) in lags {
            if by > 0 {
                all.push(Instr::Lag(Lag { by }));
            }
            all.extend(instrs);
        }
        (all, held)
    }
}

/// The largest tag of a program.
pub(super) fn last_tag_of(program: &Program) -> u32 {
    let of_phases = Phase::ALL
        .into_iter()
        .map(|phase| last_tag(program.list(phase)));
    of_phases.max().unwrap_or(Transfer::WHOLE)
}

/// The largest tag of a list.
fn last_tag(instrs: &[Instr]) -> u32 {
    let of = |instr: &Instr| {
        if let Instr::Begin(transfer) = instr {
            transfer.tag
        } else {
            last_tag(instr.body().unwrap_or_default())
        }
    };
    instrs.iter().map(of).max().unwrap_or(Transfer::WHOLE)
}
