//! The program of the fuzz target `legacy_config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::legacy_config::run(data));
