//! The intermediate values of HPKE, which no library exposes (RFC 9180 §4 and §5.1, base mode,
//! DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM).

use curve25519_dalek::montgomery::MontgomeryPoint;
use hkdf::Hkdf;
use sha2::Sha256;

const KEM_SUITE: &[u8] = b"KEM\x00\x20";
const HPKE_SUITE: &[u8] = b"HPKE\x00\x20\x00\x01\x00\x01";

/// A sender's side of one context.
pub(super) struct Sender {
    pub(super) ephemeral_sk: [u8; 32],
    pub(super) enc: [u8; 32],
    pub(super) shared_secret: [u8; 32],
    pub(super) key: [u8; 16],
    pub(super) base_nonce: [u8; 12],
    pub(super) exporter_secret: [u8; 32],
}

impl Sender {
    /// `SetupBaseS` with an ephemeral key that is derived from `ikm`.
    pub(super) fn new(ikm: &[u8; 32], receiver: &[u8; 32], info: &[u8]) -> Self {
        let ephemeral_sk = derive_private_key(ikm);
        let enc = public_key(&ephemeral_sk);
        let dh = MontgomeryPoint(*receiver).mul_clamped(ephemeral_sk);
        let eae_prk = extract(KEM_SUITE, b"", "eae_prk", dh.as_bytes());
        let kem_context = [enc, *receiver].concat();
        let shared_secret = expand(KEM_SUITE, &eae_prk, "shared_secret", &kem_context);

        let psk_id_hash = extract(HPKE_SUITE, b"", "psk_id_hash", b"");
        let info_hash = extract(HPKE_SUITE, b"", "info_hash", info);
        let context = [&[0][..], &psk_id_hash, &info_hash].concat();
        let secret = extract(HPKE_SUITE, &shared_secret, "secret", b"");
        Self {
            ephemeral_sk,
            enc,
            shared_secret,
            key: expand(HPKE_SUITE, &secret, "key", &context),
            base_nonce: expand(HPKE_SUITE, &secret, "base_nonce", &context),
            exporter_secret: expand(HPKE_SUITE, &secret, "exp", &context),
        }
    }

    /// `Context.Export` of 16 bytes.
    pub(super) fn export(&self, exporter_context: &[u8]) -> [u8; 16] {
        expand(HPKE_SUITE, &self.exporter_secret, "sec", exporter_context)
    }
}

/// The keys of the answer, from the exported secret.
pub(super) struct Response {
    pub(super) salt: Vec<u8>,
    pub(super) prk: [u8; 32],
    pub(super) key: [u8; 16],
    pub(super) nonce: [u8; 12],
}

impl Response {
    pub(super) fn new(enc: &[u8; 32], response_nonce: &[u8; 16], secret: &[u8; 16]) -> Self {
        let salt = [&enc[..], response_nonce].concat();
        let (prk, hkdf) = Hkdf::<Sha256>::extract(Some(&salt), secret);
        Self { prk: prk.into(), key: filled(&hkdf, b"key"), nonce: filled(&hkdf, b"nonce"), salt }
    }
}

/// `DeriveKeyPair`, before X25519 clamps the key.
pub(super) fn derive_private_key(ikm: &[u8]) -> [u8; 32] {
    let prk = extract(KEM_SUITE, b"", "dkp_prk", ikm);
    expand(KEM_SUITE, &prk, "sk", b"")
}

pub(super) fn public_key(private_key: &[u8; 32]) -> [u8; 32] {
    MontgomeryPoint::mul_base_clamped(*private_key).to_bytes()
}

/// `LabeledExtract`.
fn extract(suite: &[u8], salt: &[u8], label: &str, ikm: &[u8]) -> [u8; 32] {
    let labeled = [b"HPKE-v1", suite, label.as_bytes(), ikm].concat();
    Hkdf::<Sha256>::extract(Some(salt), &labeled).0.into()
}

/// `LabeledExpand`.
fn expand<const N: usize>(suite: &[u8], prk: &[u8; 32], label: &str, info: &[u8]) -> [u8; N] {
    let len = (N as u16).to_be_bytes();
    let labeled = [&len[..], b"HPKE-v1", suite, label.as_bytes(), info].concat();
    #[allow(clippy::expect_used)] // It refuses only keys that are shorter than the hash.
    let hkdf = Hkdf::<Sha256>::from_prk(prk).expect("a key as long as the hash");
    filled(&hkdf, &labeled)
}

fn filled<const N: usize>(hkdf: &Hkdf<Sha256>, info: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    #[allow(clippy::expect_used)] // It refuses only outputs above 255 * 32 bytes.
    hkdf.expand(info, &mut out).expect("a short output");
    out
}
