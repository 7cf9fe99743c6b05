//! What a machine was measured to need for what instructions ask of it.

use super::ClusterError;
use super::parse::Section;
use crate::units::Seconds;
use crate::work::{Demand, GROUPS, TERMS};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Seconds by term: see [`TERMS`].
pub type TermCosts = BTreeMap<String, f64>;

/// A machine's measured costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The machine.
    pub machine: String,
    /// The day, as in 2026-01-31.
    pub date: String,
    /// By how many ranks ran at once, ascending.
    pub costs: Vec<Costs>,
}

/// What is counted, as a number that changes when [`TERMS`] count something else: costs of other counts are not to be used.
const COUNTS: u32 = 2;

fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

/// Costs while a number of ranks compute at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// How many.
    pub ranks: u32,
    /// What the run of a list takes besides its instructions.
    pub around: Seconds,
    /// What a rank waits for ranks that have as much to do, over what it is busy: no two run evenly.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waiting: f64,
    /// By group of instructions: see [`GROUPS`].
    pub groups: BTreeMap<String, TermCosts>,
    /// By name of an instruction that communicates: see [`MESSAGES`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub messages: BTreeMap<String, MessageCost>,
}

/// What the messages of an instruction take on one rank, packing and adding up included, once
/// all ranks are there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageCost {
    /// Whatever is sent.
    pub latency: Seconds,
    /// Bytes that the rank sends a second.
    pub bandwidth: f64,
}

/// Instructions that communicate.
pub const MESSAGES: [&str; 7] = [
    "halo-exchange",
    "halo-reduce",
    "all-reduce",
    "split",
    "join",
    "replicate",
    "reduce-rows",
];

impl Measured {
    /// The costs for a number of ranks: those of the largest number that was measured and is
    /// not larger, else the smallest.
    pub fn of(&self, ranks: u32) -> Option<&Costs> {
        let fitting = self.costs.iter().rev().find(|costs| costs.ranks <= ranks);
        fitting.or(self.costs.first())
    }

    /// Checks that no cost is negative or infinite.
    ///
    /// # Errors
    /// The first that is, with its key.
    pub(super) fn check(&self) -> Result<(), ClusterError> {
        for costs in &self.costs {
            let place = format!("calibration.measured.ranks.{}", costs.ranks);
            let terms = costs.groups.iter().flat_map(|(group, terms)| {
                let key = move |term: &String| format!("{group}.{term}");
                terms.iter().map(move |(term, value)| (key(term), *value))
            });
            let messages = costs.messages.iter();
            let latencies =
                messages.map(|(name, cost)| (format!("messages.{name}.latency"), cost.latency.0));
            let all = [("around", costs.around.0), ("waiting", costs.waiting)];
            let all = all.map(|(key, value)| (key.to_owned(), value)).into_iter();
            let all = all.chain(terms).chain(latencies);
            for (key, value) in all {
                if !(value >= 0.0 && value.is_finite()) {
                    return Err(ClusterError::Negative {
                        key: format!("{place}.{key}"),
                        found: value.to_string(),
                    });
                }
            }
            for (name, cost) in &costs.messages {
                if !(cost.bandwidth > 0.0 && cost.bandwidth.is_finite()) {
                    return Err(ClusterError::NotPositive {
                        key: format!("{place}.messages.{name}.bandwidth"),
                        found: cost.bandwidth.to_string(),
                    });
                }
            }
        }
        Ok(())
    }

    /// The tables of a cluster file.
    pub(super) fn to_toml(&self) -> String {
        let mut text = format!(
            "\n[calibration.measured]\nmachine = {:?}\ndate = {:?}\ncounts = {COUNTS}\n",
            self.machine, self.date
        );
        for Costs {
            ranks,
            around,
            waiting,
            groups,
            messages,
        } in &self.costs
        {
            // Writing to a String does not fail.
            let _ = write!(
                text,
                "\n# seconds while {ranks} ranks run\n[calibration.measured.ranks.{ranks}]\naround = {:e}\nwaiting = {waiting}\n",
                around.0
            );
            for (group, terms) in groups {
                let _ = writeln!(text, "[calibration.measured.ranks.{ranks}.{group}]");
                for (term, value) in terms {
                    let _ = writeln!(text, "{term} = {value:e}");
                }
            }
            for (name, MessageCost { latency, bandwidth }) in messages {
                let _ = write!(
                    text,
                    "[calibration.measured.ranks.{ranks}.messages.{name}]\n\
                     latency = {:e}\nbandwidth = {bandwidth:e}\n",
                    latency.0
                );
            }
        }
        text
    }
}

