//! libFuzzer on [`gnnc_fuzz::cluster`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gnnc_fuzz::cluster(data));
