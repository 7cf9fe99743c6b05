//! Stacks that loops process slot by slot: the whole stack on the host, a few slots on the device.
//!
//! Within a loop, a few consecutive iterations use a slot, so slots can take turns in a small ring:
//! `base + iteration` modulo its length, as everywhere. A slot that is read first in its turn is
//! fetched; a slot that was written is stored.

use super::uses::{halo, of, reads_first, touches};
use super::{Style, add, copy, slot, twin};
use gnnc_ir::program::access::Access;
use gnnc_ir::program::instr;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Buffer, BufferId, Extent, Instr, Program, Ref, Transfer};
use std::collections::BTreeMap;

/// Stacks with fewer slots are left alone.
pub(super) const FEWEST: u32 = 5;

/// A stack that can be kept on the host, with the loops that use it.
pub(super) struct Ring {
    phase: Phase,
    id: BufferId,
    loops: Vec<Turns>,
    /// Rows that are stored.
    stored: Extent,
}

/// How a loop uses the slots.
struct Turns {
    /// Its index in the list.
    place: usize,
    count: i64,
    reverse: bool,
    /// The slots used at once, relative to the iteration.
    window: [i64; 2],
    /// Slots in the ring.
    slots: i64,
    /// Rows that are used.
    extent: Extent,
    /// The slot, relative to the iteration, to fetch when its turn begins.
    fetched: Option<i64>,
    /// Slots that must be present before the first iteration.
    before: Vec<i64>,
    stored: Option<Stored>,
    ahead: bool,
}

/// The slot a loop stores.
struct Stored {
    /// The slot, relative to the iteration, that is complete after an instruction of the body.
    at: i64,
    after: usize,
    /// Whether it is stored during the next iteration.
    delayed: bool,
}

/// One use in a loop body.
struct Use {
    /// The slot, relative to the iteration.
    at: i64,
    place: usize,
    access: Access,
}

impl Ring {
    /// How to keep a stack on the host; `None` if some use of it is not supported.
    pub(super) fn of(program: &Program, phase: Phase, id: BufferId, style: Style) -> Option<Self> {
        let buffer = program.buffer(id);
        if buffer.slots < FEWEST {
            return None;
        }
        let elsewhere = Phase::ALL.into_iter().filter(|other| *other != phase);
        let used = |phase: Phase| program.list(phase).iter().any(|i| touches(i, id));
        if elsewhere.into_iter().any(used) {
            return None;
        }
        let list = program.list(phase);
        let mut bodies = Vec::new();
        for (place, instr) in list.iter().enumerate().filter(|(_, i)| touches(i, id)) {
            if let Instr::Repeat(instr::Repeat { body, .. }) = instr {
                bodies.push((place, body_uses(body, program, id)?));
                continue;
            }
            let whole = matches!(instr, Instr::AllReduce(_) | Instr::Chunks(_));
            let mut outside = of(instr, program, id).into_iter();
            if whole || !outside.all(|access| access.slot.is_some_and(|at| !at.in_loop)) {
                return None;
            }
        }
        let by_rows = buffer.extent == Extent::Local;
        let with_halo = by_rows && needs_halo(list, program, id, &bodies);
        let stored = match by_rows && !with_halo {
            true => Extent::Inner,
            false => buffer.extent,
        };
        let mut loops = Vec::new();
        for (place, uses) in &bodies {
            let Instr::Repeat(instr::Repeat { count, reverse, .. }) = &list[*place] else {
                return None;
            };
            let shape = (*place, i64::from(*count), *reverse);
            loops.push(Turns::of(shape, uses, buffer, stored, style)?);
        }
        let ring = Self {
            phase,
            id,
            loops,
            stored,
        };
        (!ring.loops.is_empty() && ring.slots() < buffer.slots).then_some(ring)
    }

    /// Most slots in any ring.
    pub(super) fn slots(&self) -> u32 {
        let slots = self.loops.iter().map(|turns| turns.slots as u32);
        slots.max().unwrap_or(0)
    }

