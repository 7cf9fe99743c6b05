//! `mpirun -n 2 gnnc calibrate`: measures the links between processes.

use super::output::{Answer, Failure, Output, input};
use super::text::{Table, facts};
use gnnc::cluster;
use gnnc::ir::cluster::{Cluster, Link, SharedBy};
use gnnc::ir::words::spelling::counted;
use gnnc::ir::words::units::{Bytes, Seconds};
use gnnc::runtime::RuntimeError;
use gnnc::runtime::transport::mpi::{Timed, World, WorldError};
use serde_json::json;
use std::collections::BTreeMap;

/// Floats of the messages that are timed.
const SIZES: [usize; 7] = [1, 256, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// Bytes of the smallest message by which a bandwidth is measured.
const LARGE: u64 = 256 << 10;

/// A link that was measured.
struct Measured {
    /// Which: `inside` or `between`.
    place: &'static str,
    pair: [u32; 2],
    timed: Vec<Timed>,
    /// Seconds of a processor for each byte, if it computes meanwhile.
    processor: f64,
}

/// A machine with the links between the processes of this run.
pub struct Network {
    /// The machine.
    pub cluster: Cluster,
    links: Vec<Measured>,
    hosts: usize,
}

impl Network {
    /// Measures the links between processes of one host and of two, as far as there are any. `machine` names the
    /// cluster whose devices they have. Collective.
    ///
    /// # Errors
    /// Hosts with unequal numbers of processes; a process that failed.
    pub fn measure(world: &World, machine: &str) -> Result<Self, Failure> {
        let lost = |error: WorldError| gnnc::Error::from(RuntimeError::World(error));
        let mut found = cluster(machine)?;
        let names = world.hosts().map_err(lost)?;
        let mut of_host: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for (name, process) in names.iter().zip(0..) {
            of_host.entry(name).or_default().push(process);
        }
        let near = of_host
            .values()
            .find(|here| here.len() > 1)
            .map(|here| [here[0], here[1]]);
        let away = (1..).zip(&names[1..]).find(|(_, name)| **name != names[0]);
        let pairs = [
            ("inside", near),
            ("between", away.map(|(other, _)| [0, other])),
        ];
        let mut links = Vec::new();
        for (place, pair) in pairs {
            let Some(pair) = pair else {
                continue;
            };
            let timed = SIZES.map(|floats| world.time(pair, floats).map_err(lost));
            let timed = timed.into_iter().collect::<Result<Vec<_>, _>>()?;
            let link = Measured {
                place,
                pair,
                timed,
                processor: world.time_behind(pair).map_err(lost)?,
            };
            match place {
                "inside" => found.inside = link.link(SharedBy::Rank),
                _ => found.between = link.link(SharedBy::Node),
            }
            links.push(link);
        }
        found.nodes = of_host.len() as u32;
        found.check().map_err(|error| input(error.to_string()))?;
        Ok(Self {
            cluster: found,
            links,
            hosts: of_host.len(),
        })
    }

    /// Reports what was measured, and the file with it.
    ///
    /// # Errors
    /// A closed or full standard output.
    pub fn report(&self, out: &Output, file: &str) -> Answer {
        out.report(|| self.text(file), &self.json(file))
    }

    fn text(&self, file: &str) -> String {
        let mut lines = vec![
            ("hosts", counted(self.hosts, "host")),
            ("file", file.to_owned()),
        ];
        for link in &self.links {
            let [one, other] = link.pair;
            let found = link.link(SharedBy::Node);
            let text = format!(
                "{} and {:.2} GB/s each way, between processes {one} and {other}; each byte costs a computing process {:.2} ns",
                found.latency,
                found.bandwidth / 1e9,
                1e9 * link.processor
            );
            lines.push((link.place, text));
        }
        let mut table = Table::new(1, 4);
        table.row(["link", "message", "there", "back", "both at once"]);
        for link in &self.links {
            for timed in &link.timed {
                table.row([
                    link.place.to_owned(),
                    Bytes(timed.bytes).to_string(),
                    Seconds(timed.there).to_string(),
                    Seconds(timed.back).to_string(),
                    Seconds(timed.both).to_string(),
                ]);
            }
        }
        format!("{}\n{}", facts(&lines), table.lines())
    }

    fn json(&self, file: &str) -> serde_json::Value {
        let of = |link: &Measured| {
            let found = link.link(SharedBy::Node);
            json!({
                "link": link.place,
                "processes": link.pair,
                "latency_seconds": found.latency,
                "bandwidth": found.bandwidth,
                "processor_seconds_per_byte": found.processor,
                "messages": link.timed,
            })
        };
        json!({
            "file": file,
            "hosts": self.hosts,
            "links": self.links.iter().map(of).collect::<Vec<_>>(),
        })
    }
}

impl Measured {
    /// The latency is that of the smallest message. The bandwidth is that of large messages both ways at once, by least
    /// squares of relative errors.
    fn link(&self, shared_by: SharedBy) -> Link {
        let smallest = self.timed.iter().map(|timed| timed.there.min(timed.back));
        let latency = smallest.fold(f64::INFINITY, f64::min).max(1e-9);
        let large = self.timed.iter().filter(|timed| timed.bytes >= LARGE);
        let (mut sum, mut squares) = (0.0, 0.0);
        for timed in large {
            let seconds = (timed.both - latency).max(1e-9);
            // Seconds a byte times bytes over seconds is to be 1.
            let relative = timed.bytes as f64 / seconds;
            sum += relative;
            squares += relative * relative;
        }
        Link {
            name: "measured".to_owned(),
            bandwidth: squares / sum,
            latency: Seconds(latency),
            processor: Seconds(self.processor),
            shared_by,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_found_again() {
        let of = |bytes: u64| {
            let seconds = 20e-6 + bytes as f64 / 1e9;
            Timed {
                bytes,
                there: seconds,
                back: seconds,
                both: seconds,
            }
        };
        let link = Measured {
            place: "between",
            pair: [0, 1],
            timed: SIZES.iter().map(|floats| of(4 * *floats as u64)).collect(),
            processor: 1e-9,
        };
        let found = link.link(SharedBy::Node);
        assert!((found.latency.0 - 20e-6).abs() < 1e-8, "{found:?}");
        assert!((found.bandwidth - 1e9).abs() < 1e5, "{found:?}");
    }
}
