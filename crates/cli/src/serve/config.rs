//! The configuration file of a server.
//!
//! Every setting has a default; a key that is not known is an error. Relative paths are relative to
//! the file. `SOTTO_LISTEN`, `SOTTO_ADMIN_LISTEN` and `SOTTO_DATA_DIR` win over the file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use sotto_crypto::Secret;
use sotto_protocol::taskprov::TaskprovPolicy;
use sotto_server::{
    AggregationConfig, AuthToken, GatewayConfig, RecipesConfig, ServerConfig, TaskprovConfig,
    TlsConfig,
};
use sotto_wire::{Role, TaskId, Url};

use super::gateway::GatewayTable;
use super::key_files::KeyFiles;
use super::recipes::RecipesTable;
use crate::output::WithHint;
use crate::task_file::{hpke_config, optional_secret, secret, secret_array};
use crate::toml_text;

/// A configuration file that was read.
#[derive(Debug)]
pub(crate) struct Settings {
    role: Role,
    folder: PathBuf,
    pub(super) file: ConfigFile,
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ConfigFile {
    pub(super) listen: Option<SocketAddr>,
    pub(super) admin_listen: Option<SocketAddr>,
    pub(super) public_url: Option<String>,
    pub(super) data_dir: Option<PathBuf>,
    pub(super) hpke_keys: Vec<PathBuf>,
    pub(super) tasks: Vec<PathBuf>,
    pub(super) forget_tasks: Vec<String>,
    pub(super) insecure_plain_tasks: bool,
    pub(super) tls: TlsTable,
    pub(super) limits: LimitsTable,
    pub(super) jobs: JobsTable,
    pub(super) taskprov: Option<TaskprovTable>,
    pub(super) recipes: Option<RecipesTable>,
    pub(super) gateway: Option<GatewayTable>,
}

/// `[tls]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TlsTable {
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) ca: Option<PathBuf>,
}

/// `[limits]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct LimitsTable {
    pub(super) cpu_threads: Option<usize>,
    pub(super) cpu_queue: Option<usize>,
    pub(super) max_connections: Option<usize>,
    pub(super) header_timeout_s: Option<u64>,
    pub(super) write_timeout_s: Option<u64>,
    pub(super) body_timeout_s: Option<u64>,
    pub(super) max_body_memory_bytes: Option<usize>,
    pub(super) max_upload_bytes: Option<usize>,
    pub(super) max_aggregation_job_bytes: Option<usize>,
    pub(super) max_stored_report_bytes: Option<u64>,
    pub(super) drain_deadline_s: Option<u64>,
    pub(super) retention_grace_s: Option<u64>,
    pub(super) hpke_config_max_age_s: Option<u64>,
}

/// `[jobs]`, the leader's.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct JobsTable {
    pub(super) max_reports: Option<usize>,
    pub(super) max_bytes: Option<usize>,
    pub(super) delay_ms: Option<u64>,
    pub(super) workers: Option<usize>,
    pub(super) max_open: Option<usize>,
    pub(super) lease_s: Option<u64>,
    pub(super) helper_timeout_s: Option<u64>,
    pub(super) min_backoff_ms: Option<u64>,
    pub(super) max_backoff_ms: Option<u64>,
}

/// `[taskprov]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskprovTable {
    leader: String,
    helper: String,
    #[serde(deserialize_with = "secret")]
    verify_key_init: Secret<String>,
    #[serde(deserialize_with = "secret")]
    leader_authentication_token: Secret<String>,
    #[serde(default, deserialize_with = "optional_secret")]
    collector_authentication_token: Option<Secret<String>>,
    collector_hpke_config: String,
    min_batch_size: u64,
    #[serde(default = "default_max_lifetime_s")]
    max_lifetime_s: u64,
    #[serde(default = "default_max_tasks")]
    max_tasks: usize,
}

pub(super) fn default_max_lifetime_s() -> u64 {
    366 * 86_400
}

pub(super) fn default_max_tasks() -> usize {
    1_000
}

