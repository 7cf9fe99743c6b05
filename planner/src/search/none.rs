//! Explains why constraints leave nothing to price, and what to do about it.

use super::PlanRequest;
use crate::placement::{OnBatches, PlacementSpec, row};
use gnnc_ir::plan::Placement;
use gnnc_ir::words::sampling::SamplingSettings;
use gnnc_ir::words::spelling::counted;

impl PlanRequest<'_> {
    /// A constraint that the requested placement cannot follow, and what to do about it.
    pub fn useless(&self) -> Option<String> {
        let placement = self.pin.placement?;
        let mut asked = PlacementSpec {
            placement,
            ranks: self.pin.ranks.unwrap_or(self.cluster.devices()),
            knobs: self.pin.knobs.clone(),
        };
        // A placement that does with or without batches is tried on the whole graph as well.
        if row(placement).is_some_and(|row| row.batches == OnBatches::Either) {
            asked.knobs.sampling = SamplingSettings::default();
        }
        let useless = asked.without_effect()?;
        Some(format!(
            "placement {placement} {}; leave out {}={}{}",
            useless.why,
            useless.knob,
            useless.value,
            useless.instead("ask for")
        ))
    }

    /// Why no candidate satisfies the constraints, and which ones exist instead.
    pub fn why_none(&self) -> String {
        let devices = self.cluster.devices();
        let ranks = self.pin.ranks.unwrap_or(devices);
        let placement = self.pin.placement;
        let pinned = &self.pin.knobs;
        let staged = pinned.stages.is_some() || pinned.virtual_stages.is_some();
        if ranks > devices {
            return format!(
                "found {}, but the cluster has {}",
                counted(ranks, "rank"),
                counted(devices, "device")
            );
        }
        let mixes = placement.is_none_or(|p| row(p).is_some_and(|row| row.mixes));
        if self.pin.features.is_some() && (ranks == 1 || !mixes) {
            return "features= needs a mixture on several ranks; leave it out, or ask for placement \
                    mixed on several ranks"
                .to_owned();
        }
        let name = match placement {
            Some(placement) => format!("placement {placement}"),
            None => "the pinned candidate".to_owned(),
        };
        let alone = placement.is_some_and(|p| row(p).is_some_and(|row| row.alone));
        if ranks == 1 && !alone {
            return format!("{name} needs several ranks, found 1; ask for more devices");
        }
        if placement.is_some_and(|p| row(p).is_some_and(|row| row.samples())) {
            return format!(
                "{name} needs permission to sample, the seeds of a batch and a fanout for each hop; give \
                 --allow sample --batch 1000 --fanouts 25,10, or the same in the model's train block"
            );
        }
        let has_stages = match placement {
            Some(placement) => row(placement).is_some_and(|row| row.staged()),
            None => staged,
        };
        if has_stages {
            return self.why_no_stages(&name, ranks);
        }
        if staged {
            return format!(
                "{name} has no stages; leave out stages= and virtual-stages=, or ask for placement \
                 pipeline or hybrid"
            );
        }
        format!("{name} is not cut into chunks; leave out chunks=")
    }

    /// Why this many ranks cannot be divided into stages.
    fn why_no_stages(&self, name: &str, ranks: u32) -> String {
        let layers = self.layers;
        if let Some(stages) = self.pin.knobs.stages {
            if stages < 2 || !ranks.is_multiple_of(stages) {
                return format!(
                    "found {} on {}, expected a number of stages above 1 that divides {ranks}",
                    counted(stages, "stage"),
                    counted(ranks, "rank")
                );
            }
            if stages == ranks {
                return format!(
                    "{name} has several ranks per stage, but {stages} stages on {ranks} ranks have \
                     one each; ask for fewer stages, or for placement pipeline"
                );
            }
            return format!(
                "{name} has one stage per rank, found {stages} stages on {ranks} ranks; \
                 ask for {stages} ranks, or for placement hybrid"
            );
        }
        if layers < 2 {
            return format!(
                "{name} divides layers among stages, but the model has {} to divide; ask for \
                 another placement",
                counted(layers, "layer")
            );
        }
        if self.pin.placement == Some(Placement::Hybrid) {
            let fewest = (2..ranks).find(|stages| ranks.is_multiple_of(*stages));
            return match fewest {
                None => format!(
                    "{ranks} ranks cannot be divided into stages of several ranks each; ask for a \
                     number such as 4"
                ),
                Some(stages) => format!(
                    "{ranks} ranks make at least {stages} stages, but the model has only {layers} layers \
                     to divide; ask for an even number of ranks"
                ),
            };
        }
        format!(
            "found {ranks} stages (one per rank) for {layers} layers, but each stage needs a layer; ask for \
             at most {layers} ranks, or for placement hybrid, whose stages have several ranks each"
        )
    }
}
