//! The checks of a recipe that are the same for every device: made once and shared by a fleet.

use std::collections::HashMap;
use std::sync::Arc;

use sotto_crypto::note;
use sotto_wire::recipe::{KeySet, Recipe};
use sotto_wire::{EntryId, Role};

use super::evidence::{Admitted, Evidence, Offer, OperatorKeys, View, check_url};
use super::{Check, Silence};
use crate::recipe::Assessment;
use crate::recipe::windows::RateRule;
use crate::trust::Trust;

/// A full cache is emptied: assessments can be computed again.
const MAX_ASSESSMENTS: usize = 4_096;

/// Assessments by recipe id. Assessing a recipe takes milliseconds, and a device meets the same
/// recipe repeatedly.
#[derive(Debug, Default)]
pub struct Assessments {
    known: HashMap<(EntryId, Option<u64>), Result<Arc<Assessment>, Silence>>,
}

impl Assessments {
    /// Checks everything about a recipe that does not depend on the device's own state.
    pub fn admit(
        &mut self,
        offer: &Offer,
        view: &View,
        trust: &Trust,
    ) -> Result<Admitted, Silence> {
        let (id, recipe) = parse(&offer.recipe, trust)?;
        if recipe.round().is_some() && offer.header.is_none() {
            return Err(Silence::new(Check::Round, "the header of the series is missing"));
        }
        // A round has to be public, and its header has to have been for long enough.
        let seen_by = match &offer.header {
            None => offer.recipe.verify_position(view, trust)?,
            Some(header) => {
                offer.recipe.verify_inclusion(view)?;
                check_header(header, &recipe, trust)?;
                header.verify_position(view, trust)?
            }
        };
        if recipe.parties.log != view.checkpoint.origin {
            let reason = format!("the recipe belongs in the log {}", recipe.parties.log);
            return Err(Silence::new(Check::Inclusion, reason));
        }
        let certified = certified_population(offer, &recipe, view, trust);
        let assessment = self.assess(id, recipe, certified)?;
        let parties = &assessment.recipe().parties;
        let aggregator = |keys: &Evidence, operator| {
            keys.verify_keys(operator, "HPKE configuration", KeySet::configs, view, trust)
        };
        let leader = aggregator(&offer.leader_keys, &parties.leader.operator)?;
        let helper = aggregator(&offer.helper_keys, &parties.helper.operator)?;
        check_url(leader.set.url.as_deref(), &parties.leader)?;
        check_url(helper.set.url.as_deref(), &parties.helper)?;
        if leader.set.gateway.is_none() && !trust.settings().insecure_direct {
            let operator = &parties.leader.operator;
            let reason = format!("{operator}: {}", trust.unusable("gateway key"));
            return Err(Silence::new(Check::KeySets, reason));
        }
        let issuer = |role, evidence| issuer_keys(evidence, assessment.recipe(), role, view, trust);
        let leader_issuer = issuer(Role::Leader, offer.leader_issuer_keys.as_ref())?;
        let helper_issuer = issuer(Role::Helper, offer.helper_issuer_keys.as_ref())?;
        trust.check_token_keys(assessment.recipe())?;
        assessment.check_limits(trust)?;
        let audience = certified_audience(offer, &assessment, view, trust)?;
        let (origin, index) = (view.checkpoint.origin.clone(), offer.recipe.index);
        Ok(Admitted {
            assessment,
            origin,
            index,
            leader,
            helper,
            leader_issuer,
            helper_issuer,
            audience,
            known_from: seen_by.saturating_add(trust.settings().min_log_age_s),
        })
    }

    /// What follows from the recipe and its certified audience alone, from the cache if it was
    /// assessed before. That of a round follows from that of its header.
    pub fn assess(
        &mut self,
        id: EntryId,
        recipe: Recipe,
        certified: Option<u64>,
    ) -> Result<Arc<Assessment>, Silence> {
        if let Some(known) = self.known.get(&(id, certified)) {
            return known.clone();
        }
        let assessed = match recipe.header() {
            None => Assessment::certified(recipe, certified),
            Some(header) => {
                let header = self.assess(header.id(), header, certified);
                header.and_then(|header| header.round(recipe))
            }
        };
        let assessed = assessed.map(Arc::new);
        if self.known.len() >= MAX_ASSESSMENTS {
            self.known.clear();
        }
        self.known.insert((id, certified), assessed.clone());
        assessed
    }
}

