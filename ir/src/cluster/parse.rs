//! Parser of cluster files.

use super::measured;
use super::profile::{device_profile, host_profile, link_profile};
use super::{
    Basis, CLUSTER_VERSION, Calibration, Cluster, ClusterError, Device, DeviceKind, Efficiency,
    Host, Link, SharedBy, Software,
};
use crate::program::work::KernelClass;
use crate::words::spelling::closest;
use crate::words::units::{Bytes, Seconds};
use toml::{Table, Value};

pub(super) fn parse(text: &str) -> Result<Cluster, ClusterError> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let (line, column) = position(text, error.span().map_or(0, |span| span.start));
        ClusterError::Syntax {
            line,
            column,
            message: error.message().to_owned(),
        }
    })?;
    read(&table)
}

/// Reads the tables of a cluster file.
pub(super) fn read(table: &Table) -> Result<Cluster, ClusterError> {
    let root = Section {
        path: String::new(),
        table,
    };
    let version = match table.get("version") {
        Some(Value::Integer(version)) if *version == CLUSTER_VERSION => *version,
        Some(other) => {
            let found = other.to_string();
            return Err(ClusterError::UnknownVersion {
                found,
                expected: CLUSTER_VERSION,
            });
        }
        None => {
            let help = "write `version = 1` on the first line";
            return Err(ClusterError::MissingKey {
                key: "version".to_owned(),
                help,
            });
        }
    };
    debug_assert_eq!(version, CLUSTER_VERSION);
    root.only(&[
        "version",
        "name",
        "nodes",
        "devices_per_node",
        "device",
        "inside",
        "between",
        "host",
        "software",
        "price_per_hour",
        "calibration",
    ])?;
    let device = match root.section("device")? {
        Some(section) => read_device(&section)?,
        None => {
            let help = "write `device.profile = \"H100\"`, or describe the device";
            return Err(ClusterError::MissingKey {
                key: "device".to_owned(),
                help,
            });
        }
    };
    let nodes = root.count("nodes")?.unwrap_or(1);
    let devices_per_node = root.count("devices_per_node")?.unwrap_or(1);
    let link = |key: &'static str, needed: bool| match root.section(key)? {
        Some(section) => read_link(&section),
        None if needed => {
            let help =
                "write a profile, such as `inside.profile = \"pcie4\"`, or describe the link";
            Err(ClusterError::MissingKey {
                key: key.to_owned(),
                help,
            })
        }
        // A single device never uses a link, but every cluster has both.
        None => link_profile(if key == "inside" { "pcie4" } else { "10gb" }),
    };
    let cluster = Cluster {
        name: root
            .text("name")?
            .unwrap_or_else(|| device.name.to_lowercase()),
        nodes,
        devices_per_node,
        inside: link("inside", devices_per_node > 1)?,
        between: link("between", nodes > 1)?,
        host: read_host(&root)?,
        software: Software::read(root.section("software")?)?,
        price_per_hour: root.positive("price_per_hour")?,
        calibration: match root.section("calibration")? {
            Some(section) => read_calibration(&section, device.kind)?,
            None => Calibration::profile(device.kind),
        },
        device,
    };
    cluster.check()?;
    Ok(cluster)
}

