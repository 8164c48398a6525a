//! What the issuer sees does not depend on the device.
//!
//! Two devices draw the same random numbers and ask for the same origin. Nothing that the issuer
//! receives tells them apart except the request key, which a fresh blind makes uniform among the
//! keys of the group, and what is computed from it: the signature, and the ciphertext through its
//! associated data.

use std::collections::BTreeSet;

use curve25519_dalek::edwards::CompressedEdwardsY;
use curve25519_dalek::scalar::clamp_integer;
use curve25519_dalek::{EdwardsPoint, Scalar};
use sha2::{Digest, Sha512};
use sotto_crypto::HpkeKeypair;
use sotto_crypto::key_blinding::{ClientSecret, PublicKey};
use sotto_crypto::rate_limited::{CLIENT_CONTEXT, open_inner_request};
use sotto_crypto::server_hpke::Opener;
use sotto_testing::asking::ask;
use sotto_testing::keys::rng;
use sotto_wire::token::{InnerTokenRequest, TokenRequest};
use sotto_wire::{Decode, Encode, HpkeConfigId};

use crate::issuer::keys::Issuer;

/// Everything in a request, opened.
fn view(client: &ClientSecret, issuer: &HpkeKeypair, seed: u64) -> (Vec<u8>, InnerTokenRequest) {
    let key = Issuer::new().token_key("O1");
    let body = ask(client, &key, issuer.config(), &mut rng(seed)).body;
    let request = TokenRequest::from_bytes(&body).unwrap();
    let opener = Opener::new(issuer).unwrap();
    let (inner, _) = open_inner_request(&opener, &request).unwrap();
    (body, inner)
}

#[test]
fn swapping_two_devices_changes_nothing_but_blinded_values() {
    let issuer = HpkeKeypair::generate(HpkeConfigId::new(3), &mut rng(1));
    let [one, two] = [2, 3].map(|seed| ClientSecret::generate(&mut rng(seed)));
    for seed in 100..110 {
        let (body_one, inner_one) = view(&one, &issuer, seed);
        let (body_two, inner_two) = view(&two, &issuer, seed);
        assert_eq!(inner_one.to_bytes(), inner_two.to_bytes());
        assert_eq!(body_one.len(), body_two.len());
        let (a, b) =
            (TokenRequest::from_bytes(&body_one).unwrap(), TokenRequest::from_bytes(&body_two));
        let b = b.unwrap();
        assert_eq!(a.token_type, b.token_type);
        assert_eq!(a.issuer_encap_key_id, b.issuer_encap_key_id);
        // The encapsulated key and the ciphertext belong to the same plaintext; only the tag covers
        // the key.
        let (sealed_a, sealed_b) = (&a.encrypted_token_request, &b.encrypted_token_request);
        let tag = sealed_a.len() - 16;
        assert_eq!(sealed_a[..tag], sealed_b[..tag]);
        assert_ne!(a.request_key, b.request_key);
    }
}

#[test]
fn request_keys_never_repeat_and_never_show_the_client_key() {
    let issuer = HpkeKeypair::generate(HpkeConfigId::new(3), &mut rng(1));
    let client = ClientSecret::generate(&mut rng(2));
    let mut seen = BTreeSet::from([*client.public_key().as_bytes()]);
    for seed in 0..64 {
        let (body, _) = view(&client, &issuer, seed);
        let request = TokenRequest::from_bytes(&body).unwrap();
        assert!(seen.insert(request.request_key));
        assert!(PublicKey::parse(&request.request_key).is_ok());
        let public_key = client.public_key();
        assert!(!body.windows(32).any(|window| window == public_key.as_bytes()));
    }
}

/// For any request key and any device there is one blinding factor that leads from the device's key
/// to it. The factor is a fresh hash, so any device could have sent any request.
#[test]
fn any_request_key_could_be_any_devices() {
    let clients = [2, 3, 4].map(|seed| ClientSecret::generate(&mut rng(seed)));
    for sender in &clients {
        let (blind, ctx) = ([9; 32], CLIENT_CONTEXT);
        let request_key = *sender.public_key().blind(&blind, ctx).as_bytes();
        let hash = Sha512::new().chain_update(blind).chain_update([0]).chain_update(ctx).finalize();
        let factor = Scalar::from_bytes_mod_order(hash[..32].try_into().unwrap());
        for other in &clients {
            let other_factor = factor * scalar(sender) * scalar(other).invert();
            let other_key = point(&other.public_key());
            assert_eq!((other_key * other_factor).compress().to_bytes(), request_key);
        }
    }
}

/// Two devices swap at the issuer of one chain and not at that of the other: the issuers together see
/// nothing but blinded values change. So they cannot tell which of their requests belong to one
/// device.
#[test]
fn the_issuers_of_two_chains_cannot_pair_their_requests() {
    let issuers = [1, 4].map(|seed| HpkeKeypair::generate(HpkeConfigId::new(3), &mut rng(seed)));
    let attesters = ["attester-a.example", "attester-b.example"];
    let seeds = [[2; 32], [3; 32]];
    let client =
        |device: usize, chain: usize| ClientSecret::for_attester(&seeds[device], attesters[chain]);
    for seed in 100..110 {
        let view =
            |device, chain| view(&client(device, chain), &issuers[chain], seed + chain as u64);
        let [(a, inner_a), (b, inner_b)] = [view(0, 0), view(0, 1)];
        let (swapped, inner_swapped) = view(1, 1);
        assert_eq!(inner_b.to_bytes(), inner_swapped.to_bytes());
        assert_ne!(inner_a.blinded_msg, inner_b.blinded_msg);
        let keys = [&a, &b, &swapped].map(|body| TokenRequest::from_bytes(body).unwrap());
        let keys: BTreeSet<_> = keys.iter().map(|request| request.request_key).collect();
        assert_eq!(keys.len(), 3);
    }
    // A device's two keys are unrelated, and blinding is the same for every pair of keys: whichever
    // device asked at the other issuer, one factor leads to this request key.
    let (blind, ctx) = ([9; 32], CLIENT_CONTEXT);
    let sender = client(0, 1);
    let request_key = *sender.public_key().blind(&blind, ctx).as_bytes();
    let hash = Sha512::new().chain_update(blind).chain_update([0]).chain_update(ctx).finalize();
    let factor = Scalar::from_bytes_mod_order(hash[..32].try_into().unwrap());
    let other = client(1, 1);
    let other_factor = factor * scalar(&sender) * scalar(&other).invert();
    let made = (point(&other.public_key()) * other_factor).compress().to_bytes();
    assert_eq!(made, request_key);
    assert_ne!(client(0, 0).public_key().as_bytes(), sender.public_key().as_bytes());
}

fn scalar(client: &ClientSecret) -> Scalar {
    let hash = Sha512::digest(client.expose());
    Scalar::from_bytes_mod_order(clamp_integer(hash[..32].try_into().unwrap()))
}

fn point(key: &PublicKey) -> EdwardsPoint {
    CompressedEdwardsY(*key.as_bytes()).decompress().unwrap()
}
