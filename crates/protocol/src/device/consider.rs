//! What one device decides: whether it may consider a recipe, what that costs, and how the coin
//! falls.

use std::sync::Arc;

use rand_core::CryptoRng;
use sotto_wire::recipe::{Participation, Probability, Recipe};
use sotto_wire::{EntryId, KeyName, TreeHash};

use super::learner::Learner;
use super::ledger::charge;
use super::state::{
    AuditLine, Change, Consider, DeviceState, InSeries, Pending, Route, SeenKeySet, name_key,
};
use super::tokens::{self, Taken};
use crate::admission::{Admitted, Check, ProvedKeySet, Silence, View};
use crate::client::{ClientError, produce_cover, produce_report};
use crate::expression::Attributes;
use crate::token::ReportTokens;
use crate::trust::Trust;
use crate::{Moment, uniform_below};

/// What the host knows about the device it runs on.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// Idle, charging, on an unmetered network: whatever the host requires. It must not depend on
    /// the data.
    pub conditions_met: bool,
    /// The attributes that expressions may read.
    pub attributes: &'a Attributes,
    /// Holds the files of rounds; without it the device takes part in no training and no discovery.
    pub learner: Option<&'a dyn Learner>,
}

/// A recipe for which something may be sent once the change is committed.
#[derive(Debug)]
#[must_use]
pub struct Consideration {
    /// To be made durable before anything else.
    pub change: Change,
    /// The input of [`toss`].
    pub ticket: Ticket,
    /// Why the recipe is not answered. Then it is not charged, and at most cover is sent: that this
    /// device is not in the audience, or cannot pay, must not be seen by the relay.
    pub silence: Option<Silence>,
}

/// The right to toss once. It is never stored or copied, so a crash loses it.
#[derive(Debug)]
#[must_use]
pub struct Ticket {
    admitted: Arc<Admitted>,
    /// The commit removed them from the state: they are used for this report or never. (That of a
    /// donation is still there, but the secret round is not.)
    tokens: Option<ReportTokens>,
    /// Whether the coin may say yes.
    may_answer: bool,
    /// The first coin, if it was tossed when the series began.
    heads: Option<bool>,
    /// When to send.
    from: u64,
    /// How to send. Without a relay the leader sees the device's address, and cover is of no use.
    route: Option<Route>,
}

/// Takes a newer view of the log, if it extends what this device has seen. `proof` is the
/// consistency proof from the stored checkpoint; empty if there is none, or if nothing was added.
/// Returns `None` if there is nothing new.
pub fn advance(
    state: &DeviceState,
    view: &View,
    proof: &[TreeHash],
    trust: &Trust,
    now: Moment,
) -> Result<Option<Change>, Silence> {
    view.check_fresh(trust, now)?;
    let new = view.checkpoint();
    if let Some(old) = state.logs.get(&new.origin) {
        view.check_extends(old.size, &old.root, proof)?;
        if new.size == old.size && view.time() <= state.time {
            return Ok(None);
        }
    }
    // By the later of the two clocks: replaying an old checkpoint must not make a new state look
    // old.
    let silent_until = trust.period_end(view.time().max(now.0));
    Ok(Some(Change::Seen { checkpoint: new.clone(), time: view.time(), silent_until }))
}

