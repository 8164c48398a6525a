//! Writes task files. serde is not used, because the files have comments and a fixed order.

use std::fmt::Write;

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sotto_crypto::HpkeKeypair;
use sotto_protocol::Task;
use sotto_wire::KeySet;
use toml::Value;
use zeroize::Zeroizing;

use super::{AggregatorPart, CollectorPart, Party, TaskFields};

/// The file of the leader or the helper.
pub(crate) fn aggregator_text(part: &AggregatorPart) -> Result<Zeroizing<String>> {
    let party = if part.role == sotto_wire::Role::Leader { Party::Leader } else { Party::Helper };
    let mut text = Zeroizing::new(head(party, &part.task)?);
    text.push_str(
        "\n[aggregator]\n\
         # Shared by leader and helper, secret from everybody else.\n",
    );
    let key = Zeroizing::new(URL_SAFE_NO_PAD.encode(part.verify_key.expose()));
    line(&mut text, "vdaf_verify_key", &key);
    text.push_str("# With this the leader authenticates to the helper.\n");
    line(&mut text, "leader_authentication_token", part.leader_token.expose());
    if let Some(token) = &part.collector_token {
        text.push_str("# With this the collector authenticates to the leader.\n");
        line(&mut text, "collector_authentication_token", token.expose());
    }
    text.push_str("# Aggregate shares are sealed to this key.\n");
    let config = KeySet::config_text(&part.collector_hpke_config);
    line(&mut text, "collector_hpke_config", &config);
    Ok(text)
}

/// The file for devices. It is not secret.
pub(crate) fn client_text(task: &Task) -> Result<String> {
    head(Party::Client, task)
}

/// The collector's file.
pub(crate) fn collector_text(part: &CollectorPart) -> Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(head(Party::Collector, &part.task)?);
    text.push_str(
        "\n[collector]\n\
         # With this the collector authenticates to the leader.\n",
    );
    line(&mut text, "authentication_token", part.token.expose());
    text.push_str("# Whoever has this key can read the result.\n");
    text.push_str(&key_lines(&part.key));
    Ok(text)
}

/// The two lines of a key pair.
pub(crate) fn key_lines(key: &HpkeKeypair) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(256));
    line(&mut text, "hpke_config", &KeySet::config_text(key.config()));
    let private_key = Zeroizing::new(URL_SAFE_NO_PAD.encode(key.private_key().expose()));
    line(&mut text, "hpke_private_key", &private_key);
    text
}

fn head(party: Party, task: &Task) -> Result<String> {
    let fields = TaskFields::new(task.configuration())?;
    let notice = match party {
        Party::Client => "Every device needs it; nothing in it is secret.",
        Party::Leader | Party::Helper | Party::Collector => "SECRET: for this party alone.",
    };
    // Large enough for what follows: a string that grows leaves copies of its secrets in memory.
    let mut text = String::with_capacity(8 * 1024);
    let _ = write!(text, "# A Sotto task: the {}'s part. {notice}\n\n", party.name());
    line(&mut text, "party", party.name());
    line(&mut text, "task_id", &task.id().to_string());
    text.push_str(
        "\n# Every party has exactly these bytes. Any change makes a different task.\n[task]\n",
    );
    line(&mut text, "leader", &fields.leader);
    line(&mut text, "helper", &fields.helper);
    let _ = writeln!(text, "vdaf = {}", Value::try_from(&fields.vdaf)?);
    line(&mut text, "batch_mode", fields.batch_mode.name());
    let _ = writeln!(text, "min_batch_size = {}", fields.min_batch_size);
    let _ = writeln!(text, "time_precision = {} # seconds", fields.time_precision);
    if let (Some(start), Some(end)) = (fields.task_start, fields.task_end) {
        let _ = writeln!(text, "task_start = {start} # POSIX seconds");
        let _ = writeln!(text, "task_end = {end}");
    }
    line(&mut text, "task_info", &fields.task_info);
    text.push_str("# The encoded TaskConfiguration: a check on the fields above.\n");
    line(&mut text, "encoded", &fields.encoded);
    Ok(text)
}

fn line(text: &mut String, key: &str, value: &str) {
    // Basic strings: everything written here is printable ASCII.
    text.push_str(key);
    text.push_str(" = \"");
    for character in value.chars() {
        if matches!(character, '"' | '\\') {
            text.push('\\');
        }
        text.push(character);
    }
    text.push_str("\"\n");
}
