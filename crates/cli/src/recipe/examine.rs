//! Every check that a device can make on a recipe without the log, with its reason, and what the
//! recipe guarantees.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::{Serialize, Serializer};
use sotto_dp::crowd::Crowd;
use sotto_dp::filter::{Affordable, Budget, Filter};
use sotto_dp::mechanism::Colluding;
use sotto_dp::number::{down, up, up_short};
use sotto_dp::projection::Projection;
use sotto_dp::published;
use sotto_dp::recipe::Judgement;
use sotto_protocol::admission::{Check, Silence};
use sotto_protocol::recipe::{
    Assessment, Cost, Side, Sides, colluding, derive_vdaf, judgement_of, judgement_to_claim,
    mechanism, needs_audience, sending_epsilon, set_claim, show_micro, sides,
};
use sotto_protocol::trust::{Floors, Trust};
use sotto_wire::recipe::{Privacy, Probability, Query, Randomizer, VectorQuery};
use sotto_wire::{Recipe, Role};

use super::example::{Example, examples};
use super::plan::expected::{self, Expected};
use super::series::{self, Rounds};
use super::words::{self, grouped};
use crate::output::Place;
use crate::recipe_file::{Loaded, NO_PARTIES};
use crate::task::recipe_report_bytes;
use crate::vocabulary::{self, Epsilon};

/// An attacker is assumed to be able to buy fewer attested devices than this.
const CHEAP_DEVICES: u64 = 1_000;

/// Recipes that close within this time get a warning.
const SOON_S: u64 = 86_400;

/// A day until devices may know it, and another one until they have their tokens.
const LEAD_S: u64 = 2 * 86_400;

/// Token keys that expire sooner than this after the recipe closes get a warning: reports may
/// arrive late, and jobs wait while a helper is down.
const TOKEN_GRACE_S: u64 = 86_400;

/// The reason shown if the parties pass.
const OPERATORS: &str = "leader and helper are pinned, and no two parties have the same operator";

/// The outcome of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// A device continues.
    Ok,
    /// A device stays silent.
    #[serde(rename = "bad")]
    Failed,
    /// It cannot be decided here.
    Unknown,
}

/// One check and its reason.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    pub(super) check: &'static str,
    #[serde(rename = "verdict")]
    pub(super) status: Status,
    pub(super) reason: String,
    /// What the reason is about.
    #[serde(skip)]
    pub(super) place: Option<Place>,
}

/// What a recipe promises and what it gives.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Guarantee {
    #[serde(rename = "epsilon", serialize_with = "vocabulary::epsilon")]
    pub(crate) claimed_epsilon: f64,
    #[serde(serialize_with = "vocabulary::probability")]
    pub(crate) delta: Probability,
    adjacency: &'static str,
    /// How many devices, in total, may be dishonest: half of the minimum batch.
    pub(crate) dishonest_devices: u64,
    /// What the device computes: half of a batch honest, the count seen, the worst population.
    #[serde(serialize_with = "vocabulary::epsilon")]
    pub(super) computed_epsilon: f64,
    /// The probability with which devices that do not answer send cover.
    #[serde(serialize_with = "vocabulary::probability")]
    pub(super) cover: Probability,
    /// What a relay learns from who sends something, if the rate depends on the answer.
    #[serde(serialize_with = "vocabulary::epsilon")]
    pub(super) sending_epsilon: f64,
    /// The paper's model: all honest, the count hidden, exactly the minimum batch.
    #[serde(serialize_with = "vocabulary::epsilon")]
    pub(crate) paper_epsilon: f64,
    /// The randomizer alone.
    #[serde(serialize_with = "vocabulary::epsilon_or_inf")]
    pub(crate) local_epsilon: Option<f64>,
    /// Both aggregators collude.
    pub(super) colluding: Option<Colluding>,
    /// Who hides a device then.
    #[serde(skip)]
    pub(super) asked: &'static str,
}

/// What one device sends.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Contribution {
    pub(super) vdaf: serde_json::Value,
    pub(super) report_bytes: usize,
    pub(super) keep_probability: Option<f64>,
    /// With noise on vectors: the two ways of adding it, with the same guarantee.
    #[serde(flatten)]
    pub(super) sides: Option<NoiseSides>,
    /// If vectors are projected: the root mean square error of a coordinate of the sum from the
    /// projection, in units of the norm of the sum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) projection_error: Option<f64>,
    /// Whether the device adds its part of a noise.
    #[serde(skip)]
    pub(super) is_noisy: bool,
    /// What the mechanism does to a value, in words.
    #[serde(skip)]
    pub(super) effect: String,
    pub(super) examples: Vec<Example>,
}

