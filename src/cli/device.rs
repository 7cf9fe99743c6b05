//! Arguments for devices: what to run on, how much memory to use, where NVIDIA's libraries are.

use super::output::{Failure, input};
use clap::Args;
use gnnc::device::{Device, library_folders};
use gnnc::ir::words::spelling::counted;
use gnnc::ir::words::units::Bytes;
use gnnc::numbers::{WORKERS, within};
use gnnc::runtime::device::cuda::{LiveOptions, Processes};
use gnnc::runtime::transport::mpi::World;
use std::path::PathBuf;
use std::time::Duration;

/// How long processes wait for each other.
const PATIENCE: Duration = Duration::from_secs(600);

/// What to run on.
#[derive(Args)]
pub struct DeviceArgs {
    /// What to run on: cpu, cuda, or cuda:N for GPU number N.
    #[arg(long, value_name = "NAME", default_value = "cpu", value_parser = chosen)]
    device: Chosen,
    #[command(flatten)]
    libraries: LibraryArgs,
}

/// How much memory of a device to use.
#[derive(Args)]
pub struct MemoryArgs {
    /// Memory that each worker may use on its device, such as 8GiB; tensors beyond it are offloaded to the host. By
    /// default all free memory of a GPU, and no limit on the CPU.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub device_memory: Option<u64>,
}

/// Processes that train together.
#[derive(Args)]
pub struct ProcessArgs {
    /// Rank of this process among the processes that train together, from 0; each has a GPU.
    #[arg(long, value_name = "N", requires = "ranks")]
    rank: Option<u32>,
    /// Number of processes that train together; each is one worker.
    #[arg(long, value_name = "N", requires_all = ["rank", "rendezvous"], value_parser = within(WORKERS))]
    ranks: Option<u32>,
    /// A file through which these processes find each other; it must not exist yet.
    #[arg(long, value_name = "FILE", requires = "ranks")]
    rendezvous: Option<PathBuf>,
}

/// Where to find NVIDIA's libraries.
#[derive(Args)]
pub struct LibraryArgs {
    /// First folder to search for NVIDIA's libraries: a folder of libraries, a toolkit, Python
    /// packages or a Python environment. By default GNNC_CUDA_LIBRARIES.
    #[arg(long, value_name = "DIR")]
    cuda_libraries: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chosen {
    Cpu,
    Cuda(u32),
}

fn chosen(text: &str) -> Result<Chosen, String> {
    match text.split_once(':').unwrap_or((text, "0")) {
        ("cpu", "0") if text == "cpu" => Some(Chosen::Cpu),
        ("cuda", number) => number.parse().ok().map(Chosen::Cuda),
        _ => None,
    }
    .ok_or_else(|| "expected cpu, cuda or cuda:N".to_owned())
}

/// Parses a number of bytes, with or without a unit.
fn bytes(text: &str) -> Result<u64, String> {
    text.parse::<Bytes>().map(|bytes| bytes.0)
}

impl DeviceArgs {
    /// The device, as the library takes it.
    pub fn device(&self) -> Device {
        match self.device {
            Chosen::Cuda(gpu) => Device::Cuda(LiveOptions {
                gpu,
                folders: self.libraries.folders(),
                ..LiveOptions::default()
            }),
            Chosen::Cpu => Device::Cpu,
        }
    }
}

impl ProcessArgs {
    /// The device of this process, and the number of workers: `workers`, or the number of processes.
    ///
    /// # Errors
    /// Processes without a GPU, or whose number is not `workers`.
    pub fn device(
        &self,
        device: &DeviceArgs,
        workers: Option<u32>,
        world: Option<&World>,
    ) -> Result<(Device, Option<u32>), Failure> {
        let mut device = device.device();
        if let Some(world) = world {
            let of_mpi = match (&device, &self.rendezvous) {
                (Device::Cuda(_), _) => Some("--device cuda"),
                (Device::Cpu, Some(_)) => Some("--rendezvous"),
                (Device::Cpu, None) => None,
            };
            if let Some(option) = of_mpi {
                return Err(input(format!(
                    "found {option} in a process that mpirun started; processes with a GPU each are started one by one, \
                     with --rank, --ranks and --rendezvous"
                )));
            }
            return Ok((device, workers.or(Some(world.processes()))));
        }
        let Some(processes) = self.processes()? else {
            return Ok((device, workers));
        };
        let ranks = processes.ranks;
        if let Some(workers) = workers.filter(|workers| *workers != ranks) {
            return Err(input(format!(
                "found {} and {}, expected one process per worker; leave out --workers",
                counted(workers, "worker"),
                counted(ranks, "process")
            )));
        }
        match &mut device {
            Device::Cuda(options) => options.processes = Some(processes),
            Device::Cpu => {
                return Err(input(
                    "processes that train together need a GPU each; add --device cuda, or use \
                     --workers for ranks in one process",
                ));
            }
        }
        Ok((device, Some(ranks)))
    }

    fn processes(&self) -> Result<Option<Processes>, Failure> {
        let (Some(rank), Some(ranks), Some(file)) = (self.rank, self.ranks, &self.rendezvous)
        else {
            return Ok(None);
        };
        if rank >= ranks {
            return Err(input(format!(
                "found --rank {rank}, expected 0 to {}",
                ranks - 1
            )));
        }
        Ok(Some(Processes {
            rank,
            ranks,
            rendezvous: file.clone(),
            patience: PATIENCE,
        }))
    }
}

impl LibraryArgs {
    /// The folders to search for libraries.
    pub fn folders(&self) -> Vec<PathBuf> {
        library_folders(self.cuda_libraries.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names() {
        assert_eq!(chosen("cpu"), Ok(Chosen::Cpu));
        assert_eq!(chosen("cuda"), Ok(Chosen::Cuda(0)));
        assert_eq!(chosen("cuda:3"), Ok(Chosen::Cuda(3)));
        for (text, expected) in [
            ("8GiB", 8 << 30),
            ("1.5 KiB", 1536),
            ("4096", 4096),
            ("7B", 7),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for wrong in ["", "0", "-1", "x", "GiB", "1e999", "4 GB", "nan"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        for wrong in ["gpu", "cpu:0", "cuda:", "cuda:x", "cuda:-1", ""] {
            assert!(chosen(wrong).is_err(), "{wrong}");
        }
    }
}
