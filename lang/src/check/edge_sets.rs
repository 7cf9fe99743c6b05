//! The edges that a layer runs over.

use super::elaborator::Elaborator;
use super::value::Value;
use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::ast::{LayerEdges, LayerItem};
use gnnc_ir::words::spelling::{did_you_mean, one_of};
use gnnc_ir::words::types::{EdgeSet, MAX_SETS};

impl<'a> Elaborator<'a, '_> {
    /// The edges, without self loops, of a call of a layer with an argument `over`, if it has one.
    /// `None` after reporting an error.
    pub fn edges_of_call(
        &mut self,
        layer: &LayerItem,
        over: Option<&Option<Value<'a>>>,
        span: Span,
    ) -> Option<EdgeSet> {
        let name = &layer.name.name;
        let over = match over {
            Some(Some(Value::Word(set))) => Some(set),
            Some(Some(Value::Poison)) => return None,
            Some(Some(other)) => {
                self.wrong_kind(other, "the name of a set of edges, in quotes", span);
                return None;
            }
            Some(None) | None => None,
        };
        if let LayerEdges::Named(set) = &layer.edges {
            if over.is_some() {
                let message = format!("`{name}` runs over the edges `{}`, and no others", set.name);
                let help = "leave out `over`";
                self.report(Diagnostic::new("E0312", message).at(span).help(help));
                return None;
            }
            return self.named_set(&set.name, span);
        }
        let edges = match over {
            Some(set) => self.named_set(set, span)?,
            None => self.frame().over,
        };
        if let (LayerEdges::Looped, EdgeSet::Named(_)) = (&layer.edges, edges) {
            let message =
                format!("`{name}` runs over `edges + loops`, and a named set has no self loops");
            let help = "use a layer on `edges`, such as `sage_conv`, or write one";
            self.report(Diagnostic::new("E0312", message).at(span).help(help));
            return None;
        }
        Some(edges)
    }

    /// The set with a name; `None` after reporting that the graph has none.
    fn named_set(&mut self, name: &str, span: Span) -> Option<EdgeSet> {
        let found = match &self.facts.edge_sets {
            Some(known) => known.iter().position(|set| set == name),
            None => self.new_set(name),
        };
        if let Some(place) = found {
            return Some(EdgeSet::Named(place as u8 + 1));
        }
        let known = self.facts.edge_sets.as_ref().unwrap_or(&self.named_sets);
        let message = format!("the graph has no set of edges `{name}`");
        let names = || known.iter().map(String::as_str);
        let near = did_you_mean(name, names());
        let help = match (near, known.is_empty(), name) {
            (Some(near), ..) => near,
            (None, true, GRAPHS) => {
                "a file of many graphs has it: add the array `batch`, the graph of each vertex"
                    .to_owned()
            }
            (None, true, _) => {
                "name sets in the array `edge_sets` of a graph file, or declare `edge_sets` in statistics"
                    .to_owned()
            }
            (None, false, _) => format!("it has {}", one_of(names())),
        };
        self.report(Diagnostic::new("E0312", message).at(span).help(help));
        None
    }

    /// The place of a set of a graph whose sets are not known; `None` if there are too many.
    fn new_set(&mut self, name: &str) -> Option<usize> {
        let sets = &mut self.named_sets;
        if let Some(place) = sets.iter().position(|set| set == name) {
            return Some(place);
        }
        (sets.len() < MAX_SETS).then(|| {
            sets.push(name.to_owned());
            sets.len() - 1
        })
    }
}

/// The edges from the vertices of each graph to the vertex that stands for the graph.
const GRAPHS: &str = "graphs";
