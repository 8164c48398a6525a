//! Which tokens a device requests, when, and what it stores. Pure: a host sends and commits.
//!
//! A device requests the tokens of every live recipe in the log, at random times, whatever its
//! attributes, ledger, history and conditions. So what the attester sees does not depend on whether
//! the device takes part.
//!
//! ```text
//! plan        draws when to request the tokens of recipes seen for the first time   -> commit
//! ask         makes the requests that are due, both of a recipe at once             -> commit
//! waiting     what to send now, in random order; the same bytes until an answer
//! granted     opens an answer, checks the token, draws when it may be used          -> commit
//! withheld    the attester says no, for good                                        -> commit
//! renew       the attester says that the issuer's key is gone, and there is another -> commit
//! ```
//!
//! Requests are durable before their first byte is sent. So a crash never wastes a token, and a
//! token is never requested twice: the attester gives the same answer to the same bytes.

mod stored;

use std::collections::BTreeMap;
use std::sync::Arc;

use rand_core::CryptoRng;
use sotto_crypto::key_blinding::ClientSecret;
use sotto_wire::{EntryId, KeyName, Role};
use zeroize::Zeroizing;

pub(super) use self::stored::RecipeTokens;
use self::stored::{Asked, Progress, Request, Stage};
pub use self::stored::{ClientSeed, Planned, Requested, TokenBytes, TokenChange};
use super::consider::{check_key_set, check_taken};
use super::state::{Change, DeviceState, SeenKeySet};
use crate::admission::{Admitted, Check, Silence, View};
use crate::token::{ReportTokens, TokenAttempt, TokenError, TokenTerms, report_id};
use crate::trust::Trust;
use crate::{Moment, shuffle, uniform_below};

/// How many recipes have their tokens kept, the oldest in the log. Far more than a budget lets a
/// device consider.
const MAX_RECIPES: usize = 4_096;

/// The aggregators, in the order in which requests are made.
const ROLES: [Role; 2] = [Role::Leader, Role::Helper];

/// The log as the device has taken it ([`super::follow`]), and its recipes.
#[derive(Clone, Copy, Debug)]
pub struct Live<'a> {
    /// The newest view.
    pub view: &'a View,
    /// The recipes, admitted or not.
    pub recipes: &'a BTreeMap<EntryId, Result<Arc<Admitted>, Silence>>,
}

/// A request that is waiting for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The recipe.
    pub recipe: EntryId,
    /// Whose token.
    pub role: Role,
}

/// What is sent to the attester.
#[derive(Debug)]
pub struct TokenAsk<'a> {
    /// Who issues the token.
    pub issuer: &'a KeyName,
    /// The device's key, by which the attester counts.
    pub client_key: [u8; 32],
    /// The request.
    pub attempt: &'a TokenAttempt,
}

impl Live<'_> {
    /// The admitted recipes that need tokens and have not ended, in log order, which no author can
    /// choose.
    fn asking(&self, state: &DeviceState, now: Moment) -> Vec<&Arc<Admitted>> {
        let now = now.0.max(state.time);
        let mut asking: Vec<_> = self
            .recipes
            .values()
            .filter_map(|admitted| admitted.as_ref().ok())
            .filter(|admitted| {
                let assessment = &admitted.assessment;
                let lives = |terms: &TokenTerms| terms.expires() > now;
                let closes = assessment.recipe().when.closes;
                closes > now && assessment.token_terms(Role::Leader).is_some_and(lives)
            })
            .collect();
        asking.sort_by_key(|admitted| admitted.index);
        asking
    }

    fn admitted(&self, recipe: &EntryId) -> Option<&Arc<Admitted>> {
        self.recipes.get(recipe)?.as_ref().ok()
    }

    /// Checks that the view is fresh and that the device has compared it with what it saw before.
    /// Otherwise a log could show one device a recipe made for it alone, and recognise the device
    /// by its token request.
    fn check(&self, state: &DeviceState, trust: &Trust, now: Moment) -> Result<(), Silence> {
        self.view.check_fresh(trust, now)?;
        check_taken(state, &self.view.checkpoint().origin, self.view)
    }
}

