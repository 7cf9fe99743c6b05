//! `gnnc sweep`: how many devices a model needs.

use super::cache::say_refused;
use super::html::{HtmlArgs, Page};
use super::inputs::{ModelArgs, headline};
use super::machine::{SearchArgs, warn};
use super::output::{Answer, Failure, NOTHING_CHOSEN, Output, input};
use super::text::{Table, facts, width};
use clap::Args;
use gnnc::SweepPoint;
use gnnc::ir::cluster::Cluster;
use gnnc::ir::plan::{Candidate, Objective};
use gnnc::ir::words::spelling::counted;
use gnnc::ir::words::units::Seconds;
use gnnc::numbers::DEVICES;
use gnnc::planner::report::{cost, short_bytes, short_seconds};
use serde_json::{Value, json};
use std::ops::RangeInclusive;

/// Most device counts in one sweep.
const MOST_POINTS: usize = 256;
/// Most and fewest columns of the plot's longest bar.
const BAR: RangeInclusive<usize> = 6..=24;

/// Arguments of `sweep`.
#[derive(Args)]
pub struct Sweep {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    search: SearchArgs,
    /// Device counts to try: `1..64` tries both ends and the powers of two between them, `2,6,8` exactly these.
    #[arg(long, value_name = "FROM..TO", default_value = "1..64")]
    gpus: String,
    /// Try every count between the ends.
    #[arg(long)]
    every: bool,
    #[command(flatten)]
    html: HtmlArgs,
}

/// The conclusions of a sweep.
struct Answers<'a> {
    /// The fewest devices on which a candidate fits.
    fewest: Option<&'a SweepPoint>,
    /// The fewest devices with the shortest epoch.
    fastest: Option<&'a SweepPoint>,
    /// What speed-ups are relative to: the fewest devices on which a candidate fits without the
    /// host, or else `fewest`.
    base: Option<&'a SweepPoint>,
    /// The most devices with a parallel efficiency of at least half, relative to the fewest.
    worthwhile: Option<&'a SweepPoint>,
}

impl Sweep {
    /// Plans for each device count and prints a table with bars.
    pub fn run(&self, out: &Output) -> Answer {
        let devices = numbers(&self.gpus, self.every)?;
        self.html.fits()?;
        let options = self.search.options("h100x8", out)?;
        if options.objective == Objective::TimeToAccuracy {
            return Err(input(
                "found --objective time-to-accuracy, expected time, memory or bytes: a sweep compares epochs; plan for each \
                 number of devices with `gnnc plan --gpus N`",
            ));
        }
        warn(options.pin.knobs.skip, out);
        let loaded = self.model.load(out)?;
        let compiled = gnnc::compile(&loaded.model, &loaded.workload)?;
        let points = gnnc::sweep(&loaded, &compiled, &options, &devices)?;
        say_refused(options.cache.as_ref(), out);
        let answers = answers(&points);
        let costs = Costs {
            cluster: &options.cluster,
            epochs: loaded.model.train.epochs,
        };
        let listed = points.iter().map(|point| {
            let mut value = serde_json::to_value(point).unwrap_or_default();
            value["speed_up"] = json!(speed_up(point, &answers));
            if options.cluster.price_per_hour.is_some() {
                value["cost_per_epoch"] = json!(costs.epoch(point));
                value["cost_per_run"] = json!(costs.run(point));
            }
            value
        });
        let listed: Vec<Value> = listed.collect();
        let number = |point: Option<&SweepPoint>| point.map(|p| p.devices);
        let text = || {
            let device = &options.cluster.device.name;
            let on = facts(&[("on   ", format!("{} of {device}", options.cluster.name))]);
            let head = headline(&loaded);
            let plot = plot(&points, &answers, &costs);
            format!("{head}{on}\n{plot}\n{}", conclusion(&answers, &costs))
        };
        let value = json!({
            "model": loaded.model.name,
            "graph": loaded.workload.name,
            "cluster": options.cluster.name,
            "device": options.cluster.device.name,
            "objective": options.objective,
            "points": listed,
            "base": number(answers.base),
            "fewest": number(answers.fewest),
            "fastest": number(answers.fastest),
            "worthwhile": number(answers.worthwhile),
        });
        if let Some(path) = self.html.file() {
            let mut page = Page::new("sweep", &loaded);
            let names = points
                .iter()
                .map(|p| p.choice.as_ref().map(Candidate::name));
            page.set("names", json!(names.collect::<Vec<_>>()));
            page.set("cluster", json!(options.cluster));
            page.set("epochs", json!(loaded.model.train.epochs));
            page.set("sweep", value.clone());
            page.write(path)?;
        }
        out.report(text, &value)?;
        match answers.fewest {
            Some(_) => Ok(()),
            None => Err(Failure::Reported(NOTHING_CHOSEN)),
        }
    }
}

