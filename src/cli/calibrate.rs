//! `gnnc calibrate`: measures what instructions cost on this machine.

use super::cache;
use super::device::DeviceArgs;
use super::files::{replace, writable};
use super::network::Network;
use super::output::{Answer, Output, input};
use super::text::{Table, facts, percent};
use super::turns::Turns;
use clap::Args;
use gnnc::ir::cluster::Cluster;
use gnnc::ir::words::units::{Bytes, Seconds};
use gnnc::runtime::device::cuda::gpu;
use gnnc::runtime::transport::mpi::World;
use gnnc::{CalibrateOptions, Calibrated, Device, Error};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Most ranks; more are surely a typo.
const MOST_RANKS: u32 = 64;

/// Arguments of `calibrate`.
#[derive(Args)]
pub struct Calibrate {
    /// Write the measured cluster to this file; `gnnc plan --cluster FILE` plans for it.
    #[arg(long, value_name = "FILE", default_value = "machine.toml")]
    out: PathBuf,
    /// Number of ranks that run at once to measure contention; by default the number of cores. A GPU is
    /// measured with one rank.
    #[arg(long, value_name = "N")]
    ranks: Option<u32>,
    /// Write all measurements to this file as JSON.
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    /// Measure only small graphs: takes seconds instead of minutes, but is rough for large graphs.
    #[arg(long)]
    quick: bool,
    /// Write the file even if repeated measurements differ by more than the error of the fitted costs, as on a busy
    /// machine. Without this option, everything is measured again, and no file is written if that does not help.
    #[arg(long)]
    noisy: bool,
    /// Interleave with another benchmark on the same machine. A line on standard input, a number of seconds, starts a
    /// turn; when that time is up, the turn ends after the current measurement. Before each turn, the completed
    /// fraction is printed as one line of JSON.
    #[arg(long = "interleave", alias = "turns")]
    turns: bool,
    /// Under a launcher such as `mpirun -n 2`, only the links between its processes are measured, and this is the cluster
    /// whose devices they have: a name, keys, or a file that `gnnc calibrate` wrote on one machine. By default cpu.
    #[arg(long, value_name = "NAME|FILE")]
    cluster: Option<String>,
    #[command(flatten)]
    device: DeviceArgs,
}

impl Calibrate {
    /// Measures, writes the file and reports how well the fitted costs explain the measurements.
    pub fn run(&self, out: &Output, world: Option<Arc<World>>) -> Answer {
        writable(&self.out, "calibration")?;
        if let Some(world) = world {
            let machine = self.cluster.as_deref().unwrap_or("cpu");
            let found = Network::measure(&world, machine)?;
            if !out.is_silent() {
                replace(&self.out, written(&found.cluster).as_bytes())?;
            }
            return found.report(out, &self.out.display().to_string());
        }
        if self.cluster.is_some() {
            return Err(input(
                "found --cluster, which is for links between processes; start them with a launcher, as in `mpirun -n 2 gnnc \
                 calibrate --cluster machine.toml --out cluster.toml`",
            ));
        }
        if let Some(path) = &self.samples {
            writable(path, "measurements")?;
        }
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let ranks = self.ranks.unwrap_or(cores.min(MOST_RANKS));
        if !(1..=MOST_RANKS).contains(&ranks) {
            return Err(input(format!(
                "found --ranks {ranks}, expected 1 to {MOST_RANKS}"
            )));
        }
        let device = self.device.device();
        let (machine, bytes, ranks) = match &device {
            Device::Cpu => (machine_name(), memory(), ranks),
            Device::Cuda(options) => {
                let gpu = gpu(options.gpu, &options.folders).map_err(Error::from)?;
                (format!("{}, {}", gpu.name, gpu.arch), gpu.memory_bytes, 1)
            }
        };
        let options = CalibrateOptions {
            machine,
            date: today(),
            ranks,
            quick: self.quick,
            noisy: self.noisy,
            memory: Bytes(bytes),
            device,
            cache: cache::open(out)?,
        };
        let bar = bar(out);
        let mut lines = Lines::default();
        let mut turns = self.turns.then(Turns::default);
        let found = gnnc::calibrate(&options, &mut |what, share| {
            bar.set_position((share * 1000.0) as u64);
            bar.set_message(what.to_owned());
            if bar.is_hidden() && !self.turns {
                out.note(&lines.line(what, share));
            }
            turns
                .as_mut()
                .map_or(Ok(()), |turns| turns.next(|| out.line(&share)))
        });
        bar.finish_and_clear();
        let found = found?;
        replace(&self.out, written(&found.cluster).as_bytes())?;
        if let Some(path) = &self.samples {
            let text = serde_json::to_string(&found.measurements).map_err(io::Error::other)?;
            replace(path, text.as_bytes())?;
        }
        out.report(
            || self.text(&options, &found),
            &json!({
                "file": self.out.display().to_string(),
                "machine": options.machine,
                "date": options.date,
                "ranks": ranks,
                "quality": found.quality,
                "rounds": found.rounds,
                "latency_seconds": found.cluster.inside.latency,
                "bandwidth": found.cluster.inside.bandwidth,
            }),
        )
    }

