//! Steps that take as long, without telling what takes it.

use super::compile::Step;

/// Adds up what is computed between two communications, over all iterations of loops that only compute. Of more than
/// `chunks` chunks that are alike, so many are left.
pub(super) fn condensed(steps: Vec<Step>, chunks: u32) -> Vec<Step> {
    let mut found: Vec<Step> = Vec::new();
    for step in steps {
        let step = one(step, chunks);
        if let Step::Compute { seconds, .. } = &step
            && let Some(Step::Compute { seconds: sum, .. }) = found.last_mut()
        {
            sum.iter_mut()
                .zip(seconds)
                .for_each(|(sum, more)| *sum += more);
            continue;
        }
        found.push(step);
    }
    found
}

fn one(step: Step, chunks: u32) -> Step {
    match step {
        Step::Loop {
            count,
            reverse,
            body,
        } => {
            let mut body = condensed(body, chunks);
            if let [Step::Compute { seconds, .. }] = &mut body[..] {
                seconds.iter_mut().for_each(|one| *one *= f64::from(count));
                return body.remove(0);
            }
            Step::Loop {
                count,
                reverse,
                body,
            }
        }
        Step::Chunks { count, bodies } => {
            let most = if bodies.len() == 1 { chunks } else { u32::MAX };
            let bodies = bodies.into_iter().map(|body| condensed(body, chunks));
            Step::Chunks {
                count: count.min(most),
                bodies: bodies.collect(),
            }
        }
        Step::Batches { count, phases } => {
            let phases = phases.into_iter();
            Step::Batches {
                count,
                phases: phases
                    .map(|(lag, steps)| (lag, condensed(steps, chunks)))
                    .collect(),
            }
        }
        step @ (Step::Compute { .. }
        | Step::Draw { .. }
        | Step::Transfer { .. }
        | Step::Move { .. }
        | Step::StageMessage { .. }) => step,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::{parts, tests::workload};
    use crate::simulate::compile::{CollectiveCost, Half, Name, TransferCost};
    use crate::simulate::fabric::Fabric;
    use crate::simulate::run::Run;
    use gnnc_ir::cluster::Cluster;
    use gnnc_ir::plan::Partitioner;
    use gnnc_ir::program::trace::Resource;

    /// When two ranks have run some steps.
    fn seconds(steps: &[Step], fabric: &Fabric) -> f64 {
        let (text, resource) = ("map", Resource::Compute);
        let mut run = Run::new(fabric, vec![Name { text, resource }]);
        run.all(steps);
        run.seconds()
    }

    #[test]
    fn condensed_steps_take_as_long() {
        let cluster = Cluster::named("h100x8").unwrap();
        let parts = parts(&workload(901, 5000), 2, Partitioner::Metis).unwrap();
        let fabric = Fabric::new(&cluster, &parts, 0);
        let classes = fabric.classes.len();
        let compute = |seconds: f64| Step::Compute {
            at: "0".into(),
            name: 0,
            // Ranks take different times.
            seconds: (0..classes)
                .map(|class| seconds * (1.0 + class as f64))
                .collect(),
        };
        let sent = |half| Step::Transfer {
            at: "0".into(),
            name: 0,
            half,
            cost: TransferCost::Everyone(CollectiveCost {
                before: 0.5,
                handling: 0.125,
                messages: 5.0,
                after: 0.25,
                bytes_sent: [8, 0],
            }),
        };
        let times = |count, body| Step::Loop {
            count,
            reverse: false,
            body,
        };
        let steps = || {
            vec![
                compute(1.0),
                compute(2.0),
                sent(Half::Begin(1)),
                times(
                    3,
                    vec![compute(0.25), times(2, vec![compute(0.125), compute(0.5)])],
                ),
                compute(0.5),
                sent(Half::Finish(1)),
                times(4, vec![compute(1.0), compute(1.0), sent(Half::Whole)]),
            ]
        };
        let short = condensed(steps(), u32::MAX);
        assert_eq!(short.len(), 5);
        let (long, short) = (seconds(&steps(), &fabric), seconds(&short, &fabric));
        assert!((long / short - 1.0).abs() < 1e-12, "{long} {short}");
        let chunks = || Step::Chunks {
            count: 9,
            bodies: vec![vec![compute(1.0)]],
        };
        let nine = seconds(&[chunks()], &fabric);
        let two = seconds(&condensed(vec![chunks()], 2), &fabric);
        assert!((nine / two - 4.5).abs() < 1e-12, "{nine} {two}");
    }
}