/// Parses `1..64` or `1,2,8`; the result is ascending, without repeats.
fn numbers(text: &str, every: bool) -> Result<Vec<u32>, Failure> {
    let wrong = |found: &str| {
        input(format!(
            "found --gpus {found}, expected device counts from 1 to {}, such as 1..64 or 1,2,8",
            DEVICES.end()
        ))
    };
    let number = |part: &str| {
        let digits = part.trim().replace('_', "");
        let number = digits.parse::<u32>().ok().filter(|n| DEVICES.contains(n));
        number.ok_or_else(|| wrong(text))
    };
    let mut numbers = match text.split_once("..") {
        None => text.split(',').map(number).collect::<Result<Vec<_>, _>>()?,
        Some((from, to)) => {
            let (from, to) = (number(from)?, number(to.trim_start_matches('='))?);
            if from > to {
                return Err(wrong(text));
            }
            let powers = (0..32).map(|n| 1u32 << n);
            match every {
                true => (from..=to).take(MOST_POINTS + 1).collect(),
                false => powers
                    .filter(|n| (from..=to).contains(n))
                    .chain([from, to])
                    .collect(),
            }
        }
    };
    numbers.sort_unstable();
    numbers.dedup();
    if numbers.len() > MOST_POINTS {
        return Err(input(format!(
            "found more than {MOST_POINTS} device counts in --gpus {text}; leave out --every"
        )));
    }
    Ok(numbers)
}

fn answers(points: &[SweepPoint]) -> Answers<'_> {
    let fitting = || points.iter().filter_map(|p| Some((p, seconds(p)?)));
    let fewest = fitting().next();
    let fastest = fitting().min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.devices.cmp(&b.0.devices)));
    let without_host = |p: &&SweepPoint| p.choice.as_ref().is_some_and(|c| c.host.is_none());
    let base = points.iter().find(without_host);
    let used = |point: &SweepPoint, seconds: f64| f64::from(point.devices) * seconds;
    let worthwhile = fewest.and_then(|(first, least)| {
        let all = |p: &SweepPoint| ranks(p) == Some(p.devices) || p.devices == first.devices;
        let mut enough =
            fitting().filter(|(p, s)| all(p) && used(p, *s) <= 2.0 * used(first, least));
        enough.next_back()
    });
    Answers {
        fewest: fewest.map(|f| f.0),
        base: base.or(fewest.map(|f| f.0)),
        fastest: fastest.map(|f| f.0),
        worthwhile: worthwhile.map(|w| w.0),
    }
}

fn seconds(point: &SweepPoint) -> Option<f64> {
    point.choice.as_ref().map(|c| c.epoch_seconds.0)
}

/// How many times as fast as the base.
fn speed_up(point: &SweepPoint, answers: &Answers) -> Option<f64> {
    let base = seconds(answers.base?)?;
    Some(base / seconds(point)?.max(f64::MIN_POSITIVE))
}

/// What the devices of a point cost, idle ones included.
struct Costs<'a> {
    cluster: &'a Cluster,
    /// Epochs of a run, each followed by an evaluation.
    epochs: u32,
}

impl Costs<'_> {
    fn of(&self, point: &SweepPoint, seconds: f64) -> Option<f64> {
        let price = self.cluster.price_per_hour?;
        Some(price * f64::from(point.devices) * seconds / 3600.0)
    }

    fn epoch(&self, point: &SweepPoint) -> Option<f64> {
        self.of(point, seconds(point)?)
    }

    fn run(&self, point: &SweepPoint) -> Option<f64> {
        let Seconds(evaluation) = point.choice.as_ref()?.eval_seconds;
        self.of(
            point,
            f64::from(self.epochs) * (seconds(point)? + evaluation),
        )
    }
}

fn ranks(point: &SweepPoint) -> Option<u32> {
    point.choice.as_ref().map(|c| c.parameters.ranks)
}

/// What stands beside or below a line of the plot.
enum Beside {
    /// A bar as long as the epoch, as a share of the longest.
    Bar(f64),
    /// Why there is no candidate.
    Reason(String),
}

