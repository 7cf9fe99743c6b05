//! The machines that a program is planned for: devices, links, and how much of their peaks is
//! reached.

mod cache;
mod calibration;
mod error;
mod inline;
mod measured;
mod parse;
mod profile;
mod software;

pub use calibration::{Basis, Calibration, Efficiency};
pub use error::ClusterError;
pub use measured::{Costs, GroupCosts, Measured, TermCosts};
pub use profile::{
    CLUSTERS, DEVICES, LINKS, core_profile, device_profile, host_profile, link_profile,
};

pub use software::Software;

use crate::program::work::KernelClass;
use crate::words::sampling::samplers_of_gpus;
use crate::words::units::{Bytes, Seconds};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The version of cluster files that this library reads and writes.
pub const CLUSTER_VERSION: i64 = 1;
/// Most devices in a cluster.
pub const MAX_DEVICES: u64 = 65_536;
/// Exclusive bound on the memory of a device or host.
const MAX_MEMORY: u64 = 1_000_000_000_000_000_000;

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// One core, or several that work as one.
    Cpu,
    /// A graphics processor.
    Gpu,
}

/// One device; a rank runs on one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Name, as in "H100".
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Peak 32-bit floating-point operations per second, without tensor cores.
    pub flops: f64,
    /// Peak dense operations per second of tensor cores, by type (`tf32`, `bf16`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tensor_flops: BTreeMap<String, f64>,
    /// Peak bytes per second to and from memory.
    pub memory_bandwidth: f64,
    /// Memory capacity.
    pub memory: Bytes,
    /// Shortest time that any kernel takes.
    pub launch_floor: Seconds,
    /// The last cache before the memory; if `None`, every row counts as read from memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Bytes>,
}

/// Scope of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SharedBy {
    /// Every rank has its own.
    Rank,
    /// The ranks of a node share one.
    Node,
}

/// A link between devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Name, as in "nvlink4".
    pub name: String,
    /// Peak bytes per second in each direction.
    pub bandwidth: f64,
    /// Time from the start of a message to its first byte at the other end.
    pub latency: Seconds,
    /// Time that a processor lacks for computing, for each byte that it sends or receives meanwhile: O of LogGOPS (Hoefler,
    /// Schneider and Lumsdaine, HPDC 2010). Zero where the network moves messages by itself.
    #[serde(default, skip_serializing_if = "Seconds::is_zero")]
    pub processor: Seconds,
    /// Who shares it.
    pub shared_by: SharedBy,
}

impl Link {
    /// How many of the ranks of a node share it.
    pub fn sharers(&self, node_ranks: f64) -> f64 {
        match self.shared_by {
            SharedBy::Rank => 1.0,
            SharedBy::Node => node_ranks,
        }
    }
}

/// The processor of a node; its memory can hold tensors offloaded from the node's devices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Memory of a node.
    pub memory: Bytes,
    /// Bytes per second that copies between it and a device reach, each way. Every device has
    /// its own link.
    pub bandwidth: f64,
    /// Time from the start of a copy to its first byte.
    pub latency: Seconds,
    /// Cores of a node, which draw the batches of its devices. Plans of earlier versions do not say how many.
    #[serde(default = "one")]
    pub cores: u32,
}

fn one() -> u32 {
    1
}

/// Nodes with equal devices. Ranks fill the first node, then the second, and so on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Name, for reports.
    pub name: String,
    /// Number of nodes.
    pub nodes: u32,
    /// Devices per node.
    pub devices_per_node: u32,
    /// The device; all are equal.
    pub device: Device,
    /// The links inside a node.
    pub inside: Link,
    /// The links between nodes.
    pub between: Link,
    /// The processor of each node; `None` if devices are processors or nothing is known about
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// Price of one device for an hour, in any currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<f64>,
    /// How much of the peaks is reached.
    pub calibration: Calibration,
    /// What starts kernels and messages.
    #[serde(default, skip_serializing_if = "Software::is_own")]
    pub software: Software,
}

impl Cluster {
    /// Reads a cluster file.
    ///
    /// ```
    /// let cluster = gnnc_ir::cluster::Cluster::parse(r#"
    ///     version = 1
    ///     nodes = 2
    ///     devices_per_node = 4
    ///     device.profile = "A5000"
    ///     inside.profile = "pcie4"
    ///     between.profile = "200gb"
    /// "#)?;
    /// assert_eq!(cluster.devices(), 8);
    /// # Ok::<(), gnnc_ir::cluster::ClusterError>(())
    /// ```
    ///
    /// # Errors
    /// If the text is not TOML; the version is unknown; a key is unknown or missing; a profile
    /// is unknown; a number is out of range.
    pub fn parse(text: &str) -> Result<Self, ClusterError> {
        parse::parse(text)
    }