/// Two ways of adding noise with the same guarantee.
#[derive(Clone, Debug, Serialize)]
pub(super) struct NoiseSides {
    pub(super) noise_of_devices: NoiseSide,
    pub(super) noise_of_aggregators: NoiseSide,
    #[serde(skip)]
    pub(super) is_rho_large: bool,
}

/// What one way costs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct NoiseSide {
    /// Standard deviation of the noise in one number of the sum over the expected reports.
    pub(super) noise_error: f64,
    /// The same for the mean, if the recipe asks for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) noise_error_of_mean: Option<f64>,
    /// The largest norm that is accepted, in units of that of an honest value.
    pub(super) rho: f64,
    /// The same in units of the sum: what one cheating device can add.
    pub(super) device_adds: f64,
    pub(super) report_bytes: usize,
}

/// The whole examination.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Examination {
    pub(super) ok: bool,
    pub(super) name: String,
    #[serde(rename = "recipe_id")]
    pub(super) id: Option<String>,
    /// By name and by key.
    pub(super) author: Option<String>,
    pub(super) author_key: Option<String>,
    pub(super) signed: bool,
    pub(super) checks: Vec<Line>,
    #[serde(serialize_with = "or_no_promise")]
    pub(super) privacy: Option<Guarantee>,
    pub(super) contribution: Option<Contribution>,
    /// Absent if there is only one round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) series: Option<Rounds>,
    pub(super) crowd: Crowd,
    /// The errors to expect; empty if that depends on what is not known.
    pub(super) expected_errors: Vec<Expected>,
    #[serde(skip)]
    pub(super) of_which_round: &'static str,
    /// When an aggregator releases a batch.
    pub(super) release_rules: Vec<String>,
    pub(super) warnings: Vec<String>,
    /// Whether a device would refuse it only because it has no parties yet.
    #[serde(skip)]
    pub(super) only_parties_missing: bool,
    /// Whether there is no trust file, and the default floors refuse it.
    #[serde(skip)]
    pub(super) refused_by_default: bool,
}

/// Examines a recipe at `now`, in POSIX seconds.
pub(super) fn examine(loaded: &Loaded, trust: Option<&Trust>, now: u64) -> Result<Examination> {
    let recipe = &loaded.recipe;
    let mut found = Findings::default();
    found.ok(Check::Canonical, "it follows the rules of the format");
    match (&loaded.entry, loaded.author_known) {
        (Some(_), _) => {
            found.ok(Check::AuthorSignature, format!("signed by {}", recipe.author.name))
        }
        (None, _) => found.unknown(Check::AuthorSignature, "it is not signed yet"),
    }
    let judged = judgement_of(recipe, loaded.audience);
    let assessment = assess(recipe, loaded.audience, &mut found);
    token_keys(loaded, trust, &mut found);
    if let Some(assessment) = &assessment {
        limits(assessment, trust, &mut found);
    }
    if !loaded.parties_known {
        found.failed(Silence { check: Check::Operators, reason: NO_PARTIES.to_owned() });
    }
    open(recipe, now, &mut found);
    if recipe.series.is_none() {
        found.ok(Check::Round, "it has one round");
    }
    match recipe.series.as_ref().is_some_and(|series| series.has_files()) {
        true => found.unknown(Check::Model, "depends on the device"),
        false => found.ok(Check::Model, "it trains no model"),
    }
    let mut checks = found.lines(trust.is_some());
    for line in checks.iter_mut().filter(|line| line.status == Status::Failed) {
        (line.reason, line.place) = loaded.located(&line.reason);
    }
    let crowd = series::crowd_of_round(recipe, loaded.audience);
    let contribution = assessment.as_ref().map(contribution).transpose()?;
    let mut warnings = warnings(loaded, &crowd, now);
    warnings.extend(rho_warning(contribution.as_ref()));
    warnings.extend(compression_warning(recipe, contribution.as_ref())?);
    let expected_errors = expected::of(recipe, loaded.audience);
    warnings.extend(expected_errors.first().and_then(Expected::warning));
    let refused_by_default =
        |assessment: &Assessment| trust.is_none() && Floors::check_by_default(assessment).is_err();
    let refused_by_default = assessment.as_ref().is_some_and(refused_by_default);
    let mut failed = checks.iter().filter(|line| line.status == Status::Failed);
    let only_operators = failed.all(|line| line.check == Check::Operators.name());
    Ok(Examination {
        ok: checks.iter().all(|line| line.status != Status::Failed),
        name: recipe.name.clone(),
        id: loaded.id_known().then(|| recipe.id().to_string()),
        author: loaded.author_known.then(|| recipe.author.name.to_string()),
        author_key: loaded.author_known.then(|| recipe.author.verifier().to_string()),
        signed: loaded.entry.is_some(),
        checks,
        privacy: guarantee(recipe, loaded.audience, judged.ok().flatten())?,
        contribution,
        series: Rounds::of(loaded, trust),
        of_which_round: series::of_which_round(recipe),
        release_rules: words::release_rules(recipe),
        warnings,
        only_parties_missing: !loaded.parties_known && only_operators,
        refused_by_default,
        crowd,
        expected_errors,
    })
}

