//! Programs of stages that do not match each other are refused.

use super::network::staged::Staged;
use super::{G8, options, quarters};
use gnnc_graph::{Partition, example};
use gnnc_ir::program::instr;
use gnnc_ir::program::{Instr, Neighbour, Program, StageMessage};
use gnnc_runtime::Session;

#[test]
fn programs_that_do_not_fit_each_other_are_refused() {
    let data = example::g8();
    let network = Staged {
        stages: 2,
        width: 2,
        ..G8
    };
    let refused = |part: &str, partition: &Partition, change: &dyn Fn(&mut Vec<Program>)| {
        let mut programs = network.programs();
        change(&mut programs);
        let error = match Session::new(programs, &data, partition, options()) {
            Ok(_) => panic!("{part}"),
            Err(error) => error.to_string(),
        };
        assert!(error.contains(part), "{error}\n{part}");
    };
    let good = quarters(2, 4);
    let body = |program: &mut Program, place: usize, change: &dyn Fn(&mut Vec<Instr>)| {
        let mut chunks = program.step.iter_mut().filter_map(|instr| match instr {
            Instr::Chunks(instr::Chunks { body, .. }) => Some(body),
            _ => None,
        });
        change(chunks.nth(place).unwrap());
    };
    refused("is cut into 2", &quarters(2, 2), &|_| {});
    refused("1 part for each of 2 stages", &quarters(1, 4), &|_| {});
    refused("is for 4 ranks", &good, &|p| p.truncate(1));
    refused("program 1 is for", &good, &|p| {
        let pipeline = p[0].pipeline.as_mut().unwrap();
        pipeline.interval = 9;
    });
    refused("every 0 epochs", &good, &|p| {
        for p in p {
            p.pipeline.as_mut().unwrap().interval = 0;
        }
    });
    refused("stage 0 has a loss", &good, &|p| {
        p[0].loss = Some(gnnc_ir::program::BufferId(0));
    });
    refused("belongs to one stage", &good, &|p| {
        p[1].params[0].element = p[0].params[1].element;
    });
    refused("of different shapes", &good, &|p| {
        p[1].params[0].element.as_mut().unwrap().of = 3;
    });
    refused("stage 1 sends nothing, stage 0 expects", &good, &|p| {
        body(&mut p[1], 1, &|list| {
            list.pop();
        });
    });
    refused(
        "stage 0 sends rows of [6] words of chunk 3, stage 1 expects rows of [6] words of chunk 0",
        &good,
        &|p| {
            for instr in &mut p[0].step {
                if let Instr::Chunks(instr::Chunks { reverse, .. }) = instr {
                    *reverse = true;
                }
            }
        },
    );
    let sent = |program: &Program| {
        let sends = |instr: &Instr| match instr {
            Instr::Chunks(instr::Chunks { body, .. }) => match body.last() {
                Some(Instr::Send(stage_message)) => Some(stage_message.clone()),
                _ => None,
            },
            _ => None,
        };
        program.step.iter().find_map(sends).unwrap()
    };
    // The first stage follows the last one.
    refused(
        "stage 1 sends rows of [6] words of all chunks, stage 0 expects nothing",
        &good,
        &|p| {
            let stage_message = StageMessage {
                with: Neighbour::Next,
                ..sent(&p[1])
            };
            p[1].step.push(Instr::Send(stage_message));
        },
    );
    // Each waits for a message that the other sends only after its own wait.
    refused(
        "stage 0 waits for rows of [6] words of all chunks from stage 1, which itself waits",
        &good,
        &|p| {
            for program in p {
                let stage_message = sent(program);
                let both = [
                    Instr::Receive(stage_message.clone()),
                    Instr::Send(stage_message),
                ];
                program.step.splice(0..0, both);
            }
        },
    );
    refused("all-reduce over all rows, or a loop", &good, &|p| {
        let sum = p[0].step.iter().find(|i| matches!(i, Instr::AllReduce(_)));
        let sum = sum.unwrap().clone();
        body(&mut p[0], 0, &|list| list.push(sum.clone()));
    });
    refused("chunks in a loop", &good, &|p| {
        let body = vec![Instr::Chunks(instr::Chunks {
            reverse: false,
            body: Vec::new(),
        })];
        p[0].step.push(Instr::Repeat(instr::Repeat {
            count: 1,
            reverse: false,
            body,
        }));
    });
    refused("an evaluation stores rows", &good, &|p| {
        let kept = p[0].setup.iter().find(|i| matches!(i, Instr::Remember(_)));
        let kept = kept.unwrap().clone();
        p[0].eval.push(kept);
    });
    refused("is not a history", &good, &|p| {
        let kept = p[0].setup.iter_mut().find_map(|i| match i {
            Instr::Remember(instr::Remember { from, history }) => Some((from, history)),
            _ => None,
        });
        let (from, history) = kept.unwrap();
        *history = *from;
    });
    let mut alone = Staged { width: 2, ..G8 }.programs();
    alone[0]
        .step
        .push(Instr::Send(StageMessage::of(Neighbour::Next, Vec::new())));
    let error = Session::new(alone.clone(), &data, &good, options()).err();
    let error = error.unwrap().to_string();
    assert!(error.contains("no stage at its other end"), "{error}");
    alone[0].step.pop();
    alone[0].pipeline = None;
    let error = Session::new(alone, &data, &good, options()).err().unwrap();
    assert!(
        error
            .to_string()
            .contains("remember in a program without a pipeline stage"),
        "{error}"
    );
}
