//! Client keys with a component of small order: unblinding does not remove it, so one key would
//! have eight aliases for one origin (`docs/decisions` has the finding). Everything else about
//! these requests is correct, including the signatures.

use curve25519_dalek::constants::EIGHT_TORSION;
use curve25519_dalek::edwards::EdwardsPoint;
use curve25519_dalek::scalar::Scalar;
use rand_chacha::ChaCha20Rng;
use rand_core::Rng;
use sha2::{Digest, Sha512};
use sotto_crypto::rate_limited::CLIENT_CONTEXT;

use crate::tokens::rogue::{Asking, Wish};

/// A secret whose public key is outside the subgroup of prime order.
pub(crate) struct TorsionedKey {
    secret: Scalar,
    public: EdwardsPoint,
}

impl TorsionedKey {
    pub(crate) fn new(rng: &mut ChaCha20Rng) -> Self {
        let secret = random_scalar(rng);
        Self { secret, public: EdwardsPoint::mul_base(&secret) + EIGHT_TORSION[1] }
    }

    /// A request whose blind comparison and signature pass, as section "Key Blinding" computes
    /// them.
    pub(crate) fn request(&self, wish: Wish, rng: &mut ChaCha20Rng) -> Asking {
        let (blind, factor) = loop {
            let mut blind = [0; 32];
            rng.fill_bytes(&mut blind);
            let hash = Sha512::new().chain_update(blind).chain_update([0]);
            let hash: [u8; 64] = hash.chain_update(CLIENT_CONTEXT).finalize().into();
            let mut low = [0; 32];
            low.copy_from_slice(&hash[..32]);
            let factor = Scalar::from_bytes_mod_order(low);
            // An even factor would remove a part of the small component.
            if factor.as_bytes()[0] & 1 == 1 {
                break (blind, factor);
            }
        };
        let request_key = self.public * factor;
        let keys = (self.public.compress().to_bytes(), request_key.compress().to_bytes(), blind);
        let mut nonces = rng.clone();
        Asking::signed(wish, keys, rng, |message| {
            sign(self.secret * factor, &request_key, message, &mut nonces)
        })
    }
}

/// Signs until the small component cancels in the verification equation, which one try in eight
/// does.
fn sign(secret: Scalar, key: &EdwardsPoint, message: &[u8], rng: &mut ChaCha20Rng) -> [u8; 64] {
    loop {
        let nonce = random_scalar(rng);
        let commitment = EdwardsPoint::mul_base(&nonce);
        let mut hash = Sha512::new();
        hash.update(commitment.compress().as_bytes());
        hash.update(key.compress().as_bytes());
        hash.update(message);
        let challenge = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
        let response = nonce + challenge * secret;
        // RFC 8032 without the cofactor.
        if EdwardsPoint::mul_base(&response) == commitment + key * challenge {
            let mut signature = [0; 64];
            signature[..32].copy_from_slice(commitment.compress().as_bytes());
            signature[32..].copy_from_slice(response.as_bytes());
            return signature;
        }
    }
}

fn random_scalar(rng: &mut ChaCha20Rng) -> Scalar {
    let mut bytes = [0; 64];
    rng.fill_bytes(&mut bytes);
    Scalar::from_bytes_mod_order_wide(&bytes)
}
