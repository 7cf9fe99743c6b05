//! Tests of traces, their files and their differences.

use super::*;
use crate::words::units::Seconds;

fn event(rank: u32, epoch: u64, at: &str, resource: Resource, span: (f64, f64)) -> Event {
    Event {
        rank,
        phase: Phase::Step,
        epoch,
        at: at.to_owned(),
        iteration: 0,
        name: resource.name().to_owned(),
        resource,
        begin_us: span.0,
        end_us: span.1,
        bytes_sent: if resource == Resource::Network { 8 } else { 0 },
        stage: 0,
        peer: None,
        decision: None,
    }
}

/// A trace of two ranks, the second of which computes twice as long.
fn trace(epochs: u64, factor: f64) -> Trace {
    let mut events = Vec::new();
    for rank in 0..2 {
        for epoch in 1..=epochs {
            let begin = 100.0 * epoch as f64;
            let busy = factor * f64::from(rank + 1);
            let exchanged = begin + 2.0 * factor + 1.0;
            events.push(event(
                rank,
                epoch,
                "0",
                Resource::Compute,
                (begin, begin + busy),
            ));
            events.push(event(
                rank,
                epoch,
                "1",
                Resource::Network,
                (begin + busy, exchanged),
            ));
            let end = exchanged + 1.0;
            events.push(event(
                rank,
                epoch,
                "2",
                Resource::Copy,
                (exchanged + 0.5, end),
            ));
        }
    }
    Trace {
        kind: Kind::Predicted,
        model: "m".to_owned(),
        graph: "g".to_owned(),
        ranks: 2,
        events,
    }
}

#[test]
fn traces_survive_their_file() {
    let trace = trace(3, 4.0);
    let text = trace.chrome_json();
    assert_eq!(Trace::from_chrome_json(&text).unwrap(), trace);
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    let entries = file["traceEvents"].as_array().unwrap();
    // Two ranks with a name and four resources each, then the events.
    assert_eq!(entries.len(), 2 * 5 + trace.events.len());
    assert_eq!(entries[0]["args"]["name"], "rank 0, predicted");
}

#[test]
fn files_that_are_no_traces_are_refused_with_a_sentence() {
    let text = trace(1, 4.0).chrome_json();
    let refused = |text: &str| Trace::from_chrome_json(text).unwrap_err().to_string();
    let edited = |from: &str, to: &str| {
        let edited = text.replacen(from, to, 1);
        assert_ne!(edited, text, "{from}");
        refused(&edited)
    };
    assert!(refused("").contains("not JSON"));
    assert!(refused(&text[..text.len() / 2]).contains("not JSON"));
    for other in ["[]", "3", "{\"traceEvents\":[]}"] {
        assert!(refused(other).contains("not a trace of gnnc"), "{other}");
    }
    assert!(
        edited("\"version\":1", "\"version\":2")
            .contains("has version 2, this gnnc reads version 1")
    );
    assert!(
        edited("\"kind\":\"predicted\"", "\"kind\":\"felt\"").contains("unknown variant `felt`")
    );
    assert!(edited("\"traceEvents\"", "\"events\"").contains("expected an array"));
    assert!(
        edited("\"at\":\"0\"", "\"to\":\"0\"")
            .contains("entry 10 of the trace: missing field `at`")
    );
    assert!(edited("\"dur\":4.0", "\"dur\":-4.0").contains("found `ts` 100 and `dur` -4"));
    assert!(
        edited("\"ranks\":2", "\"ranks\":1").contains("found `pid` 1, expected a rank below 1")
    );
    assert!(refused("{").contains("gnnc train MODEL --trace FILE"));
}

#[test]
fn a_diff_is_by_instruction_and_resource_without_waiting() {
    let found = diff(&trace(1, 4.0), &trace(3, 8.0));
    let [total] = &found.totals[..] else {
        panic!("{found:?}")
    };
    assert_eq!(total.runs, [1, 3]);
    let near = |a: Seconds, micros: f64| assert!((a.0 * 1e6 - micros).abs() < 1e-6, "{a} {micros}");
    // The first rank computes for 4 and waits for 4; the second computes for 8; the exchange
    // takes 1.
    for (side, factor) in [(0, 4.0), (1, 8.0)] {
        near(total.seconds[side], 2.0 * factor + 2.0);
        near(total.resources[0][side], 1.5 * factor);
        near(total.resources[1][side], 0.5);
        near(total.resources[2][side], 1.0);
        near(total.waiting[side], factor / 2.0);
        near(total.between[side], 0.5);
        assert_eq!(total.bytes[side], 16);
    }
    let parts = |side: usize| -> f64 {
        let resources: f64 = total.resources.iter().map(|r| r[side].0).sum();
        resources + total.waiting[side].0 + total.between[side].0
    };
    near(total.seconds[0], parts(0) * 1e6);
    let first = &found.rows[0];
    assert_eq!((first.at.as_str(), first.runs), ("0", 1));
    near(Seconds(first.beyond()), 6.0);
}

#[test]
fn instructions_of_one_trace_alone_stay_visible() {
    let (a, mut b) = (trace(1, 4.0), trace(1, 4.0));
    b.events.retain(|e| e.at != "2");
    let found = diff(&a, &b);
    let only = &found.rows[0];
    assert_eq!((only.at.as_str(), only.seconds[1]), ("2", None));
    assert!(only.seconds[0].is_some());
    assert!(
        diff(&a, &Trace::default())
            .rows
            .iter()
            .all(|r| r.seconds[1].is_none())
    );
    assert!(diff(&Trace::default(), &Trace::default()).totals.is_empty());
}

/// Two stages: the second waits until the first has sent its rows.
#[test]
fn waiting_for_another_stage_ends_when_it_sends() {
    let passing = |rank: u32, at: &str, peer, span| Event {
        stage: rank,
        peer: Some(peer),
        ..event(rank, 1, at, Resource::Network, span)
    };
    let events = vec![
        event(0, 1, "0", Resource::Compute, (0.0, 10.0)),
        passing(0, "1", Peer::To(1), (10.0, 12.0)),
        event(0, 1, "2", Resource::Compute, (12.0, 20.0)),
        passing(0, "3", Peer::To(1), (20.0, 21.0)),
        passing(1, "0", Peer::From(0), (0.0, 15.0)),
        event(1, 1, "1", Resource::Compute, (15.0, 30.0)),
        // The rows had already arrived.
        passing(1, "2", Peer::From(0), (30.0, 31.0)),
    ];
    let staged = Trace {
        events,
        ..trace(1, 1.0)
    };
    assert_eq!(
        Trace::from_chrome_json(&staged.chrome_json()).unwrap(),
        staged
    );
    let senders: Vec<_> = waits(&staged.events)
        .iter()
        .map(|wait| wait.sender)
        .collect();
    let (first, second) = (&staged.events[1], &staged.events[3]);
    let none = [None; 4];
    assert_eq!(senders[..4], none);
    assert_eq!(senders[4..], [Some(first), None, Some(second)]);
    let found = diff(&staged, &staged);
    let total = &found.totals[0];
    let near = |a: Seconds, micros: f64| assert!((a.0 * 1e6 - micros).abs() < 1e-6, "{a} {micros}");
    near(total.waiting[0], 12.0 / 2.0);
    near(total.resources[2][0], (2.0 + 1.0 + 3.0 + 1.0) / 2.0);
    near(total.resources[0][0], (18.0 + 15.0) / 2.0);
}
