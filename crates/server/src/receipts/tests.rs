use std::net::SocketAddr;
use std::sync::Mutex;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use sotto_protocol::Moment;
use sotto_protocol::log::Reader;
use sotto_protocol::recipe::windows::Span;
use sotto_store::{HelperStore, MemoryStore, Release};
use sotto_testing::keys::{key, witness};
use sotto_testing::log::{Log, ORIGIN, at, policy};
use sotto_wire::{Duration as Units, EntryId, Interval, Receipt, TaskId, Time};

use super::*;

const NOW: Moment = Moment(1_700_000_000);

/// How the log answers a receipt for this recipe.
type Answers = fn(EntryId, Vec<u8>) -> Response;

/// The proof of an honest log that has this entry alone.
fn proof(entry: Vec<u8>) -> Vec<u8> {
    let mut log = Log::empty();
    log.publish(&[entry], at(NOW.0), &key(ORIGIN));
    Reader::new(log.files).proof(0, &log.view).unwrap().to_bytes()
}

/// A log that answers like this, the entries that it got, and who sends them.
async fn receipts(answers: Answers) -> (Receipts, Arc<Mutex<Vec<Receipt>>>) {
    let got: Arc<Mutex<Vec<Receipt>>> = Arc::default();
    let seen = Arc::clone(&got);
    let add = async move |body: Bytes| {
        let receipt = Entry::parse(&body).unwrap().receipt().unwrap().clone();
        let recipe = receipt.recipe;
        seen.lock().unwrap().push(receipt);
        answers(recipe, body.to_vec())
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, Router::new().route("/log/add", post(add))).await });
    let metrics = MetricsRegistry::new().unwrap();
    let [sent, failed] = metrics.counters(&table::RECEIPTS, ["sent", "failed"]);
    let witnesses = [0, 1, 2].map(witness);
    let receipts = Receipts {
        role: Role::Helper,
        key: key("helper.example"),
        policy: TlogPolicy::parse(&policy(&key(ORIGIN), &witnesses, 2)).unwrap(),
        http: HttpClient::new(TIMEOUT, None).unwrap(),
        add: peer_url(&format!("http://{address}/log")).unwrap().below("add").unwrap(),
        owed: Notify::new(),
        metrics: ReceiptMetrics { owed: metrics.gauge(&table::RECEIPTS_OWED), sent, failed },
    };
    (receipts, got)
}

/// Two batches of each of these recipes were released.
async fn store(recipes: &[u8]) -> MemoryStore {
    let store = MemoryStore::new();
    for (recipe, number) in recipes.iter().flat_map(|recipe| [(*recipe, 0), (*recipe, 1)]) {
        let released = Released {
            recipe: EntryId::new([recipe; 32]),
            span: Span { start: 60 * number, end: 60 * (number + 1) },
            count: 8,
            batch: None,
            due: Moment(number),
        };
        let selector = Interval::new(Time::new(number), Units::new(1)).unwrap();
        let selector = BatchSelector::TimeInterval(selector);
        let release = Release { response: Vec::new(), receipt: Some(released) };
        let (task, digest) = (TaskId::new([recipe; 32]), [number as u8; 32]);
        store.collect_batch(task, selector, (0, [0; 32]), digest, release).await.unwrap();
    }
    store
}

fn environment() -> Environment {
    Environment::new(|| NOW, |_| Ok(()))
}

#[tokio::test]
async fn what_the_log_proves_is_sent_once_and_in_order() {
    let (receipts, got) = receipts(|_, entry| proof(entry).into_response()).await;
    let store = store(&[1]).await;
    assert_eq!(receipts.send_all(&environment(), &store).await, Ok(None));
    assert_eq!(receipts.send_all(&environment(), &store).await, Ok(None));
    let got = got.lock().unwrap();
    let said: Vec<_> = got.iter().map(|receipt| (receipt.seq, receipt.start)).collect();
    assert_eq!(said, [(1, 0), (2, 60)]);
    let name = receipts.key.name();
    assert!(got.iter().all(|receipt| receipt.role == Role::Helper && receipt.count == 8));
    assert!(got.iter().all(|receipt| receipt.operator.name == *name));
}

#[tokio::test]
async fn an_answer_without_a_proof_is_not_believed() {
    let garbage: Answers = |_, _| "fine".into_response();
    // Of another entry, and of a log without witnesses.
    let other: Answers = |_, _| proof(b"another entry".to_vec()).into_response();
    let unwitnessed: Answers = |_, entry| {
        let mut log = Log::empty();
        log.publish(&[entry], [Some(NOW.0), None, None], &key(ORIGIN));
        Reader::new(log.files).proof(0, &log.view).unwrap().to_bytes().into_response()
    };
    for answers in [garbage, other, unwitnessed] {
        let (receipts, got) = receipts(answers).await;
        let store = store(&[1]).await;
        for _ in 0..2 {
            let failed = receipts.send_all(&environment(), &store).await.unwrap().unwrap();
            assert!(failed.starts_with("2 receipts are not in the log: the log"), "{failed}");
        }
        let got = got.lock().unwrap();
        assert_eq!((got.len(), &got[0]), (2, &got[1]), "the same bytes again");
    }
}

#[tokio::test]
async fn a_refused_receipt_holds_back_its_own_recipe_alone() {
    let answers: Answers = |recipe, entry| match recipe.as_bytes()[0] {
        1 => StatusCode::FORBIDDEN.into_response(),
        2 => StatusCode::CONFLICT.into_response(),
        _ => proof(entry).into_response(),
    };
    let (receipts, got) = receipts(answers).await;
    let store = store(&[1, 2, 3]).await;
    let failed = receipts.send_all(&environment(), &store).await.unwrap().unwrap();
    assert!(failed.starts_with("4 receipts are not in the log: the log has another"), "{failed}");
    let tried: Vec<u8> = got.lock().unwrap().iter().map(|one| one.recipe.as_bytes()[0]).collect();
    assert_eq!(tried, [1, 2, 3, 3]);
}

#[tokio::test]
async fn a_log_that_is_away_is_asked_once() {
    let (receipts, got) = receipts(|_, _| StatusCode::SERVICE_UNAVAILABLE.into_response()).await;
    let store = store(&[1, 2]).await;
    let failed = receipts.send_all(&environment(), &store).await.unwrap().unwrap();
    assert!(failed.ends_with("the log answers 503 Service Unavailable"), "{failed}");
    assert_eq!(got.lock().unwrap().len(), 1);
}
