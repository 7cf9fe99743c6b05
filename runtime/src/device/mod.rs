//! Device-specific memory and kernels.

pub(crate) mod cpu;
pub mod cuda;
pub mod gpu;
