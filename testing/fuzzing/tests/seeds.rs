//! Every target takes every seed, whole and cut off.

use std::fs;

use fuzzing::TARGETS;
use repository::root;

/// In how many places a seed is cut off.
const CUTS: usize = 16;

fn files(directory: &str) -> Result<Vec<std::path::PathBuf>, std::io::Error> {
    let mut files: Vec<_> =
        fs::read_dir(root().join(directory))?.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    files.sort();
    Ok(files)
}

#[test]
fn every_target_takes_every_seed() -> Result<(), std::io::Error> {
    let seeds = files("fuzz/seeds")?;
    assert!(!seeds.is_empty());
    for seed in seeds {
        let bytes = fs::read(&seed)?;
        for end in (0..CUTS).map(|cut| bytes.len() * cut / CUTS).chain([bytes.len()]) {
            for (name, target) in TARGETS {
                println!("{name}: {} up to byte {end}", seed.display());
                target(&bytes[..end]);
            }
        }
    }
    Ok(())
}

#[test]
fn every_target_has_a_program() -> Result<(), std::io::Error> {
    let programs: Vec<_> = files("fuzz/fuzz_targets")?
        .into_iter()
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    assert_eq!(programs, TARGETS.map(|(name, _)| name));
    Ok(())
}
