//! A throw-away PostgreSQL server for the tests: its own folder and port, as a user without
//! privileges. It listens on a socket in its folder alone.
//!
//! The server comes from Debian's package, which is installed if it is missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::workspace::succeed;

/// Whether commits survive a crash of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// As PostgreSQL does by default.
    Everything,
    /// Nothing: it is faster.
    Nothing,
}

const SETTINGS: &str = "-c listen_addresses='' -c max_connections=200 -c shared_buffers=64MB";
const FORGETFUL: &str = "-c fsync=off -c full_page_writes=off -c synchronous_commit=off";

/// Only part of the name of the socket.
const PORT: &str = "54321";

/// A running server. It ends when this is dropped.
pub(crate) struct Server {
    programs: PathBuf,
    folder: PathBuf,
    /// Whom the server runs as, if root started it.
    user: Option<&'static str>,
}

impl Server {
    pub(crate) fn start(keeping: Keeping) -> Result<Self> {
        let programs = match programs() {
            Some(programs) => programs,
            None => install()?,
        };
        let folder = std::env::temp_dir().join(format!("sotto-postgres-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let server = Self { programs, folder, user: is_root()?.then_some("postgres") };
        if let Some(user) = server.user {
            succeed(Command::new("chown").arg(user).arg(&server.folder))?;
        }
        let quiet = |command: &mut Command| succeed(command.stdout(Stdio::null()));
        quiet(server.command("initdb").args([
            "-U",
            "sotto",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-sync",
        ]))?;
        let mut options = format!("-k {} -p {PORT} {SETTINGS}", server.folder.display());
        if keeping == Keeping::Nothing {
            options = format!("{options} {FORGETFUL}");
        }
        let log = server.folder.join("log");
        quiet(server.command("pg_ctl").args(["start", "-w", "-o", &options, "-l"]).arg(log))?;
        Ok(server)
    }

    /// How to connect to it, as PostgreSQL's programs take it.
    fn address(&self) -> String {
        format!("host={} port={PORT} user=sotto", self.folder.display())
    }

    /// How a program reaches it: the address, and its own `psql` before the one of the system, which
    /// may be a slow script around it.
    pub(crate) fn environment(&self) -> [(&'static str, String); 2] {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", self.programs.display());
        [("SOTTO_POSTGRES", self.address()), ("PATH", path)]
    }

    /// The words of a shell that control the server: `restart -m fast` can follow.
    pub(crate) fn control(&self) -> String {
        let command = self.command("pg_ctl");
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        format!("{} -w -l {}", words.join(" "), self.folder.join("log").display())
    }

    /// A program of the server, on its data.
    fn command(&self, program: &str) -> Command {
        let path = self.programs.join(program);
        let mut command = match self.user {
            None => Command::new(path),
            Some(user) => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", user, "--regid", user, "--clear-groups"]).arg(path);
                command
            }
        };
        // The caller's folder may be closed to the user.
        command.current_dir(&self.folder).arg("-D").arg(self.folder.join("data"));
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let stopped = succeed(self.command("pg_ctl").args(["stop", "-s", "-m", "immediate"]));
        let removed = fs::remove_dir_all(&self.folder);
        if stopped.is_err() || removed.is_err() {
            println!("the test server in {} may still be there", self.folder.display());
        }
    }
}

/// The folder of the server's programs, of the newest version that is installed.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = versions.map(|version| version.path().join("bin"));
    let found = folders.filter(|folder| folder.join("initdb").exists());
    let number = |folder: &PathBuf| -> Option<u32> {
        folder.parent().and_then(Path::file_name)?.to_str()?.parse().ok()
    };
    found.max_by_key(number)
}

fn install() -> Result<PathBuf> {
    if !is_root()? {
        bail!("PostgreSQL is missing: install it, on Debian with `apt-get install postgresql`");
    }
    println!("installing PostgreSQL");
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        succeed(command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["update", "-qq"])?;
    apt(&["install", "-y", "-qq", "--no-install-recommends", "postgresql"])?;
    programs().context("PostgreSQL was installed, but its programs are not where they should be")
}

fn is_root() -> Result<bool> {
    let id = Command::new("id").arg("-u").output().context("cannot run `id`")?;
    Ok(id.stdout.trim_ascii() == b"0")
}
