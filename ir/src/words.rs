//! The words that all of gnnc's IRs share: types of tensors, storage formats, units, and spelling.

pub mod json;
pub mod scalar;
pub mod spelling;
pub mod storage;
pub mod types;
pub mod units;
