//! Issuing a token: the issuer's signature alone, its whole step, and the two steps each of
//! attester and device.
//!
//! The issuer's step decodes, checks the request key, verifies the request's signature, opens the
//! inner request, signs, blinds the request key and seals the answer. The peer only signs. Both
//! check the result of the private operation.

use std::hint::black_box;

use anyhow::Result;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto_crypto::blind_rsa::blind;
use sotto_protocol::attester::{consume_issuer_answer, consume_token_request};

use super::parties::{BATCH, Parties};
use crate::turns::least;

/// Microseconds per token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issuance {
    /// The private operation, checked.
    pub(super) sign_us: f64,
    /// The issuer's whole step.
    pub(super) issuer_us: f64,
    /// The peer's private operation.
    pub(super) peer_sign_us: f64,
    /// The attester's checks of a request.
    pub(super) attester_request_us: f64,
    /// The attester's work on the issuer's answer.
    pub(super) attester_answer_us: f64,
    /// The device makes a request.
    pub(super) device_request_us: f64,
    /// The device makes the token from the answer and verifies it.
    pub(super) device_answer_us: f64,
}

pub(super) fn measure(parties: &Parties, times: usize) -> Result<Issuance> {
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let blinded = (0..BATCH as u8)
        .map(|index| Ok(blind(parties.key.token_key(), &[index; 98], &mut rng)?.0))
        .collect::<Result<Vec<_>>>()?;
    let (asks, ids, answered) = (parties.asks(), parties.key_ids(), parties.answered()?);
    let mut sign = || -> Result<()> {
        for blinded in &blinded {
            black_box(parties.key.blind_sign(blinded)?);
        }
        Ok(())
    };
    let mut issuer = || -> Result<()> {
        for ask in &asks {
            black_box(parties.issue(ask.body)?);
        }
        Ok(())
    };
    let mut peer = || -> Result<()> {
        for blinded in &blinded {
            black_box(parties.peer.sk.blind_sign(blinded)?);
        }
        Ok(())
    };
    let mut request = || -> Result<()> {
        for ask in &asks {
            black_box(consume_token_request(ask, &ids)?);
        }
        Ok(())
    };
    let mut answer = || -> Result<()> {
        for (forwarded, answer) in &answered {
            black_box(consume_issuer_answer(forwarded, answer)?);
        }
        Ok(())
    };
    let mut device_request = || -> Result<()> {
        for index in 0..BATCH as u8 {
            black_box(parties.ask(&[index; 32], &mut rng)?);
        }
        Ok(())
    };
    let mut device_answer = || -> Result<()> {
        black_box(parties.finish(&answered)?);
        Ok(())
    };
    let seconds = least(
        times,
        [
            &mut sign,
            &mut issuer,
            &mut peer,
            &mut request,
            &mut answer,
            &mut device_request,
            &mut device_answer,
        ],
    )?;
    let [
        sign_us,
        issuer_us,
        peer_sign_us,
        attester_request_us,
        attester_answer_us,
        device_request_us,
        device_answer_us,
    ] = seconds.map(|s| s * 1e6 / BATCH as f64);
    Ok(Issuance {
        sign_us,
        issuer_us,
        peer_sign_us,
        attester_request_us,
        attester_answer_us,
        device_request_us,
        device_answer_us,
    })
}
