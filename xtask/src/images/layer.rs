//! The files of an image, as one layer: the same content gives the same bytes.

use pem::{EncodeConfig, LineEnding, Pem};
use tar::{Builder, EntryType, Header};

/// The user that programs run as; also in the chart's security context.
pub(super) const USER: &str = "65532:65532";

/// Programs that use TLS with servers outside of the cluster: registries, API stores, NATS and etcd of others, and API
/// servers whose kubeconfig names no authority.
const OUTBOUND: [&str; 3] = ["component-controller", "graph-controller", "kubectl-dynamo"];

/// Returns the files of an image: the program, the name of its user, authorities for programs that need them, and, if
/// requested, a shell.
pub(super) fn files(program: &str, binary: &[u8], shell: Option<&[u8]>) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    let passwd = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n";
    let (empty, file) = (&[][..], EntryType::Regular);
    put(&mut tar, "etc/", EntryType::Directory, 0o755, empty);
    put(&mut tar, "etc/passwd", file, 0o644, passwd.as_bytes());
    put(&mut tar, "etc/group", file, 0o644, b"root:x:0:\nnonroot:x:65532:\n");
    if OUTBOUND.contains(&program) {
        put(&mut tar, "etc/ssl/", EntryType::Directory, 0o755, empty);
        put(&mut tar, "etc/ssl/certs/", EntryType::Directory, 0o755, empty);
        put(&mut tar, "etc/ssl/certs/ca-certificates.crt", file, 0o644, authorities().as_bytes());
    }
    if let Some(shell) = shell {
        put(&mut tar, "bin/", EntryType::Directory, 0o755, empty);
        // busybox is the command that it is called as.
        for name in ["busybox", "sh", "ls", "cat", "ps", "env", "wget", "nslookup"] {
            put(&mut tar, &format!("bin/{name}"), file, 0o755, shell);
        }
    }
    put(&mut tar, program, file, 0o555, binary);
    if program == "graph-controller" {
        link(&mut tar, "dgd-apply-overrides", program);
    }
    // Writing into memory cannot fail.
    tar.into_inner().unwrap_or_default()
}

/// Mozilla's authorities, where programs on Linux look for them.
fn authorities() -> String {
    let all = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
    let all: Vec<Pem> = all.map(|certificate| Pem::new("CERTIFICATE", certificate.to_vec())).collect();
    pem::encode_many_config(&all, EncodeConfig::new().set_line_ending(LineEnding::LF))
}

/// A program that is another one under its own name.
fn link(tar: &mut Builder<Vec<u8>>, path: &str, target: &str) {
    // A short name fits.
    let _ = tar.append_link(&mut header(EntryType::Symlink, 0o777, 0), path, target);
}

/// Adds a file or a folder.
pub(super) fn put(tar: &mut Builder<Vec<u8>>, path: &str, kind: EntryType, mode: u32, content: &[u8]) {
    // Writing into memory cannot fail, and the name is short.
    let _ = tar.append_data(&mut header(kind, mode, content.len()), path, content);
}

fn header(kind: EntryType, mode: u32, size: usize) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size as u64);
    header
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::files;

    /// Without them, no connection to a registry can use TLS.
    #[test]
    fn programs_that_go_outside_have_trust_roots() {
        for (program, goes_outside) in [("component-controller", true), ("webhook-server", false)] {
            let layer = files(program, b"a program", None);
            let mut tar = tar::Archive::new(layer.as_slice());
            let mut entries = tar.entries().unwrap().map(Result::unwrap);
            let found = entries.find(|entry| entry.path().unwrap().ends_with("etc/ssl/certs/ca-certificates.crt"));
            assert_eq!(found.is_some(), goes_outside, "{program}");
            if let Some(mut file) = found {
                let mut text = String::new();
                file.read_to_string(&mut text).unwrap();
                assert!(text.matches("-----BEGIN CERTIFICATE-----").count() > 50);
            }
        }
    }

    #[test]
    fn the_graph_controller_is_there_under_both_its_names() {
        let entries = |program: &str| {
            let layer = files(program, b"binary", None);
            let mut archive = tar::Archive::new(layer.as_slice());
            let found = archive.entries().unwrap().map(|entry| {
                let entry = entry.unwrap();
                let link = entry.link_name().unwrap().map(|target| format!(" -> {}", target.display()));
                format!("{}{}", entry.path().unwrap().display(), link.unwrap_or_default())
            });
            found.filter(|name| !name.starts_with("etc")).collect::<Vec<_>>()
        };
        assert_eq!(entries("graph-controller"), ["graph-controller", "dgd-apply-overrides -> graph-controller"]);
        assert_eq!(entries("model-controller"), ["model-controller"]);
    }
}
