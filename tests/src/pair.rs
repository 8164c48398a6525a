//! A leader and a helper as two processes on loopback, each with its own folder.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sotto_testing::ports::free_port;
use sotto_wire::{HpkeConfig, Role};
use tempfile::TempDir;
use toml::{Table, Value};

use crate::http::{Connection, Response, head};
use crate::process::Process;
use crate::task::TaskFiles;

/// Longer than any start takes, even on a busy machine.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// Both aggregators. Dropping it kills them and removes their folders.
#[derive(Debug)]
pub struct Pair {
    /// Takes uploads and drives the aggregation.
    pub leader: Aggregator,
    /// Answers the leader.
    pub helper: Aggregator,
    folder: PathBuf,
    // Removed when dropped; must be the last field, after the processes.
    _temporary: Option<TempDir>,
}

/// The ports on which two aggregators listen.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// The leader's.
    pub leader: u16,
    /// The leader's, for operators.
    pub leader_admin: u16,
    /// The helper's.
    pub helper: u16,
    /// The helper's, for operators.
    pub helper_admin: u16,
    /// The port in the helper's URL, where something in between may listen.
    pub helper_public: u16,
}

impl Ports {
    /// Ports that are free now.
    pub fn free() -> Result<Self> {
        let helper = free_port()?;
        Ok(Self {
            leader: free_port()?,
            leader_admin: free_port()?,
            helper,
            helper_admin: free_port()?,
            helper_public: helper,
        })
    }
}

impl Pair {
    /// In a temporary folder and at free ports. Nothing runs yet.
    pub fn new() -> Result<Self> {
        let temporary = TempDir::with_prefix("sotto-test-")?;
        let folder = temporary.path().to_path_buf();
        Self::make(folder, Ports::free()?, Some(temporary))
    }

    /// In this folder and at these ports.
    pub fn at(folder: &Path, ports: Ports) -> Result<Self> {
        Self::make(folder.to_path_buf(), ports, None)
    }

    fn make(folder: PathBuf, ports: Ports, temporary: Option<TempDir>) -> Result<Self> {
        let leader = Aggregator::new(&folder, Role::Leader, ports.leader, ports.leader_admin);
        let mut helper = Aggregator::new(&folder, Role::Helper, ports.helper, ports.helper_admin);
        helper.url = format!("http://127.0.0.1:{}/", ports.helper_public);
        fs::create_dir_all(&folder)?;
        Ok(Self { leader, helper, folder, _temporary: temporary })
    }

    /// Makes a task and gives both aggregators their parts.
    pub fn add_task(&mut self, name: &str, options: &[&str]) -> Result<TaskFiles> {
        let folder = self.folder.join("tasks").join(name);
        let files = TaskFiles::make(&folder, &self.leader.url, &self.helper.url, options)?;
        self.serve_task(&files);
        Ok(files)
    }

    /// Makes a task with another helper, and gives the leader its part.
    pub fn add_task_of(
        &mut self,
        name: &str,
        helper_url: &str,
        options: &[&str],
    ) -> Result<TaskFiles> {
        let folder = self.folder.join("tasks").join(name);
        let files = TaskFiles::make(&folder, &self.leader.url, helper_url, options)?;
        self.leader.tasks.push(files.path("leader"));
        Ok(files)
    }

    /// Gives both aggregators their parts of a task that was made before.
    pub fn serve_task(&mut self, files: &TaskFiles) {
        self.leader.tasks.push(files.path("leader"));
        self.helper.tasks.push(files.path("helper"));
    }

    /// Starts both and waits until they serve.
    pub fn start(&mut self) -> Result<()> {
        self.helper.spawn()?;
        self.leader.spawn()?;
        self.helper.wait_until_ready()?;
        self.leader.wait_until_ready()
    }

    /// The folder that both live in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The aggregator of a role.
    pub fn aggregator(&mut self, role: Role) -> &mut Aggregator {
        if role == Role::Leader { &mut self.leader } else { &mut self.helper }
    }
}

/// One aggregator: its configuration, and its process while it runs.
#[derive(Debug)]
pub struct Aggregator {
    /// The base URL that tasks name.
    pub url: String,
    /// The level of its log output (`SOTTO_LOG`).
    pub log_level: &'static str,
    settings: Table,
    role: &'static str,
    /// Of its files.
    name: String,
    folder: PathBuf,
    listen: SocketAddr,
    admin: SocketAddr,
    tasks: Vec<PathBuf>,
    process: Option<Process>,
}

impl Aggregator {
    fn new(folder: &Path, role: Role, port: u16, admin_port: u16) -> Self {
        Self::named(folder, role, String::new(), port, admin_port)
    }

