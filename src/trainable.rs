//! Checks that a model can be trained on its data, with any placement, or evaluated on it.

use crate::{Error, Loaded};
use gnnc_graph::{GraphData, Labels};
use gnnc_runtime::check_labels;

impl Loaded {
    /// The data graph, if the model can be trained on it.
    ///
    /// # Errors
    /// A graph that is only statistics, has no training vertices, or whose labels do not fit the loss.
    pub fn trainable(&self) -> Result<&GraphData, Error> {
        let name = &self.workload.name;
        let data = self.graph_data("train")?;
        if self.workload.split[0] == 0 {
            return Err(Error::Input(format!(
                "the graph `{name}` has no training vertices, expected at least 1; save them as the \
                 array `train_mask` in an .npz file"
            )));
        }
        check_labels(data, &self.model.loss, self.workload.classes)?;
        Ok(data)
    }

    /// The data graph, if predictions on it can be scored.
    ///
    /// # Errors
    /// A graph that is only statistics, or has no labels.
    pub fn labeled(&self) -> Result<&GraphData, Error> {
        let data = self.graph_data("evaluate")?;
        match data.labels {
            Labels::None => Err(Error::Input(format!(
                "the graph `{}` has no labels, which predictions would be compared with; `gnnc predict` writes them \
                 without",
                self.workload.name
            ))),
            Labels::Single(_) | Labels::Values { .. } => Ok(data),
        }
    }

    /// The data graph, to do something with it.
    ///
    /// # Errors
    /// A graph that is only statistics.
    pub(crate) fn graph_data(&self, what: &str) -> Result<&GraphData, Error> {
        self.data.as_ref().ok_or_else(|| {
            Error::Input(format!(
                "graph `{}` is only statistics, which is enough to plan but not to {what}; \
                 name a file in the model or pass --graph FILE",
                self.workload.name
            ))
        })
    }
}