fn read_device(section: &Section) -> Result<Device, ClusterError> {
    section.only(&[
        "profile",
        "name",
        "kind",
        "flops",
        "tensor_flops",
        "memory_bandwidth",
        "memory_bytes",
        "launch_floor",
        "cache_bytes",
    ])?;
    let base = section
        .text("profile")?
        .map(|name| device_profile(&name))
        .transpose()?;
    let or_base = |found: Option<f64>, of: fn(&Device) -> f64, key: &str, help: &'static str| {
        found
            .or(base.as_ref().map(of))
            .ok_or_else(|| section.missing(key, help))
    };
    let kind = match section.choice("kind", &["cpu", "gpu"])? {
        Some(0) => DeviceKind::Cpu,
        Some(_) => DeviceKind::Gpu,
        None => match &base {
            Some(base) => base.kind,
            None => {
                return Err(
                    section.missing("kind", "write `kind = \"gpu\"` or \"cpu\", or a profile")
                );
            }
        },
    };
    let mut tensor_flops = base
        .as_ref()
        .map(|b| b.tensor_flops.clone())
        .unwrap_or_default();
    if let Some(types) = section.section("tensor_flops")? {
        for key in types.table.keys() {
            if let Some(flops) = types.positive(key)? {
                tensor_flops.insert(key.clone(), flops);
            }
        }
    }
    let memory = or_base(
        section.positive("memory_bytes")?,
        |d| d.memory.0 as f64,
        "memory_bytes",
        "write the bytes of memory of one device, or a profile",
    )?;
    let memory_bandwidth = or_base(
        section.positive("memory_bandwidth")?,
        |d| d.memory_bandwidth,
        "memory_bandwidth",
        "write the peak bytes per second, or a profile",
    )?;
    let cache = section
        .positive("cache_bytes")?
        .map(|bytes| Bytes(bytes as u64));
    Ok(Device {
        name: match (section.text("name")?, &base) {
            (Some(name), _) => name,
            (None, Some(base)) => base.name.clone(),
            (None, None) => return Err(section.missing("name", "write a name, or a profile")),
        },
        kind,
        flops: or_base(
            section.positive("flops")?,
            |d| d.flops,
            "flops",
            "write the peak 32-bit operations per second, or a profile",
        )?,
        tensor_flops,
        memory_bandwidth,
        memory: Bytes(memory as u64),
        launch_floor: Seconds(or_base(
            section.not_negative("launch_floor")?,
            |d| d.launch_floor.0,
            "launch_floor",
            "write the seconds that the shortest kernel takes, or a profile",
        )?),
        cache: cache.or(base.and_then(|base| base.cache)),
    })
}

/// The host: what the file says, or else the host of the device's profile.
fn read_host(root: &Section) -> Result<Option<Host>, ClusterError> {
    let device = root.section("device")?;
    let profile = device.map(|device| device.text("profile")).transpose()?;
    let base = profile.flatten().and_then(|name| host_profile(&name));
    let Some(section) = root.section("host")? else {
        return Ok(base);
    };
    section.only(&["memory_bytes", "bandwidth", "latency", "cores"])?;
    let missing = |key, help| section.missing(key, help);
    let memory = section
        .positive("memory_bytes")?
        .map(|bytes| Bytes(bytes as u64));
    let bandwidth = section.positive("bandwidth")?;
    let latency = section.not_negative("latency")?.map(Seconds);
    let latency = latency.or(base.map(|host| host.latency));
    let cores = section.count("cores")?;
    Ok(Some(Host {
        memory: (memory.or(base.map(|host| host.memory)))
            .ok_or_else(|| missing("memory_bytes", "write the bytes of host memory of a node"))?,
        bandwidth: (bandwidth.or(base.map(|host| host.bandwidth))).ok_or_else(|| {
            missing(
                "bandwidth",
                "write the bytes per second to and from a device, in each direction",
            )
        })?,
        latency: latency.unwrap_or(Seconds(10e-6)),
        cores: (cores.or(base.map(|host| host.cores))).unwrap_or(1),
    }))
}