    /// Keeps the stack on the host.
    pub(super) fn apply(&self, program: &mut Program) {
        let old = program.buffer(self.id).clone();
        let host = add(program, twin(&old, self.stored), true);
        let mut tag = last_tag(program);
        let mut list = std::mem::take(program.list_mut(self.phase));
        let mut around = Around::new(list.len());
        let mut rings = Vec::new();
        for turns in &self.loops {
            let ring = Buffer {
                slots: turns.slots as u32,
                extent: turns.extent,
                ..old.clone()
            };
            let ring = add(program, ring, false);
            turns.rewrite(&mut list, (self.id, host, ring), old.slots, &mut tag);
            rings.push(ring);
        }
        self.outside(program, &mut list, (host, &old, &rings), &mut around);
        for (turns, ring) in self.loops.iter().zip(&rings) {
            let first = turns.first();
            for at in &turns.before {
                let (here, there) = (
                    turns.slot(*ring, first + at),
                    slot(host, modulo(first + at, old.slots)),
                );
                if !around.here.contains(&(*ring, here.base)) {
                    around.before[turns.place].push(copy(there, here));
                }
            }
            if let Some(stored) = turns.stored.as_ref().filter(|stored| stored.delayed) {
                let last = turns.last() + stored.at;
                around.after[turns.place].insert(
                    0,
                    copy(turns.slot(*ring, last), slot(host, modulo(last, old.slots))),
                );
            }
        }
        *program.list_mut(self.phase) = around.into_list(list);
    }

    /// Rewrites uses of slots outside of loops: to a slot of an adjacent loop's ring, or to a copy.
    fn outside(
        &self,
        program: &mut Program,
        list: &mut [Instr],
        (host, old, rings): (BufferId, &Buffer, &[BufferId]),
        around: &mut Around,
    ) {
        let mut begin = 0;
        for region in 0..=self.loops.len() {
            let end = self.loops.get(region).map_or(list.len(), |t| t.place);
            let mut slots: BTreeMap<u32, Vec<(usize, Access)>> = BTreeMap::new();
            for (place, instr) in list.iter().enumerate().take(end).skip(begin) {
                for access in of(instr, program, self.id) {
                    let base = access.slot.map_or(0, |at| at.base % old.slots);
                    slots.entry(base).or_default().push((place, access));
                }
            }
            for (base, uses) in slots {
                let accesses = || uses.iter().map(|(_, access)| access);
                let reads = reads_first(accesses(), false);
                let mut writes = uses.iter().filter(|(_, access)| access.writes);
                let next = self.loops.get(region).zip(rings.get(region));
                let next = next.filter(|_| !reads);
                let before = region.checked_sub(1).map(|n| (&self.loops[n], &rings[n]));
                let entered = next.and_then(|(turns, ring)| {
                    let mut entry = turns.before.iter().map(|at| turns.first() + at);
                    let at = entry.find(|at| modulo(*at, old.slots) == base)?;
                    Some((turns.slot(*ring, at), true))
                });
                let left = || {
                    let (turns, ring) = before?;
                    let last = turns.last() + turns.stored.as_ref()?.at;
                    let same = modulo(last, old.slots) == base;
                    same.then(|| (turns.slot(*ring, last), false))
                };
                let (here, entered) = match entered.or_else(left) {
                    Some(found) => found,
                    None => {
                        let with_halo = accesses().any(|access| halo(access.rows));
                        let own = Buffer {
                            slots: 1,
                            extent: narrow(old.extent, with_halo),
                            ..old.clone()
                        };
                        let own = slot(add(program, own, false), 0);
                        if let (true, Some((first, _))) = (reads, uses.first()) {
                            around.before[*first].push(copy(slot(host, base), own));
                        }
                        (own, false)
                    }
                };
                if entered {
                    around.here.push((here.buffer, here.base));
                }
                if let Some((last, _)) = writes.next_back() {
                    around.after[*last].push(copy(here, slot(host, base)));
                }
                for (place, _) in &uses {
                    list[*place].each_ref(&mut |at| {
                        if at.buffer == self.id && at.base % old.slots == base {
                            *at = here;
                        }
                    });
                }
            }
            begin = end + 1;
        }
    }
}

