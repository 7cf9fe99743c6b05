//! When the blocks of skippable exchanges were sent, and when they must be sent again.

use crate::fault::Fault;
use crate::staleness::LayerStaleness;
use gnnc_ir::program::traffic::for_each_skip;
use gnnc_ir::program::{Program, Rule, relative_distance};

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

/// What decides how far rows are from those sent last.
#[derive(Clone, Copy)]
pub(crate) struct Squares {
    /// The sum of the squares of the rows' elements.
    pub(crate) rows: f64,
    /// The sum of the squares of their differences from those sent last.
    pub(crate) difference: f64,
}

/// When blocks are sent, as far as values do not matter.
#[derive(Clone, Copy, Debug)]
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

    /// The relative distance of own rows from those sent last. Infinite if nothing was sent before (`known` is false).
    ///
    /// # Errors
    /// If rows of the tensor `name` are not finite.
    pub(crate) fn gap(&self, name: &str, squares: Squares, known: bool) -> Result<f32, Fault> {
        if !squares.rows.is_finite() {
            return Err(Fault::NoNumbers(name.to_owned()));
        }
        if !known {
            return Ok(f32::INFINITY);
        }
        Ok(relative_distance(squares.difference, squares.rows) as f32)
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
