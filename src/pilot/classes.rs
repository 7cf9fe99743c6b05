//! The classes that a pilot tries, and what it cannot try.

use super::{PilotOptions, left_out};
use crate::training::no_logits;
use crate::{Compiled, Error, Loaded};
use gnnc_ir::graph::model::Relaxation;
use gnnc_ir::plan::{LeftOut, Method, SampledClass, StatisticalClass};
use gnnc_ir::words::sampling::{Roots, SamplingSettings};
use gnnc_planner::placement::{Stages, on_one_worker};

/// Chunks of pipelines, if nothing else is asked for: those of four stages.
const STAGES: u32 = 4;

/// What a pilot tries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tried {
    /// The classes, in order.
    pub classes: Vec<StatisticalClass>,
    /// What is permitted and cannot be tried.
    pub left_out: Vec<LeftOut>,
}

/// The classes that the model and the options permit, as far as one worker can train them.
///
/// # Errors
/// Batches that do not fit the model.
pub fn classes_of(
    loaded: &Loaded,
    compiled: &Compiled,
    options: &PilotOptions,
) -> Result<Tried, Error> {
    let mut tried = Tried::default();
    let permits = |relaxation: &Relaxation| {
        options.allow.contains(relaxation) || loaded.model.train.allow.contains(relaxation)
    };
    let stale = permits(&Relaxation::Stale);
    tried.add(Method::Exact);
    if permits(&Relaxation::Decouple) {
        match &compiled.decoupled {
            Ok(_) => tried.add(Method::Decoupled),
            Err(why) => tried.left_out.push(left_out("decoupled", why.to_string())),
        }
    }
    if stale {
        tried.add_stale(loaded, compiled, options);
    }
    if permits(&Relaxation::Quantise) {
        tried.left_out.push(left_out(
            "rows sent in fewer bits (--wire)",
            "rows are sent between workers, and a pilot has one worker",
        ));
    }
    if permits(&Relaxation::Sample) {
        let of_model = &loaded.model.train.sampling;
        let settings = options.knobs.sampling.clone().or(of_model);
        let sampled_scores = !settings.eval_fanouts.is_empty();
        if let Some(metric) = loaded.model.train.metric.filter(|_| sampled_scores) {
            return Err(no_logits(metric));
        }
        tried.add_sampled(compiled, options, &settings, stale)?;
    }
    for class in &mut tried.classes {
        class.storage = options.knobs.storage;
        let spec = on_one_worker(class).map_err(|why| Error::Input(format!("{class}: {why}")))?;
        // Refuses fanouts that are not those of the model's hops, before any run.
        compiled.program(&spec)?;
    }
    Ok(tried)
}

impl Tried {
    fn add(&mut self, method: Method) {
        let class = StatisticalClass {
            method,
            ..StatisticalClass::EXACT
        };
        if !self.classes.contains(&class) {
            self.classes.push(class);
        }
    }

    fn add_stale(&mut self, loaded: &Loaded, compiled: &Compiled, options: &PilotOptions) {
        let knobs = &options.knobs;
        let usual = Stages::new(STAGES);
        let vertices = u32::try_from(loaded.workload.vertices).unwrap_or(u32::MAX);
        match compiled.layers() {
            0 | 1 => self.left_out.push(left_out(
                "histories (pipeline, hybrid)",
                "the model has no layers to divide among stages",
            )),
            _ => self.add(Method::Histories {
                chunks: knobs.chunks.unwrap_or(usual.chunks.min(vertices)),
                interval: knobs.interval.unwrap_or(usual.interval),
                shuffle: knobs.shuffle.unwrap_or(usual.shuffle),
                division: None,
            }),
        }
        self.left_out.push(left_out(
            "stale copies (skip-broadcast)",
            "copies are rows of other workers, and a pilot has one worker",
        ));
    }

    fn add_sampled(
        &mut self,
        compiled: &Compiled,
        options: &PilotOptions,
        settings: &SamplingSettings,
        stale: bool,
    ) -> Result<(), Error> {
        let what = "sampled batches (minibatch, push-pull on batches)";
        let hops = match compiled.hops(false) {
            Ok(hops) => hops,
            Err(why) => {
                self.left_out.push(left_out(what, why.to_string()));
                return Ok(());
            }
        };
        let mut sizes = options.batches.clone();
        if sizes.is_empty() {
            sizes.extend(settings.batch);
        }
        if sizes.is_empty() || settings.fanouts.is_empty() {
            self.left_out.push(left_out(
                what,
                "their size and their fanouts are not known; give --batch 1000 --fanouts 25,10 or the like, or `batch` \
                 and `fanouts` in the model's train block",
            ));
            return Ok(());
        }
        if settings.roots == Some(Roots::Own) {
            self.left_out.push(left_out(
                "batches with roots own on several workers",
                "the seeds of a step depend on the partition; on one worker they are those of roots home",
            ));
        }
        let plain = SamplingSettings {
            roots: None,
            delay: None,
            beforehand: None,
            ..settings.clone()
        };
        let mut ways = vec![plain.clone()];
        if settings.beforehand == Some(true) {
            let mut beforehand = SamplingSettings {
                beforehand: Some(true),
                ..plain
            };
            match compiled.hops(true) {
                Err(why) => self
                    .left_out
                    .push(left_out("static batches", why.to_string())),
                // With a fanout for each hop, batches without what is made beforehand are tried as well.
                Ok(fewer) if settings.fanouts.len() == hops => {
                    beforehand.fanouts.truncate(fewer);
                    ways.push(beforehand);
                }
                Ok(_) => ways = vec![beforehand],
            }
        }
        let delay = settings.delay.filter(|delay| *delay > 0);
        if let Some(delay) = delay.filter(|_| !stale) {
            self.left_out.push(left_out(
                format!("batches with weights that are {delay} late"),
                "--delay needs --allow stale",
            ));
        }
        let late = ways.clone().into_iter().map(|way| SamplingSettings {
            delay: delay.filter(|_| stale),
            ..way
        });
        let late: Vec<SamplingSettings> = late.filter(|way| way.delay.is_some()).collect();
        ways.extend(late);
        for batch in sizes {
            for way in &ways {
                let settings = SamplingSettings {
                    batch: Some(batch),
                    ..way.clone()
                };
                let class = SampledClass::of(&settings, None);
                class
                    .into_iter()
                    .for_each(|class| self.add(Method::Sampled(class)));
            }
        }
        Ok(())
    }
}