/// Decides whether this device considers an admitted recipe now. Pure: nothing is spent until the
/// change is committed.
///
/// A recipe is decided once. Whatever could differ between devices because of their data, which is
/// the audience and the ledger, is looked at last: it decides whether the device may answer, not
/// whether it sends something.
pub fn consider(
    state: &DeviceState,
    admitted: &Arc<Admitted>,
    view: &View,
    trust: &Trust,
    host: &Host<'_>,
    now: Moment,
    rng: &mut dyn CryptoRng,
) -> Result<Consideration, Silence> {
    let assessment = &admitted.assessment;
    let recipe = assessment.recipe();
    if recipe.is_header() {
        return Err(Silence::new(Check::Round, "nobody answers the header of a series"));
    }
    view.check_fresh(trust, now)?;
    check_taken(state, &admitted.origin, view)?;
    check_name(state, admitted)?;
    let key_sets = [
        check_key_set(state, &admitted.leader.set, trust, now)?,
        check_key_set(state, &admitted.helper.set, trust, now)?,
    ];
    check_open(admitted, state, now)?;
    check_history(state, recipe.when.opens, trust)?;
    if state.is_considered(&assessment.id()) {
        return Err(Silence::new(Check::Once, "it has been considered before"));
    }
    let mut series = in_series(state, recipe, rng)?;
    let taken = tokens::take(state, admitted, trust, now, rng)?;
    if !host.conditions_met {
        return Err(Silence::new(Check::Conditions, "the host's conditions are not met"));
    }
    check_file(recipe, host)?;
    let is_paid = series.as_ref().is_some_and(|(_, series)| series.is_paid);
    let paid = match assessment.is_for(host.attributes) {
        false => Err(Silence::new(Check::Targeting, "this device is not in the audience")),
        true if is_paid => Ok(None),
        // A recipe without a claim gets here only with an insecure setting.
        true => assessment.cost().map(|cost| charge(state, &cost.charge, trust)).transpose(),
    };
    let route = route(admitted, trust)?;
    let (ledger, silence) = match paid {
        Ok(ledger) => (ledger, None),
        Err(silence) if route.is_none() => return Err(silence),
        Err(silence) => (None, Some(silence)),
    };
    let may_answer = silence.is_none();
    if let Some((_, series)) = &mut series {
        series.is_paid |= may_answer;
    }
    let line = (may_answer && !is_paid).then(|| AuditLine {
        at: now.0,
        recipe: recipe.series_id(),
        name: recipe.name.clone(),
        purpose: recipe.purpose.clone(),
        epsilon_micro: assessment.cost().map(|cost| cost.epsilon_micro),
        fallback: match has_files(recipe) {
            true => None,
            false => assessment.fallback_reason(host.attributes),
        },
    });
    let heads = heads(recipe, series.as_mut().map(|(_, series)| series));
    let passed = series.as_ref().and_then(|(header, _)| Some(state.series.get(header)?.last));
    let Taken { tokens, spends, from } = taken;
    let change = Change::Considered(Box::new(Consider {
        recipe: assessment.id(),
        series,
        passed,
        spends,
        closes: recipe.answer_times().closes,
        name: name_key(recipe),
        key_sets,
        ledger,
        line,
    }));
    let admitted = Arc::clone(admitted);
    let ticket = Ticket { admitted, tokens, may_answer, heads, from, route };
    Ok(Consideration { change, ticket, silence })
}

/// How far this device is in the series of a round once it has considered the round; `None` for any
/// other recipe. The secret round of a donation is drawn with the first one that is considered.
fn in_series(
    state: &DeviceState,
    recipe: &Recipe,
    rng: &mut dyn CryptoRng,
) -> Result<Option<(EntryId, InSeries)>, Silence> {
    let (Some(series), Some(round)) = (&recipe.series, recipe.round()) else { return Ok(None) };
    let header = recipe.series_id();
    let (closes, next) = (recipe.when.closes, round.index.saturating_add(1));
    let last = recipe.id();
    let known = state.series.get(&header).cloned();
    let known = known.unwrap_or_else(|| InSeries {
        closes,
        next: 0,
        last,
        is_paid: false,
        slot: match series.participation {
            Participation::EachRound {} => None,
            Participation::Donation {} => donation(&recipe.sampling.rate, series.rounds, rng),
        },
    });
    if round.index < known.next {
        let reason = format!("round {} of the series is over for this device", round.index);
        return Err(Silence::new(Check::Round, reason));
    }
    Ok(Some((header, InSeries { next, last, ..known })))
}

/// The secret round of a donation: a coin with this probability for the whole series, and then the
/// first round at which a coin with probability `1/rounds` comes up heads. All coins are tossed.
fn donation(rate: &Probability, rounds: u64, rng: &mut dyn CryptoRng) -> Option<u64> {
    let willing = coin(rate, rng);
    let heads = (0..rounds).map(|_| uniform_below(rounds, rng) == 0).collect::<Vec<_>>();
    let first = heads.iter().position(|heads| *heads).and_then(|first| u64::try_from(first).ok());
    first.filter(|_| willing)
}

