//! libFuzzer on [`gnnc_fuzz::plan`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gnnc_fuzz::plan(data));