/// Whoever looks for an epsilon below some limit must not find one where nothing is promised.
fn or_no_promise<S: Serializer>(found: &Option<Guarantee>, s: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct NoPromise {
        epsilon: Epsilon,
    }
    match found {
        Some(found) => found.serialize(s),
        None => NoPromise { epsilon: Epsilon(f64::INFINITY) }.serialize(s),
    }
}

impl Examination {
    /// Records a check that failed when the log was asked.
    pub(super) fn fail(&mut self, silence: Silence) {
        let name = silence.check.name();
        for line in self.checks.iter_mut().filter(|line| line.check == name) {
            (line.status, line.reason) = (Status::Failed, silence.reason.clone());
        }
        self.ok = false;
    }
}

/// Collects what is known about each check.
#[derive(Default)]
struct Findings(BTreeMap<Check, (Status, String)>);

impl Findings {
    fn ok(&mut self, check: Check, reason: impl Into<String>) {
        self.0.entry(check).or_insert((Status::Ok, reason.into()));
    }

    fn unknown(&mut self, check: Check, reason: impl Into<String>) {
        self.0.entry(check).or_insert((Status::Unknown, reason.into()));
    }

    fn failed(&mut self, silence: Silence) {
        self.0.insert(silence.check, (Status::Failed, silence.reason));
    }

    fn lines(mut self, trusted: bool) -> Vec<Line> {
        let lines = Check::ALL.into_iter().map(|check| {
            let (status, reason) = self
                .0
                .remove(&check)
                .unwrap_or_else(|| (Status::Unknown, why_unknown(check, trusted).to_owned()));
            Line { check: check.name(), status, reason, place: None }
        });
        lines.collect()
    }
}

fn why_unknown(check: Check, trusted: bool) -> &'static str {
    match check {
        Check::FreshState | Check::Once | Check::Token | Check::Conditions => {
            "depends on the device"
        }
        Check::Operators
        | Check::Floors
        | Check::Targeting
        | Check::Claim
        | Check::Ledger
        | Check::Lifetime
            if trusted =>
        {
            "an earlier check failed"
        }
        Check::Operators | Check::Floors | Check::Ledger | Check::Lifetime => "needs --trust",
        Check::Derivation | Check::Targeting | Check::Claim => "an earlier check failed",
        Check::KeySets => "needs the log: `recipe publish --trust` compares the aggregators' URLs",
        _ => "needs the log: `sotto log verify`",
    }
}

/// The assessment. A recipe whose only fault is a claim that is too low is assessed with the
/// correct claim, so that the other checks are shown too.
fn assess(recipe: &Recipe, audience: Option<u64>, found: &mut Findings) -> Option<Assessment> {
    let repaired = || {
        let mut repaired = recipe.clone();
        let judgement = judgement_to_claim(recipe, audience).ok()??;
        let Privacy::Claim { adjacency, .. } = &mut repaired.privacy else {
            return None;
        };
        *adjacency = match judgement.adjacency {
            sotto_dp::Adjacency::Replace => sotto_wire::recipe::Adjacency::Replace,
            _ => sotto_wire::recipe::Adjacency::AddRemove,
        };
        set_claim(&mut repaired, published(judgement.epsilon).ok()?).ok()?;
        Assessment::certified(repaired, audience).ok()
    };
    let assessment = match Assessment::certified(recipe.clone(), audience) {
        Ok(assessment) => Some(assessment),
        Err(silence) => {
            let only_the_claim = silence.check == Check::Claim;
            found.failed(silence);
            if only_the_claim { repaired() } else { None }
        }
    }?;
    found.ok(Check::Derivation, "task, VDAF and expressions follow from the recipe");
    match assessment.predicate() {
        None => found.ok(Check::Targeting, "it asks all devices"),
        Some(_) => found.unknown(Check::Targeting, "its certified population is in the log"),
    }
    found.ok(
        Check::Claim,
        match assessment.cost() {
            Some(cost) => format!("the device computes epsilon {}", show_micro(cost.epsilon_micro)),
            None => "it claims no privacy, so there is nothing to compute".to_owned(),
        },
    );
    Some(assessment)
}

