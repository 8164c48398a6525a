//! Everything that a device reads, and a device with a history.
//!
//! [`Plan::new`] is a world in which the device considers the recipe. A test changes one thing in
//! the plan and builds it.

use std::collections::BTreeMap;

use sotto_crypto::note::NoteKey;
use sotto_protocol::Moment;
use sotto_protocol::admission::{Assessments, Evidence, Offer, Silence, View, Watch, WatchError};
use sotto_protocol::device::{
    Change, DeviceStore, Host, MemoryState, Pass, PassError, advance, consider, pass, toss,
};
use sotto_protocol::expression::{Attributes, Value};
use sotto_protocol::log::Reader;
use sotto_protocol::trust::{PinnedOperator, PinnedServer, TokensFile, Trust, TrustFile};
use sotto_wire::recipe::{
    KeySet, Participation, PopulationResult, Privacy, Recipe, Round, Series, Targeting, Tokens,
};
use sotto_wire::{Entry, EntryId, EntryKind, Role};

use super::keys::{key, rng};
use super::log::{Batch, Files, Log, ORIGIN, Times, at, entry};
use super::recipe::{
    ATTESTERS, DAY, HOUR, ISSUERS, NOW, PERIOD, closed, issuer_set, key_set, leader_set, recipe,
    recipe_entry, reclaim, result, trust_file,
};
use crate::arbitrary::TOKEN_KEYS;

/// Which entries an offer is made of, by their index.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    pub recipe: u64,
    /// The header of a series, if the recipe is a round.
    pub header: Option<u64>,
    pub leader: u64,
    pub helper: u64,
    /// Of the leader's and of the helper's tokens.
    pub issuers: Option<[u64; 2]>,
    pub result: Option<u64>,
}

/// A world before it is built.
pub struct Plan {
    pub trust: TrustFile,
    pub now: u64,
    pub recipe: Recipe,
    pub recipe_signer: NoteKey,
    /// The recipe's entry, if it is not the honest one.
    pub recipe_bytes: Option<Vec<u8>>,
    pub recipe_times: Times,
    pub leader_set: KeySet,
    pub leader_signer: NoteKey,
    pub helper_set: KeySet,
    pub helper_signer: NoteKey,
    pub keys_times: Times,
    /// The issuers' key sets, at the beginning of the log: of the leader's tokens, and of the helper's.
    pub issuer_sets: Option<[KeySet; 2]>,
    pub issuer_signers: [NoteKey; 2],
    pub result: PopulationResult,
    pub result_signers: Vec<NoteKey>,
    pub result_times: Times,
    /// After the recipe.
    pub later: Vec<Batch>,
    pub view: Times,
    pub log_key: NoteKey,
    pub places: Places,
    pub conditions_met: bool,
    pub attributes: Attributes,
}

impl Plan {
    pub fn new() -> Self {
        let mut plan = Self {
            trust: trust_file(),
            now: NOW,
            recipe: recipe("which-region"),
            recipe_signer: key("author.example"),
            recipe_bytes: None,
            recipe_times: at(NOW - 3 * DAY),
            leader_set: leader_set(&key("leader.example"), 5, NOW - 39 * DAY),
            leader_signer: key("leader.example"),
            helper_set: key_set(&key("helper.example"), 7, NOW - 39 * DAY),
            helper_signer: key("helper.example"),
            keys_times: at(NOW - 40 * DAY),
            issuer_sets: None,
            issuer_signers: ISSUERS.map(key),
            result: result("tier == 'gold'", 50_000),
            result_signers: vec![key("leader.example"), key("helper.example")],
            result_times: at(NOW - 35 * DAY),
            later: Vec::new(),
            view: at(NOW - HOUR),
            log_key: key(ORIGIN),
            places: Places {
                recipe: 5,
                header: None,
                leader: 2,
                helper: 3,
                issuers: None,
                result: None,
            },
            conditions_met: true,
            attributes: BTreeMap::from([
                ("region".to_owned(), Value::Int(2)),
                ("tier".to_owned(), Value::String("gold".to_owned())),
            ]),
        };
        plan.reclaim();
        plan
    }

    /// Claims exactly what the recipe's parameters imply.
    pub fn reclaim(&mut self) {
        reclaim(&mut self.recipe);
    }

    /// The epsilon that the recipe claims.
    pub fn recipe_epsilon(&self) -> f64 {
        self.recipe_micro() as f64 / 1e6
    }

    /// The same in millionths. The recipe must claim one.
    pub fn recipe_micro(&self) -> u64 {
        match self.recipe.privacy {
            Privacy::Claim { epsilon_micro, .. } => epsilon_micro,
            Privacy::InsecureUnbounded => panic!("the recipe claims nothing"),
        }
    }

