//! How a device shows which device it is.

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519};
use sotto_client::{DeviceCertificate, InsecureName};
use sotto_protocol::token::Attestor;
use sotto_wire::Decode;
use sotto_wire::token::evidence::AttestationEvidence;

fn certificate(key: &KeyPair) -> rcgen::Certificate {
    CertificateParams::new(Vec::new()).unwrap().self_signed(key).unwrap()
}

#[test]
fn a_certificate_signs_each_message_with_its_own_key() {
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let (device, above) = (certificate(&key), certificate(&KeyPair::generate().unwrap()));
    let chain = format!("{}{}", device.pem(), above.pem());
    let attestor = DeviceCertificate::from_pem(chain.as_bytes(), &key.serialize_pem()).unwrap();
    let evidence = attestor.attest(b"a message").unwrap();
    let AttestationEvidence::X509(evidence) = AttestationEvidence::from_bytes(&evidence).unwrap()
    else {
        panic!("another kind");
    };
    assert_eq!(evidence.chain().len(), 2);
    assert_eq!(&evidence.chain()[0][..], &device.der()[..]);
    assert_eq!(&evidence.chain()[1][..], &above.der()[..]);
    assert_eq!(evidence.scheme(), 0x0807);
    let public_key: [u8; 32] = key.public_key_raw().try_into().unwrap();
    let public_key = ed25519_dalek::VerifyingKey::from_bytes(&public_key).unwrap();
    let signature = ed25519_dalek::Signature::from_slice(evidence.signature()).unwrap();
    assert!(public_key.verify_strict(b"a message", &signature).is_ok());
    assert!(public_key.verify_strict(b"another", &signature).is_err());
    assert_ne!(attestor.attest(b"another").unwrap(), attestor.attest(b"a message").unwrap());
}

#[test]
fn what_is_no_certificate_or_no_key_is_refused_at_once() {
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let (pem, text) = (certificate(&key).pem(), key.serialize_pem());
    let other = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap().serialize_pem();
    let from = |chain: &str, key: &str| DeviceCertificate::from_pem(chain.as_bytes(), key);
    assert!(from(&pem, &text).is_ok());
    for (chain, key) in [(pem.as_str(), other.as_str()), (&pem, ""), ("", &text), (&text, &text)] {
        assert!(from(chain, key).is_err());
    }
    assert!(from(&pem.repeat(9), &text).is_err(), "no chain is that long");
    assert!(!format!("{:?}", from(&pem, &text).unwrap()).contains(&text[40..60]));
}

#[test]
fn a_name_has_1_to_64_bytes() {
    for (length, taken) in [(0, false), (1, true), (64, true), (65, false)] {
        assert_eq!(InsecureName::new("n".repeat(length)).is_ok(), taken);
    }
    assert!(!format!("{:?}", InsecureName::new("secret-name").unwrap()).contains("secret-name"));
}
