//! libFuzzer on [`gnnc_fuzz::edges`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gnnc_fuzz::edges(data));
