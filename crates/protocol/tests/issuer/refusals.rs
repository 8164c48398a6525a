//! What the issuer refuses, compared with the honest request.

use std::collections::BTreeSet;

use curve25519_dalek::constants::EIGHT_TORSION;
use curve25519_dalek::{EdwardsPoint, Scalar};
use rand_chacha::ChaCha20Rng;
use rand_core::Rng;
use sha2::{Digest, Sha512};
use sotto_crypto::blind_rsa::TokenVerifier;
use sotto_crypto::key_blinding::{ClientSecret, PublicKey};
use sotto_crypto::rate_limited::{
    CLIENT_CONTEXT, ISSUER_CONTEXT, issuer_origin_alias, participation_secret, seal_inner_request,
};
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::Moment;
use sotto_protocol::issuer::{IssuerRefusal, consume_token_request};
use sotto_testing::asking::{ask, ask_for, seal};
use sotto_testing::keys::rng;
use sotto_testing::published::rate_limited;
use sotto_wire::token::{
    EncapsulationKey, InnerTokenRequest, IssuerAnswer, ShortOpaque, TOKEN_TYPE, TokenRequest,
};
use sotto_wire::{Decode, Encode, HpkeConfigId};

use crate::issuer::keys::{EXPIRES, Issuer, NOW, WINDOW, array, bytes};

fn client() -> ClientSecret {
    ClientSecret::generate(&mut rng(1))
}

/// The inner part of an honest request to `O1`.
fn inner(issuer: &Issuer) -> InnerTokenRequest {
    inner_for(issuer, &issuer.token_key("O1").origin_name())
}

/// The same for another name.
fn inner_for(issuer: &Issuer, name: &str) -> InnerTokenRequest {
    InnerTokenRequest {
        token_key_id: issuer.token_key("O1").truncated_id(),
        blinded_msg: [0x11; 256],
        padded_origin_name: InnerTokenRequest::pad_origin_name(name).unwrap(),
    }
}

fn answer_to(issuer: &Issuer, inner: &InnerTokenRequest) -> Result<IssuerAnswer, IssuerRefusal> {
    issuer.answer(&seal(&client(), inner, &issuer.config(), &mut rng(3)).0)
}

