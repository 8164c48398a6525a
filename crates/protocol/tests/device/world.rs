//! A public log in memory with everything that a device asks for, and a device with a history.
//!
//! [`Plan::new`] is a world in which the device considers the recipe. A test changes one thing in the plan, and builds.

use std::collections::BTreeMap;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sha2::{Digest, Sha256};
use sotto_crypto::note::NoteKey;
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::Moment;
use sotto_protocol::device::{
    Change, DeviceStore, Evidence, Host, Library, MemoryState, Offer, Pass, PassError, Silence,
    View, advance, consider, pass, toss,
};
use sotto_protocol::expression::{Attributes, Value};
use sotto_protocol::log::sequence::{LogState, checkpoint};
use sotto_protocol::log::{Reader, Watch, WatchError, first};
use sotto_protocol::recipe::{judgement, recipe_vdaf};
use sotto_protocol::trust::{
    BudgetFile, Floors, LogGatewayFile, PinnedAttester, PinnedOperator, PinnedRelay, TokensFile,
    Trust, TrustFile,
};
use sotto_wire::recipe::testing::TOKEN_KEYS;
use sotto_wire::recipe::{
    Accountant, Adjacency, Aggregation, Aggregator, AttributeType, KeySet, Parties,
    PopulationResult, Privacy, Probability, PublicKey, Query, Randomizer, Recipe, Sampling, Signer,
    Targeting, Tokens, When, Who,
};
use sotto_wire::{BatchMode, Entry, EntryId, EntryKind, HpkeConfigId, Note};

pub(crate) const HOUR: u64 = 3_600;
pub(crate) const DAY: u64 = 24 * HOUR;
pub(crate) const PERIOD: u64 = 28 * DAY;
/// Ten days into a period.
pub(crate) const NOW: u64 = 745 * PERIOD + 10 * DAY;
pub(crate) const ORIGIN: &str = "log.example";
/// Who runs the log's gateway.
pub(crate) const LOG_OPERATOR: &str = "gateway.example";

/// Who issues tokens, and who attests devices.
pub(crate) const ISSUER: &str = "issuer.example";
pub(crate) const ATTESTER: &str = "attester.example";

pub(crate) type Files = BTreeMap<String, Vec<u8>>;
/// When each of the three witnesses cosigned; two are a quorum.
pub(crate) type Times = [Option<u64>; 3];

/// The key of somebody, by name.
pub(crate) fn key(name: &str) -> NoteKey {
    key_of(name, name)
}

/// The key of `person` under another name.
pub(crate) fn key_of(person: &str, name: &str) -> NoteKey {
    NoteKey::from_seed(name.parse().unwrap(), Secret::new(Sha256::digest(person).into()))
}

pub(crate) fn witness(number: usize) -> NoteKey {
    key(&format!("witness-{number}.example"))
}

pub(crate) fn signer(key: &NoteKey) -> Signer {
    Signer { name: key.name().clone(), key: PublicKey::new(*key.verifier().public_key()) }
}

/// All three at once.
pub(crate) fn at(time: u64) -> Times {
    [Some(time); 3]
}

/// The bytes of a signed entry.
pub(crate) fn entry(kind: EntryKind, json: &[u8], signers: &[&NoteKey]) -> Vec<u8> {
    let text = Entry::text(kind, std::str::from_utf8(json).unwrap());
    let note = signers
        .iter()
        .fold(Note::new(text.clone()).unwrap(), |note, key| note.with_signature(key.sign(&text)));
    note.to_bytes()
}

pub(crate) fn recipe_entry(recipe: &Recipe) -> Vec<u8> {
    entry(EntryKind::Recipe, &recipe.to_json(), &[&key("author.example")])
}

/// The HPKE configuration of somebody, as key sets and recipes hold it.
pub(crate) fn hpke(seed: u64) -> String {
    KeySet::config_text(keypair(1, seed).config())
}

/// The key of a gateway, with its number as its id.
pub(crate) fn gateway_key(number: u8) -> HpkeKeypair {
    keypair(number, 1_000 + u64::from(number))
}

