//! Binaries and images of the loop.
//!
//! Each build gives an image two names. One is made from the content; the step writes it where Tilt finds it, and Tilt
//! deploys it. The other lasts from build to build: controllers put it into pods that they make. The step brings both
//! to the cluster.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use api_types::names::sha256_hex;
use clap::ValueEnum;
use repository::root;

use crate::images::{self, Arch};

/// Makes the image of a program, and brings it to the cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct ImageArgs {
    /// Tool that brings it there
    #[arg(long, value_enum)]
    via: Via,
    /// Context of the k3d or kind cluster
    #[arg(long, required_if_eq_any([("via", "k3d"), ("via", "kind")]))]
    context: Option<String>,
    /// Prefix of the image name
    #[arg(long)]
    repository: String,
    /// The tag that lasts from build to build
    #[arg(long, value_name = "TAG")]
    lasting_tag: String,
    /// Pushes to the registry in the name; without it, the cluster uses the images of the container runtime
    #[arg(long)]
    push: bool,
    /// Makes an image whose program can be replaced while it runs
    #[arg(long)]
    live: bool,
    program: String,
}

/// Tool that brings an image to the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Via {
    /// Import into the nodes of a k3d cluster.
    K3d,
    /// Import into the nodes of a kind cluster.
    Kind,
    /// Docker, with a registry or as the runtime of the cluster.
    Docker,
    /// Podman, with a registry.
    Podman,
    /// nerdctl, with a registry.
    Nerdctl,
}

/// An image under both its names.
#[derive(Debug)]
struct Build {
    /// By its content.
    own: String,
    lasting: String,
    /// The archive under the name by content, and that under the other one.
    archives: [PathBuf; 2],
}

/// Returns the Tiltfile's directory of binaries.
fn binaries() -> PathBuf {
    root().join("target/tilt")
}

/// The image of a program that can be replaced while it runs.
fn live_dockerfile() -> PathBuf {
    root().join("tilt/dev/live.Dockerfile")
}

/// Compiles all programs in one go, and replaces those whose content changed: the others' images are not built again.
pub(super) fn build() -> Result<()> {
    fs::create_dir_all(binaries()).context("cannot make target/tilt")?;
    for (name, built) in images::build_all(Arch::of_this_machine(), "dev")? {
        let (target, new) = (binaries().join(name), fs::read(&built)?);
        if fs::read(&target).is_ok_and(|old| old == new) {
            continue;
        }
        // A reader sees the old file or the new one, never a part of one.
        let part = target.with_extension("new");
        fs::copy(&built, &part).with_context(|| format!("cannot write {}", part.display()))?;
        fs::rename(&part, &target).with_context(|| format!("cannot write {}", target.display()))?;
        println!("{name} changed");
    }
    Ok(())
}

/// Makes the image, brings it to the cluster under both names, and prints the one that Tilt deploys.
pub(super) fn image(args: &ImageArgs) -> Result<()> {
    let (dir, name) = (binaries(), format!("{}/{}", args.repository, args.program));
    let binary = dir.join(&args.program);
    let build = Build {
        own: format!("{name}:tilt-{}", content(&binary, args.live)?),
        lasting: format!("{name}:{}", args.lasting_tag),
        archives: ["tar", "lasting.tar"].map(|ending| dir.join(format!("{}.{ending}", args.program))),
    };
    for (reference, archive) in [&build.own, &build.lasting].into_iter().zip(&build.archives) {
        images::pack(&args.program, &[], &binary, reference, Arch::of_this_machine(), archive)?;
    }
    for command in commands(args, &build)? {
        run(args.via, &command)?;
    }
    fs::write(dir.join(format!("{}.ref", args.program)), &build.own)?;
    Ok(())
}

/// Returns a digest of an image's content, for its name.
fn content(binary: &Path, live: bool) -> Result<String> {
    let mut all = fs::read(binary).with_context(|| format!("cannot read {}", binary.display()))?;
    if live {
        all.extend(fs::read(live_dockerfile())?);
    }
    Ok(sha256_hex(&all, 16))
}

