//! Which tokens a device requests, when, and what it stores. Pure: a host sends and commits.
//!
//! A device requests the tokens of every live recipe in the log, at random times, whatever its
//! attributes, ledger, history and conditions. So what the attester sees does not depend on whether
//! the device takes part.
//!
//! The leader's and the helper's token come through different attesters and issuers. Both are
//! requested for every recipe, and each attester knows the device by a key of its own.
//!
//! A series has such a pair for each round (or one, with donation). All are requested when its header
//! is seen, and a round needs none of its own. A pair is good for the round with its number alone, so
//! that nobody can put two reports of one device into a batch.
//!
//! ```text
//! plan        draws when to request the tokens of recipes seen for the first time   -> commit
//! request     makes the requests that are due, both of a recipe at once             -> commit
//! waiting     what to send now, in random order; the same bytes until an answer
//! granted     opens an answer, checks the token, draws when it may be used          -> commit
//! withheld    the attester says no, for good                                        -> commit
//! renew       the attester says that the issuer's key is gone, and there is another -> commit
//! ```
//!
//! Requests are durable before their first byte is sent. So a crash never wastes a token, and a
//! token is never requested twice: the attester gives the same answer to the same bytes. For the same
//! reason answers may be made durable together ([`Change::Together`]): those that a crash loses come
//! again.

mod stored;
mod times;

use std::collections::BTreeMap;
use std::sync::Arc;

use rand_core::CryptoRng;
use sotto_crypto::key_blinding::ClientSecret;
use sotto_wire::recipe::{Participation, Recipe};
use sotto_wire::{EntryId, HpkeConfig, KeyName, Role};
use zeroize::Zeroizing;

pub(super) use self::stored::RecipeTokens;
use self::stored::{Asked, Progress, Request, Stage};
pub use self::stored::{ClientSeed, Planned, Requested, TokenBytes, TokenChange};
use super::consider::{check_key_set, check_taken};
use super::state::{Change, DeviceState, SeenKeySet};
use crate::admission::{Admitted, Check, Silence, View};
use crate::token::{ReportTokens, TokenAttempt, TokenError, TokenTerms, report_id};
use crate::trust::{Server, Trust};
use crate::{Moment, shuffle};

/// How many pairs of tokens are kept, those of the oldest recipes in the log. Far more than a budget
/// lets a device use.
const MAX_PAIRS: usize = 4_096;

/// How many of them one author may have: four of the longest series. So no author can keep a device
/// from getting tokens for the recipes of others.
const MAX_PAIRS_OF_AUTHOR: usize = MAX_PAIRS / 4;

/// The aggregators, in the order in which requests are made.
const ROLES: [Role; 2] = [Role::Leader, Role::Helper];

/// The log as the device has taken it ([`super::follow`]), and by what it is judged now.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The newest view.
    pub view: &'a View,
    /// The recipes, admitted or not.
    pub recipes: &'a BTreeMap<EntryId, Result<Arc<Admitted>, Silence>>,
    /// What the device trusts.
    pub trust: &'a Trust,
    /// The device's time.
    pub now: Moment,
}

/// A request that is waiting for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The recipe, or the header of the series.
    pub recipe: EntryId,
    /// For which participation in the series.
    pub participation: Option<u32>,
    /// Whose token.
    pub role: Role,
}

/// What is sent to an attester.
#[derive(Debug)]
pub struct AttesterRequest<'a> {
    /// To whom it is sent.
    pub attester: &'a Server,
    /// Who issues the token.
    pub issuer: &'a KeyName,
    /// The device's key, by which the attester counts.
    pub client_key: [u8; 32],
    /// The request.
    pub attempt: &'a TokenAttempt,
}

/// What one pair of tokens is for: a recipe, or one participation in a series.
#[derive(Clone, Copy)]
struct Slot<'a> {
    /// The recipe, or the header.
    admitted: &'a Admitted,
    participation: Option<u32>,
}

impl<'a> Slot<'a> {
    /// All slots of an admitted recipe.
    fn all(admitted: &'a Admitted) -> impl ExactSizeIterator<Item = Self> {
        let terms = admitted.assessment.token_terms(Role::Leader);
        let series = terms.and_then(TokenTerms::participations);
        let slot = move |number| Self { admitted, participation: series.map(|_| number) };
        (0..series.unwrap_or(1)).map(slot)
    }

    /// The name of the slot in the device's state.
    fn id(&self) -> EntryId {
        slot_id(&self.admitted.assessment.id(), self.participation)
    }