/// Draws when to request the tokens of recipes seen for the first time. Returns `None` if there are
/// none.
pub fn plan(
    state: &DeviceState,
    live: &Live<'_>,
    trust: &Trust,
    now: Moment,
    rng: &mut dyn CryptoRng,
) -> Result<Option<Change>, Silence> {
    live.check(state, trust, now)?;
    if trust.tokens().is_none() {
        return Ok(None);
    }
    let room = MAX_RECIPES.saturating_sub(state.tokens.len());
    let fresh: Vec<_> = live
        .asking(state, now)
        .into_iter()
        .filter(|admitted| !state.tokens.contains_key(&admitted.assessment.id()))
        .take(room)
        .collect();
    if fresh.is_empty() {
        return Ok(None);
    }
    let recipes = fresh
        .into_iter()
        .map(|admitted| {
            let closes = admitted.assessment.recipe().when.closes;
            (admitted.assessment.id(), closes, draw(closes, trust, now, rng))
        })
        .collect();
    let seed = state.client_seed.is_none().then(|| {
        let mut seed = ClientSeed([0; 32]);
        rng.fill_bytes(&mut seed.0);
        seed
    });
    Ok(Some(Change::Tokens(TokenChange::Planned(Planned { seed, recipes }))))
}

/// Makes the requests for the tokens that are due. Returns `None` if none are due.
pub fn ask(
    state: &DeviceState,
    live: &Live<'_>,
    trust: &Trust,
    now: Moment,
    rng: &mut dyn CryptoRng,
) -> Result<Option<Change>, Silence> {
    live.check(state, trust, now)?;
    let Some(client) = state.client_secret() else { return Ok(None) };
    let is_due = |admitted: &Admitted| {
        let tokens = state.tokens.get(&admitted.assessment.id());
        tokens.is_some_and(|tokens| matches!(tokens.stage, Stage::Due { at } if at <= now.0))
    };
    let mut recipes = Vec::new();
    let mut key_set = None;
    for admitted in live.asking(state, now).into_iter().filter(|admitted| is_due(admitted)) {
        let Ok(seen) = check_issuer(state, admitted, trust, now) else { continue };
        let requests = Requests { client: &client, admitted, seq: seen.1.seq };
        // If the scheme cannot use one recipe's key, the other recipes still get their tokens.
        if let Ok(asked) = requests.all(rng) {
            recipes.push((admitted.assessment.id(), asked));
            key_set = Some(seen);
        }
    }
    let requested = key_set.map(|key_set| Requested { key_set, recipes });
    Ok(requested.map(|requested| Change::Tokens(TokenChange::Requested(Box::new(requested)))))
}

/// The requests without an answer, in random order: log order would tell the attester which is
/// which.
pub fn waiting(
    state: &DeviceState,
    live: &Live<'_>,
    now: Moment,
    rng: &mut dyn CryptoRng,
) -> Vec<Waiting> {
    let mut waiting: Vec<_> = live
        .asking(state, now)
        .into_iter()
        .flat_map(|admitted| {
            let recipe = admitted.assessment.id();
            ROLES.map(|role| Waiting { recipe, role })
        })
        .filter(|waiting| request(state, waiting).is_some())
        .collect();
    shuffle(&mut waiting, rng);
    waiting
}

/// How many tokens of live recipes are not yet held, spent or withheld.
pub fn to_come(state: &DeviceState, live: &Live<'_>, now: Moment) -> usize {
    let roles = |admitted: &&Arc<Admitted>| {
        let tokens = state.tokens.get(&admitted.assessment.id());
        let is_to_come = |role: &Role| match tokens.map(|tokens| &tokens.stage) {
            None | Some(Stage::Due { .. }) => admitted.assessment.token_terms(*role).is_some(),
            Some(Stage::Asked(asked)) => {
                matches!(asked.progress(*role), Some(Progress::Waiting(_)))
            }
            Some(Stage::Spent {}) => false,
        };
        ROLES.iter().filter(|role| is_to_come(role)).count()
    };
    live.asking(state, now).iter().map(roles).sum()
}

