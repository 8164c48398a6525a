//! Tokens from the attester: one round of the requests that are due (rate-limit-tokens, section
//! "Client-to-Attester Request").
//!
//! `sotto_protocol::device::tokens` decides which tokens to request, when, and what to store; this
//! module does the exchange. Requests go directly to the attester, which knows the device anyway.
//! They say nothing about the recipe except what is sealed to the issuer.
//!
//! A device gets one token per recipe. So only the attester itself, in a problem document with one
//! of its own types, can make a device give up a token. A status alone proves nothing: proxies in
//! front of an attester send 429 and 400 too.

use rand_core::CryptoRng;
use sotto_protocol::Moment;
use sotto_protocol::admission::Silence;
use sotto_protocol::device::tokens::{
    Live, TokenAsk, Waiting, ask, granted, plan, renew, to_come, token_ask, waiting, withheld,
};
use sotto_protocol::device::{DeviceStore, StateError};
use sotto_protocol::token::{AttestError, Attestor, token_request_url};
use sotto_protocol::trust::{Attester, Trust};
use sotto_wire::limits::MAX_PROBLEM_DOCUMENT_LEN;
use sotto_wire::token::{
    ENCAPSULATION_KEY_PROBLEM, REQUEST_MEDIA_TYPE, RESPONSE_MEDIA_TYPE, TOKEN_RESPONSE_LEN,
    WITHHELD_PROBLEM, attestation_message, byte_sequence, header,
};
use zeroize::Zeroizing;

use crate::problem::is_problem;
use crate::transport::{HttpRequest, Method, Transport, TransportError};

/// A round ends after this many requests in a row without an answer: the attester is down or busy.
/// A single failure does not end it: one failing origin must not block the tokens of the others.
const MAX_UNANSWERED: usize = 3;

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
    /// What failed last, for the person in front of the device.
    pub failure: Option<TokenFailure>,
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

/// Why a round ended early. Nothing is lost: committed changes stay, and the next round continues.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokensError {
    /// The log cannot be believed.
    #[error(transparent)]
    Silence(#[from] Silence),
    /// The state could not be stored.
    #[error(transparent)]
    State(#[from] StateError),
    /// The device cannot attest.
    #[error(transparent)]
    Attest(#[from] AttestError),
}

/// The outcome of one exchange. It is already committed.
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

/// Requests tokens from the attester.
pub(super) struct AttesterClient<'a> {
    attester: &'a Attester,
    attestor: &'a dyn Attestor,
    transport: &'a dyn Transport,
    trust: &'a Trust,
    now: Moment,
}

impl<'a> AttesterClient<'a> {
    pub(super) fn new(
        attester: &'a Attester,
        attestor: &'a dyn Attestor,
        transport: &'a dyn Transport,
        trust: &'a Trust,
        now: Moment,
    ) -> Self {
        Self { attester, attestor, transport, trust, now }
    }

    /// Requests the tokens that are due, for every live recipe of a log that the device has taken
    /// ([`sotto_protocol::device::follow`]). Requests without an answer, and refused ones, are sent
    /// again in the next round.
    pub(super) fn fetch(
        &self,
        store: &mut dyn DeviceStore,
        live: &Live<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<TokenRound, TokensError> {
        let (trust, now) = (self.trust, self.now);
        if let Some(planned) = plan(store.state(), live, trust, now, rng)? {
            store.commit(planned)?;
        }
        if let Some(requested) = ask(store.state(), live, trust, now, rng)? {
            store.commit(requested)?;
        }
        let mut round = TokenRound::default();
        let mut unanswered = 0;
        for next in waiting(store.state(), live, now, rng) {
            let mut answer = self.exchange(store, live, &next, &mut round, rng)?;
            // Only if the issuer has newer keys.
            if matches!(answer, Answer::Refused { renew: true })
                && let Some(renewed) = renew(store.state(), live, trust, &next, now, rng)
            {
                store.commit(renewed)?;
                answer = self.exchange(store, live, &next, &mut round, rng)?;
            }
            match answer {
                Answer::Granted => round.granted += 1,
                Answer::Withheld => round.withheld += 1,
                Answer::Refused { .. } => round.refused += 1,
                Answer::None => {
                    unanswered += 1;
                    if unanswered == MAX_UNANSWERED {
                        break;
                    }
                    continue;
                }
                Answer::NotAsked => continue,
            }
            unanswered = 0;
        }
        round.waiting = to_come(store.state(), live, now);
        Ok(round)
    }

    /// Sends one request and commits the outcome.
    fn exchange(
        &self,
        store: &mut dyn DeviceStore,
        live: &Live<'_>,
        next: &Waiting,
        round: &mut TokenRound,
        rng: &mut dyn CryptoRng,
    ) -> Result<Answer, TokensError> {
        let Some(ask) = token_ask(store.state(), live, next) else { return Ok(Answer::NotAsked) };
        let request = self.request(&ask)?;
        round.asked += 1;
        let response = match self.transport.send(&request) {
            Ok(response) => response,
            Err(error) => {
                round.failure = Some(TokenFailure::NoAnswer(error));
                return Ok(Answer::None);
            }
        };
        let status = response.status;
        let (change, answer) = match response.status {
            200 if response.is_media_type(RESPONSE_MEDIA_TYPE) => {
                // Somebody on the path may have changed it: the same request is sent again.
                let (state, given) = (store.state(), (next, response.body.as_slice()));
                match granted(state, live, self.trust, given, self.now, rng) {
                    Err(_) => {
                        round.failure = Some(TokenFailure::NoToken);
                        return Ok(Answer::Refused { renew: false });
                    }
                    Ok(change) => (change, Answer::Granted),
                }
            }
            429 if is_problem(&response, WITHHELD_PROBLEM) => (withheld(next), Answer::Withheld),
            // Overload, or a rate limiter or a fault on the path.
            429 | 500..=599 => {
                round.failure = Some(TokenFailure::NotNow(status));
                return Ok(Answer::None);
            }
            _ => {
                round.failure = Some(match status {
                    401 => TokenFailure::TokenKey,
                    403 => TokenFailure::Attestation,
                    200 | 404 | 405 | 415 => TokenFailure::NoToken,
                    _ => TokenFailure::Refused(status),
                });
                let renew = status == 400 && is_problem(&response, ENCAPSULATION_KEY_PROBLEM);
                return Ok(Answer::Refused { renew });
            }
        };
        store.commit(change)?;
        Ok(answer)
    }

    fn request<'r>(&self, ask: &TokenAsk<'r>) -> Result<HttpRequest<'r>, TokensError> {
        let attempt = ask.attempt;
        let message = attestation_message(
            &self.attester.operator,
            ask.issuer,
            &ask.client_key,
            &attempt.client_alias,
            &attempt.request_blind,
            &attempt.request,
        );
        let evidence = Zeroizing::new(self.attestor.attest(&message)?);
        let field = |bytes: &[u8]| Zeroizing::new(byte_sequence(bytes));
        Ok(HttpRequest {
            method: Method::Post,
            url: token_request_url(&self.attester.url, ask.issuer),
            headers: vec![
                ("content-type", Zeroizing::new(REQUEST_MEDIA_TYPE.to_owned())),
                (header::ORIGIN_ALIAS, field(&attempt.client_alias)),
                (header::CLIENT, field(&ask.client_key)),
                (header::REQUEST_BLIND, field(&attempt.request_blind)),
                (header::ATTESTATION, field(&evidence)),
            ],
            body: &attempt.request,
            response_limit: MAX_PROBLEM_DOCUMENT_LEN.max(TOKEN_RESPONSE_LEN),
        })
    }
}
