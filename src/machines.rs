//! The machines that plans and runs are for, by name.

use crate::{Device, Error};
use gnnc_ir::cluster::{CLUSTERS, Cluster};
use std::path::Path;

/// Longest file of a cluster that is read, in bytes.
const MAX_CLUSTER: u64 = 64 << 20;

/// Reads a cluster from a file or from `KEY=VALUE` pairs, or finds it by name.
///
/// # Errors
/// An unknown name, a missing file or an invalid one, or pairs that describe no cluster.
pub fn cluster(name: &str) -> Result<Cluster, Error> {
    let path = Path::new(name);
    if name.contains('=') && !name.contains(['/', '\\']) && !path.exists() {
        let found = Cluster::inline(name);
        return found.map_err(|e| Error::Input(format!("--cluster '{name}': {e}")));
    }
    if name.contains(['/', '\\']) || path.extension().is_some() || path.exists() {
        let text = gnnc_files::read_text(path, MAX_CLUSTER).map_err(|source| Error::File {
            action: "read",
            path: path.to_owned(),
            source,
        })?;
        return Cluster::parse(&text).map_err(|e| Error::Input(format!("{name}: {e}")));
    }
    Cluster::named(name).map_err(|e| {
        let known = CLUSTERS.join(", ");
        Error::Input(format!(
            "{e} (a file, or {known}, with any number of devices)"
        ))
    })
}

/// The name of the cluster to plan for if nobody names one: this processor, or the usual nodes for a number of devices or
/// nodes.
pub fn usual_cluster(gpus: Option<u32>, nodes: Option<u32>) -> &'static str {
    match (gpus, nodes) {
        (None, None) => "cpu",
        (Some(_), _) | (_, Some(_)) => "h100x8",
    }
}

/// A cluster with a device per worker. Without a name: this CPU, or h100x8 nodes for a GPU.
///
/// # Errors
/// An unknown or invalid cluster.
pub fn machines(name: Option<&str>, device: &Device, workers: u32) -> Result<Cluster, Error> {
    let default = match device {
        Device::Cpu => "cpu",
        Device::Cuda(_) => "h100x8",
    };
    Ok(cluster(name.unwrap_or(default))?.resized(Some(workers), None)?)
}
