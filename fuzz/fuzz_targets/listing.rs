//! libFuzzer on [`gnnc_fuzz::listing`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gnnc_fuzz::listing(data));
