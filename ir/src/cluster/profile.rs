//! Data sheets of built-in devices, links and machines.

use super::{
    Calibration, Cluster, ClusterError, Device, DeviceKind, Host, Link, SharedBy, Software,
};
use crate::words::spelling::closest;
use crate::words::units::{Bytes, Seconds};
use std::collections::BTreeMap;

/// A row of [`DEVICES`].
#[derive(Clone, Copy, Debug)]
pub struct DeviceRow {
    /// Name, in cluster files and (in lower case) in the names of clusters.
    pub name: &'static str,
    /// What it is.
    pub kind: DeviceKind,
    /// Whether gnnc can train on it, or only plan for it.
    pub trains: bool,
    /// The data sheet and its table with the peaks.
    pub source: &'static str,
    /// Peak 32-bit operations per second, in units of 1e12.
    teraflops: f64,
    /// Peak dense TF32 operations per second, in units of 1e12; 0 if unsupported.
    tf32_teraflops: f64,
    /// Peak memory bandwidth, in units of 1e9 bytes per second.
    gigabytes_per_second: f64,
    /// Memory in MiB.
    mebibytes: u64,
    /// Last-level cache in MiB.
    cache: u64,
    /// Time of the shortest kernel in microseconds.
    floor: f64,
    /// Link inside a node in built-in clusters.
    inside: &'static str,
    /// Link between nodes in built-in clusters.
    between: &'static str,
    /// Whether each device of a node has its own network card in those clusters.
    own_card: bool,
    /// Gigabytes per second reached by copies to and from the host; 0 if the device is a host.
    host: f64,
    /// Host memory of a node, in GiB.
    host_gibibytes: u64,
    /// Cores of a node's host.
    cores: u32,
}

/// Built-in devices. Peaks are from the vendors' data sheets, which each row names; TF32 is dense,
/// half of what sheets give with sparsity. Memory is what the driver reports. Caches are the L2 of NVIDIA's
/// architecture white papers, the Infinity Cache of MI300X, and L2 and a share of L3 of `cpu-core`, one
/// core of a server with AVX-512. Copies to the host reach about 0.8 to 0.9 of PCIe x16 of
/// generation 3, 4 or 5 (15.75, 31.5, 63 GB/s). Host memory and cores are those of common servers
/// (g4dn.12xlarge for T4, g5.48xlarge for A10, g6.48xlarge for L4, g6e.48xlarge for L40S, DGX-1,
/// DGX A100, DGX H100, DGX B200, ND MI300X v5; workstations for A5000, A6000 and RTX).
#[rustfmt::skip]
pub const DEVICES: &[DeviceRow] = &[
    //   name        TFLOP/s   TF32    GB/s      MiB cache  floor  inside           between  own    host   GiB cores
    row("cpu-core",   0.213,    0.0,   14.0,   8_192,   4, 2.0, "shared-memory",    "25gb", false,  0.0,     0,     1, "one core with AVX-512"),
    row("T4",         8.1,      0.0,  320.0,  15_360,   4, 6.0, "pcie3",            "50gb", false, 12.0,   192,    24, "NVIDIA T4 data sheet, Specifications"),
    row("P100",       9.3,      0.0,  732.0,  16_280,   4, 6.0, "pcie3",            "10gb", false, 12.0,   256,    20, "NVIDIA Tesla P100 PCIe data sheet, Specifications"),
    row("V100",      15.7,      0.0,  900.0,  16_160,   6, 5.0, "nvlink2",         "100gb", false, 12.0,   512,    40, "NVIDIA V100 data sheet, Specifications (SXM2)"),
    row("A5000",     27.8,     55.6,  768.0,  24_564,   6, 5.0, "pcie4",           "200gb", false, 25.0,   256,    16, "NVIDIA RTX A5000 data sheet, Specifications"),
    row("A100-40",   19.5,    156.0, 1555.0,  40_960,  40, 5.0, "nvlink3",         "200gb", true,  25.0, 1_024,   128, "NVIDIA A100 data sheet, Specifications (40 GB SXM)"),
    row("A100-80",   19.5,    156.0, 2039.0,  81_920,  40, 5.0, "nvlink3",         "200gb", true,  25.0, 2_048,   128, "NVIDIA A100 data sheet, Specifications (80 GB SXM)"),
    row("H100",      67.0,    494.7, 3350.0,  81_559,  50, 4.0, "nvlink4",         "400gb", true,  55.0, 2_048,   112, "NVIDIA H100 data sheet, Product Specifications (SXM)"),
    row("H200",      67.0,    494.7, 4800.0, 143_771,  50, 4.0, "nvlink4",         "400gb", true,  55.0, 2_048,   112, "NVIDIA H200 data sheet, Product Specifications (SXM)"),
    row("RTX3090",   35.6,     35.6,  936.0,  24_576,   6, 5.0, "pcie4",            "10gb", false, 25.0,   128,    16, "NVIDIA Ampere GA102 whitepaper, comparison table of GeForce RTX 3090"),
    row("RTX4090",   82.6,     82.6, 1008.0,  24_564,  72, 5.0, "pcie4",            "10gb", false, 25.0,   128,    16, "NVIDIA Ada GPU architecture whitepaper, comparison table of GeForce RTX 4090"),
    row("A6000",     38.7,     77.4,  768.0,  49_140,   6, 5.0, "pcie4",           "200gb", false, 25.0,   256,    16, "NVIDIA RTX A6000 data sheet, Specifications; TF32: GA102 whitepaper"),
    row("A10",       31.2,     62.5,  600.0,  23_028,   6, 5.0, "pcie4",           "100gb", false, 25.0,   768,    96, "NVIDIA A10 data sheet, Specifications"),
    row("L4",        30.3,     60.0,  300.0,  23_034,  48, 5.0, "pcie4",           "100gb", false, 25.0,   768,    96, "NVIDIA L4 data sheet, Specifications"),
    row("L40S",      91.6,    183.0,  864.0,  46_068,  96, 5.0, "pcie4",           "400gb", false, 25.0, 1_536,    96, "NVIDIA L40S data sheet, Specifications"),
    row("H100-PCIe", 51.0,    378.0, 2000.0,  81_559,  50, 4.0, "pcie5",           "400gb", false, 55.0, 1_024,    64, "NVIDIA H100 data sheet, Product Specifications (PCIe)"),
    row("B200",      80.0,   1100.0, 8000.0, 183_359, 126, 4.0, "nvlink5",         "400gb", true,  55.0, 2_048,   112, "NVIDIA Blackwell architecture technical brief, table of HGX B200"),
    row("MI300X",   163.4,    653.7, 5300.0, 196_592, 256, 5.0, "infinity-fabric", "400gb", true,  55.0, 1_850,    96, "AMD Instinct MI300X data sheet, Specifications").only_planned(),
];

