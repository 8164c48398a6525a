//! `POST token-request?issuer=NAME` from a device.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use sotto_protocol::Moment;
use sotto_protocol::attester::{
    Ask, Attestation, AttestationRefusal, AttesterRefusal, DeviceIdentity, Forwarded,
    consume_token_request, request_digest,
};
use sotto_store::Known;
use sotto_wire::KeyName;
use sotto_wire::token::{
    MAX_TOKEN_REQUEST_LEN, REQUEST_MEDIA_TYPE, RESPONSE_MEDIA_TYPE, attestation_message, header,
    parse_byte_sequence,
};
use tokio::sync::oneshot;

use super::directory::KeyIds;
use super::dispatch::{Place, Waiting};
use super::{AttesterState, IssuerDesk};
use crate::health::StoreWork;
use crate::http::is_of_type;
use crate::problem::{Failure, RETRY_SOON};
use crate::service::answer;

/// Why a device gets no token.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    /// The protocol refuses.
    Protocol(AttesterRefusal),
    /// The evidence was not believed. The device is not told why.
    Attestation(AttestationRefusal),
    /// There is no place for the request.
    Busy,
    /// There is no place for another request of this device.
    DeviceBusy,
    /// The same bytes of this device are worked on.
    InFlight,
    /// Trouble of the attester.
    Inside,
}

impl From<AttesterRefusal> for Refusal {
    fn from(refusal: AttesterRefusal) -> Self {
        Self::Protocol(refusal)
    }
}

impl Refusal {
    /// A word for counters.
    fn name(&self) -> &'static str {
        match self {
            Self::Protocol(refusal) => refusal.name(),
            Self::Attestation(refusal) => refusal.name(),
            Self::Busy => "busy",
            Self::DeviceBusy => "device_busy",
            Self::InFlight => "in_flight",
            Self::Inside => "inside",
        }
    }

    /// All words for counters.
    pub(super) fn names() -> Vec<&'static str> {
        let protocol = AttesterRefusal::ALL.into_iter().map(AttesterRefusal::name);
        let attestation = AttestationRefusal::ALL.into_iter().map(AttestationRefusal::name);
        protocol.chain(attestation).chain(["busy", "device_busy", "in_flight", "inside"]).collect()
    }

    fn status(&self) -> StatusCode {
        let status = match self {
            Self::Protocol(refusal) => refusal.status(),
            Self::Attestation(refusal) => refusal.status(),
            Self::Busy | Self::DeviceBusy | Self::InFlight | Self::Inside => 503,
        };
        StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST)
    }

    /// The answer: one text for each status and problem type.
    fn into_failure(self) -> Failure {
        let status = self.status();
        if let Self::Protocol(refusal) = self
            && let Some(detail) = typed_detail(refusal)
        {
            return Failure::Typed(status, refusal.problem_type(), detail);
        }
        match status {
            StatusCode::SERVICE_UNAVAILABLE => {
                Failure::Unavailable("No token can be given now.".to_owned(), RETRY_SOON)
            }
            StatusCode::UNAUTHORIZED => {
                Failure::Refused(status, "The issuer does not have the token key.".to_owned())
            }
            StatusCode::FORBIDDEN => {
                Failure::Refused(status, "The attestation was not accepted.".to_owned())
            }
            _ => Failure::Refused(status, "The token request is refused.".to_owned()),
        }
    }
}

/// The text of the refusals that have a problem type.
fn typed_detail(refusal: AttesterRefusal) -> Option<&'static str> {
    match refusal {
        AttesterRefusal::Withheld => Some("The token for this origin was granted before."),
        AttesterRefusal::EncapsulationKey => {
            Some("The encapsulation key is not one of the issuer's.")
        }
        _ => None,
    }
}

/// The query of the resource.
type Parameters = Query<Vec<(String, String)>>;

pub(super) async fn token_request(
    State(state): State<Arc<AttesterState>>,
    parameters: Result<Parameters, QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    answer(&state.shared.metrics.route, async {
        if !is_of_type(&headers, REQUEST_MEDIA_TYPE) {
            return Err(Failure::UnexpectedMediaType(REQUEST_MEDIA_TYPE));
        }
        let body = state.bodies.read(body, MAX_TOKEN_REQUEST_LEN).await.map_err(not_withheld)?;
        let body = body.bytes().clone();
        let issuer = parameters.ok().and_then(|Query(parameters)| desk(&state, &parameters));
        let served = match issuer {
            Some(desk) => serve(&state, desk, &headers, body).await,
            None => Err(AttesterRefusal::UnknownIssuer.into()),
        };
        match served {
            Ok(response) => Ok(message(response)),
            Err(refusal) => {
                state.shared.metrics.refused(refusal.name());
                Err(refusal.into_failure())
            }
        }
    })
    .await
}

/// The issuer that a request names.
fn desk<'a>(state: &'a AttesterState, parameters: &[(String, String)]) -> Option<&'a IssuerDesk> {
    let mut named = parameters.iter().filter(|(name, _)| name == "issuer");
    let (_, issuer) = named.next()?;
    if named.next().is_some() { None } else { state.issuers.get(issuer) }
}

