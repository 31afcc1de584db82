//! Builds a set of programs into the cache, once, for any number of callers at the same time.

use std::{
    collections::VecDeque,
    fs::{self, File, TryLockError},
    io::{BufRead, BufReader, IsTerminal},
    path::{Path, PathBuf},
    process::Stdio,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use super::{AssetsError, KWOK_STAGES, Tool, ToolSet, toolchain::Toolchain};

/// A Go module that pins programs.
pub(super) struct Module {
    /// The folder of the cache in which they are kept.
    pub(super) name: &'static str,
    pub(super) go_mod: &'static str,
    go_sum: &'static str,
    /// Further files of it that are kept.
    files: &'static [&'static str],
    /// Its source, where it is a program of this repository.
    main: Option<&'static str>,
    /// Build flags beside those of all.
    flags: &'static [&'static str],
}

pub(super) const CLUSTER: Module = Module {
    name: "cluster",
    go_mod: include_str!("../../../../xtask/cluster/go.mod"),
    go_sum: include_str!("../../../../xtask/cluster/go.sum"),
    files: &STAGES,
    main: None,
    flags: &LESS_INLINING,
};
/// NATS module. A change here rebuilds nothing of the cluster.
pub(super) const NATS: Module = Module {
    name: "nats",
    go_mod: include_str!("../../../../xtask/cluster/nats/go.mod"),
    go_sum: include_str!("../../../../xtask/cluster/nats/go.sum"),
    files: &[],
    main: None,
    flags: &[],
};
/// Nor what changes here.
pub(super) const REGISTRY: Module = Module {
    name: "registry",
    go_mod: include_str!("../../../../xtask/cluster/registry/go.mod"),
    go_sum: include_str!("../../../../xtask/cluster/registry/go.sum"),
    files: &[],
    main: None,
    flags: &[],
};
pub(super) const KSTATUS: Module = Module {
    name: "kstatus",
    go_mod: include_str!("../../../../xtask/cluster/kstatus/go.mod"),
    go_sum: include_str!("../../../../xtask/cluster/kstatus/go.sum"),
    files: &[],
    main: Some(include_str!("../../../../xtask/cluster/kstatus/main.go")),
    flags: &[],
};
pub(super) const LWS: Module = Module {
    name: "lws",
    go_mod: include_str!("../../../../xtask/cluster/lws/go.mod"),
    go_sum: include_str!("../../../../xtask/cluster/lws/go.sum"),
    files: &[],
    main: None,
    flags: &[],
};

pub(super) const PROMTOOL: Module = Module {
    name: "promtool",
    go_mod: include_str!("../../../../xtask/cluster/promtool/go.mod"),
    go_sum: include_str!("../../../../xtask/cluster/promtool/go.sum"),
    files: &[],
    main: None,
    // Without service discovery, whose clients of clouds are most of the program.
    flags: &["-tags=remove_all_sd"],
};

/// No debug information (a tenth of the time, half of the size); the API server reports the version that is set here.
const BUILD_FLAGS: [&str; 4] = [
    "-trimpath",
    "-buildvcs=false",
    "-gcflags=all=-dwarf=false",
    "-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3",
];
/// Without inlining, Kubernetes compiles in three quarters of the time. What requests spend their time in keeps it.
const LESS_INLINING: [&str; 11] = [
    "-gcflags=all=-dwarf=false -l",
    "-gcflags=std=-dwarf=false",
    "-gcflags=k8s.io/apimachinery/...=-dwarf=false",
    "-gcflags=google.golang.org/...=-dwarf=false",
    "-gcflags=go.etcd.io/...=-dwarf=false",
    "-gcflags=sigs.k8s.io/structured-merge-diff/...=-dwarf=false",
    "-gcflags=sigs.k8s.io/json/...=-dwarf=false",
    "-gcflags=k8s.io/apiserver/...=-dwarf=false",
    "-gcflags=golang.org/...=-dwarf=false",
    "-gcflags=github.com/fxamacker/...=-dwarf=false",
    "-gcflags=github.com/google/...=-dwarf=false",
];
/// The compiler's own garbage collection is a sixth of the time.
const BUILD_ENV: (&str, &str) = ("GOGC", "off");