/// The first coin of a round, if it was tossed when the series began. The secret round of a donation
/// is forgotten once it is there, or has been missed.
fn heads(recipe: &Recipe, series: Option<&mut InSeries>) -> Option<bool> {
    let (in_series, round) = (series?, recipe.round()?);
    match recipe.series.as_ref()?.participation {
        Participation::EachRound {} => None,
        Participation::Donation {} => {
            let heads = in_series.slot == Some(round.index);
            in_series.slot.take_if(|slot| *slot <= round.index);
            Some(heads)
        }
    }
}

/// Every device looks for the file of the round, whatever its coin will say.
fn check_file(recipe: &Recipe, host: &Host<'_>) -> Result<(), Silence> {
    if !has_files(recipe) || host.learner.is_some_and(|learner| learner.is_ready(recipe)) {
        return Ok(());
    }
    let what = if recipe.discovery().is_some() { "list of candidates" } else { "model" };
    Err(Silence::new(Check::Model, format!("the {what} of the round is not at hand")))
}

fn has_files(recipe: &Recipe) -> bool {
    recipe.series.as_ref().is_some_and(|series| series.has_files())
}

/// Tosses the coin, once. Heads: a report. Tails: another coin says whether there is a dummy, and
/// if not, a third one whether there is cover. A device that may not answer sends cover instead of
/// report or dummy. So whether something is sent depends on coins alone; with importance sampling
/// the first coin depends on the answer, which the device has limited
/// ([`Floors::max_sending_epsilon`](crate::trust::Floors::max_sending_epsilon)). The change must be
/// committed before any byte is sent.
pub fn toss(
    ticket: Ticket,
    host: &Host<'_>,
    rng: &mut dyn CryptoRng,
) -> Result<Option<Change>, ClientError> {
    let Ticket { admitted, tokens, may_answer, heads, from, route } = ticket;
    let assessment = &admitted.assessment;
    let (task, recipe) = (assessment.task(), assessment.recipe());
    let sampling = &recipe.sampling;
    let (leader, helper) = (admitted.leader_config(), admitted.helper_config());
    let tokens = tokens.as_ref();
    let heads = heads.unwrap_or_else(|| coin(&assessment.rate(host.attributes), rng));
    let sends = heads || coin(&sampling.dummy_rate, rng);
    let measurement = match (may_answer && sends, heads) {
        (false, _) => None,
        (true, true) if recipe.discovery().is_some() => {
            let words = assessment.words(host.attributes);
            let bucket = host.learner.and_then(|learner| learner.bucket(recipe, &words, rng));
            Some(assessment.randomized_bucket(bucket, rng))
        }
        (true, true) if has_files(recipe) => {
            let update = host.learner.and_then(|learner| learner.update(recipe, rng));
            Some(assessment.randomized_update(update, rng))
        }
        (true, true) => Some(assessment.randomized(host.attributes, rng)),
        (true, false) => assessment.dummy(rng),
    };
    let time = task.time(Moment(from));
    let report = measurement.and_then(|measurement| {
        produce_report(task, leader, helper, &measurement, time, tokens, rng).ok()
    });
    let report = match report {
        Some(report) => report,
        // Without a report, too: an error must not be seen.
        None if route.is_some() && (sends || coin(&sampling.cover, rng)) => {
            let tokens = ReportTokens::zeros(&recipe.parties.tokens);
            produce_cover(task, leader, helper, tokens.as_ref())?
        }
        None => return Ok(None),
    };
    let task_configuration = task.encoded_configuration().to_vec();
    let pending = Pending { report, task_configuration, from, sends: 0, route };
    Ok(Some(Change::Answered { recipe: assessment.id(), pending }))
}

