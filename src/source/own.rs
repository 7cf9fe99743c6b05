//! A graph for a model that was trained on another one.

use super::Source;
use crate::Error;
use gnnc_graph::{GraphData, Labels, Names, read};
use gnnc_ir::Workload;
use gnnc_ir::graph::model::GraphSource;
use std::path::Path;

/// What a model was trained on.
#[derive(Default)]
struct Own {
    features: u32,
    classes: u32,
    class_names: Names,
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
            // The graph says itself what its labels are.
            Err(_) if !unlabeled => return Ok(()),
            Err(error) => {
                return Err(Error::Input(format!(
                    "the graph {} has no labels, so the model's own graph says what its classes are, but this \
                     cannot be read: {error}",
                    path.display()
                )));
            }
        };
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
            if !(data.class_names.is_empty() || own.class_names.is_empty()) {
                data.number_classes(&own.class_names)?;
            } else if data.class_names.is_empty() {
                data.class_names = own.class_names;
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
            }),
            Some(GraphSource::Data { path, options, .. }) => {
                let path = self.beside(&path);
                let (own, _) = gnnc_graph::import::open(&path, &read::LoadOptions::default())?;
                let features = match options.identity_features {
                    true => 0,
                    false => own.features.columns(),
                };
                Ok(Own {
                    features,
                    classes: own.classes(),
                    class_names: own.class_names,
                })
            }
        }
    }
}
