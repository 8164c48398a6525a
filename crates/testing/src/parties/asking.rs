//! A device that requests tokens, honestly or not.

use rand_chacha::ChaCha20Rng;
use rand_core::Rng;
use sotto_crypto::blind_rsa::{TokenKey, Unblinder, blind};
use sotto_crypto::key_blinding::ClientSecret;
use sotto_crypto::rate_limited::{CLIENT_CONTEXT, ResponseSecret, seal_inner_request};
use sotto_wire::token::{
    EncapsulationKey, InnerTokenRequest, ShortOpaque, TOKEN_TYPE, TokenRequest, token_input,
};
use sotto_wire::{Encode, HpkeConfig};

/// A request, and what its device stores.
pub struct Asked {
    pub body: Vec<u8>,
    pub request_blind: [u8; 32],
    pub input: [u8; 98],
    pub unblinder: Unblinder,
    pub response: ResponseSecret,
}

/// An honest request.
pub fn ask(
    client: &ClientSecret,
    key: &TokenKey,
    config: &HpkeConfig,
    rng: &mut ChaCha20Rng,
) -> Asked {
    ask_for(client, key, &key.origin_name(), config, rng)
}

/// The same for another origin of the key: a participation.
pub fn ask_for(
    client: &ClientSecret,
    key: &TokenKey,
    origin: &str,
    config: &HpkeConfig,
    rng: &mut ChaCha20Rng,
) -> Asked {
    let mut nonce = [0; 32];
    rng.fill_bytes(&mut nonce);
    let input = token_input(TOKEN_TYPE, &nonce, &[9; 32], key.id());
    let (blinded_msg, unblinder) = blind(key, &input, rng).unwrap();
    let inner = InnerTokenRequest {
        token_key_id: key.truncated_id(),
        blinded_msg,
        padded_origin_name: InnerTokenRequest::pad_origin_name(origin).unwrap(),
    };
    let (body, request_blind, response) = seal(client, &inner, config, rng);
    Asked { body, request_blind, input, unblinder, response }
}

/// A request with arbitrary contents, correctly sealed and signed.
pub fn seal(
    client: &ClientSecret,
    inner: &InnerTokenRequest,
    config: &HpkeConfig,
    rng: &mut ChaCha20Rng,
) -> (Vec<u8>, [u8; 32], ResponseSecret) {
    let mut request_blind = [0; 32];
    rng.fill_bytes(&mut request_blind);
    let request_key = *client.public_key().blind(&request_blind, CLIENT_CONTEXT).as_bytes();
    let (sealed, response) = seal_inner_request(config, &request_key, inner, rng).unwrap();
    let mut request = TokenRequest {
        token_type: TOKEN_TYPE,
        request_key,
        issuer_encap_key_id: EncapsulationKey::from(config).id(),
        encrypted_token_request: ShortOpaque::new(sealed).unwrap(),
        request_signature: [0; 64],
    };
    request.request_signature =
        client.sign_blinded(&request_blind, CLIENT_CONTEXT, &request.signed_message());
    (request.to_bytes(), request_blind, response)
}
