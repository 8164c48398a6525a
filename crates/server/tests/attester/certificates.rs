//! Attestation by device certificates.

use std::borrow::Cow;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CustomExtension,
    DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair,
    KeyUsagePurpose, RevokedCertParams, SerialNumber, SignatureAlgorithm, SigningKey,
    date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use sotto_protocol::attester::{Attestation, AttestationRefusal, DeviceIdentity};
use sotto_protocol::{Fault, Moment};
use sotto_server::{Manufacturer, Purpose, X509Attestation, X509Config};
use sotto_wire::Encode;
use sotto_wire::token::evidence::{AttestationEvidence, X509Evidence};

use crate::attester::harness::{AttesterAndIssuer, Device};

/// A time in 2030.
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

    /// The certificate that another authority issues for this one's key.
    fn again_under(&self, other: &Authority) -> Vec<u8> {
        let mut params = authority_params("factory");
        params.serial_number = Some(SerialNumber::from(4242));
        params.signed_by(self.issuer.key(), &other.issuer).unwrap().der().to_vec()
    }

    /// A revocation list with these certificates, valid until this year.
    fn crl(&self, revoked: &[u64], until: i32) -> String {
        self.crl_numbered(revoked, until, 1, 2021)
    }

    /// A revocation list with this number, issued in the year `made`.
    fn crl_numbered(&self, revoked: &[u64], until: i32, number: u64, made: i32) -> String {
        let revoked: Vec<_> =
            revoked.iter().map(|serial| SerialNumber::from(*serial).to_bytes()).collect();
        self.crl_serials(&revoked, until, number, made)
    }

    fn crl_serials(&self, revoked: &[Vec<u8>], until: i32, number: u64, made: i32) -> String {
        let revoked = revoked.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from_slice(serial),
            revocation_time: date_time_ymd(2025, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(made, 1, 1),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(number),
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

/// All roots belong to one manufacturer.
fn attestation(roots: &[&Authority], crls: &str, require_crl: bool) -> X509Attestation {
    let manufacturers = vec![manufacturer("maker", roots)];
    let config = X509Config { manufacturers, crls: crls.into(), require_crl };
    X509Attestation::new(&config).unwrap()
}

fn manufacturer(name: &str, roots: &[&Authority]) -> Manufacturer {
    let roots: String = roots.iter().map(|root| root.pem.as_str()).collect();
    let purposes = vec![Purpose::InsecureAny];
    Manufacturer { name: name.to_owned(), roots: roots.into(), purposes }
}

fn of_manufacturers(manufacturers: Vec<Manufacturer>) -> Result<X509Attestation, Fault> {
    X509Attestation::new(&X509Config { manufacturers, ..X509Config::default() })
}

fn identify(
    attestation: &X509Attestation,
    badge: &Badge,
) -> Result<DeviceIdentity, AttestationRefusal> {
    attestation.identify(&badge.evidence(MESSAGE), MESSAGE, NOW)
}

#[test]
fn a_device_is_known_by_its_number_at_its_manufacturer() {
    let (root, other_root) = (authority("maker"), authority("other maker"));
    let factory = root.intermediate("factory");
    let manufacturers =
        vec![manufacturer("one", &[&root]), manufacturer("another", &[&other_root])];
    let attestation = of_manufacturers(manufacturers).unwrap();
    let first = identify(&attestation, &root.badge("device 1", 1)).unwrap();
    // A renewed certificate has another key and another serial, and may come from another
    // authority.
    for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384] {
        let mut renewed = factory.certify(&device_params("device 1", 77), algorithm);
        renewed.chain.push(factory.der.clone());
        assert_eq!(identify(&attestation, &renewed), Ok(first));
    }
    let second = identify(&attestation, &root.badge("device 2", 2)).unwrap();
    assert_ne!(second, first);
    // Manufacturers number their devices independently.
    assert_ne!(identify(&attestation, &other_root.badge("device 1", 1)).unwrap(), first);
}

/// A device chooses the path to a root. It must be the same device on every path.
#[test]
fn cross_signed_authorities_make_no_second_device() {
    let (old, new) = (authority("maker"), authority("maker 2"));
    let factory = old.intermediate("factory");
    let crossed = factory.again_under(&new);
    assert_ne!(crossed, factory.der);
    let attestation = of_manufacturers(vec![manufacturer("maker", &[&old, &new])]).unwrap();
    let mut badge = factory.badge("device 1", 1);
    let leaf = badge.chain[0].clone();
    let mut under = |intermediates: &[&Vec<u8>]| {
        badge.chain = vec![leaf.clone()];
        badge.chain.extend(intermediates.iter().map(|der| (*der).clone()));
        identify(&attestation, &badge).unwrap()
    };
    let by_the_old = under(&[&factory.der]);
    assert_eq!(under(&[&crossed]), by_the_old);
    assert_eq!(under(&[&crossed, &factory.der]), by_the_old);
    // One root alone accepts only one of the paths, so there really are two.
    let one = of_manufacturers(vec![manufacturer("maker", &[&old])]).unwrap();
    badge.chain = vec![leaf.clone(), crossed];
    assert_eq!(identify(&one, &badge), Err(AttestationRefusal::Untrusted));
    badge.chain = vec![leaf, factory.der.clone()];
    assert_eq!(identify(&one, &badge), Ok(by_the_old));
}

#[test]
fn a_root_has_one_manufacturer() {
    let (root, other) = (authority("maker"), authority("other"));
    let manufacturers = vec![manufacturer("one", &[&root]), manufacturer("two", &[&other, &root])];
    let error = of_manufacturers(manufacturers).unwrap_err();
    assert!(error.to_string().contains("have a root in common"), "{error}");
    // Twice under one name counts once.
    let twice = vec![manufacturer("one", &[&root, &root]), manufacturer("one", &[&root])];
    assert!(of_manufacturers(twice).is_ok());
    // The boundary between name and number is unambiguous.
    let apart = |name: &str, number: &str| {
        let attestation = of_manufacturers(vec![manufacturer(name, &[&root])]).unwrap();
        identify(&attestation, &root.badge(number, 1)).unwrap()
    };
    assert_ne!(apart("ab", "c1"), apart("a", "bc1"));
}

#[test]
fn strangers_are_refused() {
    let (root, stranger) = (authority("maker"), authority("maker"));
    let attestation = attestation(&[&root], "", false);
    let refused = |badge: &Badge| identify(&attestation, badge).unwrap_err();
    assert_eq!(refused(&stranger.badge("device 1", 1)), AttestationRefusal::Untrusted);
    // A factory without its certificate, and a device that acts as a factory.
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

/// Which purposes of one path fit, with a device and a factory that have these extensions.
struct Stated {
    root: Authority,
    device: CertificateParams,
    factory: CertificateParams,
}

impl Stated {
    fn new() -> Self {
        let (device, factory) = (device_params("device 1", 1), authority_params("factory"));
        Self { root: authority("maker"), device, factory }
    }

    fn accepted(&self, purposes: &[Purpose]) -> bool {
        let key = KeyPair::generate().unwrap();
        let der = self.factory.signed_by(&key, &self.root.issuer).unwrap().der().to_vec();
        let factory =
            Authority { issuer: Issuer::new(self.factory.clone(), key), pem: String::new(), der };
        let mut badge = factory.certify(&self.device, &rcgen::PKCS_ED25519);
        badge.chain.push(factory.der);
        let maker =
            Manufacturer { purposes: purposes.to_vec(), ..manufacturer("maker", &[&self.root]) };
        match identify(&of_manufacturers(vec![maker]).unwrap(), &badge) {
            Ok(_) => true,
            Err(AttestationRefusal::Untrusted) => false,
            Err(other) => panic!("{other:?}"),
        }
    }
}

const DEVICE_USAGE: &[u64] = &[1, 3, 6, 1, 4, 1, 32473, 1, 1];
const OTHER_USAGE: &[u64] = &[1, 3, 6, 1, 4, 1, 32473, 1, 9];

#[test]
fn a_device_states_the_usage_that_its_manufacturer_gives_to_devices() {
    let purpose = [Purpose::usage("1.3.6.1.4.1.32473.1.1").unwrap()];
    let (any, client) = (ExtendedKeyUsagePurpose::Any, ExtendedKeyUsagePurpose::ClientAuth);
    let other = |oid: &[u64]| ExtendedKeyUsagePurpose::Other(oid.to_vec());
    let (device, another) = (other(DEVICE_USAGE), other(OTHER_USAGE));
    // The device's own certificate must name it: neither silence nor `any` is enough.
    for (usages, fits) in [
        (vec![], false),
        (vec![any.clone()], false),
        (vec![client.clone()], false),
        (vec![another.clone()], false),
        (vec![device.clone()], true),
        (vec![client.clone(), device.clone()], true),
    ] {
        let mut stated = Stated::new();
        stated.device.extended_key_usages = usages.clone();
        assert_eq!(stated.accepted(&purpose), fits, "{usages:?}");
    }
    // An authority that is restricted to something else cannot certify devices.
    for (usages, fits) in [
        (vec![], true),
        (vec![any], true),
        (vec![device.clone(), client.clone()], true),
        (vec![client], false),
        (vec![another], false),
    ] {
        let mut stated = Stated::new();
        stated.device.extended_key_usages = vec![device.clone()];
        stated.factory.extended_key_usages = usages.clone();
        assert_eq!(stated.accepted(&purpose), fits, "{usages:?}");
    }
}

/// An extension with these certificate policies.
fn policies(oids: &[&[u64]]) -> CustomExtension {
    let tagged = |tag: u8, content: Vec<u8>| {
        assert!(content.len() < 128, "one byte of length");
        [vec![tag, content.len() as u8], content].concat()
    };
    let policy = |oid: &&[u64]| {
        let oid = x509_parser::asn1_rs::Oid::from(oid).unwrap();
        tagged(0x30, tagged(6, oid.as_bytes().to_vec()))
    };
    let content = tagged(0x30, oids.iter().flat_map(policy).collect());
    CustomExtension::from_oid_content(&[2, 5, 29, 32], content)
}

#[test]
fn a_device_is_certified_under_the_policy_of_its_manufacturer() {
    const ANY: &[u64] = &[2, 5, 29, 32, 0];
    let purpose = [Purpose::policy("1.3.6.1.4.1.32473.1.1").unwrap()];
    for (device, factory, fits) in [
        (vec![DEVICE_USAGE], vec![DEVICE_USAGE], true),
        (vec![DEVICE_USAGE], vec![ANY], true),
        (vec![OTHER_USAGE, DEVICE_USAGE], vec![OTHER_USAGE, DEVICE_USAGE], true),
        // An authority without policies ends them all, and the device must name its own.
        (vec![DEVICE_USAGE], vec![], false),
        (vec![DEVICE_USAGE], vec![OTHER_USAGE], false),
        (vec![OTHER_USAGE], vec![DEVICE_USAGE], false),
        (vec![ANY], vec![DEVICE_USAGE], false),
        (vec![], vec![DEVICE_USAGE], false),
    ] {
        let mut stated = Stated::new();
        for (params, oids) in [(&mut stated.device, &device), (&mut stated.factory, &factory)] {
            if !oids.is_empty() {
                params.custom_extensions = vec![policies(oids)];
            }
        }
        assert_eq!(stated.accepted(&purpose), fits, "{device:?} {factory:?}");
    }
    // A policy does not make a certificate for servers one of a device; and both can be required.
    let mut both = Stated::new();
    both.device.custom_extensions = vec![policies(&[DEVICE_USAGE])];
    both.factory.custom_extensions = vec![policies(&[DEVICE_USAGE])];
    let usage = Purpose::usage("1.3.6.1.4.1.32473.1.1").unwrap();
    assert!(!both.accepted(&[purpose[0].clone(), usage.clone()]));
    both.device.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    assert!(!both.accepted(&purpose));
    let own = ExtendedKeyUsagePurpose::Other(DEVICE_USAGE.to_vec());
    both.device.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, own];
    assert!(both.accepted(&[purpose[0].clone(), usage]));
}

#[test]
fn a_manufacturer_without_a_purpose_is_refused() {
    let root = authority("maker");
    let silent = Manufacturer { purposes: Vec::new(), ..manufacturer("maker", &[&root]) };
    let error = of_manufacturers(vec![silent]).unwrap_err().to_string();
    assert!(error.contains("insecure_any_purpose"), "{error}");
    for wrong in ["", "devices", "1.3.x", "1.3."] {
        assert!(Purpose::usage(wrong).is_err() && Purpose::policy(wrong).is_err(), "{wrong}");
    }
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
    // Somebody else's certificate with another key.
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
    // The factory has no list, and none is required.
    assert!(identify(&lax, &made).is_ok());
    lax.reload_crls((root.crl(&[], 2090) + &factory.crl(&[3], 2090)).as_bytes()).unwrap();
    assert!(identify(&lax, &two).is_ok());
    assert_eq!(identify(&lax, &made), Err(AttestationRefusal::Revoked));
    // Lists that cannot be read change nothing.
    assert!(lax.reload_crls(b"not a list").is_err());
    assert_eq!(identify(&lax, &made), Err(AttestationRefusal::Revoked));
    // An expired list still revokes.
    lax.reload_crls(root.crl(&[2], 2025).as_bytes()).unwrap();
    assert_eq!(identify(&lax, &two), Err(AttestationRefusal::Revoked));
    assert!(identify(&lax, &one).is_ok());
    // A list of somebody else with the same name does not count.
    let namesake = authority("maker");
    lax.reload_crls(namesake.crl(&[1], 2090).as_bytes()).unwrap();
    assert!(identify(&lax, &one).is_ok());
    assert!(identify(&lax, &two).is_ok());
}

/// As after a change of keys: one name, two keys, and a list signed by each.
#[test]
fn lists_of_one_name_go_by_their_keys() {
    let (old, new) = (authority("maker"), authority("maker"));
    let (one, two) = (old.badge("device 1", 1), old.badge("device 2", 2));
    let (three, four) = (new.badge("device 3", 1), new.badge("device 4", 2));
    let lists = [old.crl(&[2], 2090), new.crl(&[1], 2090)];
    for lists in [lists.concat(), [lists[1].clone(), lists[0].clone()].concat()] {
        for require_crl in [false, true] {
            let attestation = attestation(&[&old, &new], &lists, require_crl);
            assert!(identify(&attestation, &one).is_ok());
            assert_eq!(identify(&attestation, &two), Err(AttestationRefusal::Revoked));
            assert_eq!(identify(&attestation, &three), Err(AttestationRefusal::Revoked));
            assert!(identify(&attestation, &four).is_ok());
        }
    }
    let strict = attestation(&[&old, &new], &lists[0], true);
    assert!(identify(&strict, &one).is_ok());
    assert_eq!(identify(&strict, &four), Err(AttestationRefusal::UnknownRevocation));
}

/// Lists are kept, and one is appended: whatever their order, the newest says who is revoked.
#[test]
fn of_two_lists_the_newer_counts() {
    let root = authority("maker");
    let (one, two) = (root.badge("device 1", 1), root.badge("device 2", 2));
    let older = root.crl_numbered(&[1], 2090, 9, 2022);
    // By its number, even if it was issued at the same time. Numbers do not compare as strings.
    let newer = root.crl_numbered(&[2], 2090, 300, 2022);
    // And by its time, if the numbers are equal.
    let newest = root.crl_numbered(&[1, 2], 2090, 300, 2023);
    for lists in [[&older, &newer], [&newer, &older]] {
        let lists: String = lists.into_iter().map(String::as_str).collect();
        let attestation = attestation(&[&root], &lists, false);
        assert!(identify(&attestation, &one).is_ok());
        assert_eq!(identify(&attestation, &two), Err(AttestationRefusal::Revoked));
    }
    for lists in [[&older, &newest, &newer], [&newest, &newer, &older]] {
        let lists: String = lists.into_iter().map(String::as_str).collect();
        let attestation = attestation(&[&root], &lists, true);
        assert_eq!(identify(&attestation, &one), Err(AttestationRefusal::Revoked));
    }
    // An expired list before a good one does no harm.
    let lists = root.crl_numbered(&[], 2025, 1, 2021) + &older;
    let strict = attestation(&[&root], &lists, true);
    assert!(identify(&strict, &two).is_ok());
    assert_eq!(identify(&strict, &one), Err(AttestationRefusal::Revoked));
}

/// A device may send several paths: a revoked factory does not affect the other path, and cannot
/// hide behind it.
#[test]
fn a_way_that_is_revoked_is_not_taken() {
    let (old, new) = (authority("maker"), authority("maker 2"));
    let factory = old.intermediate("factory");
    let crossed = factory.again_under(&new);
    let mut badge = factory.badge("device 1", 1);
    badge.chain.extend([factory.der.clone(), crossed.clone()]);
    let revoked = old.crl_serials(&[serial_number(&factory.der)], 2090, 1, 2022);
    let lax = attestation(&[&old, &new], &revoked, false);
    assert!(identify(&lax, &badge).is_ok());
    badge.chain.truncate(2);
    assert_eq!(identify(&lax, &badge), Err(AttestationRefusal::Revoked));
    let both = revoked + &new.crl_serials(&[serial_number(&crossed)], 2090, 1, 2022);
    lax.reload_crls(both.as_bytes()).unwrap();
    badge.chain.push(crossed);
    assert_eq!(identify(&lax, &badge), Err(AttestationRefusal::Revoked));
}

fn serial_number(certificate: &[u8]) -> Vec<u8> {
    let device = CertificateDer::from(certificate);
    webpki::EndEntityCert::try_from(&device).unwrap().serial().to_vec()
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
        let purposes = vec![Purpose::InsecureAny];
        let manufacturer = Manufacturer { name: "maker".to_owned(), roots: roots.into(), purposes };
        assert!(of_manufacturers(vec![manufacturer]).is_err(), "{roots}");
    }
    assert!(of_manufacturers(vec![]).is_err());
}

