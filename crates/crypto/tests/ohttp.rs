//! Oblivious HTTP against another implementation: their client with our gateway, our client with
//! their gateway, and ours with ours.

use ohttp::hpke::{Aead, Kdf, Kem};
use ohttp::{ClientRequest, Server, SymmetricSuite};
use rand_chacha::ChaCha20Rng;
use rand_core::{CryptoRng, Rng, SeedableRng};
use sotto_crypto::hpke::Suite;
use sotto_crypto::ohttp::{open_request, seal_request};
use sotto_crypto::server_hpke::Opener;
use sotto_crypto::{HpkeError, HpkeKeypair};
use sotto_wire::ohttp::{
    EncapsulatedRequest, KeyConfig, RESPONSE_OVERHEAD, decode_key_list, encode_key_list,
    request_overhead,
};
use sotto_wire::{Decode, Encode, HpkeAeadId, HpkeConfig, HpkeConfigId, HpkeKdfId};

const ROUNDS: u64 = 100;

#[test]
fn their_client_with_our_gateway() {
    for seed in 0..ROUNDS {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let opener = gateway(seed as u8, &mut rng);
        let (question, answer) = messages(seed, &mut rng);
        let keys = encode_key_list(std::slice::from_ref(opener.config())).unwrap();
        let client = ClientRequest::from_encoded_config_list(&keys).unwrap();
        let (body, awaited) = client.encapsulate(&question).unwrap();
        assert_eq!(body.len(), question.len() + request_overhead(opener.config()));

        let opened = open_request(&opener, &EncapsulatedRequest::parse(&body).unwrap()).unwrap();
        assert_eq!(*opened.bhttp, question);
        assert_eq!(opened.enc, body[7..request_overhead(opener.config()) - 16]);
        let response = opened.responder.seal(&answer, &mut rng).unwrap();
        assert_eq!(response.len(), answer.len() + RESPONSE_OVERHEAD);
        assert_eq!(awaited.decapsulate(&response).unwrap(), answer);
    }
}

#[test]
fn our_client_with_their_gateway() {
    for seed in 0..ROUNDS {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let server = their_gateway(seed as u8, &mut rng);
        let (question, answer) = messages(seed, &mut rng);
        let (body, awaited) = seal_request(&offered(&server), &question, &mut rng).unwrap();
        assert_eq!(body.len(), question.len() + request_overhead(&offered(&server)));

        let (opened, responder) = server.decapsulate(&body).unwrap();
        assert_eq!(opened, question);
        let response = responder.encapsulate(&answer).unwrap();
        assert_eq!(*awaited.open(&response).unwrap(), answer);
    }
}

#[test]
fn our_client_with_our_gateway() {
    for seed in 0..ROUNDS {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let opener = gateway(seed as u8, &mut rng);
        let (question, answer) = messages(seed, &mut rng);
        let mut twin = rng.clone();
        let (body, awaited) = seal_request(opener.config(), &question, &mut rng).unwrap();
        let (again, _) = seal_request(opener.config(), &question, &mut twin).unwrap();
        assert_eq!(body, again, "equal randomness gives equal requests");
        let (other, _) = seal_request(opener.config(), &question, &mut rng).unwrap();
        let enc = 7..request_overhead(opener.config()) - 16;
        assert_ne!(body[enc.clone()], other[enc], "no two requests share a key");

        let opened = open_request(&opener, &EncapsulatedRequest::parse(&body).unwrap()).unwrap();
        assert_eq!(*opened.bhttp, question);
        let response = opened.responder.seal(&answer, &mut rng).unwrap();
        assert_eq!(*awaited.open(&response).unwrap(), answer);
    }
}

#[test]
fn an_answer_opens_for_its_own_request_alone() {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let opener = gateway(1, &mut rng);
    let (first, _awaited) = seal_request(opener.config(), b"question", &mut rng).unwrap();
    let (_second, other) = seal_request(opener.config(), b"question", &mut rng).unwrap();
    let opened = open_request(&opener, &EncapsulatedRequest::parse(&first).unwrap()).unwrap();
    let response = opened.responder.seal(b"answer", &mut rng).unwrap();
    assert_eq!(other.open(&response).unwrap_err(), HpkeError::Decrypt);
}

#[test]
fn a_request_to_another_key_of_the_same_id_does_not_open() {
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    let (ours, theirs) = (gateway(1, &mut rng), gateway(1, &mut rng));
    let (body, _) = seal_request(theirs.config(), b"question", &mut rng).unwrap();
    let request = EncapsulatedRequest::parse(&body).unwrap();
    assert_eq!(open_request(&ours, &request).unwrap_err(), HpkeError::Decrypt);
    assert!(open_request(&theirs, &request).is_ok());
}

#[test]
fn lists_of_keys_agree() {
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let theirs = [1, 6].map(|id| their_gateway(id, &mut rng).config().clone());
    let list = ohttp::KeyConfig::encode_list(&theirs).unwrap();
    let ours = decode_key_list(&list).unwrap();
    let encoded: Vec<_> = ours.iter().map(Encode::to_bytes).collect();
    assert_eq!(encoded, theirs.map(|config| config.encode().unwrap()));
    let again = ohttp::KeyConfig::decode_list(&list).unwrap();
    assert_eq!(again.len(), ours.len());
}

/// Keys with odd ids are hybrid.
fn gateway(id: u8, rng: &mut ChaCha20Rng) -> Opener {
    let suite = if id % 2 == 1 { Suite::Hybrid } else { Suite::X25519 };
    Opener::new(&HpkeKeypair::generate_for(suite, HpkeConfigId::new(id), rng)).unwrap()
}

/// Their gateway, which offers one more cipher than ours. Keys with odd ids are hybrid.
fn their_gateway(id: u8, rng: &mut ChaCha20Rng) -> Server {
    let mut ikm = [0; 32];
    rng.fill_bytes(&mut ikm);
    let suites = [Aead::ChaCha20Poly1305, Aead::Aes128Gcm]
        .map(|aead| SymmetricSuite::new(Kdf::HkdfSha256, aead));
    let kem = if id % 2 == 1 { Kem::XWing } else { Kem::X25519Sha256 };
    let config = ohttp::KeyConfig::derive(id, kem, suites.to_vec(), &ikm).unwrap();
    Server::new(config).unwrap()
}

/// Our suite, among those that they offer.
fn offered(server: &Server) -> HpkeConfig {
    let config = KeyConfig::from_bytes(&server.config().encode().unwrap()).unwrap();
    config.hpke_config(HpkeKdfId::HKDF_SHA256, HpkeAeadId::AES_128_GCM).unwrap()
}

/// Lengths around the block size first, then random ones; every tenth is large.
fn messages(seed: u64, rng: &mut impl CryptoRng) -> (Vec<u8>, Vec<u8>) {
    let edges = [0, 1, 15, 16, 17, 31, 32, 33];
    let mut message = |offset: u64| {
        let len = match (edges.get((seed + offset) as usize), seed % 10) {
            (Some(edge), _) => *edge,
            (None, 9) => 100_000,
            _ => rng.next_u32() as usize % 5_000,
        };
        let mut bytes = vec![0; len];
        rng.fill_bytes(&mut bytes);
        bytes
    };
    (message(0), message(3))
}
