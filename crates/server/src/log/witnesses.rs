//! The witnesses of a log: all are asked at once, and none waits for another.
//!
//! `sotto_protocol::log::witnessing` decides what an answer means. Redirects are not followed and
//! no proxy from the environment is used. An answer is signed only if it is a cosignature: a
//! witness that claims to have seen another tree is asked to show it, at its URL for monitors.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode};
use bytes::Bytes;
use sotto_protocol::log::witnessing::{
    Claim, Dispute, Next, Question, consume_witness_answer, consume_witness_checkpoint,
    produce_add_checkpoint, read_witness_checkpoint,
};
use sotto_wire::{Checkpoint, HttpUrl, Note, VerifierKey};
use tokio::task::JoinSet;

use super::config::LogConfig;
use super::folder::Folder;
use crate::environment::{instant, timeout};
use crate::error::BindError;
use crate::http::NOTE_MEDIA_TYPE;
use crate::outbound::{self, HttpClient, TransportError};
use crate::witness::origin_name;

/// How many requests in a row one witness gets: it may have a different size than we think, and
/// somebody else may be giving it a newer tree at the same time.
const MAX_QUESTIONS: usize = 4;
/// The longest answer of a witness, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// A signed checkpoint, as it is shown to witnesses.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    /// Signed only by the log.
    pub(super) note: Note,
    /// The size before it. If nothing is known about a witness, it is assumed to have this size.
    pub(super) from: u64,
    /// Its size.
    pub(super) size: u64,
}

/// The outcome of asking a witness.
#[derive(Debug)]
pub(super) struct Heard {
    /// Which witness.
    pub(super) witness: usize,
    /// The text that it was shown.
    pub(super) text: String,
    /// Its final answer; never [`Next::AskFrom`] or [`Next::Inspect`].
    pub(super) next: Next,
}

/// The witnesses.
#[derive(Debug)]
pub(super) struct WitnessPool {
    http: HttpClient,
    timeout: Duration,
    witnesses: Vec<WitnessState>,
}

/// A witness, and what it said.
#[derive(Debug)]
struct WitnessState {
    peer: Arc<WitnessPeer>,
    /// The size that it has, as far as we know.
    size: Option<u64>,
    /// Why it did not cosign last time.
    failure: Option<String>,
    /// What it claims to have seen but does not show. The claim stands until the witness cosigns:
    /// silence does not withdraw it.
    dispute: Option<String>,
}

#[derive(Debug)]
struct WitnessPeer {
    name: String,
    key: VerifierKey,
    /// Where it is asked to cosign.
    url: HttpUrl,
    /// Where it shows what it cosigned last for this log.
    shown_url: HttpUrl,
    log: VerifierKey,
}

impl WitnessPool {
    /// The witnesses of the policy that have a URL.
    pub(super) fn new(config: &LogConfig) -> Result<Self, BindError> {
        let log = config.policy.logs().first().map(|log| log.key.clone());
        let log = log.ok_or_else(|| BindError::Config("the policy has no log".to_owned()))?;
        let origin = origin_name(log.name().as_str());
        let mut witnesses = Vec::new();
        for witness in config.policy.witnesses() {
            let name = &witness.name;
            let Some(url) = &witness.url else {
                tracing::warn!(
                    witness = name,
                    "a witness has no URL in the policy: it is never asked"
                );
                continue;
            };
            let wrong = |reason: String| BindError::Config(format!("the witness {name}: {reason}"));
            let base = outbound::target(url, config.http.insecure_http).map_err(wrong)?;
            let below = |path| base.below(path).map_err(|error| wrong(format!("its URL {error}")));
            let url = below("add-checkpoint")?;
            let shown_url = below(&format!("{origin}/checkpoint"))?;
            let (name, key, log) = (name.clone(), witness.key.clone(), log.clone());
            let peer = Arc::new(WitnessPeer { name, key, url, shown_url, log });
            witnesses.push(WitnessState { peer, size: None, failure: None, dispute: None });
        }
        let http = HttpClient::new(config.witness_timeout, config.witness_certificates.as_deref())?;
        Ok(Self { http, timeout: config.witness_timeout, witnesses })
    }

    /// The name of a witness in the policy.
    pub(super) fn name(&self, number: usize) -> Option<&str> {
        self.witnesses.get(number).map(|witness| witness.peer.name.as_str())
    }

    /// The keys of all witnesses, with their indices.
    pub(super) fn keys(&self) -> impl Iterator<Item = (usize, &VerifierKey)> {
        self.witnesses.iter().map(|witness| &witness.peer.key).enumerate()
    }

    /// Asks all witnesses to cosign.
    pub(super) fn ask_all(&self, shown: &Shown, folder: &Folder) -> JoinSet<Heard> {
        let mut asked = JoinSet::new();
        for (witness, WitnessState { peer, size, .. }) in self.witnesses.iter().enumerate() {
            let conversation = Conversation {
                http: self.http.clone(),
                timeout: self.timeout,
                peer: Arc::clone(peer),
                shown: shown.clone(),
                folder: folder.clone(),
            };
            // The size that it had when it was last asked, unless the log has been set back since.
            let from = size.unwrap_or(shown.from).min(shown.size);
            asked.spawn(async move {
                let text = conversation.shown.note.text().to_owned();
                let next = timeout(conversation.timeout, conversation.hold(from)).await;
                let next = next.unwrap_or_else(|_| Next::Without("timeout".to_owned()));
                let next = match next {
                    // With a separate timeout: a claim must not be lost because its proof is slow.
                    Next::Inspect(claim) => conversation.inspect(claim).await,
                    next => next,
                };
                Heard { witness, text, next }
            });
        }
        asked
    }