/// Instructions to insert into a list.
struct Around {
    before: Vec<Vec<Instr>>,
    after: Vec<Vec<Instr>>,
    /// Ring slots written before the loop that needs them.
    here: Vec<(BufferId, u32)>,
}

impl Around {
    fn new(places: usize) -> Self {
        Self {
            before: vec![Vec::new(); places],
            after: vec![Vec::new(); places],
            here: Vec::new(),
        }
    }

    fn into_list(self, list: Vec<Instr>) -> Vec<Instr> {
        let mut all = Vec::with_capacity(list.len());
        for ((instr, before), after) in list.into_iter().zip(self.before).zip(self.after) {
            all.extend(before);
            all.push(instr);
            all.extend(after);
        }
        all
    }
}

impl Turns {
    fn of(
        (place, count, reverse): (usize, i64, bool),
        uses: &[Use],
        buffer: &Buffer,
        stored: Extent,
        style: Style,
    ) -> Option<Self> {
        let ends = || uses.iter().map(|one| one.at);
        let (low, high) = (ends().min()?, ends().max()?);
        let total = i64::from(buffer.slots);
        // The whole stack at once, or slots that wrap around: no gain, or not supported.
        if high - low + 3 > total || count + high - low > total || low < 0 {
            return None;
        }
        // A slot's turn goes from one end of the window to the other.
        let step = if reverse { -1 } else { 1 };
        let entry = if reverse { low } else { high };
        let from = |at: i64| {
            let mut later: Vec<&Use> = uses.iter().filter(|u| (u.at - at) * step <= 0).collect();
            later.sort_by_key(|u| (-u.at * step, u.place));
            later
        };
        let reads = |at: i64| reads_first(from(at).into_iter().map(|u| &u.access), false);
        let fetched = reads(entry).then_some(entry);
        let ahead = style == Style::Roomy && fetched.is_some();
        let inside = (low..=high).filter(|at| *at != entry && reads(*at));
        let mut before: Vec<i64> = inside.chain(fetched.filter(|_| ahead)).collect();
        before.sort_unstable();
        let narrowed = buffer.extent == Extent::Local && stored == Extent::Inner;
        let whole = |u: &&Use| {
            let halo_alone = u.access.rows == gnnc_ir::program::access::Touched::Halo;
            u.access.writes && !(narrowed && halo_alone)
        };
        let last = uses
            .iter()
            .filter(whole)
            .max_by_key(|u| (-u.at * step, u.place));
        let mut window = [low, high];
        let stored = last.map(|last| {
            let next = last.at - step;
            let valid = before.contains(&next);
            // What the first iteration stores too early is stored again after the last.
            let rewritten = style == Style::Roomy && count == total && fetched.is_none();
            if !valid && rewritten {
                window = [window[0].min(next), window[1].max(next)];
            }
            Stored {
                at: last.at,
                after: last.place,
                delayed: valid || rewritten,
            }
        });
        Some(Self {
            place,
            count,
            reverse,
            window,
            slots: window[1] - window[0] + 1 + i64::from(ahead),
            extent: narrow(buffer.extent, uses.iter().any(|u| halo(u.access.rows))),
            fetched,
            before,
            stored,
            ahead,
        })
    }

    fn step(&self) -> i64 {
        if self.reverse { -1 } else { 1 }
    }

    fn first(&self) -> i64 {
        if self.reverse { self.count - 1 } else { 0 }
    }

    fn last(&self) -> i64 {
        if self.reverse { 0 } else { self.count - 1 }
    }

    /// A slot's position in the ring, outside of the loop.
    fn slot(&self, ring: BufferId, at: i64) -> Ref {
        slot(ring, modulo(at - self.window[0], self.slots as u32))
    }

    /// A slot's position in the ring, relative to the iteration.
    fn turn(&self, ring: BufferId, at: i64) -> Ref {
        Ref {
            in_loop: true,
            ..self.slot(ring, at)
        }
    }

