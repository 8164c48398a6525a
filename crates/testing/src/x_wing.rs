//! X-Wing, MLKEM768-X25519: draft-connolly-cfrg-xwing-kem-08 Appendix C, and draft-ietf-hpke-pq-05
//! Appendix A.5. Long values are given by their SHA-256, or by their first and last bytes.

// Tests fail by panicking, and so do their helpers. The constants have the names of the drafts.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use sotto_wire::{HpkeAeadId, HpkeConfig, HpkeConfigId, HpkeKdfId, HpkeKemId};

/// One encapsulation of draft-connolly-cfrg-xwing-kem.
pub struct Vector {
    pub sk: &'static str,
    pub eseed: &'static str,
    pub ss: &'static str,
    pub pk_sha256: &'static str,
    pub ct_sha256: &'static str,
}

pub const VECTORS: [Vector; 3] = [
    Vector {
        sk: "7f9c2ba4e88f827d616045507605853ed73b8093f6efbc88eb1a6eacfa66ef26",
        eseed: "3cb1eea988004b93103cfb0aeefd2a686e01fa4a58e8a3639ca8a1e3f9ae57e2\
                35b8cc873c23dc62b8d260169afa2f75ab916a58d974918835d25e6a435085b2",
        ss: "d2df0522128f09dd8e2c92b1e905c793d8f57a54c3da25861f10bf4ca613e384",
        pk_sha256: "2e816deebcd76c5c80d0cd2d174478871658e8e2ff42bc9d4a6e486372e856bb",
        ct_sha256: "17cd532d657e44c897ca6583e548a5424fc70bf54f99515a4d2bcf99e3469f33",
    },
    Vector {
        sk: "badfd6dfaac359a5efbb7bcc4b59d538df9a04302e10c8bc1cbf1a0b3a5120ea",
        eseed: "17cda7cfad765f5623474d368ccca8af0007cd9f5e4c849f167a580b14aabdef\
                aee7eef47cb0fca9767be1fda69419dfb927e9df07348b196691abaeb580b32d",
        ss: "f2e86241c64d60f6649fbc6c5b7d17180b780a3f34355e64a85749949c45f150",
        pk_sha256: "c42ba5f8430d7d2c83739338203819f090e8303ce9c8b02107c272bfa5376916",
        ct_sha256: "1661ea86d608a1924ba30840cb0a65f13ae051e3aec9cf0f064efc0bc92f2154",
    },
    Vector {
        sk: "ef58538b8d23f87732ea63b02b4fa0f4873360e2841928cd60dd4cee8cc0d4c9",
        eseed: "22a96188d032675c8ac850933c7aff1533b94c834adbb69c6115bad4692d8619\
                f90b0cdf8a7b9c264029ac185b70b83f2801f2f4b3f70c593ea3aeeb613a7f1b",
        ss: "953f7f4e8c5b5049bdc771d1dffada0dd961477d1a2ae0988baa7ea6898d893f",
        pk_sha256: "6b080d6b84f095342092fa7a22423e58bd681397ad0ef00eac92bd254db4fa95",
        ct_sha256: "d3ca5578500344b5896cffc4fd740c9311946b82951df155e6fd86a7966b43c6",
    },
];

/// MLKEM768-X25519, HKDF-SHA256, ChaCha20Poly1305 in base mode. The AEAD is another than ours: up to
/// the shared secret everything is the same, and the key schedule differs in the suite's id alone.
pub mod hpke_pq {
    pub const INFO: &str =
        "34663634363532303666366532303631323034373732363536333639363136653230353537323665";
    pub const IKM_E: &str = "c82228383c9fb887f7d8b332c28262024eda5b6b0ecd2325fe662daffc0594fa\
                             d4990e7c8d13812137d06ba7017453de675ab0388d418853617f3ca58cc5daf3";
    pub const IKM_R: &str = "c8575d137deab99ac98fb0873048c83c3a1f47ef5b409f609c0ca652f58c83e0";
    pub const SK_R: &str = "b6bfa0299b955e85224df2e468f29eeab377ff3b96d4462b39447a22d32b91be";
    pub const PK_R_ENDS: [&str; 2] = ["d3d102410970b8ba", "9462df7dc74d05"];
    pub const ENC_ENDS: [&str; 2] = ["ab354dd589f74ee0", "5c3b08c4b27c"];
    pub const SHARED_SECRET: &str =
        "e059d39125d1f09a7232413a13ec5cb18a37417675442c962700d59da46d105a";
    pub const BASE_NONCE: &str = "b55542ef5c7fc75d075bbfde";
    pub const EXPORTER_SECRET: &str =
        "2838515658ae0c04e99391c0bad9a45613254bad20f7cdd80a70b25f71fec22d";
}

/// A configuration with this public key.
pub fn config(public_key: Vec<u8>) -> HpkeConfig {
    HpkeConfig::new(
        HpkeConfigId::new(7),
        HpkeKemId::X_WING,
        HpkeKdfId::HKDF_SHA256,
        HpkeAeadId::AES_128_GCM,
        public_key,
    )
    .unwrap()
}
