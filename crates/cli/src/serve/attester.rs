//! `sotto serve attester`: its configuration file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use sotto_crypto::Secret;
use sotto_protocol::attester::Attestation;
use sotto_server::{
    Attester, AttesterConfig, InsecureAttestation, IssuerPeer, Manufacturer, Server,
    X509Attestation, X509Config,
};
use sotto_store::{AttesterDb, AttesterDbOptions};
use sotto_wire::KeyName;

use super::config::{TlsTable, override_from, set, set_seconds};
use super::http_tables::{HttpLimits, HttpTables, folder_of, limits_template};
use super::issuer::{peer_token, same_operator};
use crate::output::WithHint;
use crate::task_file::secret;
use crate::{private_file, random, toml_text};

const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8086);
const DEFAULT_DATA_DIR: &str = "attester-data";

/// How often the revocation lists are looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A configuration file that was read.
#[derive(Debug)]
pub(super) struct AttesterSettings {
    folder: PathBuf,
    file: AttesterFile,
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AttesterFile {
    listen: Option<SocketAddr>,
    admin_listen: Option<SocketAddr>,
    public_url: Option<String>,
    data_dir: Option<PathBuf>,
    operator: Option<String>,
    window_s: Option<u64>,
    max_aliases_per_device: Option<u64>,
    max_waiting: Option<usize>,
    issuer_timeout_s: Option<u64>,
    cpu_threads: Option<usize>,
    insecure_attestation: bool,
    x509: Option<X509Table>,
    issuers: Vec<IssuerTable>,
    tls: TlsTable,
    limits: HttpLimits,
}

/// `[x509]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct X509Table {
    manufacturers: Vec<ManufacturerTable>,
    #[serde(default)]
    crls: Vec<PathBuf>,
    #[serde(default)]
    require_crl: bool,
}

/// `[[x509.manufacturers]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManufacturerTable {
    name: String,
    roots: Vec<PathBuf>,
}

/// `[[issuers]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct IssuerTable {
    operator: String,
    url: String,
    #[serde(deserialize_with = "secret")]
    token: Secret<String>,
}

impl AttesterSettings {
    /// Reads the file and the environment.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let mut file: AttesterFile = toml_text::read(path)
            .hint("`sotto serve attester --print-config` prints every setting with its default")?;
        let AttesterFile { listen, admin_listen, data_dir, .. } = &mut file;
        override_from(|name| std::env::var(name).ok(), listen, admin_listen, data_dir)?;
        Ok(Self { folder: folder_of(path), file })
    }

    /// Opens the database and binds.
    pub(super) async fn bind(&self, insecure_http: bool) -> Result<Server> {
        let mut config = self.config(insecure_http)?;
        if let Some(table) = &self.file.x509 {
            let attestation = Arc::new(self.x509(table)?);
            let crls = table.crls.iter().map(|path| self.folder.join(path)).collect();
            tokio::spawn(follow_crls(crls, Arc::clone(&attestation)));
            config.attestations.push(attestation);
        }
        if self.file.insecure_attestation {
            tracing::warn!("insecure_attestation: anybody can be as many devices as he likes");
            config.attestations.push(Arc::new(InsecureAttestation) as Arc<dyn Attestation>);
        }
        let data_dir = self.file.data_dir.as_deref().unwrap_or(Path::new(DEFAULT_DATA_DIR));
        let data_dir = self.folder.join(data_dir);
        private_file::make_folder(&data_dir)?;
        let mut options = AttesterDbOptions::default();
        set(&mut options.window_s, self.file.window_s);
        set(&mut options.max_aliases_per_device, self.file.max_aliases_per_device);
        let db = AttesterDb::open(&data_dir, &options, &mut random::system())
            .with_context(|| format!("cannot open the database in {}", data_dir.display()))?;
        Attester::bind(config, db).await.or_else(super::explain)
    }

    fn config(&self, insecure_http: bool) -> Result<AttesterConfig> {
        let file = &self.file;
        let Some(operator) = &file.operator else {
            return Err(anyhow!("no operator is configured"))
                .hint("operator = \"attester.example\": the name under which devices pin it");
        };
        let operator: KeyName = operator.parse().map_err(|error| anyhow!("operator: {error}"))?;
        if file.issuers.iter().any(|issuer| issuer.operator == operator.as_str()) {
            return Err(same_operator(operator.as_str()));
        }
        if file.issuers.is_empty() {
            return Err(anyhow!("no issuer is configured")).hint(
                "list where requests may go: [[issuers]] operator = \"issuer.example\", url = \"...\", token = \"...\"",
            );
        }
        if file.x509.is_none() && !file.insecure_attestation {
            return Err(anyhow!("no way to tell devices is configured")).hint(
                "[[x509.manufacturers]] name = \"...\", roots = [\"root.pem\"], or, for development, insecure_attestation = true",
            );
        }
        let tables = HttpTables {
            listen: file.listen.unwrap_or(DEFAULT_LISTEN),
            admin_listen: file.admin_listen,
            public_url: file.public_url.as_deref(),
            tls: &file.tls,
            limits: &file.limits,
        };
        let issuers = file.issuers.iter().map(issuer).collect::<Result<_>>()?;
        let mut config = AttesterConfig::new(tables.listen, operator, issuers);
        config.http = tables.over(config.http, &self.folder, insecure_http)?;
        config.issuer_certificates = file.tls.authorities(&self.folder)?;
        set(&mut config.max_waiting, file.max_waiting);
        set_seconds(&mut config.issuer_timeout, file.issuer_timeout_s);
        set(&mut config.cpu_threads, file.cpu_threads);
        Ok(config)
    }

    fn x509(&self, table: &X509Table) -> Result<X509Attestation> {
        let in_folder = |paths: &[PathBuf]| -> Vec<PathBuf> {
            paths.iter().map(|path| self.folder.join(path)).collect()
        };
        let manufacturer = |table: &ManufacturerTable| {
            let roots = read_all(&in_folder(&table.roots))
                .with_context(|| format!("the roots of {:?}", table.name))?;
            anyhow::Ok(Manufacturer { name: table.name.clone(), roots })
        };
        let config = X509Config {
            manufacturers: table.manufacturers.iter().map(manufacturer).collect::<Result<_>>()?,
            crls: read_all(&in_folder(&table.crls)).context("[x509] crls")?,
            require_crl: table.require_crl,
        };
        X509Attestation::new(&config).map_err(|error| anyhow!("[x509]: {error}"))
    }
}

