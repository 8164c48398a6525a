//! `[gateway]` of a leader and of a log, and `sotto serve gateway`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use sotto_protocol::gateway::ReplayWindow;
use sotto_server::{Gateway, GatewayConfig, GatewayServerConfig, GatewayTarget, Server};

use super::config::{TlsTable, override_from, set, set_seconds};
use super::http_tables::{HttpLimits, HttpTables, folder_of, limits_template};
use super::key_files::{self, KeyFiles};
use crate::output::WithHint;
use crate::{private_file, toml_text};

const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8085);
const DEFAULT_DATA_DIR: &str = "gateway-data";

/// The folder of keys in `data_dir`, if none are listed.
const OWN_KEYS: &str = "gateway-keys";

/// `[gateway]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct GatewayTable {
    keys: Vec<PathBuf>,
    window_s: Option<u64>,
    max_remembered: Option<usize>,
    max_memory_bytes: Option<usize>,
}

impl GatewayTable {
    /// The gateway of a server with this folder of configuration and of data, and the files to follow.
    pub(super) fn config(
        &self,
        folder: &Path,
        data_dir: &Path,
        public_url: Option<&str>,
    ) -> Result<(GatewayConfig, KeyFiles)> {
        let (files, keys) = key_files::load(&self.keys, folder, &data_dir.join(OWN_KEYS))?;
        let mut config = GatewayConfig::new(keys);
        set_seconds(&mut config.window, self.window_s);
        set(&mut config.max_remembered, self.max_remembered);
        set(&mut config.max_memory, self.max_memory_bytes);
        config.origin = public_url.map(origin).transpose()?;
        Ok((config, files))
    }
}

/// Scheme and authority of a URL.
fn origin(url: &str) -> Result<String> {
    let (scheme, rest) =
        url.split_once("://").with_context(|| format!("public_url {url:?} is no URL"))?;
    let authority = rest.split('/').next().unwrap_or_default();
    Ok(format!("{scheme}://{authority}"))
}

/// The text of `[gateway]`, for `--print-config`.
pub(super) fn table_template(what: &str) -> String {
    format!(
        r#"
# {what}
# Keys are files of `sotto keys new`, or folders of them: they are read again when they change, so keys rotate while
# the server runs. Without any, a key is made in data_dir/{OWN_KEYS} at the first start. Devices use the keys that the
# operator's newest key set in the log names (`sotto keys publish --gateway-key`).
#   [gateway]
#   keys = ["gateway-key-1.toml"]
#   window_s = {window}                     how old a request may be; requests are remembered so long
#   max_remembered = {remembered}           about 20 bytes each; beyond that, requests are served unremembered
#   max_memory_bytes = {memory}       what requests and answers in flight may hold together
"#,
        window = ReplayWindow::DEFAULT_WINDOW_S,
        remembered = ReplayWindow::DEFAULT_MAX,
        memory = GatewayConfig::DEFAULT_MAX_MEMORY,
    )
}

/// A configuration file of a gateway that was read.
#[derive(Debug)]
pub(super) struct GatewaySettings {
    folder: PathBuf,
    file: GatewayFile,
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct GatewayFile {
    listen: Option<SocketAddr>,
    admin_listen: Option<SocketAddr>,
    public_url: Option<String>,
    data_dir: Option<PathBuf>,
    keys: Vec<PathBuf>,
    window_s: Option<u64>,
    max_remembered: Option<usize>,
    max_memory_bytes: Option<usize>,
    target_timeout_s: Option<u64>,
    targets: Vec<TargetTable>,
    tls: TlsTable,
    limits: HttpLimits,
}

/// `[[targets]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetTable {
    origin: String,
    url: Option<String>,
}

impl GatewaySettings {
    /// Reads the file and the environment.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let mut file: GatewayFile = toml_text::read(path)
            .hint("`sotto serve gateway --print-config` prints every setting with its default")?;
        let GatewayFile { listen, admin_listen, data_dir, .. } = &mut file;
        override_from(|name| std::env::var(name).ok(), listen, admin_listen, data_dir)?;
        Ok(Self { folder: folder_of(path), file })
    }

    /// Reads the keys and binds.
    pub(super) async fn bind(&self, insecure_http: bool) -> Result<Server> {
        if self.file.targets.is_empty() {
            return Err(anyhow!("no target is configured")).hint(
                "list what the gateway hands requests to: [[targets]] origin = \"https://leader.example\"",
            );
        }
        let data_dir = self.file.data_dir.as_deref().unwrap_or(Path::new(DEFAULT_DATA_DIR));
        let data_dir = self.folder.join(data_dir);
        private_file::make_folder(&data_dir)?;
        let table = GatewayTable {
            keys: self.file.keys.clone(),
            window_s: self.file.window_s,
            max_remembered: self.file.max_remembered,
            max_memory_bytes: self.file.max_memory_bytes,
        };
        let (gateway, files) = table.config(&self.folder, &data_dir, None)?;
        tokio::spawn(files.follow(gateway.keys.clone()));
        let config = self.config(gateway, insecure_http)?;
        Gateway::bind(config).await.or_else(super::explain)
    }

    fn config(&self, gateway: GatewayConfig, insecure_http: bool) -> Result<GatewayServerConfig> {
        let file = &self.file;
        let tables = HttpTables {
            listen: file.listen.unwrap_or(DEFAULT_LISTEN),
            admin_listen: file.admin_listen,
            public_url: file.public_url.as_deref(),
            tls: &file.tls,
            limits: &file.limits,
        };
        let target = |table: &TargetTable| GatewayTarget {
            origin: table.origin.trim_end_matches('/').to_owned(),
            url: table.url.as_ref().unwrap_or(&table.origin).trim_end_matches('/').to_owned(),
        };
        let targets = file.targets.iter().map(target).collect();
        let mut config = GatewayServerConfig::new(tables.listen, gateway, targets);
        config.http = tables.over(config.http, &self.folder, insecure_http)?;
        set_seconds(&mut config.timeout, file.target_timeout_s);
        config.certificates = file.tls.authorities(&self.folder)?;
        Ok(config)
    }
}