fn keypair(id: u8, seed: u64) -> HpkeKeypair {
    HpkeKeypair::generate(HpkeConfigId::new(id), &mut ChaCha20Rng::seed_from_u64(seed))
}

pub(crate) fn key_set(operator: &NoteKey, seq: u64, not_before: u64) -> KeySet {
    KeySet {
        version: 1,
        operator: signer(operator),
        seq,
        not_before,
        not_after: not_before + 365 * DAY,
        hpke_configs: vec![hpke(seq)],
        gateway_configs: None,
        encapsulation_configs: None,
    }
}

/// The same with a gateway, as leaders have one.
pub(crate) fn leader_set(operator: &NoteKey, seq: u64, not_before: u64) -> KeySet {
    let gateway_configs = Some(vec![KeySet::config_text(gateway_key(seq as u8).config())]);
    KeySet { gateway_configs, ..key_set(operator, seq, not_before) }
}

/// A key set of an issuer, who has no aggregator.
pub(crate) fn issuer_set(operator: &NoteKey, seq: u64, not_before: u64) -> KeySet {
    let encapsulation_configs = Some(vec![KeySet::config_text(encapsulation_key().config())]);
    let hpke_configs = Vec::new();
    KeySet { hpke_configs, encapsulation_configs, ..key_set(operator, seq, not_before) }
}

/// The issuer's key for token requests.
pub(crate) fn encapsulation_key() -> HpkeKeypair {
    keypair(3, 2_000)
}

/// A key set of the operator of the log's gateway, who has no aggregator.
pub(crate) fn log_set(seq: u64, not_before: u64) -> KeySet {
    KeySet { hpke_configs: Vec::new(), ..leader_set(&key(LOG_OPERATOR), seq, not_before) }
}

pub(crate) fn key_set_entry(set: &KeySet, signer: &NoteKey) -> Vec<u8> {
    entry(EntryKind::KeySet, &set.to_json(), &[signer])
}

/// Entries that were published together.
#[derive(Clone)]
pub(crate) struct Batch {
    pub(crate) entries: Vec<Vec<u8>>,
    pub(crate) times: Times,
}

/// Which entries an offer is made of, by their index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) recipe: u64,
    pub(crate) leader: u64,
    pub(crate) helper: u64,
    pub(crate) issuer: Option<u64>,
    pub(crate) result: Option<u64>,
}

/// A world before it is built.
pub(crate) struct Plan {
    pub(crate) trust: TrustFile,
    pub(crate) now: u64,
    pub(crate) recipe: Recipe,
    pub(crate) recipe_signer: NoteKey,
    /// The recipe's entry, if not the honest one.
    pub(crate) recipe_bytes: Option<Vec<u8>>,
    pub(crate) recipe_times: Times,
    pub(crate) leader_set: KeySet,
    pub(crate) leader_signer: NoteKey,
    pub(crate) helper_set: KeySet,
    pub(crate) helper_signer: NoteKey,
    pub(crate) keys_times: Times,
    /// The issuer's, at the beginning of the log.
    pub(crate) issuer_set: Option<KeySet>,
    pub(crate) issuer_signer: NoteKey,
    pub(crate) result: PopulationResult,
    pub(crate) result_signers: Vec<NoteKey>,
    pub(crate) result_times: Times,
    /// After the recipe.
    pub(crate) later: Vec<Batch>,
    pub(crate) view: Times,
    pub(crate) log_key: NoteKey,
    pub(crate) places: Places,
    pub(crate) conditions_met: bool,
    pub(crate) attributes: Attributes,
}

