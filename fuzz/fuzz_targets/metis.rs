//! libFuzzer on [`gnnc_fuzz::metis`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gnnc_fuzz::metis(data));
