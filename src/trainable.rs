//! Checks that a model can be trained on its data, with any placement.

use crate::{Error, Loaded};
use gnnc_graph::GraphData;
use gnnc_runtime::check_labels;

impl Loaded {
    /// The data graph, if the model can be trained on it.
    ///
    /// # Errors
    /// A graph that is only statistics, has no training vertices, or whose labels do not fit the loss.
    pub fn trainable(&self) -> Result<&GraphData, Error> {
        let name = &self.workload.name;
        let data = self.data.as_ref().ok_or_else(|| {
            Error::Input(format!(
                "graph `{name}` is only statistics, which is enough to plan but not to train; \
                 name a file in the model or pass --graph FILE"
            ))
        })?;
        if self.workload.split[0] == 0 {
            return Err(Error::Input(format!(
                "the graph `{name}` has no training vertices, expected at least 1; save them as the \
                 array `train_mask` in an .npz file"
            )));
        }
        check_labels(data, &self.model.loss, self.workload.classes)?;
        Ok(data)
    }
}