    /// Reads a cluster from one line: short names for keys of a cluster file. The links are by
    /// default those of the device's built-in cluster.
    ///
    /// ```
    /// let cluster = gnnc_ir::cluster::Cluster::inline("nodes=2 gpus=4 gpu=a100-40 link=25gb")?;
    /// assert_eq!((cluster.nodes, cluster.devices_per_node), (2, 4));
    /// # Ok::<(), gnnc_ir::cluster::ClusterError>(())
    /// ```
    ///
    /// # Errors
    /// If a key is unknown, given twice or missing; a value is not what its key takes.
    pub fn inline(text: &str) -> Result<Self, ClusterError> {
        inline::parse(text)
    }

    /// A built-in cluster: `cpu`, or a device profile and the number of devices per node, such
    /// as `h100x8`.
    ///
    /// # Errors
    /// If the name is neither.
    pub fn named(name: &str) -> Result<Self, ClusterError> {
        profile::cluster(name)
    }

    /// The shortest time that any kernel takes.
    pub fn launch_floor(&self) -> f64 {
        self.device.launch_floor.0.max(self.software.launch.0)
    }

    /// Seconds that a device computes less for each byte that crosses a link meanwhile; a GPU moves no messages.
    pub fn handling_of(&self, link: &Link) -> f64 {
        match self.device.kind {
            DeviceKind::Cpu => link.processor.0,
            DeviceKind::Gpu => 0.0,
        }
    }

    /// Time from the start of a message to its first byte at the other end of a link.
    pub fn latency_of(&self, link: &Link) -> f64 {
        link.latency.0 + self.software.message.0
    }

    /// Threads of each of so many ranks that draw batches ahead if nobody says how many: none on processors,
    /// and those that the hosts of other devices have left.
    pub fn samplers(&self, ranks: u32) -> u32 {
        let sharing = self.devices_per_node.min(ranks);
        let cores = self.host.map_or(0, |host| host.cores);
        match self.device.kind {
            DeviceKind::Cpu => 0,
            DeviceKind::Gpu => samplers_of_gpus(cores, sharing),
        }
    }

    /// The same devices and links with another number of devices, of nodes, or both.
    ///
    /// `gpus` counts the devices of all nodes. Without `nodes`, they fill nodes of the present
    /// size; if there are fewer, they share one node.
    ///
    /// # Errors
    /// If either is 0, the devices do not divide evenly among the nodes, or there are too many.
    pub fn resized(self, gpus: Option<u32>, nodes: Option<u32>) -> Result<Self, ClusterError> {
        let per_node = self.devices_per_node;
        let (nodes, devices) = match (gpus, nodes) {
            (None, None) => (self.nodes, self.nodes.saturating_mul(per_node)),
            (None, Some(nodes)) => (nodes, nodes.saturating_mul(per_node)),
            (Some(gpus), Some(nodes)) => (nodes, gpus),
            (Some(gpus), None) if gpus <= per_node || self.device.kind == DeviceKind::Cpu => {
                (1, gpus)
            }
            (Some(gpus), None) => (gpus.div_ceil(per_node), gpus),
        };
        if nodes == 0 || devices == 0 {
            let key = if nodes == 0 { "nodes" } else { "devices" };
            return Err(ClusterError::NotPositive {
                key: key.to_owned(),
                found: "0".to_owned(),
            });
        }
        if devices % nodes != 0 {
            return Err(ClusterError::Uneven { devices, nodes });
        }
        let resized = Self {
            nodes,
            devices_per_node: devices / nodes,
            ..self
        };
        resized.check()?;
        Ok(resized)
    }

    /// Whether the last stage of a pipeline may send to the first. Only if all ranks are
    /// threads of one process: GPUs have one process each, and between processes a blocking
    /// send would keep its sender from receiving.
    pub fn rings(&self) -> bool {
        self.device.kind == DeviceKind::Cpu
    }

    /// Number of devices.
    pub fn devices(&self) -> u32 {
        self.nodes.saturating_mul(self.devices_per_node)
    }

    /// The node of a rank.
    pub fn node_of(&self, rank: u32) -> u32 {
        rank / self.devices_per_node.max(1)
    }

    /// Price of using all devices for this long; `None` if the devices have none.
    pub fn price(&self, time: Seconds) -> Option<f64> {
        let hours = time.0 / 3600.0;
        self.price_per_hour
            .map(|price| price * f64::from(self.devices()) * hours)
    }

