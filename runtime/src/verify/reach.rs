//! How far into their operands kernels reach.

use gnnc_ir::kernel::{At, Operand};

/// Rows of each kind.
#[derive(Default)]
pub(super) struct Reach {
    pub(super) row: u64,
    pub(super) src: u64,
    pub(super) dst: u64,
    pub(super) edge: u64,
}

impl Reach {
    /// As many of every kind.
    pub(super) fn all(rows: u64) -> Self {
        Self {
            row: rows,
            src: rows,
            dst: rows,
            edge: rows,
        }
    }

    /// Floats of a buffer up to the last element that an operand touches.
    pub(super) fn floats(&self, operand: &Operand, heads: u32, width: u32) -> Result<u64, String> {
        let rows = match operand.at {
            At::Row => self.row,
            At::Src => self.src,
            At::Dst => self.dst,
            At::Edge => self.edge,
            At::One => 1,
            At::List => return Err("a row list, which no instruction brings".to_owned()),
        };
        Ok(match rows {
            0 => 0,
            rows => {
                let stride = if operand.at == At::One {
                    0
                } else {
                    u64::from(operand.stride)
                };
                (rows - 1)
                    .saturating_mul(stride)
                    .saturating_add(Self::one(operand, heads, width))
            }
        })
    }

    pub(super) fn one(operand: &Operand, heads: u32, width: u32) -> u64 {
        let step = |count: u32, step: u32| u64::from(count.saturating_sub(1)) * u64::from(step);
        u64::from(operand.offset)
            + step(heads, operand.head_step)
            + step(width, operand.column_step)
            + 1
    }
}
