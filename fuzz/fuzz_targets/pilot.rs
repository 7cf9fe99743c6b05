//! libFuzzer on [`gnnc_fuzz::pilot`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gnnc_fuzz::pilot(data));
