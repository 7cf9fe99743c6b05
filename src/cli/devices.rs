//! `gnnc devices`: the devices and libraries of this machine.

use super::calibrate::{machine_name, memory};
use super::device::LibraryArgs;
use super::output::{Answer, Output};
use super::text::facts;
use clap::Args;
use gnnc::codegen::cuda::libraries::Part;
use gnnc::ir::words::units::Bytes;
use gnnc::runtime::device::cuda::{Gpu, gpus};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Arguments of `devices`.
#[derive(Args)]
pub struct Devices {
    #[command(flatten)]
    libraries: LibraryArgs,
}

/// A library: its version and file, or why it is missing.
struct Library {
    name: &'static str,
    found: Result<(String, PathBuf), String>,
}

impl Devices {
    /// Lists the CPU, the GPUs and the libraries that GPUs need.
    pub fn run(&self, out: &Output) -> Answer {
        let folders = self.libraries.folders();
        let library = |part: Part| {
            let found = part.load(&folders).map_err(|error| error.to_string());
            Library {
                name: part.name(),
                found: found.map(|found| {
                    let version = found.version().map(|n| n.to_string()).join(".");
                    (version, found.file())
                }),
            }
        };
        let libraries = Part::ALL.map(library);
        let gpus = gpus(&folders).map_err(|error| error.to_string());
        out.report(
            || text(&libraries, &gpus),
            &json!({
                "processor": machine_name(),
                "memory_bytes": memory(),
                "gpus": gpus.as_deref().unwrap_or_default(),
                "no_gpu": gpus.as_ref().err(),
                "libraries": libraries.iter().map(value).collect::<Vec<Value>>(),
            }),
        )
    }
}

fn value(library: &Library) -> Value {
    match &library.found {
        Ok((version, file)) => {
            json!({ "name": library.name, "version": version, "file": file.display().to_string() })
        }
        Err(missing) => json!({ "name": library.name, "missing": missing }),
    }
}

fn text(libraries: &[Library], gpus: &Result<Vec<Gpu>, String>) -> String {
    let mut lines = vec![("CPU", format!("{}, {}", machine_name(), Bytes(memory())))];
    for gpu in gpus.iter().flatten() {
        lines.push((
            "GPU",
            format!(
                "{}: {}, {}, {}, {} multiprocessors",
                gpu.number,
                gpu.name,
                gpu.arch,
                Bytes(gpu.memory_bytes),
                gpu.multiprocessors
            ),
        ));
    }
    if let Err(error) = gpus {
        lines.push(("GPU", format!("none: {error}")));
    }
    for library in libraries {
        let name = library.name.strip_prefix("the ").unwrap_or(library.name);
        lines.push((
            name,
            match &library.found {
                Ok((version, file)) => format!("{version}, {}", file.display()),
                Err(missing) => format!("none: {missing}"),
            },
        ));
    }
    facts(&lines)
}