    /// Makes the recipe the header of a series of so many rounds.
    pub fn in_series(&mut self, rounds: u64, participation: Participation) {
        self.recipe.series = Some(Series {
            rounds,
            participation,
            length_s: None,
            training: None,
            discovery: None,
            round: None,
        });
        if let Privacy::Claim { rounds: claimed, .. } = &mut self.recipe.privacy {
            *claimed = rounds;
        }
        self.reclaim();
    }

    /// Publishes a round of the recipe at this time, after whatever was published so far. It is the
    /// recipe in question from then on.
    pub fn round(&mut self, round: Round, time: u64) -> EntryId {
        let round = self.recipe.with_round(round).unwrap();
        let id = round.id();
        self.publish(recipe_entry(&round), time);
        id
    }

    /// Publishes an entry, which is the recipe in question from then on, as a round of the recipe.
    pub fn publish(&mut self, entry: Vec<u8>, time: u64) {
        let before: usize = self.later.iter().map(|batch| batch.entries.len()).sum();
        self.later.push(Batch { entries: vec![entry], times: at(time) });
        self.places.recipe = 6 + before as u64;
        self.places.header = Some(5);
    }

    /// Asks only the devices that satisfy the result's predicate.
    pub fn target(&mut self) {
        self.recipe.who.targeting = Some(Targeting {
            predicate: self.result.predicate.clone(),
            certified: self.result.id(),
        });
        self.places.result = Some(4);
    }

    /// Makes both aggregators check tokens, with real keys that their issuers endorsed.
    pub fn with_tokens(&mut self) {
        let [leader, helper] = TOKEN_KEYS;
        self.with_token_keys(leader, helper);
    }

    /// The same with these public keys, in the text form of recipes.
    pub fn with_token_keys(&mut self, leader: &str, helper: &str) {
        let pinned = |key: &NoteKey| PinnedOperator { key: key.verifier().to_string() };
        self.trust.operators.extend(self.issuer_signers.iter().map(pinned));
        self.trust.insecure_no_tokens = false;
        let [leader_issuer, helper_issuer] = ISSUERS;
        let mut tokens = TokensFile::new(leader_issuer, helper_issuer);
        let attester = |name: &str| {
            let (operator, url) = (name.to_owned(), format!("https://{name}/"));
            Some(PinnedServer { operator, key: None, url })
        };
        tokens.leader.attester = attester(ATTESTERS[0]);
        tokens.helper.attester = attester(ATTESTERS[1]);
        self.trust.tokens = Some(tokens);
        let signers = &self.issuer_signers;
        self.issuer_sets =
            Some([0, 1].map(|chain| issuer_set(chain, &signers[chain], 3, NOW - 39 * DAY)));
        self.places.issuers = Some([0, 1]);
        self.endorse(leader, Some(helper));
    }

    /// Endorses the recipe's token keys again, for the recipe as it is now.
    pub fn endorse(&mut self, leader: &str, helper: Option<&str>) {
        self.recipe.parties.tokens = endorsed(&self.issuer_signers, &self.recipe, leader, helper);
    }

    /// The id of the recipe in question.
    pub fn focus(&self) -> EntryId {
        let mut later = self.later.iter().flat_map(|batch| &batch.entries);
        match self.places.recipe {
            0..=5 => self.recipe.id(),
            index => {
                let bytes = later.nth(index as usize - 6).unwrap();
                // What does not parse has no id, and is listed nowhere.
                Entry::parse(bytes).map_or_else(|_| self.recipe.id(), |entry| entry.id())
            }
        }
    }

    pub fn build(&self) -> World {
        let set = |set: &KeySet, signer| entry(EntryKind::KeySet, &set.to_json(), &[signer]);
        let signers: Vec<&NoteKey> = self.result_signers.iter().collect();
        let recipe = || entry(EntryKind::Recipe, &self.recipe.to_json(), &[&self.recipe_signer]);
        let [leader_issuer, helper_issuer] = &self.issuer_signers;
        let beginning = match &self.issuer_sets {
            Some([leader, helper]) => vec![set(leader, leader_issuer), set(helper, helper_issuer)],
            None => ["over", "over-too"].map(|name| recipe_entry(&closed(name, self.now))).into(),
        };
        let batch = |entries: Vec<Vec<u8>>, times| Batch { entries, times };
        let mut batches = vec![
            batch(beginning, at(NOW - 41 * DAY)),
            batch(
                vec![
                    set(&self.leader_set, &self.leader_signer),
                    set(&self.helper_set, &self.helper_signer),
                ],
                self.keys_times,
            ),
            batch(
                vec![entry(EntryKind::Result, &self.result.to_json(), &signers)],
                self.result_times,
            ),
            batch(vec![self.recipe_bytes.clone().unwrap_or_else(recipe)], self.recipe_times),
        ];
        batches.extend(self.later.iter().cloned());
        World {
            log: Log::new(&batches, self.view, &self.log_key),
            trust: Trust::try_from(self.trust.clone()).unwrap(),
            now: Moment(self.now),
            places: self.places,
            conditions_met: self.conditions_met,
            attributes: self.attributes.clone(),
        }
    }
}

