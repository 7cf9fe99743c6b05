//! GPUs.

pub mod driver;
pub mod live;
pub mod single;
