//! `POST token-request` and `POST token-requests`: blinded messages in, sealed signatures out.
//!
//! A batch is split into pieces that run on all threads at once, and its answers keep the order of
//! its requests. A refusal inside a batch does not affect other requests. Like the refusal of a
//! single request, it only contains a status.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use sotto_protocol::Fault;
use sotto_protocol::issuer::{
    EncapsulationKeyring, IssuerRefusal, RESPONSE_NONCE_LEN, consume_token_request,
};
use sotto_wire::token::{
    ANSWER_BATCH_MEDIA_TYPE, IssuerAnswer, IssuerAnswerBatch, MAX_TOKEN_REQUEST_BATCH_LEN,
    MAX_TOKEN_REQUEST_LEN, REQUEST_BATCH_MEDIA_TYPE, REQUEST_MEDIA_TYPE, RESPONSE_MEDIA_TYPE,
    TokenRequestBatch, byte_sequence, header,
};
use sotto_wire::{Decode, Encode};

use super::IssuerState;
use super::table::Keys;
use crate::environment::spawn;
use crate::http::{content, expect_type};
use crate::pool::PoolError;
use crate::problem::Failure;

/// The fewest requests for which a hop through the pool pays off.
const MIN_PIECE: usize = 8;

/// `POST token-request`, as in the specification.
pub(super) async fn post_one(
    State(state): State<Arc<IssuerState>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    let request = state.receive(&headers, body, REQUEST_MEDIA_TYPE, MAX_TOKEN_REQUEST_LEN);
    let answers = state.issue(vec![request.await?]).await?;
    match answers.into_iter().next() {
        Some(IssuerAnswer::Issued { index_key, limit, response }) => {
            let mut answer = content(RESPONSE_MEDIA_TYPE, response);
            let alias = HeaderValue::try_from(byte_sequence(&index_key));
            let alias = alias.map_err(|error| Fault(error.to_string()))?;
            let fields = answer.headers_mut();
            fields.insert(HeaderName::from_static(header::ORIGIN_ALIAS), alias);
            fields.insert(HeaderName::from_static(header::LIMIT), HeaderValue::from(limit));
            Ok(answer)
        }
        Some(IssuerAnswer::Refused { status }) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
            Err(Failure::refused(status, "The token request is refused."))
        }
        None => Err(Fault("a request has no answer".into()).into()),
    }
}

/// `POST token-requests`.
pub(super) async fn post_batch(
    State(state): State<Arc<IssuerState>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    let (media_type, limit) = (REQUEST_BATCH_MEDIA_TYPE, MAX_TOKEN_REQUEST_BATCH_LEN);
    let body = state.receive(&headers, body, media_type, limit).await?;
    let batch = TokenRequestBatch::from_bytes(&body).map_err(|_| {
        Failure::refused(StatusCode::BAD_REQUEST, "This is not a batch of token requests.")
    })?;
    let requests = batch.requests().iter().map(|request| body.slice_ref(request)).collect();
    let answers = IssuerAnswerBatch::new(state.issue(requests).await?);
    let answers = answers.map_err(|error| Fault(error.to_string()))?;
    Ok(content(ANSWER_BATCH_MEDIA_TYPE, answers.to_bytes()))
}

impl IssuerState {
    /// The body of a request from the attester.
    async fn receive(
        &self,
        headers: &HeaderMap,
        body: Body,
        media_type: &'static str,
        limit: usize,
    ) -> Result<Bytes, Failure> {
        self.attester.token.check(headers)?;
        expect_type(headers, media_type)?;
        Ok(self.bodies.read(body, limit).await?.into_bytes())
    }

    /// Answers requests, in their order.
    async fn issue(self: &Arc<Self>, requests: Vec<Bytes>) -> Result<Vec<IssuerAnswer>, Failure> {
        let _place = self
            .batches
            .try_acquire()
            .map_err(|_| Failure::unavailable("All workers are busy."))?;
        let (keyring, keys) = (self.encapsulation_keys.current(), self.table.current());
        let piece = requests.len().div_ceil(self.cpu_threads).max(MIN_PIECE);
        let pieces: Vec<_> = requests
            .chunks(piece)
            .map(|piece| {
                let (state, piece) = (Arc::clone(self), piece.to_vec());
                let (keyring, keys) = (Arc::clone(&keyring), Arc::clone(&keys));
                spawn(async move {
                    let worker = Arc::clone(&state);
                    state.pool.run(move || worker.work(&piece, &keyring, &keys)).await
                })
            })
            .collect();
        let mut answers = Vec::with_capacity(requests.len());
        for piece in pieces {
            answers.extend(piece.await.map_err(|_| PoolError::Panicked)???);
        }
        Ok(answers)
    }

    fn work(
        &self,
        requests: &[Bytes],
        keyring: &EncapsulationKeyring,
        keys: &Keys,
    ) -> Result<Vec<IssuerAnswer>, Fault> {
        let now = self.environment.now();
        let answer = |request: &Bytes| {
            let nonce: [u8; RESPONSE_NONCE_LEN] = self.environment.random()?;
            let outcome = consume_token_request(
                request,
                keyring,
                keys.origins(),
                now,
                self.key_service.window_s(),
                &nonce,
            );
            Ok(match outcome {
                Ok(answer) => {
                    self.metrics.issued.increment(1);
                    answer
                }
                Err(refusal) => {
                    self.metrics.refused.add(refusal.name(), 1);
                    if refusal == IssuerRefusal::Fault {
                        tracing::error!(
                            "a token was not signed: the private operation or the sealing failed"
                        );
                    }
                    IssuerAnswer::Refused { status: refusal.code() }
                }
            })
        };
        requests.iter().map(answer).collect()
    }
}
