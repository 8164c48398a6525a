//! Attestation by device certificates.

use std::borrow::Cow;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CustomExtension,
    DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair,
    KeyUsagePurpose, RevokedCertParams, SerialNumber, SignatureAlgorithm, SigningKey,
    date_time_ymd,
};
use sotto_protocol::Moment;
use sotto_protocol::attester::{Attestation, AttestationRefusal, DeviceIdentity};
use sotto_server::{X509Attestation, X509Config};
use sotto_wire::Encode;
use sotto_wire::token::evidence::{AttestationEvidence, X509Evidence};

use crate::harness::{Device, World};

/// In 2030.
const NOW: Moment = Moment(1_900_000_000);
const MESSAGE: &[u8] = b"the message";

/// A certification authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: Vec<u8>,
}

fn authority(name: &str) -> Authority {
    let (params, key) = (authority_params(name), KeyPair::generate().unwrap());
    let certificate = params.self_signed(&key).unwrap();
    let (pem, der) = (certificate.pem(), certificate.der().to_vec());
    Authority { issuer: Issuer::new(params, key), pem, der }
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2090, 1, 1);
    params
}

impl Authority {
    fn intermediate(&self, name: &str) -> Authority {
        let (params, key) = (authority_params(name), KeyPair::generate().unwrap());
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (pem, der) = (certificate.pem(), certificate.der().to_vec());
        Authority { issuer: Issuer::new(params, key), pem, der }
    }

    /// A revocation list with these certificates, good until a year.
    fn crl(&self, revoked: &[u64], until: i32) -> String {
        let revoked = revoked.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2025, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2021, 1, 1),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }

    fn certify(&self, params: &CertificateParams, algorithm: &'static SignatureAlgorithm) -> Badge {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let der = params.signed_by(&key, &self.issuer).unwrap().der().to_vec();
        Badge { chain: vec![der], key }
    }

    fn badge(&self, device: &str, serial: u64) -> Badge {
        self.certify(&device_params(device, serial), &rcgen::PKCS_ED25519)
    }
}

fn device_params(device: &str, serial: u64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "a device");
    params.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 5]), device);
    params.serial_number = Some(SerialNumber::from(serial));
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2090, 1, 1);
    params
}

/// A device's certificate and key.
struct Badge {
    chain: Vec<Vec<u8>>,
    key: KeyPair,
}

impl Badge {
    fn scheme(&self) -> u16 {
        let algorithm = self.key.algorithm();
        if algorithm == &rcgen::PKCS_ED25519 {
            0x0807
        } else if algorithm == &rcgen::PKCS_ECDSA_P256_SHA256 {
            0x0403
        } else {
            0x0503
        }
    }

    fn evidence(&self, message: &[u8]) -> Vec<u8> {
        self.evidence_with(self.scheme(), self.key.sign(message).unwrap())
    }

    fn evidence_with(&self, scheme: u16, signature: Vec<u8>) -> Vec<u8> {
        let chain = self.chain.iter().map(|der| Cow::Borrowed(der.as_slice())).collect();
        let evidence = X509Evidence::new(chain, scheme, signature.into()).unwrap();
        AttestationEvidence::X509(evidence).to_bytes()
    }
}

fn attestation(roots: &[&Authority], crls: &str, require_crl: bool) -> X509Attestation {
    let roots: String = roots.iter().map(|root| root.pem.as_str()).collect();
    let config = X509Config { roots: roots.into(), crls: crls.into(), require_crl };
    X509Attestation::new(&config).unwrap()
}

fn identify(
    attestation: &X509Attestation,
    badge: &Badge,
) -> Result<DeviceIdentity, AttestationRefusal> {
    attestation.identify(&badge.evidence(MESSAGE), MESSAGE, NOW)
}

#[test]
fn a_device_is_known_by_its_number_under_its_root() {
    let (root, other_root) = (authority("maker"), authority("other maker"));
    let factory = root.intermediate("factory");
    let attestation = attestation(&[&root, &other_root], "", false);
    let first = identify(&attestation, &root.badge("device 1", 1)).unwrap();
    // A renewed certificate has another key and another serial, and may come from elsewhere.
    for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384] {
        let mut renewed = factory.certify(&device_params("device 1", 77), algorithm);
        renewed.chain.push(factory.der.clone());
        assert_eq!(identify(&attestation, &renewed), Ok(first));
    }
    let second = identify(&attestation, &root.badge("device 2", 2)).unwrap();
    assert_ne!(second, first);
    // Makers number their devices independently.
    assert_ne!(identify(&attestation, &other_root.badge("device 1", 1)).unwrap(), first);
}

