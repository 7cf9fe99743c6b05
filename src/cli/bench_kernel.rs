//! `gnnc bench-kernel`: times of single kernels on a GPU, one request per line.

use super::cache;
use super::device::DeviceArgs;
use super::output::{Answer, Failure, Output, input};
use clap::Args;
use gnnc::Error;
use gnnc::graph::LoadOptions;
use gnnc::graph::read::load;
use gnnc::kernels::{Request, copy_bandwidth, measure};
use gnnc::runtime::device::gpu::driver::Driver;
use serde_json::json;
use std::io::{self, BufRead};
use std::path::PathBuf;

/// Number of measurements of the copy bandwidth.
const ROUNDS: u32 = 10;

/// Arguments of `bench-kernel`.
#[derive(Args)]
pub struct BenchKernel {
    /// The graph file.
    graph: PathBuf,
    #[command(flatten)]
    device: DeviceArgs,
}

impl BenchKernel {
    /// Describes the device, then answers each line of standard input with a line of JSON.
    pub fn run(&self, out: &Output) -> Answer {
        let device = self.device.device();
        let mut live = device
            .open(cache::open(out)?)?
            .ok_or_else(|| input("single kernels are measured on a GPU; add --device cuda"))?;
        let topology = load(&self.graph, &LoadOptions::default())?.topology;
        let copied = copy_bandwidth(&mut live, ROUNDS)?;
        out.line(&json!({
            "device": live.name(),
            "vertices": topology.vertices(),
            "edges": topology.edges(),
            "copy_bytes_per_second": copied,
        }))?;
        for line in io::stdin().lock().lines() {
            let line = line.map_err(|source| Error::File {
                action: "read",
                path: PathBuf::from("standard input"),
                source,
            })?;
            let request: Request = serde_json::from_str(&line).map_err(|error| {
                input(format!(
                    "found `{line}` ({error}), expected a request such as {EXAMPLE}"
                ))
            })?;
            let answer = measure(&mut live, &topology, &request).map_err(Failure::from)?;
            out.line(&json!(answer))?;
        }
        Ok(())
    }
}

const EXAMPLE: &str = r#"{"kernel":"spmm","width":64,"heads":1,"times":10,"rounds":3}"#;
