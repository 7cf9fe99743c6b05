//! A GPU against the interpreter and the processor: memory, products, captured work, every kind
//! of kernel, and whole programs.
//!
//! Without a GPU, every test is skipped and prints why; `scripts/gpu_check` counts them.
//! NVIDIA's libraries are searched as by the command line, starting with `GNNC_CUDA_LIBRARIES`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may stop, and says what it skips"
)]

#[path = "../codegen/tests/support/mod.rs"]
mod support;

#[path = "gpu/batches.rs"]
mod batches;
#[path = "gpu/kernels.rs"]
mod kernels;
#[path = "gpu/memory.rs"]
mod memory;
#[path = "gpu/open.rs"]
mod open;
#[path = "gpu/products.rs"]
mod products;
#[path = "gpu/programs.rs"]
mod programs;

use gnnc::Device;
use gnnc::device::library_folders;
use gnnc::runtime::device::cuda::LiveOptions;
use open::{Open, open};

/// GPU 0, or `None` with a printed reason.
fn live(test: &str) -> Option<Open> {
    open(test, library_folders(None))
}

/// The same, to be opened by whatever trains on it.
fn device(test: &str) -> Option<Device> {
    live(test)?;
    Some(Device::Cuda(LiveOptions {
        folders: library_folders(None),
        ..LiveOptions::default()
    }))
}
