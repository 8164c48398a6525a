//! The demo of the whole system: a recipe in a witnessed log, and devices that check it, pay for it
//! and toss a coin.
//!
//! Every simulated device runs the same engine as a real one, with its state in memory. The devices
//! share what depends only on the recipe, which is safe because they run in one process.

mod carried;
mod fleet;
mod operators;
mod parties;
mod recipe;
mod tokens;

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use indicatif::HumanBytes;
use sotto_client::QueryResult;
use sotto_client::query_result::Row;
use sotto_dp::mechanism::Value as Answer;
use sotto_protocol::recipe::{Assessment, show_micro};

use self::fleet::Turnout;
use self::operators::WITNESSES;
use self::parties::Parties;
use super::collecting::{batch, collect, wait_until_summed};
use super::result::{DemoRecipe, DemoReports, DemoResult, DemoSize, DemoTokens};
use super::{Explanation, Plan};
use crate::output::Output;
use crate::recipe::examine::{Guarantee, guarantee};
use crate::time_text::now;

const CAVEATS: &[&str] = &[
    "The recipe counts at once (insecure_no_min_age), for devices without history (insecure_fresh_start); real ones wait a day, and a period.",
    "Devices read, request tokens, decide and send at once; real ones do so at random times over days, so that nothing can be linked.",
    "The result is released at once (insecure_early_release); real aggregators wait for the end of its interval, and half a day more.",
    "The devices share a few readings of the log; each real one reads it on its own, with about six requests.",
    "The relay holds requests for 30 ms; a real one waits ten seconds for more to mix them with.",
    "Here all parties share one process. Relay, both attesters, both issuers, leader, helper, log and witnesses must be different operators.",
];

/// Runs the demo.
pub(super) fn run(plan: &Plan, output: &Output) -> Result<(DemoResult, Explanation)> {
    let started = Instant::now();
    // One time for all devices, so that they are all in the same hour.
    let moment = now()?;
    let parties = Parties::start(plan, moment, output).context("cannot start the servers")?;
    let turnout = fleet::run(plan, &parties, moment, output)?;
    let accepted = turnout.accepted as u64;
    ensure!(
        accepted >= plan.min_batch_size,
        "{accepted} devices took part, {} are needed: nothing is released (this happens less than once in \
         ten million runs); run it again",
        plan.min_batch_size
    );
    wait_until_summed(accepted, output, || parties.summed())?;
    let batch_collected = collect(&parties.collector()?, moment, output)?;
    let assessment = &parties.assessment;
    let recipe = Some((assessment.recipe(), Some(parties.log_index)));
    let collected = QueryResult::new(assessment.task(), recipe, &batch_collected)?;
    let result = DemoResult {
        devices: plan.devices(),
        participated: accepted,
        min_batch: plan.min_batch_size,
        batches: vec![batch(assessment.task(), &batch_collected)],
        buckets: buckets(plan, assessment, &collected),
        reports: DemoReports { accepted: collected.count, rejected: parties.rejections()? },
        recipe: Some(DemoRecipe {
            recipe_id: parties.assessment.id().to_string(),
            index: parties.log_index,
            rate: parties.assessment.recipe().sampling.rate.to_f64(),
        }),
        privacy: privacy(&parties)?,
        relay: parties.carried(),
        tokens: Some(DemoTokens { granted: turnout.tokens as u64 }),
        elapsed_s: (started.elapsed().as_secs_f64() * 1_000.0).round() / 1_000.0,
        collected,
    };
    let explanation = Explanation { saw: saw(plan, &parties, &result, &turnout), caveats: CAVEATS };
    parties.stop();
    Ok((result, explanation))
}

/// The estimates, with what the devices hold beside them.
fn buckets(plan: &Plan, assessment: &Assessment, collected: &QueryResult) -> Vec<Row> {
    let held = plan.question.labels.iter().zip(truth(plan, assessment));
    let row = |(row, (label, truth)): (Row, (&String, u64))| Row {
        label: label.clone(),
        truth: Some(truth),
        ..row
    };
    collected.buckets().into_iter().zip(held).map(row).collect()
}

