//! The demo of plain DAP: every device takes part, no noise is added, and the result is exact.
//!
//! Its contract is fixed, however the demo without `--exact` changes: no coin, noise, token or
//! relay; `true` = `estimate` = both ends of the interval.

mod parties;

use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use indicatif::HumanBytes;
use sotto_client::query_result::Row;
use sotto_client::{Collected, QueryResult, Uploader};
use sotto_protocol::Moment;
use sotto_vdaf::Measurement;

use self::parties::Parties;
use super::collecting::{batch, collect, wait_until_summed};
use super::result::{DemoReports, DemoResult};
use super::{Explanation, Plan, truth};
use crate::output::Output;
use crate::time_text::now;
use crate::upload::Tally;
use crate::workers::{lock, work};

/// Devices that talk to the leader at the same time.
const DEVICES_AT_ONCE: usize = 16;

const CAVEATS: &[&str] = &[
    "The counts are exact. No noise hides a device that is alone with its word.",
    "Every device takes part, and the leader sees its address: no sampling, no relay.",
    "Nothing keeps a device from reporting twice: no tokens.",
    "Here all parties share one process. Leader and helper must be two operators who do not collude.",
];

/// Runs the demo.
pub(super) fn run(plan: &Plan, output: &Output) -> Result<(DemoResult, Explanation)> {
    let started = Instant::now();
    let parties = Parties::start(plan).context("cannot start the servers")?;
    // One time for all devices, so that they are all in the same hour.
    let moment = now()?;
    let uploads = upload(plan, &parties, moment, output)?;
    wait_until_summed(uploads.accepted, output, || {
        let counters = parties.counters(&parties.leader_store)?;
        Ok(counters.aggregated + counters.rejections.total())
    })?;
    let collected = collect(&parties.collector()?, moment, output)?;
    let mut rejected = uploads.rejected;
    for (reason, count) in parties.counters(&parties.leader_store)?.rejections.iter() {
        *rejected.entry(reason.name().to_owned()).or_default() += count;
    }
    let result = DemoResult {
        devices: plan.devices(),
        participated: plan.devices(),
        min_batch: plan.min_batch_size,
        batches: vec![batch(parties.task(), &collected)],
        buckets: buckets(plan, &collected)?,
        coordinates: None,
        statistics: Vec::new(),
        reports: DemoReports { accepted: collected.collection.report_count, rejected },
        recipe: None,
        privacy: None,
        relay: Vec::new(),
        tokens: None,
        elapsed_s: (started.elapsed().as_secs_f64() * 1_000.0).round() / 1_000.0,
        collected: QueryResult::new(parties.task(), None, &collected)?,
    };
    let explanation = Explanation {
        saw: saw(plan, &parties, &result, uploads.bytes)?,
        caveats: CAVEATS.to_vec(),
    };
    parties.stop();
    Ok((result, explanation))
}

/// Each device makes its report and uploads it.
fn upload(plan: &Plan, parties: &Parties, moment: Moment, output: &Output) -> Result<Tally> {
    let device = Uploader::new(parties.task().clone(), parties.transport.clone());
    let uploads = Mutex::new(Tally::default());
    let bar = output.bar("devices", plan.devices());
    let measurements = plan.question.held.iter().map(|bucket| Ok(Measurement::Histogram(*bucket)));
    work(measurements, DEVICES_AT_ONCE, &bar, |measurement, rng| {
        let report = device.prepare(&measurement, moment, rng)?;
        let outcomes = device.upload(std::slice::from_ref(&report), rng)?;
        lock(&uploads).add(&report, outcomes);
        Ok(())
    })
    .context("the devices could not upload")?;
    bar.finish();
    Ok(uploads.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn buckets(plan: &Plan, collected: &Collected) -> Result<Vec<Row>> {
    let truth = truth::buckets(&plan.question);
    let values = collected.collection.result.as_slice();
    ensure!(values.len() == truth.len(), "the result has {} buckets", values.len());
    let row = |((label, truth), value): ((&String, f64), &i128)| Row {
        truth: Some(truth),
        ..Row::exact(label, *value as f64)
    };
    Ok(plan.question.labels.iter().zip(truth).zip(values).map(row).collect())
}

/// One line for each party, from what was measured.
fn saw(
    plan: &Plan,
    parties: &Parties,
    result: &DemoResult,
    bytes: u64,
) -> Result<Vec<(&'static str, String)>> {
    let reports = result.devices;
    let helper = parties.counters(&parties.helper_store)?;
    let sizes = parties.task().vdaf().sizes();
    Ok(vec![
        (
            "device",
            format!(
                "its own word. Its report, {} bytes, is as long as all others",
                bytes.checked_div(reports).unwrap_or(0)
            ),
        ),
        (
            "leader",
            format!(
                "{reports} reports, {}: half of each, random numbers without the other half, and the \
                 addresses they came from",
                HumanBytes(bytes)
            ),
        ),
        (
            "helper",
            format!(
                "{} shares of {} bytes, from the leader alone: the other half",
                helper.aggregated, sizes.helper_share
            ),
        ),
        (
            "collector",
            format!(
                "two sealed sums of {} numbers over {} reports; below {} reports, nothing",
                plan.question.labels.len(),
                result.reports.accepted,
                plan.min_batch_size
            ),
        ),
    ])
}
