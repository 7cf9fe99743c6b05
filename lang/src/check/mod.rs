//! From syntax to a checked [`Model`]: names, settings, shapes, and the operator graph.
//!
//! ```
//! use gnnc_ir::workload::GraphFacts;
//! use gnnc_lang::{check, syntax};
//! let (module, _) = syntax::parse(
//!     "graph g { vertices = 8 edges = 20 features = 4 classes = 2 }
//!      model gcn(hidden = 16) on g {
//!        let h = x |> gcn_conv(hidden) |> relu
//!        loss cross_entropy(gcn_conv(h, classes), labels, on = train)
//!      }",
//! );
//! let facts = GraphFacts { features: 4, classes: 2, vertex_types: 0, relations: 0, edge_features: 0, edge_sets: None };
//! let (model, diagnostics) = check::elaborate(&module, &facts, &[("hidden".to_owned(), 8.0)]);
//! assert!(diagnostics.is_empty());
//! assert_eq!(model.map(|m| m.graph.trainable()), Some(4 * 8 + 8 + 8 * 2 + 2));
//! ```

mod args;
mod arithmetic;
mod bind;
pub mod builtins;
mod calls;
mod cycles;
mod edge_sets;
mod elaborator;
mod functions;
mod losses;
mod names;
mod overrides;
mod parameters;
mod repeat;
mod settings;
mod source;
mod standard;
mod value;

pub use standard::TEXT as STANDARD_LAYERS;

use crate::diagnostic::{self, Diagnostic, has_errors};
use crate::syntax::Module;
use elaborator::Elaborator;
use gnnc_ir::graph::model::Model;
use gnnc_ir::workload::GraphFacts;

/// Checks a module and builds the operator graph of its model.
///
/// `facts` are those of the model's data graph ([`GraphFacts::PLACEHOLDER`] if they are not
/// known); `overrides` are values of model parameters that take the place of the defaults, and numbers
/// of the `train` block, whose names begin with `train.`.
/// There is a model exactly if no diagnostic is an error. Layers that the model does not call
/// are checked for names and arguments, not for shapes.
pub fn elaborate(
    module: &Module,
    facts: &GraphFacts,
    overrides: &[(String, f64)],
) -> (Option<Model>, Vec<Diagnostic>) {
    let mut diagnostics = Vec::new();
    names::check(module, &mut diagnostics);
    let circular = cycles::check(module, &mut diagnostics);
    let train = settings::train(module, overrides, &mut diagnostics);
    for graph in module.graphs() {
        source::source(graph, &mut diagnostics);
    }
    let mut models = module.models();
    let model = match models.next() {
        Some(first) => {
            for other in models {
                let second = Diagnostic::new("E0210", "a file has one model, this is a second one");
                let second = second
                    .at(other.name.span())
                    .label(first.name.span(), "the first");
                diagnostics.push(second.help("move it to its own file"));
            }
            if module.model_graph().is_none() {
                let name = &first.graph;
                let unknown = format!("there is no graph `{}`", name.name);
                let graphs = module.graphs().map(|g| g.name.name.as_str());
                let help = gnnc_ir::words::spelling::did_you_mean(&name.name, graphs)
                    .unwrap_or_else(|| format!("define it: `graph {} = \"file.npz\"`", name.name));
                diagnostics.push(Diagnostic::new("E0209", unknown).at(name.span()).help(help));
            }
            let elaborator = Elaborator::new(module, facts.clone(), circular, &mut diagnostics);
            elaborator.model(first, overrides, train)
        }
        None => {
            let help = "add `model name(..) on graph { .. }`";
            diagnostics.push(Diagnostic::new("E0210", "the file has no model").help(help));
            None
        }
    };
    diagnostic::tidy(&mut diagnostics);
    let model = model.filter(|_| !has_errors(&diagnostics));
    (model, diagnostics)
}