/// What the devices hold, before sampling and noise.
fn truth(plan: &Plan, assessment: &Assessment) -> Vec<u64> {
    let mut truth = vec![0; plan.question.labels.len()];
    for (kind, count) in plan.question.kinds.iter().zip(plan.of_each_kind()) {
        let held = match assessment.answer(kind) {
            Answer::Bit(yes) => vec![(0, u64::from(yes))],
            Answer::Number(number) => vec![(0, number)],
            Answer::OneHot(bucket) => vec![(bucket as usize, 1)],
            Answer::Labels(labels) => labels.iter().map(|label| (*label as usize, 1)).collect(),
        };
        for (index, each) in held {
            if let Some(total) = truth.get_mut(index) {
                *total += each * count;
            }
        }
    }
    truth
}

fn privacy(parties: &Parties) -> Result<Option<Guarantee>> {
    let assessment = &parties.assessment;
    guarantee(assessment.recipe(), assessment.cost().map(|cost| cost.judgement))
}

/// One line for each party, from what was measured.
fn saw(
    plan: &Plan,
    parties: &Parties,
    result: &DemoResult,
    turnout: &Turnout,
) -> Vec<(&'static str, String)> {
    let assessment = &parties.assessment;
    let sizes = assessment.task().vdaf().sizes();
    let (reports, devices) = (result.participated, result.devices);
    let rate = assessment.recipe().sampling.rate;
    let paid = match assessment.cost() {
        Some(cost) => {
            let epsilon = show_micro(cost.epsilon_micro);
            format!("computed epsilon {epsilon} for itself, charged its budget")
        }
        None => "found that it promises nothing (insecure_exact allows it)".to_owned(),
    };
    vec![
        (
            "log",
            format!(
                "one recipe and {} key sets, cosigned by {} witnesses; it sees that they are read, but not by whom",
                parties.key_sets,
                WITNESSES.len()
            ),
        ),
        ("device", format!("checked the recipe, {paid}, then tossed a coin ({rate})")),
        ("attester A", attested(parties, 0, devices)),
        ("issuer A", issued(parties, 0, "leader")),
        ("attester B", attested(parties, 1, devices)),
        ("issuer B", issued(parties, 1, "helper")),
        (
            "relay",
            format!(
                "devices' addresses, and {}; not their contents, nor which {} are cover",
                sealed(parties),
                turnout.cover
            ),
        ),
        (
            "leader",
            format!(
                "{reports} reports of {devices} devices, {}, no address: half of each, random numbers \
                 without the other half",
                HumanBytes(turnout.bytes)
            ),
        ),
        (
            "helper",
            format!("{reports} shares of {} bytes, from the leader alone", sizes.helper_share),
        ),
        (
            "collector",
            format!(
                "two sealed sums of {} numbers over {} randomized answers; below {} reports, nothing",
                plan.question.labels.len(),
                result.reports.accepted,
                plan.min_batch_size
            ),
        ),
    ]
}

/// What an attester could count.
fn attested(parties: &Parties, chain: usize, devices: u64) -> String {
    format!(
        "{devices} device certificates, and {} token requests, one per device; it cannot read which recipe they are for",
        asked(parties, chain)
    )
}

/// What an issuer could count.
fn issued(parties: &Parties, chain: usize, role: &str) -> String {
    let asked = asked(parties, chain);
    format!(
        "{asked} requests for {role} tokens of this recipe, but not from whom; it signed {asked} and saw none"
    )
}

fn asked(parties: &Parties, chain: usize) -> u64 {
    parties.to_attesters[chain].lengths().values().sum()
}

/// What the relay could count.
fn sealed(parties: &Parties) -> String {
    let carried = parties.carried();
    let shown = |size: &DemoSize| format!("{} of {}", size.requests, HumanBytes(size.bytes as u64));
    let sizes: Vec<String> = carried.iter().map(shown).collect();
    let total: u64 = carried.iter().map(|size| size.requests).sum();
    format!("{total} sealed requests: {}", sizes.join(", "))
}
