//! As much of `protoc` as build scripts of Rust crates need: the descriptors of some files, written to one.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use protox::Compiler;

/// One command line.
#[derive(Default)]
struct Call {
    imports: bool,
    source_info: bool,
    output: PathBuf,
    includes: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl Call {
    fn read(words: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut call = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().map(PathBuf::from).ok_or_else(|| format!("{word} needs a value"));
            match word.as_str() {
                "--include_imports" => call.imports = true,
                "--include_source_info" => call.source_info = true,
                "-o" => call.output = value()?,
                "-I" => call.includes.push(value()?),
                option if option.starts_with('-') => {
                    return Err(format!("option {option} is not supported; set PROTOC to a protoc that supports it"));
                }
                file => call.files.push(PathBuf::from(file)),
            }
        }
        Ok(call)
    }

    fn run(&self) -> Result<(), String> {
        let mut compiler = Compiler::new(&self.includes).map_err(|error| error.to_string())?;
        compiler.include_imports(self.imports).include_source_info(self.source_info);
        compiler.open_files(&self.files).map_err(|error| error.to_string())?;
        let output = self.output.display();
        fs::write(&self.output, compiler.encode_file_descriptor_set())
            .map_err(|error| format!("cannot write {output}: {error}"))
    }
}

fn main() -> ExitCode {
    match Call::read(env::args().skip(1)).and_then(|call| call.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("protoc: {error}");
            ExitCode::FAILURE
        }
    }
}