/// What to send for a waiting request.
pub fn token_ask<'a>(
    state: &'a DeviceState,
    live: &Live<'a>,
    waiting: &Waiting,
) -> Option<TokenAsk<'a>> {
    let admitted = live.recipes.get(&waiting.recipe)?.as_ref().ok()?;
    let issuer = admitted.assessment.token_terms(waiting.role)?.issuer();
    let attempt = &request(state, waiting)?.1.attempt;
    let client_key = *state.client_secret()?.public_key().as_bytes();
    Some(TokenAsk { issuer, client_key, attempt })
}

/// Opens the attester's answer. An invalid token is an error and changes nothing.
///
/// The time from which the token may be used is drawn now. If a report always followed right after
/// its token, attester and leader together could tell whose it is.
pub fn granted(
    state: &DeviceState,
    live: &Live<'_>,
    trust: &Trust,
    (waiting, response): (&Waiting, &[u8]),
    now: Moment,
    rng: &mut dyn CryptoRng,
) -> Result<Change, TokenError> {
    let admitted = live.admitted(&waiting.recipe);
    let terms = admitted.and_then(|admitted| admitted.assessment.token_terms(waiting.role));
    let request = request(state, waiting);
    let (Some(admitted), Some(terms), Some((nonce, request))) = (admitted, terms, request) else {
        return Err(TokenError::Attempt);
    };
    let token = terms.finish(nonce, &request.attempt, response)?;
    let token = TokenBytes(Zeroizing::new(token));
    let from = draw(admitted.assessment.recipe().when.closes, trust, now, rng);
    let Waiting { recipe, role } = *waiting;
    Ok(Change::Tokens(TokenChange::Granted { recipe, role, token, from }))
}

/// The attester withholds the token: this device already got one. It is never requested again, so
/// call this only if the attester says so with its own problem type
/// ([`sotto_wire::token::WITHHELD_PROBLEM`]).
pub fn withheld(waiting: &Waiting) -> Change {
    let Waiting { recipe, role } = *waiting;
    Change::Tokens(TokenChange::Withheld { recipe, role })
}

/// A new request to replace one that was refused, if the issuer has newer keys by now. The nonce
/// stays the same.
///
/// This discards what would open an answer to the old request. So call it only if the attester says
/// with its own problem type ([`sotto_wire::token::ENCAPSULATION_KEY_PROBLEM`]) that the issuer
/// lost the key: before it says so, it looks for an answer that it gave earlier, so there is none.
/// After any other refusal there may be one, and the token would be lost.
pub fn renew(
    state: &DeviceState,
    live: &Live<'_>,
    trust: &Trust,
    refused: &Waiting,
    now: Moment,
    rng: &mut dyn CryptoRng,
) -> Option<Change> {
    let (nonce, old) = request(state, refused)?;
    let admitted = live.admitted(&refused.recipe)?;
    let key_set = check_issuer(state, admitted, trust, now).ok()?;
    if key_set.1.seq <= old.seq {
        return None;
    }
    let mut asked = state.tokens.get(&refused.recipe)?.asked()?.clone();
    let client = state.client_secret()?;
    let requests = Requests { client: &client, admitted, seq: key_set.1.seq };
    let new = requests.one(refused.role, nonce, rng).ok()??;
    match refused.role {
        Role::Leader => asked.leader = new,
        _ => asked.helper = Some(new),
    }
    let requested = Requested { key_set, recipes: vec![(refused.recipe, asked)] };
    Some(Change::Tokens(TokenChange::Requested(Box::new(requested))))
}

