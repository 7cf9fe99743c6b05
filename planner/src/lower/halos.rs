//! Halo rows: which tensors have room for them, and where they are exchanged.

use super::analysis::pointwise;
use super::passes::inside;
use super::region::Region;
use super::{LowerError, Lowerer};
use gnnc_ir::graph::op::{Input, Op, Slice};
use gnnc_ir::kernel::{Axis, End};
use gnnc_ir::program::{BufferId, Extent, Instr, instr};
use gnnc_ir::{NodeId, Rows, Type};

impl Lowerer {
    /// Adds room for halo rows to a buffer of vertex rows.
    pub fn make_local(&mut self, buffer: BufferId) {
        let extent = &mut self.program.buffers[buffer.0 as usize].extent;
        *extent = extent.with_halo();
    }

    /// Whether other ranks hold vertices at the sources of edges into a rank's rows of this kind.
    pub fn has_halo(&self, rows: Rows) -> bool {
        match rows {
            Rows::Vertices | Rows::Edges(_) => self.distributed,
            Rows::All | Rows::AllEdges(_) => self.in_groups,
            Rows::Fixed(_) | Rows::Level(_) | Rows::LevelEdges(..) => false,
        }
    }

    /// The rows a tensor has on a rank.
    pub fn extent(&self, ty: Type) -> Extent {
        match ty.rows {
            Rows::Fixed(n) => Extent::Fixed(n),
            Rows::Vertices => Extent::Inner,
            Rows::Edges(set) => Extent::Edges(set),
            Rows::All => Extent::All,
            Rows::AllEdges(set) => Extent::AllEdges(set),
            Rows::Level(level) => Extent::Level(level),
            Rows::LevelEdges(level, set) => Extent::LevelEdges(level, set),
        }
    }
}

impl Region<'_> {
    /// Exchanges halo rows of the tensors a node's kernel reads at the source.
    pub fn fetch_halos(&mut self, lowerer: &mut Lowerer, id: NodeId) -> Result<(), LowerError> {
        if !lowerer.distributed {
            return Ok(());
        }
        let graph = self.graph;
        if matches!(graph.node(id).op, Op::Take(..)) {
            return self.fetch_halos_of(lowerer, &[id]);
        }
        self.fetch_halos_of(lowerer, &graph.node(id).inputs)
    }

    /// Exchanges halo rows of the tensors read at the source by kernels that compute some nodes.
    pub fn fetch_halos_of(
        &mut self,
        lowerer: &mut Lowerer,
        nodes: &[NodeId],
    ) -> Result<(), LowerError> {
        if !lowerer.distributed {
            return Ok(());
        }
        let graph = self.graph;
        let mut work: Vec<NodeId> = nodes.to_vec();
        while let Some(inner) = work.pop() {
            let node = graph.node(inner);
            if self.is_ready(inner) {
                continue;
            }
            if let Op::Take(_, end) = node.op {
                if lowerer.has_halo(node.ty.rows) && end == End::Src {
                    self.fetch_halo(lowerer, node.inputs[0])?;
                }
            } else if pointwise(&node.op) || inside(graph, inner, &self.facts.fixed) {
                work.extend(&node.inputs);
            }
        }
        Ok(())
    }

    fn is_ready(&self, id: NodeId) -> bool {
        self.values[id.0 as usize].is_some()
    }

    /// Makes sure a stored tensor's halo rows are valid.
    pub fn fetch_halo(&mut self, lowerer: &mut Lowerer, id: NodeId) -> Result<(), LowerError> {
        let mut value = self.stored(id)?;
        if lowerer.has_halo(value.ty.rows) && !value.halo {
            // What is the same in every epoch is exchanged once.
            if self.hoist && self.facts.fixed[id.0 as usize] {
                self.values[id.0 as usize] = Some(lowerer.fixed(self.graph, id, true)?);
                return Ok(());
            }
            lowerer.make_local(value.at.buffer);
            let (buffer, skip) = (value.at, self.skip(lowerer, id, value)?);
            self.code.push(Instr::HaloExchange(instr::HaloExchange {
                skip,
                slice: value.slice,
                ..instr::HaloExchange::of(buffer)
            }));
            value.halo = true;
            // Views of the same slot share the rows that arrived.
            for other in self
                .values
                .iter_mut()
                .flatten()
                .filter(|v| v.at == value.at)
            {
                other.halo = true;
            }
        }
        Ok(())
    }

    /// Of which a tensor's columns are a slice, if groups of ranks divide the vertices: as those of what it is computed from.
    pub fn slice_of(&self, lowerer: &Lowerer, id: NodeId) -> Option<Slice> {
        let ty = self.graph.ty(id);
        if !lowerer.in_groups || ty.rows != Rows::All {
            return None;
        }
        let mut seen = vec![false; self.graph.nodes.len()];
        let mut work = vec![id];
        while let Some(id) = work.pop() {
            if std::mem::replace(&mut seen[id.0 as usize], true) {
                continue;
            }
            let node = self.graph.node(id);
            let on_slices = matches!(node.ty.rows, Rows::All | Rows::AllEdges(_));
            if !on_slices {
                continue;
            }
            let found = if let Op::Redistribute(how) = &node.op {
                // What is replicated has all columns.
                how.slice()
            } else if let Op::Input(Input::FeatureSlice(slice)) = &node.op {
                Some(*slice)
            } else if let Op::Arg(n) = &node.op {
                self.args.get(*n as usize).and_then(|value| value.slice)
            } else if let Some(value) = self.value(id) {
                value.slice
            } else {
                work.extend(&node.inputs);
                continue;
            };
            let size = |axis| match axis {
                Axis::Heads => ty.heads,
                Axis::Width => ty.width,
            };
            let found = found.filter(|slice| slice.len == size(slice.axis));
            if found.is_some() {
                return found;
            }
        }
        None
    }
}
