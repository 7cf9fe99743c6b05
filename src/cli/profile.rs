//! `gnnc train --profile`: where the time of a run went, by instruction.

use super::text::{Table, grouped};
use gnnc::ir::words::units::Seconds;
use gnnc::runtime::{Phase, Trace};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
struct Sum {
    runs: u64,
    seconds: f64,
    bytes: u64,
}

/// One table per phase, the longest instruction first. Times are means over ranks, and over
/// epochs in `step` and `eval`. Places are the ones `gnnc emit program` prints.
pub fn profile(trace: &Trace) -> String {
    let mut text = String::new();
    let ranks: BTreeSet<u32> = trace.events.iter().map(|e| e.rank).collect();
    for phase in [Phase::Setup, Phase::Step, Phase::Eval] {
        let mut sums: BTreeMap<(&str, &str), Sum> = BTreeMap::new();
        let events = trace.events.iter().filter(|e| e.phase == phase);
        for event in events.clone() {
            let sum = sums.entry((&event.at, &event.name)).or_default();
            sum.runs += 1;
            sum.seconds += (event.end_us - event.begin_us) / 1e6;
            sum.bytes += event.bytes_sent;
        }
        // The first instruction of a list runs once per run of the list.
        let lists = events
            .filter(|e| e.rank == 0)
            .map(|e| e.epoch)
            .collect::<BTreeSet<u64>>()
            .len() as f64;
        let runs = lists.max(1.0) * ranks.len().max(1) as f64;
        let total: f64 = sums.values().map(|sum| sum.seconds).sum();
        if sums.is_empty() {
            continue;
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by(|a, b| b.1.seconds.total_cmp(&a.1.seconds).then(a.0.cmp(&b.0)));
        let once = match phase {
            Phase::Setup => "once",
            Phase::Step => "per epoch",
            Phase::Eval => "per evaluation",
        };
        text.push_str(&format!("{phase}: {} {once}\n", Seconds(total / runs)));
        let mut table = Table::new(2, 2);
        table.row(["at", "instruction", "runs", "time", "share", "sent"]);
        for ((at, name), sum) in &sums {
            table.row([
                (*at).to_owned(),
                (*name).to_owned(),
                format!("{:.0}", sum.runs as f64 / runs),
                Seconds(sum.seconds / runs).to_string(),
                format!(
                    "{:.1} %",
                    100.0 * sum.seconds / total.max(f64::MIN_POSITIVE)
                ),
                grouped(sum.bytes / lists.max(1.0) as u64),
            ]);
        }
        text.push_str(&table.lines());
    }
    text
}
