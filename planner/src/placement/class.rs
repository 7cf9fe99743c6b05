//! The statistical class of a candidate, and the candidate that trains a class on one worker.

use super::{PlacementSpec, Stages};
use gnnc_ir::plan::{
    Division, Knobs, Method, Placement, Relaxation, SampledClass, StatisticalClass,
};

impl PlacementSpec {
    /// What decides how many steps a run of it needs.
    pub fn class(&self) -> StatisticalClass {
        StatisticalClass {
            method: self.method(),
            storage: self.knobs.storage,
            wire: self.wire(),
        }
    }

    fn method(&self) -> Method {
        let sampled = SampledClass::of(&self.knobs.sampling, self.division());
        if let Some(sampled) = sampled.filter(|_| self.samples()) {
            return Method::Sampled(sampled);
        }
        if let Some(stages) = self.stages() {
            let Stages {
                count: _,
                virtual_stages: _,
                layers: _,
                chunks,
                shuffle,
                interval,
            } = stages;
            return Method::Histories {
                chunks,
                interval,
                shuffle,
                division: self.division(),
            };
        }
        let needed = self.relaxations();
        if needed.contains(&Relaxation::StaleEmbeddings) {
            return Method::Copies {
                skip: self.knobs.skip.unwrap_or_default(),
                division: Division {
                    ranks: self.ranks,
                    partitioner: self.partitioner(),
                },
            };
        }
        match needed.contains(&Relaxation::Decouple) {
            true => Method::Decoupled,
            false => Method::Exact,
        }
    }

    /// How vertices are divided, if there are several parts.
    fn division(&self) -> Option<Division> {
        let ranks = self.parts();
        (ranks > 1).then(|| Division {
            ranks,
            partitioner: self.partitioner(),
        })
    }
}

