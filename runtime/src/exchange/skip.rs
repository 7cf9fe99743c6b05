//! Exchanges in which a rank may leave out its block of rows as long as the others' copies are
//! fresh enough.
//!
//! Every rank knows when each block was last sent, so rules by age tell it who sends now. If values
//! decide, a rank first tells the others in one float: the distance of the omitted rows from those
//! it last sent, or [`SENT`].
//! last, or [`SENT`].

use super::{Exchanged, add_own, pack, send_halo};
use crate::arena::Span;
use crate::fault::Fault;
use crate::part::Part;
use crate::part::rows::Sent;
use crate::staleness::LayerStaleness;
use crate::team::Team;
use crate::transport::{TransportError, Wire};
use gnnc_ir::program::traffic::for_each_skip;
use gnnc_ir::program::{Program, Rule, relative_distance};
use gnnc_ir::words::storage::Storage;
use std::ops::Range;

/// Sent instead of a distance by a rank that sends its block.
pub(crate) const SENT: f32 = -1.0;

/// When the blocks of a program's exchanges were sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Clocks {
    /// The epoch that began without copies.
    pub(crate) began: u64,
    /// By the number of the copies' history, then by slot.
    pub(crate) of: Vec<Vec<Clock>>,
}

/// When the blocks of one exchange were last sent, in one iteration of a loop.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Clock {
    /// For each rank, the epoch of the newest copy of its block; `None` if there is no copy.
    pub(crate) sent: Vec<Option<u64>>,
    /// Whether the own block is sent in the current epoch.
    pub(crate) active: bool,
    /// Its distance from the rows sent last, if the rule compares values.
    pub(crate) gap: Option<f32>,
}

impl Clocks {
    /// The clocks of a program that has not run yet, with the name of each exchanged tensor.
    pub(crate) fn new(program: &Program) -> (Self, Vec<LayerStaleness>) {
        let (mut of, mut layers) = (Vec::new(), Vec::new());
        for_each_skip(&program.step, &mut |buffer, skip, count| {
            let Some(number) = program.history(skip) else {
                return;
            };
            let clock = Clock {
                sent: vec![None; program.ranks as usize],
                active: false,
                gap: None,
            };
            if of.len() <= number {
                of.resize(number + 1, Vec::new());
                layers.resize(number + 1, LayerStaleness::default());
            }
            of[number] = vec![clock; count as usize];
            layers[number]
                .name
                .clone_from(&program.buffer(buffer.buffer).name);
        });
        (Self { began: 0, of }, layers)
    }

    /// Drops all copies; epoch `began` begins without any.
    pub(crate) fn forget(&mut self, began: u64) {
        self.began = began;
        let clocks = self.of.iter_mut().flatten();
        clocks.for_each(|clock| clock.sent.fill(None));
    }
}

impl Clock {
    /// Whether a block was sent in an epoch.
    pub(crate) fn fresh(&self, block: u32, epoch: u64) -> bool {
        self.sent.get(block as usize).copied().flatten() == Some(epoch)
    }
}

/// When blocks are sent, as far as values do not matter.
#[derive(Clone, Copy)]
pub(crate) struct Timing {
    pub(crate) rule: Rule,
    pub(crate) epoch: u64,
    /// The epoch that began without copies.
    pub(crate) began: u64,
}

impl Timing {
    /// Whether a block's copies are so old that it must be sent again.
    pub(crate) fn too_old(&self, clock: &Clock, block: u32) -> bool {
        self.rule.too_old(
            self.epoch.saturating_sub(self.began),
            block,
            self.age(clock, block),
        )
    }

    /// Whether a rank sends its block. `gap` is the block's distance from the rows sent last, if
    /// values are compared.
    pub(crate) fn sends(&self, clock: &Clock, own: u32, gap: Option<f32>) -> bool {
        let close = gap.is_none_or(|gap| self.close(gap));
        !close || self.too_old(clock, own)
    }

    /// The relative distance of own rows from those sent last, from the squares of the rows' norm and
    /// of the difference. Infinite if nothing was sent before (`known` is false).
    ///
    /// # Errors
    /// If rows of the tensor `name` are not finite.
    pub(crate) fn gap(
        &self,
        name: &str,
        (norm, distance): (f64, f64),
        known: bool,
    ) -> Result<f32, Fault> {
        if !norm.is_finite() {
            return Err(Fault::NoNumbers(name.to_owned()));
        }
        Ok(match known {
            false => f32::INFINITY,
            true => relative_distance(distance, norm) as f32,
        })
    }

