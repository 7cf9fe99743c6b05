//! How far costs are off on graphs that they were not fitted to.
//!
//! Each graph is left out in turn, and the costs that explain the others predict what models spend on it in an epoch, by
//! group of instructions. Errors of a group vary from model to model and graph to graph; what they have in common over
//! all groups is the machine's.

use super::Measurement;
use super::fit::{SHORT, Sample, fit, merged, seconds};
use std::collections::{BTreeMap, BTreeSet};

/// Factors by which predictions may be off, if all logarithms up to theirs are equally likely.
#[derive(Clone, Debug, PartialEq)]
pub struct Spreads {
    /// Of all groups together.
    pub machine: f64,
    /// Of each group besides; of those measured on several graphs.
    pub groups: BTreeMap<String, f64>,
}

/// Seconds of an epoch.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    predicted: f64,
    measured: f64,
}

impl Total {
    fn error(self) -> f64 {
        ((self.predicted + SHORT) / (self.measured + SHORT)).ln()
    }
}

/// How far the costs of these measurements would be off on a graph that is not among them.
pub fn spreads(found: &[Measurement]) -> Spreads {
    let mut by_group: BTreeMap<&str, Vec<&Measurement>> = BTreeMap::new();
    for measurement in found {
        by_group
            .entry(&measurement.group)
            .or_default()
            .push(measurement);
    }
    let mut epochs: BTreeMap<&str, BTreeMap<&str, Total>> = BTreeMap::new();
    let mut variances: BTreeMap<&str, f64> = BTreeMap::new();
    for (&group, found) in &by_group {
        let unseen = unseen(found);
        if unseen.is_empty() {
            continue;
        }
        let errors = unseen.values().map(|total| total.error().abs());
        variances.insert(group, variance(errors.collect()));
        for (what, total) in unseen {
            epochs.entry(what).or_default().insert(group, total);
        }
    }
    let whole: Vec<f64> = epochs
        .values()
        .map(|groups| sum(groups).error().abs())
        .collect();
    let apart = epochs.values().map(|groups| apart(groups, &variances));
    let apart = apart.sum::<f64>() / epochs.len().max(1) as f64;
    let groups = variances.into_iter();
    Spreads {
        machine: factor(variance(whole) - apart),
        groups: groups
            .map(|(group, variance)| (group.to_owned(), factor(variance)))
            .collect(),
    }
}

/// What each model spends in an epoch, predicted with costs of other graphs; nothing if there is only one graph.
fn unseen<'a>(found: &[&'a Measurement]) -> BTreeMap<&'a str, Total> {
    let graphs: BTreeSet<u64> = found.iter().map(|one| one.edges).collect();
    let mut totals: BTreeMap<&str, Total> = BTreeMap::new();
    if graphs.len() < 2 {
        return totals;
    }
    for graph in graphs {
        let (out, rest): (Vec<&Measurement>, Vec<&Measurement>) =
            found.iter().partition(|one| one.edges == graph);
        let samples: Vec<Sample> = rest.into_iter().map(Sample::from).collect();
        let costs = fit(&merged(&samples));
        for one in out {
            let total = totals.entry(&one.what).or_default();
            total.predicted += seconds(&one.terms, &costs);
            total.measured += one.seconds;
        }
    }
    totals
}

fn sum(groups: &BTreeMap<&str, Total>) -> Total {
    groups.values().fold(Total::default(), |sum, one| Total {
        predicted: sum.predicted + one.predicted,
        measured: sum.measured + one.measured,
    })
}

/// The variance of the error of an epoch, if groups are off independently of each other.
fn apart(groups: &BTreeMap<&str, Total>, variances: &BTreeMap<&str, f64>) -> f64 {
    let all = sum(groups).measured.max(f64::MIN_POSITIVE);
    let of_groups = groups.iter().map(|(group, total)| {
        let share = total.measured / all;
        share.powi(2) * variances.get(group).copied().unwrap_or(0.0)
    });
    of_groups.sum()
}

/// The variance of errors that are evenly distributed up to the one that nine tenths say. A few messages whose costs
/// follow from one graph alone are off by orders of magnitude without it, which says nothing of the others.
fn variance(mut sizes: Vec<f64>) -> f64 {
    sizes.sort_by(f64::total_cmp);
    let place = (sizes.len() * 9).div_ceil(10).saturating_sub(1);
    let most = sizes.get(place).map_or(0.0, |size| size / 0.9);
    most.powi(2) / 3.0
}

/// The factor whose logarithm bounds an even distribution of a variance.
fn factor(variance: f64) -> f64 {
    let found = (3.0 * variance.max(0.0)).sqrt().exp();
    (found * 1e3).ceil() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnnc_ir::program::work::TERM_COUNT;

    /// A model that takes a time for each edge, off by a factor.
    fn measurement(group: &str, edges: u64, off: f64) -> Measurement {
        let mut terms = [0.0; TERM_COUNT];
        terms[2] = edges as f64;
        Measurement {
            what: format!("model on {edges}"),
            group: group.to_owned(),
            edges,
            terms,
            seconds: edges as f64 * 1e-6 * off,
            ..Measurement::default()
        }
    }

    #[test]
    fn exact_costs_are_off_by_nothing() {
        let found = [1000, 2000, 4000].map(|edges| measurement("spmm", edges, 1.0));
        let spreads = spreads(&found);
        assert!(
            spreads.machine < 1.01 && spreads.groups["spmm"] < 1.01,
            "{spreads:?}"
        );
    }

    #[test]
    fn what_differs_between_graphs_is_a_group_s_and_what_is_shared_the_machine_s() {
        let graphs = [1u64 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 17];
        // All groups are slow on the same graphs.
        let together = |group: &'static str| {
            graphs
                .iter()
                .zip([1.0, 1.3, 1.0, 1.3, 1.0, 1.3])
                .map(move |(edges, off)| measurement(group, *edges, off))
        };
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let found: Vec<Measurement> = names.into_iter().flat_map(together).collect();
        let shared = spreads(&found);
        assert!(shared.machine > 1.2, "{shared:?}");
        // Half of the groups are slow where the others are fast.
        let against = |(n, group): (usize, &'static str)| {
            let off = move |graph: usize| {
                if (graph + n).is_multiple_of(2) {
                    1.0
                } else {
                    1.3
                }
            };
            graphs
                .iter()
                .enumerate()
                .map(move |(graph, edges)| measurement(group, *edges, off(graph)))
        };
        let found: Vec<Measurement> = names.into_iter().enumerate().flat_map(against).collect();
        let apart = spreads(&found);
        assert!(apart.machine < 1.1 && apart.groups["a"] > 1.2, "{apart:?}");
    }

    #[test]
    fn one_graph_says_nothing() {
        let found = spreads(&[
            measurement("spmm", 1000, 1.0),
            measurement("spmm", 1000, 2.0),
        ]);
        assert!(found.groups.is_empty());
        assert_eq!(found.machine, 1.0);
    }
}