/// The tokens of a recipe, for the report that may follow; `None` if the recipe needs none.
pub(super) fn take(
    state: &DeviceState,
    admitted: &Admitted,
    now: Moment,
) -> Result<Option<ReportTokens>, Silence> {
    let assessment = &admitted.assessment;
    if assessment.token_terms(Role::Leader).is_none() {
        return Ok(None);
    }
    let asked = state.tokens.get(&assessment.id()).and_then(RecipeTokens::asked);
    let token = |role: Role| {
        let terms = assessment.token_terms(role)?;
        match asked?.progress(role)? {
            Progress::Granted { token, from }
                if *from <= now.0 && terms.expires() > now.0.max(state.time) =>
            {
                Some(token.to_vec())
            }
            _ => None,
        }
    };
    let missing = |role: &str| {
        Silence::new(Check::Token, format!("no token for the {role} that may be used now"))
    };
    let asked = asked.ok_or_else(|| missing("leader"))?;
    let leader = token(Role::Leader).ok_or_else(|| missing("leader"))?;
    let helper = match assessment.token_terms(Role::Helper) {
        None => None,
        Some(_) => Some(token(Role::Helper).ok_or_else(|| missing("helper"))?),
    };
    let report_id = report_id(&asked.nonce);
    Ok(Some(ReportTokens { report_id, leader, helper }))
}

impl DeviceState {
    /// The recipes whose tokens are planned, requested, held or spent.
    pub fn tokens(&self) -> impl Iterator<Item = &EntryId> {
        self.tokens.keys()
    }

    /// The secret behind the key by which the attester knows this device; `None` before the first
    /// plan.
    pub(super) fn client_secret(&self) -> Option<ClientSecret> {
        self.client_seed.as_ref().map(|seed| ClientSecret::new(seed.0))
    }
}

/// A random time from now on: uniform over the spread in the trust file, but within the first half
/// of the recipe's remaining time.
fn draw(closes: u64, trust: &Trust, now: Moment, rng: &mut dyn CryptoRng) -> u64 {
    let spread = trust.tokens().map_or(0, |tokens| tokens.spread_s);
    let spread = spread.min(closes.saturating_sub(now.0) / 2);
    now.0.saturating_add(uniform_below(spread.saturating_add(1), rng))
}

/// A waiting request, and the nonce of its token.
fn request<'a>(state: &'a DeviceState, waiting: &Waiting) -> Option<(&'a [u8; 32], &'a Request)> {
    let asked = state.tokens.get(&waiting.recipe)?.asked()?;
    match asked.progress(waiting.role)? {
        Progress::Waiting(request) => Some((&asked.nonce, request)),
        Progress::Granted { .. } | Progress::Withheld {} => None,
    }
}

/// Checks that the issuer's key set is in force and follows the one used before.
fn check_issuer(
    state: &DeviceState,
    admitted: &Admitted,
    trust: &Trust,
    now: Moment,
) -> Result<(KeyName, SeenKeySet), Silence> {
    match &admitted.issuer {
        Some(issuer) => check_key_set(state, &issuer.set, trust, now),
        None => Err(Silence::new(Check::KeySets, "the issuer's key set is missing")),
    }
}

/// What all requests for the tokens of one recipe have in common.
struct Requests<'a> {
    client: &'a ClientSecret,
    admitted: &'a Admitted,
    /// The number of the issuer's key set.
    seq: u64,
}

impl Requests<'_> {
    /// The requests for all tokens, under one nonce.
    fn all(&self, rng: &mut dyn CryptoRng) -> Result<Asked, TokenError> {
        let mut nonce = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *nonce);
        let leader = self.one(Role::Leader, &nonce, rng)?.ok_or(TokenError::Attempt)?;
        let helper = self.one(Role::Helper, &nonce, rng)?;
        Ok(Asked { nonce, leader, helper })
    }

    /// The request for one token; `None` if the recipe needs none.
    fn one(
        &self,
        role: Role,
        nonce: &[u8; 32],
        rng: &mut dyn CryptoRng,
    ) -> Result<Option<Progress>, TokenError> {
        let Some(terms) = self.admitted.assessment.token_terms(role) else { return Ok(None) };
        let encapsulation = self.admitted.encapsulation().ok_or(TokenError::Attempt)?;
        let attempt = terms.request(self.client, encapsulation, nonce, rng)?;
        Ok(Some(Progress::Waiting(Request { attempt, seq: self.seq })))
    }
}
