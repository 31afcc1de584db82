//! The program of the fuzz target `profiling_answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::profiling_answer::run(data));
