//! A log, a witness, a relay, a gateway, an attester or an issuer as a process of the binary.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sotto_testing::ports::free_port;

use crate::pair;
use crate::process::Process;
use crate::world::PATIENCE;

/// One of them: its configuration, and its process while it runs.
#[derive(Debug)]
pub struct Service {
    /// The level of its log output (`SOTTO_LOG`).
    pub log_level: &'static str,
    name: &'static str,
    role: &'static str,
    folder: PathBuf,
    listen: SocketAddr,
    admin: SocketAddr,
    process: Option<Process>,
}

impl Service {
    /// A service with this name and role. Its files are in `folder`.
    pub fn new(folder: &Path, name: &'static str, role: &'static str) -> Result<Self> {
        let listen = (Ipv4Addr::LOCALHOST, free_port()?).into();
        let admin = (Ipv4Addr::LOCALHOST, free_port()?).into();
        let folder = folder.to_path_buf();
        Ok(Self { log_level: "info", name, role, folder, listen, admin, process: None })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listen
    }

    /// Its process.
    pub fn process(&self) -> Result<&Process> {
        self.process.as_ref().with_context(|| format!("{} does not run", self.name))
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}/", self.listen)
    }

    /// A metric of an attester or an issuer; 0 if it is missing.
    pub fn metric(&self, name: &str) -> Result<f64> {
        pair::metric(self.admin, name)
    }

    /// Starts it and waits until it serves.
    pub fn start(&mut self) -> Result<()> {
        let place = |ending: &str| self.folder.join(format!("{}.{ending}", self.name));
        let (config, ready, log) = (place("toml"), place("ready"), place("log"));
        let _ = fs::remove_file(&ready);
        let mut arguments = vec!["serve".into(), self.role.into()];
        arguments.extend(["--config".into(), config.into_os_string()]);
        arguments.extend(["--ready-file".into(), ready.clone().into_os_string()]);
        let mut process = Process::start(arguments, &log, self.log_level)?;
        let deadline = Instant::now() + PATIENCE;
        while !ready.exists() {
            if !process.is_running()? || Instant::now() > deadline {
                bail!("{} did not start: {}", self.name, fs::read_to_string(&log)?);
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.process = Some(process);
        Ok(())
    }

    /// `kill -9`.
    pub fn kill(&mut self) -> Result<()> {
        self.process.take().with_context(|| format!("{} does not run", self.name))?.kill()
    }

    /// Writes its configuration, for the next start.
    pub fn write_config(&self, settings: &str) -> Result<()> {
        let (name, listen) = (self.name, self.listen);
        // A relay has no data.
        let data_dir = match self.role {
            "relay" => String::new(),
            _ => format!("data_dir = \"{name}-data\"\n"),
        };
        let admin = match self.role {
            "attester" | "issuer" => format!("admin_listen = \"{}\"\n", self.admin),
            _ => String::new(),
        };
        let head = format!("listen = \"{listen}\"\n{admin}{data_dir}");
        Ok(fs::write(self.folder.join(format!("{name}.toml")), head + settings)?)
    }
}
