//! `sotto serve ROLE --status`: asks a running server what it serves, and why not the rest.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Map, Value};
use sotto_client::{HttpOptions, HttpRequest, HttpTransport, Transport};

use crate::output::{Outcome, Output, WithHint};

/// The longest answer that is read.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// A server that runs answers at once.
const PATIENCE: Duration = Duration::from_secs(10);

/// Prints the status of the server whose operator's listener is at this address.
pub(super) fn run(
    role: &str,
    admin_listen: Option<SocketAddr>,
    insecure_http: bool,
    output: &Output,
) -> Result<Outcome> {
    let hint = "set it, and restart the server: admin_listen = \"127.0.0.1:9080\"";
    let address = admin_listen.ok_or_else(|| anyhow!("`admin_listen` is not set")).hint(hint)?;
    let address = reachable(address);
    let options =
        HttpOptions { insecure_http, request_timeout: PATIENCE, ..HttpOptions::default() };
    let transport = HttpTransport::new(options)?;
    let answer = transport
        .send(&HttpRequest::get(format!("http://{address}/status"), MAX_ANSWER))
        .with_context(|| format!("the {role} does not answer at {address}"))
        .hint("does it run, with this configuration?")?;
    ensure!(answer.status == 200, "{address} answers with {}: is this a {role}?", answer.status);
    let mut status: Map<String, Value> = serde_json::from_slice(&answer.body)
        .with_context(|| format!("{address} does not answer like a {role}"))?;
    status.insert("role".to_owned(), role.into());
    let status = Value::Object(status);
    if output.json() {
        output.value(&status)?;
    } else {
        text(role, &status).lines().try_for_each(|line| output.prose(line))?;
    }
    Ok(if status["status"] == "not_ready" { Outcome::No } else { Outcome::Yes })
}

/// A server that listens everywhere is also here.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn text(role: &str, status: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let list = |name: &str| status[name].as_array().cloned().unwrap_or_default();
    let mut text = format!(
        "{role} {} at {}: {}\n",
        word(&status["version"]),
        word(&status["listen"]),
        word(&status["status"]).replace('_', " ")
    );
    for reason in list("reasons") {
        text += &format!("  {}: {}\n", word(&reason["name"]), word(&reason["detail"]));
    }
    if let (Some(held), Some(limit)) =
        (status["memory_held_bytes"].as_u64(), status["memory_limit_bytes"].as_u64())
    {
        let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
        text += &format!(
            "Holds {} MB of the {} MB that requests and jobs may take.\n",
            megabytes(held),
            megabytes(limit)
        );
    }
    let tasks = list("tasks");
    if status["tasks"].is_array() {
        text += &format!("Serves {} tasks.\n", tasks.len());
    }
    for task in tasks {
        let what = match &task["recipe_id"] {
            Value::String(id) => {
                format!("recipe {id}, {:?} of {}", word(&task["name"]), word(&task["author"]))
            }
            _ => "plain task".to_owned(),
        };
        text += &format!("  {}: {what}\n", word(&task["task_id"]));
    }
    let not_served = list("not_served");
    if !not_served.is_empty() {
        text += "Does not serve these recipes:\n";
    }
    for recipe in not_served {
        text += &format!("  {}: {}\n", word(&recipe["recipe_id"]), word(&recipe["reason"]));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn people_read_what_is_served_and_why_not_the_rest() {
        let status = json!({
            "status": "degraded", "version": "0.1.0", "listen": "127.0.0.1:8080",
            "reasons": [{ "name": "helper_unreachable", "detail": "https://h.example/: connect" }],
            "tasks": [
                { "task_id": "aaa", "recipe_id": "r1", "name": "minutes", "author": "author.example" },
                { "task_id": "bbb" },
            ],
            "not_served": [{ "recipe_id": "r2", "reason": "the author x is not listed" }],
        });
        assert_eq!(
            text("leader", &status),
            "leader 0.1.0 at 127.0.0.1:8080: degraded\n\
            \x20 helper_unreachable: https://h.example/: connect\n\
            Serves 2 tasks.\n\
            \x20 aaa: recipe r1, \"minutes\" of author.example\n\
            \x20 bbb: plain task\n\
            Does not serve these recipes:\n\
            \x20 r2: the author x is not listed\n"
        );
        assert_eq!(text("relay", &json!({ "status": "not_ready" })), "relay ? at ?: not ready\n");
    }

    #[test]
    fn a_server_that_listens_everywhere_is_asked_here() {
        let at = |text: &str| reachable(text.parse().unwrap()).to_string();
        assert_eq!(at("0.0.0.0:90"), "127.0.0.1:90");
        assert_eq!(at("[::]:90"), "[::1]:90");
        assert_eq!(at("192.0.2.7:90"), "192.0.2.7:90");
    }
}
