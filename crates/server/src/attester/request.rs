//! `POST token-request?issuer=NAME` from a device.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use sotto_protocol::attester::{
    Ask, AttestationRefusal, AttesterRefusal, DeviceIdentity, Forwarded, consume_token_request,
    request_digest,
};
use sotto_store::Known;
use sotto_wire::token::{
    ENCAPSULATION_KEY_PROBLEM, MAX_TOKEN_REQUEST_LEN, REQUEST_MEDIA_TYPE, RESPONSE_MEDIA_TYPE,
    WITHHELD_PROBLEM, attestation_message, header, parse_byte_sequence,
};
use tokio::sync::oneshot;

use super::directory::KeyIds;
use super::dispatch::Waiting;
use super::{AttesterState, IssuerHandle};
use crate::health::StoreWork;
use crate::http::{content, expect_type};
use crate::problem::{ABOUT_BLANK, Failure};

/// Why a device gets no token.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    /// Refused by the protocol.
    Protocol(AttesterRefusal),
    /// The evidence was not accepted. The device is not told why.
    Attestation(AttestationRefusal),
    /// Too many requests are in progress.
    Busy,
    /// Too many requests of this device are in progress.
    DeviceBusy,
    /// The same bytes of this device are in progress.
    InFlight,
    /// An internal error.
    Inside,
}

impl From<AttesterRefusal> for Refusal {
    fn from(refusal: AttesterRefusal) -> Self {
        Self::Protocol(refusal)
    }
}

impl Refusal {
    /// The name used in counters.
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

    /// All names used in counters.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        let protocol = AttesterRefusal::ALL.into_iter().map(AttesterRefusal::name);
        let attestation = AttestationRefusal::ALL.into_iter().map(AttestationRefusal::name);
        protocol.chain(attestation).chain(["busy", "device_busy", "in_flight", "inside"])
    }

    /// The status, problem type and detail of each refusal. The detail is the same for all refusals
    /// of one status and type: only the counters tell which check failed.
    fn answer(&self) -> (StatusCode, &'static str, &'static str) {
        use AttesterRefusal::{
            Blind, ClientKey, EncapsulationKey, Full, IndexKey, IssuerKey, IssuerLimit,
            IssuerRefused, IssuerResponse, IssuerUnavailable, Malformed, OtherAlias, OtherKey,
            RequestKey, Signature, TokenType, UnknownIssuer, Withheld,
        };
        let not_now = (StatusCode::SERVICE_UNAVAILABLE, ABOUT_BLANK, "No token can be given now.");
        match self {
            Self::Busy | Self::DeviceBusy | Self::InFlight | Self::Inside => not_now,
            Self::Attestation(_) => {
                (StatusCode::FORBIDDEN, ABOUT_BLANK, "The attestation was not accepted.")
            }
            Self::Protocol(refusal) => match refusal {
                // Only this is a 429: devices treat it as final.
                Withheld => (
                    StatusCode::TOO_MANY_REQUESTS,
                    WITHHELD_PROBLEM,
                    "The token for this origin was granted before.",
                ),
                // Only for this type does a device make a new request.
                EncapsulationKey => (
                    StatusCode::BAD_REQUEST,
                    ENCAPSULATION_KEY_PROBLEM,
                    "The encapsulation key is not one of the issuer's.",
                ),
                IssuerKey => (
                    StatusCode::UNAUTHORIZED,
                    ABOUT_BLANK,
                    "The issuer does not have the token key.",
                ),
                // It passes with the window.
                IssuerUnavailable | Full => not_now,
                UnknownIssuer | Malformed | TokenType | ClientKey | RequestKey | Blind
                | Signature | IssuerRefused | IssuerLimit | IndexKey | IssuerResponse
                | OtherAlias | OtherKey => {
                    (StatusCode::BAD_REQUEST, ABOUT_BLANK, "The token request is refused.")
                }
            },
        }
    }

    fn into_failure(self) -> Failure {
        match self.answer() {
            (StatusCode::SERVICE_UNAVAILABLE, _, detail) => Failure::unavailable(detail),
            (status, kind, detail) => Failure::Typed(status, kind, detail),
        }
    }
}

/// The query of the resource.
type Parameters = Query<Vec<(String, String)>>;

pub(super) async fn token_request(
    State(state): State<Arc<AttesterState>>,
    parameters: Result<Parameters, QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    expect_type(&headers, REQUEST_MEDIA_TYPE)?;
    let body = state.bodies.read(body, MAX_TOKEN_REQUEST_LEN).await.map_err(not_withheld)?;
    let body = body.bytes().clone();
    let issuer = parameters.ok().and_then(|Query(parameters)| named_issuer(&state, &parameters));
    let served = match issuer {
        Some(issuer) => serve(&state, issuer, &headers, body).await,
        None => Err(AttesterRefusal::UnknownIssuer.into()),
    };
    served.map(|response| content(RESPONSE_MEDIA_TYPE, response)).map_err(|refusal| {
        state.shared.metrics.refused.add(refusal.name(), 1);
        refusal.into_failure()
    })
}

/// The issuer that a request names.
fn named_issuer<'a>(
    state: &'a AttesterState,
    parameters: &[(String, String)],
) -> Option<&'a IssuerHandle> {
    let mut named = parameters.iter().filter(|(name, _)| name == "issuer");
    let (_, issuer) = named.next()?;
    if named.next().is_some() { None } else { state.issuers.get(issuer) }
}

