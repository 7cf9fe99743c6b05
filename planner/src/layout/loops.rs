//! Loops whose carries stay on slices between iterations.

use super::components::{Choice, Components};
use super::demand::Demand;
use super::{Ranks, rewrite};
use crate::error::LowerError;
use gnnc_ir::graph::op::{Op, Scan};
use gnnc_ir::kernel::Axis;
use gnnc_ir::{Graph, Rows};

/// How a loop runs.
pub(super) struct Loop {
    /// The axis of everything that enters or leaves on slices.
    pub axis: Axis,
    /// Operands read on slices.
    pub slices: Vec<bool>,
    /// Operands read by rows (or without vertex rows).
    pub rows: Vec<bool>,
    /// Number of carries.
    carries: usize,
    /// The loop. A constant that enters both on slices and by rows becomes two.
    pub scan: Scan,
}

impl Loop {
    /// Whether result `k` is a carry on slices.
    pub fn carried(&self, k: usize) -> bool {
        k < self.carries && self.slices[k]
    }
}

/// How every loop of a graph runs, by node.
pub(super) fn find(
    graph: &Graph,
    ranks: Ranks,
    choice: &Choice,
) -> Result<Vec<Option<Loop>>, LowerError> {
    graph
        .nodes
        .iter()
        .map(|node| {
            let Op::Scan(scan) = &node.op else {
                return Ok(None);
            };
            plan(scan, ranks, choice).map(Some)
        })
        .collect()
}

fn plan(scan: &Scan, ranks: Ranks, choice: &Choice) -> Result<Loop, LowerError> {
    let body = &scan.body;
    let components = Components::find(body, ranks.slices(), choice);
    let inner = find(body, ranks, choice)?;
    let axis = components.cut.iter().flatten().next().copied();
    let (carries, constants) = (scan.carries as usize, scan.consts as usize);
    let vertices = |n: usize| body.args[n].rows == Rows::Vertices && body.args[n].stack == 0;
    let mut args: Vec<Option<Axis>> = (0..body.args.len())
        .map(|n| axis.filter(|_| n < carries + constants && vertices(n)))
        .collect();
    // Keep only those carries on slices that are computed and used there.
    let demand = loop {
        let results: Vec<Option<Axis>> = (0..body.results.len())
            .map(|n| args.get(n).copied().flatten().filter(|_| n < carries))
            .collect();
        let demand = Demand::new(body, &components, &inner, &args, &results);
        let stays = |n: usize| {
            let result = body.results[n].0 as usize;
            let read_by_rows = body.iter().any(|(id, node)| {
                node.op == Op::Arg(n as u32) && demand.needed[id.0 as usize].rows
            });
            demand.near[result] == args[n] && !components.share[result] && !read_by_rows
        };
        let leave: Vec<usize> = (0..carries)
            .filter(|n| args[*n].is_some() && !stays(*n))
            .collect();
        if leave.is_empty() {
            break demand;
        }
        leave.into_iter().for_each(|n| args[n] = None);
    };
    let (mut slices, mut rows) = (vec![false; args.len()], vec![false; args.len()]);
    for (id, node) in body.iter() {
        if let Op::Arg(n) = node.op {
            let needed = demand.needed[id.0 as usize];
            let on_slices = args[n as usize].is_some() && needed.slices.contains(&true);
            slices[n as usize] |= on_slices;
            rows[n as usize] |= needed.rows || (needed.slices.contains(&true) && !on_slices);
        }
    }
    for n in 0..args.len() {
        if n < carries {
            slices[n] = args[n].is_some();
        }
        rows[n] |= !slices[n];
    }
    let scan = Scan {
        consts: scan.consts
            + (carries..carries + constants)
                .filter(|n| slices[*n] && rows[*n])
                .count() as u32,
        body: rewrite::body(body, &components, &inner, &demand, ranks, [&slices, &rows])?,
        ..scan.clone()
    };
    Ok(Loop {
        axis: axis.unwrap_or(Axis::Width),
        slices,
        rows,
        carries,
        scan,
    })
}
