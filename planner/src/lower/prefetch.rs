//! Fetches rows of batches ahead of time.
//!
//! A rank draws a batch and asks the owners of its rows some periods before it trains on it. So the
//! questions and the rows are in flight while earlier batches are trained on, and a rank waits for
//! none of them as long as ranks keep pace. Neither draws nor features depend on parameters: no number
//! changes. Rows of parameters are taken after the step before.
//!
//! | lag | a batch |
//! | --- | --- |
//! | 0 | is drawn, and asks for rows, or shares its levels |
//! | 1 | answers what others ask |
//! | `ahead` | takes its rows, or the levels of others, and is trained on |

use gnnc_ir::program::instr::{self, Batches, Lag, MOST_LAG};
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Instr, Program, Ref, Role, Transfer};

/// The program with batches of some lists that are drawn `ahead` periods before they are used; by
/// default as many as they wait for messages.
pub fn prefetch(mut program: Program, phases_of: &[Phase], ahead: Option<u32>) -> Program {
    let mut tag = last_tag_of(&program);
    for phase in phases_of.iter().copied() {
        let waits = match (program.asks(phase), program.shares(phase)) {
            (Some(_), _) => 2,
            (None, Some(_)) => 1,
            (None, None) => 0,
        };
        let ahead = ahead.unwrap_or(waits).min(MOST_LAG);
        if ahead == 0 || waits == 0 {
            continue;
        }
        for (list, index) in program.batch_loops() {
            let Instr::Batches(instr::Batches { body }) = &program.list(phase)[index] else {
                continue;
            };
            if list != phase {
                continue;
            }
            let trains = phase == Phase::Step;
            let is_weight =
                |at: Ref| trains && matches!(program.buffer(at.buffer).role, Role::Param(_));
            let body = phases(body.clone(), ahead, &is_weight, &mut tag);
            program.list_mut(phase)[index] = Instr::Batches(instr::Batches { body });
        }
    }
    program
}

/// Rows for which `is_weight` are taken when earlier batches have been trained on.
fn phases(
    body: Vec<Instr>,
    ahead: u32,
    is_weight: &dyn Fn(Ref) -> bool,
    tag: &mut u32,
) -> Vec<Instr> {
    let (mut drawn, mut answered, mut trained) = (Vec::new(), Vec::new(), Vec::new());
    let mut transfer = |instr: &Instr| {
        *tag += 1;
        Transfer {
            tag: *tag,
            what: Box::new(instr.clone()),
        }
    };
    for instr in body {
        if let Instr::Sample(_) | Instr::DrawEdges(_) = instr {
            drawn.push(instr);
        } else if let Instr::AskRows(_) = instr {
            let asks = transfer(&instr);
            drawn.push(Instr::Begin(asks.clone()));
            answered.insert(0, Instr::Finish(asks));
        } else if let Instr::ShareLevels(_) = instr {
            let levels = transfer(&instr);
            drawn.push(Instr::Begin(levels.clone()));
            trained.push(Instr::Finish(levels));
        } else if let Instr::ServeRows(serve) = &instr
            && ahead > 1
            && !is_weight(serve.from)
        {
            let rows = transfer(&instr);
            answered.push(Instr::Begin(rows.clone()));
            trained.push(Instr::Finish(rows));
        } else {
            trained.push(instr);
        }
    }
    let mut all = drawn;
    if !answered.is_empty() {
        all.push(Instr::Lag(Lag { by: 1 }));
        all.append(&mut answered);
    }
    if ahead > Batches::lag(&all) {
        all.push(Instr::Lag(Lag { by: ahead }));
    }
    all.append(&mut trained);
    all
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
