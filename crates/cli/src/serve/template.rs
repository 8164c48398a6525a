//! The configuration that `--print-config` prints: every setting, commented out, at its default.

use std::fmt::Write;

use sotto_server::AggregationConfig;
use sotto_wire::Role;

use super::config::{default_data_dir, default_listen, default_max_lifetime_s, default_max_tasks};
use super::recipes::default_poll_s;
use super::{default_server, gateway};

/// The text for a role.
pub(super) fn text(role: Role) -> String {
    let name = if role == Role::Leader { "leader" } else { "helper" };
    let mut text = format!(
        "# Configuration of a Sotto {name}. A line that begins with `# key =` shows a default.\n\
         # Paths are relative to this file.\n\n"
    );
    general(&mut text, role);
    limits(&mut text, role);
    if role == Role::Leader {
        jobs(&mut text);
    }
    taskprov(&mut text, role);
    recipes(&mut text, role);
    if role == Role::Leader {
        text += &gateway::table_template(
            "Takes uploads that come through a relay, so that the leader does not see whose they are.",
        );
    }
    text
}

fn general(text: &mut String, role: Role) {
    let _ = write!(
        text,
        r#"# Where peers reach it. Port 0 lets the system choose (see --ready-file).
# listen = "{listen}"

# Where /livez, /readyz and /metrics are served, in plain HTTP. Off unless set.
#   admin_listen = "127.0.0.1:9080"

# The URL that tasks name, if it has a path: resources then lie under that path.
#   public_url = "https://aggregator.example/dap/"

# The store: one SQLite file and segments of reports.
# data_dir = "{data_dir}"

# HPKE key files (`sotto keys new`), the preferred one first. Without any, a key is made in data_dir
# at the first start. Keep an old key listed at least twice as long as hpke_config_max_age_s. An id never
# comes back with another key: data_dir/hpke_keys_seen.toml says which were used.
# hpke_keys = []

# Task files of this {role}, or folders of them (`sotto task new`).
# tasks = []

# Ids of tasks that are no longer configured and whose data is to be deleted, for good. Without this a
# leader holds their waiting reports, and all behind them, until the task is configured again.
# forget_tasks = []

# Plain DAP tasks have no recipe that devices could check. Serving them needs this to be true.
# insecure_plain_tasks = false

# Certificate chain and key (PEM). Without them, only loopback is served, unless --insecure-http.
# `ca` holds authorities that may vouch for helper and log, beside the system's.
[tls]
#   cert = "fullchain.pem"
#   key = "privkey.pem"
#   ca = "ca.pem"

"#,
        listen = default_listen(role),
        data_dir = default_data_dir(role),
        role = if role == Role::Leader { "leader" } else { "helper" },
    );
}

fn limits(text: &mut String, role: Role) {
    let server = default_server();
    let _ = write!(
        text,
        r#"[limits]
# Threads for cryptography (by default one per processor), and pieces of work that may wait for one
# (by default 4 per thread); beyond that, peers get 429.
#   cpu_threads = 2
#   cpu_queue = 8
# max_connections = {max_connections}
# header_timeout_s = {header}
# write_timeout_s = {write}
# body_timeout_s = {body}
# Bytes that all large request bodies in flight may hold together.
# max_body_memory_bytes = {memory}
# max_upload_bytes = {upload}
# max_aggregation_job_bytes = {job}
# How long requests in flight may take once the server is told to end.
# drain_deadline_s = {drain}
# How long a task's data is kept after its interval, for the collector.
# retention_grace_s = {grace}
# How long devices may cache the HPKE keys.
# hpke_config_max_age_s = {max_age}
"#,
        max_connections = server.connections.max_connections,
        header = server.connections.header_timeout.as_secs(),
        write = server.connections.write_timeout.as_secs(),
        body = server.bodies.timeout.as_secs(),
        memory = server.bodies.max_memory,
        upload = server.bodies.max_upload,
        job = server.bodies.max_aggregation_job,
        drain = server.drain_deadline.as_secs(),
        grace = server.retention_grace.as_secs(),
        max_age = server.hpke_config_max_age.as_secs(),
    );
    if role == Role::Leader {
        let _ = writeln!(
            text,
            "# Bytes of reports on disk at which uploads are turned away.\n\
             # max_stored_report_bytes = {}",
            AggregationConfig::default().max_segment_bytes
        );
    }
    text.push('\n');
}

