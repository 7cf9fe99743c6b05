//! The device that training runs on.

use crate::Error;
use gnnc_codegen::cuda::libraries::{folders, python_packages, wheel_folders};
use gnnc_files::Cache;
use gnnc_runtime::device::cuda::{Live, LiveOptions};
use std::path::{Path, PathBuf};

/// Environment variables that name a Python environment or a CUDA toolkit.
const PLACES: [&str; 4] = ["VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_HOME", "CUDA_PATH"];

/// The device that training runs on.
#[derive(Clone, Debug, Default)]
pub enum Device {
    /// The cores of this machine; each rank has one or more threads.
    #[default]
    Cpu,
    /// An NVIDIA GPU, which all ranks of this process share.
    Cuda(LiveOptions),
}

impl Device {
    /// The rank of this process, if other processes run the other ranks.
    pub fn rank(&self) -> Option<u32> {
        match self {
            Self::Cpu => None,
            Self::Cuda(options) => options.processes.as_ref().map(|processes| processes.rank),
        }
    }

    /// Opens the GPU, if the device is one. Its machine code is cached beside that of the CPU.
    ///
    /// # Errors
    /// [`Error::Device`] if a GPU, a library or another process is missing.
    pub fn open(&self, cache: Option<Cache>) -> Result<Option<Live>, Error> {
        match self {
            Self::Cpu => Ok(None),
            Self::Cuda(options) => {
                let options = LiveOptions {
                    cache,
                    ..options.clone()
                };
                Ok(Some(Live::open(&options)?))
            }
        }
    }
}

/// The folders to search for NVIDIA's libraries, in this order: `named` or else
/// `GNNC_CUDA_LIBRARIES`; the active Python environment and CUDA toolkit; Python packages of the
/// user and of the system; the toolkit's default folder.
pub fn library_folders(named: Option<&Path>) -> Vec<PathBuf> {
    let variable = |name: &str| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    let mut found = Vec::new();
    let named = named.map(Path::to_owned);
    if let Some(named) = named.or_else(|| variable("GNNC_CUDA_LIBRARIES")) {
        found.extend(existing(folders(&named)));
        // Even if it is missing, so that messages mention it.
        found.push(named);
    }
    for place in PLACES.iter().filter_map(|name| variable(name)) {
        found.extend(existing(folders(&place)));
    }
    let users = variable("HOME").map(|home| home.join(".local"));
    let places = users
        .into_iter()
        .chain(["/usr/local".into(), "/usr".into()]);
    for packages in places.flat_map(|place| python_packages(&place)) {
        found.extend(existing(wheel_folders(&packages)));
    }
    found.extend(existing(folders(Path::new("/usr/local/cuda"))));
    found.dedup();
    found
}

fn existing(mut folders: Vec<PathBuf>) -> Vec<PathBuf> {
    folders.retain(|folder| folder.is_dir());
    folders
}