/// Built-in links: name, gigabytes per second in each direction, latency in microseconds,
/// scope. PCIe, NVLink and Infinity Fabric (all links of a GPU together; seven of 64 GB/s for
/// `infinity-fabric`) as specified; networks at 1/8 of their bit rate; `shared-memory` as measured
/// between processes on two cores.
pub const LINKS: &[(&str, f64, f64, SharedBy)] = &[
    ("shared-memory", 17.0, 10.0, SharedBy::Node),
    ("pcie3", 15.75, 10.0, SharedBy::Rank),
    ("pcie4", 31.5, 10.0, SharedBy::Rank),
    ("pcie5", 63.0, 10.0, SharedBy::Rank),
    ("nvlink2", 150.0, 6.0, SharedBy::Rank),
    ("nvlink3", 300.0, 6.0, SharedBy::Rank),
    ("nvlink4", 450.0, 6.0, SharedBy::Rank),
    ("nvlink5", 900.0, 6.0, SharedBy::Rank),
    ("infinity-fabric", 448.0, 6.0, SharedBy::Rank),
    ("10gb", 1.25, 30.0, SharedBy::Node),
    ("25gb", 3.125, 25.0, SharedBy::Node),
    ("50gb", 6.25, 20.0, SharedBy::Node),
    ("100gb", 12.5, 12.0, SharedBy::Node),
    ("200gb", 25.0, 10.0, SharedBy::Node),
    ("400gb", 50.0, 10.0, SharedBy::Node),
];

/// Names of built-in clusters for help texts. Any number of any device profile works.
pub const CLUSTERS: &[&str] = &[
    "cpu", "t4x4", "p100x4", "v100x8", "a5000x4", "a100x8", "h100x8", "h200x8",
];

#[rustfmt::skip]
const fn row(
    name: &'static str, teraflops: f64, tf32_teraflops: f64, gigabytes_per_second: f64,
    mebibytes: u64, cache: u64, floor: f64, inside: &'static str, between: &'static str, own_card: bool,
    host: f64, host_gibibytes: u64, cores: u32, source: &'static str,
) -> DeviceRow {
    let kind = if host > 0.0 { DeviceKind::Gpu } else { DeviceKind::Cpu };
    DeviceRow {
        name, kind, trains: true, source, teraflops, tf32_teraflops, gigabytes_per_second, mebibytes, cache, floor,
        inside, between, own_card, host, host_gibibytes, cores,
    }
}

impl DeviceRow {
    const fn only_planned(self) -> Self {
        Self {
            trains: false,
            ..self
        }
    }
}

