//! libFuzzer on [`gnnc_fuzz::array`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gnnc_fuzz::array(data));