fn issuer(table: &IssuerTable) -> Result<IssuerPeer> {
    let named = |what: &str| format!("the {what} of the issuer {:?}", table.operator);
    let name = table.operator.parse().map_err(|error| anyhow!("{}: {error}", named("operator")))?;
    let token = peer_token(&table.token).with_context(|| named("token"))?;
    let url = table.url.trim_end_matches('/').to_owned();
    Ok(IssuerPeer { name, url, token: Arc::new(token) })
}

/// The files, one after the other.
fn read_all(paths: &[PathBuf]) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    for path in paths {
        let text =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        all.extend(text);
        all.push(b'\n');
    }
    Ok(all)
}

/// Reads the revocation lists again whenever the files change, for ever. Files that cannot be used change nothing.
async fn follow_crls(paths: Vec<PathBuf>, attestation: Arc<X509Attestation>) {
    let look = || -> Vec<Option<(SystemTime, u64)>> {
        let seen = |path: &PathBuf| {
            let data = std::fs::metadata(path).ok()?;
            Some((data.modified().ok()?, data.len()))
        };
        paths.iter().map(seen).collect()
    };
    let mut seen = look();
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        let now = look();
        if now == seen {
            continue;
        }
        seen = now;
        let read = read_all(&paths).and_then(|pem| Ok(attestation.reload_crls(&pem)?));
        match read {
            Ok(()) => tracing::info!("the revocation lists were read again"),
            Err(error) => tracing::error!(
                error = format!("{error:#}"),
                "the revocation lists have changed and cannot be used: the old ones stay"
            ),
        }
    }
}