/// A built-in device; `A100` has 80 GB, `H100-SXM` is `H100`. Ignores case.
///
/// # Errors
/// If the name is not built in.
pub fn device_profile(name: &str) -> Result<Device, ClusterError> {
    device_row(name).map(device).ok_or_else(|| {
        let known = DEVICES.iter().map(|row| row.name);
        ClusterError::UnknownProfile {
            what: "device",
            found: name.to_owned(),
            suggestion: closest(name, known.clone()).map(str::to_owned),
            known: known.map(str::to_owned).collect(),
        }
    })
}

/// A built-in link. Ignores case.
///
/// # Errors
/// If the name is not built in.
pub fn link_profile(name: &str) -> Result<Link, ClusterError> {
    let wanted = name.to_lowercase();
    let known = LINKS.iter().map(|row| row.0);
    match LINKS.iter().find(|row| row.0 == wanted) {
        Some(&(name, gigabytes_per_second, latency, shared_by)) => Ok(Link {
            name: name.to_owned(),
            bandwidth: gigabytes_per_second * 1e9,
            latency: Seconds(latency / 1e6),
            processor: Seconds(0.0),
            shared_by,
        }),
        None => Err(ClusterError::UnknownProfile {
            what: "link",
            found: name.to_owned(),
            suggestion: closest(name, known.clone()).map(str::to_owned),
            known: known.map(str::to_owned).collect(),
        }),
    }
}

/// One node of a built-in cluster.
pub(super) fn cluster(name: &str) -> Result<Cluster, ClusterError> {
    let unknown = || ClusterError::UnknownCluster {
        found: name.to_owned(),
        suggestion: closest(name, CLUSTERS.iter().copied()).map(str::to_owned),
    };
    let lower = name.to_lowercase();
    let (row, devices) = match (lower.as_str(), device_row(&lower), lower.rsplit_once('x')) {
        ("cpu", ..) => (device_row("cpu-core"), 2),
        // `rtx4090` is one device, not 4090 of `rt`.
        (_, Some(row), _) => (Some(row), 1),
        (_, None, Some((device, count)))
            if !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit()) =>
        {
            (device_row(device), count.parse().map_err(|_| unknown())?)
        }
        (_, None, _) => (None, 1),
    };
    let row = row.ok_or_else(unknown)?;
    let mut between = link_profile(row.between)?;
    if row.own_card {
        between.shared_by = SharedBy::Rank;
    }
    let cluster = Cluster {
        name: lower,
        nodes: 1,
        devices_per_node: devices,
        device: device(row),
        inside: link_profile(row.inside)?,
        between,
        host: host(row),
        price_per_hour: None,
        calibration: Calibration::profile(row.kind),
        software: Software::default(),
    };
    cluster.check()?;
    Ok(cluster)
}

/// The links of a device's built-in cluster.
pub(super) struct DeviceLinks {
    /// Link inside a node.
    pub inside: &'static str,
    /// Link between nodes.
    pub between: &'static str,
    /// Whether each device has its own network card.
    pub own_card: bool,
}

/// The links of a built-in device; `None` for unknown ones.
pub(super) fn device_links(name: &str) -> Option<DeviceLinks> {
    device_row(name).map(|row| DeviceLinks {
        inside: row.inside,
        between: row.between,
        own_card: row.own_card,
    })
}

/// The host of a node with built-in devices; `None` for processors and unknown devices.
pub fn host_profile(name: &str) -> Option<Host> {
    device_row(name).and_then(host)
}

fn host(row: &DeviceRow) -> Option<Host> {
    (row.host > 0.0).then_some(Host {
        memory: Bytes(row.host_gibibytes << 30),
        bandwidth: row.host * 1e9,
        latency: Seconds(10e-6),
        cores: row.cores,
    })
}

/// The core of a host that nobody measured, and how much of its peaks it reaches.
pub fn core_profile() -> Option<(Device, Calibration)> {
    let row = device_row("cpu-core")?;
    Some((device(row), Calibration::profile(row.kind)))
}

fn device_row(name: &str) -> Option<&'static DeviceRow> {
    let wanted = name.to_lowercase();
    let wanted = match wanted.as_str() {
        "a100" => "a100-80",
        "h100-sxm" => "h100",
        other => other,
    };
    DEVICES.iter().find(|row| row.name.to_lowercase() == wanted)
}

fn device(row: &DeviceRow) -> Device {
    let mut tensor_flops = BTreeMap::new();
    if row.tf32_teraflops > 0.0 {
        tensor_flops.insert("tf32".to_owned(), row.tf32_teraflops * 1e12);
    }
    Device {
        name: row.name.to_owned(),
        kind: row.kind,
        flops: row.teraflops * 1e12,
        tensor_flops,
        memory_bandwidth: row.gigabytes_per_second * 1e9,
        memory: Bytes(row.mebibytes << 20),
        launch_floor: Seconds(row.floor / 1e6),
        cache: Some(Bytes(row.cache << 20)),
    }
}