/// The tokens of a recipe with these public keys, endorsed by the issuers of the leader's and of the
/// helper's tokens until the recipe closes. Without a key for the helper, only the leader checks.
pub fn endorsed(
    [leader_issuer, helper_issuer]: &[NoteKey; 2],
    recipe: &Recipe,
    leader: &str,
    helper: Option<&str>,
) -> Tokens {
    let expires = recipe.when.closes;
    let leader = leader_issuer.endorse_for(recipe, Role::Leader, leader, expires);
    let endorse = |helper| helper_issuer.endorse_for(recipe, Role::Helper, helper, expires);
    match helper.map(endorse) {
        Some(helper) => Tokens::RateLimited { leader, helper },
        None => Tokens::InsecureLeaderOnly { leader },
    }
}

/// What a device reads.
pub struct World {
    pub log: Log,
    pub trust: Trust,
    pub now: Moment,
    pub places: Places,
    pub conditions_met: bool,
    pub attributes: Attributes,
}

/// The decision about the recipe.
pub type Decision = Result<EntryId, Silence>;

impl World {
    pub fn host(&self) -> Host<'_> {
        Host { conditions_met: self.conditions_met, attributes: &self.attributes, learner: None }
    }

    /// A device that has known the log since an earlier period.
    pub fn device(&self) -> MemoryState {
        let mut store = MemoryState::default();
        let checkpoint = sotto_wire::Checkpoint::parse(self.log.checkpoints[0].text()).unwrap();
        store.commit(seen(checkpoint, NOW - 41 * DAY)).unwrap();
        store
    }

    pub fn evidence(&self, index: u64) -> Evidence {
        let mut reader = Reader::new(self.log.files.clone());
        let tree = sotto_wire::Checkpoint::parse(self.log.view.text()).unwrap();
        let first = reader.first_checkpoint(index).unwrap();
        Evidence {
            entry: reader.entry(index, &tree).unwrap(),
            index,
            inclusion: reader.inclusion(index, tree.size).unwrap(),
            first: reader.proof(index, &first).unwrap(),
        }
    }

    pub fn offer(&self) -> Offer {
        Offer {
            recipe: self.evidence(self.places.recipe),
            header: self.places.header.map(|index| self.evidence(index)),
            leader_keys: self.evidence(self.places.leader),
            helper_keys: self.evidence(self.places.helper),
            leader_issuer_keys: self.places.issuers.map(|[leader, _]| self.evidence(leader)),
            helper_issuer_keys: self.places.issuers.map(|[_, helper]| self.evidence(helper)),
            certified: self.places.result.map(|index| self.evidence(index)),
        }
    }

    /// All steps of a device on one offer, up to the toss.
    pub fn decide(&self, store: &mut dyn DeviceStore, offer: &Offer) -> Decision {
        let view = View::open(&self.log.view.to_bytes(), &self.trust)?;
        let from = store.state().log_size(&view.checkpoint().origin).unwrap_or(0);
        let size = view.checkpoint().size;
        let proof = if from == 0 || from >= size {
            Vec::new()
        } else {
            Reader::new(self.log.files.clone()).consistency(from, size).unwrap()
        };
        if let Some(seen) = advance(store.state(), &view, &proof, &self.trust, self.now)? {
            store.commit(seen).unwrap();
        }
        let admitted = Assessments::default().admit(offer, &view, &self.trust)?.into();
        let host = self.host();
        let mut rng = rng(1);
        let view = &view;
        let step =
            consider(store.state(), &admitted, view, &self.trust, &host, self.now, &mut rng)?;
        store.commit(step.change).unwrap();
        if let Some(answered) = toss(step.ticket, &host, &mut rng).unwrap() {
            store.commit(answered).unwrap();
        }
        step.silence.map_or_else(|| Ok(admitted.assessment.id()), Err)
    }

    pub fn watch(&self) -> Result<Watch<Files>, WatchError> {
        let mut watch = Watch::new(self.log.files.clone());
        watch.refresh(&self.trust, self.now)?;
        Ok(watch)
    }

    /// A pass of a real device: the whole log, every open recipe.
    pub fn walk(&self, store: &mut dyn DeviceStore, seed: u64) -> Result<Pass, PassError> {
        let mut watch = match self.watch() {
            Err(WatchError::Refused(silence)) => return Err(silence.into()),
            watch => watch.unwrap(),
        };
        let mut rng = rng(seed);
        pass(store, &mut watch, &self.trust, &self.host(), self.now, &mut rng)
    }
}

/// The first view of a device, at this time.
pub fn seen(checkpoint: sotto_wire::Checkpoint, time: u64) -> Change {
    Change::Seen { checkpoint, time, silent_until: (time / PERIOD + 1) * PERIOD }
}