fn read_link(section: &Section) -> Result<Link, ClusterError> {
    section.only(&[
        "profile",
        "name",
        "bandwidth",
        "latency",
        "processor",
        "shared_by",
    ])?;
    let base = section
        .text("profile")?
        .map(|name| link_profile(&name))
        .transpose()?;
    let shared_by = match section.choice("shared_by", &["rank", "node"])? {
        Some(0) => SharedBy::Rank,
        Some(_) => SharedBy::Node,
        None => match &base {
            Some(base) => base.shared_by,
            None => {
                return Err(
                    section.missing("shared_by", "write \"rank\" or \"node\", or a profile")
                );
            }
        },
    };
    let bandwidth = section
        .positive("bandwidth")?
        .or(base.as_ref().map(|b| b.bandwidth));
    let latency = section
        .not_negative("latency")?
        .or(base.as_ref().map(|b| b.latency.0));
    let processor = section.not_negative("processor")?;
    let missing = |key, help| section.missing(key, help);
    Ok(Link {
        name: section
            .text("name")?
            .or(base.map(|b| b.name))
            .unwrap_or_else(|| section.path.clone()),
        bandwidth: bandwidth.ok_or_else(|| {
            missing(
                "bandwidth",
                "write the bytes per second in each direction, or a profile",
            )
        })?,
        latency: Seconds(latency.ok_or_else(|| missing("latency", "write seconds, or a profile"))?),
        processor: processor.map_or(Seconds(0.0), Seconds),
        shared_by,
    })
}

fn read_calibration(section: &Section, kind: DeviceKind) -> Result<Calibration, ClusterError> {
    section.only(&[
        "basis",
        "spread",
        "class_spread",
        "link_spread",
        "link_efficiency",
        "message_gap",
        "edge_latency",
        "efficiency",
        "measured",
    ])?;
    let mut calibration = Calibration::profile(kind);
    match section.choice("basis", &["measured", "profile", "declared"])? {
        Some(0) => calibration.basis = Basis::Measured,
        Some(1) => calibration.basis = Basis::Profile,
        Some(_) => calibration.basis = Basis::Declared,
        None => {}
    }
    for (key, spread) in [
        ("spread", &mut calibration.spread),
        ("class_spread", &mut calibration.class_spread),
        ("link_spread", &mut calibration.link_spread),
    ] {
        *spread = section.positive(key)?.unwrap_or(*spread);
    }
    if let Some(share) = section.positive("link_efficiency")? {
        calibration.link_efficiency = share;
    }
    for (key, Seconds(found)) in [
        ("message_gap", &mut calibration.message_gap),
        ("edge_latency", &mut calibration.edge_latency),
    ] {
        *found = section.not_negative(key)?.unwrap_or(*found);
    }
    if let Some(classes) = section.section("efficiency")? {
        classes.only(&KernelClass::ALL.map(KernelClass::name))?;
        for class in KernelClass::ALL {
            let Some(entry) = classes.section(class.name())? else {
                continue;
            };
            entry.only(&["compute", "memory", "cached"])?;
            let known = calibration.of(class);
            let told = Efficiency {
                compute: entry.positive("compute")?.unwrap_or(known.compute),
                memory: entry.positive("memory")?.unwrap_or(known.memory),
                cached: entry.positive("cached")?.unwrap_or(known.cached),
            };
            calibration.efficiency.insert(class, told);
        }
    }
    if let Some(costs) = section.section("measured")? {
        calibration.measured = Some(measured::read(&costs)?);
    }
    Ok(calibration)
}

/// A table of the file, and its path.
pub(super) struct Section<'a> {
    path: String,
    table: &'a Table,
}