impl MessageCost {
    /// The time of a rank that sends so many bytes; none if nothing is sent.
    pub fn seconds(&self, bytes: u64) -> f64 {
        match bytes {
            0 => 0.0,
            bytes => self.latency.0 + bytes as f64 / self.bandwidth,
        }
    }
}

impl Costs {
    /// What an exchange of rows takes: a rank packs those that it sends and unpacks those that come.
    pub fn exchange(&self) -> Option<&MessageCost> {
        self.messages.get("halo-exchange")
    }

    /// The seconds of what an instruction asks for, with its share of the waiting for ranks that have as much to do; none if
    /// its group was not measured.
    pub fn seconds(&self, demand: &Demand) -> Option<f64> {
        let terms = self.groups.get(demand.group)?;
        let costs = TERMS.iter().zip(demand.terms);
        let parts = costs.map(|(term, count)| terms.get(*term).map_or(0.0, |cost| cost * count));
        Some(parts.sum::<f64>() * (1.0 + self.waiting))
    }
}

pub(super) fn read(section: &Section) -> Result<Measured, ClusterError> {
    section.only(&["machine", "date", "counts", "ranks"])?;
    let mut measured = Measured {
        machine: section.text("machine")?.unwrap_or_default(),
        date: section.text("date")?.unwrap_or_default(),
        costs: Vec::new(),
    };
    let Some(by_ranks) = section.section("ranks")? else {
        return Err(section.missing("ranks", "write it with `gnnc calibrate`"));
    };
    for key in by_ranks.keys() {
        let Some(ranks) = key.parse().ok().filter(|n: &u32| *n > 0) else {
            return Err(ClusterError::NotPositive {
                key: format!("{}.{key}", by_ranks.path()),
                found: key.to_owned(),
            });
        };
        let Some(section) = by_ranks.section(key)? else {
            continue;
        };
        let others = ["around", "waiting", "messages"];
        let known: Vec<&str> = GROUPS.iter().copied().chain(others).collect();
        section.only(&known)?;
        let mut costs = Costs {
            ranks,
            around: Seconds(section.not_negative("around")?.unwrap_or(0.0)),
            waiting: section.not_negative("waiting")?.unwrap_or(0.0),
            groups: BTreeMap::new(),
            messages: messages(&section)?,
        };
        for group in GROUPS {
            let Some(terms) = section.section(group)? else {
                continue;
            };
            terms.only(&TERMS)?;
            let mut found = TermCosts::new();
            for term in TERMS {
                if let Some(value) = terms.not_negative(term)? {
                    found.insert(term.to_owned(), value);
                }
            }
            costs.groups.insert(group.to_owned(), found);
        }
        measured.costs.push(costs);
    }
    measured.costs.sort_by_key(|costs| costs.ranks);
    match section.count("counts")? {
        Some(COUNTS) => Ok(measured),
        Some(other) => Err(ClusterError::WrongType {
            key: section.key("counts"),
            found: other.to_string(),
            expected: "the number of what this gnnc counts; measure again with `gnnc calibrate`",
        }),
        None => Err(section.missing(
            "counts",
            "the costs are of what an earlier gnnc counted; measure again with `gnnc calibrate`",
        )),
    }
}

/// What the messages of each instruction take.
fn messages(section: &Section) -> Result<BTreeMap<String, MessageCost>, ClusterError> {
    let mut found = BTreeMap::new();
    let Some(section) = section.section("messages")? else {
        return Ok(found);
    };
    section.only(&MESSAGES)?;
    for name in MESSAGES {
        let Some(cost) = section.section(name)? else {
            continue;
        };
        cost.only(&["latency", "bandwidth"])?;
        let missing = |key| cost.missing(key, "write it with `gnnc calibrate`");
        let latency = cost.not_negative("latency")?;
        let bandwidth = cost.positive("bandwidth")?;
        let cost = MessageCost {
            latency: Seconds(latency.ok_or_else(|| missing("latency"))?),
            bandwidth: bandwidth.ok_or_else(|| missing("bandwidth"))?,
        };
        found.insert(name.to_owned(), cost);
    }
    Ok(found)
}
