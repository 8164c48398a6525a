//! Reads configuration files, and loads what they have in common.
//!
//! The settings themselves are in `sotto_server`. `SOTTO_LISTEN`, `SOTTO_ADMIN_LISTEN` and
//! `SOTTO_DATA_DIR` override the file.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::de::DeserializeOwned;
use sotto_crypto::Secret;
use sotto_server::settings::{Settings, assign};
use sotto_server::{AuthToken, HttpConfig, HttpFile, Server, TlsConfig};
use sotto_wire::HttpUrl;

use super::watch::{self, State};
use crate::output::WithHint;
use crate::private_file::{read_bytes, read_key};
use crate::toml_text;

/// A server, and the number of tasks that an aggregator was configured with.
pub(super) type Bound = (Server, Option<usize>);

/// How a server is started, beside its configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct Start {
    /// Plain http is allowed to and from other machines.
    pub(super) insecure_http: bool,
    /// No socket is bound.
    pub(super) check_only: bool,
    /// Where the server keeps its data.
    pub(super) data_dir: Option<PathBuf>,
}

/// The configuration file of one role.
pub(super) trait RoleFile: Settings + DeserializeOwned {
    /// The role's name on the command line.
    const ROLE: &'static str;

    /// Whether the file holds secrets. If so, only its owner should be able to read it.
    fn is_secret(&self) -> bool {
        false
    }

    /// How the server is reached.
    fn http(&self) -> &HttpFile;

    /// Where the server keeps its data.
    fn data_dir(&mut self) -> &mut PathBuf;

    /// Loads everything that the file names, and binds.
    async fn bind(self, start: Start) -> Result<Bound>;
}

/// Reads the file and the environment. Paths in the file become relative to the working folder.
pub(super) fn read<T: RoleFile>(path: &Path) -> Result<T> {
    let mut file: T = toml_text::read(path)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    file.each_path(&mut |path| *path = folder.join(&*path));
    override_from(&mut file, |name| std::env::var(name).ok())?;
    Ok(file)
}

/// Applies the environment, which is given as a function so that tests need not change that of the
/// process.
fn override_from<T: RoleFile>(
    file: &mut T,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<()> {
    for (name, key) in [("SOTTO_LISTEN", "listen"), ("SOTTO_ADMIN_LISTEN", "admin_listen")] {
        let Some(text) = variable(name) else { continue };
        assign(file, key, &text)
            .with_context(|| format!("{name}={text:?} is not an address"))
            .hint("write it like 127.0.0.1:8080")?;
    }
    if let Some(folder) = variable("SOTTO_DATA_DIR") {
        // Relative to the working folder, unlike paths in the file.
        *file.data_dir() = std::path::absolute(folder)?;
    }
    Ok(())
}

/// Loads the listener: addresses and TLS.
pub(super) fn load_http(file: HttpFile, start: Start) -> Result<HttpConfig> {
    let tls = TlsFiles::of(&file)?.map(|files| files.read()).transpose()?;
    let base_path = match &file.public_url {
        Some(url) => public_url(url)?.path_and_query().to_owned(),
        None => String::new(),
    };
    let Start { insecure_http, check_only, data_dir } = start;
    Ok(HttpConfig { base_path, tls, insecure_http, check_only, data_dir, ..file.http })
}

/// The files of a certificate and its key.
#[derive(Clone)]
pub(super) struct TlsFiles {
    cert: PathBuf,
    key: PathBuf,
}

impl TlsFiles {
    pub(super) fn of(file: &HttpFile) -> Result<Option<Self>> {
        match (&file.cert, &file.key) {
            (None, None) => Ok(None),
            (Some(cert), Some(key)) => Ok(Some(Self { cert: cert.clone(), key: key.clone() })),
            _ => bail!("[tls] needs both `cert` and `key`"),
        }
    }

    fn read(&self) -> Result<TlsConfig> {
        let certificate_chain = read_bytes(&self.cert)?;
        Ok(TlsConfig { certificate_chain, private_key: Secret::new(read_key(&self.key)?) })
    }

    pub(super) fn state(&self) -> State {
        watch::state(vec![self.cert.clone(), self.key.clone()])
    }

    /// Renews the certificate of a server whenever the files are no longer as they were loaded.
    pub(super) fn follow(self, loaded: State, server: &Server) {
        let Some(certificates) = server.certificates() else { return };
        let watched = self.clone();
        let reload = move || {
            certificates.renew(&self.read()?)?;
            Ok(None)
        };
        let what = "TLS certificate and key".to_owned();
        tokio::spawn(watch::follow(what, loaded, move || watched.state(), reload));
    }
}

/// Loads the authorities that may vouch for other servers.
pub(super) fn load_authorities(file: &HttpFile) -> Result<Option<Vec<u8>>> {
    file.ca.as_deref().map(read_bytes).transpose()
}

/// Parses `public_url`.
pub(super) fn public_url(url: &str) -> Result<HttpUrl> {
    HttpUrl::parse_setting(url).with_context(|| format!("public_url {url:?} is not a URL"))
}

/// The files of a folder with the extension of our configurations, sorted.
pub(super) fn toml_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)
        .and_then(|entries| {
            entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()
        })
        .with_context(|| format!("cannot read {}", folder.display()))?;
    let is_toml = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "toml");
    let mut files: Vec<PathBuf> = entries.into_iter().filter(is_toml).collect();
    files.sort();
    Ok(files)
}