impl<'a> Section<'a> {
    /// Path of the table.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The keys of the table.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.table.keys().map(String::as_str)
    }

    pub(super) fn key(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    pub(super) fn missing(&self, key: &str, help: &'static str) -> ClusterError {
        ClusterError::MissingKey {
            key: self.key(key),
            help,
        }
    }

    fn wrong(&self, key: &str, found: &Value, expected: &'static str) -> ClusterError {
        let found = match found {
            Value::Table(_) => "a table".to_owned(),
            Value::Array(_) => "an array".to_owned(),
            other => other.to_string(),
        };
        ClusterError::WrongType {
            key: self.key(key),
            found,
            expected,
        }
    }

    /// Refuses keys that are not listed.
    pub(super) fn only(&self, expected: &[&str]) -> Result<(), ClusterError> {
        match self
            .table
            .keys()
            .find(|key| !expected.contains(&key.as_str()))
        {
            None => Ok(()),
            Some(key) => Err(ClusterError::UnknownKey {
                key: self.key(key),
                expected: expected.iter().map(|&k| k.to_owned()).collect(),
                suggestion: closest(key, expected.iter().copied()).map(str::to_owned),
            }),
        }
    }

    pub(super) fn section(&self, key: &str) -> Result<Option<Section<'a>>, ClusterError> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::Table(table)) => Ok(Some(Section {
                path: self.key(key),
                table,
            })),
            Some(other) => Err(self.wrong(key, other, "a table")),
        }
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<String>, ClusterError> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(self.wrong(key, other, "text in quotes")),
        }
    }

    /// Index of a text among the allowed ones.
    fn choice(&self, key: &str, allowed: &[&'static str]) -> Result<Option<usize>, ClusterError> {
        let Some(found) = self.text(key)? else {
            return Ok(None);
        };
        match allowed.iter().position(|a| *a == found) {
            Some(position) => Ok(Some(position)),
            None => Err(ClusterError::UnknownKey {
                key: format!("{} = {found}", self.key(key)),
                expected: allowed.iter().map(|&a| a.to_owned()).collect(),
                suggestion: closest(&found, allowed.iter().copied()).map(str::to_owned),
            }),
        }
    }

    fn number(&self, key: &str) -> Result<Option<f64>, ClusterError> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::Integer(n)) => Ok(Some(*n as f64)),
            Some(Value::Float(x)) => Ok(Some(*x)),
            Some(other) => Err(self.wrong(key, other, "a number")),
        }
    }

    pub fn positive(&self, key: &str) -> Result<Option<f64>, ClusterError> {
        match self.number(key)? {
            Some(x) if !(x > 0.0 && x.is_finite()) => Err(ClusterError::NotPositive {
                key: self.key(key),
                found: x.to_string(),
            }),
            found => Ok(found),
        }
    }

    pub(super) fn not_negative(&self, key: &str) -> Result<Option<f64>, ClusterError> {
        match self.number(key)? {
            Some(x) if !(x >= 0.0 && x.is_finite()) => Err(ClusterError::Negative {
                key: self.key(key),
                found: x.to_string(),
            }),
            found => Ok(found),
        }
    }

    pub(super) fn count(&self, key: &str) -> Result<Option<u32>, ClusterError> {
        match self.table.get(key) {
            None => Ok(None),
            // Whole numbers may be written as floats: `1e3` is 1000.
            Some(Value::Float(x)) if x.fract() == 0.0 => whole(&self.key(key), *x).map(Some),
            Some(Value::Integer(n)) if *n <= 0 => Err(ClusterError::NotPositive {
                key: self.key(key),
                found: n.to_string(),
            }),
            Some(Value::Integer(n)) => match u32::try_from(*n) {
                Ok(n) => Ok(Some(n)),
                Err(_) => Err(ClusterError::TooManyDevices {
                    found: *n as u64,
                    limit: super::MAX_DEVICES,
                }),
            },
            Some(other) => Err(self.wrong(key, other, "a whole number")),
        }
    }
}

/// Reads a count written as a float without a fraction.
fn whole(key: &str, found: f64) -> Result<u32, ClusterError> {
    if found <= 0.0 {
        return Err(ClusterError::NotPositive {
            key: key.to_owned(),
            found: found.to_string(),
        });
    }
    if found > super::MAX_DEVICES as f64 {
        return Err(ClusterError::TooManyDevices {
            found: found as u64,
            limit: super::MAX_DEVICES,
        });
    }
    Ok(found as u32)
}

/// Line and column, both from 1, of a byte offset.
fn position(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
    (line, column)
}