fn jobs(text: &mut String) {
    let jobs = AggregationConfig::default();
    let _ = write!(
        text,
        r#"# How reports are aggregated.
[jobs]
# max_reports = {reports}
# max_bytes = {bytes}
# How long reports wait for their job to fill.
# delay_ms = {delay}
# Jobs worked on at once; by default one more than there are CPU threads.
#   workers = 3
# max_open = {open}
# lease_s = {lease}
# helper_timeout_s = {timeout}
# min_backoff_ms = {min_backoff}
# max_backoff_ms = {max_backoff}

"#,
        reports = jobs.max_job_reports,
        bytes = jobs.max_job_bytes,
        delay = jobs.job_delay.as_millis(),
        open = jobs.max_open_jobs,
        lease = jobs.lease.as_secs(),
        timeout = jobs.helper_timeout.as_secs(),
        min_backoff = jobs.min_backoff.as_millis(),
        max_backoff = jobs.max_backoff.as_millis(),
    );
}

fn taskprov(text: &mut String, role: Role) {
    let collector =
        if role == Role::Leader { "#   collector_authentication_token = \"...\"\n" } else { "" };
    let _ = write!(
        text,
        r#"# Takes part in tasks that peers announce in band. Secret: then keep this file at mode 0600.
#   [taskprov]
#   leader = "https://leader.example/"
#   helper = "https://helper.example/"
#   verify_key_init = "..."             32 bytes, shared by leader and helper (`sotto keys secret`)
#   leader_authentication_token = "..."
{collector}#   collector_hpke_config = "..."
#   min_batch_size = 1000               smaller ones are refused
#   max_lifetime_s = {lifetime}
#   max_tasks = {tasks}
"#,
        lifetime = default_max_lifetime_s(),
        tasks = default_max_tasks(),
    );
}

fn recipes(text: &mut String, role: Role) {
    let (operator, collector) = match role {
        Role::Leader => ("leader.example", "#   collector_authentication_token = \"...\"\n"),
        _ => ("helper.example", ""),
    };
    let _ = write!(
        text,
        r#"
# Takes part in recipes of a public log that name this operator at public_url, which must be set. Secret:
# then keep this file at mode 0600. `trust` is the file that devices have: recipes are checked by it.
#   [recipes]
#   trust = "trust.toml"
#   operator = "{operator}"
#   verify_key_init = "..."             32 bytes, shared by leader and helper (`sotto keys secret`)
#   leader_authentication_token = "..."
#   poll_s = {poll}
#   log_url = "https://log.example/"    by default the one in the trust file's policy
# The authors whose recipes are served, by key (`sotto keys signer`).
#   [[recipes.authors]]
#   key = "author.example+..."
{collector}"#,
        poll = default_poll_s(),
    );
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::config::ConfigFile;
    use super::*;
    use crate::toml_text;

    /// The text with the shown defaults in force.
    fn uncommented(role: Role) -> String {
        let line = |line: &str| match line.strip_prefix("# ") {
            Some(rest) if rest.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')) => {
                rest.to_owned()
            }
            _ => line.to_owned(),
        };
        text(role).lines().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_text_and_what_it_shows_are_configurations() {
        for role in [Role::Leader, Role::Helper] {
            let file: ConfigFile = toml_text::parse(&text(role)).unwrap();
            assert_eq!(file.listen, None);
            let file: ConfigFile = toml_text::parse(&uncommented(role)).unwrap();
            assert_eq!(file.listen, Some(default_listen(role)));
            assert_eq!(file.data_dir.as_deref(), Some(Path::new(default_data_dir(role))));
            assert_eq!(
                file.limits.drain_deadline_s,
                Some(default_server().drain_deadline.as_secs())
            );
            assert_eq!(file.jobs.max_reports.is_some(), role == Role::Leader);
        }
    }
}
