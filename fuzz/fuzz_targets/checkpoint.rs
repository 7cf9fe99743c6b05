//! libFuzzer on [`gnnc_fuzz::checkpoint`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gnnc_fuzz::checkpoint(data));
