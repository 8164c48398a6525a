//! The settings that all roles but leader and helper have in common.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;
use sotto_server::HttpConfig;
use sotto_wire::VerifierKey;

use super::config::{TlsTable, base_path, set, set_seconds};
use crate::output::WithHint;

/// `[limits]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HttpLimits {
    pub(super) max_connections: Option<usize>,
    pub(super) header_timeout_s: Option<u64>,
    pub(super) write_timeout_s: Option<u64>,
    pub(super) body_timeout_s: Option<u64>,
    pub(super) max_body_memory_bytes: Option<usize>,
    pub(super) drain_deadline_s: Option<u64>,
}

/// What a file says about how the server is reached.
pub(super) struct HttpTables<'a> {
    pub(super) listen: SocketAddr,
    pub(super) admin_listen: Option<SocketAddr>,
    pub(super) public_url: Option<&'a str>,
    pub(super) tls: &'a TlsTable,
    pub(super) limits: &'a HttpLimits,
}

impl HttpTables<'_> {
    /// For the server. Paths are relative to `folder`.
    pub(super) fn config(&self, folder: &Path, insecure_http: bool) -> Result<HttpConfig> {
        self.over(HttpConfig::new(self.listen), folder, insecure_http)
    }

    /// The same over other defaults.
    pub(super) fn over(
        &self,
        mut http: HttpConfig,
        folder: &Path,
        insecure_http: bool,
    ) -> Result<HttpConfig> {
        http.admin_listen = self.admin_listen;
        http.base_path = self.public_url.map(base_path).transpose()?.unwrap_or_default();
        http.tls = self.tls.config(folder)?;
        http.insecure_http = insecure_http;
        let limits = self.limits;
        set(&mut http.connections.max_connections, limits.max_connections);
        set_seconds(&mut http.connections.header_timeout, limits.header_timeout_s);
        set_seconds(&mut http.connections.write_timeout, limits.write_timeout_s);
        set_seconds(&mut http.body_timeout, limits.body_timeout_s);
        set(&mut http.max_body_memory, limits.max_body_memory_bytes);
        set_seconds(&mut http.drain_deadline, limits.drain_deadline_s);
        Ok(http)
    }
}

/// The folder of a configuration file, to which its paths are relative.
pub(super) fn folder_of(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).to_owned()
}

/// Public keys in their text form.
pub(super) fn verifier_keys(setting: &str, texts: &[String]) -> Result<Vec<VerifierKey>> {
    let key = |text: &String| {
        text.parse()
            .map_err(|error| anyhow::anyhow!("{error}"))
            .with_context(|| format!("{setting}: {text:?} is no public key"))
            .hint("a public key is name+hash+key, as `sotto keys signer` prints it")
    };
    texts.iter().map(key).collect()
}

/// The files of a folder with the ending of our configurations, sorted.
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

/// The text of `[limits]`, for `--print-config`.
pub(super) fn limits_template() -> String {
    limits_template_of(&HttpConfig::new(SocketAddr::from(([127, 0, 0, 1], 0))))
}

/// The same with these defaults.
pub(super) fn limits_template_of(http: &HttpConfig) -> String {
    format!(
        "[limits]\n\
         # max_connections = {}\n\
         # header_timeout_s = {}\n\
         # write_timeout_s = {}\n\
         # body_timeout_s = {}\n\
         # Bytes that all request bodies in flight may hold together.\n\
         # max_body_memory_bytes = {}\n\
         # How long requests in flight may take once the server is told to end.\n\
         # drain_deadline_s = {}\n",
        http.connections.max_connections,
        http.connections.header_timeout.as_secs(),
        http.connections.write_timeout.as_secs(),
        http.body_timeout.as_secs(),
        http.max_body_memory,
        http.drain_deadline.as_secs(),
    )
}

/// A template with the shown defaults in force, for tests.
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
