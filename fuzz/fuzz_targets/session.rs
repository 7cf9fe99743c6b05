//! libFuzzer on [`gnnc_fuzz::session`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gnnc_fuzz::session(data));