const KWOK_MODULE: &str = "sigs.k8s.io/kwok";
/// Stages of kwok's own that make nodes and Pods ready at once.
const STAGES: [&str; 5] = [
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
];

const ERROR_LINES: usize = 30;
/// The pause between two lines about the progress.
const BEAT: Duration = Duration::from_secs(15);

impl Module {
    /// All inputs of the build.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &'static str> {
        let pins = [self.go_mod, self.go_sum, BUILD_ENV.0, BUILD_ENV.1];
        pins.into_iter()
            .chain(BUILD_FLAGS)
            .chain(self.files.iter().copied())
            .chain(self.main)
            .chain(self.flags.iter().copied())
    }
}

/// Builds `set` into `<root>/bin` unless that was done before.
pub(super) fn ensure(root: &Path, set: ToolSet) -> Result<(), AssetsError> {
    let stamp = root.join(format!("{}.done", set.name()));
    if stamp.exists() {
        return Ok(());
    }
    fs::create_dir_all(root).map_err(AssetsError::io("make", root))?;
    let _lock = lock(&root.join("lock"))?;
    if stamp.exists() {
        return Ok(());
    }
    let module = root.join("module");
    let staging = root.join("staging");
    remove(&module)?;
    remove(&staging)?;
    for dir in [&module, &staging, &root.join("bin")] {
        fs::create_dir_all(dir).map_err(AssetsError::io("make", dir))?;
    }
    let pins = set.module();
    write(&module.join("go.mod"), pins.go_mod)?;
    write(&module.join("go.sum"), pins.go_sum)?;
    if let Some(main) = pins.main {
        write(&module.join("main.go"), main)?;
    }
    let go = Toolchain::check(Path::new("go"), pins.go_mod, &module)?;
    compile(&go, &module, &staging, set)?;
    if set.tools().contains(&Tool::Kwok) {
        write(&staging.join(KWOK_STAGES), &kwok_stages(&go, &module)?)?;
    }
    install(&staging, &root.join("bin"))?;
    remove(&module)?;
    remove(&staging)?;
    write(&stamp, "")
}

/// Holds the lock until the file is dropped; the kernel takes it from a process that dies.
pub(super) fn lock(path: &Path) -> Result<File, AssetsError> {
    let file = File::create(path).map_err(AssetsError::io("make", path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            eprintln!("another process is building the test cluster; waiting for it");
            file.lock().map_err(AssetsError::io("lock", path))?;
        }
        Err(TryLockError::Error(error)) => return Err(AssetsError::io("lock", path)(error)),
    }
    Ok(file)
}

fn compile(go: &Toolchain, module: &Path, staging: &Path, set: ToolSet) -> Result<(), AssetsError> {
    let begin = Instant::now();
    eprintln!("building the test cluster ({}) from Go modules, once on this machine", set.name());
    let progress = Progress { set, packages: packages(go, module, set)? };
    let mut command = go.command(module);
    command
        .args(["build", "-v"])
        .args(BUILD_FLAGS)
        .args(set.module().flags)
        .env(BUILD_ENV.0, BUILD_ENV.1)
        .arg("-o")
        .arg(staging);
    command.args(set.tools().iter().map(|tool| tool.package()));
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(AssetsError::io("run", "go"))?;
    let (sender, lines) = mpsc::channel();
    let stderr = child.stderr.take();
    let reader = thread::spawn(move || {
        let lines = stderr.into_iter().flat_map(|pipe| BufReader::new(pipe).lines().map_while(Result::ok));
        lines.for_each(|line| {
            // The other side is gone only when no caller is left.
            let _ = sender.send(line);
        });
    });
    let tail = progress.follow(&lines);
    let _ = reader.join();
    let status = child.wait().map_err(AssetsError::io("wait for", "go"))?;
    if !status.success() {
        return Err(AssetsError::Go { command: "build".to_owned(), output: tail });
    }
    eprintln!("built the test cluster ({}) in {} s", set.name(), begin.elapsed().as_secs());
    Ok(())
}

