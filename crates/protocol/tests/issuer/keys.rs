//! An issuer with the keys of the transcripts.

use serde_json::Value;
use sotto_crypto::blind_rsa::{IssuerKey, TokenKey};
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::Moment;
use sotto_protocol::issuer::{
    EncapsulationKeyring, IssuerRefusal, Origin, Origins, consume_token_request,
};
use sotto_testing::published::rate_limited;
use sotto_wire::token::IssuerAnswer;
use sotto_wire::{HpkeAeadId, HpkeConfig, HpkeConfigId, HpkeKdfId, HpkeKemId};

pub(crate) const NOW: Moment = Moment(1_800_000_000);
pub(crate) const EXPIRES: Moment = Moment(NOW.0 + 1000);
/// As short as possible.
pub(crate) const WINDOW: u64 = 1000;

pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().unwrap()).unwrap()
}

pub(crate) fn array<const N: usize>(value: &Value) -> [u8; N] {
    bytes(value).try_into().unwrap()
}

/// An issuer with the keys of the transcripts, all of which expire at [`EXPIRES`].
pub(crate) struct Issuer {
    pub(crate) keyring: EncapsulationKeyring,
    pub(crate) origins: Origins,
}

impl Issuer {
    pub(crate) fn new() -> Self {
        Self::with_participations(None)
    }

    /// The same keys, for series.
    pub(crate) fn with_participations(participations: Option<u32>) -> Self {
        let vectors = rate_limited();
        let keys: Vec<_> =
            vectors["encap_keys"].as_object().unwrap().values().map(keypair).collect();
        let origins = vectors["origins"].as_object().unwrap().values().map(origin);
        let origins = origins.map(|origin| origin.with_participations(participations)).collect();
        Self { keyring: EncapsulationKeyring::new(&keys).unwrap(), origins }
    }

    pub(crate) fn config(&self) -> HpkeConfig {
        self.keyring.keys()[0].config().clone()
    }

    pub(crate) fn token_key(&self, origin: &str) -> TokenKey {
        let der = bytes(&rate_limited()["origins"][origin]["pkcs8_der"]);
        IssuerKey::from_pkcs8(&der).unwrap().token_key().clone()
    }

    pub(crate) fn answer(&self, body: &[u8]) -> Result<IssuerAnswer, IssuerRefusal> {
        consume_token_request(body, &self.keyring, &self.origins, NOW, WINDOW, &[7; 16])
    }
}

fn keypair(key: &Value) -> HpkeKeypair {
    let config = HpkeConfig::new(
        HpkeConfigId::new(key["key_id"].as_u64().unwrap() as u8),
        HpkeKemId::X25519_HKDF_SHA256,
        HpkeKdfId::HKDF_SHA256,
        HpkeAeadId::AES_128_GCM,
        bytes(&key["pk"]),
    )
    .unwrap();
    HpkeKeypair::from_parts(config, Secret::new(array(&key["sk"]))).unwrap()
}

fn origin(origin: &Value) -> Origin {
    let key = IssuerKey::from_pkcs8(&bytes(&origin["pkcs8_der"])).unwrap();
    let made = Origin::new(key, Secret::new(array(&origin["issuer_origin_secret"])), EXPIRES);
    let name = origin["origin_name"].as_str().unwrap().to_owned();
    assert_eq!(made.names().collect::<Vec<_>>(), [(name, None)]);
    made
}
