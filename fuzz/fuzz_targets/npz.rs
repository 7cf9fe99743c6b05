//! libFuzzer on [`gnnc_fuzz::npz`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gnnc_fuzz::npz(data));
