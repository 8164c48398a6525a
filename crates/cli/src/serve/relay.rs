//! `sotto serve relay`: its configuration file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;
use sotto_protocol::relay::PoolRule;
use sotto_server::{Relay, RelayConfig, RelayGateway, Server, SourceRule};

use super::config::{TlsTable, override_from, set, set_seconds};
use super::http_tables::{HttpLimits, HttpTables, folder_of, limits_template_of};
use crate::output::WithHint;
use crate::toml_text;

const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8084);

/// A configuration file that was read.
#[derive(Debug)]
pub(super) struct RelaySettings {
    folder: PathBuf,
    file: RelayFile,
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RelayFile {
    listen: Option<SocketAddr>,
    admin_listen: Option<SocketAddr>,
    public_url: Option<String>,
    gateways: Vec<GatewayTable>,
    pool: PoolTable,
    sources: SourcesTable,
    spool_dir: Option<PathBuf>,
    memory_body_max_bytes: Option<usize>,
    max_spool_bytes: Option<u64>,
    gateway_timeout_s: Option<u64>,
    tls: TlsTable,
    limits: HttpLimits,
}

/// `[[gateways]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GatewayTable {
    operator: String,
    url: String,
    pool: Option<PoolTable>,
}

/// `[pool]`, or `pool = {}` of a gateway.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PoolTable {
    min: Option<usize>,
    wait_ms: Option<u64>,
}

/// `[sources]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SourcesTable {
    max: Option<u32>,
    window_s: Option<u64>,
    max_connections: Option<u32>,
}

impl RelaySettings {
    /// Reads the file and the environment.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let mut file: RelayFile = toml_text::read(path)
            .hint("`sotto serve relay --print-config` prints every setting with its default")?;
        let RelayFile { listen, admin_listen, spool_dir, .. } = &mut file;
        override_from(|name| std::env::var(name).ok(), listen, admin_listen, spool_dir)?;
        Ok(Self { folder: folder_of(path), file })
    }

    /// Binds.
    pub(super) async fn bind(&self, insecure_http: bool) -> Result<Server> {
        let config = self.config(insecure_http)?;
        for gateway in &config.gateways {
            if gateway.pool.unwrap_or(config.pool).min <= 1 {
                let operator = gateway.operator.as_str();
                tracing::warn!(operator, "pool.min is 1: requests are not mixed");
            }
        }
        Relay::bind(config).await.or_else(super::explain)
    }

    fn config(&self, insecure_http: bool) -> Result<RelayConfig> {
        let file = &self.file;
        if file.gateways.is_empty() {
            return Err(anyhow!("no gateway is configured")).hint(
                "list where requests may go: [[gateways]] operator = \"leader.example\", \
                 url = \"https://leader.example/gateway\"",
            );
        }
        let mut config = RelayConfig::new(file.listen.unwrap_or(DEFAULT_LISTEN), Vec::new());
        file.pool.apply(&mut config.pool);
        config.gateways = file
            .gateways
            .iter()
            .map(|table| table.gateway(config.pool))
            .collect::<Result<_>>()
            .context("[[gateways]]")?;
        let tables = HttpTables {
            listen: config.http.listen,
            admin_listen: file.admin_listen,
            public_url: file.public_url.as_deref(),
            tls: &file.tls,
            limits: &file.limits,
        };
        config.http = tables.over(config.http, &self.folder, insecure_http)?;
        set(&mut config.spool_dir, file.spool_dir.as_ref().map(|path| self.folder.join(path)));
        set(&mut config.memory_body_max, file.memory_body_max_bytes);
        set(&mut config.max_spool_bytes, file.max_spool_bytes);
        set_seconds(&mut config.gateway_timeout, file.gateway_timeout_s);
        config.gateway_certificates = file.tls.authorities(&self.folder)?;
        config.source_limit = file.sources.rule(config.source_limit);
        Ok(config)
    }
}

impl GatewayTable {
    fn gateway(&self, default: PoolRule) -> Result<RelayGateway> {
        let pool = self.pool.as_ref().map(|table| {
            let mut rule = default;
            table.apply(&mut rule);
            rule
        });
        let operator = self.operator.parse();
        let operator = operator.with_context(|| format!("operator {:?}", self.operator))?;
        Ok(RelayGateway { operator, url: self.url.clone(), pool })
    }
}

impl PoolTable {
    fn apply(&self, rule: &mut PoolRule) {
        set(&mut rule.min, self.min);
        set(&mut rule.wait_ms, self.wait_ms);
    }
}

impl SourcesTable {
    /// The limit; none if `max` is 0.
    fn rule(&self, default: Option<SourceRule>) -> Option<SourceRule> {
        let default = default.unwrap_or_default();
        let rule = SourceRule {
            max: self.max.unwrap_or(default.max),
            window: self.window_s.map_or(default.window, Duration::from_secs),
            max_connections: self.max_connections.unwrap_or(default.max_connections),
        };
        (rule.max > 0).then_some(rule)
    }
}

