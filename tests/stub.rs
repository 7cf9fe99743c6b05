//! The GPU driver on stubs of NVIDIA's libraries, which compute on the processor.
//!
//! The stubs (`tests/stub`) run what `tests/gpu` runs on a GPU, so that calls, their order and
//! their errors are tested without one. They prove nothing about a real GPU. Skipped with a
//! printed reason without a C compiler, or if the system has libraries of its own.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop, and says what it skips"
)]

#[path = "../codegen/tests/support/mod.rs"]
mod support;

#[path = "gpu/batches.rs"]
mod batches;
#[path = "gpu/memory.rs"]
mod memory;
#[path = "gpu/open.rs"]
mod open;
#[path = "gpu/products.rs"]
mod products;
#[path = "gpu/programs.rs"]
mod programs;
#[path = "stub/build.rs"]
mod stub;
#[path = "stub/checks.rs"]
mod stub_checks;
#[path = "stub/commands.rs"]
mod stub_commands;
#[path = "stub/kernels.rs"]
mod stub_kernels;

use gnnc::Device;
use gnnc::runtime::device::cuda::LiveOptions;
use open::{Open, open};

fn live(test: &str) -> Option<Open> {
    open(test, vec![stub::folder(test)?])
}

fn device(test: &str) -> Option<Device> {
    Some(Device::Cuda(LiveOptions {
        folders: vec![stub::folder(test)?],
        ..LiveOptions::default()
    }))
}
