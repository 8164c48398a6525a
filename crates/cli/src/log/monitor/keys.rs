//! Whether aggregators serve the keys that they logged. Devices never ask for served keys; a difference means that somebody
//! else is told something else.

use anyhow::Result;
use sotto_client::{HttpRequest, Method, Transport};
use sotto_protocol::Moment;
use sotto_wire::limits::MAX_HPKE_CONFIG_LIST_LEN;
use sotto_wire::{Decode, HpkeConfig, HpkeConfigList};

use super::alerts::Report;
use super::notebook::Notebook;
use crate::connection::ConnectionArgs;

/// Asks every aggregator of an open recipe for its keys.
pub(super) fn compare(
    notebook: &Notebook,
    connection: &ConnectionArgs,
    now: Moment,
    report: &mut Report,
) -> Result<()> {
    let transport = connection.transport(1)?;
    for (url, operator) in notebook.aggregators(now) {
        let logged = notebook.logged_keys(&operator);
        match served(&url, transport.as_ref()) {
            Err(reason) => report.news(format!("{operator}: keys not compared: {reason}")),
            Ok(served) => {
                if logged.is_empty() {
                    report.alert(format!("{operator} serves keys, but has logged none"), None);
                } else if !logged.iter().any(|config| served.contains(config)) {
                    report
                        .alert(format!("{operator} serves none of the keys that it logged"), None);
                } else if let Some(other) = served.iter().find(|config| !logged.contains(config)) {
                    let id = other.id().value();
                    report.alert(
                        format!("{operator} serves key {id}, which it has not logged"),
                        None,
                    );
                }
            }
        }
    }
    Ok(())
}

fn served(url: &str, transport: &dyn Transport) -> Result<Vec<HpkeConfig>, String> {
    let request = HttpRequest {
        method: Method::Get,
        url: format!("{}/hpke_config", url.trim_end_matches('/')),
        headers: Vec::new(),
        body: &[],
        response_limit: MAX_HPKE_CONFIG_LIST_LEN,
    };
    let response = transport.send(&request).map_err(|error| error.to_string())?;
    if response.status != 200 {
        return Err(format!("it answers {}", response.status));
    }
    let list = HpkeConfigList::from_bytes(&response.body).map_err(|error| error.to_string())?;
    Ok(list.iter().cloned().collect())
}
