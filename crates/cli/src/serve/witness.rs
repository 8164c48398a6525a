//! `sotto serve witness`: its configuration file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use sotto_server::{Server, Witness, WitnessConfig};
use sotto_store::WitnessDir;

use super::config::{TlsTable, override_from};
use super::http_tables::{HttpLimits, HttpTables, folder_of, limits_template, verifier_keys};
use crate::output::WithHint;
use crate::{private_file, signer_file, toml_text};

const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8083);
const DEFAULT_DATA_DIR: &str = "witness-data";
const DEFAULT_KEY: &str = "witness.key";

/// A configuration file that was read.
#[derive(Debug)]
pub(super) struct WitnessSettings {
    folder: PathBuf,
    file: WitnessFile,
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WitnessFile {
    listen: Option<SocketAddr>,
    admin_listen: Option<SocketAddr>,
    public_url: Option<String>,
    data_dir: Option<PathBuf>,
    key: Option<PathBuf>,
    logs: Vec<String>,
    tls: TlsTable,
    limits: HttpLimits,
}

impl WitnessSettings {
    /// Reads the file and the environment.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let mut file: WitnessFile = toml_text::read(path)
            .hint("`sotto serve witness --print-config` prints every setting with its default")?;
        let WitnessFile { listen, admin_listen, data_dir, .. } = &mut file;
        override_from(|name| std::env::var(name).ok(), listen, admin_listen, data_dir)?;
        Ok(Self { folder: folder_of(path), file })
    }

    /// Opens the folder and binds.
    pub(super) async fn bind(&self, insecure_http: bool) -> Result<Server> {
        let config = self.config(insecure_http)?;
        let key = self.file.key.as_deref().unwrap_or(Path::new(DEFAULT_KEY));
        let key = signer_file::read(&self.folder.join(key))?;
        let data_dir = self.file.data_dir.as_deref().unwrap_or(Path::new(DEFAULT_DATA_DIR));
        let data_dir = self.folder.join(data_dir);
        private_file::make_folder(&data_dir)?;
        tracing::info!(key = %key.cosigner(), "logs name this witness by its key");
        let dir = WitnessDir::open(&data_dir, key)
            .with_context(|| format!("cannot open the witness in {}", data_dir.display()))
            .hint("is another witness running on this folder?")?;
        Witness::bind(config, dir).await.or_else(super::explain)
    }

    fn config(&self, insecure_http: bool) -> Result<WitnessConfig> {
        let file = &self.file;
        let tables = HttpTables {
            listen: file.listen.unwrap_or(DEFAULT_LISTEN),
            admin_listen: file.admin_listen,
            public_url: file.public_url.as_deref(),
            tls: &file.tls,
            limits: &file.limits,
        };
        if file.logs.is_empty() {
            return Err(anyhow!("no log is configured"))
                .hint("list the public keys of logs: logs = [\"name+hash+key\"]");
        }
        let http = tables.config(&self.folder, insecure_http)?;
        Ok(WitnessConfig { http, logs: verifier_keys("logs", &file.logs)? })
    }
}

/// The configuration that `--print-config` prints.
pub(super) fn template() -> String {
    format!(
        r#"# Configuration of a Sotto witness. A line that begins with `# key =` shows a default.
# Paths are relative to this file.

# The public keys of the logs that it cosigns, as `sotto keys signer` prints them. Required.
#   logs = ["log.example+1a2b3c4d+AT..."]

# The key that cosigns (`sotto keys signer`). Use it for nothing else.
# key = "{DEFAULT_KEY}"

# Where logs reach it. Port 0 lets the system choose (see --ready-file).
# listen = "{DEFAULT_LISTEN}"

# Where /livez, /readyz and /metrics are served, in plain HTTP. Off unless set.
#   admin_listen = "127.0.0.1:9083"

# The URL that policies name, if it has a path: resources then lie under that path.
#   public_url = "https://witness.example/sotto/"

# The last checkpoint of each log. NEVER restore an old copy: the witness would cosign a second history.
# data_dir = "{DEFAULT_DATA_DIR}"

# Certificate chain and key (PEM). Without them, only loopback is served, unless --insecure-http.
[tls]
#   cert = "fullchain.pem"
#   key = "privkey.pem"

{}"#,
        limits_template()
    )
}

#[cfg(test)]
mod tests {
    use super::super::http_tables::uncommented;
    use super::*;

    fn settings(text: &str) -> Result<WitnessSettings> {
        Ok(WitnessSettings { folder: "/etc/sotto".into(), file: toml_text::parse(text)? })
    }

    #[test]
    fn the_template_and_what_it_shows_are_configurations() {
        let file = settings(&template()).unwrap().file;
        assert_eq!((file.listen, file.key), (None, None));
        let file = settings(&uncommented(&template())).unwrap().file;
        assert_eq!(file.listen, Some(DEFAULT_LISTEN));
        assert_eq!(file.data_dir.as_deref(), Some(Path::new(DEFAULT_DATA_DIR)));
        assert_eq!(file.limits.drain_deadline_s, Some(10));
    }

    #[test]
    fn mistakes_are_named() {
        let error = settings("").unwrap().config(false).unwrap_err();
        assert!(error.to_string().contains("no log is configured"), "{error}");
        let error = settings("logs = [\"x\"]").unwrap().config(false).unwrap_err();
        assert!(format!("{error:#}").contains("logs: \"x\" is no public key"), "{error:#}");
        let error = settings("log = []").unwrap_err();
        assert!(format!("{error:#}").contains("unknown field `log`"), "{error:#}");
    }
}
