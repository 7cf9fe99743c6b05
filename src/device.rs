//! What training runs on.

use crate::Error;
use gnnc_codegen::cache::Cache;
use gnnc_codegen::cuda::libraries::{folders, python_packages, wheel_folders};
use gnnc_runtime::device::cuda::{Live, LiveOptions};
use std::path::{Path, PathBuf};

/// Variables that name an environment or a toolkit.
const PLACES: [&str; 4] = ["VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_HOME", "CUDA_PATH"];

/// What training runs on.
#[derive(Clone, Debug, Default)]
pub enum Device {
    /// The cores of this machine, a thread or more for each rank.
    #[default]
    Cpu,
    /// A GPU of NVIDIA's, which all ranks of this process share.
    Cuda(LiveOptions),
}

impl Device {
    /// Which rank this process is, where others have the rest.
    pub fn rank(&self) -> Option<u32> {
        match self {
            Self::Cpu => None,
            Self::Cuda(options) => options.processes.as_ref().map(|processes| processes.rank),
        }
    }

    /// Opens the GPU, if it is one; its machine code is kept where that of the processor is.
    ///
    /// # Errors
    /// [`Error::Device`] for a GPU, a library or another process that is not there.
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

/// The folders that NVIDIA's libraries are looked for in, in this order: `named` or what
/// `GNNC_CUDA_LIBRARIES` names, the environment and the toolkit that are in use, Python packages of the
/// user and of the system, the toolkit's usual place.
pub fn library_folders(named: Option<&Path>) -> Vec<PathBuf> {
    let variable = |name: &str| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    let mut found = Vec::new();
    let named = named.map(Path::to_owned);
    if let Some(named) = named.or_else(|| variable("GNNC_CUDA_LIBRARIES")) {
        found.extend(existing(folders(&named)));
        // Also where it is not there, to be said.
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