impl Settings {
    /// Reads the file and the environment.
    pub(super) fn read(path: &Path, role: Role) -> Result<Self> {
        let mut file: ConfigFile = toml_text::read(path)
            .hint("`sotto serve leader --print-config` prints every setting with its default")?;
        file.override_from(|name| std::env::var(name).ok())?;
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { role, folder, file })
    }

    /// Whether tables with secrets are in the file, which only its owner should then be able to read.
    pub(super) fn is_secret(&self) -> bool {
        self.file.taskprov.is_some() || self.file.recipes.is_some()
    }

    /// Where the store lies.
    pub(super) fn data_dir(&self) -> PathBuf {
        let default = default_data_dir(self.role);
        self.path(self.file.data_dir.as_deref().unwrap_or(Path::new(default)))
    }

    /// A path of the file, relative to the file.
    pub(super) fn path(&self, path: &Path) -> PathBuf {
        self.folder.join(path)
    }

    /// Everything but keys and tasks.
    pub(super) fn server(&self) -> Result<ServerConfig> {
        let file = &self.file;
        let mut server = super::default_server();
        server.listen = file.listen.unwrap_or(default_listen(self.role));
        server.admin_listen = file.admin_listen;
        server.base_path =
            file.public_url.as_deref().map(base_path).transpose()?.unwrap_or_default();
        server.tls = file.tls.config(&self.folder)?;
        server.insecure_plain_tasks = file.insecure_plain_tasks;
        let limits = &file.limits;
        set(&mut server.cpu_threads, limits.cpu_threads);
        server.cpu_queue = limits.cpu_queue.unwrap_or(4 * server.cpu_threads);
        set(&mut server.connections.max_connections, limits.max_connections);
        set_seconds(&mut server.connections.header_timeout, limits.header_timeout_s);
        set_seconds(&mut server.connections.write_timeout, limits.write_timeout_s);
        set_seconds(&mut server.bodies.timeout, limits.body_timeout_s);
        set(&mut server.bodies.max_memory, limits.max_body_memory_bytes);
        set(&mut server.bodies.max_upload, limits.max_upload_bytes);
        set(&mut server.bodies.max_aggregation_job, limits.max_aggregation_job_bytes);
        set_seconds(&mut server.drain_deadline, limits.drain_deadline_s);
        set_seconds(&mut server.retention_grace, limits.retention_grace_s);
        set_seconds(&mut server.hpke_config_max_age, limits.hpke_config_max_age_s);
        server.taskprov = self.taskprov()?;
        server.recipes = self.recipes()?;
        server.forget_tasks = self.forget_tasks()?;
        Ok(server)
    }

    /// How the leader aggregates.
    pub(super) fn aggregation(&self) -> AggregationConfig {
        let jobs = &self.file.jobs;
        let mut aggregation = AggregationConfig::default();
        set(&mut aggregation.max_job_reports, jobs.max_reports);
        set(&mut aggregation.max_job_bytes, jobs.max_bytes);
        set_millis(&mut aggregation.job_delay, jobs.delay_ms);
        aggregation.workers = jobs.workers;
        set(&mut aggregation.max_open_jobs, jobs.max_open);
        set_seconds(&mut aggregation.lease, jobs.lease_s);
        set_seconds(&mut aggregation.helper_timeout, jobs.helper_timeout_s);
        set_millis(&mut aggregation.min_backoff, jobs.min_backoff_ms);
        set_millis(&mut aggregation.max_backoff, jobs.max_backoff_ms);
        set(&mut aggregation.max_segment_bytes, self.file.limits.max_stored_report_bytes);
        aggregation
    }

    /// The authorities that may vouch for the peer.
    pub(super) fn peer_certificates(&self) -> Result<Option<Vec<u8>>> {
        self.file.tls.authorities(&self.folder)
    }

    /// The tasks whose data is to be deleted.
    fn forget_tasks(&self) -> Result<Vec<TaskId>> {
        let id = |text: &String| {
            text.parse()
                .with_context(|| format!("forget_tasks: {text:?} is no task id"))
                .hint("`sotto task show FILE` shows the id of a task")
        };
        self.file.forget_tasks.iter().map(id).collect()
    }

    fn taskprov(&self) -> Result<Option<TaskprovConfig>> {
        let Some(table) = &self.file.taskprov else { return Ok(None) };
        table.config(self.role).context("[taskprov]").map(Some)
    }

    /// The gateway, which is the leader's, and its key files.
    pub(super) fn gateway(&self) -> Result<Option<(GatewayConfig, KeyFiles)>> {
        let Some(table) = &self.file.gateway else { return Ok(None) };
        ensure!(
            self.role == Role::Leader,
            "[gateway]: devices talk to the leader, not to the helper"
        );
        let public_url = self.file.public_url.as_deref();
        table.config(&self.folder, &self.data_dir(), public_url).map(Some)
    }

    fn recipes(&self) -> Result<Option<RecipesConfig>> {
        let Some(table) = &self.file.recipes else { return Ok(None) };
        let public_url = self.file.public_url.as_deref();
        let mut config =
            table.config(self.role, public_url, |path| self.path(path)).context("[recipes]")?;
        config.log_certificates = self.peer_certificates()?;
        Ok(Some(config))
    }
}

