//! The bytes a generated kernel reads and writes, for drivers that check.

use super::driver::{Address, Touched};
use super::launch::{Edges, Operands};
use gnnc_ir::kernel::{At, Body, Kernel, Operand};
use gnnc_ir::kernel::{Walk, result_shape};
use std::ops::Range;

/// The rows that a kernel over `rows` uses of its operands.
struct Reach<'a> {
    walk: Walk,
    rows: &'a Range<u64>,
    edges: Edges<'a>,
}

/// The bytes a launch over `rows` touches.
pub(super) fn touched(
    kernel: &Kernel,
    edges: Edges,
    rows: &Range<u64>,
    operands: &Operands,
) -> Vec<Touched> {
    let walk = Walk::of(&kernel.body);
    let reach = Reach { walk, rows, edges };
    let mut found = Vec::new();
    for (operand, at) in kernel.inputs.iter().zip(&operands.inputs) {
        let shape = (kernel.heads, kernel.width);
        add(
            &mut found,
            *at,
            operand,
            shape,
            &reach.of(operand.at),
            false,
        );
    }
    let listed = reach.range();
    found.extend(operands.lists.iter().map(|at| Touched {
        at: Address(at.0.wrapping_add(4 * listed.start)),
        bytes: 4 * (listed.end - listed.start),
        written: false,
    }));
    let (heads, width) = result_shape(kernel);
    for (operand, at) in kernel.outputs.iter().zip(&operands.outputs) {
        match kernel.body {
            // Ignores steps and offset.
            Body::ColReduce { .. } => found.push(Touched {
                at: *at,
                bytes: 4 * u64::from(heads) * u64::from(width),
                written: true,
            }),
            _ => add(
                &mut found,
                *at,
                operand,
                (heads, width),
                &reach.of(operand.at),
                true,
            ),
        }
    }
    found
}

impl Reach<'_> {
    /// The rows used at `at`, ascending, without repeats.
    fn of(&self, at: At) -> Vec<u64> {
        let own = || -> Vec<u64> { self.rows.clone().collect() };
        let edges = self.range();
        let listed = |list: &[u32]| {
            let part = list.get(edges.start as usize..edges.end as usize);
            let mut rows: Vec<u64> = part.unwrap_or(&[]).iter().map(|v| u64::from(*v)).collect();
            rows.sort_unstable();
            rows.dedup();
            rows
        };
        let by_source = self.walk == Walk::EdgesBySource;
        let by_type = self.walk == Walk::EdgesByType;
        match at {
            At::One => vec![0],
            At::List => Vec::new(),
            At::Row if self.walk == Walk::Edges => edges.collect(),
            At::Row => own(),
            At::Src if by_source => own(),
            At::Dst if by_source => listed(self.edges.indices),
            At::Src => listed(self.edges.indices),
            At::Dst => own(),
            At::Edge if by_type => listed(self.edges.indices),
            At::Edge if by_source => listed(self.edges.positions),
            At::Edge => edges.collect(),
        }
    }

    fn range(&self) -> Range<u64> {
        let first = |row: u64| self.edges.indptr.get(row as usize).copied().unwrap_or(0);
        first(self.rows.start)..first(self.rows.end)
    }
}

/// Adds the elements of an operand's rows; adjacent rows become one piece.
fn add(
    found: &mut Vec<Touched>,
    at: Address,
    operand: &Operand,
    (heads, width): (u32, u32),
    rows: &[u64],
    written: bool,
) {
    let steps = |count: u32, step: u32| u64::from(count.saturating_sub(1)) * u64::from(step);
    let element = operand.storage.bytes();
    let places = operand
        .picked
        .map_or(0, |picked| steps(picked.count, picked.step));
    let row_bytes = element
        * (steps(heads, operand.head_step) + steps(width, operand.column_step) + places + 1);
    let begin = found.len();
    for row in rows {
        let stride = match operand.at {
            At::One => 0,
            _ => u64::from(operand.stride),
        };
        let first = at.plus(element * (row * stride + u64::from(operand.offset)));
        match found[begin..].last_mut() {
            Some(last) if last.at.plus(last.bytes) >= first => {
                last.bytes = first.0 + row_bytes - last.at.0;
            }
            _ => found.push(Touched {
                at: first,
                bytes: row_bytes,
                written,
            }),
        }
    }
}
