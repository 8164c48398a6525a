//! A public log in memory, built by the pure core and served as plain files, with everybody who signs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto_crypto::HpkeKeypair;
use sotto_crypto::note::NoteKey;
use sotto_protocol::log::first;
use sotto_protocol::log::sequence::{LogState, NewEntry, sequence};
use sotto_protocol::recipe::recipe_vdaf;
use sotto_protocol::trust::{BudgetFile, Floors, PinnedOperator, TokensFile, Trust, TrustFile};
use sotto_wire::recipe::{
    Aggregation, Aggregator, AttributeType, KeySet, Parties, Privacy, Probability, PublicKey,
    Query, Randomizer, Recipe, Sampling, Signer, Tokens, When, Who,
};
use sotto_wire::{BatchMode, Entry, EntryKind, Note};

use crate::harness::{LOOPBACK, PRECISION, keypair, moment};

/// The files of a log, as its readers see them.
#[derive(Clone, Default)]
pub(crate) struct Files(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

/// The log, and everybody's keys.
pub(crate) struct World {
    pub(crate) log: NoteKey,
    pub(crate) witness: NoteKey,
    pub(crate) author: NoteKey,
    pub(crate) stranger: NoteKey,
    pub(crate) leader: NoteKey,
    pub(crate) helper: NoteKey,
    /// Of the issuer of tokens.
    pub(crate) issuer: NoteKey,
    pub(crate) files: Files,
    /// How often the checkpoint was fetched.
    pub(crate) fetched: Arc<AtomicU64>,
    pub(crate) url: String,
    state: LogState,
}

impl Files {
    pub(crate) fn copy(&self) -> BTreeMap<String, Vec<u8>> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn replace(&self, files: BTreeMap<String, Vec<u8>>) {
        *self.0.lock().unwrap() = files;
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        let key = |seed: u64, name: &str| {
            NoteKey::generate(name.parse().unwrap(), &mut ChaCha20Rng::seed_from_u64(seed))
        };
        let (files, fetched) = (Files::default(), Arc::<AtomicU64>::default());
        let url = serve(files.clone(), Arc::clone(&fetched)).await;
        Self {
            log: key(1, "log.example"),
            witness: key(2, "witness.example"),
            author: key(3, "author.example"),
            stranger: key(4, "stranger.example"),
            leader: key(5, "leader.example"),
            helper: key(6, "helper.example"),
            issuer: key(7, "issuer.example"),
            files,
            fetched,
            url: format!("http://{url}/log"),
            state: LogState::new(),
        }
    }

    pub(crate) fn trust(&self) -> Trust {
        let (log, witness) = (self.log.verifier(), self.witness.cosigner());
        let operator = |key: &NoteKey| PinnedOperator { key: key.verifier().to_string() };
        let file = TrustFile {
            policy: format!("log {log}\nwitness w {witness}\nquorum w\n"),
            max_checkpoint_age_s: 86_400,
            min_log_age_s: 86_400,
            min_key_set_spacing_s: 86_400,
            max_result_age_s: 86_400,
            operators: vec![operator(&self.leader), operator(&self.helper), operator(&self.issuer)],
            authors: None,
            relays: Vec::new(),
            log_gateway: None,
            tokens: Some(TokensFile::new(self.issuer.name().as_str())),
            floors: Floors {
                min_batch: 5,
                min_population: 10,
                max_rate: Probability::ONE,
                min_window_s: 60,
            },
            targeting_attributes: Default::default(),
            budget: BudgetFile::default(),
            insecure_no_min_age: true,
            insecure_exact: true,
            insecure_no_tokens: true,
            insecure_direct: true,
            insecure_fresh_start: true,
        };
        Trust::try_from(file).unwrap()
    }

    /// Appends entries and publishes the checkpoint.
    pub(crate) fn publish(&mut self, entries: &[Entry]) {
        let entries: Vec<NewEntry> = entries.iter().map(|e| e.try_into().unwrap()).collect();
        let sequenced = sequence(&self.state, &entries);
        let text = sequenced.checkpoint(self.log.name().as_str()).to_text();
        let note = Note::new(text.clone())
            .unwrap()
            .with_signature(self.log.sign(&text))
            .with_signature(self.witness.cosign(&text, moment().0));
        let mut files = self.files.0.lock().unwrap();
        for write in sequenced.writes {
            files.insert(write.path, write.bytes);
        }
        files.entry(first::path(0)).or_default().extend(first::encode(&note));
        files.insert("checkpoint".to_owned(), note.to_bytes());
        self.state = sequenced.state;
    }

    /// Appends entries as [`Self::publish`] does, but only gives the files: those that are served stay.
    pub(crate) fn publish_aside(&mut self, entries: &[Entry]) -> BTreeMap<String, Vec<u8>> {
        let served = std::mem::take(&mut self.files);
        self.files.replace(served.copy());
        self.publish(entries);
        std::mem::replace(&mut self.files, served).copy()
    }

    /// Forgets everything: what is published next is another log under the same name.
    pub(crate) fn fork(&mut self) {
        self.state = LogState::new();
        self.files.replace(BTreeMap::new());
    }

    /// Key sets of both operators: the keys that the harness gives to leader and helper.
    pub(crate) fn key_sets(&self) -> Vec<Entry> {
        vec![key_set(&self.leader, 1, &[keypair(1)]), key_set(&self.helper, 1, &[keypair(2)])]
    }

    /// The key set of the issuer: a key to which requests for tokens are sealed.
    pub(crate) fn issuer_key_set(&self) -> Entry {
        let set = KeySet {
            encapsulation_configs: Some(vec![KeySet::config_text(keypair(4).config())]),
            ..keys_of(&self.issuer, 1, &[])
        };
        entry(EntryKind::KeySet, set.to_json(), &self.issuer)
    }

    /// A recipe for these aggregators, to be changed and signed.
    pub(crate) fn recipe(&self, name: &str, leader_url: &str, helper_url: &str) -> Recipe {
        let query = Query::Histogram {
            buckets: 4,
            labels: None,
            mapping: "bucket".to_owned(),
            fallback: 0,
        };
        let hour = moment().0 / PRECISION;
        Recipe {
            version: 1,
            name: name.to_owned(),
            purpose: "To test.".to_owned(),
            author: signer(&self.author),
            attributes: [("bucket".parse().unwrap(), AttributeType::Int)].into(),
            who: Who { population: 100, targeting: None },
            when: When {
                opens: (hour - 2) * PRECISION,
                closes: (hour + 20) * PRECISION,
                window_s: PRECISION,
                max_window_s: 4 * PRECISION,
            },
            sampling: Sampling { rate: Probability::ONE },
            aggregation: Aggregation {
                vdaf: recipe_vdaf(&query, &Randomizer::None).unwrap(),
                min_batch: 5,
                batch_mode: BatchMode::TimeInterval,
            },
            query,
            randomizer: Randomizer::None,
            privacy: Privacy::InsecureUnbounded,
            parties: Parties {
                leader: Aggregator {
                    operator: self.leader.name().clone(),
                    url: leader_url.to_owned(),
                },
                helper: Aggregator {
                    operator: self.helper.name().clone(),
                    url: helper_url.to_owned(),
                },
                collector_hpke_config: KeySet::config_text(keypair(3).config()),
                log: self.log.name().to_string(),
                tokens: Tokens::InsecureNone,
            },
        }
    }

    /// A recipe as its author signs it.
    pub(crate) fn sign(&self, recipe: &Recipe) -> Entry {
        let author = [&self.author, &self.stranger]
            .into_iter()
            .find(|key| *key.name() == recipe.author.name)
            .unwrap();
        entry(EntryKind::Recipe, recipe.to_json(), author)
    }
}

pub(crate) fn key_set(operator: &NoteKey, seq: u64, keys: &[HpkeKeypair]) -> Entry {
    entry(EntryKind::KeySet, keys_of(operator, seq, keys).to_json(), operator)
}

fn keys_of(operator: &NoteKey, seq: u64, keys: &[HpkeKeypair]) -> KeySet {
    KeySet {
        version: 1,
        operator: signer(operator),
        seq,
        not_before: moment().0 - 100,
        not_after: moment().0 + 86_400,
        hpke_configs: keys.iter().map(|key| KeySet::config_text(key.config())).collect(),
        gateway_configs: None,
        encapsulation_configs: None,
    }
}

pub(crate) fn signer(key: &NoteKey) -> Signer {
    Signer { name: key.name().clone(), key: PublicKey::new(*key.verifier().public_key()) }
}

fn entry(kind: EntryKind, json: Vec<u8>, key: &NoteKey) -> Entry {
    let text = Entry::text(kind, std::str::from_utf8(&json).unwrap());
    let note = Note::new(text.clone()).unwrap().with_signature(key.sign(&text));
    Entry::from_note(note).unwrap()
}

async fn serve(files: Files, fetched: Arc<AtomicU64>) -> SocketAddr {
    let handler = async move |uri: Uri| {
        let path = uri.path().strip_prefix("/log/").unwrap_or_default();
        if path == "checkpoint" {
            fetched.fetch_add(1, Ordering::Relaxed);
        }
        match files.copy().remove(path) {
            Some(bytes) => (StatusCode::OK, bytes).into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        }
    };
    let listener = tokio::net::TcpListener::bind(LOOPBACK).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(handler)).await });
    address
}