impl TlsTable {
    /// The certificate and its key. Paths are relative to `folder`.
    pub(super) fn config(&self, folder: &Path) -> Result<Option<TlsConfig>> {
        match (&self.cert, &self.key) {
            (None, None) => Ok(None),
            (Some(cert), Some(key)) => Ok(Some(TlsConfig {
                certificate_chain: bytes(&folder.join(cert))?,
                private_key: Secret::new(bytes(&folder.join(key))?),
            })),
            _ => Err(anyhow::anyhow!("[tls] needs both `cert` and `key`")),
        }
    }

    /// The authorities that may vouch for peers.
    pub(super) fn authorities(&self, folder: &Path) -> Result<Option<Vec<u8>>> {
        self.ca.as_deref().map(|path| bytes(&folder.join(path))).transpose()
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

impl ConfigFile {
    /// Applies the environment, given as a function so that tests need not change the process's.
    fn override_from(&mut self, variable: impl Fn(&str) -> Option<String>) -> Result<()> {
        override_from(variable, &mut self.listen, &mut self.admin_listen, &mut self.data_dir)
    }
}

/// Applies the environment to the settings that all roles have.
pub(super) fn override_from(
    variable: impl Fn(&str) -> Option<String>,
    listen: &mut Option<SocketAddr>,
    admin_listen: &mut Option<SocketAddr>,
    data_dir: &mut Option<PathBuf>,
) -> Result<()> {
    let address = |name: &str| -> Result<Option<SocketAddr>> {
        let Some(text) = variable(name) else { return Ok(None) };
        let parsed = text.parse().with_context(|| format!("{name}={text:?} is no address"));
        parsed.hint("write it like 127.0.0.1:8080").map(Some)
    };
    *listen = address("SOTTO_LISTEN")?.or(*listen);
    *admin_listen = address("SOTTO_ADMIN_LISTEN")?.or(*admin_listen);
    if let Some(folder) = variable("SOTTO_DATA_DIR") {
        // Relative to where the server is started, unlike paths in the file.
        *data_dir = Some(std::path::absolute(folder)?);
    }
    Ok(())
}

impl TaskprovTable {
    fn config(&self, role: Role) -> Result<TaskprovConfig> {
        let token = |token: &Secret<String>| AuthToken::bearer(token.expose().as_str());
        ensure!(
            self.collector_authentication_token.is_some() == (role == Role::Leader),
            "collector_authentication_token is the leader's alone"
        );
        let policy = TaskprovPolicy {
            role,
            verify_key_init: secret_array(&self.verify_key_init).context("verify_key_init")?,
            collector_hpke_config: hpke_config(&self.collector_hpke_config)
                .context("collector_hpke_config")?,
            leader_endpoint: Url::new(&*self.leader).context("leader")?,
            helper_endpoint: Url::new(&*self.helper).context("helper")?,
            min_batch_size: self.min_batch_size,
            max_lifetime_s: self.max_lifetime_s,
        };
        Ok(TaskprovConfig {
            policy,
            leader_token: token(&self.leader_authentication_token)?.into(),
            collector_token: match &self.collector_authentication_token {
                Some(collector) => Some(token(collector)?.into()),
                None => None,
            },
            max_tasks: self.max_tasks,
        })
    }
}

/// Where a server listens if nothing is said: two roles on one machine do not meet.
pub(super) fn default_listen(role: Role) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], if role == Role::Leader { 8080 } else { 8081 }))
}

