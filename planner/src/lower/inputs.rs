//! The inputs of a program: the data graph's tensors, tables of numbers, and values that are the
//! same in every epoch.

use super::region::{Region, Value};
use super::{LowerError, Lowerer, partial};
use gnnc_ir::graph::op::{Input, Op, Site};
use gnnc_ir::kernel::End;
use gnnc_ir::program::instr;
use gnnc_ir::program::{Buffer, BufferId, Extent, Instr, Ref, Role};
use gnnc_ir::{EdgeSet, Graph, NodeId, Rows, Type};

impl Lowerer {
    pub(super) fn table(&mut self, values: &[f32]) -> Value {
        if let Some((_, value)) = self.tables.iter().find(|(t, _)| t == values) {
            return *value;
        }
        let number = self.program.tables.len() as u32;
        self.program.tables.push(values.to_vec());
        let slots = values.len() as u32;
        let name = format!("table{number}");
        let buffer = self.buffer(name, Extent::Fixed(1), 1, slots, Role::Table(number));
        let value = Value::whole(Ref::first(buffer), Type::SCALAR.stacked(slots));
        self.tables.push((values.to_vec(), value));
        value
    }

    /// A dense tensor of the data graph.
    pub(super) fn input(&mut self, input: Input) -> Result<Value, LowerError> {
        if let Some((_, value)) = self.inputs.iter().find(|(i, _)| *i == input) {
            return Ok(*value);
        }
        let own = |name: String, role, ty| (name, role, ty, Extent::Local);
        let (name, role, ty, extent) = match input {
            Input::Features => {
                let ty = Type::vertices(self.features);
                ("x".to_owned(), Role::Features, ty, self.extent(ty))
            }
            Input::FeatureSlice(slice) => {
                let ty = Type::new(Rows::All, 1, slice.len);
                ("x.slice".to_owned(), Role::Features, ty, self.extent(ty))
            }
            Input::InDegree(set) => {
                let role = Role::Degree(set, End::Dst);
                own("in_degree".to_owned(), role, Type::vertices(1))
            }
            Input::OutDegree(set) => {
                let role = Role::Degree(set, End::Src);
                own("out_degree".to_owned(), role, Type::vertices(1))
            }
            Input::History(history) => {
                let number = history.number;
                own(
                    format!("history{number}"),
                    Role::History(number),
                    history.ty(),
                )
            }
            Input::Relation(relations) => {
                let ty = relations.ty();
                let role = Role::Relation(relations.count);
                ("relation".to_owned(), role, ty, self.extent(ty))
            }
            Input::RelationDegree(relations) => {
                let ty = relations.ty();
                let role = Role::RelationDegree(relations.count);
                ("relation_degree".to_owned(), role, ty, self.extent(ty))
            }
            Input::EdgeFeatures(columns) => {
                let ty = columns.ty();
                let role = Role::EdgeFeatures(columns.count);
                let name = match columns.set {
                    EdgeSet::Named(number) => format!("edge_features.set{number}"),
                    EdgeSet::Plain | EdgeSet::Looped => "edge_features".to_owned(),
                };
                (name, role, ty, self.extent(ty))
            }
            Input::Drawn(drawn) => return Ok(self.drawn(drawn)),
            Input::Fresh(_) => {
                let why = "which edges are fresh is not known to kernels";
                return Err(LowerError::Internal(why.to_owned()));
            }
        };
        let (columns, features) = (ty.columns(), role == Role::Features);
        let value = if !features || !self.sparse {
            let buffer = self.buffer(name, extent, columns, 1, role);
            Value {
                halo: !features,
                ..Value::whole(Ref::first(buffer), ty)
            }
        } else {
            let buffer = self.buffer(name, extent, columns, 1, Role::Static);
            let out = Ref::first(buffer);
            if let Some(values) = self.feature_values(ty.rows == Rows::All) {
                self.program
                    .setup
                    .push(Instr::Densify(instr::Densify { values, out }));
            }
            Value::whole(out, ty)
        };
        self.inputs.push((input, value));
        Ok(value)
    }

    /// The nonzeros of the features, for own rows or for the slice of columns; `None` if features
    /// are dense.
    pub(super) fn feature_values(&mut self, slice: bool) -> Option<Ref> {
        if !self.sparse {
            return None;
        }
        let (name, extent) = match slice {
            true => ("x.slice.values", Extent::SliceNonzeros),
            false => ("x.values", Extent::FeatureNonzeros),
        };
        let known = |b: &Buffer| b.role == Role::FeatureValues && b.extent == extent;
        let buffer = match self.program.buffers.iter().position(known) {
            Some(n) => BufferId(n as u32),
            None => self.buffer(name.to_owned(), extent, 1, 1, Role::FeatureValues),
        };
        Some(Ref::first(buffer))
    }

    /// Nonzeros after dropout, computed once per epoch.
    pub(super) fn dropped(
        &mut self,
        code: &mut Vec<Instr>,
        values: Ref,
        p: f32,
        site: Site,
    ) -> Ref {
        let known = |(v, s, _): &&(Ref, Site, Ref)| (*v, *s) == (values, site);
        if let Some((_, _, found)) = self.dropped.iter().find(known) {
            return *found;
        }
        let extent = self.program.buffer(values.buffer).extent;
        let buffer = self.buffer(format!("x.dropped{site}"), extent, 1, 1, Role::Temp);
        let out = Ref::first(buffer);
        code.push(Instr::SparseDropout(instr::SparseDropout {
            values,
            out,
            p,
            site,
        }));
        self.dropped.push((values, site, out));
        out
    }

    /// An epoch-invariant tensor, computed in `setup` on first request.
    pub(super) fn fixed(
        &mut self,
        graph: &Graph,
        id: NodeId,
        at_source: bool,
    ) -> Result<Value, LowerError> {
        if let Op::Input(input) = graph.node(id).op {
            let value = self.input(input)?;
            return Ok(if at_source {
                self.fixed_halo(value)
            } else {
                value
            });
        }
        let part = graph.part(&[id]);
        let key = part.to_string();
        let found = self.fixed.iter().position(|(k, _)| *k == key);
        let at = match found {
            Some(at) => at,
            None => {
                let spread = partial::Spread::of(self);
                let partials = partial::partials(&part, spread, &[], &part.results);
                let mut region = Region::new(self, &part, partials, false, vec![]);
                region.hoist = false;
                region.role = Role::Static;
                region.emit(self)?;
                let value = region.stored(part.results[0])?;
                let code = std::mem::take(&mut region.code);
                self.program.setup.extend(code);
                self.fixed.push((key, value));
                self.fixed.len() - 1
            }
        };
        let value = self.fixed[at].1;
        if at_source {
            let value = self.fixed_halo(value);
            self.fixed[at].1 = value;
            return Ok(value);
        }
        Ok(value)
    }

    /// An epoch-invariant tensor with its halo rows, exchanged once in `setup`.
    pub(super) fn fixed_halo(&mut self, value: Value) -> Value {
        let by_vertex = matches!(value.ty.rows, Rows::Vertices | Rows::All);
        if !self.has_halo(value.ty.rows) || value.halo || !by_vertex {
            return value;
        }
        self.make_local(value.at.buffer);
        let exchange = instr::HaloExchange {
            slice: value.slice,
            ..instr::HaloExchange::of(value.at)
        };
        self.program.setup.push(Instr::HaloExchange(exchange));
        for (_, known) in self.inputs.iter_mut().filter(|(_, v)| v.at == value.at) {
            known.halo = true;
        }
        Value {
            halo: true,
            ..value
        }
    }
}
