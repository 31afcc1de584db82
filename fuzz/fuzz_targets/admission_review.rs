//! The program of the fuzz target `admission_review`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzing::admission_review::run(data));
