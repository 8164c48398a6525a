//! Tokens from the attesters: one round of the requests that are due (rate-limit-tokens, section
//! "Client-to-Attester Request").
//!
//! `sotto_protocol::device::tokens` decides which tokens to request, when, and what to store; this
//! module does the exchange. Requests for the leader's tokens go to one attester, those for the
//! helper's to the other; directly, because attesters know the device anyway. They say nothing
//! about the recipe except what is sealed to the issuer.
//!
//! A device gets one token per recipe and aggregator. So only the attester itself, in a problem document with one
//! of its own types, can make a device give up a token. A status alone proves nothing: proxies in
//! front of an attester send 429 and 400 too.

use rand_core::CryptoRng;
use sotto_protocol::device::tokens::{
    AttesterRequest, Snapshot, Waiting, attester_request, granted, outstanding, plan, renew,
    request, waiting, withheld,
};
use sotto_protocol::device::{Change, DeviceState, DeviceStore, StateError};
use sotto_protocol::token::{AttestError, Attestor, token_request_url};
use sotto_wire::limits::MAX_PROBLEM_DOCUMENT_LEN;
use sotto_wire::token::{
    ENCAPSULATION_KEY_PROBLEM, REQUEST_MEDIA_TYPE, RESPONSE_MEDIA_TYPE, TOKEN_RESPONSE_LEN,
    WITHHELD_PROBLEM, attestation_message, byte_sequence, header,
};
use sotto_wire::{KeyName, Role};
use zeroize::Zeroizing;

use super::ParticipantError;
use crate::problem::is_problem;
use crate::transport::{HttpRequest, Transport, TransportError};

/// An attester is left alone for this round after this many requests in a row without an answer: it
/// is down or busy. A single failure is not enough: one failing origin must not block the tokens of
/// the others. Nor does one attester that is down block those of the other.
const MAX_UNANSWERED: usize = 3;

/// So many answers are stored together: a device writes its whole state each time. Answers that a
/// crash loses are not lost: the attester gives the same ones again.
const STORED_TOGETHER: usize = 64;

/// What a round did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenRound {
    /// Requests that were sent, including resent ones.
    pub asked: usize,
    /// Tokens that arrived.
    pub granted: usize,
    /// Tokens that the attester will not give because this device already got them.
    pub withheld: usize,
    /// Requests that were refused. They are retried in a later round.
    pub refused: usize,
    /// Tokens that are still to come.
    pub waiting: usize,
    /// What failed last, and the operator of the attester, for the person in front of the device.
    pub failure: Option<(KeyName, TokenFailure)>,
}

/// Why a request gave no token. The same bytes are sent again later.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenFailure {
    /// There is no answer.
    #[error("the attester does not answer: {0}")]
    NoAnswer(TransportError),
    /// The attester, the issuer or a proxy cannot answer now.
    #[error("the attester cannot give tokens now (status {0})")]
    NotNow(u16),
    /// It does not accept the attestation.
    #[error(
        "the attester does not accept this device's attestation (status 403): a certificate that it \
         does not know, or that is revoked, or one without a serialNumber, or that belongs to another key"
    )]
    Attestation,
    /// The issuer does not have the recipe's key.
    #[error("the issuer does not have the recipe's token key (status 401)")]
    TokenKey,
    /// It refuses for some other reason.
    #[error(
        "the attester refuses (status {0}); a device that was reset gets no tokens for two windows"
    )]
    Refused(u16),
    /// The answer is not a token.
    #[error("the server at the attester's URL does not return tokens: is the URL right?")]
    NoToken,
}

/// The outcome of one exchange.
enum Answer {
    Granted,
    Withheld,
    /// Not now. With `renew`, nothing was granted for these bytes and never will be: a new request
    /// may succeed.
    Refused {
        renew: bool,
    },
    /// No answer, or none from the attester: the same bytes are sent again later.
    None,
    /// Nothing was sent: the request is no longer waiting.
    NotAsked,
}

/// The state with answers that are not stored yet.
struct Ahead<'a> {
    store: &'a mut dyn DeviceStore,
    state: DeviceState,
    unstored: Vec<Change>,
}

impl<'a> Ahead<'a> {
    fn of(store: &'a mut dyn DeviceStore) -> Self {
        Self { state: store.state().clone(), store, unstored: Vec::new() }
    }

    /// An answer.
    fn add(&mut self, change: Change) -> Result<(), StateError> {
        self.state.apply(change.clone());
        self.unstored.push(change);
        if self.unstored.len() >= STORED_TOGETHER { self.store() } else { Ok(()) }
    }

    /// Makes all answers durable.
    fn store(&mut self) -> Result<(), StateError> {
        match std::mem::take(&mut self.unstored) {
            none if none.is_empty() => Ok(()),
            unstored => self.store.commit(Change::Together(unstored)),
        }
    }
}

/// Requests tokens from the attesters.
pub(super) struct AttesterClient<'a> {
    pub(super) attestor: &'a dyn Attestor,
    pub(super) transport: &'a dyn Transport,
    /// A log that the device has taken ([`sotto_protocol::device::follow`]).
    pub(super) log: Snapshot<'a>,
}

