//! Loops: a scan becomes one `Repeat`, whose tensors take turns in the slots of a buffer.

use crate::lower::analysis::{argument_flags, view};
use crate::lower::partial::{Spread, body_partials};
use crate::lower::region::{Region, Value};
use crate::lower::{LowerError, Lowerer};
use gnnc_ir::NodeId;
use gnnc_ir::graph::op::{Op, Scan};
use gnnc_ir::program::instr;
use gnnc_ir::program::{BufferId, Instr, Ref};

/// The buffer of one carry: iteration `i` reads slot `i + reads` and writes slot `i + writes`.
struct Carry {
    buffer: BufferId,
    slots: u32,
    reads: u32,
    writes: u32,
}

/// Destination of a result of a body.
enum Destination {
    /// The value a carry has in the same iteration.
    Reads(usize),
    /// The value a carry has in the next iteration.
    Writes(usize),
    /// A stack of its own.
    Stack(BufferId),
}

impl Region<'_> {
    /// Emits a scan.
    pub fn scan(&mut self, lowerer: &mut Lowerer, id: NodeId) -> Result<(), LowerError> {
        let graph = self.graph;
        let node = graph.node(id);
        let Op::Scan(scan) = &node.op else {
            return Err(LowerError::Internal(format!("{id} is no scan")));
        };
        if self.in_loop {
            return Err(LowerError::Unsupported(
                "a repeat inside a repeat".to_owned(),
            ));
        }
        let results = &scan.body.results;
        let (carries, consts) = (scan.carries as usize, scan.consts as usize);
        let kinds: Vec<Option<Destination>> = results[carries..]
            .iter()
            .map(|y| aliased(scan, *y))
            .collect();
        let mut buffers = Vec::new();
        for number in 0..carries {
            let saved = kinds.iter().flatten().any(|d| match d {
                Destination::Reads(c) | Destination::Writes(c) => *c == number,
                Destination::Stack(_) => false,
            });
            buffers.push(self.carry(lowerer, id, scan, number, saved)?);
        }
        let destinations: Vec<Destination> = kinds
            .into_iter()
            .zip(&results[carries..])
            .map(|(kind, y)| {
                kind.unwrap_or_else(|| {
                    let ty = scan.body.ty(*y);
                    let name = format!("{}.stack", scan.body.tensor_name(*y));
                    let extent = lowerer.extent(ty);
                    let columns = ty.columns();
                    Destination::Stack(lowerer.buffer(name, extent, columns, scan.count, self.role))
                })
            })
            .collect();

        let spread = Spread::of(lowerer);
        let partial = &self.facts.partial.partial;
        let partial = body_partials(graph, spread, node, scan, partial).nodes;
        let mut body = Region::new(lowerer, &scan.body, partial, self.train, Vec::new());
        body.in_loop = true;
        body.iterations = scan.count;
        let forward = self.embeddings.forward.get(id.0 as usize) == Some(&true);
        body.keep_embeddings(lowerer, vec![forward; scan.body.nodes.len()]);
        body.role = self.role;

        let read = argument_flags(&scan.body, &body.facts.read_at_source);
        let mut args = Vec::new();
        for (position, input) in node.inputs.iter().enumerate() {
            let ty = scan.body.args[position];
            let value = if let Some(carry) = buffers.get(position) {
                let at = Ref {
                    buffer: carry.buffer,
                    base: carry.reads,
                    in_loop: true,
                };
                Value {
                    slice: self.slice_of(lowerer, *input),
                    ..Value::whole(at, ty)
                }
            } else if position < carries + consts {
                if read[position] {
                    self.fetch_halo(lowerer, *input)?;
                }
                self.stored(*input)?
            } else {
                let outer = self.stored(*input)?;
                Value {
                    at: Ref {
                        in_loop: true,
                        ..outer.at
                    },
                    ty,
                    ..outer
                }
            };
            args.push(value);
        }

        body.args = args;
        let wanted: Vec<Option<Ref>> = results
            .iter()
            .enumerate()
            .map(
                |(n, _)| match n.checked_sub(carries).map(|y| &destinations[y]) {
                    None => {
                        let Carry { buffer, writes, .. } = buffers[n];
                        Some(Ref {
                            buffer,
                            base: writes,
                            in_loop: true,
                        })
                    }
                    Some(Destination::Stack(buffer)) => Some(Ref {
                        buffer: *buffer,
                        base: 0,
                        in_loop: true,
                    }),
                    Some(_) => None,
                },
            )
            .collect();
        for (result, target) in results.iter().zip(&wanted) {
            let op = &scan.body.node(*result).op;
            let place = &mut body.targets[result.0 as usize];
            let placed = matches!(op, Op::Arg(_) | Op::Out(_) | Op::Input(_)) || view(op);
            if place.is_none() && !placed {
                *place = *target;
            }
        }
        body.emit(lowerer)?;
        for (result, target) in results.iter().zip(&wanted) {
            let value = body.stored(*result)?;
            if let Some(target) = target
                && value.at != *target
            {
                body.copy(lowerer, value, Value::whole(*target, value.ty));
            }
        }
        // Later readers of what is the same in every iteration find the rows that the loop read.
        for (id, inner) in scan.body.iter() {
            let Op::Arg(n) = inner.op else { continue };
            let constant = (carries..carries + consts).contains(&(n as usize));
            if constant && body.value(id).is_some_and(|value| value.halo) {
                let outer = node.inputs[n as usize].0 as usize;
                self.values[outer] = self.values[outer].map(|value| Value {
                    halo: true,
                    ..value
                });
            }
        }
        let halo_of = |result: &NodeId| body.value(*result).is_some_and(|v| v.halo);
        let outs = results.iter().enumerate().map(|(n, result)| {
            let ty = scan.body.ty(*result);
            let slice = body.value(*result).and_then(|value| value.slice);
            let Some(y) = n.checked_sub(carries) else {
                let Carry { buffer, slots, .. } = buffers[n];
                let base = if scan.reverse { 0 } else { scan.count % slots };
                let at = Ref {
                    buffer,
                    base,
                    in_loop: false,
                };
                return Value {
                    slice,
                    ..Value::whole(at, ty)
                };
            };
            let (buffer, base, halo) = match &destinations[y] {
                Destination::Stack(buffer) => {
                    let own = body.value(*result).map(|v| v.at.buffer) == Some(*buffer);
                    (*buffer, 0, own && halo_of(result))
                }
                Destination::Reads(c) => (buffers[*c].buffer, buffers[*c].reads, halo_of(result)),
                Destination::Writes(c) => (buffers[*c].buffer, buffers[*c].writes, halo_of(result)),
            };
            let at = Ref {
                buffer,
                base,
                in_loop: false,
            };
            Value {
                halo,
                slice,
                ..Value::whole(at, ty.stacked(scan.count))
            }
        });
        let outs: Vec<Value> = outs.collect();
        let code = std::mem::take(&mut body.code);
        self.code.push(Instr::Repeat(instr::Repeat {
            count: scan.count,
            reverse: scan.reverse,
            body: code,
        }));
        self.values[id.0 as usize] = outs.first().copied();
        self.scan_results[id.0 as usize] = outs;
        Ok(())
    }

    /// Creates a carry's buffer and fills its first slot.
    fn carry(
        &mut self,
        lowerer: &mut Lowerer,
        id: NodeId,
        scan: &Scan,
        number: usize,
        saved: bool,
    ) -> Result<Carry, LowerError> {
        let ty = scan.body.args[number];
        let slots = if saved { scan.count + 1 } else { 2 };
        let name = format!("{}.carry{number}", self.graph.tensor_name(id));
        let extent = lowerer.extent(ty);
        let each = ty.columns();
        if ty.stack != 0 {
            return Err(LowerError::Unsupported(
                "a carried stack of tensors".to_owned(),
            ));
        }
        let buffer = lowerer.buffer(name, extent, each, slots, self.role);
        let (reads, writes) = if scan.reverse { (1, 0) } else { (0, 1) };
        let start = if scan.reverse { scan.count % slots } else { 0 };
        let target = Ref {
            buffer,
            base: start,
            in_loop: false,
        };
        let operand = self.graph.node(id).inputs[number];
        if self.value(operand).is_none() && self.facts.uses[operand.0 as usize] == 1 {
            self.targets[operand.0 as usize] = Some(target);
            self.emit_node(lowerer, operand)?;
        } else if self.value(operand).is_none() {
            self.emit_node(lowerer, operand)?;
        }
        let value = self.stored(operand)?;
        if value.at != target {
            self.copy(lowerer, value, Value::whole(target, ty));
        }
        Ok(Carry {
            buffer,
            slots,
            reads,
            writes,
        })
    }
}

/// The carry whose buffer already holds a stacked result, if any.
fn aliased(scan: &Scan, y: NodeId) -> Option<Destination> {
    let carries = scan.carries as usize;
    if let Op::Arg(n) = scan.body.node(y).op
        && (n as usize) < carries
    {
        return Some(Destination::Reads(n as usize));
    }
    let found = scan.body.results[..carries].iter().position(|r| *r == y)?;
    // A result that is another carry's argument is copied, so it is not in place.
    let placed = matches!(scan.body.node(y).op, Op::Arg(_));
    (!placed).then_some(Destination::Writes(found))
}
