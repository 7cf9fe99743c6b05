//! libFuzzer on [`gnnc_fuzz::workload`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gnnc_fuzz::workload(data));