    /// What the token for this aggregator must be; `None` if it requires none.
    fn terms(&self, role: Role) -> Option<TokenTerms> {
        let terms = self.admitted.assessment.token_terms(role)?;
        match self.participation {
            None => Some(terms.clone()),
            Some(number) => terms.participation(number).ok(),
        }
    }
}

/// The name of a slot in the device's state. No recipe has the id of a participation: recipes are
/// JSON.
fn slot_id(recipe: &EntryId, participation: Option<u32>) -> EntryId {
    let Some(number) = participation else { return *recipe };
    let text = [&b"sotto participation"[..], recipe.as_bytes(), &number.to_be_bytes()].concat();
    EntryId::of(&text)
}

impl Waiting {
    /// The slot's name in the device's state.
    fn slot(&self) -> EntryId {
        slot_id(&self.recipe, self.participation)
    }
}

impl<'a> Snapshot<'a> {
    /// The slots of the admitted recipes that need tokens and have not ended, in log order, which no
    /// author can choose. Rounds use the tokens of their series. A recipe that does not fit into its
    /// author's share, and all later ones of this author, wait until earlier ones have ended.
    fn needing_tokens(&self, state: &DeviceState) -> impl Iterator<Item = Slot<'a>> + use<'a> {
        let now = self.now.0.max(state.time);
        let lives = |admitted: &&Arc<Admitted>| {
            let recipe = admitted.assessment.recipe();
            recipe.when.closes > now
                && recipe.round().is_none()
                && admitted.assessment.token_terms(Role::Leader).is_some()
        };
        let admitted = self.recipes.values().filter_map(|admitted| admitted.as_ref().ok());
        let mut needing: Vec<_> = admitted.filter(lives).collect();
        needing.sort_by_key(|admitted| admitted.index);
        let mut of_author = BTreeMap::<_, usize>::new();
        needing.retain(|admitted| {
            let pairs = of_author.entry(&admitted.assessment.recipe().author.key).or_default();
            *pairs += Slot::all(admitted).len();
            *pairs <= MAX_PAIRS_OF_AUTHOR
        });
        // What has expired still counts: it is stored until its recipe has ended.
        let is_valid = move |admitted: &&Arc<Admitted>| {
            let mut all =
                ROLES.into_iter().filter_map(|role| admitted.assessment.token_terms(role));
            all.all(|terms| terms.expires() > now)
        };
        needing.into_iter().filter(is_valid).flat_map(|admitted| Slot::all(admitted))
    }

    fn slot(&self, waiting: &Waiting) -> Option<Slot<'a>> {
        let admitted = self.recipes.get(&waiting.recipe)?.as_ref().ok()?;
        Some(Slot { admitted, participation: waiting.participation })
    }

    /// Checks that the view is fresh and that the device has compared it with what it saw before.
    /// Otherwise a log could show one device a recipe made for it alone, and recognise the device
    /// by its token request.
    fn check(&self, state: &DeviceState) -> Result<(), Silence> {
        self.view.check_fresh(self.trust, self.now)?;
        check_taken(state, &self.view.checkpoint().origin, self.view)
    }

    /// The attester of this aggregator's tokens.
    fn attester(&self, role: Role) -> Option<&'a Server> {
        self.trust.tokens()?.attester(role)
    }

    /// What a request for this aggregator's token is made from; `None` if the recipe needs none.
    /// The issuer's key set must be in force and follow the one used before.
    fn chain<'r>(
        &self,
        state: &DeviceState,
        slot: Slot<'r>,
        role: Role,
    ) -> Result<Option<Chain<'r>>, Silence> {
        let Some(terms) = slot.terms(role) else { return Ok(None) };
        let admitted = slot.admitted;
        let missing = |what: &str| {
            let role = role.as_str();
            Silence::new(Check::KeySets, format!("the {what} of the {role}'s tokens is missing"))
        };
        let issuer = admitted.issuer(role).zip(admitted.encapsulation(role));
        let (issuer, encapsulation) = issuer.ok_or_else(|| missing("issuer's key set"))?;
        let client = self.attester(role).and_then(|attester| state.client_secret(attester));
        let client = client.ok_or_else(|| missing("attester"))?;
        let key_set = check_key_set(state, &issuer.set, self.trust, self.now)?;
        Ok(Some(Chain { terms, encapsulation, client, key_set }))
    }

    /// The time over which requests are spread.
    fn spread_s(&self) -> u64 {
        self.trust.tokens().map_or(0, |tokens| tokens.spread_s)
    }
}

