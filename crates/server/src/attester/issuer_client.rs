//! Requests to an issuer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::http::request::Builder;
use axum::http::{Method, StatusCode};
use bytes::Bytes;
use sotto_wire::token::{
    ANSWER_BATCH_MEDIA_TYPE, IssuerAnswer, IssuerAnswerBatch, MAX_TOKEN_BATCH,
    REQUEST_BATCH_MEDIA_TYPE, ShortOpaque, TokenRequestBatch,
};
use sotto_wire::{Decode, Encode, HttpUrl};

use super::config::{AttesterConfig, IssuerPeer};
use crate::auth::AuthToken;
use crate::environment::instant;
use crate::health::{Concern, Health};
use crate::http::is_of_type;
use crate::outbound::{self, Answer, HttpClient, TransportError};

/// The longest batch of answers, in bytes. A token response takes 288 bytes, an answer 331.
const MAX_ANSWERS_LEN: usize = MAX_TOKEN_BATCH * 1024;
/// The longest directory, in bytes.
const MAX_DIRECTORY_LEN: usize = 64 * 1024;

/// Sends requests to one issuer.
pub(super) struct IssuerClient {
    name: String,
    http: HttpClient,
    requests: HttpUrl,
    directory: HttpUrl,
    token: Arc<AuthToken>,
    timeout: Duration,
    unreachable: Arc<Failures>,
}

impl IssuerClient {
    pub(super) fn new(
        issuer: &IssuerPeer,
        config: &AttesterConfig,
        http: HttpClient,
        unreachable: Arc<Failures>,
    ) -> Result<Self, String> {
        let base = outbound::target(&issuer.url, config.http.insecure_http)?;
        let resource = |path| base.below(path).map_err(|error| format!("its URL {error}"));
        Ok(Self {
            name: issuer.name.as_str().to_owned(),
            http,
            requests: resource("token-requests")?,
            directory: resource(".well-known/private-token-issuer-directory")?,
            token: Arc::clone(&issuer.token),
            timeout: config.issuer_timeout,
            unreachable,
        })
    }

    /// The issuer's operator.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Has requests answered. Answers are in the order of the requests. It is safe to send the same
    /// requests again.
    pub(super) async fn ask(&self, requests: &[Bytes]) -> Result<Vec<IssuerAnswer>, &'static str> {
        self.noted(self.try_ask(requests).await)
    }

    /// The issuer's directory.
    pub(super) async fn directory(&self) -> Result<Bytes, &'static str> {
        self.noted(self.try_directory().await)
    }

    async fn try_ask(&self, requests: &[Bytes]) -> Result<Vec<IssuerAnswer>, &'static str> {
        let batch = requests.iter().map(|request| ShortOpaque::new(&request[..]));
        let batch = batch.collect::<Result<_, _>>().and_then(TokenRequestBatch::new);
        let batch = batch.map_err(|_| "broken_request")?.to_bytes();
        let (name, value) = self.token.header().map_err(|_| "broken_token")?;
        let request = outbound::request(Method::POST, &self.requests);
        let request = request.header(name, value).header(CONTENT_TYPE, REQUEST_BATCH_MEDIA_TYPE);
        let answer = self.send(request, batch.into()).await?;
        if !is_of_type(&answer.headers, ANSWER_BATCH_MEDIA_TYPE) {
            return Err("foreign_answer");
        }
        let body = answer.read(MAX_ANSWERS_LEN).await.map_err(TransportError::name)?;
        let answers = IssuerAnswerBatch::from_bytes(&body).map_err(|_| "broken_answer")?;
        let answers = answers.into_answers();
        if answers.len() == requests.len() { Ok(answers) } else { Err("broken_answer") }
    }

    async fn try_directory(&self) -> Result<Bytes, &'static str> {
        let request = outbound::request(Method::GET, &self.directory);
        let answer = self.send(request, Bytes::new()).await?;
        answer.read(MAX_DIRECTORY_LEN).await.map_err(TransportError::name)
    }

    /// The answer, if its status is 200.
    async fn send(&self, request: Builder, body: Bytes) -> Result<Answer, &'static str> {
        let answer = self.http.send(request, body, instant() + self.timeout).await;
        let answer = answer.map_err(TransportError::name)?;
        match answer.status {
            StatusCode::OK => Ok(answer),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err("unauthorized"),
            StatusCode::TOO_MANY_REQUESTS => Err("busy"),
            status if status.is_server_error() => Err("server_error"),
            _ => Err("refused"),
        }
    }

    /// Records for the operator whether the issuer answers.
    fn noted<T>(&self, outcome: Result<T, &'static str>) -> Result<T, &'static str> {
        self.unreachable.note(&self.name, outcome.as_ref().err().copied());
        outcome
    }
}

/// Failures of one kind, by issuer.
pub(super) struct Failures {
    concern: Concern,
    health: Arc<Health>,
    by_issuer: Mutex<BTreeMap<String, &'static str>>,
}

impl Failures {
    pub(super) fn new(concern: Concern, health: &Arc<Health>) -> Self {
        Self { concern, health: Arc::clone(health), by_issuer: Mutex::default() }
    }

    /// Sets or clears the failure of an issuer.
    pub(super) fn note(&self, issuer: &str, reason: Option<&'static str>) {
        let mut failures = self.by_issuer.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match reason {
            Some(reason) => failures.insert(issuer.to_owned(), reason),
            None => failures.remove(issuer),
        };
        if before == reason {
            return;
        }
        match reason {
            Some(reason) => tracing::warn!(issuer, reason, "an issuer does not work"),
            None => tracing::info!(issuer, "an issuer works again"),
        }
        let reasons: Vec<_> =
            failures.iter().map(|(issuer, reason)| format!("{issuer}: {reason}")).collect();
        self.health.set(self.concern, (!reasons.is_empty()).then(|| reasons.join("; ")));
    }
}