/// Who checks tokens, and whether the pinned issuers endorsed the keys.
fn token_keys(loaded: &Loaded, trust: Option<&Trust>, found: &mut Findings) {
    if !loaded.parties_known {
        return found.unknown(Check::TokenKeys, "nobody is named who checks tokens yet");
    }
    let who = words::tokens(&loaded.recipe.parties.tokens);
    let Some(trust) = trust else {
        return found.unknown(Check::TokenKeys, format!("{who}; needs --trust"));
    };
    // An endorsement names the author, but a draft may have only a placeholder for it.
    let endorsed = loaded.author_known || loaded.recipe.parties.tokens.key(Role::Leader).is_none();
    let checked = match loaded.token_keys_known && endorsed {
        true => trust.check_token_keys(&loaded.recipe),
        false => trust.check_token_terms(&loaded.recipe),
    };
    match checked {
        Err(silence) => found.failed(silence),
        Ok(()) if loaded.token_keys_known && endorsed => found.ok(Check::TokenKeys, who),
        Ok(()) if loaded.token_keys_known => {
            let reason = "not checked, because the author is not known yet; it is checked when you publish with --trust";
            found.unknown(Check::TokenKeys, reason);
        }
        Ok(()) => {
            let reason =
                format!("{who}; its keys are missing: get them with `sotto recipe tokens`");
            found.unknown(Check::TokenKeys, reason);
        }
    }
}

/// Checks the recipe against the trust file of a device.
fn limits(assessment: &Assessment, trust: Option<&Trust>, found: &mut Findings) {
    let Some(trust) = trust else {
        if let Err(silence) = Floors::check_by_default(assessment) {
            found.unknown(
                Check::Floors,
                format!("the default floors refuse it: {}", silence.reason),
            );
        }
        return;
    };
    let log = &assessment.recipe().parties.log;
    if trust.policy().log_keys(log).next().is_none() {
        let reason = format!("the log {log} is not pinned");
        found.failed(Silence { check: Check::LogKey, reason });
    }
    match assessment.check_limits(trust) {
        Err(silence) => {
            // The limits are checked in this order.
            if silence.check != Check::Operators {
                found.ok(Check::Operators, OPERATORS);
            }
            if silence.check == Check::Targeting {
                found.ok(Check::Floors, "batch, population and rate meet the floors");
            }
            found.failed(silence);
        }
        Ok(()) => {
            found.ok(Check::Operators, OPERATORS);
            found.ok(Check::Floors, "batch, population and rate meet the floors");
        }
    }
    match assessment.cost() {
        None => {
            found.ok(Check::Ledger, "nothing is charged");
            found.ok(Check::Lifetime, "nothing is charged");
        }
        Some(cost) => {
            let days = trust.settings().budget.period_s as f64 / 86_400.0;
            let period = format!("a period of {} days", up_short(days));
            ledger(cost, Check::Ledger, trust.budget(), &period, found);
            ledger(cost, Check::Lifetime, trust.lifetime(), "a device's life", found);
        }
    }
}

/// Whether the whole budget covers the recipe, and what it leaves.
fn ledger(cost: &Cost, check: Check, budget: Budget, of: &str, found: &mut Findings) {
    let afforded = Filter::new(budget, 0)
        .map_err(|error| error.to_string())
        .and_then(|it| it.may_afford(0, &cost.charge).map_err(|refused| refused.to_string()));
    match afforded {
        Err(reason) => found.failed(Silence { check, reason }),
        Ok(Affordable { left, .. }) => {
            let text = format!(
                "it leaves epsilon {} of the {} of {of}",
                down(left),
                up_short(budget.epsilon)
            );
            found.ok(check, text);
        }
    }
}