/// The token that attester and issuer share. Refuses the one in the templates, which everybody
/// knows.
pub(super) fn peer_token(token: &Secret<String>) -> Result<AuthToken> {
    if token.expose() == "..." {
        return Err(anyhow!("it is the placeholder \"...\""))
            .hint("`sotto keys secret` makes one; attester and issuer both need it");
    }
    Ok(AuthToken::bearer(token.expose().clone())?)
}

/// The error if attester and issuer have the same name.
pub(super) fn same_operator(name: &str) -> anyhow::Error {
    anyhow!(
        "attester and issuer are both {name:?}, and must be two operators: together they know \
         which device has which token"
    )
}

/// A template with the lines that show defaults made active, for tests.
#[cfg(test)]
pub(super) fn uncommented(template: &str) -> String {
    let line = |line: &str| match line.strip_prefix("# ") {
        Some(rest) if rest.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')) => {
            rest.to_owned()
        }
        _ => line.to_owned(),
    };
    template.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use sotto_server::settings::template;
    use sotto_server::{
        AttesterFile, GatewayFile, HelperFile, IssuerFile, LeaderFile, LogFile, RelayFile,
        WitnessFile,
    };

    use super::*;

    /// The template is a configuration with every setting at its default, whether or not the lines
    /// that show defaults are active.
    fn check_template<T: Settings + DeserializeOwned>(count: usize) {
        let shown = |file: &T| {
            let defaults = file.entries().into_iter().map(|entry| (entry.key, entry.default));
            defaults.collect::<Vec<_>>()
        };
        let text = template::<T>();
        let file: T = toml_text::parse(&text).unwrap();
        assert_eq!(shown(&file), shown(&T::default()));
        let in_force = uncommented(&text);
        let file: T = toml_text::parse(&in_force).unwrap();
        assert_eq!(shown(&file), shown(&T::default()));
        // Control: the lines that show defaults are now active settings.
        let settings = in_force.lines().filter(|line| !line.starts_with('#') && line.contains('='));
        assert_eq!(settings.count(), count, "{in_force}");
    }

    #[test]
    fn the_templates_and_what_they_show_are_configurations() {
        check_template::<LeaderFile>(29);
        check_template::<HelperFile>(19);
        check_template::<LogFile>(18);
        check_template::<WitnessFile>(12);
        check_template::<RelayFile>(17);
        check_template::<GatewayFile>(15);
        check_template::<AttesterFile>(16);
        check_template::<IssuerFile>(18);
    }

    #[test]
    fn every_role_has_its_own_port_and_folder() {
        let port = |http: &HttpFile| (http.http.listen.ip().is_loopback(), http.http.listen.port());
        let (leader, helper) = (LeaderFile::default(), HelperFile::default());
        let (log, witness) = (LogFile::default(), WitnessFile::default());
        let (relay, gateway) = (RelayFile::default(), GatewayFile::default());
        let (attester, issuer) = (AttesterFile::default(), IssuerFile::default());
        for (http, expected) in [
            (&leader.aggregator.http, 8080),
            (&helper.aggregator.http, 8081),
            (&log.http, 8082),
            (&witness.http, 8083),
            (&relay.http, 8084),
            (&gateway.http, 8085),
            (&attester.http, 8086),
            (&issuer.http, 8087),
        ] {
            assert_eq!(port(http), (true, expected));
            assert_eq!(http.http.drain_deadline.as_secs(), 10);
        }
        for (folder, expected) in [
            (leader.aggregator.data_dir, "leader-data"),
            (helper.aggregator.data_dir, "helper-data"),
            (log.data_dir, "log-data"),
            (witness.data_dir, "witness-data"),
            (gateway.data_dir, "gateway-data"),
            (attester.data_dir, "attester-data"),
            (issuer.data_dir, "issuer-data"),
        ] {
            assert_eq!(folder, Path::new(expected));
        }
        assert_eq!((attester.window_s, issuer.rules.window_s), (2_592_000, 2_592_000));
        assert_eq!(gateway.gateway.limits.window.as_secs(), 1_800);
    }

    #[test]
    fn the_environment_wins() {
        let mut file: WitnessFile = toml_text::parse("listen = \"127.0.0.1:1\"").unwrap();
        override_from(&mut file, |name| match name {
            "SOTTO_LISTEN" => Some("127.0.0.1:2".into()),
            "SOTTO_DATA_DIR" => Some("/var/lib/x".into()),
            _ => None,
        })
        .unwrap();
        assert_eq!(file.http.http.listen, "127.0.0.1:2".parse().unwrap());
        assert_eq!(file.data_dir, Path::new("/var/lib/x"));
        assert!(override_from(&mut file, |_| Some("x".into())).is_err());
        let mut relay = RelayFile::default();
        override_from(&mut relay, |name| (name == "SOTTO_DATA_DIR").then(|| "/x".into())).unwrap();
        assert_eq!(relay.relay.spool_dir, Path::new("/x"));
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.toml");
        std::fs::write(&path, "[tls]\ncert = \"/etc/cert.pem\"\n[gateway]\nkeys = [\"a\"]\n")
            .unwrap();
        let file: LogFile = read(&path).unwrap();
        assert_eq!(file.data_dir, folder.path().join("log-data"));
        assert_eq!(file.http.cert.as_deref(), Some(Path::new("/etc/cert.pem")));
        assert_eq!(file.gateway.unwrap().keys, [folder.path().join("a")]);
    }
}