/// Draws when to request the tokens of recipes seen for the first time. Returns `None` if there are
/// none.
pub fn plan(
    state: &DeviceState,
    snapshot: &Snapshot<'_>,
    rng: &mut dyn CryptoRng,
) -> Result<Option<Change>, Silence> {
    snapshot.check(state)?;
    if snapshot.trust.tokens().is_none() {
        return Ok(None);
    }
    let (now, spread_s) = (snapshot.now.0, snapshot.spread_s());
    let room = MAX_PAIRS.saturating_sub(state.tokens.len());
    let recipes: Vec<_> = snapshot
        .needing_tokens(state)
        .filter(|slot| !state.tokens.contains_key(&slot.id()))
        .take(room)
        .map(|slot| {
            let closes = slot.admitted.assessment.recipe().when.closes;
            (slot.id(), closes, times::soon(closes, now, spread_s, rng))
        })
        .collect();
    if recipes.is_empty() {
        return Ok(None);
    }
    let seed = state.client_seed.is_none().then(|| {
        let mut seed = ClientSeed([0; 32]);
        rng.fill_bytes(&mut seed.0);
        seed
    });
    Ok(Some(Change::Tokens(TokenChange::Planned(Planned { seed, recipes }))))
}

/// Makes the requests for the tokens that are due. Returns `None` if none are due.
pub fn request(
    state: &DeviceState,
    snapshot: &Snapshot<'_>,
    rng: &mut dyn CryptoRng,
) -> Result<Option<Change>, Silence> {
    snapshot.check(state)?;
    let is_due = |slot: &Slot<'_>| {
        let tokens = state.tokens.get(&slot.id());
        let now = snapshot.now.0;
        tokens.is_some_and(|tokens| matches!(tokens.stage, Stage::Due { at } if at <= now))
    };
    let mut requested = Requested { key_sets: Vec::new(), recipes: Vec::new() };
    for slot in snapshot.needing_tokens(state).filter(is_due) {
        let chain = |role| snapshot.chain(state, slot, role);
        let (Ok(Some(leader)), Ok(helper)) = (chain(Role::Leader), chain(Role::Helper)) else {
            continue;
        };
        // If the scheme cannot use one recipe's keys, the other recipes still get their tokens.
        if let Ok(asked) = both(&leader, helper.as_ref(), rng) {
            requested.recipes.push((slot.id(), asked));
            requested.key_sets.push(leader.key_set);
            requested.key_sets.extend(helper.map(|helper| helper.key_set));
        }
    }
    if requested.recipes.is_empty() {
        return Ok(None);
    }
    Ok(Some(Change::Tokens(TokenChange::Requested(Box::new(requested)))))
}

/// The requests without an answer, in random order: log order would tell the attester which is
/// which.
pub fn waiting(
    state: &DeviceState,
    snapshot: &Snapshot<'_>,
    rng: &mut dyn CryptoRng,
) -> Vec<Waiting> {
    let of_slot = |slot: Slot<'_>| {
        let (recipe, participation) = (slot.admitted.assessment.id(), slot.participation);
        ROLES.map(|role| Waiting { recipe, participation, role })
    };
    let all = snapshot.needing_tokens(state).flat_map(of_slot);
    let mut waiting: Vec<_> = all.filter(|next| waiting_request(state, next).is_some()).collect();
    shuffle(&mut waiting, rng);
    waiting
}

/// How many tokens of live recipes are not yet held, spent or withheld.
pub fn outstanding(state: &DeviceState, snapshot: &Snapshot<'_>) -> usize {
    let roles = |slot: Slot<'_>| {
        let (admitted, tokens) = (slot.admitted, state.tokens.get(&slot.id()));
        let is_outstanding = |role: &Role| match tokens.map(|tokens| &tokens.stage) {
            None | Some(Stage::Due { .. }) => admitted.assessment.token_terms(*role).is_some(),
            Some(Stage::Asked(asked)) => {
                matches!(asked.progress(*role), Some(Progress::Waiting(_)))
            }
            Some(Stage::Spent {}) => false,
        };
        ROLES.iter().filter(|role| is_outstanding(role)).count()
    };
    snapshot.needing_tokens(state).map(roles).sum()
}

