//! libFuzzer on [`gnnc_fuzz::mtx`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gnnc_fuzz::mtx(data));
