//! Directory of a cluster on disk, and files that only their owner may read.

use std::{
    fs,
    hash::{BuildHasher, RandomState},
    io::Write,
    os::unix::fs::{OpenOptionsExt, symlink},
    path::{Path, PathBuf},
};

use crate::error::Error;

/// Names a directory that keeps the audit logs of all clusters; made if it is missing. With it every cluster writes
/// one.
pub const AUDIT_DIR_ENV: &str = "DYNAMO_AUDIT_DIR";

/// etcd reserves 128 MB for its log at once and grows from there; containers often have a /dev/shm of 64 MB only.
const LEAST_MEMORY: u64 = 1 << 30;

/// A path, not used yet, for a cluster: in memory when there is enough, else in the directory for temporary files.
pub(crate) fn fresh() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let parent = if is_roomy_tmpfs(&mounts, memory) { memory.to_owned() } else { std::env::temp_dir() };
    parent.join(format!("dynamo-cluster-{}-{:08x}", std::process::id(), random() >> 32))
}

/// A random number that is good enough for names and ports.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// Writes a file that only its owner may read.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> Result<(), Error> {
    let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(content)).map_err(Error::io("write", path))
}

/// The directory that [`AUDIT_DIR_ENV`] names.
pub(crate) fn audit_dir() -> Option<PathBuf> {
    std::env::var_os(AUDIT_DIR_ENV).filter(|dir| !dir.is_empty()).map(PathBuf::from)
}

/// Makes `path` lead to a new empty file in `dir`, named after the directory of `path`.
pub(crate) fn keep_file(path: &Path, dir: &Path) -> Result<(), Error> {
    fs::create_dir_all(dir).map_err(Error::io("make", dir))?;
    let dir = fs::canonicalize(dir).map_err(Error::io("find", dir))?;
    let cluster = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let kept = dir.join(format!("{cluster}.log"));
    write_private(&kept, &[])?;
    symlink(&kept, path).map_err(Error::io("link", path))
}

/// Whether `mounts` (the content of `/proc/mounts`) has a tmpfs at `path` that can hold a cluster. Without `size=` a
/// tmpfs may take half of the memory.
fn is_roomy_tmpfs(mounts: &str, path: &Path) -> bool {
    let found = mounts.lines().rev().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (target, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        (Path::new(target) == path).then_some((kind, options))
    });
    found.is_some_and(|(kind, options)| {
        let options: Vec<_> = options.split(',').collect();
        let size =
            options.iter().find_map(|option| option.strip_prefix("size=")?.strip_suffix('k')?.parse::<u64>().ok());
        kind == "tmpfs" && options.contains(&"rw") && size.is_none_or(|kib| kib << 10 >= LEAST_MEMORY)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_kept_outlives_its_directory() {
        let root = std::env::temp_dir().join(format!("kept-{}", std::process::id()));
        let (cluster, kept) = (root.join("cluster-1"), root.join("logs"));
        fs::create_dir_all(&cluster).unwrap();
        keep_file(&cluster.join("audit.log"), &kept).unwrap();
        fs::write(cluster.join("audit.log"), "an event").unwrap();
        fs::remove_dir_all(&cluster).unwrap();
        assert_eq!(fs::read_to_string(kept.join("cluster-1.log")).unwrap(), "an event");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn memory_is_used_only_where_there_is_enough() {
        for (mount, roomy) in [
            ("tmpfs /dev/shm tmpfs rw,relatime,size=24684092k 0 0", true),
            ("tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0", true),
            ("shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k 0 0", false),
            ("tmpfs /dev/shm tmpfs ro,relatime 0 0", false),
            ("/dev/sda1 /dev/shm ext4 rw 0 0", false),
            ("tmpfs /run tmpfs rw 0 0", false),
        ] {
            assert_eq!(is_roomy_tmpfs(mount, Path::new("/dev/shm")), roomy, "{mount}");
        }
    }
}