/// Checks that this is the header of a round. Its author signed it too.
fn check_header(header: &Evidence, round: &Recipe, trust: &Trust) -> Result<(), Silence> {
    let (id, _) = parse(header, trust)?;
    if round.round().is_some() && id == round.series_id() {
        return Ok(());
    }
    Err(Silence::new(Check::Round, "the round differs from the header"))
}

/// Canonical bytes and the author's signature.
fn parse(recipe: &Evidence, trust: &Trust) -> Result<(EntryId, Recipe), Silence> {
    let entry = recipe.parse()?;
    let recipe = entry
        .recipe()
        .ok_or_else(|| Silence::new(Check::Canonical, "the entry is not a recipe"))?;
    note::verify(entry.note(), &recipe.author.verifier())
        .map_err(|error| Silence::new(Check::AuthorSignature, error.to_string()))?;
    trust.check_author(&recipe.author)?;
    Ok((entry.id(), recipe.clone()))
}

/// The issuer's keys, if the recipe has tokens for this aggregator and the pinned issuer signs them.
fn issuer_keys(
    evidence: Option<&Evidence>,
    recipe: &Recipe,
    role: Role,
    view: &View,
    trust: &Trust,
) -> Result<Option<OperatorKeys>, Silence> {
    let Some(issuer) = trust.pinned_issuer(recipe, role) else { return Ok(None) };
    let missing = || Silence::new(Check::KeySets, format!("{issuer}: its key set is missing"));
    let evidence = evidence.ok_or_else(missing)?;
    let (what, keys) = ("encapsulation key", KeySet::encapsulation_keys);
    evidence.verify_keys(issuer, what, keys, view, trust).map(Some)
}

/// How many devices the result counted that the recipe names, if it is proved. A recipe is admitted
/// only if the result is also about its audience: see [`certified_audience`].
fn certified_population(offer: &Offer, recipe: &Recipe, view: &View, trust: &Trust) -> Option<u64> {
    let named = recipe.who.targeting.as_ref()?.certified;
    let (id, result) = offer.certified.as_ref()?.verify_result(view, trust).ok()?;
    (id == named).then_some(result.population)
}

/// The audience of a targeted recipe, which must be certified for exactly its predicate and be large
/// enough; `None` for any other recipe.
fn certified_audience(
    offer: &Offer,
    assessment: &Assessment,
    view: &View,
    trust: &Trust,
) -> Result<Option<u64>, Silence> {
    let Some(targeting) = &assessment.recipe().who.targeting else { return Ok(None) };
    let refuse = |reason: String| Err(Silence::new(Check::Targeting, reason));
    let Some(certified) = &offer.certified else {
        return refuse("the result that certifies the audience is missing".to_owned());
    };
    let (id, result) = certified.verify_result(view, trust)?;
    if id != targeting.certified {
        return refuse("the result is not the one that the recipe names".to_owned());
    }
    // The same text over attributes of other types, or of undeclared types, is a different
    // predicate.
    let declared = &assessment.recipe().attributes;
    let same_types = result.attributes.iter().all(|(name, of)| declared.get(name) == Some(of));
    let covers = |name: &String| result.attributes.keys().any(|known| known.as_str() == name);
    let same_types = same_types
        && assessment.predicate().is_some_and(|read| read.attributes().iter().all(covers));
    if result.predicate != targeting.predicate || !same_types {
        return refuse("the result is about another predicate".to_owned());
    }
    let (population, floor) = (result.population, trust.settings().floors.min_population);
    if population < floor {
        return refuse(format!(
            "a certified audience of {population} is below the floor of {floor}"
        ));
    }
    let recipe = assessment.recipe();
    let most = RateRule::new(recipe, population).most_in(recipe.when.max_window_s);
    if recipe.aggregation.min_batch > most {
        let min_batch = recipe.aggregation.min_batch;
        return refuse(format!(
            "no batch could be released: it needs {min_batch} reports, and from a certified audience of \
             {population} the aggregators accept at most {most} in one window"
        ));
    }
    Ok(Some(population))
}