fn plot(points: &[SweepPoint], answers: &Answers, costs: &Costs) -> String {
    let longest = points.iter().filter_map(seconds).fold(0.0, f64::max);
    let mut table = Table::new(2, 2);
    let mut head = vec!["gpus", "best", "epoch", "speed-up", "memory", "sent"];
    if costs.cluster.price_per_hour.is_some() {
        head.extend(["an epoch", "a run"]);
    }
    let columns = head.len();
    table.row(head);
    let money = |price: Option<f64>| price.map(cost);
    let mut besides = vec![Beside::Reason(String::new())];
    for point in points {
        let gpus = point.devices.to_string();
        match &point.choice {
            Some(choice) => {
                let seconds = choice.epoch_seconds.0;
                let share = if longest > 0.0 {
                    seconds / longest
                } else {
                    0.0
                };
                besides.push(Beside::Bar(share));
                let faster = speed_up(point, answers);
                let cells = [
                    gpus,
                    choice.name(),
                    short_seconds(seconds),
                    faster.map_or_else(|| "-".to_owned(), |times| format!("{times:.2}")),
                    short_bytes(choice.peak_memory_bytes.0),
                    short_bytes(choice.bytes.0),
                ];
                let costs = [costs.epoch(point), costs.run(point)].map(money);
                table.row(cells.into_iter().chain(costs.into_iter().flatten()));
            }
            None => {
                besides.push(Beside::Reason(point.reason.clone()));
                let none = std::iter::repeat_n("-".to_owned(), columns - 1);
                table.row(std::iter::once(gpus).chain(none));
            }
        }
    }
    let table = table.lines();
    let wide = table.lines().map(|l| l.chars().count()).max().unwrap_or(0);
    let room = width().saturating_sub(wide + 2);
    let longest = room.min(*BAR.end());
    let mut text = String::new();
    for (line, beside) in table.lines().zip(besides) {
        text.push_str(line);
        match beside {
            // Without room there are no bars.
            Beside::Bar(_) if !BAR.contains(&longest) => {}
            Beside::Bar(share) => {
                let bar = ((share * longest as f64).round() as usize).max(1);
                let gap = wide + 2 - line.chars().count();
                text.push_str(&format!("{:gap$}{}", "", "#".repeat(bar)));
            }
            Beside::Reason(reason) if reason.is_empty() => {}
            Beside::Reason(reason) => {
                text.push_str(&format!("\n{}", facts(&[("       ", reason)]).trim_end()));
            }
        }
        text.push('\n');
    }
    text
}

fn conclusion(answers: &Answers, costs: &Costs) -> String {
    let devices = |n: u32| counted(n, "device");
    let Some(fewest) = answers.fewest else {
        return facts(&[("fits on", "none of these device counts".to_owned())]);
    };
    let base = answers.base.unwrap_or(fewest);
    let against = |point: &SweepPoint| {
        let seconds = seconds(point).unwrap_or(0.0);
        let factor = speed_up(point, answers).filter(|_| point.devices != base.devices);
        let beside = factor.map_or_else(String::new, |factor| {
            format!(", {factor:.2} times as fast as {}", base.devices)
        });
        format!(
            "{}: {}{beside}",
            devices(point.devices),
            short_seconds(seconds)
        )
    };
    let mut lines = vec![("fits on", format!("{} or more", devices(fewest.devices)))];
    if let Some(worthwhile) = answers.worthwhile {
        let why = "the most with at least 50 % parallel efficiency, relative to the fewest";
        lines.push(("worthwhile", format!("{} ({why})", against(worthwhile))));
    }
    if let Some(fastest) = answers.fastest {
        lines.push(("fastest", against(fastest)));
    }
    if base.devices != fewest.devices {
        let says = format!(
            "relative to {}, the fewest on which it fits without host memory",
            devices(base.devices)
        );
        lines.push(("speed-up", says));
    }
    if let Some(price) = costs.cluster.price_per_hour {
        let says = format!(
            "{price} for a device and an hour, idle devices included; a run has {} and as many evaluations",
            counted(costs.epochs, "epoch")
        );
        lines.push(("cost", says));
    }
    facts(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str, every: bool) -> Vec<u32> {
        numbers(text, every).unwrap_or_default()
    }

    #[test]
    fn ranges_have_their_ends_and_powers_of_two() {
        assert_eq!(list("1..64", false), [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(list("3..=20", false), [3, 4, 8, 16, 20]);
        assert_eq!(list("5", false), [5]);
        assert_eq!(list("8,2,2", false), [2, 8]);
        assert_eq!(list("3..6", true), [3, 4, 5, 6]);
        for wrong in [
            "",
            "0",
            "0..4",
            "8..2",
            "1..",
            "x",
            "1..4294967296",
            "-1..4",
        ] {
            assert!(numbers(wrong, false).is_err(), "{wrong}");
        }
        assert!(numbers("1..65_536", true).is_err());
    }

    #[test]
    fn nothing_fits_nothing_is_concluded() {
        let points = [SweepPoint {
            devices: 2,
            choice: None,
            reason: "too large ".repeat(20),
        }];
        let found = answers(&points);
        assert!(found.fewest.is_none() && found.fastest.is_none());
        let costs = Costs {
            cluster: &Cluster::named("cpu").unwrap(),
            epochs: 1,
        };
        assert!(conclusion(&found, &costs).contains("none of these"));
        assert!(
            plot(&points, &found, &costs)
                .lines()
                .all(|l| l.chars().count() <= 99)
        );
    }
}
