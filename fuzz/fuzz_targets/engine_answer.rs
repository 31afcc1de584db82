//! The program of the fuzz target `engine_answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::engine_answer::run(data));
