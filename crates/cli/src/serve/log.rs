//! `sotto serve log`: its configuration file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use sotto_crypto::note::NoteKey;
use sotto_protocol::log::admit::Signers;
use sotto_server::{Log, LogConfig, Server};
use sotto_store::LogDir;
use sotto_wire::{PublicKey, TlogPolicy};

use super::config::{TlsTable, override_from, set, set_millis, set_seconds};
use super::gateway::{self, GatewayTable};
use super::http_tables::{HttpLimits, HttpTables, folder_of, limits_template, verifier_keys};
use crate::output::WithHint;
use crate::{private_file, signer_file, toml_text};

const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8082);
const DEFAULT_DATA_DIR: &str = "log-data";
const DEFAULT_KEY: &str = "log.key";

/// A configuration file that was read.
#[derive(Debug)]
pub(super) struct LogSettings {
    folder: PathBuf,
    file: LogFile,
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LogFile {
    listen: Option<SocketAddr>,
    admin_listen: Option<SocketAddr>,
    public_url: Option<String>,
    data_dir: Option<PathBuf>,
    key: Option<PathBuf>,
    policy: Option<String>,
    submitters: Vec<String>,
    insecure_open_submission: bool,
    batch_delay_ms: Option<u64>,
    max_batch: Option<usize>,
    refresh_s: Option<u64>,
    witness_timeout_s: Option<u64>,
    gateway: Option<GatewayTable>,
    tls: TlsTable,
    limits: HttpLimits,
}

impl LogSettings {
    /// Reads the file and the environment.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let mut file: LogFile = toml_text::read(path)
            .hint("`sotto serve log --print-config` prints every setting with its default")?;
        let LogFile { listen, admin_listen, data_dir, .. } = &mut file;
        override_from(|name| std::env::var(name).ok(), listen, admin_listen, data_dir)?;
        Ok(Self { folder: folder_of(path), file })
    }

    /// Opens the folder and binds.
    pub(super) async fn bind(&self, insecure_http: bool) -> Result<Server> {
        let key = self.file.key.as_deref().unwrap_or(Path::new(DEFAULT_KEY));
        let key = signer_file::read(&self.folder.join(key))?;
        let mut config = self.config(&key, insecure_http)?;
        if !config.policy.requires_witnesses() {
            tracing::warn!("the policy asks for no witness: nobody notices if this log forks");
        }
        let data_dir = self.file.data_dir.as_deref().unwrap_or(Path::new(DEFAULT_DATA_DIR));
        let data_dir = self.folder.join(data_dir);
        private_file::make_folder(&data_dir)?;
        if let Some(table) = &self.file.gateway {
            let public_url = self.file.public_url.as_deref();
            let (gateway, files) = table.config(&self.folder, &data_dir, public_url)?;
            tokio::spawn(files.follow(gateway.keys.clone()));
            config.gateway = Some(gateway);
        }
        let dir = LogDir::open(&data_dir, key)
            .with_context(|| format!("cannot open the log in {}", data_dir.display()))
            .hint("is another log running on this folder, or was it made with another key?")?;
        Log::bind(config, dir).await.or_else(super::explain)
    }

    fn config(&self, key: &NoteKey, insecure_http: bool) -> Result<LogConfig> {
        let file = &self.file;
        let tables = HttpTables {
            listen: file.listen.unwrap_or(DEFAULT_LISTEN),
            admin_listen: file.admin_listen,
            public_url: file.public_url.as_deref(),
            tls: &file.tls,
            limits: &file.limits,
        };
        let mut config = LogConfig::new(tables.listen, self.policy(key)?, self.submitters()?);
        config.http = tables.config(&self.folder, insecure_http)?;
        config.witness_certificates = file.tls.authorities(&self.folder)?;
        set_millis(&mut config.batch_delay, file.batch_delay_ms);
        set(&mut config.max_batch, file.max_batch);
        set_seconds(&mut config.refresh, file.refresh_s);
        set_seconds(&mut config.witness_timeout, file.witness_timeout_s);
        Ok(config)
    }

    /// The policy, which must be about the log with this key alone.
    fn policy(&self, key: &NoteKey) -> Result<TlogPolicy> {
        let hint = "`sotto serve log --print-config` shows how a policy looks";
        let Some(text) = &self.file.policy else {
            return Err(anyhow!("no policy is configured")).hint(hint);
        };
        let policy = TlogPolicy::parse(text).map_err(|error| anyhow!("policy: {error}"));
        let policy = policy.hint(hint)?;
        match policy.logs() {
            [log] if log.key == key.verifier() => Ok(policy),
            _ => Err(anyhow!("the policy must have one log line, with this log's own key"))
                .hint(format!("write: log {}", key.verifier())),
        }
    }

    fn submitters(&self) -> Result<Signers> {
        let listed = &self.file.submitters;
        match (listed.is_empty(), self.file.insecure_open_submission) {
            (false, false) => {
                let keys = verifier_keys("submitters", listed)?;
                let keys = keys.iter().map(|key| PublicKey::new(*key.public_key()));
                Ok(Signers::Listed(keys.collect()))
            }
            (true, true) => Ok(Signers::InsecureOpen),
            (true, false) => Err(anyhow!("nobody may submit")).hint(
                "list the public keys of authors and operators under `submitters`, or set \
                 `insecure_open_submission = true`",
            ),
            (false, true) => {
                Err(anyhow!("`submitters` and `insecure_open_submission` contradict each other"))
            }
        }
    }
}

