//! HPKE for servers: RFC 9180 base mode over the primitives of AWS-LC.
//!
//! An [`Opener`] keeps the parsed private key and the public key, so that opening one share costs
//! one X25519 operation (and one of ML-KEM-768, if the key is hybrid), a few HMACs and one AES-GCM
//! pass from the received buffer into the plaintext. [`Opener::setup_receiver`] returns the
//! multi-message context, with `export` (RFC 9180 §5.3).
//!
//! Agrees byte for byte with [`crate::hpke`]: the same ciphertext for the same randomness, and the
//! same messages rejected.

mod key_schedule;
#[cfg(test)]
mod tests;
mod x_wing;

use std::fmt;

use aws_lc_rs::{aead, agreement};
use rand_core::CryptoRng;
use sotto_wire::{HpkeCiphertext, HpkeConfig};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::hpke::{Suite, check, ciphertext};
use crate::{HpkeError, HpkeKeypair, hpke};
use key_schedule::{Exporter, KeySchedule};
use x_wing::DecapsulationKey;

/// The length of an X25519 public key, and therefore of `enc` (RFC 9180 §7.1, Npk and Nenc).
const PUBLIC_KEY_LEN: usize = 32;

/// The length of AES-GCM's tag.
const TAG_LEN: usize = 16;

/// A receiver's private key, parsed once and shared by all threads.
#[derive(Debug)]
pub struct Opener {
    config: HpkeConfig,
    private_key: PrivateKey,
}

#[derive(Debug)]
enum PrivateKey {
    X25519(X25519Key),
    Hybrid(DecapsulationKey),
}

/// An X25519 private key, and its public key.
#[derive(Debug)]
struct X25519Key {
    private: agreement::PrivateKey,
    public: [u8; PUBLIC_KEY_LEN],
}

impl Opener {
    /// Parses `keypair`.
    pub fn new(keypair: &HpkeKeypair) -> Result<Self, HpkeError> {
        let (config, seed) = (keypair.config(), keypair.private_key().expose());
        let (private_key, public_key) = match check(config, b"")? {
            Suite::X25519 => {
                let key = X25519Key::parse(seed)?;
                let public_key = key.public.to_vec();
                (PrivateKey::X25519(key), public_key)
            }
            Suite::Hybrid => {
                let (key, public_key) = DecapsulationKey::expand(seed)?;
                (PrivateKey::Hybrid(key), public_key)
            }
        };
        if public_key != config.public_key() {
            return Err(HpkeError::InvalidKey);
        }
        Ok(Self { config: config.clone(), private_key })
    }

    /// The length of a key that is encapsulated to this one.
    pub fn enc_len(&self) -> usize {
        match &self.private_key {
            PrivateKey::X25519(_) => PUBLIC_KEY_LEN,
            PrivateKey::Hybrid(_) => x_wing::ENC_LEN,
        }
    }

    /// The public half, in its published form.
    pub fn config(&self) -> &HpkeConfig {
        &self.config
    }

    /// `OpenBase` (RFC 9180 §6.1): opens a ciphertext that was sealed to this key.
    pub fn open(
        &self,
        info: &[u8],
        aad: &[u8],
        ct: &HpkeCiphertext<'_>,
    ) -> Result<Zeroizing<Vec<u8>>, HpkeError> {
        if ct.config_id() != self.config.id() {
            return Err(HpkeError::WrongConfigId);
        }
        let schedule = self.decapsulate(ct.enc(), info)?;
        open_payload(&schedule.aead_key()?, schedule.base_nonce()?, aad, ct.payload())
    }

    /// `SetupBaseR` (RFC 9180 §5.1.1): the context for several messages, and for exports.
    pub fn setup_receiver(&self, enc: &[u8], info: &[u8]) -> Result<Receiver, HpkeError> {
        let schedule = self.decapsulate(enc, info)?;
        Ok(Receiver {
            key: schedule.aead_key()?,
            base_nonce: schedule.base_nonce()?,
            exporter: schedule.exporter()?,
            sequence: 0,
        })
    }

    /// `Decap` (RFC 9180 §4.1) and the start of the key schedule.
    fn decapsulate(&self, enc: &[u8], info: &[u8]) -> Result<KeySchedule, HpkeError> {
        check(&self.config, info)?;
        match &self.private_key {
            PrivateKey::X25519(key) => {
                let enc: &[u8; PUBLIC_KEY_LEN] = enc.try_into().map_err(|_| HpkeError::Decrypt)?;
                let shared_secret = key.agree(enc, HpkeError::Decrypt, |dh| {
                    key_schedule::extract_and_expand(dh, enc, &key.public)
                })?;
                KeySchedule::new(&key_schedule::X25519, &shared_secret, info)
            }
            PrivateKey::Hybrid(key) => {
                KeySchedule::new(&key_schedule::HYBRID, &key.decapsulate(enc)?, info)
            }
        }
    }
}

/// A receiver's context (RFC 9180 §5.2): messages are opened in the order in which they were
/// sealed.
pub struct Receiver {
    key: aead::LessSafeKey,
    base_nonce: [u8; aead::NONCE_LEN],
    exporter: Exporter,
    sequence: u64,
}

