//! Vocabulary shared by all IRs: tensor types, storage formats, units and spelling.

pub mod json;
mod level;
pub mod mesh;
pub mod metric;
pub mod number;
pub mod sampling;
pub mod scalar;
pub mod schedule;
pub mod spelling;
pub mod storage;
pub mod types;
pub mod units;
pub mod wire;
