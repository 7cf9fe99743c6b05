//! Costs of instructions measured on a machine.

use super::parse::Section;
use super::{ClusterError, quoted};
use crate::program::work::{Demand, GROUPS, MESSAGES, TERMS};
use crate::words::units::Seconds;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Seconds by term: see [`TERMS`].
pub type TermCosts = BTreeMap<String, f64>;

/// Costs of a group of instructions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupCosts {
    /// Factor by which the times of the group may be off, besides that of the machine. `None` if nobody measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
    /// Seconds by term.
    pub terms: TermCosts,
}

/// A machine's measured costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The machine.
    pub machine: String,
    /// The day, as in 2026-01-31.
    pub date: String,
    /// Costs by number of ranks running at once, ascending.
    pub costs: Vec<Costs>,
}

/// Version of what [`TERMS`] count. Costs measured for another version are not used.
const COUNTS: u32 = 6;

fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

/// Costs while `ranks` ranks compute at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// Number of ranks.
    pub ranks: u32,
    /// Overhead of running an instruction list, besides its instructions.
    pub around: Seconds,
    /// Waiting time over busy time among ranks with equal work: no two ranks run evenly.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waiting: f64,
    /// Costs by group of instructions (see [`GROUPS`]) and by name of a communicating
    /// instruction (see [`MESSAGES`]). The latter is the time on one rank once all ranks have
    /// arrived, including packing and adding.
    pub groups: BTreeMap<String, GroupCosts>,
}

impl From<TermCosts> for GroupCosts {
    fn from(terms: TermCosts) -> Self {
        Self {
            spread: None,
            terms,
        }
    }
}

impl Measured {
    /// The costs for a number of ranks: those of the largest measured number up to `ranks`, or
    /// else of the smallest.
    pub fn of(&self, ranks: u32) -> Option<&Costs> {
        let fitting = self.costs.iter().rev().find(|costs| costs.ranks <= ranks);
        fitting.or(self.costs.first())
    }

    /// Checks that no cost is negative or infinite.
    ///
    /// # Errors
    /// The first cost that is, with its key.
    pub(super) fn check(&self) -> Result<(), ClusterError> {
        for costs in &self.costs {
            let place = format!("calibration.measured.ranks.{}", costs.ranks);
            for (group, GroupCosts { spread, .. }) in &costs.groups {
                if let Some(found) = spread.filter(|spread| !(*spread >= 1.0 && spread.is_finite()))
                {
                    return Err(ClusterError::Spread {
                        key: format!("{place}.{group}.spread"),
                        found: found.to_string(),
                    });
                }
            }
            let terms = costs.groups.iter().flat_map(|(group, costs)| {
                let key = move |term: &String| format!("{group}.{term}");
                costs
                    .terms
                    .iter()
                    .map(move |(term, value)| (key(term), *value))
            });
            let all = [("around", costs.around.0), ("waiting", costs.waiting)];
            let all = all.map(|(key, value)| (key.to_owned(), value)).into_iter();
            for (key, value) in all.chain(terms) {
                if !(value >= 0.0 && value.is_finite()) {
                    return Err(ClusterError::Negative {
                        key: format!("{place}.{key}"),
                        found: value.to_string(),
                    });
                }
            }
        }
        Ok(())
    }

    /// Prints the tables of a cluster file.
    pub(super) fn to_toml(&self) -> String {
        let mut text = format!(
            "\n[calibration.measured]\nmachine = {}\ndate = {}\ncounts = {COUNTS}\n",
            quoted(&self.machine),
            quoted(&self.date)
        );
        for Costs {
            ranks,
            around,
            waiting,
            groups,
        } in &self.costs
        {
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "\n# seconds while {ranks} ranks run\n[calibration.measured.ranks.{ranks}]\naround = {:e}\nwaiting = {waiting}\n",
                around.0
            );
            for (group, GroupCosts { spread, terms }) in groups {
                let _ = writeln!(text, "[calibration.measured.ranks.{ranks}.{group}]");
                if let Some(spread) = spread {
                    let _ = writeln!(text, "spread = {spread}");
                }
                for (term, value) in terms {
                    let _ = writeln!(text, "{term} = {value:e}");
                }
            }
        }
        text
    }
}

impl Costs {
    /// Fixed seconds per instruction of a group (for messages, the hand-over). `None` if it was
    /// not measured.
    pub fn launch(&self, group: &str) -> Option<f64> {
        let terms = &self.groups.get(group)?.terms;
        Some(terms.get(TERMS[0]).copied().unwrap_or(0.0))
    }

    /// Seconds of an instruction with this demand. If it computes, they include its share of
    /// waiting for ranks with equal work. `None` if its group was not measured.
    pub fn seconds(&self, demand: &Demand) -> Option<f64> {
        let terms = &self.groups.get(demand.group)?.terms;
        let costs = TERMS.iter().zip(demand.terms);
        let parts = costs.map(|(term, count)| terms.get(*term).map_or(0.0, |cost| cost * count));
        let waiting = match MESSAGES.contains(&demand.group) {
            true => 0.0,
            false => self.waiting,
        };
        Some(parts.sum::<f64>() * (1.0 + waiting))
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
        let groups = || GROUPS.into_iter().chain(MESSAGES);
        let known: Vec<&str> = groups().chain(["around", "waiting"]).collect();
        section.only(&known)?;
        let mut costs = Costs {
            ranks,
            around: Seconds(section.not_negative("around")?.unwrap_or(0.0)),
            waiting: section.not_negative("waiting")?.unwrap_or(0.0),
            groups: BTreeMap::new(),
        };
        for group in groups() {
            let Some(table) = section.section(group)? else {
                continue;
            };
            let keys: Vec<&str> = TERMS.into_iter().chain(["spread"]).collect();
            table.only(&keys)?;
            let mut terms = TermCosts::new();
            for term in TERMS {
                if let Some(value) = table.not_negative(term)? {
                    terms.insert(term.to_owned(), value);
                }
            }
            let spread = table.positive("spread")?;
            let found = GroupCosts { spread, terms };
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
            expected: "the number of counts of this gnnc; measure again with `gnnc calibrate`",
        }),
        None => Err(section.missing(
            "counts",
            "the costs are from an older gnnc with other counts; measure again with `gnnc calibrate`",
        )),
    }
}