/// The request with a change, signed again by the same device.
fn changed(issuer: &Issuer, change: impl FnOnce(&mut TokenRequest<'static>)) -> Vec<u8> {
    let (client, rng) = (client(), &mut rng(4));
    let (body, blind, _) = seal(&client, &inner(issuer), &issuer.config(), rng);
    let decoded = TokenRequest::from_bytes(&body).unwrap();
    let mut request = TokenRequest {
        encrypted_token_request: decoded.encrypted_token_request.clone().into_owned(),
        ..decoded
    };
    change(&mut request);
    request.request_signature =
        client.sign_blinded(&blind, CLIENT_CONTEXT, &request.signed_message());
    request.to_bytes()
}

#[test]
fn an_honest_device_gets_a_token_that_verifies() {
    let (issuer, client, rng) = (Issuer::new(), client(), &mut rng(2));
    let key = issuer.token_key("O1");
    let asked = ask(&client, &key, &issuer.config(), rng);
    let Ok(IssuerAnswer::Issued { index_key, limit: 1, response }) = issuer.answer(&asked.body)
    else {
        panic!("refused");
    };
    let blind_sig = asked.response.open(&response).unwrap();
    let authenticator = asked.unblinder.finalize(&key, &asked.input, &blind_sig).unwrap();
    TokenVerifier::new(&key).unwrap().verify(&asked.input, &authenticator).unwrap();
    // What the attester computes from the index key depends only on device and origin.
    let index_key = PublicKey::parse(&index_key).unwrap();
    let secret = issuer.origins.origin(&key.origin_name()).unwrap().0.secret();
    let expected = client.public_key().blind(secret.expose(), ISSUER_CONTEXT);
    assert_eq!(index_key.unblind(&asked.request_blind, CLIENT_CONTEXT), expected);
}

#[test]
fn the_same_request_gets_the_same_signature_under_any_nonce() {
    let (issuer, rng) = (Issuer::new(), &mut rng(2));
    let asked = ask(&client(), &issuer.token_key("O2"), &issuer.config(), rng);
    let answers = [[1; 16], [2; 16]].map(|nonce| {
        let (keyring, origins) = (&issuer.keyring, &issuer.origins);
        let now = Moment(EXPIRES.0 - 1);
        match consume_token_request(&asked.body, keyring, origins, now, WINDOW, &nonce).unwrap() {
            IssuerAnswer::Issued { index_key, response, .. } => {
                (index_key, response.clone(), asked.response.open(&response).unwrap())
            }
            IssuerAnswer::Refused { .. } => panic!("refused"),
        }
    });
    let [(index_a, sealed_a, sig_a), (index_b, sealed_b, sig_b)] = answers;
    assert!(index_a == index_b && sig_a == sig_b && sealed_a != sealed_b);
}

#[test]
fn every_cut_every_flip_and_every_addition_is_refused() {
    let (issuer, rng) = (Issuer::new(), &mut rng(5));
    let body = ask(&client(), &issuer.token_key("O1"), &issuer.config(), rng).body;
    for end in 0..body.len() {
        assert_eq!(issuer.answer(&body[..end]), Err(IssuerRefusal::Malformed));
    }
    let longer = [&body[..], b"\0"].concat();
    assert_eq!(issuer.answer(&longer), Err(IssuerRefusal::Malformed));
    for place in 0..body.len() {
        let mut flipped = body.clone();
        flipped[place] ^= 1 << (place % 8);
        assert!(issuer.answer(&flipped).is_err(), "{place}");
    }
}

#[test]
fn the_outer_request_must_be_right_even_if_it_is_signed() {
    let issuer = Issuer::new();
    assert!(issuer.answer(&changed(&issuer, |_| ())).is_ok());
    for other in [0, 1, 2, 3, 5, 0xffff] {
        let body = changed(&issuer, |request| request.token_type = other);
        assert_eq!(issuer.answer(&body), Err(IssuerRefusal::TokenType));
    }
    let body = changed(&issuer, |request| request.issuer_encap_key_id[31] ^= 1);
    assert_eq!(issuer.answer(&body), Err(IssuerRefusal::EncapsulationKey));
    let body = changed(&issuer, |request| {
        let mut sealed = request.encrypted_token_request.to_vec();
        sealed[100] ^= 1;
        request.encrypted_token_request = ShortOpaque::new(sealed).unwrap();
    });
    assert_eq!(issuer.answer(&body), Err(IssuerRefusal::Sealed));
    for len in [1, 31, 32, 47, 48] {
        let body = changed(&issuer, |request| {
            request.encrypted_token_request = ShortOpaque::new(vec![9; len]).unwrap();
        });
        assert_eq!(issuer.answer(&body), Err(IssuerRefusal::Sealed), "{len}");
    }
    // Sealed for another request key: the inner part of somebody else's request.
    let stolen = TokenRequest::from_bytes(&changed(&issuer, |_| ()))
        .map(|request| request.encrypted_token_request.into_owned())
        .unwrap();
    let (client, rng) = (ClientSecret::generate(&mut rng(77)), &mut rng(6));
    let (body, blind, _) = seal(&client, &inner(&issuer), &issuer.config(), rng);
    let mut request = TokenRequest::from_bytes(&body).unwrap();
    request.encrypted_token_request = stolen;
    request.request_signature =
        client.sign_blinded(&blind, CLIENT_CONTEXT, &request.signed_message());
    assert_eq!(issuer.answer(&request.to_bytes()), Err(IssuerRefusal::Sealed));
}

#[test]
fn another_key_of_the_same_number_is_not_the_issuers() {
    let (issuer, rng) = (Issuer::new(), &mut rng(8));
    let other = HpkeKeypair::generate(HpkeConfigId::new(1), rng);
    let body = ask(&client(), &issuer.token_key("O1"), other.config(), rng).body;
    assert_eq!(issuer.answer(&body), Err(IssuerRefusal::EncapsulationKey));
}

#[test]
fn request_keys_that_are_not_valid_are_refused() {
    let (issuer, vectors) = (Issuer::new(), rate_limited());
    let mut refused = 0;
    for check in vectors["public_key_checks"].as_array().unwrap() {
        let key = array(&check["key"]);
        let expected = match check["valid"].as_bool().unwrap() {
            true => IssuerRefusal::Signature,
            false => IssuerRefusal::RequestKey,
        };
        refused += usize::from(expected == IssuerRefusal::RequestKey);
        let body = changed(&issuer, |request| request.request_key = key);
        assert_eq!(issuer.answer(&body), Err(expected), "{}", check["why"]);
    }
    assert_eq!(refused, 17);
    for line in vectors["mixed_order_demo"]["lines"].as_array().unwrap() {
        let key = array(&line["request_key"]);
        let body = changed(&issuer, |request| request.request_key = key);
        assert_eq!(issuer.answer(&body), Err(IssuerRefusal::RequestKey));
        assert!(PublicKey::parse(&key).is_err() && bytes(&line["message"]) == b"demonstration");
    }
}

/// Everything is correct except for the key's component of order 8: signature and sealing pass.
#[test]
fn a_torsioned_request_key_is_refused_although_its_signature_verifies() {
    let issuer = Issuer::new();
    torsion_is_refused(&issuer, &inner(&issuer));
    let issuer = Issuer::with_participations(Some(3));
    torsion_is_refused(&issuer, &inner_for(&issuer, &issuer.token_key("O1").participation_name(2)));
}

fn torsion_is_refused(issuer: &Issuer, inner: &InnerTokenRequest) {
    let (config, rng) = (issuer.config(), &mut rng(9));
    for (index, torsion) in EIGHT_TORSION.into_iter().enumerate() {
        let secret = random_scalar(rng);
        let point = EdwardsPoint::mul_base(&secret) + torsion;
        let request_key = point.compress().to_bytes();
        let (sealed, _) = seal_inner_request(&config, &request_key, inner, rng).unwrap();
        let mut request = TokenRequest {
            token_type: TOKEN_TYPE,
            request_key,
            issuer_encap_key_id: EncapsulationKey::from(&config).id(),
            encrypted_token_request: ShortOpaque::new(sealed).unwrap(),
            request_signature: [0; 64],
        };
        request.request_signature = sign(&secret, &point, &request.signed_message(), rng);
        let answer = issuer.answer(&request.to_bytes());
        match index {
            0 => assert!(answer.is_ok()),
            _ => assert_eq!(answer, Err(IssuerRefusal::RequestKey)),
        }
    }
}

/// A signature that verifies under `point`, whatever its component of small order: the challenge is
/// a multiple of 8.
fn sign(secret: &Scalar, point: &EdwardsPoint, message: &[u8], rng: &mut ChaCha20Rng) -> [u8; 64] {
    loop {
        let nonce = random_scalar(rng);
        let commitment = EdwardsPoint::mul_base(&nonce);
        let hash = Sha512::new()
            .chain_update(commitment.compress().as_bytes())
            .chain_update(point.compress().as_bytes())
            .chain_update(message);
        let challenge = Scalar::from_bytes_mod_order_wide(&hash.finalize().into());
        if challenge.as_bytes()[0] & 7 != 0 {
            continue;
        }
        let response = nonce + challenge * secret;
        assert_eq!(EdwardsPoint::mul_base(&response), commitment + challenge * point);
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(commitment.compress().as_bytes());
        signature[32..].copy_from_slice(response.as_bytes());
        return signature;
    }
}

fn random_scalar(rng: &mut ChaCha20Rng) -> Scalar {
    let mut wide = [0; 64];
    rng.fill_bytes(&mut wide);
    Scalar::from_bytes_mod_order_wide(&wide)
}

#[test]
fn an_expired_key_signs_nothing() {
    let (issuer, rng) = (Issuer::new(), &mut rng(10));
    let body = ask(&client(), &issuer.token_key("O1"), &issuer.config(), rng).body;
    let at =
        |now| consume_token_request(&body, &issuer.keyring, &issuer.origins, now, WINDOW, &[0; 16]);
    assert!(at(Moment(EXPIRES.0 - 1)).is_ok());
    for late in [EXPIRES.0, EXPIRES.0 + 1, u64::MAX] {
        assert_eq!(at(Moment(late)), Err(IssuerRefusal::Expired));
    }
}

/// The window was made shorter after the key was made.
#[test]
fn a_key_that_outlives_the_window_signs_nothing() {
    let (issuer, rng) = (Issuer::new(), &mut rng(11));
    let body = ask(&client(), &issuer.token_key("O1"), &issuer.config(), rng).body;
    let at = |now, window_s| {
        consume_token_request(&body, &issuer.keyring, &issuer.origins, now, window_s, &[0; 16])
    };
    for window_s in [0, 1, WINDOW - 1] {
        let refused = at(NOW, window_s).unwrap_err();
        assert_eq!(refused, IssuerRefusal::BeyondWindow);
        assert_eq!((refused.code(), refused.name()), (400, "beyond_window"));
    }
    assert!(at(NOW, WINDOW).is_ok());
    // Once the rest of its life fits, it signs again.
    assert!(at(Moment(NOW.0 + 1), WINDOW - 1).is_ok());
}

#[test]
fn origins_and_key_ids_must_fit() {
    let issuer = Issuer::new();
    assert!(answer_to(&issuer, &inner(&issuer)).is_ok());
    let pad = |name: &str| InnerTokenRequest::pad_origin_name(name).unwrap();
    let name = issuer.token_key("O1").origin_name();
    for unknown in ["x", "issuer.example", &name.to_uppercase(), &name[..63], &format!("{name}0")] {
        let inner = InnerTokenRequest { padded_origin_name: pad(unknown), ..inner(&issuer) };
        assert_eq!(answer_to(&issuer, &inner), Err(IssuerRefusal::UnknownOrigin), "{unknown}");
    }
    let other = InnerTokenRequest {
        padded_origin_name: pad(&issuer.token_key("O2").origin_name()),
        ..inner(&issuer)
    };
    let refusal = answer_to(&issuer, &other).unwrap_err();
    assert_eq!((refusal, refusal.code()), (IssuerRefusal::TokenKeyId, 401));
    // The first byte of the key's id is not its last one.
    let first = InnerTokenRequest { token_key_id: 0xc0, ..inner(&issuer) };
    assert_eq!(answer_to(&issuer, &first), Err(IssuerRefusal::TokenKeyId));
}

/// A key for a series has an origin for each of its participations, and nothing else: not the name of
/// the key, which is that of a plain recipe, and no participation beyond.
#[test]
fn each_participation_is_an_origin_and_no_other_is_known() {
    let (issuer, client, rng) = (Issuer::with_participations(Some(3)), client(), &mut rng(2));
    let key = issuer.token_key("O1");
    let mut aliases = BTreeSet::new();
    for number in 0..3 {
        let ask = |rng: &mut ChaCha20Rng| {
            let name = key.participation_name(number);
            let asked = ask_for(&client, &key, &name, &issuer.config(), rng);
            let Ok(IssuerAnswer::Issued { index_key, limit: 1, response }) =
                issuer.answer(&asked.body)
            else {
                panic!("refused");
            };
            let blind_sig = asked.response.open(&response).unwrap();
            let token = asked.unblinder.finalize(&key, &asked.input, &blind_sig).unwrap();
            TokenVerifier::new(&key).unwrap().verify(&asked.input, &token).unwrap();
            let index_key = PublicKey::parse(&index_key).unwrap();
            index_key.unblind(&asked.request_blind, CLIENT_CONTEXT)
        };
        let result = ask(rng);
        assert_eq!(ask(rng), result, "one alias for each participation");
        let secret: [u8; 32] = array(&rate_limited()["origins"]["O1"]["issuer_origin_secret"]);
        let secret = participation_secret(&Secret::new(secret), number);
        assert_eq!(client.public_key().blind(secret.expose(), ISSUER_CONTEXT), result);
        aliases.insert(issuer_origin_alias(&result, &client.public_key()));
    }
    assert_eq!(aliases.len(), 3);
    let unknown = [key.origin_name(), key.participation_name(3), key.participation_name(u32::MAX)];
    let another = issuer.token_key("O2").participation_name(0);
    for name in unknown {
        let refusal = answer_to(&issuer, &inner_for(&issuer, &name)).unwrap_err();
        assert_eq!(refusal, IssuerRefusal::UnknownOrigin);
    }
    let refusal = answer_to(&issuer, &inner_for(&issuer, &another)).unwrap_err();
    assert_eq!(refusal, IssuerRefusal::TokenKeyId);
    // A key for a plain recipe has no participations.
    let plain = Issuer::new();
    let refusal = answer_to(&plain, &inner_for(&plain, &key.participation_name(0))).unwrap_err();
    assert_eq!(refusal, IssuerRefusal::UnknownOrigin);
}

#[test]
fn names_have_one_padding() {
    let issuer = Issuer::new();
    let name = issuer.token_key("O1").origin_name().into_bytes();
    let longer = [&name[..], &[0; 32]].concat();
    let shifted = [&[0], &name[..]].concat();
    let not_text = vec![0xff; 32];
    for padded in [longer, shifted, vec![0; 32], vec![0; 64], name[..63].to_vec(), not_text] {
        let padded_origin_name = ShortOpaque::new(padded.clone()).unwrap();
        let inner = InnerTokenRequest { padded_origin_name, ..inner(&issuer) };
        assert_eq!(answer_to(&issuer, &inner), Err(IssuerRefusal::OriginName), "{padded:x?}");
    }
}

#[test]
fn blinded_messages_are_numbers_below_the_modulus() {
    let (issuer, vectors) = (Issuer::new(), rate_limited());
    let modulus: [u8; 256] = array(&vectors["origins"]["O1"]["n"]);
    let (mut plus, mut minus, mut one) = ([modulus; 2], [modulus; 2], [0; 256]);
    plus[0][255] += 1;
    plus[1][0] = 0xff;
    minus[0][255] -= 1;
    minus[1][255] -= 2;
    one[255] = 1;
    for (blinded_msg, fine) in [
        (minus[1], true),
        ([1; 256], true),
        (modulus, false),
        (plus[0], false),
        (plus[1], false),
        ([0xff; 256], false),
        // These are their own signatures: no honest device sends them.
        (minus[0], false),
        ([0; 256], false),
        (one, false),
    ] {
        let inner = InnerTokenRequest { blinded_msg, ..inner(&issuer) };
        let answer = answer_to(&issuer, &inner);
        match fine {
            true => assert!(answer.is_ok()),
            false => assert_eq!(answer, Err(IssuerRefusal::BlindedMessage)),
        }
    }
}

#[test]
fn every_refusal_has_a_name_and_a_status_that_tells_nothing_more() {
    let mut names: Vec<_> = IssuerRefusal::ALL.iter().map(|refusal| refusal.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), IssuerRefusal::ALL.len());
    for refusal in IssuerRefusal::ALL {
        let status = match refusal {
            IssuerRefusal::TokenKeyId => 401,
            IssuerRefusal::Fault => 500,
            _ => 400,
        };
        assert_eq!(refusal.code(), status);
    }
}
