//! Receipts of releases in the public log, if the operator writes them.
//!
//! A release commits what it owes together with itself (`Release` in `sotto-store`). A loop sends
//! what is due until the log proves that it has it. So a log that is away delays receipts, but
//! never a release, and a receipt that was sent before a crash is sent again with the same bytes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode};
use bytes::Bytes;
use metrics::{Counter, Gauge};
use sotto_crypto::merkle::leaf_hash;
use sotto_crypto::note::{self, NoteKey};
use sotto_protocol::receipt::Released;
use sotto_protocol::{BucketAggregate, Fault};
use sotto_store::{OwedReceipt, StoreError, TaskStore};
use sotto_wire::limits::{MAX_RECEIPTS, MAX_TLOG_PROOF_LEN};
use sotto_wire::{
    BatchSelector, Entry, EntryKind, HttpUrl, Note, PublicKey, Role, Signer, TlogPolicy, TlogProof,
};
use tokio::sync::Notify;

use crate::aggregator::Aggregator;
use crate::backoff::Backoff;
use crate::config::RecipesConfig;
use crate::environment::{Environment, instant, timeout};
use crate::error::BindError;
use crate::health::{Concern, StoreWork};
use crate::metrics::{MetricsRegistry, table};
use crate::outbound::{self, HttpClient, TransportError, peer_url};
use crate::shutdown::Shutdown;
use crate::tasks::ServedTask;

/// How long the log may take to publish a receipt.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How often to look for receipts that have become due.
const POLL: Duration = Duration::from_secs(60);
/// The pauses after failures.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(600);

/// Signs receipts and sends them.
pub(crate) struct Receipts {
    role: Role,
    key: NoteKey,
    policy: TlogPolicy,
    http: HttpClient,
    add: HttpUrl,
    /// Wakes the loop.
    owed: Notify,
    metrics: ReceiptMetrics,
}

struct ReceiptMetrics {
    owed: Gauge,
    sent: Counter,
    failed: Counter,
}

/// Why the log has not accepted a receipt.
#[derive(Debug, thiserror::Error)]
enum NotSent {
    /// It does not answer, so it need not be asked for the others.
    #[error("{0}")]
    Away(String),
    #[error("{0}")]
    Refused(String),
}

impl Receipts {
    /// Checks the configuration: the key has the operator's name.
    pub(crate) fn new(
        role: Role,
        recipes: &mut RecipesConfig,
        metrics: &MetricsRegistry,
    ) -> Result<Option<Self>, BindError> {
        let Some(config) = recipes.receipts.take() else { return Ok(None) };
        let wrong = |reason: String| BindError::Config(format!("recipes.receipts: {reason}"));
        let (name, operator) = (config.key.name(), &recipes.operator);
        if name != operator {
            return Err(wrong(format!("the key is that of {name}, not of {operator}")));
        }
        if recipes.trust.operator(operator) == Some(&config.key.verifier()) {
            tracing::warn!(
                "receipts are signed with the key that devices pin: better make one for receipts, \
                 and keep that one off servers"
            );
        }
        let certificates = recipes.log_certificates.as_deref();
        let add = peer_url(&config.log_url)
            .and_then(|url| url.below("add").map_err(|error| error.to_string()));
        let [sent, failed] = metrics.counters(&table::RECEIPTS, ["sent", "failed"]);
        let owed = metrics.gauge(&table::RECEIPTS_OWED);
        Ok(Some(Self {
            role,
            policy: recipes.trust.policy().clone(),
            http: HttpClient::new(TIMEOUT, certificates)?,
            add: add.map_err(|reason| wrong(format!("the log: {reason}")))?,
            owed: Notify::new(),
            metrics: ReceiptMetrics { owed, sent, failed },
            key: config.key,
        }))
    }

    /// The public half of the key.
    pub(crate) fn public_key(&self) -> PublicKey {
        PublicKey::new(*self.key.verifier().public_key())
    }

    /// What the release of a batch owes the log. Plain tasks have no recipe, and owe nothing.
    pub(crate) fn released(
        &self,
        task: &ServedTask,
        selector: &BatchSelector,
        batch: &BucketAggregate,
    ) -> Result<Option<Released>, Fault> {
        let recipe = task.recipe.as_deref();
        recipe.map(|recipe| Released::new(task.aggregator(), recipe, selector, batch)).transpose()
    }

    /// A batch was released.
    pub(crate) fn wake(&self) {
        self.owed.notify_one();
    }