/// The configuration that `--print-config` prints.
pub(super) fn template() -> String {
    format!(
        r#"# Configuration of a Sotto gateway for servers that have none of their own. Leader and log have one built in
# (`[gateway]` in their configurations): prefer that.
# A line that begins with `# key =` shows a default. Paths are relative to this file.

# Where relays reach it: POST /gateway. Port 0 lets the system choose (see --ready-file).
# listen = "{DEFAULT_LISTEN}"

# Where /livez, /readyz and /metrics are served, in plain HTTP. Off unless set.
#   admin_listen = "127.0.0.1:9085"

# The URL that relays know, if it has a path: the resource then lies under that path.
#   public_url = "https://gateway.example/sotto/"

# Where it keeps its keys, if none are listed.
# data_dir = "{DEFAULT_DATA_DIR}"

# Key files (`sotto keys new`), or folders of them. They are read again when they change.
# keys = []

# How old a request may be, in seconds, and how many are remembered so long, so that none is taken twice. Beyond that,
# requests are turned away.
# window_s = {window}
# max_remembered = {remembered}

# What requests and answers in flight may hold together.
# max_memory_bytes = {memory}

# How long a target may take over its answer.
# target_timeout_s = {timeout}

# Certificate chain and key (PEM). Without them, only loopback is served, unless --insecure-http.
# `ca` holds authorities that may vouch for targets, beside the public ones.
[tls]
#   cert = "fullchain.pem"
#   key = "privkey.pem"
#   ca = "ca.pem"

{limits}
# What it hands requests to: the origin that requests name, and where it is reached if that is another place. Required.
#   [[targets]]
#   origin = "https://leader.example"
#   url = "http://127.0.0.1:8080"
"#,
        window = ReplayWindow::DEFAULT_WINDOW_S,
        remembered = ReplayWindow::DEFAULT_MAX,
        memory = GatewayConfig::DEFAULT_MAX_MEMORY,
        timeout = GatewayServerConfig::DEFAULT_TIMEOUT.as_secs(),
        limits = limits_template()
    )
}

#[cfg(test)]
mod tests {
    use super::super::http_tables::uncommented;
    use super::*;

    fn settings(text: &str) -> Result<GatewaySettings> {
        Ok(GatewaySettings { folder: "/etc/sotto".into(), file: toml_text::parse(text)? })
    }

    fn config(text: &str) -> Result<GatewayServerConfig> {
        let folder = tempfile::tempdir()?;
        let (gateway, _) = GatewayTable::default().config(folder.path(), folder.path(), None)?;
        settings(text)?.config(gateway, false)
    }

    #[test]
    fn the_template_and_what_it_shows_are_configurations() {
        assert_eq!(settings(&template()).unwrap().file.listen, None);
        let file = settings(&uncommented(&template())).unwrap().file;
        assert_eq!(file.listen, Some(DEFAULT_LISTEN));
        assert_eq!(file.window_s, Some(ReplayWindow::DEFAULT_WINDOW_S));
    }

    #[test]
    fn targets_reach_the_gateway() {
        let text = "[[targets]]\norigin = \"https://leader.example/\"\nurl = \"http://127.0.0.1:1/\"\n\
            [[targets]]\norigin = \"https://log.example\"\n";
        let config = config(text).unwrap();
        assert_eq!(config.targets[0].origin, "https://leader.example");
        assert_eq!(config.targets[0].url, "http://127.0.0.1:1");
        assert_eq!(config.targets[1].url, "https://log.example");
    }

    /// Before anything is written.
    #[tokio::test]
    async fn a_gateway_without_targets_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let settings =
            GatewaySettings { folder: folder.path().into(), file: GatewayFile::default() };
        let error = settings.bind(false).await.unwrap_err();
        assert!(format!("{error:#}").contains("no target"), "{error:#}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn the_origin_of_a_url() {
        assert_eq!(origin("https://leader.example/dap/").unwrap(), "https://leader.example");
        assert_eq!(origin("http://127.0.0.1:80").unwrap(), "http://127.0.0.1:80");
        assert!(origin("leader.example").is_err());
    }
}