/// The number of packages that a set is built from. Downloads the modules.
fn packages(go: &Toolchain, module: &Path, set: ToolSet) -> Result<usize, AssetsError> {
    let mut command = go.command(module);
    command.args(["list", "-deps"]).args(set.module().flags).args(set.tools().iter().map(|tool| tool.package()));
    let output = command.output().map_err(AssetsError::io("run", "go"))?;
    let text = String::from_utf8_lossy(if output.status.success() { &output.stdout } else { &output.stderr });
    if !output.status.success() {
        return Err(AssetsError::Go { command: "list".to_owned(), output: text.into_owned() });
    }
    Ok(text.lines().count())
}

/// Shows how far a build is.
struct Progress {
    set: ToolSet,
    /// The packages of the set.
    packages: usize,
}

impl Progress {
    /// Shows it until the build ends; gives the end of its output. `go build -v` prints one line per package.
    fn follow(&self, lines: &mpsc::Receiver<String>) -> String {
        let start = Instant::now();
        let mut next = start + BEAT;
        let mut built = 0;
        let mut tail = VecDeque::new();
        loop {
            if Instant::now() >= next {
                eprintln!("{}", self.line(built, start.elapsed()));
                next = Instant::now() + BEAT;
            }
            match lines.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    built += usize::from(!line.contains(' '));
                    tail.push_back(line);
                    if tail.len() > ERROR_LINES {
                        tail.pop_front();
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Vec::from(tail).join("\n")
    }

    /// Renders the progress after so many packages have been built in that time.
    fn line(&self, built: usize, time: Duration) -> String {
        let left = self.packages.saturating_sub(built);
        let seconds = time.as_secs() * left as u64 / built.max(1) as u64;
        // Cargo may show a bar in this line meanwhile.
        let clear = if std::io::stderr().is_terminal() { "\r\x1b[2K" } else { "" };
        let (name, total) = (self.set.name(), self.packages);
        format!("{clear}building the test cluster ({name}): {built} of {total} packages, about {seconds} s left")
    }
}

/// kwok's stages, from the very module that kwok was built from.
fn kwok_stages(go: &Toolchain, module: &Path) -> Result<String, AssetsError> {
    let output = go
        .command(module)
        .args(["list", "-m", "-f", "{{.Dir}}", KWOK_MODULE])
        .output()
        .map_err(AssetsError::io("run", "go"))?;
    if !output.status.success() {
        let output = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(AssetsError::Go { command: format!("list -m {KWOK_MODULE}"), output });
    }
    let dir = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()).join("kustomize/stage");
    let mut all = String::new();
    for stage in STAGES {
        let path = dir.join(stage);
        all += "---\n";
        all += &fs::read_to_string(&path).map_err(AssetsError::io("read", path))?;
    }
    Ok(all)
}

/// Moves everything into place. Each move is atomic, so a program that is found is complete.
fn install(staging: &Path, bin: &Path) -> Result<(), AssetsError> {
    for entry in fs::read_dir(staging).map_err(AssetsError::io("read", staging))? {
        let from = entry.map_err(AssetsError::io("read", staging))?.path();
        let Some(name) = from.file_name() else { continue };
        // Go names a program after the directory of its package.
        let name = match name.to_str() {
            Some("server") => Tool::Etcd.name().as_ref(),
            Some("cmd") => Tool::LwsManager.name().as_ref(),
            _ => name,
        };
        fs::rename(&from, bin.join(name)).map_err(AssetsError::io("move into place", from))?;
    }
    Ok(())
}

fn remove(dir: &Path) -> Result<(), AssetsError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(AssetsError::io("remove", dir)(error)),
        _ => Ok(()),
    }
}

pub(super) fn write(path: &Path, content: &str) -> Result<(), AssetsError> {
    fs::write(path, content).map_err(AssetsError::io("write", path))
}
