//! Lets the rows of messages travel in fewer bits (AdaQP, arXiv 2306.01381).
//!
//! Rows of halos and of batches, those that change their layout, and those that go to another stage are encoded when they are packed and decoded when they are unpacked, in
//! training epochs alone. The program stays as it is: the gradient is that of the loss with the errors of rounding held
//! constant. Sums of gradients, losses, the setup and evaluations are sent as they are, so that all ranks have the same
//! parameters. In two tiers, rows are encoded where they cross between nodes.

use crate::error::LowerError;
use gnnc_ir::graph::op::{Redistribute, Site};
use gnnc_ir::program::instr::{Collective, Encoded};
use gnnc_ir::program::{Among, Buffer, Extent, Instr, Program};
use gnnc_ir::words::wire::{LEAST, Wire};

/// Encodes all rows that the training epochs of a program, or of the programs of stages, send, and that are long enough.
///
/// # Errors
/// If they send none.
pub fn encode(mut programs: Vec<Program>, wire: Wire) -> Result<Vec<Program>, LowerError> {
    let last = programs.iter().map(|program| last_site(&program.step));
    let first = 1 + last.max().unwrap_or(0);
    let mut next = first;
    for program in &mut programs {
        let mut step = std::mem::take(&mut program.step);
        let mut pass = Pass {
            program,
            wire,
            next,
        };
        pass.list(&mut step);
        next = pass.next;
        program.step = step;
    }
    match next > first {
        true => Ok(programs),
        false => Err(LowerError::Illegal(format!(
            "wire={wire} asks for rows that travel in fewer bits, but nothing here sends rows of {LEAST} numbers or more; \
             leave it out"
        ))),
    }
}

struct Pass<'a> {
    program: &'a Program,
    wire: Wire,
    /// The next site that no draw has yet.
    next: u32,
}

impl Pass<'_> {
    fn list(&mut self, instrs: &mut [Instr]) {
        for instr in instrs {
            if let Some(body) = instr.body_mut() {
                self.list(body);
                continue;
            }
            if !self.gains(instr) {
                continue;
            }
            instr.encode(Encoded {
                wire: self.wire,
                site: Site::from(self.next),
            });
            self.next += u32::from(instr.encoded().is_some());
        }
    }

    /// Whether rows that an instruction sends are long enough.
    fn gains(&self, instr: &Instr) -> bool {
        let buffer = |id| self.program.buffer(id);
        let whole = |of: &Buffer| self.wire.encodes(of.columns, of.storage);
        if let Some(end) = instr.stage_end() {
            let mut tensors = end.message.tensors.iter().map(|at| buffer(at.buffer));
            return tensors.any(|buffer| {
                let fixed = matches!(buffer.extent, Extent::Fixed(_));
                !fixed && whole(buffer)
            });
        }
        match instr.collective() {
            Some(Collective::HaloExchange(one)) => whole(buffer(one.buffer.buffer)),
            Some(Collective::HaloReduce(one)) => whole(buffer(one.buffer.buffer)),
            Some(Collective::Redistribute(one)) => {
                let pieces = match one.how {
                    Redistribute::Split(_) | Redistribute::Join(_) => {
                        self.program.group_ranks(Among::Slices)
                    }
                    Redistribute::Replicate | Redistribute::Reduce | Redistribute::Own => 1,
                };
                let numbers = (one.heads * one.width).div_ceil(pieces);
                self.wire.encodes(numbers, buffer(one.to.buffer).storage)
            }
            Some(Collective::ServeRows(one)) => whole(buffer(one.to.buffer)),
            Some(Collective::PushRows(one)) => whole(buffer(one.from.buffer)),
            Some(
                Collective::AllReduce(_)
                | Collective::DrawEdges(_)
                | Collective::AskRows(_)
                | Collective::CacheRows(_)
                | Collective::ShareLevels(_)
                | Collective::Shift(_),
            )
            | None => false,
        }
    }
}

/// The highest number of a site at which something is drawn; 0 if nothing is.
fn last_site(instrs: &[Instr]) -> u32 {
    let of_one = |instr: &Instr| {
        let launched = instr.launch().map_or(&[][..], |launch| &launch.sites);
        let mut sites = launched.to_vec();
        if let Instr::SparseDropout(one) = instr {
            sites.push(one.site);
        }
        let here = sites.iter().map(|site| site.number).max().unwrap_or(0);
        here.max(last_site(instr.body().unwrap_or_default()))
    };
    instrs.iter().map(of_one).max().unwrap_or(0)
}
