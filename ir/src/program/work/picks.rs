//! Rows that instructions pick one by one, which a cache may have.

use super::{Counts, INDEX, Nest, element, launched, stored};
use crate::kernel::{At, End, Kernel, Operand, Walk};
use crate::program::{Instr, RankSizes};

/// Rows of one tensor that are read at random places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pick {
    /// Reads of a row.
    pub reads: u64,
    /// Bytes of a row.
    pub row: u64,
    /// Bytes of the tensor that they are picked from.
    pub of: u64,
}

impl Pick {
    /// Rows of the tensor.
    pub fn rows(&self) -> u64 {
        self.of / self.row.max(1)
    }

    /// Bytes of all reads.
    pub fn bytes(&self) -> u64 {
        self.reads * self.row
    }
}

/// Whether a kernel picks the rows of an operand, rather than reading them in order.
pub(super) fn is_picked(kernel: &Kernel, operand: &Operand) -> bool {
    let walk = Walk::of(&kernel.body);
    match operand.at {
        At::Edge => walk.end() == End::Src || walk == Walk::EdgesByType,
        At::Src => walk.end() == End::Dst,
        At::Dst => walk.end() == End::Src,
        At::List => true,
        At::Row | At::One => false,
    }
}

impl Counts<'_> {
    /// The rows that the instruction picks over `sizes`, out of tensors of a rank that holds `held`. Their bytes
    /// are among those that [`Counts::work`] says are read.
    pub fn picks(&self, sizes: &RankSizes, held: &RankSizes) -> Vec<Pick> {
        if let Instr::SparseMatMul(product) = self.instr {
            let (_, reads) = stored(self.program, product.values, &launched(self.instr, sizes));
            let row = u64::from(product.columns) * element(self.program, product.b.at);
            let of = self.program.buffer(product.b.at.buffer).slot_bytes(held);
            return vec![Pick { reads, row, of }];
        }
        let (Instr::Launch(launch), Some(counted)) = (self.instr, &self.kernel) else {
            return Vec::new();
        };
        if counted.picked.is_empty() {
            return Vec::new();
        }
        let kernel = counted.kernel;
        let nest = Nest::new(kernel, launch.rows, &launched(self.instr, sizes));
        let mut picks = Vec::with_capacity(counted.picked.len());
        for &n in &counted.picked {
            let (Some(operand), Some(at)) =
                (kernel.inputs.get(n as usize), launch.inputs.get(n as usize))
            else {
                continue;
            };
            let listed = operand.at == At::List;
            let reads = if listed { nest.rows } else { nest.edges };
            if reads == 0 {
                continue;
            }
            // The numbers in a list are read in order.
            let numbers = if listed { reads * INDEX } else { 0 };
            let row = (nest.load_bytes(kernel, n) - numbers) / reads;
            let of = self.program.buffer(at.buffer).slot_bytes(held);
            picks.push(Pick { reads, row, of });
        }
        picks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::expr::{Expr, Value};
    use crate::kernel::{Body, Operand, Reduce};
    use crate::program::{Buffer, BufferId, Extent, KernelId, Launch, Program, Ref, Role};
    use crate::words::types::EdgeSet;

    /// What sums over edges grouped by `to` pick, of rows of 8 numbers of the other end, and a number of each edge.
    fn picked(to: End) -> Vec<Pick> {
        let other = if to == End::Dst { At::Src } else { At::Dst };
        let value = Expr {
            values: vec![Value::Load(0), Value::Load(1)],
        };
        let kernel = Kernel {
            body: Body::Gather {
                set: EdgeSet::Plain,
                to,
                reduce: Reduce::Sum,
                value,
                finish: Expr::leaf(Value::Acc),
            },
            heads: 1,
            width: 8,
            inputs: vec![Operand::dense(other, 1, 8), Operand::dense(At::Edge, 1, 1)],
            outputs: vec![Operand::dense(At::Row, 1, 8)],
            masks: Vec::new(),
            scalars: 0,
        };
        let buffer = |extent: Extent, columns: u32| Buffer {
            name: String::new(),
            extent,
            columns,
            slots: 1,
            role: Role::Temp,
            storage: Default::default(),
        };
        let program = Program {
            ranks: 2,
            kernels: vec![kernel],
            buffers: vec![
                buffer(Extent::Local, 8),
                buffer(Extent::Edges(EdgeSet::Plain), 1),
                buffer(Extent::Local, 8),
            ],
            ..Program::default()
        };
        let at = |n: u32| Ref::first(BufferId(n));
        let launch = Instr::Launch(Launch {
            kernel: KernelId(0),
            rows: if to == End::Dst {
                Extent::Inner
            } else {
                Extent::Local
            },
            inputs: vec![at(0), at(1)],
            outputs: vec![at(2)],
            sites: Vec::new(),
            scalars: Vec::new(),
            lists: Vec::new(),
            chunk: None,
        });
        let sizes = RankSizes {
            inner: 10,
            halo: 4,
            edges: 30,
            ..RankSizes::default()
        };
        Counts::of(&program, &launch).picks(&sizes, &sizes)
    }

    #[test]
    fn sums_pick_rows_of_the_other_end_and_by_source_values_of_edges() {
        let rows = Pick {
            reads: 30,
            row: 32,
            of: 14 * 32,
        };
        assert_eq!(picked(End::Dst), [rows]);
        let values = Pick {
            reads: 30,
            row: 4,
            of: 30 * 4,
        };
        assert_eq!(picked(End::Src), [rows, values]);
        assert_eq!((rows.rows(), rows.bytes()), (14, 960));
    }
}
