//! Memory and kernels of the devices.

pub(crate) mod cpu;
pub mod cuda;
pub mod gpu;
