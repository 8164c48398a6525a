//! A public log that is served as plain files, with the keys of everybody who signs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse;
use sotto_crypto::HpkeKeypair;
use sotto_crypto::note::NoteKey;
use sotto_protocol::trust::{Floors, PinnedOperator, TokensFile, Trust, TrustFile};
use sotto_testing::keys::{hybrid, key, witness};
use sotto_testing::log::{Log, at, policy, valid_entry};
use sotto_testing::recipe::{ISSUERS, recipe_at, set_query};
use sotto_wire::recipe::{
    AttributeType, KeySet, Privacy, Probability, Query, Randomizer, Recipe, When,
};
use sotto_wire::{Entry, EntryKind};

use crate::background::LOOPBACK;
use crate::server::harness::{PRECISION, moment};

/// The files of a log, as its readers see them.
#[derive(Clone, Default)]
pub(crate) struct Files(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

/// The log, and everybody's keys.
pub(crate) struct PublicLog {
    pub(crate) log: NoteKey,
    pub(crate) author: NoteKey,
    pub(crate) stranger: NoteKey,
    pub(crate) leader: NoteKey,
    pub(crate) helper: NoteKey,
    /// The keys of the issuers of the leader's and the helper's tokens.
    pub(crate) issuers: [NoteKey; 2],
    pub(crate) files: Files,
    /// How often the checkpoint was fetched.
    pub(crate) fetched: Arc<AtomicU64>,
    pub(crate) url: String,
    state: Log,
}

impl Files {
    pub(crate) fn copy(&self) -> BTreeMap<String, Vec<u8>> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn replace(&self, files: BTreeMap<String, Vec<u8>>) {
        *self.0.lock().unwrap() = files;
    }
}

impl PublicLog {
    pub(crate) async fn new() -> Self {
        let (files, fetched) = (Files::default(), Arc::<AtomicU64>::default());
        let url = serve(files.clone(), Arc::clone(&fetched)).await;
        Self {
            log: key("log.example"),
            author: key("author.example"),
            stranger: key("stranger.example"),
            leader: key("leader.example"),
            helper: key("helper.example"),
            issuers: ISSUERS.map(key),
            files,
            fetched,
            url: format!("http://{url}/log"),
            state: Log::empty(),
        }
    }

    pub(crate) fn trust(&self) -> Trust {
        let operator = |key: &NoteKey| PinnedOperator { key: key.verifier().to_string() };
        let file = TrustFile {
            max_checkpoint_age_s: 86_400,
            max_result_age_s: 86_400,
            operators: [&self.leader, &self.helper]
                .into_iter()
                .chain(&self.issuers)
                .map(operator)
                .collect(),
            tokens: Some(TokensFile::new(ISSUERS[0], ISSUERS[1])),
            floors: Floors {
                dishonest_devices: 2,
                min_population: 10,
                min_window_s: 60,
                ..Floors::default()
            },
            insecure_no_min_age: true,
            insecure_exact: true,
            insecure_no_tokens: true,
            insecure_direct: true,
            insecure_fresh_start: true,
            ..TrustFile::new(policy(&self.log, &[0, 1, 2].map(witness), 2))
        };
        Trust::try_from(file).unwrap()
    }

    /// Appends entries and publishes the checkpoint.
    pub(crate) fn publish(&mut self, entries: &[Entry]) {
        let files = self.publish_aside(entries);
        self.files.replace(files);
    }

    /// Like `publish`, but only returns the files: those that are served do not change.
    pub(crate) fn publish_aside(&mut self, entries: &[Entry]) -> BTreeMap<String, Vec<u8>> {
        let entries: Vec<_> = entries.iter().map(Entry::to_bytes).collect();
        self.state.publish(&entries, at(moment().0), &self.log);
        self.state.files.clone()
    }

    /// Starts over: what is published next is another log under the same name.
    pub(crate) fn fork(&mut self) {
        self.state = Log::empty();
        self.files.replace(BTreeMap::new());
    }

    /// The key sets of the issuers: keys to which token requests are sealed.
    pub(crate) fn issuer_key_sets(&self) -> [Entry; 2] {
        self.issuers.each_ref().map(|issuer| {
            let set = KeySet {
                encapsulation_configs: Some(vec![KeySet::config_text(hybrid(4).config())]),
                ..keys_of(issuer, 1, &[])
            };
            valid_entry(EntryKind::KeySet, &set.to_json(), &[issuer])
        })
    }

    /// A recipe for these aggregators, to be changed and signed.
    pub(crate) fn recipe(&self, name: &str, leader_url: &str, helper_url: &str) -> Recipe {
        let hour = moment().0 / PRECISION;
        let mut recipe = recipe_at(name, moment().0);
        recipe.attributes = [("bucket".parse().unwrap(), AttributeType::Int)].into();
        recipe.who.population = 100;
        recipe.when = When {
            opens: (hour - 2) * PRECISION,
            closes: (hour + 20) * PRECISION,
            window_s: PRECISION,
            max_window_s: 4 * PRECISION,
        };
        recipe.sampling.rate = Probability::ONE;
        recipe.randomizer = Randomizer::None;
        let mapping = "bucket".to_owned();
        let query = Query::Histogram { buckets: 4, labels: None, mapping, fallback: 0 };
        set_query(&mut recipe, query);
        recipe.aggregation.min_batch = 5;
        recipe.privacy = Privacy::InsecureUnbounded;
        recipe.parties.leader.url = leader_url.to_owned();
        recipe.parties.helper.url = helper_url.to_owned();
        recipe.parties.collector_hpke_config = KeySet::config_text(hybrid(3).config());
        recipe
    }

    /// A recipe as its author signs it.
    pub(crate) fn sign(&self, recipe: &Recipe) -> Entry {
        let author = [&self.author, &self.stranger]
            .into_iter()
            .find(|key| *key.name() == recipe.author.name)
            .unwrap();
        valid_entry(EntryKind::Recipe, &recipe.to_json(), &[author])
    }
}

/// A key set of an aggregator at this URL.
pub(crate) fn key_set(operator: &NoteKey, seq: u64, keys: &[HpkeKeypair], url: &str) -> Entry {
    let set = KeySet { url: Some(url.to_owned()), ..keys_of(operator, seq, keys) };
    valid_entry(EntryKind::KeySet, &set.to_json(), &[operator])
}

fn keys_of(operator: &NoteKey, seq: u64, keys: &[HpkeKeypair]) -> KeySet {
    KeySet {
        hpke_configs: keys.iter().map(|key| KeySet::config_text(key.config())).collect(),
        ..sotto_testing::recipe::key_set(operator, seq, moment().0 - 100)
    }
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
