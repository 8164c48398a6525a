//! All metrics of all roles, once. Servers register from here; the tables in
//! `docs/operations/metrics.md`, the dashboard and the alert rules are made from it by a test.

use super::Role::{self, Attester, Gateway, Helper, Issuer, Leader, Log, Relay, Witness};

/// What a metric counts or measures.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    #[cfg_attr(not(test), allow(dead_code, reason = "the type of its handle says the same"))]
    pub(crate) kind: Kind,
    #[cfg_attr(not(test), allow(dead_code, reason = "for documents"))]
    pub(crate) unit: Unit,
    /// The names of its labels.
    pub(crate) labels: &'static [&'static str],
    #[cfg_attr(not(test), allow(dead_code, reason = "for documents"))]
    pub(crate) roles: &'static [Role],
    /// What it means, with the values of its labels.
    pub(crate) help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A number of things.
    Count,
    Bytes,
    Seconds,
    /// A point in time, in POSIX seconds.
    Time,
}

const EVERY: &[Role] = &[Leader, Helper, Log, Witness, Relay, Gateway, Attester, Issuer];
const AGGREGATORS: &[Role] = &[Leader, Helper];

/// Defines the metrics, and the list of all.
macro_rules! metrics {
    ($($kind:ident $unit:ident $id:ident $name:literal $labels:tt $roles:expr => $help:literal;)*) => {
        $(
            pub(crate) const $id: Metric = Metric {
                name: $name,
                kind: Kind::$kind,
                unit: Unit::$unit,
                labels: &$labels,
                roles: $roles,
                help: $help,
            };
        )*

        /// In the order of the documents.
        #[cfg(test)]
        pub(super) const ALL: &[Metric] = &[$($id),*];
    };
}

