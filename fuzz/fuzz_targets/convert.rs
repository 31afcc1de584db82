//! The program of the fuzz target `convert`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::convert::run(data));