impl AttesterClient<'_> {
    /// Requests the tokens that are due, for every live recipe. Requests without an answer, and
    /// refused ones, are sent again in the next round.
    pub(super) fn fetch(
        &self,
        store: &mut dyn DeviceStore,
        rng: &mut dyn CryptoRng,
    ) -> Result<TokenRound, ParticipantError> {
        if let Some(planned) = plan(store.state(), &self.log, rng)? {
            store.commit(planned)?;
        }
        if let Some(requested) = request(store.state(), &self.log, rng)? {
            store.commit(requested)?;
        }
        let mut ahead = Ahead::of(store);
        let mut round = TokenRound::default();
        let asked = self.ask(&mut ahead, &mut round, rng);
        ahead.store()?;
        asked?;
        round.waiting = outstanding(store.state(), &self.log);
        Ok(round)
    }

    /// Sends the requests that have no answer.
    fn ask(
        &self,
        ahead: &mut Ahead<'_>,
        round: &mut TokenRound,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), ParticipantError> {
        let (mut leader, mut helper) = (0, 0);
        for next in waiting(&ahead.state, &self.log, rng) {
            let unanswered = if next.role == Role::Helper { &mut helper } else { &mut leader };
            if *unanswered == MAX_UNANSWERED {
                continue;
            }
            let mut answer = self.exchange(ahead, &next, round, rng)?;
            // Only if the issuer has newer keys.
            if matches!(answer, Answer::Refused { renew: true })
                && let Some(renewed) = renew(&ahead.state, &self.log, &next, rng)
            {
                // A request is durable before its first byte is sent.
                ahead.add(renewed)?;
                ahead.store()?;
                answer = self.exchange(ahead, &next, round, rng)?;
            }
            match answer {
                Answer::Granted => round.granted += 1,
                Answer::Withheld => round.withheld += 1,
                Answer::Refused { .. } => round.refused += 1,
                Answer::None => {
                    *unanswered += 1;
                    continue;
                }
                Answer::NotAsked => continue,
            }
            *unanswered = 0;
        }
        Ok(())
    }

    /// Sends one request and takes its answer.
    fn exchange(
        &self,
        ahead: &mut Ahead<'_>,
        next: &Waiting,
        round: &mut TokenRound,
        rng: &mut dyn CryptoRng,
    ) -> Result<Answer, ParticipantError> {
        let Some(request) = attester_request(&ahead.state, &self.log, next) else {
            return Ok(Answer::NotAsked);
        };
        let attester = request.attester.operator.clone();
        let request = self.http_request(&request)?;
        round.asked += 1;
        let response = match self.transport.send(&request) {
            Ok(response) => response,
            Err(error) => {
                round.failure = Some((attester, TokenFailure::NoAnswer(error)));
                return Ok(Answer::None);
            }
        };
        let (failure, answer) = match response.status {
            200 if response.is_media_type(RESPONSE_MEDIA_TYPE) => {
                if let Ok(change) = granted(&ahead.state, &self.log, next, &response.body, rng) {
                    ahead.add(change)?;
                    return Ok(Answer::Granted);
                }
                // Somebody on the path may have changed it: the same request is sent again.
                (TokenFailure::NoToken, Answer::Refused { renew: false })
            }
            429 if is_problem(&response, WITHHELD_PROBLEM) => {
                ahead.add(withheld(next))?;
                return Ok(Answer::Withheld);
            }
            // Overload, or a rate limiter or a fault on the path.
            status @ (429 | 500..=599) => (TokenFailure::NotNow(status), Answer::None),
            status => {
                let failure = match status {
                    401 => TokenFailure::TokenKey,
                    403 => TokenFailure::Attestation,
                    200 | 404 | 405 | 415 => TokenFailure::NoToken,
                    _ => TokenFailure::Refused(status),
                };
                let renew = status == 400 && is_problem(&response, ENCAPSULATION_KEY_PROBLEM);
                (failure, Answer::Refused { renew })
            }
        };
        round.failure = Some((attester, failure));
        Ok(answer)
    }

    fn http_request<'r>(
        &self,
        request: &AttesterRequest<'r>,
    ) -> Result<HttpRequest<'r>, AttestError> {
        let AttesterRequest { attester, issuer, client_key, attempt } = request;
        let message = attestation_message(
            &attester.operator,
            issuer,
            client_key,
            &attempt.client_alias,
            &attempt.request_blind,
            &attempt.request,
        );
        let evidence = Zeroizing::new(self.attestor.attest(&message)?);
        let field = |bytes: &[u8]| Zeroizing::new(byte_sequence(bytes));
        let url = token_request_url(&attester.url, issuer);
        let limit = MAX_PROBLEM_DOCUMENT_LEN.max(TOKEN_RESPONSE_LEN);
        let mut request = HttpRequest::post(url, REQUEST_MEDIA_TYPE, &attempt.request, limit);
        request.headers.extend([
            (header::ORIGIN_ALIAS, field(&attempt.client_alias)),
            (header::CLIENT, field(client_key)),
            (header::REQUEST_BLIND, field(&attempt.request_blind)),
            (header::ATTESTATION, field(&evidence)),
        ]);
        Ok(request)
    }
}