    /// Records the outcome of asking, and tells the operator when it changes.
    pub(super) fn note(&mut self, heard: &Heard, size: u64) {
        let Some(witness) = self.witnesses.get_mut(heard.witness) else { return };
        let (known, failure) = match &heard.next {
            Next::Cosigned(_) => (Some(size), None),
            Next::Without(reason) => (None, Some(reason.clone())),
            Next::Halt(halt) => (None, Some(halt.to_string())),
            Next::Disputed(dispute) => (None, Some(dispute.to_string())),
            Next::Inspect(claim) => (None, Some(claim.to_string())),
            Next::AskFrom(seen) => (Some(*seen), None),
        };
        match &heard.next {
            Next::Cosigned(_) => witness.dispute = None,
            Next::Disputed(_) => witness.dispute = failure.clone(),
            _ => {}
        }
        witness.size = known;
        if witness.failure != failure {
            let name = &witness.peer.name;
            match &failure {
                Some(reason) => tracing::warn!(witness = name, reason, "a witness does not cosign"),
                None => tracing::info!(witness = name, "a witness cosigns again"),
            }
            witness.failure = failure;
        }
    }

    /// Which witnesses did not cosign last time, and why; `None` if there are none.
    pub(super) fn failing(&self) -> Option<String> {
        self.summary(|witness| witness.failure.as_ref())
    }

    /// Which witnesses say that they have seen another tree, and which; `None` if there are none.
    pub(super) fn disputing(&self) -> Option<String> {
        self.summary(|witness| witness.dispute.as_ref())
    }

    fn summary(&self, reason: impl Fn(&WitnessState) -> Option<&String>) -> Option<String> {
        let named =
            |witness: &WitnessState| Some(format!("{}: {}", witness.peer.name, reason(witness)?));
        let named: Vec<String> = self.witnesses.iter().filter_map(named).collect();
        (!named.is_empty()).then(|| named.join("; "))
    }
}

/// Requests to one witness about one checkpoint.
struct Conversation {
    http: HttpClient,
    timeout: Duration,
    peer: Arc<WitnessPeer>,
    shown: Shown,
    folder: Folder,
}

impl Conversation {
    /// Asks until the witness has cosigned or said why not.
    async fn hold(&self, from: u64) -> Next {
        let Shown { note, size, .. } = &self.shown;
        let mut question = Question { size: *size, from };
        for _ in 0..MAX_QUESTIONS {
            let (old, new) = (question.from, *size);
            let proof = match self.folder.with(move |dir| dir.consistency(old, new)).await {
                Ok(proof) => proof,
                Err(error) => return Next::Without(error.to_string()),
            };
            let request = produce_add_checkpoint(&question, proof, note);
            let (status, body) = match self.send(request.to_bytes()).await {
                Ok(answer) => answer,
                Err(error) => return Next::Without(error.name().to_owned()),
            };
            match consume_witness_answer(&question, note, &self.peer.key, status, &body) {
                Next::AskFrom(seen) => question.from = seen,
                next => return next,
            }
        }
        Next::Without("the witness keeps changing its size".to_owned())
    }

    /// Asks the witness to show what it claims to have seen.
    async fn inspect(&self, claim: Claim) -> Next {
        let question = Question { size: self.shown.size, from: self.shown.from };
        let judged = timeout(self.timeout, async {
            let shown = self.stored().await?;
            let own_root = match shown.size <= question.size {
                true => {
                    Some(self.folder.root(shown.size).await.map_err(|error| error.to_string())?)
                }
                false => None,
            };
            Ok(consume_witness_checkpoint(&question, claim, &shown, own_root))
        });
        let judged = judged.await.unwrap_or_else(|_| Err("its checkpoint: timeout".to_owned()));
        judged.unwrap_or_else(|unproved| Next::Disputed(Dispute { claim, unproved }))
    }

    /// The checkpoint that the witness has for this log, if the log has signed it.
    async fn stored(&self) -> Result<Checkpoint, String> {
        let failed = |error: TransportError| format!("its checkpoint: {}", error.name());
        let request = outbound::request(Method::GET, &self.peer.shown_url);
        let deadline = instant() + self.timeout;
        let answer = self.http.send(request, Bytes::new(), deadline).await.map_err(failed)?;
        if answer.status != StatusCode::OK {
            return Err(format!("its checkpoint: status {}", answer.status.as_u16()));
        }
        let body = answer.read(MAX_ANSWER).await.map_err(failed)?;
        read_witness_checkpoint(&body, &self.peer.log)
    }

    async fn send(&self, body: Vec<u8>) -> Result<(u16, Bytes), TransportError> {
        let request = outbound::request(Method::POST, &self.peer.url);
        let request = request.header(CONTENT_TYPE, NOTE_MEDIA_TYPE);
        let answer = self.http.send(request, body.into(), instant() + self.timeout).await?;
        let status = answer.status.as_u16();
        Ok((status, answer.read(MAX_ANSWER).await?))
    }
}