fn open(recipe: &Recipe, now: u64, found: &mut Findings) {
    let when = recipe.open_times();
    let (opens, closes) = (words::moment(when.opens), words::moment(when.closes));
    if now >= when.closes {
        found.failed(Silence { check: Check::Open, reason: format!("it closed at {closes}") });
    } else if now < when.opens {
        found.ok(Check::Open, format!("it opens at {opens}"));
    } else {
        found.ok(Check::Open, format!("it is open until {closes}"));
    }
}

/// What the recipe promises and what it gives; `None` if it promises nothing.
pub(crate) fn guarantee(
    recipe: &Recipe,
    audience: Option<u64>,
    judged: Option<Judgement>,
) -> Result<Option<Guarantee>> {
    let (Privacy::Claim { epsilon_micro, delta, adjacency, .. }, Some(judged)) =
        (&recipe.privacy, judged)
    else {
        return Ok(None);
    };
    Ok(Some(Guarantee {
        claimed_epsilon: *epsilon_micro as f64 / 1e6,
        delta: *delta,
        adjacency: words::adjacency(*adjacency),
        dishonest_devices: recipe.aggregation.min_batch / 2,
        computed_epsilon: judged.epsilon,
        cover: recipe.sampling.cover,
        sending_epsilon: sending_epsilon(recipe, true)?,
        paper_epsilon: judged.paper_epsilon,
        local_epsilon: judged.local_epsilon,
        colluding: colluding(recipe, audience)?,
        asked: match audience {
            Some(audience) if audience < recipe.who.population => "certified audience",
            _ => "stated population",
        },
    }))
}

fn contribution(assessment: &Assessment) -> Result<Contribution> {
    let recipe = assessment.recipe();
    let mechanism = assessment.mechanism();
    Ok(Contribution {
        vdaf: serde_json::to_value(recipe.aggregation.vdaf)?,
        report_bytes: recipe_report_bytes(recipe, &assessment.task().vdaf().sizes()),
        keep_probability: mechanism.keep_probability(),
        is_noisy: matches!(recipe.randomizer, Randomizer::Gaussian { .. }),
        sides: sides(recipe)?.map(|sides| noise_sides(sides, recipe)).transpose()?,
        projection_error: match recipe.query.vectors() {
            Some(VectorQuery { dimension, compression: Some(compression), .. }) => {
                Some(Projection::squared_error(*dimension, compression.dimension)?.sqrt())
            }
            _ => None,
        },
        effect: mechanism.words().effect,
        examples: examples(assessment),
    })
}

fn noise_sides(sides: Sides, recipe: &Recipe) -> Result<NoiseSides> {
    let expected = series::crowd_of_round(recipe, None).expected_per_release;
    let is_mean = matches!(recipe.query, Query::VectorMean(_)) && expected >= 1.0;
    let side = |side: Side| {
        anyhow::Ok(NoiseSide {
            noise_error: side.error,
            noise_error_of_mean: is_mean.then(|| side.error / expected),
            rho: side.rho,
            device_adds: side.addition,
            report_bytes: recipe_report_bytes(recipe, &side.vdaf.build()?.sizes()),
        })
    };
    Ok(NoiseSides {
        noise_of_devices: side(sides.devices)?,
        noise_of_aggregators: side(sides.aggregators)?,
        is_rho_large: sides.is_rho_large,
    })
}

/// If one cheating device can add much more than an honest one.
fn rho_warning(contribution: Option<&Contribution>) -> Option<String> {
    let sides = contribution?.sides.as_ref().filter(|sides| sides.is_rho_large)?;
    Some(format!(
        "one cheating device can add {} times what an honest one can, since a report may be as long as its \
         noise makes it: a larger minimum batch, fewer numbers or noise of the aggregators ([noise]) \
         help",
        up_short(sides.noise_of_devices.rho)
    ))
}

/// If a projection costs precision and hardly makes the report shorter.
fn compression_warning(
    recipe: &Recipe,
    contribution: Option<&Contribution>,
) -> Result<Option<String>> {
    let Some(contribution) = contribution.filter(|found| found.projection_error.is_some()) else {
        return Ok(None);
    };
    let mut whole = recipe.clone();
    if let Query::VectorSum(vectors) | Query::VectorMean(vectors) = &mut whole.query {
        vectors.compression = None;
    }
    // Uncompressed, a long vector may be more than a report can hold.
    let Ok(Ok(vdaf)) = mechanism(&whole).map(|found| derive_vdaf(&found).build()) else {
        return Ok(None);
    };
    let (sent, whole) = (contribution.report_bytes, recipe_report_bytes(recipe, &vdaf.sizes()));
    Ok((sent > whole / 2).then(|| {
        format!(
            "the compression makes a report shorter by only {} of {} bytes, and adds an error: leave it \
             out, or send much fewer numbers of a long vector",
            grouped(whole.saturating_sub(sent) as u64),
            grouped(whole as u64)
        )
    }))
}

