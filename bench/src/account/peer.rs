//! The peer: `dp-accounting` from the Python package index, in a process that answers one question
//! at a time.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

/// Where its script lives.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/dp_accounting");
const REQUIREMENTS: &str = include_str!("../../peers/dp_accounting/requirements.txt");

/// One thread: ours has no more.
const ONE_THREAD: [&str; 3] = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"];

/// A running peer; it ends when it is dropped.
#[derive(Debug)]
pub(super) struct Peer {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// The versions of Python and the packages.
    pub(super) versions: Value,
}

/// The time and the result of one question.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Reply {
    pub(super) value: f64,
    pub(super) cpu_s: f64,
    pub(super) wall_s: f64,
}

impl Peer {
    /// Installs it below `folder` if it is missing, and starts it.
    pub(super) fn start(folder: &Path, say: impl Fn(&str)) -> Result<Self> {
        let python = installed(&folder.join("dp-accounting"), &say)?;
        say("starting the peer");
        let mut command = Command::new(python);
        command.arg(Path::new(FOLDER).join("peer.py"));
        command.envs(ONE_THREAD.map(|name| (name, "1")));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("no pipe to the peer")?);
        let mut peer = Self { child, questions, answers, versions: Value::Null };
        peer.versions = serde_json::from_str(&peer.line()?)?;
        Ok(peer)
    }

    /// Asks one question.
    pub(super) fn ask(&mut self, question: &Value) -> Result<Reply> {
        let questions = self.questions.as_mut().context("the peer has ended")?;
        writeln!(questions, "{question}")?;
        questions.flush()?;
        let line = self.line()?;
        serde_json::from_str(&line).with_context(|| format!("the peer answered {line:?}"))
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("the peer ended early; see its output above");
        }
        Ok(line)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It ends when its input ends.
        self.questions = None;
        let _ = self.child.wait();
    }
}

/// The interpreter of a virtual environment that holds exactly the requirements.
fn installed(folder: &Path, say: &impl Fn(&str)) -> Result<PathBuf> {
    let python = folder.join("bin").join("python");
    // Written last. If it is missing or has other requirements, the folder is made again.
    let marker = folder.join("requirements.txt");
    if fs::read_to_string(&marker).is_ok_and(|text| text == REQUIREMENTS) && python.exists() {
        return Ok(python);
    }
    say("making a virtual environment for the peer");
    let _ = fs::remove_dir_all(folder);
    let hint = "a virtual environment needs Python 3.11 or newer with `venv` and `ensurepip` \
                (Debian: apt-get install python3 python3-venv); --alone does without the peer";
    run(Command::new("python3").args(["-m", "venv"]).arg(folder)).context(hint)?;
    say("installing dp-accounting and its dependencies with pip");
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--requirement"]);
    run(pip.arg(Path::new(FOLDER).join("requirements.txt"))).context(
        "pip could not install the peer: it needs Python 3.11 or newer and the package index; \
                  --alone does without",
    )?;
    fs::write(&marker, REQUIREMENTS)?;
    Ok(python)
}

/// Runs a command to its end. What it prints goes to standard error: standard output is for
/// results.
fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        // `venv` explains a missing `ensurepip` on standard output.
        bail!("{program} failed\n{}", String::from_utf8_lossy(&output.stdout));
    }
    Ok(())
}
