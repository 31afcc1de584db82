//! `cargo xtask images`: an image of each program, without a container engine.
//!
//! An image holds one static binary, an unprivileged user, and trusted certificate authorities where the program
//! connects to servers outside the cluster. The output is an OCI layout in an archive that docker, k3d, kind and
//! containerd load; the same sources give the same bytes. `--push` sends it to a registry.

mod archive;
mod build;
mod layer;
mod push;
mod sbom;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use archive::Image;
pub(crate) use build::Arch;
use push::push;
use repository::root;
use sbom::Bills;

/// A program that has an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ImageProgram {
    /// Name of the image and of the binary.
    name: &'static str,
    /// The package that builds it.
    package: &'static str,
    /// The feature of the package without which there is no binary. No other program has one of that name.
    feature: Option<&'static str>,
}

const fn program(name: &'static str) -> ImageProgram {
    ImageProgram { name, package: name, feature: None }
}

/// All programs that the chart starts.
const PROGRAMS: [ImageProgram; 6] = [
    ImageProgram { name: "crds", package: "api-types", feature: Some("cli") },
    program("graph-controller"),
    program("component-controller"),
    program("model-controller"),
    program("webhook-server"),
    program("lease-scope"),
];
/// The kubectl plugin. No pod of the chart runs it.
const PLUGIN: ImageProgram = program("kubectl-dynamo");

/// All programs of a release.
fn released() -> impl Iterator<Item = ImageProgram> {
    PROGRAMS.into_iter().chain([PLUGIN])
}

/// An image of each program: static, not root, nothing else in it.
#[derive(Debug, clap::Args)]
pub(crate) struct ImagesArgs {
    /// Programs to make images of [default: all]
    #[arg(value_name = "PROGRAM", value_parser = clap::builder::PossibleValuesParser::new(released().map(|p| p.name)))]
    programs: Vec<String>,
    /// Architectures, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = build::Arch::HOST)]
    arch: Vec<build::Arch>,
    /// Registry and user or organization of the images, such as docker.io/example
    #[arg(long, default_value = "dynamo-operator")]
    repository: String,
    /// Tag of the images
    #[arg(long, default_value = env!("CARGO_PKG_VERSION"))]
    tag: String,
    /// Cargo profile
    #[arg(long, default_value = "dist")]
    profile: String,
    /// Adds a shell, for looking around: the static busybox of this file
    #[arg(long, value_name = "FILE")]
    shell: Option<PathBuf>,
    /// Directory for the archives
    #[arg(long, value_name = "DIR", default_value = "target/images")]
    out: PathBuf,
    /// Pushes the images as <repository>/<program>:<tag>, with the logins of docker's configuration, and writes their
    /// names by digest to pushed.txt beside the archives
    #[arg(long)]
    push: bool,
    /// Allows a registry without TLS, or with an unknown certificate
    #[arg(long, requires = "push")]
    insecure: bool,
    /// Makes what the end-to-end test runs on a node: the programs of the chart, the mock engine, and `pause`
    #[arg(long, hide = true, conflicts_with_all = ["programs", "arch", "shell", "push"])]
    for_node: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ImagesArgs) -> Result<()> {
    let desired =
        |program: &ImageProgram| args.programs.is_empty() || args.programs.iter().any(|name| name == program.name);
    let programs: Vec<ImageProgram> = released().filter(desired).collect();
    let out = root().join(&args.out);
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    if args.for_node {
        return write_for_node(&out, args);
    }
    let shell = args.shell.as_deref().map(read).transpose()?;
    let mut images: Vec<Image> =
        programs.iter().map(|p| Image::new(p.name, &format!("{}/{}:{}", args.repository, p.name, args.tag))).collect();
    for arch in &args.arch {
        let binaries = build::binaries(&programs, *arch, &args.profile)?;
        for (image, binary) in images.iter_mut().zip(&binaries) {
            image.add(*arch, &layer::files(image.program(), &read(binary)?, shell.as_deref()))?;
        }
    }
    let bills = Bills::of(&programs, &args.arch)?;
    for (image, program) in images.iter().zip(&programs) {
        let path = out.join(format!("{}.tar", image.program()));
        let size = image.write(&path)?;
        let sbom = out.join(format!("{}.cdx.json", image.program()));
        fs::write(&sbom, bills.bill(program)?).with_context(|| format!("cannot write {}", sbom.display()))?;
        println!("{}  {:.1} MB  {}", image.reference(), size as f64 / 1e6, path.display());
    }
    if args.push {
        let mut names = String::new();
        for image in &images {
            let name = push(image, &out, args.insecure)?;
            println!("pushed {name}");
            names.extend([name.as_str(), "\n"]);
        }
        let list = out.join("pushed.txt");
        fs::write(&list, names).with_context(|| format!("cannot write {}", list.display()))?;
    }
    Ok(())
}

