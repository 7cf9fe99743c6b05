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
        self.fits(self.graph_data("train")?)
    }

    /// The same for a graph in a folder of parts, whose edges are not there.
    ///
    /// # Errors
    /// As [`Loaded::trainable`].
    pub(crate) fn trainable_vertices(&self) -> Result<&GraphData, Error> {
        match &self.by_part {
            Some(by_part) => self.fits(&by_part.vertices),
            None => self.trainable(),
        }
    }

    fn fits<'a>(&self, data: &'a GraphData) -> Result<&'a GraphData, Error> {
        let name = &self.workload.name;
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
        self.data.as_ref().ok_or_else(|| match &self.by_part {
            Some(_) => Error::Input(format!(
                "graph `{}` is a folder of parts, which is enough to plan and to train with --placement graph, push-pull or minibatch, \
                 but not to {what} like this; name the file of the whole graph",
                self.workload.name
            )),
            None => Error::Input(format!(
                "graph `{}` is only statistics, which is enough to plan but not to {what}; \
                 name a file in the model or pass --graph FILE",
                self.workload.name
            )),
        })
    }
}