/// What to send for a waiting request.
pub fn attester_request<'a>(
    state: &'a DeviceState,
    snapshot: &Snapshot<'a>,
    waiting: &Waiting,
) -> Option<AttesterRequest<'a>> {
    let admitted = snapshot.slot(waiting)?.admitted;
    let issuer = admitted.assessment.token_terms(waiting.role)?.issuer();
    let attester = snapshot.attester(waiting.role)?;
    let attempt = &waiting_request(state, waiting)?.1.attempt;
    let client_key = *state.client_secret(attester)?.public_key().as_bytes();
    Some(AttesterRequest { attester, issuer, client_key, attempt })
}

/// Opens the attester's answer. An invalid token is an error and changes nothing.
///
/// The time at which the answer is sent is drawn now. If a report always followed right after its
/// token, attester and leader together could tell whose it is. A token of a series may be used at
/// once: a device takes part in no round before it has an answer for each token, and rounds come
/// when their author publishes them.
pub fn granted(
    state: &DeviceState,
    snapshot: &Snapshot<'_>,
    waiting: &Waiting,
    response: &[u8],
    rng: &mut dyn CryptoRng,
) -> Result<Change, TokenError> {
    let (recipe, role) = (waiting.slot(), waiting.role);
    let found = || {
        let slot = snapshot.slot(waiting)?;
        Some((slot.admitted, slot.terms(role)?, waiting_request(state, waiting)?))
    };
    let (admitted, terms, (nonce, request)) = found().ok_or(TokenError::Attempt)?;
    let assessment = &admitted.assessment;
    let token = TokenBytes(Zeroizing::new(terms.finish(nonce, &request.attempt, response)?));
    let asked = state.tokens.get(&recipe).and_then(RecipeTokens::asked);
    let others = ROLES.into_iter().filter(|other| *other != role);
    let drawn = others.filter_map(|other| asked?.progress(other)).find_map(Progress::usable_from);
    let (when, now) = (&assessment.recipe().when, snapshot.now.0);
    // One time for both tokens: the later of two uniform times is not uniform.
    let from = match waiting.participation {
        Some(_) => now,
        None => drawn.unwrap_or_else(|| {
            times::answer(when, admitted.known_from, now, snapshot.spread_s(), rng)
        }),
    };
    Ok(Change::Tokens(TokenChange::Granted { recipe, role, token, from }))
}

/// The attester withholds the token: this device already got one. It is never requested again, so
/// call this only if the attester says so with its own problem type
/// ([`sotto_wire::token::WITHHELD_PROBLEM`]).
pub fn withheld(waiting: &Waiting) -> Change {
    Change::Tokens(TokenChange::Withheld { recipe: waiting.slot(), role: waiting.role })
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
    snapshot: &Snapshot<'_>,
    refused: &Waiting,
    rng: &mut dyn CryptoRng,
) -> Option<Change> {
    let (nonce, old) = waiting_request(state, refused)?;
    let chain = snapshot.chain(state, snapshot.slot(refused)?, refused.role).ok()??;
    if chain.key_set.1.seq <= old.seq {
        return None;
    }
    let mut asked = state.tokens.get(&refused.slot())?.asked()?.clone();
    *asked.progress_mut(refused.role)? = chain.request(nonce, rng).ok()?;
    let requested =
        Requested { key_sets: vec![chain.key_set], recipes: vec![(refused.slot(), asked)] };
    Some(Change::Tokens(TokenChange::Requested(Box::new(requested))))
}

/// What a decision takes of a recipe's tokens.
pub(super) struct Taken {
    /// The tokens of the report that may follow; `None` if the recipe needs none.
    pub(super) tokens: Option<ReportTokens>,
    /// When to send.
    pub(super) from: u64,
    /// The slot whose tokens this decision spends. The only pair of a donation stays: its secret
    /// round comes once, and what is left of the state must not tell whether it has come.
    pub(super) spends: Option<EntryId>,
}

