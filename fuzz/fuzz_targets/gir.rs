//! libFuzzer on [`gnnc_fuzz::gir`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gnnc_fuzz::gir(data));
