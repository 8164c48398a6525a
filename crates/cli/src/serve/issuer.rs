//! `sotto serve issuer`: its configuration file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::Fault;
use sotto_server::{AuthToken, EncapsulationKeys, Issuer, IssuerAttester, IssuerConfig, Server};
use sotto_store::IssuerDb;

use super::config::{TlsTable, override_from, set, set_seconds};
use super::http_tables::{HttpLimits, HttpTables, folder_of, limits_template, verifier_keys};
use super::key_files::{self, KeyHolder};
use crate::output::WithHint;
use crate::task_file::secret;
use crate::{private_file, signer_file, toml_text};

const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8087);
const DEFAULT_DATA_DIR: &str = "issuer-data";
const DEFAULT_KEY: &str = "operator.key";

/// What the templates show in place of a token.
const PLACEHOLDER: &str = "...";

/// The folder of encapsulation keys in `data_dir`, if none are listed.
const OWN_KEYS: &str = "encapsulation-keys";

impl KeyHolder for EncapsulationKeys {
    const KIND: &'static str = "encapsulation";
    const FIRST_KEY: &'static str = "encapsulation-key-1.toml";

    fn new(keys: Vec<HpkeKeypair>) -> Result<Self, Fault> {
        Self::new(keys)
    }

    fn replace(&self, keys: Vec<HpkeKeypair>) -> Result<(), Fault> {
        self.replace(keys)
    }
}

/// A configuration file that was read.
#[derive(Debug)]
pub(super) struct IssuerSettings {
    folder: PathBuf,
    file: IssuerFile,
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct IssuerFile {
    listen: Option<SocketAddr>,
    admin_listen: Option<SocketAddr>,
    public_url: Option<String>,
    data_dir: Option<PathBuf>,
    key: Option<PathBuf>,
    encapsulation_keys: Vec<PathBuf>,
    window_s: Option<u64>,
    max_live_keys: Option<usize>,
    key_grace_s: Option<u64>,
    cpu_threads: Option<usize>,
    authors: Vec<String>,
    attester: Option<AttesterTable>,
    tls: TlsTable,
    limits: HttpLimits,
}

/// `[attester]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AttesterTable {
    operator: String,
    #[serde(deserialize_with = "secret")]
    token: Secret<String>,
}

impl IssuerSettings {
    /// Reads the file and the environment.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let mut file: IssuerFile = toml_text::read(path)
            .hint("`sotto serve issuer --print-config` prints every setting with its default")?;
        let IssuerFile { listen, admin_listen, data_dir, .. } = &mut file;
        override_from(|name| std::env::var(name).ok(), listen, admin_listen, data_dir)?;
        Ok(Self { folder: folder_of(path), file })
    }

    /// Opens the keys and binds.
    pub(super) async fn bind(&self, insecure_http: bool) -> Result<Server> {
        let attester = self.attester()?;
        if self.file.authors.is_empty() {
            tracing::warn!(
                "no author is configured: list who may ask for token keys under `authors`"
            );
        }
        let key = self.file.key.as_deref().unwrap_or(Path::new(DEFAULT_KEY));
        let operator = signer_file::read(&self.folder.join(key))?;
        if attester.name == operator.name().as_str() {
            return Err(same_operator(&attester.name));
        }
        let data_dir = self.file.data_dir.as_deref().unwrap_or(Path::new(DEFAULT_DATA_DIR));
        let data_dir = self.folder.join(data_dir);
        private_file::make_folder(&data_dir)?;
        let own = data_dir.join(OWN_KEYS);
        let (files, keys) = key_files::load::<EncapsulationKeys>(
            &self.file.encapsulation_keys,
            &self.folder,
            &own,
        )?;
        tokio::spawn(files.follow(Arc::clone(&keys)));
        let listen = self.file.listen.unwrap_or(DEFAULT_LISTEN);
        let config =
            self.config(IssuerConfig::new(listen, operator, keys, attester), insecure_http)?;
        let db = IssuerDb::open(&data_dir)
            .with_context(|| format!("cannot open the token keys in {}", data_dir.display()))
            .hint("is another issuer running on this folder, or does it belong to another user?")?;
        Issuer::bind(config, db).await.or_else(super::explain)
    }

    fn attester(&self) -> Result<IssuerAttester> {
        let Some(table) = &self.file.attester else {
            return Err(anyhow!("no attester is configured")).hint(
                "say who may ask for tokens: [attester] operator = \"attester.example\", token = \"...\"",
            );
        };
        let token = peer_token(&table.token)
            .with_context(|| format!("the token of the attester {:?}", table.operator))?;
        Ok(IssuerAttester { name: table.operator.clone(), token })
    }

    fn config(&self, mut config: IssuerConfig, insecure_http: bool) -> Result<IssuerConfig> {
        let file = &self.file;
        let tables = HttpTables {
            listen: config.http.listen,
            admin_listen: file.admin_listen,
            public_url: file.public_url.as_deref(),
            tls: &file.tls,
            limits: &file.limits,
        };
        config.http = tables.over(config.http, &self.folder, insecure_http)?;
        config.authors = verifier_keys("authors", &file.authors)?;
        set(&mut config.window_s, file.window_s);
        set(&mut config.max_live_keys, file.max_live_keys);
        set_seconds(&mut config.key_grace, file.key_grace_s);
        set(&mut config.cpu_threads, file.cpu_threads);
        Ok(config)
    }
}