/// The tokens of a recipe, for the report that may follow, and when to send it.
///
/// A recipe is decided in a pass that reads the log, a while before its answer is sent. A device that
/// had no such pass in time draws another time. A round is answered at once: it comes when its author
/// publishes it, and its tokens came long before.
pub(super) fn take(
    state: &DeviceState,
    admitted: &Admitted,
    trust: &Trust,
    now: Moment,
    rng: &mut dyn CryptoRng,
) -> Result<Taken, Silence> {
    let recipe = admitted.assessment.recipe();
    if admitted.assessment.token_terms(Role::Leader).is_none() {
        return Ok(Taken { tokens: None, from: now.0, spends: None });
    }
    let slot = slot_id(&recipe.series_id(), recipe.token_number());
    let asked = state.tokens.get(&slot).and_then(RecipeTokens::asked);
    let (tokens, drawn) = pair(state, admitted, asked.ok_or_else(|| missing("leader"))?, now)?;
    let tokens = Some(tokens);
    if recipe.round().is_some() {
        let spends = (!is_donation(recipe)).then_some(slot);
        return Ok(Taken { tokens, from: now.0, spends });
    }
    let spread_s = trust.tokens().map_or(0, |tokens| tokens.spread_s);
    let from = times::decided(drawn, recipe.when.closes, now.0, spread_s, rng)
        .ok_or_else(|| missing("leader"))?;
    Ok(Taken { tokens, from, spends: Some(slot) })
}

fn is_donation(recipe: &Recipe) -> bool {
    let participation = recipe.series.as_ref().map(|series| series.participation);
    participation == Some(Participation::Donation {})
}

fn missing(name: &str) -> Silence {
    Silence::new(Check::Token, format!("no token for the {name} that may be used now"))
}

/// Both tokens of a slot, and from when they may be used.
fn pair(
    state: &DeviceState,
    admitted: &Admitted,
    asked: &Asked,
    now: Moment,
) -> Result<(ReportTokens, u64), Silence> {
    let token = |role: Role, terms: &TokenTerms, name| match asked.progress(role) {
        Some(Progress::Granted { token, from })
            if terms.expires() > now.0.max(*from).max(state.time) =>
        {
            Ok((token.to_vec(), *from))
        }
        _ => Err(missing(name)),
    };
    let terms = |role| admitted.assessment.token_terms(role);
    let leader = terms(Role::Leader).ok_or_else(|| missing("leader"))?;
    let (leader, drawn) = token(Role::Leader, leader, "leader")?;
    let helper = terms(Role::Helper).map(|terms| token(Role::Helper, terms, "helper"));
    let helper = helper.transpose()?.map(|(token, _)| token);
    Ok((ReportTokens { report_id: report_id(&asked.nonce), leader, helper }, drawn))
}

impl DeviceState {
    /// The recipes whose tokens are planned, requested, held or spent.
    pub fn tokens(&self) -> impl Iterator<Item = &EntryId> {
        self.tokens.keys()
    }

    /// The secret behind the key by which this attester knows this device; `None` before the first
    /// plan. Another attester gets another key, so that the two share no identifier of ours.
    pub(super) fn client_secret(&self, attester: &Server) -> Option<ClientSecret> {
        let seed = self.client_seed.as_ref()?;
        Some(ClientSecret::for_attester(&seed.0, attester.operator.as_str()))
    }
}

/// A waiting request, and the nonce of its token.
fn waiting_request<'a>(
    state: &'a DeviceState,
    waiting: &Waiting,
) -> Option<(&'a [u8; 32], &'a Request)> {
    let asked = state.tokens.get(&waiting.slot())?.asked()?;
    match asked.progress(waiting.role)? {
        Progress::Waiting(request) => Some((&asked.nonce, request)),
        Progress::Granted { .. } | Progress::Withheld {} => None,
    }
}

/// What a request for one aggregator's token is made from.
struct Chain<'a> {
    terms: TokenTerms,
    /// The issuer's key.
    encapsulation: &'a HpkeConfig,
    /// By which the attester counts.
    client: ClientSecret,
    /// The issuer's key set.
    key_set: (KeyName, SeenKeySet),
}

impl Chain<'_> {
    fn request(&self, nonce: &[u8; 32], rng: &mut dyn CryptoRng) -> Result<Progress, TokenError> {
        let attempt = self.terms.request(&self.client, self.encapsulation, nonce, rng)?;
        Ok(Progress::Waiting(Request { attempt, seq: self.key_set.1.seq }))
    }
}

/// The requests for the tokens of one recipe, under one nonce.
fn both(
    leader: &Chain<'_>,
    helper: Option<&Chain<'_>>,
    rng: &mut dyn CryptoRng,
) -> Result<Asked, TokenError> {
    let mut nonce = Zeroizing::new([0; 32]);
    rng.fill_bytes(&mut *nonce);
    let leader = leader.request(&nonce, rng)?;
    let helper = helper.map(|helper| helper.request(&nonce, rng)).transpose()?;
    Ok(Asked { nonce, leader, helper })
}