#[test]
fn strangers_are_refused() {
    let (root, stranger) = (authority("maker"), authority("maker"));
    let attestation = attestation(&[&root], "", false);
    let refused = |badge: &Badge| identify(&attestation, badge).unwrap_err();
    assert_eq!(refused(&stranger.badge("device 1", 1)), AttestationRefusal::Untrusted);
    // A factory without its certificate, and a device that plays factory.
    let factory = root.intermediate("factory");
    assert_eq!(refused(&factory.badge("device 1", 1)), AttestationRefusal::Untrusted);
    let (params, key) = (device_params("device 1", 1), KeyPair::generate().unwrap());
    let device = params.signed_by(&key, &root.issuer).unwrap().der().to_vec();
    let mut forged =
        Authority { issuer: Issuer::new(params, key), pem: String::new(), der: device };
    forged.pem.clear();
    let mut badge = forged.badge("device 2", 2);
    badge.chain.push(forged.der.clone());
    assert_eq!(refused(&badge), AttestationRefusal::Untrusted);

    let mut expired = device_params("device 1", 1);
    expired.not_after = date_time_ymd(2021, 1, 1);
    let expired = root.certify(&expired, &rcgen::PKCS_ED25519);
    assert_eq!(refused(&expired), AttestationRefusal::Expired);
    let mut early = device_params("device 1", 1);
    early.not_before = date_time_ymd(2080, 1, 1);
    assert_eq!(refused(&root.certify(&early, &rcgen::PKCS_ED25519)), AttestationRefusal::Expired);
}

#[test]
fn certificates_for_other_things_are_refused() {
    let root = authority("maker");
    let attestation = attestation(&[&root], "", false);
    let with = |usages: Vec<ExtendedKeyUsagePurpose>| {
        let mut params = device_params("device 1", 1);
        params.extended_key_usages = usages;
        identify(&attestation, &root.certify(&params, &rcgen::PKCS_ED25519)).err()
    };
    assert_eq!(with(vec![]), None);
    assert_eq!(with(vec![ExtendedKeyUsagePurpose::ClientAuth]), None);
    assert_eq!(with(vec![ExtendedKeyUsagePurpose::Any]), None);
    let server = ExtendedKeyUsagePurpose::ServerAuth;
    assert_eq!(with(vec![server.clone()]), Some(AttestationRefusal::Untrusted));
    assert_eq!(with(vec![server, ExtendedKeyUsagePurpose::ClientAuth]), None);
}

#[test]
fn a_certificate_must_name_one_device() {
    let root = authority("maker");
    let attestation = attestation(&[&root], "", false);
    let mut nameless = device_params("", 1);
    nameless.distinguished_name = DistinguishedName::new();
    nameless.distinguished_name.push(DnType::CommonName, "a device");
    for params in [nameless, device_params("", 1)] {
        let badge = root.certify(&params, &rcgen::PKCS_ED25519);
        assert_eq!(identify(&attestation, &badge), Err(AttestationRefusal::NoIdentity));
    }
    let mut critical = device_params("device 1", 1);
    let mut unknown = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
    unknown.set_criticality(true);
    critical.custom_extensions = vec![unknown];
    let badge = root.certify(&critical, &rcgen::PKCS_ED25519);
    assert!(identify(&attestation, &badge).is_err());
}

#[test]
fn the_signature_must_be_over_this_message() {
    let root = authority("maker");
    let attestation = attestation(&[&root], "", false);
    let badge = root.badge("device 1", 1);
    let evidence = badge.evidence(b"another message");
    let refused = |evidence: &[u8]| attestation.identify(evidence, MESSAGE, NOW).unwrap_err();
    assert_eq!(refused(&evidence), AttestationRefusal::Signature);
    let signature = badge.key.sign(MESSAGE).unwrap();
    for scheme in [0, 0x0403, 0x0804, 0x0401, 0x0808] {
        let evidence = badge.evidence_with(scheme, signature.clone());
        assert_eq!(refused(&evidence), AttestationRefusal::Signature, "{scheme:#x}");
    }
    // Somebody else's certificate with an own key.
    let thief = Badge { chain: badge.chain.clone(), key: root.badge("device 2", 2).key };
    assert_eq!(refused(&thief.evidence(MESSAGE)), AttestationRefusal::Signature);
    assert_eq!(refused(&[]), AttestationRefusal::Malformed);
    assert_eq!(refused(&[1, 0, 0]), AttestationRefusal::Malformed);
    assert_eq!(refused(b"\xffname"), AttestationRefusal::Kind);
    let mut no_certificate = badge.evidence(MESSAGE);
    no_certificate[10] ^= 1;
    assert!(attestation.identify(&no_certificate, MESSAGE, NOW).is_err());
}

