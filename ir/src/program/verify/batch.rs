//! Checks of sampled batches: only their loop uses rows of levels, and it draws them first.

use super::ProgramError;
use crate::program::access::accesses;
use crate::program::instr::{self, DrawEdges};
use crate::program::trace::Phase;
use crate::program::{BufferId, Extent, Instr, Program, Ref, Role};
use crate::words::sampling::{MAX_HOPS, Sampling};
use crate::words::types::{Level, Of};
use std::collections::{BTreeMap, BTreeSet};

/// Checks where batches are drawn and their rows are used.
///
/// # Errors
/// The first instruction out of place, or a buffer of a level that there is not.
pub(super) fn verify(program: &Program) -> Result<(), ProgramError> {
    levels(program).map_err(ProgramError::new)?;
    for phase in Phase::ALL {
        let mut loops = 0;
        for (index, instr) in program.list(phase).iter().enumerate() {
            let place = format!("{phase} {index}");
            let at = |what: String| ProgramError::new(what).at(&place, instr, program);
            let Instr::Batches(instr::Batches { body }) = instr else {
                kept(instr, phase, program).map_err(at)?;
                outside(instr, program).map_err(at)?;
                continue;
            };
            let Some(sampling) = program.batches_of(phase) else {
                let expected = "expected in a list whose batches the program describes";
                return Err(at(format!("batches in {phase}, {expected}")));
            };
            loops += 1;
            if loops > 1 {
                return Err(at("a second loop over batches".to_owned()));
            }
            if !matches!(body.first(), Some(Instr::Sample(_))) {
                return Err(at("batches that do not begin with a sample".to_owned()));
            }
            drawn_apart(body, sampling, program).map_err(|(index, what)| {
                let place = format!("{place}.{index}");
                ProgramError::new(what).at(&place, &body[index], program)
            })?;
            lags(body, program).map_err(|(index, what)| {
                let place = format!("{place}.{index}");
                ProgramError::new(what).at(&place, &body[index], program)
            })?;
            let asks = |instr: &&Instr| {
                let finishes = matches!(instr, Instr::Finish(_));
                !finishes && matches!(instr.whole(), Instr::AskRows(_))
            };
            if body.iter().filter(asks).count() > 1 {
                return Err(at("two questions, expected one for all rows".to_owned()));
            }
            let shares = |instr: &&Instr| {
                let finishes = matches!(instr, Instr::Finish(_));
                !finishes && matches!(instr.whole(), Instr::ShareLevels(_))
            };
            if body.iter().filter(shares).count() > 1 {
                return Err(at("levels are shared twice, expected once".to_owned()));
            }
            let mut known = Known {
                hops: sampling.hops(),
                evaluates: phase == Phase::Eval,
                in_sets: sampling.merges.is_some(),
                ..Known::default()
            };
            for (index, instr) in body.iter().enumerate().skip(1) {
                let place = format!("{place}.{index}");
                let at = |what: String| ProgramError::new(what).at(&place, instr, program);
                let Instr::Sets(instr::Sets { body }) = instr else {
                    inside(instr, &mut known, program).map_err(at)?;
                    continue;
                };
                sets(&mut known, program).map_err(at)?;
                for (index, instr) in body.iter().enumerate() {
                    of_set(instr, &mut known, program).map_err(|what| {
                        let place = format!("{place}.{index}");
                        ProgramError::new(what).at(&place, instr, program)
                    })?;
                }
                known.of_set = false;
            }
        }
    }
    Ok(())
}

/// Checks that edges that other ranks hold are drawn behind the sample, hop by hop, before anything else.
fn drawn_apart(
    body: &[Instr],
    sampling: &Sampling,
    program: &Program,
) -> Result<(), (usize, String)> {
    if sampling.draws_apart() && program.ranks <= 1 {
        return Err((0, "edges of other ranks on one rank".to_owned()));
    }
    let mut expected = sampling.asks_into();
    for (index, instr) in body.iter().enumerate().skip(1) {
        let next = expected
            .next()
            .map(|level| Instr::DrawEdges(DrawEdges { level }));
        let draws = matches!(instr.whole(), Instr::DrawEdges(_));
        if next.as_ref() != Some(instr) && (draws || next.is_some()) {
            let expected = next.map_or("nothing more to draw".to_owned(), |next| {
                next.print(program)
            });
            let found = instr.name(program);
            return Err((
                index,
                format!("{found} in place of the next hop, expected {expected}"),
            ));
        }
    }
    match expected.next() {
        None => Ok(()),
        Some(level) => Err((0, format!("edges into level {level} are not drawn"))),
    }
}