metrics! {
    Gauge Count READY "sotto_ready" [] EVERY
        => "1 if `/readyz` answers 200, else 0";
    Gauge Count REASONS "sotto_readiness_reasons" [] EVERY
        => "how many reasons `/readyz` gives, blocking or not";
    Counter Count HTTP_REQUESTS "sotto_http_requests_total" ["route", "status"] EVERY
        => "answered requests; `status` is the class: 2xx, 4xx, 5xx";
    Histogram Seconds HTTP_DURATION "sotto_http_request_duration_seconds" ["route"] EVERY
        => "from the head of a request to its response";
    Gauge Bytes MEMORY_LIMIT "sotto_memory_limit_bytes" [] EVERY
        => "the setting `max_memory_bytes`";
    Gauge Bytes MEMORY_HELD "sotto_memory_held_bytes" [] EVERY
        => "how much of it is held";
    Counter Count MEMORY_REFUSED "sotto_memory_refused_total" [] EVERY
        => "requests refused because `max_memory_bytes` was in use";
    Counter Count CONNECTIONS_REFUSED "sotto_connections_refused_total" [] EVERY
        => "connections closed at once: their source, or all together, had too many";
    Gauge Count BUILD_INFO "sotto_build_info" ["version"] EVERY
        => "1, with the version of the program";
    Gauge Time CERTIFICATE_EXPIRY "sotto_certificate_expiry_seconds" [] EVERY
        => "when the certificate expires; only with TLS";
    Gauge Bytes DISK_FREE "sotto_disk_free_bytes" [] EVERY
        => "free bytes on the disk of the data";
    Gauge Bytes DISK_SIZE "sotto_disk_size_bytes" [] EVERY
        => "the size of that disk";
    Gauge Time PROCESS_START "process_start_time_seconds" [] EVERY
        => "when the server started";
    Gauge Bytes PROCESS_MEMORY "process_resident_memory_bytes" [] EVERY
        => "memory that the process uses; on Linux, like the next three";
    Gauge Seconds PROCESS_CPU "process_cpu_seconds_total" [] EVERY
        => "processor time that it has used";
    Gauge Count PROCESS_FILES "process_open_fds" [] EVERY
        => "its open file descriptors";
    Gauge Count PROCESS_MAX_FILES "process_max_fds" [] EVERY
        => "how many it may have";

    Counter Count REPORTS_ACCEPTED "sotto_reports_accepted_total" [] &[Leader]
        => "reports acknowledged to devices";
    Counter Count REPORTS_REJECTED "sotto_reports_rejected_total" ["reason"] &[Leader]
        => "reports refused at upload";
    Counter Count COVER_DROPPED "sotto_cover_dropped_total" [] &[Leader]
        => "requests that only hide who answers";
    Counter Count UPLOADS_THROTTLED "sotto_uploads_throttled_total" [] &[Leader]
        => "uploads refused because of load";
    Gauge Bytes BACKLOG "sotto_backlog_bytes" [] &[Leader]
        => "reports not yet in a job";
    Gauge Bytes SEGMENTS "sotto_segment_bytes" [] &[Leader]
        => "reports in the store";
    Gauge Count JOBS_OPEN "sotto_aggregation_jobs_open" [] &[Leader]
        => "jobs not committed";
    Gauge Count JOBS_WAITING "sotto_aggregation_jobs_waiting" [] &[Leader]
        => "jobs that wait for a helper or an operator";
    Counter Count HELPER_ERRORS "sotto_helper_request_errors_total" ["reason"] &[Leader]
        => "requests that the helper did not answer with a result";
    Counter Count COLLECTIONS "sotto_collection_jobs_total" ["outcome"] &[Leader]
        => "collections: created, finished, failed, deleted, stopped";
    Gauge Count COLLECTIONS_OPEN "sotto_collection_jobs_open" [] &[Leader]
        => "collections not finished";

    Counter Count REPORTS_AGGREGATED "sotto_reports_aggregated_total" [] AGGREGATORS
        => "reports counted in a batch";
    Counter Count REPORTS_DROPPED "sotto_reports_dropped_total" ["reason"] AGGREGATORS
        => "acknowledged reports that were not counted (helper: refused in a job)";
    Counter Count JOBS "sotto_aggregation_jobs_total" ["outcome"] AGGREGATORS
        => "leader: formed, committed, abandoned, stopped; helper: committed, replayed, conflicted";
    Gauge Count CPU_POOL "sotto_cpu_pool_occupied" [] AGGREGATORS
        => "pieces of work that run or wait on the threads for cryptography";
    Counter Count LOG_READINGS "sotto_log_readings_total" ["outcome"] AGGREGATORS
        => "readings of the log, with recipes: read, unreachable, refused, forked, store";
    Gauge Count LOG_ENTRIES "sotto_log_entries" [] AGGREGATORS
        => "entries of the log, with recipes";
    Gauge Time LOG_WITNESSED "sotto_log_witnessed_time_seconds" [] AGGREGATORS
        => "when witnesses last saw the log, with recipes";
    Gauge Count RECIPES_OPEN "sotto_recipes_open" [] AGGREGATORS
        => "open recipes that name this operator, with recipes";
    Gauge Count RECIPES_SERVED "sotto_recipes_served" [] AGGREGATORS
        => "recipes that are served, with recipes";
    Gauge Count RECEIPTS_OWED "sotto_receipts_owed" [] AGGREGATORS
        => "receipts that are due and not in the log yet, with receipts";
    Counter Count RECEIPTS "sotto_receipts_total" ["outcome"] AGGREGATORS
        => "attempts to send one, with receipts: sent, failed";

    Counter Count SHARES "sotto_aggregate_shares_total" ["outcome"] &[Helper]
        => "aggregate shares: collected, replayed, conflicted";

    Counter Count GATEWAY_REQUESTS "sotto_gateway_requests_total" ["outcome"] &[Leader, Log, Gateway]
        => "with a gateway: answered; refused in clear: unread, unknown_key, unopened; refused inside: malformed, date, replayed, full, misdirected, unanswered; unremembered: answered while `max_remembered` were remembered";

    Counter Count LOG_SUBMISSIONS "sotto_log_submissions_total" ["outcome"] &[Log]
        => "entries that were submitted: appended, known (already there), refused";
    Counter Count LOG_WITNESS_REQUESTS "sotto_log_witness_requests_total" ["outcome"] &[Log]
        => "requests to witnesses: cosigned, failed";
    Counter Count LOG_CHECKPOINTS "sotto_log_checkpoints_total" [] &[Log]
        => "published checkpoints, renewed ones included";
    Gauge Count LOG_SIZE "sotto_log_size" [] &[Log]
        => "entries in the published tree";
    Gauge Time LOG_CHECKPOINT_TIME "sotto_log_checkpoint_timestamp_seconds" [] &[Log]
        => "when the last checkpoint was published";

    Counter Count WITNESS_REQUESTS "sotto_witness_requests_total" ["outcome"] &[Witness]
        => "requests for a cosignature: cosigned, conflict, refused";

    Gauge Count RELAY_HELD "sotto_relay_held_requests" [] &[Relay]
        => "requests that wait for others";
    Counter Count RELAY_POOLS "sotto_relay_pools_total" ["reason"] &[Relay]
        => "pools that were sent on: full, waited, drain";
    Counter Count RELAY_EXCHANGES "sotto_relay_exchanges_total" ["outcome"] &[Relay]
        => "requests that were sent on: answered, unreachable, late, broken (the response was cut short), foreign (what responds there is no gateway)";
    Counter Count RELAY_SPOOLED "sotto_relay_spooled_total" [] &[Relay]
        => "bodies that waited in a file";
    Counter Count RELAY_LIMITED "sotto_relay_source_limited_total" [] &[Relay]
        => "requests refused because their source had sent too many";

    Counter Count ATTESTER_GRANTED "sotto_attester_granted_total" [] &[Attester]
        => "tokens passed on";
    Counter Count ATTESTER_REPEATED "sotto_attester_repeated_total" [] &[Attester]
        => "responses given again";
    Counter Count ATTESTER_REFUSED "sotto_attester_refused_total" ["reason"] &[Attester]
        => "requests that got no token, by check; the page of the attester lists them";
    Counter Count ATTESTER_BATCHES "sotto_attester_batches_total" [] &[Attester]
        => "messages to issuers";
    Counter Count ATTESTER_BATCHED "sotto_attester_batched_total" [] &[Attester]
        => "requests in them";

    Counter Count ISSUER_ISSUED "sotto_issuer_issued_total" [] &[Issuer]
        => "tokens signed. Nothing is counted by recipe";
    Counter Count ISSUER_REFUSED "sotto_issuer_refused_total" ["reason"] &[Issuer]
        => "requests refused, by check; the page of the issuer lists them";
    Counter Count ISSUER_KEYS_MADE "sotto_issuer_keys_made_total" [] &[Issuer]
        => "token keys made";
    Counter Count ISSUER_KEYS_DELETED "sotto_issuer_keys_deleted_total" [] &[Issuer]
        => "token keys deleted after their expiry";
    Gauge Count ISSUER_KEYS "sotto_issuer_keys" [] &[Issuer]
        => "token keys that are stored";
}
