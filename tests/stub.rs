//! The driver for GPUs on stubs of NVIDIA's libraries, which compute on the processor.
//!
//! What `tests/gpu` asks of a GPU is asked of them, so that calls, their order and their errors are
//! tested where there is no GPU: `tests/stub` holds the stubs. They are no evidence for anything
//! that happens on a GPU. Skipped, with the reason said, without a C compiler or where the system
//! has libraries of its own.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop, and says what it skips"
)]

#[path = "../codegen/tests/support/mod.rs"]
mod support;

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