/// Substitute for an inference engine on a real node.
const ENGINE: ImageProgram = program("mock-engine");

/// Makes the images of the end-to-end test. `pause` holds the namespaces of a pod.
fn write_for_node(out: &Path, args: &ImagesArgs) -> Result<()> {
    let arch = Arch::of_this_machine();
    let programs: Vec<ImageProgram> = PROGRAMS.into_iter().chain([ENGINE]).collect();
    let binaries = build::binaries(&programs, arch, &args.profile)?;
    let reference = |name: &str| format!("{}/{name}:{}", args.repository, args.tag);
    for (ImageProgram { name, .. }, binary) in programs.iter().zip(&binaries) {
        pack(name, &[], binary, &reference(name), arch, &out.join(format!("{name}.tar")))?;
        if *name == ENGINE.name {
            pack(name, &["pause"], binary, &reference("pause"), arch, &out.join("pause.tar"))?;
        }
    }
    Ok(())
}

/// Builds the programs of the chart in one go; names and binaries.
pub(crate) fn build_all(arch: Arch, profile: &str) -> Result<Vec<(&'static str, PathBuf)>> {
    let binaries = build::binaries(&PROGRAMS, arch, profile)?;
    Ok(PROGRAMS.iter().map(|program| program.name).zip(binaries).collect())
}

/// Makes the image of one program, which always gets some arguments first, from its binary, as an archive.
pub(crate) fn pack(
    program: &str,
    args: &[&str],
    binary: &Path,
    reference: &str,
    arch: Arch,
    archive: &Path,
) -> Result<()> {
    let mut image = Image::new(program, reference).with_args(args);
    image.add(arch, &layer::files(program, &read(binary)?, None))?;
    image.write(archive).map(|_| ())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A container engine builds the same images from the Dockerfile: one target for each program, with its user and
    /// entrypoint.
    #[test]
    fn the_dockerfile_has_a_target_for_each_program() {
        let file = fs::read_to_string(root().join("Dockerfile")).unwrap();
        for ImageProgram { name, .. } in released() {
            let user = layer::USER;
            let stage = format!(
                "FROM scratch AS {name}\nCOPY --from=build /images/{name} /\nUSER {user}\nENTRYPOINT [\"/{name}\"]\n"
            );
            assert!(file.contains(&stage), "{name}");
        }
        assert_eq!(file.matches("FROM scratch").count(), released().count());
    }

    /// krew downloads what the release workflow uploads, and nothing is left to put in.
    #[test]
    fn the_krew_manifest_names_the_archives_of_a_release() {
        let text = |path: &str| fs::read_to_string(root().join(path)).unwrap();
        let (workflow, mut manifest) = (text(".github/workflows/release.yml"), text("deploy/krew/dynamo.yaml"));
        assert!(workflow.contains("plugin=\"release/kubectl-dynamo-$target-linux.tar.gz\""));
        for arch in ["x86_64", "aarch64"] {
            assert!(manifest.contains(&format!("vVERSION/kubectl-dynamo-{arch}-linux.tar.gz")), "{arch}");
            manifest = manifest.replace(&format!("SHA256_{arch}"), "0");
        }
        let manifest = manifest.replace("REPOSITORY", "https://example.com/o/r").replace("VERSION", "0.1.0");
        let manifest: serde_json::Value = serde_saphyr::from_str(&manifest).unwrap();
        assert_eq!(manifest["metadata"]["name"], "dynamo", "krew expects the name of the file");
        assert_eq!(manifest["spec"]["version"], "v0.1.0");
        let capitals = |text: &str| text.split(|c: char| !c.is_ascii_uppercase()).any(|word| word.len() > 3);
        assert!(!capitals(&manifest.to_string()), "{manifest}");
    }

    /// The same binary has the same digest.
    #[test]
    fn two_archives_of_one_binary_are_equal_to_the_byte() {
        let dir = std::env::temp_dir().join(format!("archives-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        // Big enough that compressors differ in their results.
        let content: Vec<u8> = (0..300_000_u32).flat_map(|n| (n % 1009).to_le_bytes()).collect();
        let binary = dir.join("graph-controller");
        fs::write(&binary, content).unwrap();
        let archive = |name: &str, tag: &str, arch| {
            let path = dir.join(name);
            pack("graph-controller", &[], &binary, &format!("team/graph-controller:{tag}"), arch, &path).unwrap();
            fs::read(path).unwrap()
        };
        let first = archive("first.tar", "1", Arch::Amd64);
        // Times of files count in seconds.
        fs::File::open(&binary).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        assert!(first == archive("second.tar", "1", Arch::Amd64));
        assert!(first != archive("third.tar", "2", Arch::Amd64), "the name is part of it");
        assert!(first != archive("fourth.tar", "1", Arch::Arm64), "and so is the architecture");
        fs::remove_dir_all(dir).unwrap();
    }
}