    /// The signed entry. The same receipt always has the same bytes.
    fn entry(&self, owed: &OwedReceipt) -> Result<Entry, Fault> {
        let operator = Signer { name: self.key.name().clone(), key: self.public_key() };
        let receipt = owed.released.receipt(owed.number, self.role, operator);
        let json =
            String::from_utf8(receipt.to_json()).map_err(|error| Fault(error.to_string()))?;
        let text = Entry::text(EntryKind::Receipt, &json);
        let signature = self.key.sign(&text);
        let entry = Note::new(text).map(|note| note.with_signature(signature));
        entry.and_then(Entry::from_note).map_err(|error| Fault(error.to_string()))
    }

    /// Sends a receipt, and checks the log's proof that it is public.
    async fn send(&self, owed: &OwedReceipt) -> Result<(), NotSent> {
        let away = |error: TransportError| {
            NotSent::Away(format!("the log does not answer ({})", error.name()))
        };
        let refused = |words: &str| Err(NotSent::Refused(words.to_owned()));
        let entry = self.entry(owed).map_err(|fault| NotSent::Refused(fault.to_string()))?;
        let entry = entry.to_bytes();
        let request = outbound::request(Method::POST, &self.add).header(CONTENT_TYPE, "text/plain");
        let body = Bytes::from(entry.clone());
        let answer = self.http.send(request, body, instant() + TIMEOUT).await.map_err(away)?;
        match answer.status {
            StatusCode::OK => {}
            StatusCode::FORBIDDEN => {
                return refused("the log refuses them: does it list the key that signs receipts?");
            }
            StatusCode::CONFLICT => {
                return refused(
                    "the log has another one with this number: is the store an old copy?",
                );
            }
            status if status.is_client_error() => {
                return refused(&format!("the log answers {status}"));
            }
            status => return Err(NotSent::Away(format!("the log answers {status}"))),
        }
        let proof = answer.read(MAX_TLOG_PROOF_LEN).await.map_err(away)?;
        let proof = TlogProof::parse(&proof)
            .map_err(|error| NotSent::Away(format!("the log's answer is not a proof: {error}")))?;
        let verified = note::verify_proof(&leaf_hash(&entry), &proof, &self.policy);
        verified.map(drop).map_err(|error| {
            NotSent::Away(format!("the log does not prove that a receipt is public: {error}"))
        })
    }

    /// Sends all that is due. Returns why some was not accepted. One that is refused holds back
    /// those of its own recipe alone.
    async fn send_all(
        &self,
        environment: &Environment,
        store: &dyn TaskStore,
    ) -> Result<Option<String>, StoreError> {
        let (mut refused, mut failed) = (BTreeSet::new(), None::<NotSent>);
        loop {
            let owed = store.next_receipts(environment.now()).await?;
            self.metrics.owed.set(owed.count as f64);
            let is_away = matches!(failed, Some(NotSent::Away(_)));
            let next = owed.next.iter().find(|next| !refused.contains(&next.task_id));
            let Some(next) = next.filter(|_| !is_away) else {
                let count = owed.count;
                return Ok(failed.map(|why| format!("{count} receipts are not in the log: {why}")));
            };
            if next.number > MAX_RECEIPTS {
                let recipe = next.released.recipe;
                tracing::warn!(%recipe, "a recipe has had its {MAX_RECEIPTS} receipts: no more");
            } else if let Err(error) = self.send(next).await {
                self.metrics.failed.increment(1);
                refused.insert(next.task_id);
                failed = Some(error);
                continue;
            } else {
                self.metrics.sent.increment(1);
            }
            store.receipt_sent(next.task_id, next.number).await?;
        }
    }
}

/// Sends receipts until the server shuts down.
pub(crate) async fn run(
    aggregator: Arc<Aggregator>,
    store: Arc<dyn TaskStore>,
    mut shutdown: Shutdown,
) {
    let Some(receipts) = &aggregator.receipts else { return };
    let mut backoff = Backoff::new(MIN_PAUSE, MAX_PAUSE);
    loop {
        let sent = receipts.send_all(&aggregator.environment, &*store);
        let Some(sent) = shutdown.or(sent).await else { return };
        let health = &aggregator.health;
        let Ok(failed) = health.noted(StoreWork::Receipts, sent) else {
            if shutdown.begins_within(backoff.next()).await {
                return;
            }
            continue;
        };
        if health.set(Concern::ReceiptsOwed, failed.as_deref()) {
            tracing::warn!(reason = failed.as_deref(), "receipts of releases are owed to the log");
        }
        match failed {
            Some(_) => {
                if shutdown.begins_within(backoff.next()).await {
                    return;
                }
            }
            None => {
                backoff.reset();
                let Some(_) = shutdown.or(timeout(POLL, receipts.owed.notified())).await else {
                    return;
                };
            }
        }
    }
}

#[cfg(test)]
mod tests;
