//! libFuzzer on [`gnnc_fuzz::npy`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gnnc_fuzz::npy(data));