/// The token that attester and issuer share. The one in the templates is known to everybody.
pub(super) fn peer_token(token: &Secret<String>) -> Result<AuthToken> {
    if token.expose() == PLACEHOLDER {
        return Err(anyhow!("it is the placeholder {PLACEHOLDER:?}"))
            .hint("`sotto keys secret` makes one; attester and issuer both need it");
    }
    Ok(AuthToken::bearer(token.expose().clone())?)
}

/// Attester and issuer have this one name.
pub(super) fn same_operator(name: &str) -> anyhow::Error {
    anyhow!(
        "attester and issuer are both {name:?}, and must be two operators: together they know which device has which token"
    )
}

/// The configuration that `--print-config` prints.
pub(super) fn template() -> String {
    format!(
        r#"# Configuration of a Sotto issuer: it signs tokens, blindly, and endorses the keys that recipes hold.
# Secret: it holds the attester's token. Keep this file at mode 0600.
# A line that begins with `# key =` shows a default. Paths are relative to this file.

# Where the attester and authors reach it. Port 0 lets the system choose (see --ready-file).
# listen = "{DEFAULT_LISTEN}"

# Where /livez, /readyz and /metrics are served, in plain HTTP. Off unless set.
#   admin_listen = "127.0.0.1:9087"

# The URL that others know, if it has a path: the resources then lie under that path.
#   public_url = "https://issuer.example/sotto/"

# Where it keeps token keys and origin secrets. Lost keys cannot be had again: back it up.
# data_dir = "{DEFAULT_DATA_DIR}"

# The operator's key (`sotto keys signer`), which devices and aggregators pin. Its name is the issuer's.
# key = "{DEFAULT_KEY}"

# Key files (`sotto keys new`), or folders of them, that requests are sealed to. The files, also new ones in a folder, are
# read again when they change; this list itself is not.
# Without any, a key is made in data_dir/{OWN_KEYS} at the first start. Devices use the ones that the
# operator's newest key set in the log names (`sotto keys publish --encapsulation-key`).
# encapsulation_keys = []

# No token key lives longer than this. The attester must count over windows at least as long.
# window_s = {window}

# Token keys of one author that may live at once, and how long an expired one is kept.
# max_live_keys = {live}
# key_grace_s = {grace}

# Threads that sign; by default one per core.
#   cpu_threads = 2

# Who may ask for token keys: the keys that sign recipes (`sotto keys signer`).
# authors = []

# Certificate chain and key (PEM). Without them, only loopback is served, unless --insecure-http.
[tls]
#   cert = "fullchain.pem"
#   key = "privkey.pem"

{limits}
# Who may ask for tokens on behalf of devices, with a secret that it shows (`sotto keys secret`). Required. There is one:
# what two attesters counted would be two votes for each device.
#   [attester]
#   operator = "attester.example"
#   token = "{PLACEHOLDER}"
"#,
        window = IssuerConfig::DEFAULT_WINDOW_S,
        live = IssuerConfig::DEFAULT_MAX_LIVE_KEYS,
        grace = IssuerConfig::DEFAULT_KEY_GRACE.as_secs(),
        limits = limits_template(),
    )
}

#[cfg(test)]
mod tests {
    use super::super::http_tables::uncommented;
    use super::*;

    #[test]
    fn the_template_and_what_it_shows_are_configurations() {
        let file: IssuerFile = toml_text::parse(&template()).unwrap();
        assert_eq!(file.listen, None);
        let file: IssuerFile = toml_text::parse(&uncommented(&template())).unwrap();
        assert_eq!(file.listen, Some(DEFAULT_LISTEN));
        assert_eq!(file.window_s, Some(IssuerConfig::DEFAULT_WINDOW_S));
    }

    fn with_attester(folder: &Path, operator: &str, token: &str) -> IssuerSettings {
        let text = format!("[attester]\noperator = \"{operator}\"\ntoken = \"{token}\"\n");
        IssuerSettings { folder: folder.into(), file: toml_text::parse(&text).unwrap() }
    }

    #[tokio::test]
    async fn an_issuer_that_is_its_own_attester_or_has_no_real_token_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let key = sotto_crypto::note::NoteKey::from_seed(
            "issuer.example".parse().unwrap(),
            Secret::new([1; 32]),
        );
        signer_file::write(&folder.path().join(DEFAULT_KEY), &key, false).unwrap();
        for (operator, token, message) in [
            ("issuer.example", "abcdefghijklmnop", "must be two operators"),
            ("attester.example", "...", "placeholder"),
        ] {
            let settings = with_attester(folder.path(), operator, token);
            let error = settings.bind(false).await.unwrap_err();
            assert!(format!("{error:#}").contains(message), "{error:#}");
        }
        // Nothing but the key is there.
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    /// Before anything is written.
    #[tokio::test]
    async fn an_issuer_without_attesters_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let settings = IssuerSettings { folder: folder.path().into(), file: IssuerFile::default() };
        let error = settings.bind(false).await.unwrap_err();
        assert!(format!("{error:#}").contains("no attester"), "{error:#}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
