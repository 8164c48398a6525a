//! Valid encodings of the messages of token issuance.

use super::encode;
use crate::x_wing;
use sotto_wire::token::evidence::{AttestationEvidence, InsecureName, X509Evidence};
use sotto_wire::token::{
    EncapsulationKey, InnerTokenRequest, IssuerAnswer, IssuerAnswerBatch, NK, ShortOpaque, Token,
    TokenChallenge, TokenRequest, TokenRequestBatch, byte_sequence,
};
use sotto_wire::{BoundsError, Encode};

/// Valid encodings for the decoder `name`, if it is one of these.
pub(super) fn seeds(name: &str) -> Option<Vec<Vec<u8>>> {
    messages(name).unwrap_or_default()
}

fn messages(name: &str) -> Result<Option<Vec<Vec<u8>>>, BoundsError> {
    Ok(Some(match name {
        "token_challenge" => encode([
            TokenChallenge::new(4, "i", Some([7; 32]), "origin")?,
            TokenChallenge::new(2, "issuer.example", None, "")?,
        ]),
        "token" => encode([Token {
            token_type: 4,
            nonce: [1; 32],
            challenge_digest: [2; 32],
            token_key_id: [3; 32],
            authenticator: [4; NK],
        }]),
        "token_request" => encode([request(1)?, request(40)?]),
        "inner_token_request" => encode([inner("o")?, inner(&"o".repeat(64))?]),
        "encapsulation_key" => encode([
            EncapsulationKey::from(&super::hpke_config(3)?),
            EncapsulationKey::from(&x_wing::config(vec![5; 1216])),
        ]),
        "token_request_batch" => encode([
            TokenRequestBatch::new(vec![ShortOpaque::new(vec![1])?])?,
            TokenRequestBatch::new(vec![
                ShortOpaque::new(request(1)?.to_bytes())?,
                ShortOpaque::new(request(2)?.to_bytes())?,
            ])?,
        ]),
        "issuer_answer_batch" => encode([
            IssuerAnswerBatch::new(vec![IssuerAnswer::Refused { status: 400 }])?,
            IssuerAnswerBatch::new(vec![
                IssuerAnswer::Issued { index_key: [5; 32], limit: 1, response: vec![6; 9] },
                IssuerAnswer::Refused { status: 401 },
                IssuerAnswer::Issued { index_key: [7; 32], limit: 1, response: Vec::new() },
            ])?,
        ]),
        "attestation_evidence" => encode([
            AttestationEvidence::Insecure(InsecureName::new(&b"a"[..])?),
            x509(1)?,
            x509(3)?,
        ]),
        "token_header" => {
            [&b""[..], b"a", &[9; 32]].map(|bytes| byte_sequence(bytes).into_bytes()).to_vec()
        }
        _ => return Ok(None),
    }))
}

fn request(len: usize) -> Result<TokenRequest<'static>, BoundsError> {
    Ok(TokenRequest {
        token_type: 4,
        request_key: [1; 32],
        issuer_encap_key_id: [2; 32],
        encrypted_token_request: ShortOpaque::new(vec![3; len])?,
        request_signature: [4; 64],
    })
}

fn inner(name: &str) -> Result<InnerTokenRequest, BoundsError> {
    Ok(InnerTokenRequest {
        token_key_id: 1,
        blinded_msg: [2; NK],
        padded_origin_name: InnerTokenRequest::pad_origin_name(name)?,
    })
}

fn x509(certificates: usize) -> Result<AttestationEvidence<'static>, BoundsError> {
    let chain = vec![vec![1; 9].into(); certificates];
    Ok(AttestationEvidence::X509(X509Evidence::new(chain, 0x0807, vec![2; 8].into())?))
}