/// The arguments of each call that brings both names to the cluster, in order.
fn commands(args: &ImageArgs, build: &Build) -> Result<Vec<Vec<String>>> {
    let context = args.context.as_deref().unwrap_or_default();
    let cluster = |prefix: &str| {
        context
            .strip_prefix(prefix)
            .with_context(|| format!("{context} is no context of a {} cluster", &prefix[..prefix.len() - 1]))
    };
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let [own, lasting] = build.archives.each_ref().map(|path| path.display().to_string());
    Ok(match args.via {
        Via::K3d | Via::Kind if args.live => {
            bail!("an image for live updates is built and pushed by a container runtime")
        }
        Via::K3d => vec![words(&["image", "import", "--cluster", cluster("k3d-")?, &own, &lasting])],
        Via::Kind => {
            let name = cluster("kind-")?;
            [own, lasting].map(|archive| words(&["load", "image-archive", "--name", name, &archive])).into()
        }
        Via::Docker | Via::Podman | Via::Nerdctl => {
            let mut all = if args.live {
                // Pods of our controllers run the plain image; that of the Deployment is made of it.
                let (program, image) = (format!("PROGRAM={}", args.program), format!("IMAGE={}", build.lasting));
                let (file, folder) = (live_dockerfile(), root().join("tilt/dev"));
                let mut live = words(&["build", "--build-arg", &program, "--build-arg", &image, "--tag", &build.own]);
                live.extend(["--file".to_owned(), file.display().to_string(), folder.display().to_string()]);
                vec![words(&["load", "--input", &lasting]), live]
            } else {
                vec![words(&["load", "--input", &own]), words(&["tag", &build.own, &build.lasting])]
            };
            if args.push {
                all.extend([&build.own, &build.lasting].map(|reference| words(&["push", reference])));
            }
            all
        }
    })
}

fn run(via: Via, args: &[String]) -> Result<()> {
    let program = via.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let status = Command::new(&program).args(args).status().with_context(|| format!("cannot run {program}"))?;
    ensure!(status.success(), "{program} {} failed", args.join(" "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(via: Via) -> ImageArgs {
        ImageArgs {
            via,
            context: None,
            repository: "r.example.com/me".to_owned(),
            lasting_tag: "abc".to_owned(),
            push: false,
            live: false,
            program: "graph-controller".to_owned(),
        }
    }

    fn lines(args: &ImageArgs) -> Result<Vec<String>> {
        let build = Build {
            own: "OWN".to_owned(),
            lasting: "LASTING".to_owned(),
            archives: ["own.tar", "lasting.tar"].map(PathBuf::from),
        };
        let commands = commands(args, &build)?;
        Ok(commands.iter().map(|words| words.join(" ")).collect())
    }

    /// Tilt deploys one of the names, pods of our controllers have the other: both have to be there.
    #[test]
    fn every_loop_brings_both_names_to_the_cluster() {
        let k3d = ImageArgs { context: Some("k3d-dynamo".to_owned()), ..args(Via::K3d) };
        assert_eq!(lines(&k3d).unwrap(), ["image import --cluster dynamo own.tar lasting.tar"]);
        let kind = ImageArgs { context: Some("kind-dev".to_owned()), ..args(Via::Kind) };
        let load = "load image-archive --name dev";
        assert_eq!(lines(&kind).unwrap(), [format!("{load} own.tar"), format!("{load} lasting.tar")]);
        for via in [Via::Docker, Via::Podman, Via::Nerdctl] {
            let here = ["load --input own.tar", "tag OWN LASTING"];
            assert_eq!(lines(&args(via)).unwrap(), here, "{via:?}");
            let pushed = ImageArgs { push: true, ..args(via) };
            assert_eq!(lines(&pushed).unwrap(), [here[0], here[1], "push OWN", "push LASTING"], "{via:?}");
        }
    }

    #[test]
    fn an_image_for_live_updates_is_made_of_the_plain_one_and_both_are_brought() {
        let live = ImageArgs { push: true, live: true, ..args(Via::Docker) };
        let lines = lines(&live).unwrap();
        assert_eq!(lines[0], "load --input lasting.tar");
        let build = "build --build-arg PROGRAM=graph-controller --build-arg IMAGE=LASTING --tag OWN --file ";
        assert!(lines[1].starts_with(build) && lines[1].contains("/live.Dockerfile "), "{lines:?}");
        assert_eq!(lines[2..], ["push OWN", "push LASTING"]);
    }

    #[test]
    fn a_cluster_of_another_kind_is_refused() {
        let kind = ImageArgs { context: Some("kind-dev".to_owned()), ..args(Via::K3d) };
        assert_eq!(lines(&kind).unwrap_err().to_string(), "kind-dev is no context of a k3d cluster");
        let live = ImageArgs { context: Some("k3d-dynamo".to_owned()), live: true, ..args(Via::K3d) };
        assert!(lines(&live).is_err());
    }

    #[test]
    fn the_name_by_content_changes_with_the_content() {
        let file = std::env::temp_dir().join(format!("program-{}", std::process::id()));
        fs::write(&file, "one").unwrap();
        let one = content(&file, false).unwrap();
        assert_eq!(one.len(), 16);
        assert_eq!(content(&file, false).unwrap(), one);
        assert_ne!(content(&file, true).unwrap(), one);
        fs::write(&file, "two").unwrap();
        assert_ne!(content(&file, false).unwrap(), one);
        fs::remove_file(file).unwrap();
    }
}