    fn text(&self, options: &CalibrateOptions, found: &Calibrated) -> String {
        let link = &found.cluster.inside;
        let mut lines = vec![
            (
                "machine",
                format!("{}, on {}", options.machine, options.date),
            ),
            ("file", self.out.display().to_string()),
            ("rounds", format!("{} over all graphs", found.rounds)),
        ];
        if options.ranks > 1 {
            lines.push((
                "messages",
                format!(
                    "{} and {:.1} GB/s between ranks",
                    Seconds(link.latency.0),
                    link.bandwidth / 1e9
                ),
            ));
        }
        let mut table = Table::new(1, 2);
        table.row([
            "instructions",
            "ranks at once",
            "samples",
            "mean error",
            "noise",
            "unseen graphs",
        ]);
        for quality in &found.quality {
            table.row([
                quality.group.clone(),
                quality.ranks.to_string(),
                quality.samples.to_string(),
                percent(quality.error),
                percent(quality.repeated),
                quality
                    .spread
                    .map_or_else(String::new, |factor| format!("x {factor:.2}")),
            ]);
        }
        format!("{}\n{}", facts(&lines), table.lines())
    }
}

/// A cluster as a file.
fn written(cluster: &Cluster) -> String {
    let comment = "# Written by `gnnc calibrate`. Plan for this machine with `gnnc plan --cluster`\n\
                   # and this file; docs/cost-model.md says what the numbers mean.\n";
    format!("{comment}{}", cluster.to_toml())
}

/// Lines of progress where there is no terminal for a bar: one per tenth, and one when the measurement restarts.
#[derive(Default)]
struct Lines {
    tenths: Option<u32>,
}

impl Lines {
    /// The line about the current measurement, if one is due; else an empty string.
    fn line(&mut self, what: &str, share: f64) -> String {
        let tenths = (share * 10.0) as u32;
        if self.tenths == Some(tenths) {
            return String::new();
        }
        self.tenths = Some(tenths);
        format!("{:>3} % {what}\n", tenths * 10)
    }
}

fn bar(out: &Output) -> ProgressBar {
    if out.is_json() || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("{wide_bar} {percent} % {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// The CPU's name and number of cores.
pub fn machine_name() -> String {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("an unknown CPU", |(_, name)| name.trim());
    format!("{model}, {cores} cores")
}

/// Memory of the machine in bytes; 8 GiB if the system does not say.
pub fn memory() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kibibytes = info.lines().find_map(|line| {
        let rest = line.strip_prefix("MemTotal:")?;
        rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    kibibytes.map_or(8 << 30, |k| k << 10)
}

/// Today's date in UTC, such as 2026-01-31.
fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let days = since.map_or(0, |d| d.as_secs() / 86_400) as i64;
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day, `days` days after 1970-01-01 (Hinnant's `civil_from_days`).
fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_a_line_for_each_tenth() {
        let mut lines = Lines::default();
        let shares = [0.0, 0.04, 0.11, 0.19, 0.95, 0.01];
        let found = shares.map(|share| lines.line("gcn", share));
        let expected = [
            "  0 % gcn\n",
            "",
            " 10 % gcn\n",
            "",
            " 90 % gcn\n",
            "  0 % gcn\n",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn days_are_dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(20_778), (2026, 11, 21));
    }
}