/// The configuration that `--print-config` prints.
pub(super) fn template() -> String {
    let listen = DEFAULT_LISTEN;
    let options = AttesterDbOptions::default();
    format!(
        r#"# Configuration of a Sotto attester: it knows devices, and gets each of them one token per recipe and aggregator.
# Secret: it holds tokens of issuers. Keep this file at mode 0600.
# A line that begins with `# key =` shows a default. Paths are relative to this file.

# Where devices reach it. Port 0 lets the system choose (see --ready-file).
# listen = "{listen}"

# Where /livez, /readyz and /metrics are served, in plain HTTP. Off unless set.
#   admin_listen = "127.0.0.1:9086"

# The URL that devices know, if it has a path: the resource then lies under that path.
#   public_url = "https://attester.example/sotto/"

# Where it keeps what it has granted. A copy that is put back forgets: devices would get second tokens.
# data_dir = "{DEFAULT_DATA_DIR}"

# Its name, as devices pin it. Required.
#   operator = "attester.example"

# Grants count in the window in which they are made and in the next. At least as long as the windows of its issuers.
# window_s = {window}

# Origins that one device may have tokens for in two windows.
# max_aliases_per_device = {aliases}

# Requests that are worked on at once; more are told to come again. How long an issuer may take.
# max_waiting = {waiting}
# issuer_timeout_s = {timeout}

# Threads that check; by default one per core.
#   cpu_threads = 2

# Believes the name that a device gives itself. For development: anybody can be as many devices as he likes.
# insecure_attestation = false

# Devices show certificates of their manufacturers: PEM files of roots, and of revocation lists, which are read again when
# they change. A device is told by its manufacturer's name here and the serialNumber of its certificate's subject: all roots of
# one manufacturer belong under one name. With require_crl, a device whose certificate no list speaks about is refused.
#   [x509]
#   crls = ["manufacturer.crl.pem"]
#   require_crl = false
#   [[x509.manufacturers]]
#   name = "Example Devices"
#   roots = ["root.pem"]

# Certificate chain and key (PEM). Without them, only loopback is served, unless --insecure-http.
# `ca` holds authorities that may vouch for issuers, beside the public ones.
[tls]
#   cert = "fullchain.pem"
#   key = "privkey.pem"
#   ca = "ca.pem"

{limits}
# Where requests may go, with the secret that the issuer knows (`sotto keys secret`). Devices name the operator. Required.
#   [[issuers]]
#   operator = "issuer.example"
#   url = "https://issuer.example/"
#   token = "..."
"#,
        window = options.window_s,
        aliases = options.max_aliases_per_device,
        waiting = AttesterConfig::DEFAULT_MAX_WAITING,
        timeout = AttesterConfig::DEFAULT_ISSUER_TIMEOUT.as_secs(),
        limits = limits_template(),
    )
}

#[cfg(test)]
mod tests {
    use super::super::http_tables::uncommented;
    use super::*;

    fn config(text: &str) -> Result<AttesterConfig> {
        let file = toml_text::parse(text)?;
        AttesterSettings { folder: "/etc/sotto".into(), file }.config(false)
    }

    const ISSUER: &str = "[[issuers]]\noperator = \"issuer.example\"\nurl = \"https://issuer.example/\"\ntoken = \"t\"\n";

    #[test]
    fn the_template_and_what_it_shows_are_configurations() {
        let file: AttesterFile = toml_text::parse(&template()).unwrap();
        assert_eq!(file.listen, None);
        let file: AttesterFile = toml_text::parse(&uncommented(&template())).unwrap();
        assert_eq!(file.listen, Some(DEFAULT_LISTEN));
        assert_eq!(file.window_s, Some(AttesterDbOptions::default().window_s));
        assert!(!file.insecure_attestation);
    }

    #[test]
    fn mistakes_are_named() {
        let named = "operator = \"attester.example\"\n";
        for (text, message) in [
            (String::new(), "no operator"),
            (named.to_owned(), "no issuer"),
            (format!("{named}{ISSUER}"), "no way to tell devices"),
            (
                format!(
                    "{named}insecure_attestation = true\n{}",
                    ISSUER.replace("issuer.", "is suer.")
                ),
                "the operator of the issuer",
            ),
            (
                format!(
                    "{named}insecure_attestation = true\n{}",
                    ISSUER.replace("\"t\"", "\"...\"")
                ),
                "placeholder",
            ),
            (
                format!("operator = \"issuer.example\"\ninsecure_attestation = true\n{ISSUER}"),
                "must be two operators",
            ),
        ] {
            let error = config(&text).unwrap_err();
            assert!(format!("{error:#}").contains(message), "{text}: {error:#}");
        }
        let config = config(&format!("{named}insecure_attestation = true\n{ISSUER}")).unwrap();
        assert_eq!(config.issuers[0].url, "https://issuer.example");
    }
}