    /// Prints the cluster as a file that [`Cluster::parse`] reads.
    pub fn to_toml(&self) -> String {
        let mut text = format!(
            "version = {CLUSTER_VERSION}\nname = {}\nnodes = {}\ndevices_per_node = {}\n",
            quoted(&self.name),
            self.nodes,
            self.devices_per_node
        );
        if let Some(price) = self.price_per_hour {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "price_per_hour = {price:?}");
        }
        let device = &self.device;
        let kind = match device.kind {
            DeviceKind::Cpu => "cpu",
            DeviceKind::Gpu => "gpu",
        };
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n[device]\nname = {}\nkind = \"{kind}\"\nflops = {:e}\nmemory_bandwidth = {:e}\n\
             memory_bytes = {}\nlaunch_floor = {:e}\n",
            quoted(&device.name),
            device.flops,
            device.memory_bandwidth,
            device.memory.0,
            device.launch_floor.0
        );
        if let Some(cache) = device.cache {
            let _ = writeln!(text, "cache_bytes = {}", cache.0);
        }
        if !device.tensor_flops.is_empty() {
            text.push_str("\n[device.tensor_flops]\n");
            for (name, flops) in &device.tensor_flops {
                let _ = writeln!(text, "{} = {flops:e}", key(name));
            }
        }
        for (key, link) in [("inside", &self.inside), ("between", &self.between)] {
            let shared_by = match link.shared_by {
                SharedBy::Rank => "rank",
                SharedBy::Node => "node",
            };
            let _ = write!(
                text,
                "\n[{key}]\nname = {}\nbandwidth = {:e}\nlatency = {:e}\nshared_by = \"{shared_by}\"\n",
                quoted(&link.name),
                link.bandwidth,
                link.latency.0
            );
            if !link.processor.is_zero() {
                let _ = writeln!(text, "processor = {:e}", link.processor.0);
            }
        }
        if let Some(host) = &self.host {
            let _ = write!(
                text,
                "\n[host]\nmemory_bytes = {}\nbandwidth = {:e}\nlatency = {:e}\ncores = {}\n",
                host.memory.0, host.bandwidth, host.latency.0, host.cores
            );
        }
        self.software.print(&mut text);
        let calibration = &self.calibration;
        let _ = write!(
            text,
            "\n[calibration]\nbasis = \"{}\"\nspread = {}\nclass_spread = {}\nlink_spread = {}\n\
             link_efficiency = {}\nmessage_gap = {:e}\nedge_latency = {:e}\n\n[calibration.efficiency]\n",
            calibration.basis,
            calibration.spread,
            calibration.class_spread,
            calibration.link_spread,
            calibration.link_efficiency,
            calibration.message_gap.0,
            calibration.edge_latency.0
        );
        for class in KernelClass::ALL {
            let Efficiency {
                compute,
                memory,
                cached,
            } = calibration.of(class);
            let _ = writeln!(
                text,
                "{class} = {{ compute = {compute}, memory = {memory}, cached = {cached} }}"
            );
        }
        if let Some(measured) = &calibration.measured {
            text.push_str(&measured.to_toml());
        }
        text
    }

    /// Checks every number, so that no estimate is infinite or negative.
    ///
    /// # Errors
    /// The first number out of range, with its key.
    pub fn check(&self) -> Result<(), ClusterError> {
        let counts = [
            ("nodes", self.nodes),
            ("devices_per_node", self.devices_per_node),
        ];
        if let Some((key, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(ClusterError::NotPositive {
                key: key.to_owned(),
                found: "0".to_owned(),
            });
        }
        let devices = u64::from(self.nodes) * u64::from(self.devices_per_node);
        if devices > MAX_DEVICES {
            return Err(ClusterError::TooManyDevices {
                found: devices,
                limit: MAX_DEVICES,
            });
        }
        let positive = [
            ("device.flops", self.device.flops),
            ("device.memory_bandwidth", self.device.memory_bandwidth),
            ("device.memory_bytes", self.device.memory.0 as f64),
            (
                "device.cache_bytes",
                self.device.cache.map_or(1.0, |cache| cache.0 as f64),
            ),
            ("inside.bandwidth", self.inside.bandwidth),
            ("between.bandwidth", self.between.bandwidth),
            ("price_per_hour", self.price_per_hour.unwrap_or(1.0)),
        ];
        let of_host = self
            .host
            .map_or([1.0; 2], |host| [host.memory.0 as f64, host.bandwidth]);
        let of_host = ["host.memory_bytes", "host.bandwidth"]
            .into_iter()
            .zip(of_host);
        for (key, value) in positive.into_iter().chain(of_host) {
            if !(value > 0.0 && value.is_finite()) {
                return Err(ClusterError::NotPositive {
                    key: key.to_owned(),
                    found: value.to_string(),
                });
            }
        }
        let host_memory = self.host.map_or(Bytes(0), |host| host.memory);
        for (key, Bytes(bytes)) in [
            ("device.memory_bytes", self.device.memory),
            ("host.memory_bytes", host_memory),
        ] {
            if bytes > MAX_MEMORY {
                return Err(ClusterError::TooMuchMemory {
                    key: key.to_owned(),
                    found: bytes,
                    limit: MAX_MEMORY,
                });
            }
        }
        let durations = [
            ("device.launch_floor", self.device.launch_floor),
            ("inside.latency", self.inside.latency),
            ("between.latency", self.between.latency),
            ("inside.processor", self.inside.processor),
            ("between.processor", self.between.processor),
            (
                "host.latency",
                self.host.map_or(Seconds(0.0), |host| host.latency),
            ),
            ("software.launch", self.software.launch),
            ("software.message", self.software.message),
        ];
        for (key, Seconds(value)) in durations {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(ClusterError::Negative {
                    key: key.to_owned(),
                    found: value.to_string(),
                });
            }
        }
        self.calibration.check()
    }
}

/// Quotes a text as a TOML string; its escapes differ from Rust's.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Writes a name as a TOML key, quoted if necessary.
fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) {
        name.to_owned()
    } else {
        quoted(name)
    }
}

#[cfg(test)]
mod tests;