/// The configuration that `--print-config` prints.
pub(super) fn template() -> String {
    let policy = TlogPolicy::parse("quorum none\n");
    let defaults = policy
        .map(|policy| LogConfig::new(DEFAULT_LISTEN, policy, Signers::InsecureOpen))
        .map_or((0, 0, 0, 0), |config| {
            (
                config.batch_delay.as_millis(),
                config.max_batch,
                config.refresh.as_secs(),
                config.witness_timeout.as_secs(),
            )
        });
    let (batch_delay, max_batch, refresh, witness_timeout) = defaults;
    format!(
        r#"# Configuration of a Sotto log. A line that begins with `# key =` shows a default.
# Paths are relative to this file.

# The witnesses, where they are, and how many of them must cosign before anything is published (C2SP
# tlog-policy). The log line is this log's own key. Required.
#   policy = """
#   log log.example+1a2b3c4d+AT...
#   witness alpha alpha.example+5e6f7a8b+BA... https://alpha.example/
#   witness beta beta.example+9c0d1e2f+BB... https://beta.example/
#   witness gamma gamma.example+3a4b5c6d+BC... https://gamma.example/
#   group most 2 alpha beta gamma
#   quorum most
#   """

# Whose entries it takes: public keys of authors and operators, as `sotto keys signer` prints them.
# submitters = []

# Takes everybody's entries. Strangers can then fill the disk.
# insecure_open_submission = false

# The key that signs the log (`sotto keys signer`). Its name is the log's origin.
# key = "{DEFAULT_KEY}"

# Where it is reached. Port 0 lets the system choose (see --ready-file).
# listen = "{DEFAULT_LISTEN}"

# Where /livez, /readyz and /metrics are served, in plain HTTP. Off unless set.
#   admin_listen = "127.0.0.1:9082"

# The URL that devices and submitters know, if it has a path: files then lie under that path.
#   public_url = "https://log.example/sotto/"

# The log. data_dir/public may be served by any web server. NEVER go back to an old copy of it: the log
# would notice by its witnesses and stop for good.
# data_dir = "{DEFAULT_DATA_DIR}"

# How long the first entry of a batch waits for others, and how many there are in one.
# batch_delay_ms = {batch_delay}
# max_batch = {max_batch}

# After how long an unchanged tree is cosigned again. Devices want a checkpoint that is recent.
# refresh_s = {refresh}

# How long a witness may take over its answer.
# witness_timeout_s = {witness_timeout}

# Certificate chain and key (PEM). Without them, only loopback is served, unless --insecure-http.
# `ca` holds authorities that may vouch for witnesses, beside the system's.
[tls]
#   cert = "fullchain.pem"
#   key = "privkey.pem"
#   ca = "ca.pem"

{}{}"#,
        limits_template(),
        gateway::table_template(
            "Lets devices read the log through a relay, so that it does not see who they are."
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sotto_crypto::Secret;

    use super::super::http_tables::uncommented;
    use super::*;

    fn settings(text: &str) -> Result<LogSettings> {
        Ok(LogSettings { folder: "/etc/sotto".into(), file: toml_text::parse(text)? })
    }

    fn key(name: &str) -> NoteKey {
        NoteKey::from_seed(name.parse().unwrap(), Secret::new([7; 32]))
    }

    #[test]
    fn the_template_and_what_it_shows_are_configurations() {
        let file = settings(&template()).unwrap().file;
        assert_eq!((file.listen, file.max_batch), (None, None));
        let file = settings(&uncommented(&template())).unwrap().file;
        assert_eq!(file.listen, Some(DEFAULT_LISTEN));
        assert_eq!(file.refresh_s, Some(600));
        assert_eq!(file.batch_delay_ms, Some(200));
    }

    #[test]
    fn settings_reach_the_log() {
        let key = key("log.example");
        let text = format!(
            "listen = \"127.0.0.1:7\"\npublic_url = \"https://x.example/log/\"\n\
             policy = \"log {}\\nquorum none\\n\"\nsubmitters = [\"{}\"]\nbatch_delay_ms = 5\n\
             [limits]\nmax_connections = 9\n",
            key.verifier(),
            key.verifier()
        );
        let config = settings(&text).unwrap().config(&key, false).unwrap();
        assert_eq!(config.http.listen, "127.0.0.1:7".parse().unwrap());
        assert_eq!(config.http.base_path, "/log/");
        assert_eq!(config.http.connections.max_connections, 9);
        assert_eq!(config.batch_delay, Duration::from_millis(5));
        let Signers::Listed(listed) = config.submitters else { panic!("open") };
        assert!(listed.contains(&PublicKey::new(*key.verifier().public_key())));
    }

    #[test]
    fn mistakes_are_named() {
        let own = key("log.example");
        let policy =
            |key: &NoteKey| format!("policy = \"log {}\\nquorum none\\n\"\n", key.verifier());
        for (text, message) in [
            (String::new(), "no policy"),
            ("policy = \"x\\n\"".to_owned(), "policy: line 1"),
            (policy(&key("other.example")), "this log's own key"),
            (policy(&own), "nobody may submit"),
            (policy(&own) + "submitters = [\"x\"]", "submitters: \"x\" is no public key"),
        ] {
            let error = settings(&text).unwrap().config(&own, false).unwrap_err();
            assert!(format!("{error:#}").contains(message), "{text}: {error:#}");
        }
    }
}
