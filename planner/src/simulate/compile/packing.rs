//! Costs of packing and unpacking messages.

use super::Compiler;
use gnnc_ir::program::work::{KernelClass, Work};
use gnnc_ir::words::units::{Bytes, Flops};
use gnnc_ir::words::wire::Wire;

/// Operations on a number that is encoded or decoded in 8 bits: a draw, a quotient, a product and the search for the range.
const OPERATIONS: f64 = 20.0;

impl Compiler<'_> {
    /// Time to pass over `read` and `written` bytes. Zero if there are none, or if the link was
    /// measured including the work before and after a message.
    pub(super) fn pass(&self, read: f64, written: f64, flops: f64) -> f64 {
        if self.costs.is_some() && self.one_node() {
            return 0.0;
        }
        self.copied(read, written, flops)
    }

    /// The same where measured messages do not include it.
    fn copied(&self, read: f64, written: f64, flops: f64) -> f64 {
        if read + written == 0.0 {
            return 0.0;
        }
        let (read, written) = (Bytes(read.ceil() as u64), Bytes(written.ceil() as u64));
        self.kernel(&Work {
            class: KernelClass::Copy,
            flops: Flops(flops),
            read,
            written,
        })
    }

    /// Seconds that a rank computes less for messages that it sends and receives meanwhile, given their bytes inside nodes and
    /// between them.
    pub(super) fn handling(&self, [inside, between]: [f64; 2]) -> f64 {
        let cluster = self.cluster;
        inside * cluster.handling_of(&cluster.inside)
            + between * cluster.handling_of(&cluster.between)
    }

    /// Seconds for encoding or decoding rows of so many bytes in memory and in messages.
    pub(super) fn coding(&self, wire: Wire, memory: f64, message: f64) -> f64 {
        let operations = match wire {
            Wire::F32 => return 0.0,
            Wire::Bf16 => 1.0,
            Wire::Int8 => OPERATIONS,
        };
        self.copied(memory, message, operations * memory / 4.0)
    }
}
