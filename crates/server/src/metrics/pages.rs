//! What is made from the tables of metrics and alerts: `docs/operations/metrics.md`, the dashboard
//! for Grafana and the alert rules for Prometheus. `SOTTO_BLESS=1` writes them again.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::Role;
use super::alerts::{self, Alert};
use super::table::{ALL, Kind, Metric, Unit};

const METRICS_PAGE: &str = "docs/operations/metrics.md";
const DASHBOARD: &str = "packaging/grafana-dashboard.json";
const RULES: &str = "packaging/alert-rules.yaml";
const RUNBOOKS: &str = "docs/operations/runbooks.md";

const HEAD: &str = "\
# Metrics and alerts

This page is generated from `crates/server/src/metrics`, and so are
[`packaging/grafana-dashboard.json`](../../packaging/grafana-dashboard.json) and
[`packaging/alert-rules.yaml`](../../packaging/alert-rules.yaml). To write them again, run
`SOTTO_BLESS=1 cargo test -p sotto-server generated_from_the_metrics`.

`/metrics` of the address `admin_listen` serves them in the Prometheus format. No label names a
task, a peer or a device.

## Use

1. Let Prometheus read `admin_listen` of every server, in a job with the name `sotto`. The address
   is reached from the machine itself only, so run an agent there, or a tunnel:

   ```yaml
   scrape_configs:
     - job_name: sotto
       static_configs:
         - targets: [\"127.0.0.1:9080\"]
           labels: {role: leader}
   rule_files: [alert-rules.yaml]
   ```

2. Import the dashboard in Grafana. It has a panel for each metric, by `instance`.
3. Each alert has a label `severity` (`page` or `ticket`) and an annotation `runbook`, the section
   of [runbooks](runbooks.md) that says what to do.

## Metrics
";

/// The groups of the documents: a title, and the roles of its metrics.
fn group(metric: &Metric) -> &'static str {
    match metric.roles {
        [Role::Leader] => "Leader",
        [Role::Helper] => "Helper",
        [Role::Leader, Role::Helper] => "Leader and helper",
        [Role::Leader, Role::Log, Role::Gateway] => "Gateway of leader or log",
        [Role::Log] => "Log",
        [Role::Witness] => "Witness",
        [Role::Relay] => "Relay",
        [Role::Attester] => "Attester",
        [Role::Issuer] => "Issuer",
        _ => "All servers",
    }
}

/// The groups with their metrics, in order.
fn groups() -> Vec<(&'static str, Vec<&'static Metric>)> {
    let mut groups: Vec<(&str, Vec<&Metric>)> = Vec::new();
    for metric in ALL {
        let title = group(metric);
        match groups.iter_mut().find(|(other, _)| *other == title) {
            Some((_, metrics)) => metrics.push(metric),
            None => groups.push((title, vec![metric])),
        }
    }
    groups
}

fn kind(metric: &Metric) -> &'static str {
    match metric.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    }
}

fn unit(metric: &Metric) -> &'static str {
    match metric.unit {
        Unit::Count => "",
        Unit::Bytes => "bytes",
        Unit::Seconds => "seconds",
        Unit::Time => "POSIX seconds",
    }
}

fn metrics_page() -> String {
    let mut page = HEAD.to_owned();
    for (title, metrics) in groups() {
        let _ = write!(
            page,
            "\n### {title}\n\n| Metric | Kind | Unit | Meaning |\n|---|---|---|---|\n"
        );
        for metric in metrics {
            let labels = match metric.labels {
                [] => String::new(),
                labels => format!("{{{}}}", labels.join(",")),
            };
            let (name, help) = (metric.name, metric.help);
            let _ = writeln!(
                page,
                "| `{name}{labels}` | {} | {} | {help} |",
                kind(metric),
                unit(metric)
            );
        }
    }
    for (title, pages) in
        [("Alerts that wake somebody up", true), ("Alerts for working hours", false)]
    {
        let _ = write!(page, "\n## {title}\n\n| Alert | When | For |\n|---|---|---|\n");
        for alert in alerts::ALL.iter().filter(|alert| alert.pages == pages) {
            // A bar would end the cell.
            let expression = alert.expression.replace('|', "\\|");
            let (name, anchor, summary) = (alert.name, anchor(alert), alert.summary);
            let _ = writeln!(
                page,
                "| [{name}](runbooks.md#{anchor}) | {summary}: `{expression}` | {} |",
                alert.hold
            );
        }
    }
    page
}

