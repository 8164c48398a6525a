//! The witness by itself: its answers, its memory, and two histories at once.

use std::collections::BTreeSet;
use std::path::Path;

use reqwest::{Client, Response, StatusCode};
use sotto_crypto::merkle::{empty_root, leaf_hash};
use sotto_crypto::note::{self, NoteKey};
use sotto_protocol::log::sequence::LogState;
use sotto_server::{Witness, WitnessConfig};
use sotto_store::WitnessDir;
use sotto_wire::{AddCheckpoint, Checkpoint, EntryId, Note, NoteSignature, TreeHash};
use tokio::task::JoinSet;

use crate::background::{LOOPBACK, Server, client};
use crate::log::harness::{ORIGIN, key};

/// A witness without a log.
type Running = Server<Witness>;

impl Running {
    async fn start(folder: &Path) -> Self {
        let dir = WitnessDir::open(folder, key("w.example")).unwrap();
        let config = WitnessConfig::new(LOOPBACK, vec![key(ORIGIN).verifier()]);
        Self::run(Witness::bind(config, dir).await.unwrap())
    }

    async fn ask(&self, body: Vec<u8>) -> Response {
        ask(&client(None), &self.url, body).await
    }
}

async fn ask(http: &Client, url: &str, body: Vec<u8>) -> Response {
    http.post(format!("{url}/add-checkpoint")).body(body).send().await.unwrap()
}

/// A history of a log: the roots of all its sizes.
struct History {
    name: &'static str,
    leaves: Vec<TreeHash>,
}

impl History {
    fn new(name: &'static str, size: u64) -> Self {
        let leaves = (0..size).map(|index| leaf_hash(format!("{name} {index}").as_bytes()));
        Self { name, leaves: leaves.collect() }
    }

    fn root(&self, size: u64) -> TreeHash {
        let mut state = LogState::new();
        let mut files = Vec::new();
        for index in 0..size {
            state.push(format!("{} {index}", self.name).as_bytes(), &mut files);
        }
        state.root()
    }

    fn request(&self, old: u64, new: u64, signer: &NoteKey) -> Vec<u8> {
        let text = Checkpoint::new(ORIGIN, new, self.root(new)).to_text();
        let note = Note::new(text.clone()).unwrap().with_signature(signer.sign(&text));
        AddCheckpoint { old_size: old, proof: self.proof(old, new), checkpoint: note }.to_bytes()
    }

