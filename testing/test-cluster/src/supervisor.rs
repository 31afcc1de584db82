//! The process between us and the programs of a cluster, so that none of them outlives its owner.
//!
//! A shell runs `supervisor.sh`. It starts the programs, so there is no moment at which a program runs and no process
//! has written down its pid. Its standard input is a pipe that only we hold: when we end, be it by SIGKILL, the kernel
//! closes the pipe and the shell kills what it started and removes the directory. It has a process group of its own, so
//! that Ctrl-C in a terminal reaches us and not the cluster beneath us. A detached supervisor reads from a FIFO in the
//! directory in place of the pipe.

use std::{
    fs,
    io::{self, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::{error::Error, home, process::Process, wait};

const SCRIPT: &str = include_str!("supervisor.sh");
/// Starting and killing a process is a matter of milliseconds; this is for machines that are very busy.
const PATIENCE: Duration = Duration::from_secs(30);
const LOG_TAIL_LINES: usize = 20;
/// Files that the script makes: its own pid and start time, and the FIFO of a detached supervisor.
const RECORD: &str = "supervisor";
const CONTROL: &str = "control";

/// A program to run under the supervisor of a cluster.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// Its name in the cluster: lower-case letters, digits and `-`. Its log is `logs/<name>.log`.
    pub name: String,
    /// The executable, as an absolute path or to be found in `PATH`.
    pub executable: PathBuf,
    /// Its arguments. Relative paths are relative to the cluster's directory.
    pub args: Vec<String>,
    /// Environment variables on top of those of the process that started the cluster.
    pub env: Vec<(String, String)>,
}

/// Signal that ends a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: it may clean up; SIGKILL follows after 30 s.
    Terminate,
    /// SIGKILL: at once.
    Kill,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Terminate => "TERM",
            Self::Kill => "KILL",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Supervisor {
    dir: PathBuf,
    link: Mutex<Link>,
}

/// Connection to the supervisor.
#[derive(Debug)]
enum Link {
    /// Through its standard input; it ends when we do.
    Pipe(Child),
    /// Through a FIFO; it runs until it gets the command to end.
    Fifo,
}

impl Supervisor {
    /// Starts a supervisor, which makes `dir`.
    pub(crate) async fn start(dir: PathBuf) -> Result<Self, Error> {
        let child = Command::new("sh")
            .args(["-c", SCRIPT, "supervisor", "run"])
            .arg(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(Error::io("start sh for", &dir))?;
        let record = dir.join(RECORD);
        let this = Self { dir, link: Mutex::new(Link::Pipe(child)) };
        wait::until("the supervisor of the cluster", PATIENCE, async || Process::from_record(&record)).await?;
        Ok(this)
    }

    /// Finds the detached supervisor of `dir`.
    pub(crate) fn attach(dir: &Path) -> Result<Self, Error> {
        let running = Process::from_record(&dir.join(RECORD)).is_some_and(|process| process.is_running());
        if !(running && dir.join(CONTROL).exists()) {
            return Err(Error::NotRunning(dir.to_owned()));
        }
        Ok(Self { dir: dir.to_owned(), link: Mutex::new(Link::Fifo) })
    }

    /// Kills what a supervisor that is gone left behind in `dir`, and removes `dir`. Does nothing where no cluster was.
    pub(crate) fn clean(dir: &Path) -> Result<(), Error> {
        if !dir.join(RECORD).exists() {
            return Ok(());
        }
        let done = Command::new("sh")
            .args(["-c", SCRIPT, "supervisor", "clean"])
            .arg(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status();
        done.map_err(Error::io("clean up", dir)).map(drop)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts a program. It is running, or has run, when this returns.
    pub(crate) async fn run(&self, program: &Program) -> Result<Process, Error> {
        let name = program.name.as_str();
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || !name.chars().all(legal) {
            return Err(Error::ProgramName(name.to_owned()));
        }
        home::write_private(&self.dir.join("cmd").join(name), script(program).as_bytes())?;
        self.run_again(name).await
    }

    /// Starts a program that was started before, with the same command line.
    pub(crate) async fn run_again(&self, name: &str) -> Result<Process, Error> {
        let record = self.record(name);
        match fs::remove_file(&record) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::io("remove", record)(error)),
            _ => self.send_command(&format!("start {name}"))?,
        }
        let started = wait::until(format!("{name} to start"), PATIENCE, async || {
            record.exists().then(|| Process::from_record(&record))
        });
        // A record without a start time is that of a program which ended at once.
        started.await?.ok_or_else(|| self.died(name))
    }

    /// Ends a program and returns when it is gone. Does nothing if it does not run.
    pub(crate) async fn stop(&self, name: &str, signal: Signal) -> Result<(), Error> {
        let Some(process) = self.process(name) else { return Ok(()) };
        self.send_command(&format!("stop {name} {}", signal.name()))?;
        let gone = async || (!process.is_running()).then_some(());
        let mut outcome = wait::until(format!("{name} to end"), PATIENCE, gone).await;
        if outcome.is_err() && signal == Signal::Terminate {
            self.send_command(&format!("stop {name} KILL"))?;
            outcome = wait::until(format!("{name} to end"), PATIENCE, gone).await;
        }
        Ok(outcome?)
    }

    /// The running process of a program.
    pub(crate) fn process(&self, name: &str) -> Option<Process> {
        Process::from_record(&self.record(name)).filter(Process::is_running)
    }

    /// Returns, with the end of its log, when one of the named programs is seen to have ended.
    pub(crate) async fn first_death(&self, names: &[&str]) -> Error {
        loop {
            if let Some(name) = names.iter().find(|name| self.process(name).is_none()) {
                return self.died(name);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Makes the supervisor independent of this process.
    pub(crate) async fn detach(&self) -> Result<(), Error> {
        self.send_command("detach")?;
        let control = self.dir.join(CONTROL);
        wait::until("the supervisor to detach", PATIENCE, async || control.exists().then_some(())).await?;
        *self.lock() = Link::Fifo;
        Ok(())
    }

    /// Ends everything and returns when it is gone.
    pub(crate) async fn end(&self) -> Result<(), Error> {
        let Some(supervisor) = Process::from_record(&self.dir.join(RECORD)) else { return Ok(()) };
        self.send_command("end")?;
        wait::until("the cluster to end", PATIENCE, async || (!supervisor.is_running()).then_some(())).await?;
        Ok(())
    }

    fn send_command(&self, command: &str) -> Result<(), Error> {
        match &mut *self.lock() {
            Link::Pipe(child) => match &mut child.stdin {
                Some(pipe) => writeln!(pipe, "{command}").map_err(Error::io("command the supervisor of", &self.dir)),
                None => Err(Error::NotRunning(self.dir.clone())),
            },
            Link::Fifo => {
                // Opened for reading too, because opening a FIFO without a reader blocks.
                let control = self.dir.join(CONTROL);
                let reported = fs::OpenOptions::new().read(true).write(true).open(&control);
                reported.and_then(|mut fifo| writeln!(fifo, "{command}")).map_err(Error::io("write", control))
            }
        }
    }

    /// Returns the path of a program's output.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{name}.log"))
    }

    fn died(&self, name: &str) -> Error {
        let log = fs::read(self.log(name)).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().collect();
        let tail = &lines[lines.len().saturating_sub(LOG_TAIL_LINES)..];
        Error::Died { name: name.to_owned(), log: tail.join("\n") }
    }

    fn record(&self, name: &str) -> PathBuf {
        self.dir.join("pids").join(name)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Supervisor {
    /// Waits until all is gone, unless the supervisor was detached.
    fn drop(&mut self) {
        if let Link::Pipe(child) = &mut *self.lock() {
            drop(child.stdin.take());
            // There is no reader of an error; the supervisor ends by itself once the pipe is closed.
            let _ = child.wait();
        }
    }
}

/// The shell script that becomes the program.
fn script(program: &Program) -> String {
    let mut text = String::new();
    for (name, value) in &program.env {
        text += &format!("export {name}={}\n", quote(value));
    }
    text += &format!("exec {}", quote(&program.executable.to_string_lossy()));
    for arg in &program.args {
        text += &format!(" \\\n  {}", quote(arg));
    }
    text + "\n"
}

fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_keeps_every_word_as_it_is() {
        let program = Program {
            name: "x".into(),
            executable: "/bin/printf".into(),
            args: vec![r"%s|".into(), "it's $HOME".into(), "a\nb".into(), String::new()],
            env: vec![("A".into(), "`b` \"c\"".into())],
        };
        let text = script(&program).replace("exec", "printf '%s|' \"$A\"; exec");
        let output = Command::new("sh").args(["-c", &text]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "`b` \"c\"|it's $HOME|a\nb||");
    }
}
