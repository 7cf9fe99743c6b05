//! What the log and the page of `gnnc train` say of a run.

use super::Train;
use gnnc::{Loaded, TrainOptions};
use serde_json::{Value, json};

impl Train {
    /// What the log and the page say of a run before its first epoch.
    pub(super) fn facts_of_run(&self, loaded: &Loaded, options: &TrainOptions) -> Value {
        let settings = &loaded.model.train;
        let of_model = settings.optimizer.learning_rate();
        json!({
            "version": gnnc::version(),
            "model": loaded.model.name,
            "graph": loaded.workload.name,
            "placement": options.placement.to_string(),
            "workers": options.workers,
            "threads": options.threads,
            "samplers": options.samplers(),
            // After a resume, the checkpoint's, which the summary has.
            "seed": options.seed.or((self.resume.is_none()).then_some(settings.seed)),
            "epochs": options.epochs.unwrap_or(settings.epochs),
            "evaluate_every": options.evaluate_every,
            "optimizer": settings.optimizer,
            "learning_rate": options.learning_rate.unwrap_or(of_model),
            "schedule": options.schedule.unwrap_or(settings.schedule).to_string(),
            "metric": loaded.metric().key(),
            "resume": self.resume,
        })
    }
}