    /// RFC 9162 §2.1.4.1, directly from the definition.
    fn proof(&self, old: u64, new: u64) -> Vec<TreeHash> {
        fn subproof(leaves: &[TreeHash], old: usize, whole: bool) -> Vec<TreeHash> {
            if old == leaves.len() {
                return if whole { vec![] } else { vec![root(leaves)] };
            }
            let split = leaves.len().next_power_of_two() / 2;
            let (left, right) = leaves.split_at(split);
            let (mut proof, sibling) = match old <= split {
                true => (subproof(left, old, whole), root(right)),
                false => (subproof(right, old - split, false), root(left)),
            };
            proof.push(sibling);
            proof
        }
        fn root(leaves: &[TreeHash]) -> TreeHash {
            match leaves {
                [] => empty_root(),
                [leaf] => *leaf,
                _ => {
                    let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
                    sotto_crypto::merkle::node_hash(&root(left), &root(right))
                }
            }
        }
        match old {
            0 => vec![],
            // There is none; the request itself is wrong.
            old if old > new => vec![],
            old => subproof(&self.leaves[..new as usize], old as usize, true),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_the_specification() {
    let folder = tempfile::tempdir().unwrap();
    let witness = Running::start(folder.path()).await;
    let (log, other) = (key(ORIGIN), key("other.example"));
    let (one, two) = (History::new("one", 9), History::new("two", 9));

    for (body, status) in [
        (b"garbage".to_vec(), 400),
        (one.request(0, 3, &other), 403),
        (one.request(5, 3, &log), 400),
        (one.request(2, 3, &log), 409),
    ] {
        assert_eq!(witness.ask(body).await.status().as_u16(), status);
    }
    let text = Checkpoint::new("other.example", 3, one.root(3)).to_text();
    let unknown = Note::new(text.clone()).unwrap().with_signature(other.sign(&text));
    let unknown = AddCheckpoint { old_size: 0, proof: vec![], checkpoint: unknown };
    assert_eq!(witness.ask(unknown.to_bytes()).await.status(), StatusCode::NOT_FOUND);

    let response = witness.ask(one.request(0, 3, &log)).await;
    assert_eq!(response.status(), StatusCode::OK);
    let lines = NoteSignature::parse_lines(&response.bytes().await.unwrap()).unwrap();
    let cosigned = Note::new(Checkpoint::new(ORIGIN, 3, one.root(3)).to_text()).unwrap();
    let cosigned = lines.into_iter().fold(cosigned, Note::with_signature);
    assert!(note::cosignature_time(&cosigned, &key("w.example").cosigner()).unwrap() > 0);

    let conflict = witness.ask(one.request(0, 5, &log)).await;
    assert_eq!(conflict.status(), StatusCode::CONFLICT);
    assert_eq!(conflict.headers()["content-type"], "text/x.tlog.size");
    assert_eq!(conflict.bytes().await.unwrap(), &b"3\n"[..]);
    // Another root of the same size, a larger tree of another history, and a smaller tree.
    assert_eq!(witness.ask(two.request(3, 3, &log)).await.status(), StatusCode::CONFLICT);
    let fork = witness.ask(two.request(3, 5, &log)).await;
    assert_eq!(fork.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(witness.ask(one.request(0, 2, &log)).await.status(), StatusCode::CONFLICT);
    for (old, new) in [(3, 3), (3, 7), (7, 7)] {
        assert_eq!(witness.ask(one.request(old, new, &log)).await.status(), StatusCode::OK);
    }
    let too_long = vec![b'a'; 1 << 20];
    let request = client(None).post(format!("{}/add-checkpoint", witness.url)).body(too_long);
    // The connection may be closed before all of it is sent.
    if let Ok(response) = request.send().await {
        assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
    witness.stopped().await;

    // Another process remembers.
    let witness = Running::start(folder.path()).await;
    let conflict = witness.ask(two.request(0, 9, &log)).await;
    assert_eq!(conflict.bytes().await.unwrap(), &b"7\n"[..]);
    assert_eq!(witness.ask(one.request(7, 9, &log)).await.status(), StatusCode::OK);
    witness.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn monitors_see_what_was_cosigned() {
    let folder = tempfile::tempdir().unwrap();
    let witness = Running::start(folder.path()).await;
    let get = async |origin: &str| {
        // An entry id is printed as a hexadecimal SHA-256, too.
        let name = EntryId::of(origin.as_bytes());
        let url = format!("{}/{name}/checkpoint", witness.url);
        client(None).get(url).send().await.unwrap()
    };
    assert_eq!(get(ORIGIN).await.status(), StatusCode::NOT_FOUND);
    let history = History::new("one", 4);
    assert!(witness.ask(history.request(0, 4, &key(ORIGIN))).await.status().is_success());
    let note = Note::parse(&get(ORIGIN).await.bytes().await.unwrap()).unwrap();
    assert_eq!(note.text(), Checkpoint::new(ORIGIN, 4, history.root(4)).to_text());
    note::verify(&note, &key(ORIGIN).verifier()).unwrap();
    note::cosignature_time(&note, &key("w.example").cosigner()).unwrap();
    for other in ["other.example", "", ".."] {
        assert_eq!(get(other).await.status(), StatusCode::NOT_FOUND);
    }
    let traversal = format!("{}/..%2f..%2fx/checkpoint", witness.url);
    assert_eq!(client(None).get(traversal).send().await.unwrap().status(), StatusCode::NOT_FOUND);
    witness.stopped().await;
}

/// Pushes one size of a history as hard as it can: retries from whatever size the witness has.
async fn push(http: Client, url: String, history: &'static str, size: u64) -> Option<u64> {
    let (log, history) = (key(ORIGIN), History::new(history, size));
    let mut old = 0;
    loop {
        let response = ask(&http, &url, history.request(old, size, &log)).await;
        match response.status().as_u16() {
            200 => return Some(size),
            409 => {
                let body = response.text().await.unwrap();
                let seen: u64 = body.trim_end().parse().unwrap();
                if seen > size || seen == old {
                    return None;
                }
                old = seen;
            }
            422 => return None,
            status => panic!("{status}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_histories_at_most_one_is_ever_cosigned() {
    for round in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let witness = Running::start(folder.path()).await;
        let mut pushing = JoinSet::new();
        for size in 1..=16 {
            // Both orders, so that neither branch is always first.
            let names = if (size + round) % 2 == 0 { ["one", "two"] } else { ["two", "one"] };
            for name in names {
                let (http, url) = (client(None), witness.url.clone());
                pushing.spawn(async move { (name, push(http, url, name, size).await) });
            }
        }
        let pushed = pushing.join_all().await;
        let cosigned: BTreeSet<&str> =
            pushed.iter().filter(|(_, size)| size.is_some()).map(|(name, _)| *name).collect();
        assert_eq!(cosigned.len(), 1, "{pushed:?}");
        let largest = pushed.iter().filter_map(|(_, size)| *size).max().unwrap();
        witness.stopped().await;

        // After a restart the other history still fails, and nothing was rolled back.
        let witness = Running::start(folder.path()).await;
        let (won, lost) = if cosigned.contains("one") { ("one", "two") } else { ("two", "one") };
        let push = |name, size| push(client(None), witness.url.clone(), name, size);
        assert_eq!(push(lost, 20).await, None);
        assert_eq!(push(won, largest - 1).await, None);
        assert_eq!(push(won, 20).await, Some(20));
        witness.stopped().await;
    }
}
