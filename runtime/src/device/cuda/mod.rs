//! GPUs.

pub mod driver;