/// Over HTTP: without a certificate there is no token, and a device counts under all its
/// certificates.
#[tokio::test]
async fn certified_devices_get_tokens() {
    let root = authority("maker");
    let attestation = Arc::new(attestation(&[&root], &root.crl(&[666], 2090), true));
    let world = AttesterAndIssuer::attesting(attestation.clone()).await;
    let mut device = Device::new("one");
    let (old, new, revoked) =
        (root.badge("device 1", 1), root.badge("device 1", 2), root.badge("device 1", 666));
    let mut ask = async |badge: &Badge, origin: u8| {
        let attest = |message: &[u8]| badge.evidence(message);
        let request = device.attested_request(origin, [origin; 32], 1, attest);
        world.server.ask(&request).await
    };
    ask(&old, 1).await.token();
    assert_eq!(ask(&new, 1).await.status, 429, "a new certificate is not a new device");
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
    // A name is not evidence here.
    let named = world.server.ask(&Device::new("two").request(1)).await;
    assert_eq!(named.status, 403);
    assert_eq!(world.issuer.requests(), 2);
    // The certificate is revoked while the attester runs.
    attestation.reload_crls(root.crl(&[2], 2090).as_bytes()).unwrap();
    assert_eq!(ask(&new, 3).await.status, 403, "revoked while the attester runs");
}

/// Evidence is bound to the request: whoever intercepts it cannot use it for anything else.
#[tokio::test]
async fn evidence_serves_one_request() {
    let root = authority("maker");
    let world = AttesterAndIssuer::attesting(Arc::new(attestation(&[&root], "", false))).await;
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