pub(super) fn default_data_dir(role: Role) -> &'static str {
    if role == Role::Leader { "leader-data" } else { "helper-data" }
}

/// The path of a base URL.
pub(super) fn base_path(url: &str) -> Result<String> {
    let (_, rest) =
        url.split_once("://").with_context(|| format!("public_url {url:?} is no URL"))?;
    Ok(rest.split_once('/').map_or(String::new(), |(_, path)| format!("/{path}")))
}

pub(super) fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

pub(super) fn set_seconds(place: &mut Duration, value: Option<u64>) {
    set(place, value.map(Duration::from_secs));
}

pub(super) fn set_millis(place: &mut Duration, value: Option<u64>) {
    set(place, value.map(Duration::from_millis));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str, role: Role) -> Result<Settings> {
        Ok(Settings { role, folder: PathBuf::from("/etc/sotto"), file: toml_text::parse(text)? })
    }

    #[test]
    fn an_empty_file_is_a_configuration() {
        let settings = settings("", Role::Leader).unwrap();
        let server = settings.server().unwrap();
        assert_eq!(server.listen, "127.0.0.1:8080".parse().unwrap());
        assert!(!server.insecure_plain_tasks && server.tls.is_none());
        assert_eq!(settings.data_dir(), Path::new("/etc/sotto/leader-data"));
    }

    #[test]
    fn settings_reach_the_server() {
        let text = "listen = \"[::1]:7000\"\npublic_url = \"https://x.example/a/b/\"\n\
            [limits]\ncpu_threads = 3\nbody_timeout_s = 7\nmax_stored_report_bytes = 9\n\
            [jobs]\nmax_reports = 11\ndelay_ms = 5\nworkers = 2\n";
        let settings = settings(text, Role::Leader).unwrap();
        let (server, aggregation) = (settings.server().unwrap(), settings.aggregation());
        assert_eq!(server.listen, "[::1]:7000".parse().unwrap());
        assert_eq!(server.base_path, "/a/b/");
        assert_eq!((server.cpu_threads, server.cpu_queue), (3, 12));
        assert_eq!(server.bodies.timeout, Duration::from_secs(7));
        assert_eq!(aggregation.max_job_reports, 11);
        assert_eq!(aggregation.job_delay, Duration::from_millis(5));
        assert_eq!(aggregation.workers, Some(2));
        assert_eq!(aggregation.max_segment_bytes, 9);
    }

    #[test]
    fn tasks_to_forget_are_ids() {
        let id = TaskId::new([7; 32]);
        let listed = settings(&format!("forget_tasks = [\"{id}\"]"), Role::Leader).unwrap();
        assert_eq!(listed.server().unwrap().forget_tasks, [id]);
        let wrong = settings("forget_tasks = [\"commute\"]", Role::Leader).unwrap();
        let error = format!("{:#}", wrong.server().unwrap_err());
        assert!(error.contains("\"commute\" is no task id"), "{error}");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, message) in [
            ("lisen = \"127.0.0.1:1\"", "unknown field `lisen`"),
            ("[limits]\ncpu_thread = 1", "unknown field `cpu_thread`"),
            ("listen = \"nowhere\"", "line 1"),
        ] {
            let error = format!("{:#}", settings(text, Role::Leader).unwrap_err());
            assert!(error.contains(message), "{error}");
        }
        let error = settings("[tls]\ncert = \"a\"", Role::Leader).unwrap().server().unwrap_err();
        assert!(error.to_string().contains("both `cert` and `key`"), "{error}");
    }

    #[test]
    fn the_environment_wins() {
        let mut file: ConfigFile = toml_text::parse("listen = \"127.0.0.1:1\"").unwrap();
        file.override_from(|name| match name {
            "SOTTO_LISTEN" => Some("127.0.0.1:2".into()),
            "SOTTO_DATA_DIR" => Some("/var/lib/x".into()),
            _ => None,
        })
        .unwrap();
        assert_eq!(file.listen, Some("127.0.0.1:2".parse().unwrap()));
        assert_eq!(file.data_dir, Some("/var/lib/x".into()));
        assert!(file.override_from(|_| Some("x".into())).is_err());
    }
}
