//! The two attesters and two issuers, and the manufacturer whose certificates its devices
//! show.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer as Signer,
    KeyPair, PKCS_ED25519,
};
use sotto_client::{DeviceCertificate, Transport};
use sotto_crypto::HpkeKeypair;
use sotto_crypto::note::NoteKey;
use sotto_protocol::trust::{PinnedServer, TokensFile};
use sotto_server::{
    Attester, AttesterConfig, AuthToken, EncapsulationKeys, Issuer, IssuerAttester, IssuerConfig,
    IssuerPeer, Purpose, X509Attestation, X509Config,
};
use sotto_store::{AttesterDb, AttesterDbOptions, IssuerDb};
use sotto_wire::recipe::{TokenKeyRequest, Tokens};
use sotto_wire::{Recipe, Role};

use super::operators::{Keys, duplicate};
use super::servers::{Server, loopback};
use crate::{random, signer_file, token_keys};

/// The attesters and issuers: of the leader's tokens, and of the helper's.
pub(crate) const ATTESTERS: [&str; 2] = ["attester-a.demo", "attester-b.demo"];
pub(crate) const ISSUERS: [&str; 2] = ["issuer-a.demo", "issuer-b.demo"];

const DAY_S: u64 = 86_400;

/// The object identifier of `serialNumber` in a subject: it tells devices apart.
const SERIAL_NUMBER: &[u64] = &[2, 5, 4, 5];

/// The usage that the manufacturer gives to devices and to nothing else.
const DEVICE_USAGE: [u64; 9] = [1, 3, 6, 1, 4, 1, 32473, 1, 1];

/// The manufacturer, which certifies the devices.
pub(crate) struct Manufacturer {
    root_pem: String,
    signer: Signer<'static, KeyPair>,
}

impl Manufacturer {
    pub(crate) fn new() -> Result<Self> {
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.distinguished_name.push(DnType::CommonName, "Demo devices");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root_pem = params.self_signed(&key)?.pem();
        Ok(Self { root_pem, signer: Signer::new(params, key) })
    }

    /// A new device's certificate, with its key.
    pub(crate) fn device(&self, number: usize) -> Result<DeviceCertificate> {
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        let serial_number = DnType::CustomDnType(SERIAL_NUMBER.to_vec());
        params.distinguished_name.push(serial_number, format!("demo-{number}"));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::Other(DEVICE_USAGE.into())];
        let certificate = params.signed_by(&key, &self.signer)?;
        Ok(DeviceCertificate::from_pem(certificate.pem().as_bytes(), &key.serialize_pem())?)
    }
}

/// A running attester and its issuer.
pub(crate) struct Chain {
    pub(crate) servers: Vec<Server>,
    pub(crate) issuer_url: String,
    pub(crate) attester_url: String,
}

/// Starts an issuer, and an attester that trusts the manufacturer: those of the leader's tokens (0)
/// or of the helper's (1).
pub(crate) async fn chain(
    number: usize,
    folder: &Path,
    keys: &Keys,
    encapsulation: HpkeKeypair,
    manufacturer: &Manufacturer,
) -> Result<Chain> {
    let (attester_name, issuer_name) = (ATTESTERS[number], ISSUERS[number]);
    let secret = random::text::<32>();
    let encapsulation = Arc::new(EncapsulationKeys::new(vec![encapsulation])?);
    let attester = IssuerAttester {
        name: attester_name.to_owned(),
        token: AuthToken::bearer(secret.as_str())?,
    };
    let mut config =
        IssuerConfig::new(loopback(), duplicate(&keys.issuers[number]), encapsulation, attester);
    config.rules.authors = vec![keys.author.verifier()];
    let issuer = Issuer::bind(config, IssuerDb::open(&folder.join(issuer_name))?).await?;
    let issuer_url = format!("http://{}", issuer.addr());
    let peer = IssuerPeer {
        name: issuer_name.parse()?,
        url: issuer_url.clone(),
        token: Arc::new(AuthToken::bearer(secret.as_str())?),
    };
    let mut config = AttesterConfig::new(loopback(), attester_name.parse()?, vec![peer]);
    let usage = DEVICE_USAGE.map(|number| number.to_string()).join(".");
    let root = sotto_server::Manufacturer {
        name: "Demo devices".to_owned(),
        roots: manufacturer.root_pem.clone().into(),
        purposes: vec![Purpose::usage(&usage)?],
    };
    let x509 = X509Config { manufacturers: vec![root], ..X509Config::default() };
    config.attestations = vec![Arc::new(X509Attestation::new(&x509)?)];
    let options = AttesterDbOptions::default();
    let db = AttesterDb::open(&folder.join(attester_name), &options, &mut random::system())?;
    let attester = Attester::bind(config, db).await?;
    let attester_url = format!("http://{}/", attester.addr());
    let servers =
        vec![Server::spawn(|stop| issuer.run(stop)), Server::spawn(|stop| attester.run(stop))];
    Ok(Chain { servers, issuer_url, attester_url })
}

/// The token settings of the trust file: devices request tokens at once.
pub(crate) fn tokens_file(attester_urls: &[String; 2]) -> TokensFile {
    let attester = |number: usize| {
        let (operator, url) = (ATTESTERS[number].to_owned(), attester_urls[number].clone());
        Some(PinnedServer { operator, key: None, url })
    };
    let mut file = TokensFile::new(ISSUERS[0], ISSUERS[1]);
    (file.leader.attester, file.helper.attester) = (attester(0), attester(1));
    file.spread_s = 0;
    file
}

/// The recipe with token keys that the author gets from both issuers.
pub(crate) fn with_token_keys(
    mut recipe: Recipe,
    author: &NoteKey,
    issuer_urls: &[String; 2],
    transport: &dyn Transport,
) -> Result<Recipe> {
    let nonce = random::text::<32>();
    let ask = |role, issuer_url: &str| {
        let request = TokenKeyRequest {
            author: signer_file::public(author),
            leader: recipe.parties.leader.operator.clone(),
            helper: recipe.parties.helper.operator.clone(),
            role,
            // For late reports.
            expires: recipe.when.closes + DAY_S,
            nonce: nonce.to_string(),
            participations: recipe.participations(),
        };
        token_keys::ask(transport, issuer_url, &request, author)
    };
    let leader = ask(Role::Leader, &issuer_urls[0])?;
    let helper = ask(Role::Helper, &issuer_urls[1])?;
    recipe.parties.tokens = Tokens::RateLimited { leader, helper };
    Ok(recipe)
}
