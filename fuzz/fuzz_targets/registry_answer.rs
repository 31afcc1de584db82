//! The program of the fuzz target `registry_answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::registry_answer::run(data));