    /// Rewrites the loop to use the ring.
    fn rewrite(
        &self,
        list: &mut [Instr],
        (old, host, ring): (BufferId, BufferId, BufferId),
        total: u32,
        tag: &mut u32,
    ) {
        let Some(Instr::Repeat(instr::Repeat { body, .. })) = list.get_mut(self.place) else {
            return;
        };
        for instr in body.iter_mut() {
            instr.each_ref(&mut |at| {
                if at.buffer == old {
                    *at = self.turn(ring, i64::from(at.base % total));
                }
            });
        }
        let there = |at: i64| Ref {
            buffer: host,
            base: modulo(at, total),
            in_loop: true,
        };
        let fetch = |at: i64| copy(there(at), self.turn(ring, at));
        let store = |at: i64| copy(self.turn(ring, at), there(at));
        let mut halves = |what: Instr| {
            *tag += 1;
            let what = Box::new(what);
            let transfer = Transfer { tag: *tag, what };
            (Instr::Begin(transfer.clone()), Instr::Finish(transfer))
        };
        let (mut begins, mut ends) = (Vec::new(), Vec::new());
        if let Some(stored) = &self.stored {
            let (begin, end) = match stored.delayed {
                true => halves(store(stored.at - self.step())),
                false => halves(store(stored.at)),
            };
            ends.push(end);
            match stored.delayed {
                true => begins.push(begin),
                false => body.insert(stored.after + 1, begin),
            }
        }
        match self.fetched {
            Some(at) if self.ahead => {
                let (begin, end) = halves(fetch(at + self.step()));
                begins.push(begin);
                ends.push(end);
            }
            Some(at) => {
                // Nothing else of these slots is used before.
                begins.push(fetch(at));
            }
            None => {}
        }
        body.splice(0..0, begins);
        body.extend(ends);
    }
}

/// The uses of a stack in a body, each of one slot per iteration; `None` if there are other uses.
fn body_uses(body: &[Instr], program: &Program, id: BufferId) -> Option<Vec<Use>> {
    let mut found = Vec::new();
    for (place, instr) in body.iter().enumerate().filter(|(_, i)| touches(i, id)) {
        if matches!(instr, Instr::Repeat(_) | Instr::AllReduce(_)) {
            return None;
        }
        for access in of(instr, program, id) {
            let at = access.slot.filter(|at| at.in_loop)?;
            found.push(Use {
                at: i64::from(at.base % program.buffer(id).slots),
                place,
                access,
            });
        }
    }
    Some(found)
}

/// Whether something reads halo rows that were written elsewhere.
fn needs_halo(
    list: &[Instr],
    program: &Program,
    id: BufferId,
    bodies: &[(usize, Vec<Use>)],
) -> bool {
    let inside = bodies.iter().any(|(place, uses)| {
        let reverse = matches!(
            &list[*place],
            Instr::Repeat(instr::Repeat { reverse: true, .. })
        );
        let step: i64 = if reverse { -1 } else { 1 };
        let mut uses: Vec<&Use> = uses.iter().collect();
        uses.sort_by_key(|u| (-u.at * step, u.place));
        reads_first(uses.into_iter().map(|u| &u.access), true)
    });
    let outside = list.iter().filter(|i| !matches!(i, Instr::Repeat(_)));
    let mut slots: BTreeMap<u32, Vec<Access>> = BTreeMap::new();
    for access in outside.flat_map(|instr| of(instr, program, id)) {
        let base = access.slot.map_or(0, |at| at.base);
        slots.entry(base).or_default().push(access);
    }
    inside || slots.values().any(|uses| reads_first(uses.iter(), true))
}

pub(super) fn narrow(extent: Extent, with_halo: bool) -> Extent {
    if with_halo {
        extent
    } else {
        extent.without_halo()
    }
}

fn modulo(at: i64, of: u32) -> u32 {
    at.rem_euclid(i64::from(of.max(1))) as u32
}

/// The largest tag of a program.
pub(super) fn last_tag(program: &Program) -> u32 {
    fn most(list: &[Instr]) -> u32 {
        let one = |instr: &Instr| {
            if let Instr::Begin(transfer) = instr {
                return transfer.tag;
            }
            instr.body().map_or(0, most)
        };
        list.iter().map(one).max().unwrap_or(Transfer::WHOLE)
    }
    let all = Phase::ALL.into_iter();
    all.map(|phase| most(program.list(phase)))
        .max()
        .unwrap_or(0)
}
