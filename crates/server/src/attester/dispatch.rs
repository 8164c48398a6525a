//! Sends batches to one issuer and records the answers. `sotto_protocol::attester::Batches` decides
//! when a batch is sent and the order of its requests.
//!
//! An answer is recorded even if its device has disconnected: the device sends the same bytes again
//! and gets it.

use std::sync::Arc;

use bytes::Bytes;
use rand_chacha::ChaCha20Rng;
use sotto_protocol::attester::{
    AttesterRefusal, Batches, DeviceIdentity, Forwarded, Issued, consume_issuer_answer,
};
use sotto_store::{Grant, Recorded};
use sotto_wire::KeyName;
use sotto_wire::token::IssuerAnswer;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinSet;

use super::Shared;
use super::in_flight::Flight;
use super::issuer_client::IssuerClient;
use super::request::Refusal;
use crate::health::StoreWork;

/// A request that may be sent to the issuer.
pub(super) struct Waiting {
    pub(super) body: Bytes,
    pub(super) forwarded: Forwarded,
    pub(super) device: DeviceIdentity,
    pub(super) answer: oneshot::Sender<Result<Vec<u8>, Refusal>>,
    /// Freed when the answer is sent.
    pub(super) place: Place,
}

/// What a request occupies while it is in progress.
pub(super) struct Place {
    pub(super) _of_all: OwnedSemaphorePermit,
    pub(super) _of_the_device: Flight,
}

/// Sends requests to one issuer.
pub(super) struct Dispatcher {
    pub(super) client: Arc<IssuerClient>,
    pub(super) issuer: KeyName,
    pub(super) waiting: mpsc::Receiver<Waiting>,
    pub(super) shared: Arc<Shared>,
    pub(super) max_batch: usize,
    pub(super) batches_in_flight: usize,
    pub(super) rng: ChaCha20Rng,
}

impl Dispatcher {
    /// Works until nobody can send requests any more.
    pub(super) async fn run(mut self) {
        let mut batches = Batches::new(self.max_batch, self.batches_in_flight);
        let mut away = JoinSet::new();
        let mut is_closed = false;
        loop {
            while let Some(batch) = batches.next(&mut self.rng) {
                let exchange = Exchange {
                    client: Arc::clone(&self.client),
                    issuer: self.issuer.clone(),
                    shared: Arc::clone(&self.shared),
                };
                away.spawn(async move { exchange.answer(batch).await });
            }
            if is_closed && batches.is_empty() {
                break;
            }
            let mut arrived = Vec::new();
            tokio::select! {
                count = self.waiting.recv_many(&mut arrived, self.max_batch), if !is_closed => {
                    is_closed = count == 0;
                    batches.add(arrived);
                }
                Some(_) = away.join_next() => batches.returned(),
            }
        }
        while away.join_next().await.is_some() {}
    }
}

/// One batch.
struct Exchange {
    client: Arc<IssuerClient>,
    issuer: KeyName,
    shared: Arc<Shared>,
}

/// The caller that waits for the outcome of a request.
struct Caller {
    forwarded: Forwarded,
    device: DeviceIdentity,
    answer: oneshot::Sender<Result<Vec<u8>, Refusal>>,
    place: Place,
}

impl Caller {
    fn tell(self, outcome: Result<Vec<u8>, Refusal>) {
        // The place is freed first: whoever has the answer may send another request.
        drop(self.place);
        // A device that has disconnected will ask again.
        let _ = self.answer.send(outcome);
    }
}

impl Exchange {
    async fn answer(&self, batch: Vec<Waiting>) {
        self.shared.metrics.batches.increment(1);
        self.shared.metrics.batched.increment(batch.len() as u64);
        let (bodies, callers): (Vec<_>, Vec<_>) = batch.into_iter().map(split).unzip();
        let Ok(answers) = self.client.ask(&bodies).await else {
            return all(callers, &Refusal::Protocol(AttesterRefusal::IssuerTrouble));
        };
        let (callers, issued) = match self.consume(callers, answers).await {
            Ok(consumed) => consumed,
            Err(callers) => return all(callers, &Refusal::Inside),
        };
        let mut grants = Vec::new();
        let mut granted = Vec::new();
        for (caller, issued) in callers.into_iter().zip(issued) {
            match issued {
                Ok(issued) => {
                    grants.push(self.grant(&caller, &issued));
                    granted.push((caller, issued.response));
                }
                Err(refusal) => caller.tell(Err(Refusal::Protocol(refusal))),
            }
        }
        self.record(grants, granted).await;
    }

    /// Computes the aliases, on the pool.
    async fn consume(
        &self,
        callers: Vec<Caller>,
        answers: Vec<IssuerAnswer>,
    ) -> Result<(Vec<Caller>, Vec<Result<Issued, AttesterRefusal>>), Vec<Caller>> {
        let forwarded: Vec<_> = callers.iter().map(|caller| caller.forwarded.clone()).collect();
        let issued = self.shared.pool.run(move || {
            let pairs = forwarded.iter().zip(&answers);
            pairs.map(|(forwarded, answer)| consume_issuer_answer(forwarded, answer)).collect()
        });
        match issued.await {
            Ok(issued) => Ok((callers, issued)),
            Err(_) => Err(callers),
        }
    }

    fn grant(&self, caller: &Caller, issued: &Issued) -> Grant {
        Grant {
            device: caller.device,
            issuer: self.issuer.clone(),
            client_key: *caller.forwarded.client_key.as_bytes(),
            client_alias: caller.forwarded.client_alias,
            issuer_alias: issued.alias,
            request_digest: caller.forwarded.body_digest,
            response: issued.response.clone(),
        }
    }

    /// Makes the grants durable. Only then are the responses passed on.
    async fn record(&self, grants: Vec<Grant>, granted: Vec<(Caller, Vec<u8>)>) {
        if grants.is_empty() {
            return;
        }
        match self.shared.db.record(grants, self.shared.environment.now()).await {
            Ok(recorded) => {
                self.shared.health.store_worked(StoreWork::Commit);
                for ((caller, response), recorded) in granted.into_iter().zip(recorded) {
                    caller.tell(self.outcome(response, recorded));
                }
            }
            Err(error) => {
                tracing::error!(%error, "grants could not be recorded");
                self.shared.health.store_failed(StoreWork::Commit);
                all(granted.into_iter().map(|(caller, _)| caller), &Refusal::Inside);
            }
        }
    }

    fn outcome(&self, response: Vec<u8>, recorded: Recorded) -> Result<Vec<u8>, Refusal> {
        let refusal = match recorded {
            Recorded::New => {
                self.shared.metrics.granted.increment(1);
                return Ok(response);
            }
            Recorded::AlreadyGranted(response) => {
                self.shared.metrics.repeated.increment(1);
                return Ok(response);
            }
            Recorded::Withheld => AttesterRefusal::Withheld,
            Recorded::OtherAlias => AttesterRefusal::OtherAlias,
            Recorded::OtherKey => AttesterRefusal::OtherKey,
            Recorded::Full => AttesterRefusal::Full,
        };
        Err(Refusal::Protocol(refusal))
    }
}

fn split(waiting: Waiting) -> (Bytes, Caller) {
    let Waiting { body, forwarded, device, answer, place } = waiting;
    (body, Caller { forwarded, device, answer, place })
}

/// Sends everybody the same refusal.
fn all(callers: impl IntoIterator<Item = Caller>, refusal: &Refusal) {
    for caller in callers {
        caller.tell(Err(refusal.clone()));
    }
}