    /// Epochs since a block was last sent.
    pub(crate) fn age(&self, clock: &Clock, block: u32) -> Option<u64> {
        let sent = clock.sent.get(block as usize).copied().flatten();
        sent.map(|sent| self.epoch.saturating_sub(sent))
    }

    /// Whether copies at this distance may be read; false if it is NaN or the bound is 0.
    fn close(&self, gap: f32) -> bool {
        let limit = self.rule.limit().unwrap_or(0.0);
        limit > 0.0 && f64::from(gap) <= limit
    }

    /// Checks what the rule promises for a read of copies of `block` with this age and distance.
    ///
    /// # Errors
    /// If the rule is violated.
    pub(crate) fn fresh(
        &self,
        name: &str,
        block: u32,
        age: Option<u64>,
        gap: f32,
    ) -> Result<(), Fault> {
        let in_time = |age: u64| self.rule.oldest().is_none_or(|oldest| age <= oldest);
        let near = gap == SENT || self.rule.limit().is_none() || self.close(gap);
        match age {
            Some(age) if in_time(age) && near => Ok(()),
            _ => Err(Fault::Stale {
                tensor: name.to_owned(),
                block,
                age,
                rule: self.rule,
            }),
        }
    }
}

/// Returns gradients of exchanged rows to their owners.
pub(crate) struct Return<'a> {
    pub(crate) part: &'a Part,
    /// The clock of the exchange, in the same iteration.
    pub(crate) clock: &'a Clock,
    pub(crate) epoch: u64,
    /// Gradients of own rows, then of halo rows.
    pub(crate) rows: Exchanged,
    /// Gradients of rows that were left out, if they are needed.
    pub(crate) left: Option<Span>,
}

impl Return<'_> {
    /// Sends gradients to the owners whose rows were sent.
    ///
    /// # Safety
    /// Nothing else writes the rows meanwhile.
    pub(crate) unsafe fn begin(&self, wire: &mut Wire) -> Result<(), TransportError> {
        let sent = |block: u32| self.clock.fresh(block, self.epoch);
        // SAFETY: as the caller promised.
        unsafe { send_halo(wire, self.part, self.rows, &sent) }
    }

    /// Adds the returned gradients if the own rows were sent, and keeps those of rows that were
    /// left out.
    ///
    /// # Safety
    /// Nothing else uses the rows meanwhile.
    pub(crate) unsafe fn finish(&self, team: &Team, wire: &mut Wire) -> Result<(), TransportError> {
        if let Some(left) = self.left {
            // SAFETY: nothing else uses the rows.
            unsafe { self.keep(left) };
        }
        match self.clock.active {
            // SAFETY: as the caller promised.
            true => unsafe { add_own(team, wire, self.part, self.rows) },
            false => Ok(()),
        }
    }

    /// # Safety
    /// Nothing else uses the rows meanwhile.
    unsafe fn keep(&self, left: Span) {
        // SAFETY: nothing else uses the rows.
        unsafe { left.write() }.fill(0.0);
        for (block, rows) in self.part.halo(None, 0) {
            if self.clock.fresh(block, self.epoch) {
                continue;
            }
            let from = self.rows.part(rows.clone());
            let to = left.part(rows.start * self.rows.columns, from.len);
            // SAFETY: these are rows of two buffers.
            unsafe { to.write().copy_from_slice(from.read()) };
        }
    }
}

/// One exchange.
pub(crate) struct Exchange<'a> {
    pub(crate) team: &'a Team,
    pub(crate) part: &'a Part,
    pub(crate) timing: Timing,
    /// Own rows, then halo rows.
    pub(crate) rows: Span,
    /// Copies of halo rows; preceded by copies of own rows if the rule compares values.
    pub(crate) copies: Span,
    /// Words per row.
    pub(crate) columns: usize,
    /// Storage of the elements.
    pub(crate) storage: Storage,
    /// Name of the tensor.
    pub(crate) name: &'a str,
}

