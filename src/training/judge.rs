//! Scores of evaluations by a metric that counts cannot give.

use crate::metrics::{self, Scored};
use crate::{Error, Loaded};
use gnnc_graph::{GraphData, Labels};
use gnnc_ir::graph::op::LabelKind;
use gnnc_ir::program::Program;
use gnnc_ir::words::metric::Metric;
use gnnc_runtime::{Judged, Session};

/// Evaluations on batches, which a metric cannot score.
pub(crate) fn no_logits(metric: Metric) -> Error {
    Error::Input(format!(
        "the metric {} needs the logits of all vertices, which evaluations on batches do not keep; leave out the metric \
         or the fanouts of evaluations",
        metric.name()
    ))
}

/// A metric with the labels and the split to compute it on.
pub(crate) struct Judge {
    metric: Metric,
    labels: Labels,
    kind: LabelKind,
    /// The group of each vertex, among whose members it is ranked.
    rivals: Vec<u32>,
    /// The training, validation and test vertices.
    splits: [Vec<usize>; 3],
}

impl Judge {
    /// The judge of a model, if it names a metric.
    ///
    /// # Errors
    /// A metric that does not fit the labels.
    pub(crate) fn new(loaded: &Loaded, data: &GraphData) -> Result<Option<Self>, Error> {
        let Some(metric) = loaded.model.train.metric else {
            return Ok(None);
        };
        metrics::fits(metric, loaded.model.loss.labels()).map_err(Error::Input)?;
        let of = |mask: &Vec<bool>| (0..mask.len()).filter(|v| mask[*v]).collect();
        Ok(Some(Self {
            metric,
            labels: data.labels.clone(),
            kind: loaded.model.loss.labels(),
            rivals: data.rivals(),
            splits: [&data.train, &data.val, &data.test].map(of),
        }))
    }

    /// Checks that some program keeps logits to score.
    ///
    /// # Errors
    /// Evaluations on batches.
    pub(crate) fn fits(&self, programs: &[Program]) -> Result<(), Error> {
        if programs.iter().any(|program| program.logits.is_some()) {
            return Ok(());
        }
        Err(no_logits(self.metric))
    }

    /// Scores the logits of the evaluation that a session has just made.
    ///
    /// # Errors
    /// A rank that failed.
    pub(crate) fn judge(&self, session: &mut Session) -> Result<Judged, Error> {
        let logits = session.logits()?;
        let classes = (logits.len() / session.vertices().max(1)).max(1);
        let scored = Scored {
            logits: &logits,
            classes,
            labels: &self.labels,
            kind: self.kind,
            rivals: &self.rivals,
        };
        let score = |vertices: &Vec<usize>| scored.score(self.metric, vertices.iter().copied());
        Ok(Judged {
            metric: self.metric,
            scores: self.splits.each_ref().map(score),
        })
    }
}