/// The way to the leader; `None` if an insecure setting allows to send directly.
pub(super) fn route(admitted: &Admitted, trust: &Trust) -> Result<Option<Route>, Silence> {
    if trust.settings().insecure_direct {
        return Ok(None);
    }
    let recipe = admitted.assessment.recipe();
    let missing = || Silence::new(Check::KeySets, "the leader's operator has no gateway key");
    Ok(Some(Route {
        gateway: recipe.parties.leader.operator.clone(),
        key: admitted.gateway_config().ok_or_else(missing)?.clone(),
        relays: trust.relays_for(recipe).map(str::to_owned).collect(),
    }))
}

/// True with exactly this probability.
fn coin(rate: &Probability, rng: &mut dyn CryptoRng) -> bool {
    uniform_below(rate.den(), rng) < rate.num()
}

/// Checks that the device has taken this view, and that it is a view of the log with this origin.
pub(super) fn check_taken(state: &DeviceState, origin: &str, view: &View) -> Result<(), Silence> {
    let seen = state.logs.get(&view.checkpoint().origin);
    let taken = seen.is_some_and(|seen| {
        seen.size == view.checkpoint().size && seen.root == view.checkpoint().root
    });
    if taken && origin == view.checkpoint().origin {
        return Ok(());
    }
    Err(Silence::new(Check::Consistency, "the view was not compared with what was seen before"))
}

fn check_name(state: &DeviceState, admitted: &Admitted) -> Result<(), Silence> {
    let recipe = admitted.assessment.recipe();
    match state.names.get(&name_key(recipe)) {
        Some(other) if *other != recipe.series_id() => {
            let reason = format!("the author has used the name {} for {other}", recipe.name);
            Err(Silence::new(Check::NameReuse, reason))
        }
        _ => Ok(()),
    }
}

/// Checks that the key set is in force, not older than the last one used, and not too soon after
/// it.
pub(super) fn check_key_set(
    state: &DeviceState,
    set: &ProvedKeySet,
    trust: &Trust,
    now: Moment,
) -> Result<(KeyName, SeenKeySet), Silence> {
    let refuse = |reason: String| {
        let reason = format!("{}: {reason}", set.operator.name);
        Err(Silence::new(Check::KeySets, reason))
    };
    if now.0 < set.not_before || now.0 >= set.not_after {
        return refuse("the key set is not in force".to_owned());
    }
    if let Some(seen) = state.key_sets.get(&set.operator.name) {
        if set.seq < seen.seq {
            return refuse(format!("key set {} is older than {}", set.seq, seen.seq));
        }
        if set.seq == seen.seq && set.id != seen.id {
            return refuse(format!("there are two key sets {}", set.seq));
        }
        let spacing = trust.settings().min_key_set_spacing_s;
        if set.seq > seen.seq && set.not_before < seen.not_before.saturating_add(spacing) {
            return refuse(format!("key set {} came too soon after {}", set.seq, seen.seq));
        }
    }
    let seen = SeenKeySet { seq: set.seq, id: set.id, not_before: set.not_before };
    Ok((set.operator.name.clone(), seen))
}

/// A device that was reset has forgotten what it spent and what it answered. So a device with a new
/// state answers nothing until its period is over, and never a recipe that opened before then. A
/// series opens with its header.
fn check_history(state: &DeviceState, opens: u64, trust: &Trust) -> Result<(), Silence> {
    let silent = |until: u64| state.time < until || opens < until;
    if !trust.settings().insecure_fresh_start && state.silent_until.is_none_or(silent) {
        let reason = "this device has no history from before the recipe opened";
        return Err(Silence::new(Check::FreshState, reason));
    }
    Ok(())
}

/// Checks that the recipe is open by the device's clock and not over by the witnesses'.
fn check_open(admitted: &Admitted, state: &DeviceState, now: Moment) -> Result<(), Silence> {
    let when = admitted.assessment.recipe().answer_times();
    if now.0 < when.opens {
        return Err(Silence::new(Check::Open, "it has not opened yet"));
    }
    if now.0.max(state.time) >= when.closes {
        return Err(Silence::new(Check::Open, "it has closed"));
    }
    Ok(())
}
