//! Checks whether aggregators serve the keys that they logged. Devices never fetch served keys. A
//! difference means that other clients are given different keys.

use anyhow::Result;
use sotto_client::{HttpRequest, Method, Transport};
use sotto_protocol::Moment;
use sotto_protocol::trust::Trust;
use sotto_wire::limits::MAX_HPKE_CONFIG_LIST_LEN;
use sotto_wire::{Decode, HpkeConfig, HpkeConfigList};

use super::events::{EventKind, Report};
use super::state::MonitorState;
use crate::connection::ConnectionArgs;
use crate::log::about::About;
use crate::log::findings::Party;

/// Asks every aggregator of an open recipe for its keys.
pub(super) fn compare(
    state: &MonitorState,
    trust: &Trust,
    connection: &ConnectionArgs,
    now: Moment,
    report: &mut Report,
) -> Result<()> {
    let transport = connection.transport(1)?;
    for (url, operator) in state.aggregators(now) {
        // Devices refuse recipes of operators that are not pinned, and their key sets were not
        // checked.
        if trust.operator(&operator).is_none() {
            continue;
        }
        let about = About::server(&operator, &url);
        match served(&url, transport.as_ref()) {
            Err(reason) => {
                let words = format!("{operator}: keys not compared: {reason}");
                report.news(EventKind::ServedKeys, &about, words);
            }
            Ok(served) => {
                if let Some(words) = difference(&served, &state.logged_keys(&operator, now)) {
                    let words = format!("{operator} at {url} {words}");
                    report.alert(EventKind::ServedKeys, &about, Some(Party::Operator), words);
                }
            }
        }
    }
    Ok(())
}

/// What is wrong with the served keys, if anything. Keys of any set in force may be served: sets
/// overlap when keys change.
fn difference(served: &[HpkeConfig], logged: &[HpkeConfig]) -> Option<String> {
    if logged.is_empty() {
        return Some("serves keys, but has logged none that are in force".to_owned());
    }
    let other = served.iter().find(|config| !logged.contains(config))?;
    Some(format!("serves key {}, which it has not logged", other.id().value()))
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
