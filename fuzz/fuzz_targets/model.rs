//! libFuzzer on [`gnnc_fuzz::model`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gnnc_fuzz::model(data));