fn warnings(loaded: &Loaded, crowd: &Crowd, now: u64) -> Vec<String> {
    let recipe = &loaded.recipe;
    let mut list = Vec::new();
    let min_batch = recipe.aggregation.min_batch;
    if min_batch > crowd.safe_min_batch && !crowd.is_almost_sure() {
        list.push(format!(
            "the minimum batch of {} may not be reached: {} answers are expected in one release; \
             with at most {} a release is almost sure",
            grouped(min_batch),
            grouped(crowd.expected_per_release as u64),
            grouped(crowd.safe_min_batch)
        ));
    }
    // A round follows at once: its header has been in the log for long enough.
    let must_wait = recipe.round().is_none();
    if must_wait && now < recipe.when.closes && recipe.when.closes - now < SOON_S {
        list.push(format!(
            "it closes soon, at {}; devices require that a recipe has been in the log for a day",
            words::moment(recipe.when.closes)
        ));
    }
    list.extend(must_wait.then(|| early_warning(loaded, now)).flatten());
    if needs_audience(recipe) && loaded.audience.is_none() {
        list.push(
            "the claim depends on how large the certified audience is: give --audience, or --log"
                .to_owned(),
        );
    }
    if matches!(recipe.privacy, Privacy::InsecureUnbounded) {
        list.push(
            "it claims no privacy: only devices that allow insecure_exact answer, and a release is \
             the exact sum"
                .to_owned(),
        );
    }
    let dishonest = min_batch / 2;
    if dishonest < CHEAP_DEVICES {
        list.push(format!(
            "whoever controls more than {} attested devices, in total, can void the claim together \
             with one aggregator; a larger minimum batch makes that more expensive",
            grouped(dishonest)
        ));
    }
    list.extend(words::token_warning(&recipe.parties.tokens).map(str::to_owned));
    list.extend(expiry_warning(loaded));
    if let Privacy::Claim { epsilon_micro, .. } = &recipe.privacy
        && *epsilon_micro > 10_000_000
    {
        let shown = up(*epsilon_micro as f64 / 1e6);
        list.push(format!("a claim of epsilon {shown} promises almost nothing"));
    }
    list
}

/// A recipe that is still to be published, and that opens before devices can answer it.
fn early_warning(loaded: &Loaded, now: u64) -> Option<String> {
    let when = &loaded.recipe.when;
    // What is signed and open was published before, for all that is known here.
    let is_out = loaded.index.is_some() || (loaded.entry.is_some() && when.opens <= now);
    let closes_soon = when.closes < now.saturating_add(SOON_S);
    if is_out || closes_soon || when.opens >= now.saturating_add(LEAD_S) {
        return None;
    }
    let opens = words::moment(when.opens);
    let opens = match when.opens <= now {
        true => format!("it has been open since {opens}"),
        false => format!("it opens at {opens}, less than two days from now"),
    };
    Some(format!(
        "{opens}: devices want to see it in the log for a day, then get their tokens, so its first \
         days stay nearly empty"
    ))
}

/// The first token key that expires too soon after its recipe closes. A token's validity depends on
/// the clock of the aggregator that checks it, not on the time of its report.
fn expiry_warning(loaded: &Loaded) -> Option<String> {
    // Missing keys have placeholders.
    let tokens = loaded.token_keys_known.then_some(&loaded.recipe.parties.tokens)?;
    let closes = loaded.recipe.when.closes;
    let keys = [Role::Leader, Role::Helper].into_iter().filter_map(|role| tokens.key(role));
    let expires = keys.map(|key| key.expires).min()?;
    (expires < closes.saturating_add(TOKEN_GRACE_S)).then(|| {
        format!(
            "a token key expires at {}, less than a day after the recipe closes: late reports would be \
             dropped as token_expired (`sotto recipe tokens --grace`)",
            words::moment(expires)
        )
    })
}

#[cfg(test)]
mod tests;
