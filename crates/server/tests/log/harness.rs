//! A log with three witnesses on loopback, each of which can be stopped and restarted.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use reqwest::{Client, Response, StatusCode};
use serde_json::Value;
use sotto_crypto::merkle::leaf_hash;
use sotto_crypto::note::{self, NoteKey};
use sotto_protocol::log::admit::Signers;
use sotto_server::{Log, LogConfig, Witness, WitnessConfig};
use sotto_store::{LogDir, WitnessDir};
use sotto_testing::arbitrary;
pub(crate) use sotto_testing::keys::{key, signer};
pub(crate) use sotto_testing::log::ORIGIN;
use sotto_wire::{EntryKind, Note, Recipe, TlogPolicy, TlogProof};

use crate::background::{self, LOOPBACK, client, eventually};

/// A log or a witness that runs in the background.
pub(crate) type Server = background::Server<Log>;

/// The names of the witnesses, also in the policy.
pub(crate) const WITNESSES: [&str; 3] = ["w0.example", "w1.example", "w2.example"];

/// A witness that may be stopped.
pub(crate) struct WitnessPlace {
    name: &'static str,
    pub(crate) folder: PathBuf,
    pub(crate) addr: SocketAddr,
    server: Option<Server>,
}

impl WitnessPlace {
    async fn new(folder: &Path, name: &'static str) -> Self {
        let mut place = Self { name, folder: folder.join(name), addr: LOOPBACK, server: None };
        place.start().await;
        place
    }

    pub(crate) async fn start(&mut self) {
        let dir = WitnessDir::open(&self.folder, key(self.name)).unwrap();
        let config = WitnessConfig::new(self.addr, vec![key(ORIGIN).verifier()]);
        let witness = Witness::bind(config, dir).await.unwrap();
        self.addr = witness.addr();
        self.server = Some(Server::run(witness));
    }

    pub(crate) async fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stopped().await;
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }
}

/// A log, its witnesses, and an author who may submit.
pub(crate) struct WitnessedLog {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) witnesses: Vec<WitnessPlace>,
    pub(crate) policy: TlogPolicy,
    pub(crate) log: Option<Server>,
    pub(crate) author: NoteKey,
    pub(crate) http: Client,
    rng: ChaCha20Rng,
}

impl WitnessedLog {
    pub(crate) async fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut witnesses = Vec::new();
        for name in WITNESSES {
            witnesses.push(WitnessPlace::new(folder.path(), name).await);
        }
        let mut world = Self {
            folder,
            policy: policy(&witnesses),
            witnesses,
            log: None,
            author: key("author.example"),
            http: client(None),
            rng: ChaCha20Rng::seed_from_u64(seed),
        };
        world.start_log().await;
        world
    }

    pub(crate) fn log_folder(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    pub(crate) fn config(&self) -> LogConfig {
        let listed = BTreeSet::from([signer(&self.author).key]);
        let mut config = LogConfig::new(LOOPBACK, self.policy.clone(), Signers::Listed(listed));
        config.http.admin_listen = Some(LOOPBACK);
        config.batch_delay = Duration::from_millis(20);
        config.min_backoff = Duration::from_millis(50);
        config.max_backoff = Duration::from_millis(200);
        config
    }

    pub(crate) async fn start_log(&mut self) {
        let config = self.config();
        self.start_log_with(config).await;
    }

    pub(crate) async fn start_log_with(&mut self, config: LogConfig) {
        let dir = LogDir::open(&self.log_folder(), key(ORIGIN)).unwrap();
        let log = Log::bind(config, dir).await.unwrap();
        self.log = Some(Server::run(log));
    }

    pub(crate) async fn stop_log(&mut self) {
        self.log.take().unwrap().stopped().await;
    }

    pub(crate) fn log(&self) -> &Server {
        self.log.as_ref().unwrap()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.log().addr)
    }

    /// An arbitrary recipe of the author for this log.
    pub(crate) fn recipe(&mut self) -> Recipe {
        let mut recipe = arbitrary::recipe(&mut self.rng);
        recipe.author = signer(&self.author);
        recipe.parties.log = ORIGIN.to_owned();
        recipe
    }

    /// A signed recipe.
    pub(crate) fn entry(&mut self) -> Vec<u8> {
        let recipe = self.recipe();
        entry(&recipe, &self.author)
    }

    pub(crate) async fn submit(&self, entry: &[u8]) -> Response {
        self.try_submit(entry).await.unwrap()
    }

    pub(crate) async fn try_submit(&self, entry: &[u8]) -> reqwest::Result<Response> {
        let request = self.http.post(self.url("add")).header("content-type", "text/plain");
        request.body(entry.to_vec()).send().await
    }

    /// Submits an entry that must be accepted, and checks its proof.
    pub(crate) async fn publish(&self, entry: &[u8]) -> TlogProof {
        let response = self.submit(entry).await;
        let status = response.status();
        let body = response.bytes().await.unwrap();
        assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&body));
        self.check(entry, &body)
    }

    pub(crate) fn check(&self, entry: &[u8], proof: &[u8]) -> TlogProof {
        let proof = TlogProof::parse(proof).unwrap();
        note::verify_proof(&leaf_hash(entry), &proof, &self.policy).unwrap();
        proof
    }

    /// Submits until the entry is accepted.
    pub(crate) async fn publish_eventually(&self, entry: &[u8]) -> TlogProof {
        eventually("the entry is published", || async {
            self.submit(entry).await.status() == StatusCode::OK
        })
        .await;
        self.publish(entry).await
    }

    pub(crate) async fn checkpoint(&self) -> Note {
        let response = self.http.get(self.url("checkpoint")).send().await.unwrap();
        Note::parse(&response.bytes().await.unwrap()).unwrap()
    }

    /// Waits until the log reports that it has stopped for good.
    pub(crate) async fn halted(&self) {
        eventually("the log halts", || async {
            let (status, document) = self.log().readyz().await;
            status == StatusCode::SERVICE_UNAVAILABLE
                && document["reasons"][0]["name"] == "log_halted"
        })
        .await;
    }

    pub(crate) async fn stop(mut self) {
        self.stop_log().await;
        for witness in &mut self.witnesses {
            witness.stop().await;
        }
    }
}

/// Two of these witnesses are a quorum.
pub(crate) fn policy(witnesses: &[WitnessPlace]) -> TlogPolicy {
    let (mut policy, mut names) = (format!("log {}\n", key(ORIGIN).verifier()), String::new());
    for (place, number) in witnesses.iter().zip(0..) {
        let cosigner = key(place.name).cosigner();
        policy += &format!("witness w{number} {cosigner} {}\n", place.url());
        names += &format!(" w{number}");
    }
    TlogPolicy::parse(&format!("{policy}group two 2{names}\nquorum two\n")).unwrap()
}

pub(crate) fn entry(recipe: &Recipe, signer: &NoteKey) -> Vec<u8> {
    sotto_testing::log::entry(EntryKind::Recipe, &recipe.to_json(), &[signer])
}

/// The detail of a problem document.
pub(crate) async fn problem(response: Response) -> (StatusCode, String) {
    let status = response.status();
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let document: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
    (status, document["detail"].as_str().unwrap_or_default().to_owned())
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let target = to.join(file.file_name());
        match file.file_type().unwrap().is_dir() {
            true => copy_folder(&file.path(), &target),
            false => {
                std::fs::copy(file.path(), target).unwrap();
            }
        }
    }
}