#[test]
fn revoked_devices_are_refused() {
    let root = authority("maker");
    let factory = root.intermediate("factory");
    let mut made = factory.badge("device 3", 3);
    made.chain.push(factory.der.clone());
    let (one, two) = (root.badge("device 1", 1), root.badge("device 2", 2));

    let lax = attestation(&[&root], &root.crl(&[2], 2090), false);
    assert!(identify(&lax, &one).is_ok());
    assert_eq!(identify(&lax, &two), Err(AttestationRefusal::Revoked));
    // The factory has no list, and none is asked for.
    assert!(identify(&lax, &made).is_ok());
    lax.reload_crls((root.crl(&[], 2090) + &factory.crl(&[3], 2090)).as_bytes()).unwrap();
    assert!(identify(&lax, &two).is_ok());
    assert_eq!(identify(&lax, &made), Err(AttestationRefusal::Revoked));
    // What cannot be read changes nothing.
    assert!(lax.reload_crls(b"not a list").is_err());
    assert_eq!(identify(&lax, &made), Err(AttestationRefusal::Revoked));
    // An expired list still revokes.
    lax.reload_crls(root.crl(&[2], 2025).as_bytes()).unwrap();
    assert_eq!(identify(&lax, &two), Err(AttestationRefusal::Revoked));
    assert!(identify(&lax, &one).is_ok());
    // A list of somebody else with the same name does not count.
    let namesake = authority("maker");
    lax.reload_crls(namesake.crl(&[1], 2090).as_bytes()).unwrap();
    assert_ne!(identify(&lax, &one), Err(AttestationRefusal::Revoked));
}

#[test]
fn an_operator_may_want_to_know() {
    let root = authority("maker");
    let factory = root.intermediate("factory");
    let mut made = factory.badge("device 3", 3);
    made.chain.push(factory.der.clone());
    let one = root.badge("device 1", 1);
    let unknown = Err(AttestationRefusal::UnknownRevocation);

    let strict = attestation(&[&root], "", true);
    assert_eq!(identify(&strict, &one), unknown);
    strict.reload_crls(root.crl(&[], 2090).as_bytes()).unwrap();
    assert!(identify(&strict, &one).is_ok());
    assert_eq!(identify(&strict, &made), unknown);
    strict.reload_crls((root.crl(&[], 2090) + &factory.crl(&[], 2090)).as_bytes()).unwrap();
    assert!(identify(&strict, &made).is_ok());
    strict.reload_crls(root.crl(&[], 2025).as_bytes()).unwrap();
    assert_eq!(identify(&strict, &one), unknown);
}

#[test]
fn roots_must_be_roots() {
    for roots in ["", "not PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let config = X509Config { roots: roots.into(), ..X509Config::default() };
        assert!(X509Attestation::new(&config).is_err(), "{roots}");
    }
}

/// Over HTTP: who has no certificate gets nothing, and a device counts under all its certificates.
#[tokio::test]
async fn certified_devices_get_tokens() {
    let root = authority("maker");
    let attestation = Arc::new(attestation(&[&root], &root.crl(&[666], 2090), true));
    let world = World::attesting(attestation.clone()).await;
    let mut device = Device::new("one");
    let (old, new, revoked) =
        (root.badge("device 1", 1), root.badge("device 1", 2), root.badge("device 1", 666));
    let mut ask = async |badge: &Badge, origin: u8| {
        let attest = |message: &[u8]| badge.evidence(message);
        let request = device.attested_request(origin, [origin; 32], 1, attest);
        world.server.ask(&request).await
    };
    ask(&old, 1).await.token();
    assert_eq!(ask(&new, 1).await.status, 429, "a new certificate is no new device");
    ask(&new, 2).await.token();
    let refused = ask(&revoked, 3).await;
    assert_eq!(
        (refused.status, refused.detail().as_str()),
        (403, "The attestation was not accepted.")
    );
    let stranger = authority("maker").badge("device 1", 1);
    let unknown = ask(&stranger, 3).await;
    assert_eq!((unknown.status, unknown.detail()), (403, refused.detail()));
    assert_eq!(world.server.refused("attestation_revoked").await, 1);
    assert_eq!(world.server.refused("attestation_untrusted").await, 1);
    // A name is no evidence here.
    let named = world.server.ask(&Device::new("two").request(1)).await;
    assert_eq!(named.status, 403);
    assert_eq!(world.issuer.requests(), 3);
    // Another device with the first one's request: the signature is not its own.
    attestation.reload_crls(root.crl(&[2], 2090).as_bytes()).unwrap();
    assert_eq!(ask(&new, 3).await.status, 403, "revoked while the attester runs");
}

/// Evidence is bound to the request: what was seen on the way is good for nothing else.
#[tokio::test]
async fn evidence_serves_one_request() {
    let root = authority("maker");
    let world = World::attesting(Arc::new(attestation(&[&root], "", false))).await;
    let badge = root.badge("device 1", 1);
    let mut device = Device::new("one");
    let mut request = |origin| {
        device.attested_request(origin, [origin; 32], 1, |message| badge.evidence(message))
    };
    let (first, mut second) = (request(1), request(2));
    second.headers[3] = first.headers[3].clone();
    assert_eq!(world.server.ask(&second).await.status, 403);
    let mut renamed = first.clone();
    renamed.headers[1].1 = sotto_wire::token::byte_sequence(&[9; 32]);
    assert_eq!(world.server.ask(&renamed).await.status, 403);
    assert_eq!(world.server.refused("attestation_signature").await, 2);
    world.server.ask(&first).await.token();
}