/// The configuration that `--print-config` prints.
pub(super) fn template() -> String {
    let config = RelayConfig::new(DEFAULT_LISTEN, Vec::new());
    let sources = config.source_limit.unwrap_or_default();
    format!(
        r#"# Configuration of a Sotto relay. A line that begins with `# key =` shows a default.
# Paths are relative to this file.

# Where devices reach it. Port 0 lets the system choose (see --ready-file).
# listen = "{DEFAULT_LISTEN}"

# Where /livez, /readyz and /metrics are served, in plain HTTP. Off unless set.
#   admin_listen = "127.0.0.1:9084"

# The URL that trust files name, if it has a path: resources then lie under that path.
#   public_url = "https://relay.example/sotto/"

# Larger bodies wait in files without a name in spool_dir (by default /var/tmp, or the system's folder for such files):
# requests up to max_spool_bytes together, and answers. Beyond that, devices get 429 or 503.
#   spool_dir = "/var/spool/sotto"
# memory_body_max_bytes = {memory}
# max_spool_bytes = {spool}

# How long a gateway may take over the head of its answer, and then over its content.
# gateway_timeout_s = {timeout}

# Requests of one size for one gateway wait until they come from `min` sources, or the first has waited `wait_ms`; then
# they go on together, in a random order. At most {MAX_WAIT_S} s: gateways remember requests for a while only.
[pool]
# min = {min}
# wait_ms = {wait}

# Requests that one source (an IPv4 address, an IPv6 /64) may send in a window, and connections that it may have at once.
# A `max` of 0 is no limit of either, which is right behind a proxy, where all have one address; every request counts for
# the pool's `min` then. Sources are remembered no longer than the window or a connection, and nowhere written down.
[sources]
# max = {max}
# window_s = {window}
# max_connections = {connections}

# Certificate chain and key (PEM). Without them, only loopback is served, unless --insecure-http.
# `ca` holds authorities that may vouch for gateways, beside the public ones.
[tls]
#   cert = "fullchain.pem"
#   key = "privkey.pem"
#   ca = "ca.pem"

{limits}
# Where requests may go: the operator of a gateway, and the gateway's URL. Devices name the operator. Required.
# `pool` may differ from the one above.
#   [[gateways]]
#   operator = "leader.example"
#   url = "https://leader.example/gateway"
#   pool = {{ min = 64, wait_ms = 10000 }}
"#,
        memory = config.memory_body_max,
        spool = config.max_spool_bytes,
        timeout = config.gateway_timeout.as_secs(),
        min = config.pool.min,
        wait = config.pool.wait_ms,
        max = sources.max,
        window = sources.window.as_secs(),
        connections = sources.max_connections,
        MAX_WAIT_S = PoolRule::MAX_WAIT_MS / 1_000,
        limits = limits_template_of(&config.http),
    )
}

#[cfg(test)]
mod tests {
    use super::super::http_tables::uncommented;
    use super::*;

    fn config(text: &str) -> Result<RelayConfig> {
        let file = toml_text::parse(text)?;
        RelaySettings { folder: "/etc/sotto".into(), file }.config(false)
    }

    const GATEWAY: &str =
        "[[gateways]]\noperator = \"leader.example\"\nurl = \"https://leader.example/gateway\"\n";

    #[test]
    fn the_template_and_what_it_shows_are_configurations() {
        let file: RelayFile = toml_text::parse(&template()).unwrap();
        assert_eq!(file.listen, None);
        let shown = config(&format!("{}\n{GATEWAY}", uncommented(&template()))).unwrap();
        let default = RelayConfig::new(DEFAULT_LISTEN, Vec::new());
        assert_eq!(shown.http.listen, DEFAULT_LISTEN);
        assert_eq!(shown.pool, default.pool);
        assert_eq!(shown.source_limit, default.source_limit);
        assert_eq!(
            shown.http.connections.max_connections,
            default.http.connections.max_connections
        );
        assert_eq!(shown.http.max_body_memory, default.http.max_body_memory);
        assert_eq!(shown.max_spool_bytes, default.max_spool_bytes);
    }

    #[test]
    fn settings_reach_the_relay() {
        let text = format!(
            "spool_dir = \"spool\"\n[pool]\nmin = 5\n[sources]\nmax = 0\n{GATEWAY}\
             pool = {{ wait_ms = 7 }}\n[limits]\nmax_connections = 9\n"
        );
        let config = config(&text).unwrap();
        assert_eq!(config.spool_dir, Path::new("/etc/sotto/spool"));
        assert!(config.source_limit.is_none());
        assert_eq!(config.gateways[0].pool, Some(PoolRule { min: 5, wait_ms: 7 }));
        assert_eq!(config.http.connections.max_connections, 9);
    }

    #[test]
    fn a_limit_of_sources_may_be_changed_in_part() {
        let config = config(&format!("[sources]\nmax_connections = 7\n{GATEWAY}")).unwrap();
        let expected = SourceRule { max_connections: 7, ..SourceRule::default() };
        assert_eq!(config.source_limit, Some(expected));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, message) in [
            ("", "no gateway"),
            ("[[gateways]]\noperator = \"a b\"\nurl = \"https://x\"", "operator \"a b\""),
        ] {
            let error = config(text).unwrap_err();
            assert!(format!("{error:#}").contains(message), "{text}: {error:#}");
        }
    }
}
