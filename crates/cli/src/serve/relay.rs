//! `sotto serve relay`: loads everything that its configuration names.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use sotto_protocol::relay::PoolRule;
use sotto_server::{HttpFile, Relay, RelayConfig, RelayFile, RelayGateway, RelayGatewayTable};

use super::config::{Bound, RoleFile, Start, load_authorities, load_http};
use crate::output::WithHint;

impl RoleFile for RelayFile {
    const ROLE: &'static str = "relay";

    fn http(&self) -> &HttpFile {
        &self.http
    }

    fn data_dir(&mut self) -> &mut PathBuf {
        &mut self.relay.spool_dir
    }

    async fn bind(self, start: Start) -> Result<Bound> {
        let config = load(self, start)?;
        for gateway in &config.gateways {
            if gateway.pool.unwrap_or(config.pool).min <= 1 {
                let operator = gateway.operator.as_str();
                tracing::warn!(operator, "pool.min is 1: requests are not mixed");
            }
        }
        super::bound(Relay::bind(config).await)
    }
}

fn load(file: RelayFile, start: Start) -> Result<RelayConfig> {
    if file.gateways.is_empty() {
        return Err(anyhow!("no gateway is configured")).hint(
            "list where requests may go: [[gateways]] operator = \"leader.example\", \
             url = \"https://leader.example/gateway\"",
        );
    }
    let pool = PoolRule { min: file.pool_min, wait_ms: file.pool_wait_ms };
    let gateways = file.gateways.iter().map(|table| gateway(table, pool));
    let gateways = gateways.collect::<Result<_>>().context("[[gateways]]")?;
    let gateway_certificates = load_authorities(&file.http)?;
    let http = load_http(file.http, start)?;
    let source_limit = (file.sources.max > 0).then_some(file.sources);
    Ok(RelayConfig { http, gateways, pool, source_limit, gateway_certificates, ..file.relay })
}
fn gateway(table: &RelayGatewayTable, default: PoolRule) -> Result<RelayGateway> {
    let pool = table.pool.as_ref().map(|pool| PoolRule {
        min: pool.min.unwrap_or(default.min),
        wait_ms: pool.wait_ms.unwrap_or(default.wait_ms),
    });
    let operator = table.operator.parse();
    let operator = operator.with_context(|| format!("operator {:?}", table.operator))?;
    Ok(RelayGateway { operator, url: table.url.clone(), pool })
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::path::Path;

    use sotto_server::SourceRule;
    use sotto_server::settings::template;

    use super::super::config::uncommented;
    use super::*;
    use crate::toml_text;

    fn config(text: &str) -> Result<RelayConfig> {
        load(toml_text::parse(text)?, Start::default())
    }

    const GATEWAY: &str =
        "[[gateways]]\noperator = \"leader.example\"\nurl = \"https://leader.example/gateway\"\n";

    #[test]
    fn the_template_has_the_defaults_of_the_server() {
        let template = template::<RelayFile>();
        let shown = config(&format!("{}\n{GATEWAY}", uncommented(&template))).unwrap();
        let listen = SocketAddr::from(([127, 0, 0, 1], 8084));
        let default = RelayConfig::new(listen, Vec::new());
        assert_eq!(shown.http.listen, listen);
        assert_eq!(shown.pool, default.pool);
        assert_eq!(shown.source_limit, default.source_limit);
        assert_eq!(
            shown.http.connections.max_connections,
            default.http.connections.max_connections
        );
        assert_eq!(shown.http.connections.max_per_source, default.http.connections.max_per_source);
        assert_eq!(shown.http.max_memory, default.http.max_memory);
        assert_eq!(shown.max_spool_bytes, default.max_spool_bytes);
    }

    #[test]
    fn settings_reach_the_relay() {
        let text = format!(
            "spool_dir = \"spool\"\n[pool]\nmin = 5\n[sources]\nmax = 0\n{GATEWAY}\
             pool = {{ wait_ms = 7 }}\n[limits]\nmax_connections = 9\n"
        );
        let config = config(&text).unwrap();
        assert_eq!(config.spool_dir, Path::new("spool"));
        assert!(config.source_limit.is_none());
        assert_eq!(config.gateways[0].pool, Some(PoolRule { min: 5, wait_ms: 7 }));
        assert_eq!(config.http.connections.max_connections, 9);
    }

    #[test]
    fn a_limit_of_sources_may_be_changed_in_part() {
        let config = config(&format!("[sources]\nmax = 7\n{GATEWAY}")).unwrap();
        let expected = SourceRule { max: 7, ..SourceRule::default() };
        assert_eq!(config.source_limit, Some(expected));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, message) in [
            ("", "no gateway"),
            ("[[gateways]]\noperator = \"a b\"\nurl = \"https://x\"", "operator \"a b\""),
            ("[[gateways]]\noperator = \"a\"", "line 1: missing field `url`"),
        ] {
            let error = config(text).unwrap_err();
            assert!(format!("{error:#}").contains(message), "{text}: {error:#}");
        }
    }
}
