//! The demo of the whole system: a recipe in a witnessed log, and devices that check it, pay for it
//! and toss a coin.
//!
//! Every simulated device runs the same engine as a real one, with its state in memory. The devices
//! share what depends only on the recipe, which is safe because they run in one process.

mod audience;
mod fleet;
mod parties;
mod recipe;

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use indicatif::HumanBytes;
use sotto_client::query_result::{Coordinates, Row};
use sotto_client::{Collected, QueryResult};
use sotto_protocol::recipe::{Assessment, show_micro};
use sotto_wire::recipe::{Noise, Randomizer, Recipe};

use self::fleet::Turnout;
use self::parties::Parties;
use super::collecting::{batch, collect, wait_until_summed};
use super::result::{DemoRecipe, DemoReports, DemoResult, DemoSize, DemoTokens};
use super::{Explanation, Plan, truth};
use crate::output::Output;
use crate::recipe::examine::{Guarantee, guarantee};
use crate::stage::KEY_SETS;
use crate::stage::operators::WITNESSES;
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
    let (parties, turnout, batch_collected) = collected(plan, output)?;
    let (assessment, accepted) = (&parties.assessment, turnout.accepted as u64);
    let recipe = Some((assessment.recipe(), Some(parties.log_index)));
    let collected = QueryResult::new(assessment.task(), recipe, &batch_collected)?;
    let truths = truth::buckets(&plan.question);
    let coordinates = collected.meaning.as_ref().and_then(|meaning| meaning.coordinates.clone());
    let (buckets, coordinates) = match coordinates {
        Some(coordinates) => (Vec::new(), Some(Coordinates { truths, ..coordinates })),
        None => {
            let buckets = collected.buckets().into_iter().zip(&plan.question.labels);
            let buckets = buckets.map(|(row, label)| Row { label: label.clone(), ..row });
            (beside(buckets.collect(), truths), None)
        }
    };
    let statistics = collected.meaning.iter().flat_map(|meaning| meaning.statistics.clone());
    let statistics = statistics.collect();
    let result = DemoResult {
        devices: plan.devices(),
        participated: accepted,
        min_batch: plan.min_batch_size,
        batches: vec![batch(assessment.task(), &batch_collected)],
        buckets,
        coordinates,
        statistics: beside(statistics, truth::statistics(&plan.question)),
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
    let targeted = assessment.recipe().who.targeting.is_some();
    let caveats = CAVEATS.iter().copied().chain(targeted.then_some(audience::CAVEAT)).collect();
    let explanation = Explanation { saw: saw(plan, &parties, &result, &turnout), caveats };
    parties.stop();
    Ok((result, explanation))
}

/// The result, and the recipe that the devices were asked.
pub(crate) fn result(plan: &Plan, output: &Output) -> Result<(Assessment, QueryResult)> {
    let (parties, _, batch) = collected(plan, output)?;
    let assessment = parties.assessment.clone();
    let recipe = Some((assessment.recipe(), Some(parties.log_index)));
    let result = QueryResult::new(assessment.task(), recipe, &batch)?;
    parties.stop();
    Ok((assessment, result))
}

/// Starts all parties, lets the devices answer, and collects.
fn collected(plan: &Plan, output: &Output) -> Result<(Parties, Turnout, Collected)> {
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
    let collected = collect(&parties.collector()?, moment, output)?;
    Ok((parties, turnout, collected))
}

/// Estimates with the true values beside them.
fn beside(rows: Vec<Row>, truth: Vec<f64>) -> Vec<Row> {
    rows.into_iter().zip(truth).map(|(row, truth)| Row { truth: Some(truth), ..row }).collect()
}

fn privacy(parties: &Parties) -> Result<Option<Guarantee>> {
    let assessment = &parties.assessment;
    guarantee(assessment.recipe(), None, assessment.cost().map(|cost| cost.judgement))
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
    let recipe = assessment.recipe();
    let audience = recipe.who.targeting.as_ref().map_or("", |_| ", the size of its audience");
    let sampling = &recipe.sampling;
    let coin = match sampling.default_rate {
        None => format!("a coin ({})", sampling.rate),
        Some(default) => {
            format!("a coin ({default} with the default value, {} with others)", sampling.rate)
        }
    };
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
                "one recipe{} and {} key sets, cosigned by {} witnesses; it sees that they are read, but not by whom",
                audience,
                KEY_SETS,
                WITNESSES.len()
            ),
        ),
        ("device", format!("checked the recipe, {paid}, then tossed {coin}")),
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
                "two sealed sums of {} numbers over {} {}; below {} reports, nothing",
                result.collected.sums.as_slice().len(),
                result.reports.accepted,
                answers(recipe),
                plan.min_batch_size
            ),
        ),
    ]
}

/// What is summed, and what hides each answer.
fn answers(recipe: &Recipe) -> String {
    match (&recipe.randomizer, &recipe.noise) {
        (_, Some(Noise::ServerGaussian { sigma_micro })) => {
            let sigma = show_micro(*sigma_micro);
            format!("answers, with noise of leader and helper (sigma {sigma} each)")
        }
        (Randomizer::None, None) => "exact answers".to_owned(),
        _ => "randomized answers".to_owned(),
    }
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