impl Receiver {
    /// `Context.Open`: opens the next message. After a failure, the message may be retried.
    pub fn open(&mut self, aad: &[u8], payload: &[u8]) -> Result<Zeroizing<Vec<u8>>, HpkeError> {
        let next = self.sequence.checked_add(1).ok_or(HpkeError::Decrypt)?;
        let nonce = nonce_at(self.base_nonce, self.sequence);
        let plaintext = open_payload(&self.key, nonce, aad, payload)?;
        self.sequence = next;
        Ok(plaintext)
    }

    /// `Context.Export`: `len` bytes that only the two ends of this context know.
    pub fn export(
        &self,
        exporter_context: &[u8],
        len: usize,
    ) -> Result<Zeroizing<Vec<u8>>, HpkeError> {
        if len > MAX_EXPORT_LEN {
            return Err(HpkeError::ExportTooLong);
        }
        let mut out = Zeroizing::new(vec![0; len]);
        self.exporter.export(exporter_context, &mut out)?;
        Ok(out)
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

/// The most that HKDF-SHA256 can expand to (RFC 5869 §2.3).
pub const MAX_EXPORT_LEN: usize = 255 * 32;

/// `SealBase` (RFC 9180 §6.1): seals `plaintext` to the holder of `config`'s private key.
///
/// Takes 32 bytes of `rng` for the ephemeral key, 64 for a hybrid one. They must never be reused.
pub fn seal(
    config: &HpkeConfig,
    info: &[u8],
    aad: &[u8],
    plaintext: &[u8],
    rng: &mut dyn CryptoRng,
) -> Result<HpkeCiphertext<'static>, HpkeError> {
    if check(config, info)? == Suite::Hybrid {
        // `aws-lc-rs` does not take the randomness of an encapsulation as an argument. A server
        // seals only the shares of a result.
        return hpke::seal(config, info, aad, plaintext, rng);
    }
    let mut ikm = Zeroizing::new([0; 32]);
    rng.fill_bytes(ikm.as_mut_slice());
    let ephemeral = X25519Key::parse(&*key_schedule::derive_private_key(&ikm)?)?;
    let (public_key, enc): (&[u8; PUBLIC_KEY_LEN], _) =
        (config.public_key().try_into().map_err(|_| HpkeError::InvalidKey)?, &ephemeral.public);
    let shared_secret = ephemeral.agree(public_key, HpkeError::InvalidKey, |dh| {
        key_schedule::extract_and_expand(dh, enc, public_key)
    })?;
    let schedule = KeySchedule::new(&key_schedule::X25519, &shared_secret, info)?;

    let mut payload = vec![0; plaintext.len() + TAG_LEN];
    let (body, tag) = payload.split_at_mut(plaintext.len());
    schedule
        .aead_key()?
        .seal_out_of_place_scatter(
            aead::Nonce::assume_unique_for_key(schedule.base_nonce()?),
            aead::Aad::from(aad),
            plaintext,
            body,
            &[],
            tag,
        )
        .map_err(|_| HpkeError::Encrypt)?;
    ciphertext(config, enc, payload)
}

impl X25519Key {
    /// Parses a private key and computes its public key.
    fn parse(bytes: &[u8; 32]) -> Result<Self, HpkeError> {
        let private = agreement::PrivateKey::from_private_key(&agreement::X25519, bytes)
            .map_err(|_| HpkeError::InvalidKey)?;
        let public = private.compute_public_key().map_err(|_| HpkeError::InvalidKey)?;
        let public = public.as_ref().try_into().map_err(|_| HpkeError::InvalidKey)?;
        Ok(Self { private, public })
    }

    /// X25519, followed by `derive` over the shared value.
    ///
    /// A peer that sends a point of low order forces the all-zero value, whatever our key is: RFC
    /// 9180 §7.1.4 requires this check. AWS-LC makes it too, but we do not rely on that.
    fn agree<T>(
        &self,
        peer: &[u8; PUBLIC_KEY_LEN],
        error: HpkeError,
        derive: impl FnOnce(&[u8]) -> Result<T, HpkeError>,
    ) -> Result<T, HpkeError> {
        let peer = agreement::UnparsedPublicKey::new(&agreement::X25519, peer);
        agreement::agree(&self.private, peer, error, |dh| {
            if dh.ct_eq(&[0; 32]).into() {
                return Err(error);
            }
            derive(dh)
        })
    }
}

/// Decrypts directly from the received buffer into the plaintext.
fn open_payload(
    key: &aead::LessSafeKey,
    nonce: [u8; aead::NONCE_LEN],
    aad: &[u8],
    payload: &[u8],
) -> Result<Zeroizing<Vec<u8>>, HpkeError> {
    let body_len = payload.len().checked_sub(TAG_LEN).ok_or(HpkeError::Decrypt)?;
    let (body, tag) = payload.split_at(body_len);
    let mut plaintext = Zeroizing::new(vec![0; body_len]);
    key.open_separate_gather(
        aead::Nonce::assume_unique_for_key(nonce),
        aead::Aad::from(aad),
        body,
        tag,
        &mut plaintext,
    )
    .map_err(|_| HpkeError::Decrypt)?;
    Ok(plaintext)
}

/// `ComputeNonce` (RFC 9180 §5.2): the base nonce XOR the big-endian sequence number.
fn nonce_at(base_nonce: [u8; aead::NONCE_LEN], sequence: u64) -> [u8; aead::NONCE_LEN] {
    let mut nonce = base_nonce;
    let low = nonce.iter_mut().skip(aead::NONCE_LEN - 8);
    low.zip(sequence.to_be_bytes()).for_each(|(byte, mask)| *byte ^= mask);
    nonce
}
