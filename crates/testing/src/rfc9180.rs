//! RFC 9180 Appendix A.1.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, base mode.

// Tests fail by panicking, and so do their helpers. The constants have the names of the RFC.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::convert::Infallible;

use rand_core::{TryCryptoRng, TryRng};
use sotto_wire::{HpkeAeadId, HpkeCiphertext, HpkeConfig, HpkeConfigId, HpkeKdfId, HpkeKemId};

pub const INFO: &str = "4f6465206f6e2061204772656369616e2055726e";
pub const IKM_E: &str = "7268600d403fce431561aef583ee1613527cff655c1343f29812e66706df3234";
pub const SK_E: &str = "52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736";
pub const IKM_R: &str = "6db9df30aa07dd42ee5e8181afdb977e538f5e1fec8a06223f33f7013e525037";
pub const PK_R: &str = "3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d";
pub const SK_R: &str = "4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8";
pub const ENC: &str = "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431";
pub const PLAINTEXT: &str = "4265617574792069732074727574682c20747275746820626561757479";

/// Sequence number and ciphertext; the associated data is "Count-" and the number.
pub const CIPHERTEXTS: [(u64, &str); 6] = [
    (
        0,
        "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a",
    ),
    (
        1,
        "af2d7e9ac9ae7e270f46ba1f975be53c09f8d875bdc8535458c2494e8a6eab251c03d0c22a56b8ca42c2063b84",
    ),
    (
        2,
        "498dfcabd92e8acedc281e85af1cb4e3e31c7dc394a1ca20e173cb72516491588d96a19ad4a683518973dcc180",
    ),
    (
        4,
        "583bd32bc67a5994bb8ceaca813d369bca7b2a42408cddef5e22f880b631215a09fc0012bc69fccaa251c0246d",
    ),
    (
        255,
        "7175db9717964058640a3a11fb9007941a5d1757fda1a6935c805c21af32505bf106deefec4a49ac38d71c9e0a",
    ),
    (
        256,
        "957f9800542b0b8891badb026d79cc54597cb2d225b54c00c5238c25d05c30e3fbeda97d2e0e1aba483a2df9f2",
    ),
];

/// Eight encodings of points of order 1, 2, 4 and 8, including non-canonical ones (RFC 7748 §7 and
/// the usual lists): with every private key they give the all-zero secret.
pub const LOW_ORDER: [&str; 8] = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
];

pub fn bytes(hex: &str) -> Vec<u8> {
    hex::decode(hex).unwrap()
}

pub fn array(hex: &str) -> [u8; 32] {
    bytes(hex).try_into().unwrap()
}

pub fn config(public_key: &str) -> HpkeConfig {
    HpkeConfig::new(
        HpkeConfigId::new(7),
        HpkeKemId::X25519_HKDF_SHA256,
        HpkeKdfId::HKDF_SHA256,
        HpkeAeadId::AES_128_GCM,
        bytes(public_key),
    )
    .unwrap()
}

pub fn ciphertext(enc: &str, payload: &str) -> HpkeCiphertext<'static> {
    HpkeCiphertext::new(HpkeConfigId::new(7), bytes(enc), bytes(payload)).unwrap()
}

/// Returns one fixed string of `N` bytes, and nothing else.
pub struct Fixed<const N: usize>(pub [u8; N]);

impl<const N: usize> TryRng for Fixed<N> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        panic!("only bytes")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        panic!("only bytes")
    }

    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        dst.copy_from_slice(&self.0);
        Ok(())
    }
}

impl<const N: usize> TryCryptoRng for Fixed<N> {}