async fn serve(
    state: &AttesterState,
    issuer: &IssuerHandle,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Vec<u8>, Refusal> {
    let received = Received::new(headers, body).ok_or(AttesterRefusal::Malformed)?;
    let place = Arc::clone(&state.places).try_acquire_owned().map_err(|_| Refusal::Busy)?;
    let received = Arc::new(received);
    let device = identify(state, issuer, &received).await?;
    // Before the lookup of stored answers: an earlier copy may be granted just after it.
    let flight = state.in_flight.enter(device, request_digest(&received.body))?;
    if let Some(response) = known(state, issuer, &received, &device).await? {
        return Ok(response);
    }
    let forwarded = check(state, issuer, &received).await?;
    let (answer, answered) = oneshot::channel();
    let occupied = (place, flight);
    let waiting = Waiting { body: received.body.clone(), forwarded, device, answer, occupied };
    issuer.queue.send(waiting).await.map_err(|_| Refusal::Inside)?;
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
}

/// Which device sent the request.
async fn identify(
    state: &AttesterState,
    issuer: &IssuerHandle,
    received: &Arc<Received>,
) -> Result<DeviceIdentity, Refusal> {
    let Received { body, client_key, client_alias, request_blind, .. } = &**received;
    let (attester, issuer) = (&state.operator, &issuer.name);
    let message =
        attestation_message(attester, issuer, client_key, client_alias, request_blind, body);
    let (received, attestations) = (Arc::clone(received), Arc::clone(&state.attestations));
    let now = state.shared.environment.now();
    let work = move || {
        for attestation in attestations.iter() {
            match attestation.identify(&received.evidence, &message, now) {
                Err(AttestationRefusal::Kind) => {}
                decided => return decided,
            }
        }
        Err(AttestationRefusal::Kind)
    };
    let identified = state.shared.pool.run(work).await.map_err(|_| Refusal::Inside)?;
    identified.map_err(Refusal::Attestation)
}

/// The stored response, if the request was answered before.
async fn known(
    state: &AttesterState,
    issuer: &IssuerHandle,
    received: &Received,
    device: &DeviceIdentity,
) -> Result<Option<Vec<u8>>, Refusal> {
    let shared = &state.shared;
    let digest = request_digest(&received.body);
    let Received { client_key, client_alias, .. } = received;
    let now = shared.environment.now();
    let known =
        shared.db.stored_answer(device, &issuer.name, client_key, client_alias, &digest, now);
    match shared.health.noted(StoreWork::Load, known.await) {
        Ok(Known::Unknown) => Ok(None),
        Ok(Known::Answered(response)) => {
            shared.metrics.repeated.increment(1);
            Ok(Some(response))
        }
        Ok(Known::Withheld) => Err(AttesterRefusal::Withheld.into()),
        Ok(Known::OtherKey) => Err(AttesterRefusal::OtherKey.into()),
        Err(_) => Err(Refusal::Inside),
    }
}

/// Checks the request. An unknown key may be a new one, so the directory is read again.
async fn check(
    state: &AttesterState,
    issuer: &IssuerHandle,
    received: &Arc<Received>,
) -> Result<Forwarded, Refusal> {
    let checked = match issuer.directory.key_ids() {
        Some(key_ids) => check_with(state, received, key_ids).await?,
        None => Err(AttesterRefusal::EncapsulationKey),
    };
    if checked.as_ref().err() != Some(&AttesterRefusal::EncapsulationKey) {
        return Ok(checked?);
    }
    issuer.directory.refresh(std::time::Duration::ZERO).await;
    match issuer.directory.key_ids() {
        Some(key_ids) => Ok(check_with(state, received, key_ids).await??),
        None => Err(AttesterRefusal::IssuerUnavailable.into()),
    }
}

async fn check_with(
    state: &AttesterState,
    received: &Arc<Received>,
    key_ids: KeyIds,
) -> Result<Result<Forwarded, AttesterRefusal>, Refusal> {
    let received = Arc::clone(received);
    let work = move || {
        let Received { client_key, client_alias, request_blind, .. } = *received;
        let ask = Ask { body: &received.body, client_key, request_blind, client_alias };
        consume_token_request(&ask, &key_ids)
    };
    state.shared.pool.run(work).await.map_err(|_| Refusal::Inside)
}

/// Only a withheld token is a 429.
fn not_withheld(failure: Failure) -> Failure {
    match failure {
        Failure::OutOfMemory => Refusal::Busy.into_failure(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_can_tell_what_is_final_and_what_to_make_anew() {
        for refusal in AttesterRefusal::ALL {
            let (status, kind, _) = Refusal::from(refusal).answer();
            let expected = match refusal {
                AttesterRefusal::Withheld => WITHHELD_PROBLEM,
                AttesterRefusal::EncapsulationKey => ENCAPSULATION_KEY_PROBLEM,
                _ => ABOUT_BLANK,
            };
            assert_eq!(kind, expected, "{refusal:?}");
            let is_429 = status == StatusCode::TOO_MANY_REQUESTS;
            assert_eq!(is_429, refusal == AttesterRefusal::Withheld, "{refusal:?}");
        }
        let (status, ..) = Refusal::from(AttesterRefusal::EncapsulationKey).answer();
        assert_eq!(status, StatusCode::BAD_REQUEST);
    }
}
