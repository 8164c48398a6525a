//! Rate-limited blind RSA tokens, type 0x0004: an attester and an issuer grant them together, one
//! per device and origin (rate-limit-tokens, sections "Client-to-Attester Request" and
//! "Finalization").

#[cfg(feature = "server")]
use std::sync::Arc;

use rand_core::CryptoRng;
use sotto_crypto::blind_rsa::{self, Unblinder};
use sotto_crypto::key_blinding::ClientSecret;
use sotto_crypto::rate_limited::{
    CLIENT_CONTEXT, ResponseSecret, client_origin_alias, seal_inner_request,
};
use sotto_wire::token::{
    EncapsulationKey, InnerTokenRequest, ShortOpaque, TOKEN_TYPE, Token, TokenRequest, token_input,
};
use sotto_wire::{Encode, HpkeConfig, ReportId};

#[cfg(feature = "server")]
use crate::Moment;

use super::{TokenAttempt, TokenError, TokenTerms};
#[cfg(feature = "server")]
use super::{VerifyToken, verifier::RateLimitedVerifier};

impl TokenTerms {
    /// Makes a request for the token with this nonce.
    pub fn request(
        &self,
        client: &ClientSecret,
        encapsulation: &HpkeConfig,
        nonce: &[u8; 32],
        rng: &mut dyn CryptoRng,
    ) -> Result<TokenAttempt, TokenError> {
        let mut request_blind = [0; 32];
        rng.fill_bytes(&mut request_blind);
        let (blinded_msg, unblinder) = blind_rsa::blind(&self.key, &input(self, nonce), rng)?;
        let request_key = client.public_key().blind(&request_blind, CLIENT_CONTEXT);
        let origin = self.challenge.origin_info();
        let inner = InnerTokenRequest {
            token_key_id: self.key.truncated_id(),
            blinded_msg,
            padded_origin_name: InnerTokenRequest::pad_origin_name(origin)?,
        };
        let (encrypted, response_secret) =
            seal_inner_request(encapsulation, request_key.as_bytes(), &inner, rng)?;
        let mut request = TokenRequest {
            token_type: TOKEN_TYPE,
            request_key: *request_key.as_bytes(),
            issuer_encap_key_id: EncapsulationKey::from(encapsulation).id(),
            encrypted_token_request: ShortOpaque::new(encrypted)?,
            request_signature: [0; 64],
        };
        request.request_signature =
            client.sign_blinded(&request_blind, CLIENT_CONTEXT, &request.signed_message());
        Ok(TokenAttempt {
            request: request.to_bytes(),
            request_blind,
            client_alias: client_origin_alias(client, origin, self.issuer.as_str()),
            unblinder: unblinder.to_bytes().to_vec(),
            response_secret: response_secret.to_bytes().to_vec(),
        })
    }

    /// Opens the answer to the request for the token with this nonce. Returns the encoded token
    /// after checking that it is valid.
    pub fn finish(
        &self,
        nonce: &[u8; 32],
        attempt: &TokenAttempt,
        response: &[u8],
    ) -> Result<Vec<u8>, TokenError> {
        let secret =
            ResponseSecret::from_bytes(&attempt.response_secret).ok_or(TokenError::Attempt)?;
        let unblinder: &[u8; 256] =
            attempt.unblinder.as_slice().try_into().map_err(|_| TokenError::Attempt)?;
        let blind_sig = secret.open(response)?;
        let authenticator = Unblinder::from_bytes(unblinder).finalize(
            &self.key,
            &input(self, nonce),
            &blind_sig,
        )?;
        let token = Token {
            token_type: TOKEN_TYPE,
            nonce: *nonce,
            challenge_digest: self.challenge_digest,
            token_key_id: *self.key.id(),
            authenticator,
        };
        Ok(token.to_bytes())
    }

    /// A verifier for tokens on these terms.
    #[cfg(feature = "server")]
    pub fn verifier(&self) -> Result<Arc<dyn VerifyToken>, TokenError> {
        let expires = Moment(self.expires);
        Ok(Arc::new(RateLimitedVerifier::new(self.challenge_digest, &self.key, expires)?))
    }
}

/// The id of the report that tokens with this nonce are for: the second half of the nonce.
pub fn report_id(nonce: &[u8; 32]) -> ReportId {
    let mut id = [0; ReportId::LEN];
    id.copy_from_slice(&nonce[32 - ReportId::LEN..]);
    ReportId::new(id)
}

/// The message that the issuer signs blindly.
fn input(terms: &TokenTerms, nonce: &[u8; 32]) -> [u8; 98] {
    token_input(TOKEN_TYPE, nonce, &terms.challenge_digest, terms.key.id())
}
