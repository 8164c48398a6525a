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
    /// What it occupies until the answer is sent, among all requests and those of its device.
    pub(super) occupied: (OwnedSemaphorePermit, Flight),
}

impl Waiting {
    fn tell(self, outcome: Result<Vec<u8>, Refusal>) {
        // Freed first: whoever has the answer may send another request.
        drop(self.occupied);
        // A device that has disconnected will ask again.
        let _ = self.answer.send(outcome);
    }
}

/// Sends requests to one issuer.
pub(super) struct Dispatcher {
    pub(super) exchange: Arc<Exchange>,
    pub(super) waiting: mpsc::Receiver<Waiting>,
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
                let exchange = Arc::clone(&self.exchange);
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

/// Has batches answered.
pub(super) struct Exchange {
    pub(super) client: Arc<IssuerClient>,
    pub(super) issuer: KeyName,
    pub(super) shared: Arc<Shared>,
}

impl Exchange {
    async fn answer(&self, batch: Vec<Waiting>) {
        self.shared.metrics.batches.increment(1);
        self.shared.metrics.batched.increment(batch.len() as u64);
        let bodies: Vec<_> = batch.iter().map(|waiting| waiting.body.clone()).collect();
        let Ok(answers) = self.client.ask(&bodies).await else {
            return all(batch, &Refusal::Protocol(AttesterRefusal::IssuerUnavailable));
        };
        // The aliases are computed on the pool.
        let forwarded: Vec<_> = batch.iter().map(|waiting| waiting.forwarded.clone()).collect();
        let issued = self.shared.pool.run(move || {
            let pairs = forwarded.iter().zip(&answers);
            pairs.map(|(forwarded, answer)| consume_issuer_answer(forwarded, answer)).collect()
        });
        let issued: Vec<_> = match issued.await {
            Ok(issued) => issued,
            Err(_) => return all(batch, &Refusal::Inside),
        };
        let mut grants = Vec::new();
        let mut granted = Vec::new();
        for (waiting, issued) in batch.into_iter().zip(issued) {
            match issued {
                Ok(issued) => {
                    grants.push(self.grant(&waiting, &issued));
                    granted.push((waiting, issued.response));
                }
                Err(refusal) => waiting.tell(Err(Refusal::Protocol(refusal))),
            }
        }
        self.record(grants, granted).await;
    }

    fn grant(&self, waiting: &Waiting, issued: &Issued) -> Grant {
        Grant {
            device: waiting.device,
            issuer: self.issuer.clone(),
            client_key: *waiting.forwarded.client_key.as_bytes(),
            client_alias: waiting.forwarded.client_alias,
            issuer_alias: issued.alias,
            request_digest: waiting.forwarded.body_digest,
            response: issued.response.clone(),
        }
    }

    /// Makes the grants durable. Only then are the responses passed on.
    async fn record(&self, grants: Vec<Grant>, granted: Vec<(Waiting, Vec<u8>)>) {
        if grants.is_empty() {
            return;
        }
        let recorded = self.shared.db.record(grants, self.shared.environment.now()).await;
        match self.shared.health.noted(StoreWork::Commit, recorded) {
            Ok(recorded) => {
                for ((waiting, response), recorded) in granted.into_iter().zip(recorded) {
                    waiting.tell(self.outcome(response, recorded));
                }
            }
            Err(_) => all(granted.into_iter().map(|(waiting, _)| waiting), &Refusal::Inside),
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

/// Sends everybody the same refusal.
fn all(batch: impl IntoIterator<Item = Waiting>, refusal: &Refusal) {
    for waiting in batch {
        waiting.tell(Err(refusal.clone()));
    }
}