/// The anchor of its runbook.
fn anchor(alert: &Alert) -> String {
    alert.name.to_lowercase()
}

/// A text in quotes, which JSON and YAML write alike.
fn quoted(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn rules() -> String {
    let mut text =
        "# Alert rules for Prometheus, generated from crates/server/src/metrics/alerts.rs.\n\
                    # See docs/operations/metrics.md.\ngroups:\n  - name: sotto\n    rules:\n"
            .to_owned();
    for alert in alerts::ALL {
        let severity = if alert.pages { "page" } else { "ticket" };
        let runbook = format!("{RUNBOOKS}#{}", anchor(alert));
        let _ = write!(
            text,
            "      - alert: {}\n        expr: {}\n        for: {}\n        labels:\n          \
             severity: {severity}\n        annotations:\n          summary: {}\n          \
             runbook: {}\n",
            alert.name,
            quoted(alert.expression),
            alert.hold,
            quoted(alert.summary),
            quoted(&runbook),
        );
    }
    text
}

/// The queries of a panel, each with its legend, and the unit of Grafana.
fn queries(metric: &Metric) -> (Vec<(String, String)>, &'static str) {
    let name = metric.name;
    let labels = [&["instance"], metric.labels].concat();
    let legend: Vec<String> = labels.iter().map(|label| format!("{{{{{label}}}}}")).collect();
    let (by, legend) = (labels.join(", "), legend.join(" "));
    match (metric.kind, metric.unit) {
        (Kind::Counter, _) => {
            (vec![(format!("sum by ({by}) (rate({name}[$__rate_interval]))"), legend)], "ops")
        }
        (Kind::Histogram, _) => {
            let quantile = |quantile: &str| {
                let query = format!(
                    "histogram_quantile({quantile}, sum by (le, {by}) \
                     (rate({name}_bucket[$__rate_interval])))"
                );
                (query, format!("{legend} {quantile}"))
            };
            (vec![quantile("0.5"), quantile("0.99")], "s")
        }
        (Kind::Gauge, Unit::Time) => (vec![(format!("{name} * 1000"), legend)], "dateTimeFromNow"),
        (Kind::Gauge, Unit::Bytes) => (vec![(name.to_owned(), legend)], "bytes"),
        // It only grows.
        (Kind::Gauge, Unit::Seconds) => {
            (vec![(format!("rate({name}[$__rate_interval])"), legend)], "percentunit")
        }
        (Kind::Gauge, Unit::Count) => (vec![(name.to_owned(), legend)], "short"),
    }
}

/// How wide and high a panel is; a row has 24 columns.
const PANEL: (usize, usize) = (8, 8);

fn panel(metric: &Metric, id: usize, (x, y): (usize, usize)) -> Value {
    let (queries, unit) = queries(metric);
    let source = json!({ "type": "prometheus", "uid": "${source}" });
    let targets: Vec<Value> = queries
        .iter()
        .zip('A'..)
        .map(|((query, legend), id)| {
            json!({
                "refId": id.to_string(),
                "datasource": source,
                "expr": query,
                "legendFormat": legend,
            })
        })
        .collect();
    json!({
        "id": id,
        "type": "timeseries",
        "title": metric.name,
        "description": metric.help,
        "datasource": source,
        "gridPos": { "x": x, "y": y, "w": PANEL.0, "h": PANEL.1 },
        "fieldConfig": { "defaults": { "unit": unit, "min": null }, "overrides": [] },
        "options": { "legend": { "displayMode": "list", "placement": "bottom" } },
        "targets": targets,
    })
}

fn dashboard() -> String {
    let (mut panels, mut y) = (Vec::new(), 0);
    for (title, metrics) in groups() {
        panels.push(json!({
            "id": panels.len() + 1,
            "type": "row",
            "title": title,
            "collapsed": false,
            "gridPos": { "x": 0, "y": y, "w": 24, "h": 1 },
            "panels": [],
        }));
        y += 1;
        let per_row = 24 / PANEL.0;
        for (number, metric) in metrics.iter().enumerate() {
            let place = (number % per_row * PANEL.0, y + number / per_row * PANEL.1);
            panels.push(panel(metric, panels.len() + 1, place));
        }
        y += metrics.len().div_ceil(per_row) * PANEL.1;
    }
    let dashboard = json!({
        "uid": "sotto",
        "title": "Sotto",
        "description": "Generated from crates/server/src/metrics/table.rs.",
        "schemaVersion": 39,
        "version": 1,
        "editable": true,
        "refresh": "1m",
        "time": { "from": "now-24h", "to": "now" },
        "templating": { "list": [
            { "name": "source", "label": "Data source", "type": "datasource", "query": "prometheus" },
        ] },
        "panels": panels,
    });
    let mut text = serde_json::to_string_pretty(&dashboard).unwrap();
    text.push('\n');
    text
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn all_that_is_generated_from_the_metrics_is_current() {
    for (path, text) in [(METRICS_PAGE, metrics_page()), (DASHBOARD, dashboard()), (RULES, rules())]
    {
        let path = root().join(path);
        if std::env::var_os("SOTTO_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "{} is old, run: SOTTO_BLESS=1 cargo test -p sotto-server generated_from_the_metrics",
            path.display()
        );
    }
}

#[test]
fn each_alert_has_a_runbook() {
    let page = std::fs::read_to_string(root().join(RUNBOOKS)).unwrap();
    let sections: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let alerts: Vec<&str> = alerts::ALL.iter().map(|alert| alert.name).collect();
    assert_eq!(sections, alerts);
    for section in page.split("\n## ").skip(1) {
        for part in ["**Means:**", "**Check:**", "**Do:**"] {
            assert!(section.contains(part), "{part} is missing in {section}");
        }
    }
}

/// Every name is used once, ends as Prometheus wants it, and has the kind that its name says.
#[test]
fn names_follow_the_conventions() {
    let mut names = std::collections::BTreeSet::new();
    for metric in ALL {
        let name = metric.name;
        assert!(names.insert(name), "{name} twice");
        assert_eq!(metric.unit == Unit::Bytes, name.ends_with("_bytes"), "{name}");
        let is_counter = metric.kind == Kind::Counter || name == "process_cpu_seconds_total";
        assert_eq!(is_counter, name.ends_with("_total"), "{name}");
        if metric.unit == Unit::Time {
            assert!(name.ends_with("_seconds"), "{name}");
        }
    }
}

/// The rules are the subset of YAML that we write: keys, dashes, and texts in the quotes of JSON.
#[test]
fn the_rules_are_well_formed() {
    let mut alerts = 0;
    for line in rules().lines().filter(|line| !line.starts_with('#')) {
        let rest = line.trim_start().trim_start_matches("- ");
        let (key, value) = rest.split_once(':').unwrap();
        assert!(key.chars().all(|letter| letter.is_ascii_lowercase()), "{line}");
        let value = value.trim();
        if value.starts_with('"') {
            assert!(serde_json::from_str::<String>(value).is_ok(), "{line}");
        } else {
            assert!(value.chars().all(|letter| letter.is_ascii_alphanumeric()), "{line}");
        }
        alerts += usize::from(key == "alert");
    }
    assert_eq!(alerts, super::alerts::ALL.len());
}
