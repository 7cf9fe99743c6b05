//! Calibration: how much of its peak a device reaches, by kernel class.

use super::{ClusterError, DeviceKind, Measured};
use crate::kernel::HUB_EDGES;
use crate::program::work::KernelClass;
use crate::words::units::Seconds;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// SpMM of 16 and of 32 columns takes 92 us on an H100 where the longest rows have 512 edges or more, which bounds them
/// (docs/gpu.md), of which two launches take 8.
const EDGE_OF_ROW: f64 = 84e-6 / HUB_EDGES as f64;

/// How a number was obtained, from most to least certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Measured on this machine and this graph.
    Measured,
    /// From a built-in profile of the device or link.
    Profile,
    /// From declared statistics, or estimated from them.
    Declared,
}

/// The fractions of a device's peaks that a kernel class reaches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Efficiency {
    /// Fraction of the peak operations per second.
    pub compute: f64,
    /// Fraction of the peak memory bandwidth, for the bytes that no cache has. Without a known cache, for
    /// bytes as [`crate::program::work`] counts them; then above 1 if a cache serves repeated reads.
    pub memory: f64,
    /// The same for all bytes, wherever they come from: what caches and instructions keep up with.
    #[serde(default = "one")]
    pub cached: f64,
}

fn one() -> f64 {
    1.0
}

/// How much of the peaks is reached, and how far that may be off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Where the numbers come from.
    pub basis: Basis,
    /// Factor by which all times of devices may be off together, up or down.
    pub spread: f64,
    /// Factor by which besides the times of a class of kernels may be off, or of a group of measured costs that does not
    /// say so itself.
    #[serde(default = "one")]
    pub class_spread: f64,
    /// Factor by which the times of each kind of link may be off.
    #[serde(default = "one")]
    pub link_spread: f64,
    /// Fraction of a link's peak bandwidth.
    pub link_efficiency: f64,
    /// Time between the starts of two messages from one rank to different ranks.
    pub message_gap: Seconds,
    /// From one edge of a row to the next in a kernel that walks the edges of each row, which nothing else hides in the
    /// longest row. 0 on processors, where a core walks all rows.
    #[serde(default)]
    pub edge_latency: Seconds,
    /// By class; missing classes use the built-in numbers of a GPU.
    pub efficiency: BTreeMap<KernelClass, Efficiency>,
    /// Costs that `gnnc calibrate` measured; if present, they replace the efficiencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
}

impl Calibration {
    /// Rough built-in numbers; `docs/cost-model.md` gives the source of each.
    pub fn profile(kind: DeviceKind) -> Self {
        let efficiency = KernelClass::ALL
            .into_iter()
            .map(|class| (class, built_in(kind, class)));
        let (link_efficiency, message_gap, edge_latency) = match kind {
            DeviceKind::Cpu => (1.0, Seconds(1e-6), Seconds(0.0)),
            DeviceKind::Gpu => (0.5, Seconds(1e-6), Seconds(EDGE_OF_ROW)),
        };
        Self {
            basis: Basis::Profile,
            spread: 1.6,
            class_spread: 1.4,
            link_spread: 1.6,
            link_efficiency,
            message_gap,
            edge_latency,
            efficiency: efficiency.collect(),
            measured: None,
        }
    }

    /// The efficiency of a class.
    pub fn of(&self, class: KernelClass) -> Efficiency {
        let known = self.efficiency.get(&class).copied();
        known.unwrap_or_else(|| built_in(DeviceKind::Gpu, class))
    }

    /// Checks that every number is in range.
    ///
    /// # Errors
    /// The first number that is not, with its key.
    pub fn check(&self) -> Result<(), ClusterError> {
        let not_positive = |key: String, found: f64| {
            Err(ClusterError::NotPositive {
                key,
                found: found.to_string(),
            })
        };
        let positive = |value: f64| value > 0.0 && value.is_finite();
        if !positive(self.link_efficiency) {
            return not_positive(
                "calibration.link_efficiency".to_owned(),
                self.link_efficiency,
            );
        }
        let spreads = [
            ("spread", self.spread),
            ("class_spread", self.class_spread),
            ("link_spread", self.link_spread),
        ];
        for (key, found) in spreads {
            if !(found >= 1.0 && found.is_finite()) {
                return Err(ClusterError::Spread {
                    key: format!("calibration.{key}"),
                    found: found.to_string(),
                });
            }
        }
        for (key, Seconds(found)) in [
            ("message_gap", self.message_gap),
            ("edge_latency", self.edge_latency),
        ] {
            if !(found >= 0.0 && found.is_finite()) {
                return Err(ClusterError::Negative {
                    key: format!("calibration.{key}"),
                    found: found.to_string(),
                });
            }
        }
        for (class, efficiency) in &self.efficiency {
            for (part, value) in [
                ("compute", efficiency.compute),
                ("memory", efficiency.memory),
                ("cached", efficiency.cached),
            ] {
                if !positive(value) {
                    return not_positive(format!("calibration.efficiency.{class}.{part}"), value);
                }
            }
        }
        self.measured.as_ref().map_or(Ok(()), Measured::check)
    }
}

/// Efficiency by class, for machines that were not measured.
fn built_in(kind: DeviceKind, class: KernelClass) -> Efficiency {
    let (compute, memory, cached) = match (kind, class) {
        (DeviceKind::Gpu, KernelClass::Gemm) => (0.7, 0.8, 0.8),
        (DeviceKind::Gpu, KernelClass::SparseGemm) => (0.2, 0.5, 1.0),
        (DeviceKind::Gpu, KernelClass::Spmm) => (0.3, 0.8, 2.5),
        (DeviceKind::Gpu, KernelClass::SpmmT) => (0.3, 0.8, 2.5),
        (DeviceKind::Gpu, KernelClass::Edges) => (0.3, 0.5, 0.6),
        (DeviceKind::Gpu, KernelClass::EdgePass) => (0.3, 0.8, 2.0),
        (DeviceKind::Gpu, KernelClass::Map) => (0.3, 0.8, 0.8),
        (DeviceKind::Gpu, KernelClass::Reduce) => (0.3, 0.7, 0.7),
        (DeviceKind::Gpu, KernelClass::Copy) => (0.3, 0.7, 0.7),
        (DeviceKind::Gpu, KernelClass::Loss) => (0.2, 0.5, 0.5),
        (DeviceKind::Cpu, KernelClass::Gemm) => (0.7, 0.9, 0.9),
        (DeviceKind::Cpu, KernelClass::SparseGemm) => (0.1, 0.7, 0.7),
        (DeviceKind::Cpu, KernelClass::Spmm) => (0.2, 1.0, 1.2),
        (DeviceKind::Cpu, KernelClass::SpmmT) => (0.2, 0.9, 1.1),
        (DeviceKind::Cpu, KernelClass::Edges) => (0.1, 0.7, 0.7),
        (DeviceKind::Cpu, KernelClass::EdgePass) => (0.1, 0.8, 0.8),
        (DeviceKind::Cpu, KernelClass::Map) => (0.1, 0.8, 0.8),
        (DeviceKind::Cpu, KernelClass::Reduce) => (0.1, 0.8, 0.8),
        (DeviceKind::Cpu, KernelClass::Copy) => (0.1, 0.6, 0.6),
        (DeviceKind::Cpu, KernelClass::Loss) => (0.03, 0.5, 0.5),
    };
    Efficiency {
        compute,
        memory,
        cached,
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Measured => "measured",
            Self::Profile => "profile",
            Self::Declared => "declared",
        })
    }
}