/// How the instructions of a batch use a buffer.
struct Used {
    /// The lags of its uses.
    lags: BTreeSet<u32>,
    /// Whether it is written.
    written: bool,
    /// Whether every use is of the slot of the batch at hand, the first one a write.
    by_batch: bool,
    /// The first slot.
    base: Option<Ref>,
    /// The instruction that used it with a second lag.
    second: Option<usize>,
}

/// Checks that lags ascend, and that no batch overwrites what an earlier one still needs: a buffer that
/// is used with several lags has a slot for each batch in between. Weights may be read with one lag
/// besides that with which they are written.
fn lags(body: &[Instr], program: &Program) -> Result<(), (usize, String)> {
    let mut used: BTreeMap<BufferId, Used> = BTreeMap::new();
    let mut lag = 0;
    for (index, instr) in body.iter().enumerate() {
        if let Instr::Lag(next) = instr {
            if next.by <= lag {
                let what = format!(
                    "a lag of {} after one of {lag}, expected a larger one",
                    next.by
                );
                return Err((index, what));
            }
            lag = next.by;
        }
        for access in accesses(instr, program) {
            let of_batch = access.slot.filter(|at| at.in_loop);
            let one = used.entry(access.buffer).or_insert_with(|| Used {
                lags: BTreeSet::new(),
                written: false,
                by_batch: access.writes,
                base: of_batch,
                second: None,
            });
            one.by_batch &= of_batch.is_some() && of_batch == one.base;
            one.written |= access.writes;
            if one.lags.insert(lag) && one.lags.len() > 1 {
                one.second.get_or_insert(index);
            }
        }
    }
    for (id, one) in used {
        let buffer = program.buffer(id);
        let (Some(first), Some(last)) = (one.lags.first(), one.lags.last()) else {
            continue;
        };
        let needed = last - first + 1;
        let kept = match buffer.role {
            Role::Param(_) => one.lags.len() <= 2,
            _ => one.by_batch && buffer.slots >= needed,
        };
        if one.written && needed > 1 && !kept {
            let what = format!(
                "`{}` is used with lags from {first} to {last}; batches under way would share it: expected \
                 {needed} slots, one for each batch, written first",
                buffer.name
            );
            return Err((one.second.unwrap_or(0), what));
        }
    }
    Ok(())
}

/// Checks the hops, and that buffers have rows of levels between them.
fn levels(program: &Program) -> Result<(), String> {
    for sampling in Phase::ALL.iter().filter_map(|p| program.batches_of(*p)) {
        let hops = sampling.fanouts.len();
        if sampling.batch == 0 || !(1..=MAX_HOPS).contains(&hops) {
            return Err(format!(
                "batches of {} seeds with {hops} hops, expected some seeds and 1 to {MAX_HOPS} hops",
                sampling.batch
            ));
        }
    }
    let hops = usize::from(program.hops());
    for buffer in program
        .buffers
        .iter()
        .filter(|buffer| buffer.extent.of_batch())
    {
        let known = match buffer.extent {
            Extent::Level(level) => usize::from(level.number) <= hops && hops > 0,
            Extent::LevelEdges(layer, _) => (1..=hops).contains(&usize::from(layer.number)),
            Extent::Fixed(_) | Extent::Inner | Extent::Local | Extent::Halo => false,
            Extent::All | Extent::AllLocal => false,
            Extent::Edges(_) | Extent::AllEdges(_) | Extent::FeatureNonzeros => false,
            Extent::SliceNonzeros | Extent::Run(..) | Extent::EdgeRun(..) => false,
        };
        if !known || buffer.role != Role::Temp {
            return Err(format!(
                "`{}` has {} rows and is {}, expected a temporary buffer of one of {hops} levels",
                buffer.name, buffer.extent, buffer.role
            ));
        }
    }
    Ok(())
}

