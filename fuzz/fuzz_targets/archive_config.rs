//! The program of the fuzz target `archive_config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::archive_config::run(data));