/// The candidate that trains a class on one worker.
///
/// # Errors
/// Why one worker cannot train it.
pub fn on_one_worker(class: &StatisticalClass) -> Result<PlacementSpec, &'static str> {
    let on = |placement: Placement, knobs: Knobs| PlacementSpec {
        placement,
        ranks: 1,
        knobs: Knobs {
            storage: class.storage,
            ..knobs
        },
    };
    if !class.wire.is_f32() {
        return Err("rows in fewer bits are sent between workers");
    }
    match &class.method {
        Method::Exact => Ok(on(Placement::Graph, Knobs::default())),
        Method::Decoupled => Ok(on(Placement::TensorDecoupled, Knobs::default())),
        Method::Histories {
            division: Some(_), ..
        } => Err("chunks of several parts are other chunks than those of the whole graph"),
        Method::Histories {
            chunks,
            interval,
            shuffle,
            division: None,
        } => {
            let knobs = Knobs {
                stages: Some(1),
                chunks: Some(*chunks),
                interval: Some(*interval),
                shuffle: Some(*shuffle),
                ..Knobs::default()
            };
            Ok(on(Placement::Pipeline, knobs))
        }
        Method::Copies { .. } => {
            Err("copies are rows of other workers, so how old they are depends on the workers")
        }
        Method::Sampled(sampled) if sampled.own_roots.is_some() => {
            Err("with roots own, the seeds of a step depend on the partition, so on the workers")
        }
        Method::Sampled(sampled) if sampled.copies.is_some() => {
            Err("copies are rows of other workers, so how old they are depends on the workers")
        }
        Method::Sampled(sampled) => {
            let knobs = Knobs {
                sampling: sampled.settings(),
                ..Knobs::default()
            };
            // Owners compute their batches by themselves, so only rows of embeddings can be late.
            let placement = match sampled.delay {
                1.. if !sampled.lazy => Placement::PushPull,
                _ => Placement::Minibatch,
            };
            Ok(on(placement, knobs))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnnc_ir::plan::Partitioner;
    use gnnc_ir::words::sampling::{Fanout, Roots, SamplingSettings};
    use gnnc_ir::words::storage::Storage;

    fn spec(placement: Placement, ranks: u32, knobs: &Knobs) -> PlacementSpec {
        PlacementSpec {
            placement,
            ranks,
            knobs: Knobs {
                partitioner: Some(Partitioner::Metis),
                ..knobs.clone()
            },
        }
    }

    fn batches() -> Knobs {
        Knobs {
            sampling: SamplingSettings {
                batch: Some(64),
                fanouts: vec![Fanout::Each(5)],
                ..SamplingSettings::default()
            },
            ..Knobs::default()
        }
    }

    #[test]
    fn placements_of_one_function_are_of_one_class() {
        let plain = Knobs::default();
        for placement in [
            Placement::Graph,
            Placement::Tensor,
            Placement::Broadcast,
            Placement::Mixed,
            Placement::PushPull,
        ] {
            for ranks in [1, 4] {
                let class = spec(placement, ranks, &plain).class();
                assert_eq!(class, StatisticalClass::EXACT, "{placement} x {ranks}");
            }
        }
        let decoupled = spec(Placement::TensorDecoupled, 4, &plain).class();
        assert_eq!(decoupled.method, Method::Decoupled);
        let on_batches = [
            (Placement::Minibatch, 1),
            (Placement::Minibatch, 4),
            (Placement::PushPull, 4),
        ];
        let classes =
            on_batches.map(|(placement, ranks)| spec(placement, ranks, &batches()).class());
        assert!(
            classes
                .iter()
                .all(|class| *class == classes[0] && class.sampled().is_some())
        );
        let staged = |ranks, stages| {
            let knobs = Knobs {
                stages: Some(stages),
                chunks: Some(8),
                ..Knobs::default()
            };
            spec(Placement::Hybrid, ranks, &knobs).class()
        };
        assert_eq!(staged(2, 2), staged(4, 4));
        assert_ne!(staged(2, 2), staged(4, 2), "chunks of two parts");
    }

    #[test]
    fn what_changes_the_numbers_changes_the_class() {
        let with = |change: &dyn Fn(&mut Knobs)| {
            let mut knobs = batches();
            change(&mut knobs);
            spec(Placement::PushPull, 2, &knobs).class()
        };
        let all = [
            with(&|_| ()),
            with(&|knobs| knobs.sampling.batch = Some(65)),
            with(&|knobs| knobs.sampling.fanouts = vec![Fanout::Each(6)]),
            with(&|knobs| knobs.sampling.delay = Some(2)),
            with(&|knobs| knobs.sampling.beforehand = Some(true)),
            with(&|knobs| knobs.sampling.roots = Some(Roots::Own)),
            with(&|knobs| knobs.storage = Storage::Bf16),
        ];
        for (n, one) in all.iter().enumerate() {
            assert!(!all[..n].contains(one), "{one}");
        }
        let own = |ranks, partitioner| {
            let mut knobs = batches();
            knobs.sampling.roots = Some(Roots::Own);
            let mut spec = spec(Placement::Minibatch, ranks, &knobs);
            spec.knobs.partitioner = Some(partitioner);
            spec.class()
        };
        assert_ne!(own(2, Partitioner::Metis), own(4, Partitioner::Metis));
        assert_ne!(own(2, Partitioner::Metis), own(2, Partitioner::Hash));
    }

    #[test]
    fn one_worker_trains_the_class_that_it_is_asked_for() {
        let mut late = batches();
        late.sampling.delay = Some(2);
        let stages = Knobs {
            stages: Some(4),
            chunks: Some(8),
            ..Knobs::default()
        };
        let cases = [
            (Placement::Tensor, Knobs::default(), true),
            (Placement::TensorDecoupled, Knobs::default(), true),
            (Placement::Minibatch, batches(), true),
            (Placement::PushPull, late, true),
            (Placement::Pipeline, stages.clone(), true),
            (Placement::SkipBroadcast, Knobs::default(), false),
        ];
        for (placement, knobs, expressible) in cases {
            let asked = spec(placement, 4, &knobs);
            let class = asked.class();
            assert_eq!(class.relaxations(), asked.relaxations(), "{class}");
            let found = on_one_worker(&class);
            assert_eq!(found.is_ok(), expressible, "{class}");
            if let Ok(alone) = found {
                assert_eq!((alone.ranks, alone.class()), (1, class));
            }
        }
        let hybrid = spec(Placement::Hybrid, 8, &stages).class();
        assert!(on_one_worker(&hybrid).is_err());
        let mut own = batches();
        own.sampling.roots = Some(Roots::Own);
        let own = spec(Placement::Minibatch, 4, &own).class();
        assert!(on_one_worker(&own).is_err());
    }
}