impl Exchange<'_> {
    /// Decides whether to send the own block, tells the others if they cannot know, and sends it.
    ///
    /// # Safety
    /// Nothing else writes the rows or uses the copies meanwhile.
    pub(crate) unsafe fn begin(&self, wire: &mut Wire, clock: &mut Clock) -> Result<(), Fault> {
        let known = clock.sent[wire.rank() as usize].is_some();
        let gap = match self.timing.rule.limit() {
            // SAFETY: as the caller promised.
            Some(_) => Some(unsafe { self.gap(known) }?),
            None => None,
        };
        clock.active = self.timing.sends(clock, wire.rank(), gap);
        clock.gap = gap;
        for Sent { to, rows, .. } in self.part.sent(None, wire.rank()) {
            if let Some(gap) = gap {
                let flag = if clock.active { SENT } else { gap };
                wire.send(to, 1, &mut |message| message[0] = flag)?;
            }
            if clock.active {
                wire.send(to, rows.len() * self.columns, &mut |message| {
                    // SAFETY: the rows are inside the matrix; nothing writes it meanwhile.
                    unsafe { pack(self.team, self.rows, rows, self.columns, message) };
                })?;
            }
        }
        if clock.active && gap.is_some() {
            let own = self.part.inner * self.columns;
            // SAFETY: nothing else uses the copies, which include own rows if values decide.
            unsafe {
                let sent = self.rows.part(0, own).read();
                self.copies.part(0, own).write().copy_from_slice(sent);
            }
        }
        Ok(())
    }

    /// Receives the blocks that are sent, and fills the halo rows with the newest copies.
    ///
    /// # Safety
    /// Nothing else uses the halo rows or the copies meanwhile.
    pub(crate) unsafe fn finish(
        &self,
        wire: &mut Wire,
        clock: &mut Clock,
        read: &mut LayerStaleness,
    ) -> Result<(), Fault> {
        let flagged = self.timing.rule.limit().is_some();
        let known = |other: &u32| flagged || self.timing.too_old(clock, *other);
        let others = self.part.halo(None, 0).map(|(other, _)| other);
        wire.wait_for(&mut others.filter(|other| known(other)))?;
        for (other, rows) in self.part.halo(None, wire.rank()) {
            let mut flag = SENT;
            if flagged {
                wire.recv(other, 1, &mut |message| flag = message[0])?;
            } else if !self.timing.too_old(clock, other) {
                flag = 0.0;
            }
            let copies = self.copies_of(&rows);
            if flag == SENT {
                wire.recv(other, copies.len, &mut |message| {
                    // SAFETY: nothing else uses the copies.
                    unsafe { copies.write() }.copy_from_slice(message);
                })?;
                clock.sent[other as usize] = Some(self.timing.epoch);
            }
            let age = self.timing.age(clock, other);
            self.timing.fresh(self.name, other, age, flag)?;
            read.read(age.unwrap_or(0), rows.len() as u64);
            if flagged {
                read.reach(flag.max(0.0));
            }
            let halo = self.rows.part(rows.start * self.columns, copies.len);
            // SAFETY: nothing else uses the halo rows or the copies.
            unsafe { halo.write().copy_from_slice(copies.read()) };
        }
        if clock.active {
            clock.sent[wire.rank() as usize] = Some(self.timing.epoch);
        }
        Ok(())
    }

    fn copies_of(&self, rows: &Range<usize>) -> Span {
        let own = match self.timing.rule.limit() {
            Some(_) => 0,
            None => self.part.inner,
        };
        let (first, count) = (rows.start - own, rows.len());
        self.copies.part(first * self.columns, count * self.columns)
    }

    /// The distance of the own rows from those sent last; infinite if there are none.
    ///
    /// # Safety
    /// Nothing writes the own rows or their copies meanwhile.
    unsafe fn gap(&self, known: bool) -> Result<f32, Fault> {
        let own = self.part.inner * self.columns;
        // SAFETY: nothing writes the own rows or their copies meanwhile.
        let (now, then) = unsafe {
            (
                self.rows.part(0, own).read(),
                self.copies.part(0, own).read(),
            )
        };
        let (mut norm, mut distance) = (0.0, 0.0);
        let elements = self.storage.in_word() as usize;
        let (mut a, mut b) = ([0.0; 2], [0.0; 2]);
        for (now, then) in now.chunks(1).zip(then.chunks(1)) {
            self.storage.unpack(now, &mut a[..elements]);
            self.storage.unpack(then, &mut b[..elements]);
            for (now, then) in a[..elements].iter().zip(&b) {
                let (now, then) = (f64::from(*now), f64::from(*then));
                norm += now * now;
                distance += (now - then) * (now - then);
            }
        }
        self.timing.gap(self.name, (norm, distance), known)
    }
}
