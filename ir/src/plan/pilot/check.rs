//! Reading and writing of pilot files, which a person may have edited.

use super::{End, PILOT_VERSION, Pilot, PilotRun, Piloted};
use crate::words::spelling::counted;
use thiserror::Error;

/// What stands above a pilot in its file.
const HEAD: &str = "# Written by `gnnc pilot`. Plan with it: gnnc plan MODEL --objective time-to-accuracy --pilot FILE\n";

/// A pilot file that cannot be used.
#[derive(Debug, Error)]
pub enum PilotError {
    /// Not TOML, or TOML that is not a pilot.
    #[error(
        "it is no pilot: {0}; make one with `gnnc pilot MODEL --target X --budget TIME --out FILE`"
    )]
    Toml(String),
    /// Written by another version.
    #[error(
        "it has version {found}, this gnnc reads version {PILOT_VERSION}; make it again with `gnnc pilot`"
    )]
    Version {
        /// The version that was found.
        found: String,
    },
    /// A number that no pilot writes.
    #[error("{what}; make it again with `gnnc pilot`")]
    Wrong {
        /// What was found, and what was expected.
        what: String,
    },
    /// Numbers that TOML cannot hold.
    #[error("a pilot cannot be written: {0}")]
    Write(String),
}

fn wrong(what: String) -> Result<(), PilotError> {
    Err(PilotError::Wrong { what })
}

impl Pilot {
    /// The pilot as a file.
    ///
    /// # Errors
    /// Numbers that TOML cannot hold, such as seeds beyond 63 bits.
    pub fn to_toml(&self) -> Result<String, PilotError> {
        let text = toml::to_string(self).map_err(|error| PilotError::Write(error.to_string()))?;
        Ok(format!("{HEAD}{text}"))
    }

    /// Reads a pilot.
    ///
    /// # Errors
    /// A text that is no pilot, has another version, or contradicts itself.
    pub fn from_toml(text: &str) -> Result<Self, PilotError> {
        let broken = |error: toml::de::Error| PilotError::Toml(error.to_string().trim().to_owned());
        let table: toml::Table = text.parse().map_err(broken)?;
        match table.get("version") {
            Some(toml::Value::Integer(found)) if u64::try_from(*found) == Ok(PILOT_VERSION) => {}
            Some(found) => {
                let found = found.to_string();
                return Err(PilotError::Version { found });
            }
            None => return Err(PilotError::Toml("`version` is missing".to_owned())),
        }
        let pilot: Self = toml::from_str(text).map_err(broken)?;
        pilot.check()?;
        Ok(pilot)
    }

    fn check(&self) -> Result<(), PilotError> {
        if let Err(expected) = self.metric.check_target(self.target) {
            return wrong(format!("`target` is {}, {expected}", self.target));
        }
        if self.seeds.is_empty() {
            return wrong("`seeds` is empty, expected at least one".to_owned());
        }
        if (1..self.seeds.len()).any(|n| self.seeds[..n].contains(&self.seeds[n])) {
            return wrong("`seeds` names a seed twice".to_owned());
        }
        let rates = &self.learning_rates;
        if let Some(rate) = rates.iter().find(|rate| !rate.is_finite() || **rate < 0.0) {
            return wrong(format!(
                "a learning rate is {rate}, expected a number from 0 on"
            ));
        }
        if self.evaluate_every == 0 {
            return wrong("`evaluate_every` is 0, expected at least 1".to_owned());
        }
        let seconds = [self.budget_seconds.0, self.used_seconds.0];
        if let Some(found) = seconds.iter().find(|s| !s.is_finite() || **s < 0.0) {
            return wrong(format!("a time is {found} s, expected a number from 0 on"));
        }
        for (n, piloted) in self.classes.iter().enumerate() {
            if self.classes[..n]
                .iter()
                .any(|other| other.class == piloted.class)
            {
                return wrong(format!("the class `{}` is there twice", piloted.class));
            }
            if piloted.steps_per_epoch == 0 {
                return wrong(format!(
                    "`steps_per_epoch` of `{}` is 0, expected at least 1",
                    piloted.class
                ));
            }
            for (n, run) in piloted.runs.iter().enumerate() {
                self.check_run(piloted, run, &piloted.runs[..n])?;
            }
        }
        Ok(())
    }