/// Checks that rows of other ranks are kept where they can be.
fn kept(instr: &Instr, phase: Phase, program: &Program) -> Result<(), String> {
    if !matches!(instr.whole(), Instr::CacheRows(_)) {
        return Ok(());
    }
    let cache = program.sampling.as_ref().and_then(|one| one.cache);
    let whole = matches!(instr, Instr::CacheRows(_));
    match cache.is_some() && whole && phase == Phase::Setup && program.ranks > 1 {
        true => Ok(()),
        false => Err(format!(
            "{} in {phase}, expected in setup, of several ranks whose batches have a cache",
            instr.name(program)
        )),
    }
}

/// Checks that an instruction outside of batches uses no rows of levels.
fn outside(instr: &Instr, program: &Program) -> Result<(), String> {
    let mut level = matches!(
        instr.whole(),
        Instr::Sample(_)
            | Instr::Numbers(_)
            | Instr::Lag(_)
            | Instr::FetchRows(_)
            | Instr::AddRows(_)
            | Instr::DrawEdges(_)
            | Instr::AskRows(_)
            | Instr::ServeRows(_)
            | Instr::PushRows(_)
            | Instr::PutRows(_)
            | Instr::ShareLevels(_)
            | Instr::Batches(_)
            | Instr::Sets(_)
            | Instr::Shift(_)
    );
    level |= instr.launch().is_some_and(|launch| launch.rows.of_batch());
    instr.each_access(&mut |at, _| {
        let buffer = program.buffers.get(at.buffer.0 as usize);
        level |= buffer.is_some_and(|buffer| buffer.extent.of_batch());
    });
    if level {
        return Err("rows of a batch outside of batches".to_owned());
    }
    let body = instr.body().unwrap_or_default();
    body.iter().try_for_each(|instr| outside(instr, program))
}

/// What a rank knows of the batch at hand.
#[derive(Default)]
struct Known {
    /// Its hops.
    hops: u8,
    /// Whether it is one of an evaluation, for which ranks know the splits of its seeds.
    evaluates: bool,
    /// Whether its seeds are in sets.
    in_sets: bool,
    /// Whether one of the sets is at hand.
    of_set: bool,
    /// The level of the last question whose answers may be sent.
    asked: Option<Level>,
    /// The level from which outwards a rank has the levels of all ranks.
    shared: Option<u8>,
}

/// Checks that a loop over sets may be here.
fn sets(known: &mut Known, program: &Program) -> Result<(), String> {
    if program.ranks <= 1 || !known.in_sets {
        return Err("sets of a batch whose seeds are not in sets".to_owned());
    }
    known.of_set = true;
    Ok(())
}

/// Checks an instruction of a set: all ranks get here at once, and nothing but a shift moves between them.
fn of_set(instr: &Instr, known: &mut Known, program: &Program) -> Result<(), String> {
    if let Instr::Shift(_) = instr {
        return Ok(());
    }
    let halves = matches!(instr, Instr::Begin(_) | Instr::Finish(_) | Instr::Lag(_));
    let moves = matches!(
        instr,
        Instr::AskRows(_) | Instr::ServeRows(_) | Instr::PushRows(_) | Instr::ShareLevels(_)
    );
    if halves || moves || instr.communicates() {
        return Err(format!(
            "{} inside of sets, expected work of one rank, or a shift",
            instr.name(program)
        ));
    }
    inside(instr, known, program)
}