async fn serve(
    state: &AttesterState,
    desk: &IssuerDesk,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Vec<u8>, Refusal> {
    let received = Received::new(headers, body).ok_or(AttesterRefusal::Malformed)?;
    let place = Arc::clone(&state.places).try_acquire_owned().map_err(|_| Refusal::Busy)?;
    let received = Arc::new(received);
    let device = identify(state, desk, &received).await?;
    // Before the look at what is stored: a copy that is ahead may be granted after it.
    let flight = state.in_flight.enter(device, request_digest(&received.body))?;
    let place = Place { _of_all: place, _of_the_device: flight };
    if let Some(response) = known(state, desk, &received, &device).await? {
        return Ok(response);
    }
    let forwarded = check(state, desk, &received).await?;
    let (answer, answered) = oneshot::channel();
    let waiting = Waiting { body: received.body.clone(), forwarded, device, answer, place };
    desk.queue.send(waiting).await.map_err(|_| Refusal::Inside)?;
    answered.await.unwrap_or(Err(Refusal::Inside))
}

/// What a device sent.
struct Received {
    body: Bytes,
    client_key: [u8; 32],
    client_alias: [u8; 32],
    request_blind: [u8; 32],
    evidence: Vec<u8>,
}

impl Received {
    fn new(headers: &HeaderMap, body: Bytes) -> Option<Self> {
        let sequence = |name: &str| {
            let mut values = headers.get_all(name).iter();
            let value = values.next()?.to_str().ok()?;
            values.next().is_none().then(|| parse_byte_sequence(value))?
        };
        let array = |name: &str| <[u8; 32]>::try_from(sequence(name)?).ok();
        Some(Self {
            client_key: array(header::CLIENT)?,
            client_alias: array(header::ORIGIN_ALIAS)?,
            request_blind: array(header::REQUEST_BLIND)?,
            evidence: sequence(header::ATTESTATION)?,
            body,
        })
    }

    fn identify(
        &self,
        operator: &KeyName,
        issuer: &KeyName,
        attestations: &[Arc<dyn Attestation>],
        now: Moment,
    ) -> Result<DeviceIdentity, AttestationRefusal> {
        let Self { body, client_key, client_alias, request_blind, evidence } = self;
        let message =
            attestation_message(operator, issuer, client_key, client_alias, request_blind, body);
        for attestation in attestations {
            match attestation.identify(evidence, &message, now) {
                Err(AttestationRefusal::Kind) => {}
                decided => return decided,
            }
        }
        Err(AttestationRefusal::Kind)
    }

    fn check(&self, key_ids: &[[u8; 32]]) -> Result<Forwarded, AttesterRefusal> {
        let ask = Ask {
            body: &self.body,
            client_key: self.client_key,
            request_blind: self.request_blind,
            client_alias: self.client_alias,
        };
        consume_token_request(&ask, key_ids)
    }
}

/// Who asks.
async fn identify(
    state: &AttesterState,
    desk: &IssuerDesk,
    received: &Arc<Received>,
) -> Result<DeviceIdentity, Refusal> {
    let (operator, received) = (state.operator.clone(), Arc::clone(received));
    let (issuer, attestations) = (desk.name.clone(), Arc::clone(&state.attestations));
    let now = state.shared.environment.now();
    let work = move || received.identify(&operator, &issuer, &attestations, now);
    let identified = state.shared.pool.run(work).await.map_err(|_| Refusal::Inside)?;
    identified.map_err(Refusal::Attestation)
}

/// The response that the request got before.
async fn known(
    state: &AttesterState,
    desk: &IssuerDesk,
    received: &Received,
    device: &DeviceIdentity,
) -> Result<Option<Vec<u8>>, Refusal> {
    let shared = &state.shared;
    let digest = request_digest(&received.body);
    let Received { client_key, client_alias, .. } = received;
    let now = shared.environment.now();
    let known = shared.db.stored_answer(device, &desk.name, client_key, client_alias, &digest, now);
    match known.await {
        Ok(known) => {
            shared.health.store_worked(StoreWork::Load);
            match known {
                Known::Unknown => Ok(None),
                Known::Again(response) => {
                    shared.metrics.repeated.increment(1);
                    Ok(Some(response))
                }
                Known::Withheld => Err(AttesterRefusal::Withheld.into()),
                Known::OtherKey => Err(AttesterRefusal::OtherKey.into()),
            }
        }
        Err(error) => {
            tracing::error!(%error, "the attester's database cannot be read");
            shared.health.store_failed(StoreWork::Load);
            Err(Refusal::Inside)
        }
    }
}

/// Checks the request. A key that is not known may be new.
async fn check(
    state: &AttesterState,
    desk: &IssuerDesk,
    received: &Arc<Received>,
) -> Result<Forwarded, Refusal> {
    let checked = match desk.directory.key_ids() {
        Some(key_ids) => check_with(state, received, key_ids).await?,
        None => Err(AttesterRefusal::EncapsulationKey),
    };
    if checked.as_ref().err() != Some(&AttesterRefusal::EncapsulationKey) {
        return Ok(checked?);
    }
    desk.directory.refresh(std::time::Duration::ZERO).await;
    match desk.directory.key_ids() {
        Some(key_ids) => Ok(check_with(state, received, key_ids).await??),
        None => Err(AttesterRefusal::IssuerTrouble.into()),
    }
}

async fn check_with(
    state: &AttesterState,
    received: &Arc<Received>,
    key_ids: KeyIds,
) -> Result<Result<Forwarded, AttesterRefusal>, Refusal> {
    let received = Arc::clone(received);
    let work = move || received.check(&key_ids);
    state.shared.pool.run(work).await.map_err(|_| Refusal::Inside)
}

/// Only a token that is withheld is a 429.
fn not_withheld(failure: Failure) -> Failure {
    match failure {
        Failure::OutOfMemory => Refusal::Busy.into_failure(),
        other => other,
    }
}

fn message(response: Vec<u8>) -> Response {
    let mut message = Response::new(Body::from(response));
    let media_type = HeaderValue::from_static(RESPONSE_MEDIA_TYPE);
    message.headers_mut().insert(CONTENT_TYPE, media_type);
    message
}