impl Plan {
    pub(crate) fn new() -> Self {
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
            issuer_set: None,
            issuer_signer: key(ISSUER),
            result: result("tier == 'gold'", 50_000),
            result_signers: vec![key("leader.example"), key("helper.example")],
            result_times: at(NOW - 35 * DAY),
            later: Vec::new(),
            view: at(NOW - HOUR),
            log_key: key(ORIGIN),
            places: Places { recipe: 4, leader: 1, helper: 2, issuer: None, result: None },
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
    pub(crate) fn reclaim(&mut self) {
        reclaim(&mut self.recipe);
    }

    /// The epsilon that the recipe claims.
    pub(crate) fn recipe_epsilon(&self) -> f64 {
        match self.recipe.privacy {
            Privacy::Claim { epsilon_micro, .. } => epsilon_micro as f64 / 1e6,
            Privacy::InsecureUnbounded => f64::INFINITY,
        }
    }

    /// Asks only the devices for which the result's predicate holds.
    pub(crate) fn target(&mut self) {
        self.recipe.who.targeting = Some(Targeting {
            predicate: self.result.predicate.clone(),
            certified: self.result.id(),
        });
        self.places.result = Some(3);
    }

    /// Makes both aggregators check tokens, with real keys that the issuer endorsed.
    pub(crate) fn with_tokens(&mut self) {
        let [leader, helper] = TOKEN_KEYS;
        self.with_token_keys(leader, helper);
    }

    /// The same with these public keys, in the text form of recipes.
    pub(crate) fn with_token_keys(&mut self, leader: &str, helper: &str) {
        let pinned = PinnedOperator { key: self.issuer_signer.verifier().to_string() };
        self.trust.operators.push(pinned);
        self.trust.insecure_no_tokens = false;
        let mut tokens = TokensFile::new(ISSUER);
        tokens.attester = Some(PinnedAttester {
            operator: ATTESTER.to_owned(),
            url: format!("https://{ATTESTER}/"),
        });
        self.trust.tokens = Some(tokens);
        self.issuer_set = Some(issuer_set(&self.issuer_signer, 3, NOW - 39 * DAY));
        self.places.issuer = Some(0);
        self.endorse(leader, Some(helper));
    }

    /// Endorses the recipe's token keys once more, for what the recipe says now.
    pub(crate) fn endorse(&mut self, leader: &str, helper: Option<&str>) {
        let expires = self.recipe.when.closes;
        self.recipe.parties.tokens =
            self.issuer_signer.endorse_recipe(&self.recipe, leader, helper, expires);
    }

    /// The id of the recipe in question.
    pub(crate) fn focus(&self) -> EntryId {
        let mut later = self.later.iter().flat_map(|batch| &batch.entries);
        match self.places.recipe {
            0..=4 => self.recipe.id(),
            index => {
                let bytes = later.nth(index as usize - 5).unwrap();
                Entry::parse(bytes).unwrap().id()
            }
        }
    }

    pub(crate) fn build(&self) -> World {
        let set = |set: &KeySet, signer| entry(EntryKind::KeySet, &set.to_json(), &[signer]);
        let signers: Vec<&NoteKey> = self.result_signers.iter().collect();
        let recipe = || entry(EntryKind::Recipe, &self.recipe.to_json(), &[&self.recipe_signer]);
        let beginning = match &self.issuer_set {
            Some(issuer) => set(issuer, &self.issuer_signer),
            None => recipe_entry(&closed(self.now)),
        };
        let batch = |entries: Vec<Vec<u8>>, times| Batch { entries, times };
        let mut batches = vec![
            batch(vec![beginning], at(NOW - 41 * DAY)),
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

/// The files of a log and the checkpoints that it has published.
#[derive(Clone)]
pub(crate) struct Log {
    pub(crate) files: Files,
    pub(crate) checkpoints: Vec<Note>,
    pub(crate) view: Note,
}

impl Log {
    /// Publishes the batches one after the other; then the witnesses cosign the last tree again, at `view`.
    pub(crate) fn new(batches: &[Batch], view: Times, log_key: &NoteKey) -> Self {
        let (mut files, mut state, mut checkpoints) = (Files::new(), LogState::new(), Vec::new());
        for batch in batches {
            // Without the rules of admission: a bad log takes anything.
            let (old, mut writes) = (state.size(), Vec::new());
            batch.entries.iter().for_each(|entry| state.push(entry, &mut writes));
            writes.extend(state.partial(old));
            files.extend(writes.into_iter().map(|write| (write.path, write.bytes)));
            let note = signed(&checkpoint(ORIGIN, &state).to_text(), batch.times, log_key);
            for bundle in old / 256..=(state.size() - 1) / 256 {
                files.entry(first::path(bundle)).or_default().extend(first::encode(&note));
            }
            checkpoints.push(note);
        }
        let view = signed(&checkpoint(ORIGIN, &state).to_text(), view, log_key);
        files.insert("checkpoint".to_owned(), view.to_bytes());
        Self { files, checkpoints, view }
    }
}

/// A signed and cosigned checkpoint.
pub(crate) fn signed(text: &str, times: Times, log_key: &NoteKey) -> Note {
    let note = Note::new(text).unwrap().with_signature(log_key.sign(text));
    times.iter().enumerate().fold(note, |note, (number, time)| match time {
        Some(time) => note.with_signature(witness(number).cosign(text, *time)),
        None => note,
    })
}

/// What a device is confronted with.
pub(crate) struct World {
    pub(crate) log: Log,
    pub(crate) trust: Trust,
    pub(crate) now: Moment,
    pub(crate) places: Places,
    pub(crate) conditions_met: bool,
    pub(crate) attributes: Attributes,
}

/// What became of the recipe.
pub(crate) type Decision = Result<EntryId, Silence>;

impl World {
    pub(crate) fn host(&self) -> Host<'_> {
        Host { conditions_met: self.conditions_met, attributes: &self.attributes }
    }

    /// A device that has known the log since an earlier period.
    pub(crate) fn device(&self) -> MemoryState {
        let mut store = MemoryState::default();
        let checkpoint = sotto_wire::Checkpoint::parse(self.log.checkpoints[0].text()).unwrap();
        store.commit(seen(checkpoint, NOW - 41 * DAY)).unwrap();
        store
    }

    pub(crate) fn evidence(&self, index: u64) -> Evidence {
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

    pub(crate) fn offer(&self) -> Offer {
        Offer {
            recipe: self.evidence(self.places.recipe),
            leader_keys: self.evidence(self.places.leader),
            helper_keys: self.evidence(self.places.helper),
            issuer_keys: self.places.issuer.map(|index| self.evidence(index)),
            certified: self.places.result.map(|index| self.evidence(index)),
        }
    }

    /// All steps of a device on one offer, up to the toss.
    pub(crate) fn decide(&self, store: &mut dyn DeviceStore, offer: &Offer) -> Decision {
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
        let admitted = Library::default().admit(offer, &view, &self.trust)?.into();
        let host = self.host();
        let step = consider(store.state(), &admitted, &view, &self.trust, &host, self.now)?;
        store.commit(step.change).unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        if let Some(answered) = toss(step.ticket, &host, self.now, &mut rng).unwrap() {
            store.commit(answered).unwrap();
        }
        Ok(admitted.assessment.id())
    }

    pub(crate) fn watch(&self) -> Result<Watch<Files>, WatchError> {
        let mut watch = Watch::new(self.log.files.clone());
        watch.refresh(&self.trust, self.now)?;
        Ok(watch)
    }

    /// The walk of a real device: the whole log, every open recipe.
    pub(crate) fn walk(&self, store: &mut dyn DeviceStore, seed: u64) -> Result<Pass, PassError> {
        let mut watch = match self.watch() {
            Err(WatchError::Refused(silence)) => return Err(silence.into()),
            watch => watch.unwrap(),
        };
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        pass(store, &mut watch, &self.trust, &self.host(), self.now, &mut rng)
    }
}

/// The first view of a device, at this time.
pub(crate) fn seen(checkpoint: sotto_wire::Checkpoint, time: u64) -> Change {
    Change::Seen { checkpoint, time, silent_until: (time / PERIOD + 1) * PERIOD }
}

pub(crate) fn trust_file() -> TrustFile {
    let mut policy = format!("log {}\n", key(ORIGIN).verifier());
    for number in 0..3 {
        policy += &format!("witness w{number} {}\n", witness(number).cosigner());
    }
    policy += "group two 2 w0 w1 w2\nquorum two\n";
    let operators = ["leader.example", "helper.example", "other.example", LOG_OPERATOR];
    TrustFile {
        policy,
        max_checkpoint_age_s: 7 * DAY,
        min_log_age_s: DAY,
        min_key_set_spacing_s: DAY,
        max_result_age_s: 90 * DAY,
        operators: operators
            .iter()
            .map(|name| PinnedOperator { key: key(name).verifier().to_string() })
            .collect(),
        authors: Some(vec![key("author.example").verifier().to_string()]),
        relays: vec![PinnedRelay {
            operator: "relay.example".to_owned(),
            url: "https://relay.example/".to_owned(),
        }],
        log_gateway: Some(LogGatewayFile {
            operator: LOG_OPERATOR.to_owned(),
            hpke_configs: vec![KeySet::config_text(gateway_key(0).config())],
        }),
        tokens: None,
        floors: Floors { max_rate: Probability::new(1, 2).unwrap(), ..Floors::default() },
        targeting_attributes: ["tier".to_owned()].into(),
        budget: BudgetFile { epsilon: 2.0, delta: 1e-6, period_s: PERIOD },
        insecure_no_min_age: false,
        insecure_exact: false,
        insecure_no_tokens: true,
        insecure_direct: false,
        insecure_fresh_start: false,
    }
}

/// A histogram of four regions by randomized response.
pub(crate) fn recipe(name: &str) -> Recipe {
    let query =
        Query::Histogram { buckets: 4, labels: None, mapping: "region".to_owned(), fallback: 0 };
    let aggregator = |name: &str| Aggregator {
        operator: name.parse().unwrap(),
        url: format!("https://{name}/"),
    };
    let randomizer = Randomizer::RandomizedResponse { epsilon_micro: 1_000_000 };
    Recipe {
        version: 1,
        name: name.to_owned(),
        purpose: "How many devices are in each region.".to_owned(),
        author: signer(&key("author.example")),
        attributes: BTreeMap::from([
            ("region".parse().unwrap(), AttributeType::Int),
            ("tier".parse().unwrap(), AttributeType::String),
        ]),
        who: Who { population: 1_000_000, targeting: None },
        when: When {
            opens: NOW / DAY * DAY - DAY,
            closes: NOW / DAY * DAY + 5 * DAY,
            window_s: HOUR,
            max_window_s: DAY,
        },
        sampling: Sampling { rate: Probability::new(1, 2).unwrap() },
        randomizer,
        aggregation: Aggregation {
            vdaf: recipe_vdaf(&query, &randomizer).unwrap(),
            min_batch: 5_000,
            batch_mode: BatchMode::TimeInterval,
        },
        query,
        privacy: Privacy::Claim {
            epsilon_micro: 1,
            delta: Probability::new(1, 100_000_000).unwrap(),
            adjacency: Adjacency::Replace,
            accountant: Accountant::Best,
            rounds: 1,
        },
        parties: Parties {
            leader: aggregator("leader.example"),
            helper: aggregator("helper.example"),
            collector_hpke_config: hpke(99),
            log: ORIGIN.to_owned(),
            tokens: Tokens::InsecureNone,
        },
    }
}

/// Claims exactly what the parameters imply; gives it.
pub(crate) fn reclaim(recipe: &mut Recipe) -> u64 {
    let implied = (judgement(recipe).unwrap().unwrap().epsilon * 1e6).ceil() as u64;
    if let Privacy::Claim { epsilon_micro, .. } = &mut recipe.privacy {
        *epsilon_micro = implied;
    }
    implied
}

pub(crate) fn result(predicate: &str, population: u64) -> PopulationResult {
    PopulationResult {
        version: 1,
        recipe: EntryId::of(b"an earlier recipe"),
        predicate: predicate.to_owned(),
        attributes: BTreeMap::from([("tier".parse().unwrap(), AttributeType::String)]),
        population,
        measured_at: NOW - 36 * DAY,
        leader: signer(&key("leader.example")),
        helper: signer(&key("helper.example")),
    }
}

/// A recipe that is over.
fn closed(now: u64) -> Recipe {
    let mut old = recipe("over");
    let day = now / DAY * DAY;
    old.when.opens = day - 50 * DAY;
    old.when.closes = day - 45 * DAY;
    old
}