/// Checks an instruction of a batch after its sample. Rows that other ranks own must have been asked
/// for, and levels of all ranks shared.
fn inside(instr: &Instr, known: &mut Known, program: &Program) -> Result<(), String> {
    let name = instr.name(program);
    if instr.body().is_some() || matches!(instr, Instr::Sample(_)) {
        return Err(format!("{name} inside of batches"));
    }
    if let Instr::Shift(_) = instr {
        return Err(format!("{name} outside of sets"));
    }
    if let Instr::CacheRows(_) = instr {
        return Err(format!("{name} inside of batches, expected before them"));
    }
    let rows = instr.launch().map(|launch| launch.rows);
    if matches!(rows, Some(Extent::LevelEdges(..))) {
        return Err(format!("{name} over edges, expected over a level"));
    }
    if let Instr::FetchRows(fetch) = instr {
        let from = program.buffer(fetch.from.buffer).extent;
        let of_sets = from.level().is_some_and(|level| level.of == Of::Sets);
        let is_own = matches!(from, Extent::Inner | Extent::Local);
        let to = program.buffer(fetch.to.buffer).extent.level();
        let owned = to.is_some_and(|level| level.of == Of::Owned);
        if program.ranks > 1 && is_own && !of_sets && !owned {
            return Err(format!(
                "{name} of {from} rows on several ranks, expected serve-rows"
            ));
        }
    }
    let of_several = matches!(
        instr.whole(),
        Instr::AskRows(_) | Instr::ServeRows(_) | Instr::PushRows(_) | Instr::ShareLevels(_)
    );
    if of_several && program.ranks <= 1 {
        return Err(format!("{name} on one rank, which has all rows"));
    }
    let mut most = rows
        .and_then(Extent::level)
        .filter(|level| level.of == Of::All);
    let mut highest = rows.and_then(Extent::level).map(|level| level.number);
    let mut own = rows.is_some_and(Extent::of_one_set);
    instr.each_access(&mut |at, _| {
        let buffer = program.buffers.get(at.buffer.0 as usize);
        most = most.max(buffer.and_then(|buffer| buffer.extent.of_all_ranks()));
        let level = buffer.and_then(|buffer| buffer.extent.level());
        highest = highest.max(level.map(|level| level.number));
        own |= buffer.is_some_and(|buffer| buffer.extent.of_one_set());
    });
    if own && known.in_sets && !known.of_set {
        return Err(format!("{name} uses rows of a set outside of sets"));
    }
    if highest > Some(known.hops) {
        return Err(format!(
            "{name} uses level {} of batches with {} hops",
            highest.unwrap_or(0),
            known.hops
        ));
    }
    if let Instr::Metrics(metrics) = instr {
        if !known.evaluates {
            return Err(format!("{name} in batches that are trained on"));
        }
        let extent = program.buffer(metrics.logits.buffer).extent;
        if extent != Extent::Level(Level::own(known.hops)) {
            return Err(format!(
                "{name} of {extent} rows, expected the seeds, level {}",
                known.hops
            ));
        }
    }
    if let Some(level) = most
        && known.shared < Some(level.number)
    {
        return Err(format!(
            "{name} uses level {} of all ranks, which is not shared by then",
            level.number
        ));
    }
    if let Instr::ShareLevels(share) = instr.whole() {
        let begins = matches!(instr, Instr::Begin(_));
        known.shared = Some(share.level).filter(|_| !begins);
    }
    if let Instr::AskRows(ask) = instr.whole() {
        let begins = matches!(instr, Instr::Begin(_));
        known.asked = Some(ask.level).filter(|_| !begins);
    }
    if let Instr::ServeRows(serve) = instr.whole() {
        let level = program.buffer(serve.to.buffer).extent.level();
        if level.is_none() || level != known.asked {
            let to = program.buffer(serve.to.buffer).extent;
            return Err(format!("{name} to {to} rows, which were not asked for"));
        }
    }
    let mut unknown = None;
    instr.each_access(&mut |at, _| {
        let extent = program.buffers.get(at.buffer.0 as usize);
        let level = extent.and_then(|buffer| buffer.extent.level());
        let owned = level.filter(|level| level.of == Of::Owned);
        unknown = unknown.or(owned.filter(|level| Some(Level::own(level.number)) != known.asked));
    });
    if let Some(level) = unknown {
        return Err(format!(
            "{name} uses own rows of level {} of all ranks, which were not asked for",
            level.number
        ));
    }
    Ok(())
}
