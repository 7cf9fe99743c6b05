//! libFuzzer on [`gnnc_fuzz::npz_array`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gnnc_fuzz::npz_array(data));
