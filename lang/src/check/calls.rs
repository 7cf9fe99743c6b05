//! Names and calls: resolves names and calls layers.

use super::bind::{Bound, Signature, bind};
use super::builtins::{GRAPH_VALUES, WORDS, builtin};
use super::elaborator::{Elaborator, Frame};
use super::names::{builtin_signature, find_layer, layer_signature};
use super::standard;
use super::value::{Layer, Value};
use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::ast::{Call, Expr, LayerEdges};
use gnnc_ir::graph::op::{EdgeColumns, Input, Op, Relations};
use gnnc_ir::words::types::EdgeSet;
use std::collections::BTreeMap;

/// Deepest nesting of layer calls.
pub const MAX_CALLS: usize = 32;

impl<'a> Elaborator<'a, '_> {
    pub fn name(&mut self, name: &str, span: Span) -> Value<'a> {
        if let Some(value) = self.lookup(name) {
            return value;
        }
        if WORDS.contains(&name) {
            return Value::Word(name.to_owned());
        }
        if GRAPH_VALUES.contains(&name) {
            return self.of_graph(name, span).unwrap_or(Value::Poison);
        }
        match (self.layer(name), builtin(name)) {
            (Some(layer), _) => Value::Layer(layer),
            (None, Some(_)) => Value::Word(name.to_owned()),
            (None, None) => Value::Poison,
        }
    }

    /// The value of the data graph with this name; `None` after reporting that there is none.
    fn of_graph(&mut self, name: &str, span: Span) -> Option<Value<'a>> {
        let set = self.frame().edges;
        let input = match name {
            "in_degree" => Input::InDegree(set),
            "out_degree" => Input::OutDegree(set),
            "relation_degree" => Input::RelationDegree(self.typed_edges(name, span)?),
            "edge_features" => Input::EdgeFeatures(self.edge_columns(span)?),
            "vertex_types" => return self.vertex_types(span),
            _ => {
                let count = self.relations(name, span)?;
                return Some(Value::Number(f64::from(count)));
            }
        };
        Some(self.emit(Op::Input(input), &[], span))
    }

    /// Reports that the graph or its edges do not have what is asked for.
    fn lacks<T>(&mut self, message: impl Into<String>, help: &str, span: Span) -> Option<T> {
        self.report(Diagnostic::new("E0312", message).at(span).help(help));
        None
    }

    /// The columns of the vertices' types; `None` after reporting that vertices have no types.
    fn vertex_types(&mut self, span: Span) -> Option<Value<'a>> {
        let len = self.facts.vertex_types;
        if len == 0 {
            let message = "`vertex_types` needs types of vertices, which the graph does not have";
            let help = "set `vertex_types = N` for statistics, or add the array `vertex_type` to a graph file";
            return self.lacks(message, help, span);
        }
        let features = self.op(Op::Input(Input::Features), &[], span)?;
        let start = self.facts.features - len;
        Some(self.emit(Op::SliceCols { start, len }, &[features], span))
    }

    /// The number of edge types; `None` after reporting that edges have no types.
    pub fn relations(&mut self, name: &str, span: Span) -> Option<u32> {
        if self.facts.relations > 0 {
            return Some(self.facts.relations);
        }
        let message = format!("`{name}` needs edge types, which the graph does not have");
        let help =
            "set `relations = N` for statistics, or add the array `edge_type` to a graph file";
        self.lacks(message, help, span)
    }

    /// The edges of the layer, with their types; `None` after reporting that they have none.
    pub fn typed_edges(&mut self, name: &str, span: Span) -> Option<Relations> {
        let count = self.relations(name, span)?;
        if self.frame().edges == EdgeSet::Plain {
            return Some(Relations { count, all: false });
        }
        if let EdgeSet::Named(_) = self.frame().edges {
            let message =
                format!("`{name}` is in a layer on a named set of edges, which have no types");
            let help = "only the edges that belong to no named set have types";
            return self.lacks(message, help, span);
        }
        let message =
            format!("`{name}` is in a layer on `edges + loops`, and self loops have no type");
        let help = "make it a layer on `edges`, and add the vertex's own term in it";
        self.lacks(message, help, span)
    }

    /// The edges of the layer, with their features; `None` after reporting that they have none.
    fn edge_columns(&mut self, span: Span) -> Option<EdgeColumns> {
        let count = self.facts.edge_features;
        if count == 0 {
            let message = "the edges of the graph have no features";
            let help = "set `edge_features = N` for statistics, or add the array `edge_features` to a graph file";
            return self.lacks(message, help, span);
        }
        let set = self.frame().edges;
        if set.loops() == 0 {
            let all = false;
            return Some(EdgeColumns { count, set, all });
        }
        let message =
            "`edge_features` is in a layer on `edges + loops`, and self loops have no features";
        let help = "make it a layer on `edges`, and add the vertex's own term in it";
        self.lacks(message, help, span)
    }

    /// The layer with a name. The standard library does not see the layers of the file.
    fn layer(&mut self, name: &str) -> Option<Layer<'a>> {
        let own = match self.frame().standard {
            true => None,
            false => self.module.layers().find(|l| l.name.name == name),
        };
        let found = own.map(|item| Layer {
            item,
            standard: false,
        });
        found.or_else(|| {
            let item = find_layer(standard::module(), name)?;
            Some(Layer {
                item,
                standard: true,
            })
        })
    }

    pub fn call(&mut self, piped: Option<&'a Expr>, call: &'a Call, span: Span) -> Value<'a> {
        let name = call.callee.name.as_str();
        let local = self.lookup(name);
        let (layer, function) = match &local {
            Some(Value::Poison) => return Value::Poison,
            Some(Value::Layer(layer)) => (Some(*layer), None),
            Some(Value::Word(word)) => (None, builtin(word)),
            // A variable that does not hold a function does not shadow a function of the same
            // name.
            _ => match self.layer(name) {
                Some(layer) => (Some(layer), None),
                None => (None, builtin(name)),
            },
        };
        match (layer, function, local) {
            (Some(layer), _, _) => {
                match self.bound(&layer_signature(layer.item), piped, call, span) {
                    Some(bound) => self.call_layer(layer, bound, span),
                    None => Value::Poison,
                }
            }
            (None, Some(entry), _) => {
                match self.bound(&builtin_signature(entry), piped, call, span) {
                    Some(bound) => self.call_builtin(entry, bound, span),
                    None => Value::Poison,
                }
            }
            (None, None, Some(value)) => {
                self.wrong_kind(&value, "a function or a layer", call.callee.span())
            }
            // The check of names has reported it.
            (None, None, None) => Value::Poison,
        }
    }

    pub fn bound(
        &mut self,
        signature: &Signature,
        piped: Option<&'a Expr>,
        call: &'a Call,
        span: Span,
    ) -> Option<Bound<'a>> {
        match bind(signature, piped, call, span) {
            Ok(bound) => Some(bound),
            Err(errors) => {
                errors.into_iter().for_each(|error| self.report(error));
                None
            }
        }
    }

    fn call_layer(&mut self, layer: Layer<'a>, bound: Bound<'a>, span: Span) -> Value<'a> {
        let Layer { item, standard } = layer;
        let name = &item.name.name;
        let args: Vec<_> = bound
            .into_iter()
            .map(|arg| arg.map(|e| self.eval(e)))
            .collect();
        if self.circular.contains(name) && !standard {
            return Value::Poison;
        }
        if self.frames.len() > MAX_CALLS && !self.stopped {
            self.too_large(span);
            return Value::Poison;
        }
        let Some(edges) = self.edges_of_call(item, args.get(item.params.len()), span) else {
            return Value::Poison;
        };
        let path = self.instance(name);
        self.frames.push(Frame {
            name: name.clone(),
            path,
            edges: if item.edges == LayerEdges::Looped {
                EdgeSet::Looped
            } else {
                edges
            },
            over: edges,
            standard,
            call: span,
            vars: Vec::new(),
            calls: BTreeMap::new(),
        });
        for (param, arg) in item.params.iter().zip(args) {
            let value = match (arg, &param.default) {
                (Some(value), _) => value,
                (None, Some(default)) => self.eval(default),
                (None, None) => Value::Poison,
            };
            self.define(&param.name.name, value);
        }
        let result = self.stmts(&item.body);
        self.frames.pop();
        result.unwrap_or(Value::Poison)
    }

    /// The path of the next call of a layer: `outer_1/layer_2`.
    pub fn instance(&mut self, name: &str) -> String {
        let frame = self.frame();
        let calls = frame.calls.entry(name.to_owned()).or_insert(0);
        *calls += 1;
        match frame.path.as_str() {
            "" => format!("{name}_{calls}"),
            path => format!("{path}/{name}_{calls}"),
        }
    }
}