    fn check_run(
        &self,
        piloted: &Piloted,
        run: &PilotRun,
        before: &[PilotRun],
    ) -> Result<(), PilotError> {
        let of = format!(
            "of `{}` with seed {} and learning rate {}",
            piloted.class, run.seed, run.learning_rate
        );
        let same =
            |other: &PilotRun| other.seed == run.seed && other.learning_rate == run.learning_rate;
        if before.iter().any(same) {
            return wrong(format!("the run {of} is there twice"));
        }
        if !self.seeds.contains(&run.seed) {
            return wrong(format!(
                "the run {of} has a seed that `seeds` does not list"
            ));
        }
        if !self.learning_rates.contains(&run.learning_rate) {
            return wrong(format!(
                "the run {of} has a rate that `learning_rates` does not list"
            ));
        }
        let seconds = [run.seconds.0, run.evaluation_seconds.0];
        if seconds.iter().any(|s| !s.is_finite() || *s < 0.0) {
            return wrong(format!("a time {of} is no number from 0 on"));
        }
        let steps = run.epochs.checked_mul(piloted.steps_per_epoch);
        if steps != Some(run.steps) {
            return wrong(format!(
                "`steps` {of} is {}, expected {} of {}",
                run.steps,
                counted(run.epochs, "epoch"),
                counted(piloted.steps_per_epoch, "step")
            ));
        }
        let curve = &run.curve;
        if curve.scores.iter().any(|score| !score.is_finite()) {
            return wrong(format!("a score {of} is no finite number"));
        }
        let ascending = curve.steps.is_sorted_by(|a, b| a < b);
        let last = curve.steps.last().copied().unwrap_or(0);
        if curve.steps.len() != curve.scores.len() || !ascending || last > run.steps {
            return wrong(format!(
                "the curve {of} has {} and {}, expected as many, and steps that ascend to {} at most",
                counted(curve.steps.len(), "step"),
                counted(curve.scores.len(), "score"),
                run.steps
            ));
        }
        let reaches = |score: &f64| self.metric.reaches(*score, self.target);
        let first = curve.scores.iter().position(reaches);
        let at_end = first.is_some_and(|first| first + 1 == curve.scores.len());
        match (run.end == End::Reached, first) {
            (true, Some(_)) if at_end && last == run.steps => Ok(()),
            (false, None) => Ok(()),
            (true, _) => wrong(format!(
                "the run {of} ended as it reached the target, but its curve does not at its last step only"
            )),
            (false, Some(_)) => wrong(format!(
                "the run {of} did not reach the target, but its curve does"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Curve, LeftOut, MadeFor};
    use super::*;
    use crate::plan::StatisticalClass;
    use crate::words::metric::Metric;
    use crate::words::schedule::Schedule;
    use crate::words::units::Seconds;

    fn pilot() -> Pilot {
        let run = |seed, end, scores: &[f64]| PilotRun {
            learning_rate: 0.01,
            seed,
            end,
            epochs: 4,
            steps: 4,
            seconds: Seconds(0.125),
            evaluation_seconds: Seconds(0.0625),
            curve: Curve {
                steps: vec![2, 4],
                scores: scores.to_vec(),
            },
        };
        Pilot {
            version: PILOT_VERSION,
            metric: Metric::Accuracy,
            target: 0.75,
            seeds: vec![0, 1],
            learning_rates: vec![0.01, 0.03],
            epochs: 100,
            evaluate_every: 2,
            budget_seconds: Seconds(60.0),
            used_seconds: Seconds(1.5),
            interrupted: false,
            made_for: MadeFor {
                gnnc: "0.1.0".to_owned(),
                model: "gcn".to_owned(),
                fingerprint: "00aa".to_owned(),
                graph: "cora".to_owned(),
                graph_key: "bb00".to_owned(),
                judged_by: None,
                schedule: Schedule::Constant,
                patience: Some(7),
            },
            classes: vec![Piloted {
                name: "whole graph".to_owned(),
                steps_per_epoch: 1,
                class: StatisticalClass::EXACT,
                runs: vec![
                    run(0, End::Reached, &[0.5, 0.75]),
                    run(1, End::Time, &[0.5, 0.7499]),
                ],
            }],
            left_out: vec![LeftOut {
                what: "stale copies".to_owned(),
                reason: "one worker has none".to_owned(),
            }],
        }
    }

    #[test]
    fn pilots_survive_their_file() {
        let text = pilot().to_toml().unwrap();
        assert!(text.starts_with("# Written by `gnnc pilot`."), "{text}");
        assert_eq!(Pilot::from_toml(&text).unwrap(), pilot());
        assert_eq!(Pilot::from_toml(&text).unwrap().to_toml().unwrap(), text);
    }

    #[test]
    fn edited_pilots_are_refused_with_a_sentence() {
        let text = pilot().to_toml().unwrap();
        let refused = |from: &str, to: &str, says: &str| {
            let edited = text.replacen(from, to, 1);
            assert_ne!(edited, text, "{from}");
            let said = Pilot::from_toml(&edited).unwrap_err().to_string();
            assert!(said.contains(says), "{from}: {said}");
        };
        refused(
            "version = 1",
            "version = 2",
            "version 2, this gnnc reads version 1",
        );
        refused("version = 1", "version = \"1\"", "version \"1\"");
        refused("version = 1\n", "", "`version` is missing");
        refused("version = 1", "version = ", "it is no pilot: ");
        refused("target", "goal", "unknown field `goal`");
        refused("target = 0.75", "target = 75.0", "`target` is 75");
        refused("target = 0.75", "target = nan", "`target` is NaN");
        refused("seeds = [0, 1]", "seeds = []", "`seeds` is empty");
        refused(
            "seeds = [0, 1]",
            "seeds = [0, 2]",
            "seed 1 and learning rate 0.01 has a seed",
        );
        refused(
            "learning_rates = [0.01",
            "learning_rates = [0.02",
            "has a rate",
        );
        refused(
            "evaluate_every = 2",
            "evaluate_every = 0",
            "`evaluate_every` is 0",
        );
        refused(
            "budget_seconds = 60",
            "budget_seconds = -60",
            "a time is -60",
        );
        refused("seconds = 0.125", "seconds = inf", "is no number from 0 on");
        refused(
            "steps_per_epoch = 1",
            "steps_per_epoch = 0",
            "`steps_per_epoch`",
        );
        refused(
            "steps_per_epoch = 1",
            "steps_per_epoch = 2",
            "expected 4 epochs of 2 steps",
        );
        refused("seed = 1", "seed = 0", "is there twice");
        refused(
            "end = \"reached\"",
            "end = \"time\"",
            "did not reach the target, but its curve does",
        );
        refused(
            "end = \"time\"",
            "end = \"reached\"",
            "but its curve does not",
        );
        refused(
            "scores = [0.5, 0.75]",
            "scores = [0.8, 0.75]",
            "but its curve does not",
        );
        refused("steps = [2, 4]", "steps = [4, 2]", "steps that ascend to 4");
        refused("steps = [2, 4]", "steps = [2, 5]", "steps that ascend to 4");
        refused("steps = [2, 4]", "steps = [4]", "1 step and 2 scores");
        refused(
            "kind = \"exact\"",
            "kind = \"exactly\"",
            "unknown variant `exactly`",
        );
        refused("seeds = [0, 1]", "seeds = [0, 1, 0]", "a seed twice");
        refused(
            "learning_rates = [0.01",
            "learning_rates = [-0.01",
            "a learning rate is -0.01",
        );
        refused(
            "scores = [0.5, 0.7499]",
            "scores = [nan, 0.7499]",
            "no finite number",
        );
        assert!(Pilot::from_toml("").is_err());
    }
}
