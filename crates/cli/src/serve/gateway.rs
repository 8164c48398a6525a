//! `[gateway]` of a leader and of a log, and `sotto serve gateway`: loads everything that they
//! name.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use sotto_server::{
    Gateway, GatewayConfig, GatewayFile, GatewayServerConfig, GatewayTable, GatewayTarget,
    GatewayTargetTable, HttpFile,
};

use super::config::{self, Bound, RoleFile, Start, load_authorities, load_http};
use super::key_files;
use crate::output::WithHint;
use crate::private_file;

/// The folder for keys in `data_dir`, if no key files are listed.
const OWN_KEYS: &str = "gateway-keys";

/// Loads the gateway of a server with this data folder. From then on, watches its key files.
pub(super) fn load(
    table: GatewayTable,
    data_dir: &Path,
    public_url: Option<&str>,
) -> Result<GatewayConfig> {
    let keys = key_files::follow("gateway", table.keys, &data_dir.join(OWN_KEYS))?;
    let origin = public_url.map(origin).transpose()?;
    Ok(GatewayConfig { keys, origin, limits: table.limits })
}

/// Scheme and authority of a URL.
fn origin(url: &str) -> Result<String> {
    let url = config::public_url(url)?;
    Ok(format!("{}://{}", url.scheme(), url.authority()))
}

impl RoleFile for GatewayFile {
    const ROLE: &'static str = "gateway";

    fn http(&self) -> &HttpFile {
        &self.http
    }

    fn data_dir(&mut self) -> &mut PathBuf {
        &mut self.data_dir
    }

    async fn bind(self, start: Start) -> Result<Bound> {
        if self.targets.is_empty() {
            return Err(anyhow!("no target is configured")).hint(
                "list where the gateway passes requests: [[targets]] origin = \"https://leader.example\"",
            );
        }
        private_file::make_folder(&self.data_dir)?;
        let gateway = load(self.gateway, &self.data_dir, None)?;
        let certificates = load_authorities(&self.http)?;
        let http = load_http(self.http, start)?;
        let (targets, timeout) = (self.targets.iter().map(target).collect(), self.timeout);
        let config = GatewayServerConfig { http, gateway, targets, timeout, certificates };
        super::bound(Gateway::bind(config).await)
    }
}

fn target(table: &GatewayTargetTable) -> GatewayTarget {
    let url = table.url.as_ref().unwrap_or(&table.origin);
    GatewayTarget {
        origin: table.origin.trim_end_matches('/').to_owned(),
        url: url.trim_end_matches('/').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toml_text;

    #[test]
    fn targets_reach_the_gateway() {
        let text = "[[targets]]\norigin = \"https://leader.example/\"\nurl = \"http://127.0.0.1:1/\"\n\
            [[targets]]\norigin = \"https://log.example\"\n";
        let file: GatewayFile = toml_text::parse(text).unwrap();
        let targets: Vec<_> = file.targets.iter().map(target).collect();
        assert_eq!(targets[0].origin, "https://leader.example");
        assert_eq!(targets[0].url, "http://127.0.0.1:1");
        assert_eq!(targets[1].url, "https://log.example");
    }

    /// The check comes before anything is written.
    #[tokio::test]
    async fn a_gateway_without_targets_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = GatewayFile { data_dir: folder.path().join("data"), ..GatewayFile::default() };
        let error = file.bind(Start::default()).await.unwrap_err();
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
