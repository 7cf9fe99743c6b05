//! libFuzzer on [`gnnc_fuzz::parquet`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| gnnc_fuzz::parquet(data));