    /// One of several, with a suffix to the names of its files.
    pub(crate) fn named(
        folder: &Path,
        role: Role,
        suffix: String,
        port: u16,
        admin_port: u16,
    ) -> Self {
        let role = if role == Role::Leader { "leader" } else { "helper" };
        Self {
            url: format!("http://127.0.0.1:{port}/"),
            log_level: "info",
            settings: Table::new(),
            role,
            name: format!("{role}{suffix}"),
            folder: folder.to_path_buf(),
            listen: (Ipv4Addr::LOCALHOST, port).into(),
            admin: (Ipv4Addr::LOCALHOST, admin_port).into(),
            tasks: Vec::new(),
            process: None,
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listen
    }

    /// The folder of its store.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.join(format!("{}-data", self.name))
    }

    /// Adds settings to its configuration file, for the next start.
    pub fn configure(&mut self, settings: &str) -> Result<()> {
        self.settings.extend(settings.parse::<Table>()?);
        Ok(())
    }

    /// Lists an HPKE key file before the existing ones, for the next start.
    pub fn hpke_keys_first(&mut self, file: &str) -> Result<()> {
        let keys = self.settings.entry("hpke_keys").or_insert(Value::Array(Vec::new()));
        keys.as_array_mut().context("hpke_keys")?.insert(0, file.into());
        Ok(())
    }

    /// Adds a task file, for the next start.
    pub(crate) fn serve_task(&mut self, file: PathBuf) {
        self.tasks.push(file);
    }

    /// Starts it and waits until it serves.
    pub fn start(&mut self) -> Result<()> {
        self.spawn()?;
        self.wait_until_ready()
    }

    /// Starts it.
    pub fn spawn(&mut self) -> Result<()> {
        let config = self.folder.join(format!("{}.toml", self.name));
        fs::write(&config, toml::to_string(&self.configuration())?)?;
        let _ = fs::remove_file(self.ready_file());
        let (config, ready) = (config.into_os_string(), self.ready_file().into_os_string());
        let mut arguments = vec!["serve".into(), self.role.into(), "--config".into(), config];
        arguments.extend(["--ready-file".into(), ready]);
        self.process = Some(Process::start(arguments, &self.log(), self.log_level)?);
        Ok(())
    }

    /// Waits until it serves.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_PATIENCE;
        while !self.ready_file().exists() {
            if !self.process_mut()?.is_running()? {
                bail!("the {} did not start: {}", self.name, fs::read_to_string(self.log())?);
            }
            if Instant::now() > deadline {
                bail!("the {} did not start in time", self.name);
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// `kill -9`.
    pub fn kill(&mut self) -> Result<()> {
        self.process_mut()?.kill()?;
        self.process = None;
        Ok(())
    }

    /// Sends SIGTERM and waits until it has drained. Returns whether it exited successfully.
    pub fn stop(&mut self) -> Result<bool> {
        let ended_well = self.process_mut()?.terminate(START_PATIENCE)?;
        self.process = None;
        Ok(ended_well)
    }

    /// Its process.
    pub fn process(&self) -> Result<&Process> {
        self.process.as_ref().with_context(|| format!("the {} does not run", self.name))
    }

    fn process_mut(&mut self) -> Result<&mut Process> {
        self.process.as_mut().with_context(|| format!("the {} does not run", self.name))
    }

    /// The HPKE configuration that it serves.
    pub fn hpke_config(&self) -> Result<HpkeConfig> {
        let response = get(self.listen, "/hpke_config")?;
        Ok(sotto_protocol::client::consume_hpke_config_list(&response.body)?)
    }

    /// A metric from its `/metrics`; 0 if it is missing. The name includes the labels, if any.
    pub fn metric(&self, name: &str) -> Result<f64> {
        metric(self.admin, name)
    }

    /// The admin address.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin
    }

    /// What it printed so far.
    pub fn log_text(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn configuration(&self) -> Table {
        let mut table = Table::new();
        table.insert("listen".into(), self.listen.to_string().into());
        table.insert("admin_listen".into(), self.admin.to_string().into());
        table.insert("data_dir".into(), shown(&self.data_dir()));
        table.insert("insecure_plain_tasks".into(), true.into());
        let tasks = self.tasks.iter().map(|path| shown(path)).collect();
        table.insert("tasks".into(), Value::Array(tasks));
        table.extend(self.settings.clone());
        table
    }

    fn ready_file(&self) -> PathBuf {
        self.folder.join(format!("{}.ready", self.name))
    }

    fn log(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.name))
    }
}

/// A path as a TOML value.
pub fn shown(path: &Path) -> Value {
    path.to_string_lossy().into_owned().into()
}

/// GET over plain HTTP.
pub fn get(address: SocketAddr, path: &str) -> Result<Response> {
    Ok(Connection::open(address)?.exchange(&head("GET", path, &[], 0), &[])?)
}

/// A metric from an admin listener's `/metrics`; 0 if it is missing.
pub fn metric(admin: SocketAddr, name: &str) -> Result<f64> {
    let response = get(admin, "/metrics")?;
    let text = String::from_utf8(response.body)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(value.map_or(Ok(0.0), str::parse)?)
}
