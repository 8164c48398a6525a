//! The demo's attester and issuer, and the manufacturer whose certificates its devices show.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer as Signer, KeyPair, PKCS_ED25519,
};
use sotto_client::{DeviceCertificate, Transport};
use sotto_crypto::HpkeKeypair;
use sotto_crypto::note::NoteKey;
use sotto_protocol::trust::{PinnedAttester, TokensFile};
use sotto_server::{
    Attester, AttesterConfig, AuthToken, EncapsulationKeys, Issuer, IssuerAttester, IssuerConfig,
    IssuerPeer, X509Attestation, X509Config,
};
use sotto_store::{AttesterDb, AttesterDbOptions, IssuerDb};
use sotto_wire::Recipe;
use sotto_wire::recipe::{TokenKeyRequest, Tokens};

use super::operators::{Keys, duplicate};
use crate::demo::servers::{Server, loopback};
use crate::{random, signer_file, token_keys};

pub(super) const ATTESTER: &str = "attester.demo";
pub(super) const ISSUER: &str = "issuer.demo";

const DAY_S: u64 = 86_400;

/// The object identifier of `serialNumber` in a subject: it tells devices apart.
const SERIAL_NUMBER: &[u64] = &[2, 5, 4, 5];

/// The manufacturer, which certifies the devices.
pub(super) struct Manufacturer {
    root_pem: String,
    signer: Signer<'static, KeyPair>,
}

impl Manufacturer {
    pub(super) fn new() -> Result<Self> {
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.distinguished_name.push(DnType::CommonName, "Demo devices");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root_pem = params.self_signed(&key)?.pem();
        Ok(Self { root_pem, signer: Signer::new(params, key) })
    }

    /// A new device's certificate, with its key.
    pub(super) fn device(&self, number: usize) -> Result<DeviceCertificate> {
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        let serial_number = DnType::CustomDnType(SERIAL_NUMBER.to_vec());
        params.distinguished_name.push(serial_number, format!("demo-{number}"));
        let certificate = params.signed_by(&key, &self.signer)?;
        Ok(DeviceCertificate::from_pem(certificate.pem().as_bytes(), &key.serialize_pem())?)
    }
}

/// The running attester and issuer.
pub(super) struct TokenParties {
    pub(super) servers: Vec<Server>,
    pub(super) issuer_url: String,
    pub(super) attester_url: String,
}

/// Starts the issuer, and an attester that trusts the manufacturer.
pub(super) async fn token_parties(
    folder: &Path,
    keys: &Keys,
    encapsulation: HpkeKeypair,
    manufacturer: &Manufacturer,
) -> Result<TokenParties> {
    let secret = random::text::<32>();
    let encapsulation = Arc::new(EncapsulationKeys::new(vec![encapsulation])?);
    let attester =
        IssuerAttester { name: ATTESTER.to_owned(), token: AuthToken::bearer(secret.as_str())? };
    let mut config =
        IssuerConfig::new(loopback(), duplicate(&keys.issuer), encapsulation, attester);
    config.rules.authors = vec![keys.author.verifier()];
    let issuer = Issuer::bind(config, IssuerDb::open(&folder.join("issuer"))?).await?;
    let issuer_url = format!("http://{}", issuer.addr());
    let peer = IssuerPeer {
        name: ISSUER.parse()?,
        url: issuer_url.clone(),
        token: Arc::new(AuthToken::bearer(secret.as_str())?),
    };
    let mut config = AttesterConfig::new(loopback(), ATTESTER.parse()?, vec![peer]);
    let root = sotto_server::Manufacturer {
        name: "Demo devices".to_owned(),
        roots: manufacturer.root_pem.clone().into(),
    };
    let x509 = X509Config { manufacturers: vec![root], ..X509Config::default() };
    config.attestations = vec![Arc::new(X509Attestation::new(&x509)?)];
    let options = AttesterDbOptions::default();
    let db = AttesterDb::open(&folder.join("attester"), &options, &mut random::system())?;
    let attester = Attester::bind(config, db).await?;
    let attester_url = format!("http://{}/", attester.addr());
    let servers =
        vec![Server::spawn(|stop| issuer.run(stop)), Server::spawn(|stop| attester.run(stop))];
    Ok(TokenParties { servers, issuer_url, attester_url })
}

/// The token settings of the trust file: devices request tokens at once.
pub(super) fn tokens_file(attester_url: &str) -> TokensFile {
    TokensFile {
        issuer: ISSUER.to_owned(),
        attester: Some(PinnedAttester {
            operator: ATTESTER.to_owned(),
            url: attester_url.to_owned(),
        }),
        spread_s: 0,
    }
}

/// The recipe with token keys that the author gets from the issuer.
pub(super) fn with_token_keys(
    mut recipe: Recipe,
    author: &NoteKey,
    issuer_url: &str,
    transport: &dyn Transport,
) -> Result<Recipe> {
    let request = TokenKeyRequest {
        author: signer_file::public(author),
        leader: recipe.parties.leader.operator.clone(),
        helper: Some(recipe.parties.helper.operator.clone()),
        // For late reports.
        expires: recipe.when.closes + DAY_S,
        nonce: random::text::<32>().to_string(),
    };
    let keys = token_keys::ask(transport, issuer_url, &request, author)?;
    let helper = keys.helper.context("the issuer gives no key for the helper")?;
    recipe.parties.tokens =
        Tokens::RateLimited { issuer: ISSUER.parse()?, leader: keys.leader, helper };
    Ok(recipe)
}
