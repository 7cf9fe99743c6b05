//! A session's best evaluation.

use super::Session;
use crate::report::{Best, Judged, Metrics, Plateau};

impl Session {
    /// Vertices of the whole graph.
    pub fn vertices(&self) -> usize {
        self.vertices
    }

    /// The best evaluation so far.
    pub fn best(&self) -> Option<Best> {
        self.best
    }

    /// How the run has waited for better evaluations, if it counted them.
    pub fn plateau(&self) -> Plateau {
        self.plateau
    }

    /// The same, to count one.
    pub fn plateau_mut(&mut self) -> &mut Plateau {
        &mut self.plateau
    }

    /// Keeps an evaluation of the current parameters if it is the best so far.
    pub fn choose(&mut self, metrics: Metrics, judged: Option<Judged>) {
        let found = Best {
            epoch: self.epoch,
            metrics,
            judged,
        };
        if self.best.is_none_or(|best| found.beats(&best)) {
            self.best = Some(found);
        }
    }
}
