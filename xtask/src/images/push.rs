//! Pushes images to a registry by crane, with the logins of docker's configuration.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use test_cluster::assets::{Assets, Tool};

use super::archive::Image;

/// Pushes one image under its name, all architectures: by TLS, on loopback and private addresses by plain HTTP.
/// `insecure` allows plain HTTP everywhere, and any certificate. Returns its name by digest. The layout is written below
/// `dir` and removed again.
pub(super) fn push(image: &Image, dir: &Path, insecure: bool) -> Result<String> {
    let layout = dir.join(format!("{}.layout", image.program()));
    for (name, content) in image.layout()? {
        let path = layout.join(name);
        let parent = path.parent().unwrap_or(&layout);
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut crane = Command::new(Assets::from_env()?.find(Tool::Crane)?);
    if insecure {
        crane.arg("--insecure");
    }
    crane.arg("push").arg(&layout).arg(image.reference()).stderr(Stdio::inherit());
    let output = crane.output().context("cannot run crane")?;
    fs::remove_dir_all(&layout).with_context(|| format!("cannot remove {}", layout.display()))?;
    ensure!(
        output.status.success(),
        "cannot push {}; log in with `docker login` or `crane auth login`",
        image.reference()
    );
    let name = String::from_utf8(output.stdout).context("crane printed no name")?;
    Ok(name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use test_cluster::Server;

    use super::{
        super::{build::Arch, layer},
        *,
    };

    fn crane(args: &[&str]) -> Vec<u8> {
        let crane = Assets::from_env().unwrap().find(Tool::Crane).unwrap();
        let output = Command::new(crane).args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// A node pulls the pushed content: an index with an image for each architecture, by tag and by digest.
    #[tokio::test]
    async fn a_registry_serves_what_was_pushed() {
        let registry = Server::registry().await.unwrap();
        let name = format!("{}/user/graph-controller", registry.address);
        let mut image = Image::new("graph-controller", &format!("{name}:1.2.3"));
        for (arch, content) in [(Arch::Amd64, b"amd64"), (Arch::Arm64, b"arm64")] {
            image.add(arch, &layer::files("graph-controller", content, None)).unwrap();
        }
        let dir = std::env::temp_dir().join(format!("push-{}", std::process::id()));
        let pushed = push(&image, &dir, false).unwrap();
        assert!(pushed.starts_with(&format!("{name}@sha256:")), "{pushed}");
        assert_eq!(push(&image, &dir, false).unwrap(), pushed, "the digest is that of the content");

        let by_tag = crane(&["manifest", &format!("{name}:1.2.3")]);
        assert_eq!(by_tag, crane(&["manifest", &pushed]));
        let index: Value = serde_json::from_slice(&by_tag).unwrap();
        assert_eq!(index["manifests"].as_array().unwrap().len(), 2);
        for arch in ["amd64", "arm64"] {
            let files = crane(&["export", &format!("--platform=linux/{arch}"), &pushed, "-"]);
            let mut files = tar::Archive::new(files.as_slice());
            let program = files
                .entries()
                .unwrap()
                .map(Result::unwrap)
                .find(|file| file.path().is_ok_and(|path| path.ends_with("graph-controller")));
            let mut content = String::new();
            std::io::Read::read_to_string(&mut program.unwrap(), &mut content).unwrap();
            assert_eq!(content, arch);
        }
        fs::remove_dir_all(dir).unwrap();
    }
}
