//! A graph for a model that was trained on another one.

use super::{Source, open};
use crate::Error;
use gnnc_graph::{GraphData, Labels, Names};
use gnnc_ir::Workload;
use gnnc_ir::graph::model::GraphSource;
use std::path::Path;

/// What a model was trained on.
#[derive(Default)]
struct Own {
    features: u32,
    classes: u32,
    class_names: Names,
    vertex_types: Names,
    /// Whether its labels were read, and not only counted.
    is_known: bool,
}

/// The names of classes; without names, their numbers.
fn named(names: &Names, classes: u32) -> Names {
    match names.is_empty() {
        true => (0..classes).map(|class| class.to_string()).collect(),
        false => names.clone(),
    }
}

/// Whether classes can be found by name: both graphs name them, or those of one are whole numbers, as those
/// of a graph without names are.
fn comparable(one: &Names, other: &Names) -> bool {
    let whole = |names: &Names| names.iter().all(|name| name.parse::<i64>().is_ok());
    match (one.is_empty(), other.is_empty()) {
        (true, true) => false,
        (false, false) => true,
        (true, false) => whole(other),
        (false, true) => whole(one),
    }
}

impl Source {
    /// Numbers the classes of `data`, the graph at `path`, as the model's own graph does. If it has no
    /// labels, what there is to predict is what those of the model's own graph say.
    ///
    /// # Errors
    /// Another number of features; classes that the model does not know; no labels, and an own graph that
    /// cannot be read.
    pub(super) fn fit(
        &self,
        path: &Path,
        data: &mut GraphData,
        workload: &mut Workload,
    ) -> Result<(), Error> {
        let unlabeled = workload.classes == 0;
        let own = match self.own() {
            Ok(own) => own,
            // Numbers are what they are, names may have other numbers there.
            Err(_) if !unlabeled && data.class_names.is_empty() && data.vertex_types.is_empty() => {
                return Ok(());
            }
            Err(error) if !unlabeled => {
                return Err(Error::Input(format!(
                    "the classes or the types of vertices of {} have names, and the model's own graph, which says how these are numbered, \
                     cannot be read: {error}",
                    path.display()
                )));
            }
            Err(error) => {
                return Err(Error::Input(format!(
                    "the graph {} has no labels, so the model's own graph says what its classes are, but this \
                     cannot be read: {error}",
                    path.display()
                )));
            }
        };
        if own.is_known && data.vertex_types != own.vertex_types {
            data.number_types(&own.vertex_types)?;
            *workload = gnnc_graph::summarise(data, &[])?;
        }
        if own.features > 0 && workload.features > 0 && own.features != workload.features {
            return Err(Error::Input(format!(
                "the graph {} has {} features a vertex, expected {}, as many as the model's own graph has",
                path.display(),
                workload.features,
                own.features
            )));
        }
        if unlabeled {
            data.labels = Labels::None;
            (workload.classes, data.class_names) = (own.classes, own.class_names);
        } else if matches!(data.labels, Labels::Single(_)) {
            if own.is_known && comparable(&data.class_names, &own.class_names) {
                data.class_names = named(&data.class_names, data.classes());
                data.number_classes(&named(&own.class_names, own.classes))?;
            }
            workload.classes = data.classes().max(own.classes);
        }
        Ok(())
    }

    /// What the model's own graph has; nothing if it names none.
    fn own(&self) -> Result<Own, Error> {
        match self.module.graph_source() {
            None => Ok(Own::default()),
            Some(GraphSource::Statistics(own)) => Ok(Own {
                features: own.features,
                classes: own.classes,
                class_names: Names::default(),
                vertex_types: Names::default(),
                is_known: false,
            }),
            Some(GraphSource::Data { path, options, .. }) => {
                let path = self.beside(&path);
                let (own, _) = open(&path, &options)?;
                let features = match options.identity_features {
                    true => 0,
                    false => own.features.columns(),
                };
                Ok(Own {
                    features,
                    classes: own.classes(),
                    class_names: own.class_names,
                    vertex_types: own.vertex_types,
                    is_known: true,
                })
            }
        }
    }
}
