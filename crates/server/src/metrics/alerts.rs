//! The alerts that are worth one. `packaging/alert-rules.yaml` and a table in
//! `docs/operations/metrics.md` are made from this; `docs/operations/runbooks.md` has a section for
//! each.

use super::table;

pub(super) struct Alert {
    /// Its name, and the heading of its runbook.
    pub(super) name: &'static str,
    /// Whether somebody should be woken up. Others can wait for working hours.
    pub(super) pages: bool,
    /// In the language of Prometheus.
    pub(super) expression: &'static str,
    /// How long it must hold.
    pub(super) hold: &'static str,
    pub(super) summary: &'static str,
}

const fn page(
    name: &'static str,
    expression: &'static str,
    hold: &'static str,
    summary: &'static str,
) -> Alert {
    Alert { name, pages: true, expression, hold, summary }
}

const fn ticket(
    name: &'static str,
    expression: &'static str,
    hold: &'static str,
    summary: &'static str,
) -> Alert {
    Alert { name, pages: false, expression, hold, summary }
}

pub(super) const ALL: &[Alert] = &[
    page("ServerDown", "up{job=\"sotto\"} == 0", "5m", "a server does not answer"),
    page("ServerNotReady", "sotto_ready == 0", "5m", "a server is not ready"),
    page(
        "LogForked",
        "sotto_log_readings_total{outcome=\"forked\"} > 0",
        "0m",
        "the log has signed two histories",
    ),
    page(
        "SumsWouldDiffer",
        "sotto_aggregation_jobs_total{outcome=\"stopped\"} > 0",
        "0m",
        "jobs were stopped, because sums would have differed",
    ),
    page(
        "CheckpointOld",
        "time() - sotto_log_checkpoint_timestamp_seconds > 1800",
        "5m",
        "the log has published nothing for half an hour",
    ),
    page(
        "CertificateExpires",
        "sotto_certificate_expiry_seconds - time() < 3 * 86400",
        "5m",
        "a certificate expires within three days",
    ),
    page(
        "DiskFills",
        "sotto_disk_free_bytes < 2 * 1024^3",
        "5m",
        "a disk has less than 2 GiB free",
    ),
    page(
        "UploadsRefused",
        "rate(sotto_uploads_throttled_total[5m]) > 0",
        "15m",
        "a leader refuses uploads because of load",
    ),
    ticket(
        "CertificateNotRenewed",
        "sotto_certificate_expiry_seconds - time() < 14 * 86400",
        "1h",
        "a certificate expires within two weeks",
    ),
    ticket(
        "ServerDegraded",
        "sotto_readiness_reasons > 0",
        "1h",
        "a server gives reasons in /readyz",
    ),
    ticket(
        "ReportsNotCounted",
        "increase(sotto_reports_dropped_total[1d]) > 0",
        "0m",
        "acknowledged reports were not counted",
    ),
    ticket(
        "AggregationBehind",
        "delta(sotto_backlog_bytes[1h]) > 0 and min_over_time(sotto_backlog_bytes[1h]) > 0",
        "1h",
        "the backlog of a leader grows",
    ),
    ticket("ReceiptsOwed", "sotto_receipts_owed > 0", "1d", "the log does not take receipts"),
    ticket(
        "RequestsFail",
        "rate(sotto_http_requests_total{status=\"5xx\"}[15m]) > 0",
        "15m",
        "a server answers with errors of its own",
    ),
    ticket(
        "ConnectionsRefused",
        "rate(sotto_connections_refused_total[15m]) > 0",
        "15m",
        "a server closes connections at once",
    ),
    ticket(
        "MemoryFull",
        "rate(sotto_memory_refused_total[15m]) > 0",
        "15m",
        "a server refuses requests for want of memory",
    ),
    ticket(
        "DescriptorsRunOut",
        "process_open_fds / process_max_fds > 0.8",
        "15m",
        "four fifths of the file descriptors are in use",
    ),
    ticket(
        "ServerRestarts",
        "changes(process_start_time_seconds[1d]) > 2",
        "0m",
        "a server restarts by itself",
    ),
    ticket(
        "VersionsDiffer",
        "count(count by (version) (sotto_build_info)) > 1",
        "7d",
        "servers run different versions for a week",
    ),
    ticket(
        "GatewayUnreachable",
        "rate(sotto_relay_exchanges_total{outcome=~\"unreachable|foreign\"}[15m]) > 0",
        "15m",
        "a relay does not reach a gateway",
    ),
    ticket(
        "MixesFew",
        "increase(sotto_relay_pools_total{reason=\"waited\"}[1d]) > ignoring(reason) 10 * \
         increase(sotto_relay_pools_total{reason=\"full\"}[1d])",
        "1d",
        "a relay mixes few requests",
    ),
    ticket(
        "GatewayKeyUnknown",
        "increase(sotto_gateway_requests_total{outcome=\"unknown_key\"}[1h]) > 0",
        "1h",
        "devices use a gateway key that is gone",
    ),
    ticket(
        "GatewayDates",
        "increase(sotto_gateway_requests_total{outcome=\"date\"}[1h]) > 0",
        "1h",
        "requests are dated outside of the window",
    ),
    ticket(
        "GatewayFull",
        "increase(sotto_gateway_requests_total{outcome=~\"unremembered|full\"}[1h]) > 0",
        "0m",
        "a gateway cannot remember all requests",
    ),
    ticket(
        "WitnessConflicts",
        "increase(sotto_witness_requests_total{outcome=\"conflict\"}[1h]) > 3",
        "1h",
        "log and witness disagree again and again",
    ),
    ticket(
        "SignatureFault",
        "increase(sotto_issuer_refused_total{reason=\"fault\"}[1d]) > 0",
        "0m",
        "an issuer's signature failed its check",
    ),
];

/// The names in an expression that could be those of metrics.
fn metrics_in(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("sotto_") || word.starts_with("process_"))
}

#[test]
fn alerts_are_about_metrics_that_exist() {
    let mut names = std::collections::BTreeSet::new();
    for alert in ALL {
        assert!(names.insert(alert.name), "{} twice", alert.name);
        for name in metrics_in(alert.expression) {
            let metric = table::ALL.iter().find(|metric| metric.name == name);
            let metric = metric.unwrap_or_else(|| panic!("{}: no metric {name}", alert.name));
            // Every label that is compared, which is in braces after the name.
            let after = alert.expression.split(name).nth(1).unwrap_or_default();
            let Some(braces) = after.strip_prefix('{') else { continue };
            let label = braces.split(['=', '~']).next().unwrap();
            assert!(metric.labels.contains(&label), "{}: {name} has no {label}", alert.name);
        }
        let only_up = metrics_in(alert.expression).next().is_none();
        assert_eq!(only_up, alert.expression.starts_with("up{"), "{}", alert.name);
    }
}
