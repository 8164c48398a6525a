use rand_core::SeedableRng;
use sotto_testing::published::{array, bytes, rate_limited, vectors};
use sotto_testing::rfc9180::Fixed;
use sotto_wire::token::TokenRequest;
use sotto_wire::{Decode, HpkeConfigId};

use super::*;
use crate::server_hpke::Opener;
use crate::{HpkeKeypair, Secret};

fn keypair(key: &serde_json::Value) -> HpkeKeypair {
    let config = EncapsulationKey::from_bytes(&bytes(key, "encapsulation_key")).unwrap();
    HpkeKeypair::from_parts(config.into(), Secret::new(array(key, "sk"))).unwrap()
}

#[test]
fn the_transcripts() {
    let file = rate_limited();
    let opener = Opener::new(&keypair(&file["encap_keys"]["E1"])).unwrap();
    let transcripts = file["transcripts"].as_array().unwrap();
    assert_eq!(transcripts.len(), 4);
    for transcript in transcripts {
        let (inputs, client) = (&transcript["inputs"], &transcript["client_request"]);
        let encoded = bytes(client, "token_request");
        let request = TokenRequest::from_bytes(&encoded).unwrap();
        assert_eq!(request.signed_message(), bytes(client, "signed_message"));
        assert_eq!(
            request_aad(opener.config(), TOKEN_TYPE, &request.request_key),
            bytes(client, "aad")
        );
        let inner = bytes(client, "inner_token_request");
        let inner = InnerTokenRequest::from_bytes(&inner).unwrap();
        let (sealed, secret) = seal_inner_request(
            opener.config(),
            &request.request_key,
            &inner,
            &mut Fixed(array::<32>(inputs, "hpke_ephemeral_ikm")),
        )
        .unwrap();
        assert_eq!(sealed, bytes(client, "encrypted_token_request"));

        let (opened, sealer) = open_inner_request(&opener, &request).unwrap();
        assert_eq!(opened, inner);
        assert_eq!(opened.origin_name().unwrap().as_bytes(), bytes(client, "origin_name"));
        let issuer = &transcript["issuer"];
        let blind_sig = array(issuer, "blind_sig");
        let response = sealer.seal(&blind_sig, &array(inputs, "response_nonce")).unwrap();
        assert_eq!(response, bytes(issuer, "encrypted_token_response"));
        let kept = ResponseSecret::from_bytes(&secret.to_bytes()).unwrap();
        assert_eq!(kept.open(&response), Ok(blind_sig));
    }
}

/// What a device stores until the answer comes opens it, in both suites.
#[test]
fn a_stored_secret_opens_the_answer() {
    let id = HpkeConfigId::new(1);
    for (keypair, len) in [
        (HpkeKeypair::generate(id, &mut Fixed([1; 32])), 32 + KEY_LEN),
        (HpkeKeypair::generate_hybrid(id, &mut Fixed([1; 32])), 1120 + KEY_LEN),
    ] {
        let labels = Labels { info: INFO, aad: b"aad", export: EXPORT_LABEL };
        let mut rng = rand_chacha::ChaCha20Rng::from_seed([2; 32]);
        let (sealed, secret) = seal_labelled(keypair.config(), labels, b"inner", &mut rng).unwrap();
        let opener = Opener::new(&keypair).unwrap();
        let (inner, sealer) = open_labelled(&opener, labels, &sealed).unwrap();
        assert_eq!(*inner, b"inner");
        let answer = sealer.seal(&[7; NK], &[3; 16]).unwrap();
        let stored = secret.to_bytes();
        assert_eq!(stored.len(), len);
        assert_eq!(ResponseSecret::from_bytes(&stored).unwrap().open(&answer), Ok([7; NK]));
        let other = ResponseSecret::from_bytes(&stored[1..]).unwrap();
        assert_eq!(other.open(&answer), Err(HpkeError::Decrypt));
    }
    assert!(ResponseSecret::from_bytes(&[0; KEY_LEN - 1]).is_none());
}

#[test]
fn the_aliases_of_the_transcripts() {
    for transcript in rate_limited()["transcripts"].as_array().unwrap() {
        let (inputs, attester) = (&transcript["inputs"], &transcript["attester"]);
        let secret = ClientSecret::new(array(inputs, "client_secret"));
        let index_key = PublicKey::parse(&array(&transcript["issuer"], "index_key")).unwrap();
        let index_result = index_key.unblind(&array(inputs, "request_blind"), CLIENT_CONTEXT);
        assert_eq!(*index_result.as_bytes(), array(attester, "index_result"));
        let alias = issuer_origin_alias(&index_result, &secret.public_key());
        assert_eq!(alias, array(attester, "issuer_origin_alias"));
        let origin = inputs["origin_info"].as_str().unwrap();
        let alias = client_origin_alias(&secret, origin, inputs["issuer_name"].as_str().unwrap());
        assert_eq!(alias, array(inputs, "client_origin_alias"));
    }
}

#[test]
fn every_changed_or_missing_byte_of_a_request_is_refused() {
    let file = rate_limited();
    let opener = Opener::new(&keypair(&file["encap_keys"]["E1"])).unwrap();
    let encoded = bytes(&file["transcripts"][0]["client_request"], "token_request");
    let open = |encoded: &[u8]| {
        let request = TokenRequest::from_bytes(encoded).unwrap();
        open_inner_request(&opener, &request).map(|(inner, _)| inner)
    };
    assert!(open(&encoded).is_ok());
    for at in (0..encoded.len() - 64).filter(|at| !(66..68).contains(at)) {
        let mut bad = encoded.clone();
        bad[at] ^= 1;
        let expected = match at {
            34..66 => HpkeError::WrongConfigId,
            _ => HpkeError::Decrypt,
        };
        assert_eq!(open(&bad).unwrap_err(), expected, "byte {at}");
    }
    let mut request = TokenRequest::from_bytes(&encoded).unwrap();
    let sealed = request.encrypted_token_request.clone();
    for len in 1..sealed.len() {
        let cut = sotto_wire::token::ShortOpaque::new(&sealed[..len]).unwrap();
        request.encrypted_token_request = cut;
        let opened = open_inner_request(&opener, &request);
        assert_eq!(opened.unwrap_err(), HpkeError::Decrypt, "{len} bytes");
    }
}

#[test]
fn every_changed_or_missing_byte_of_a_response_is_refused() {
    let keypair = HpkeKeypair::generate(HpkeConfigId::new(1), &mut Fixed([1; 32]));
    let opener = Opener::new(&keypair).unwrap();
    let labels = Labels { info: INFO, aad: b"", export: EXPORT_LABEL };
    let (sealed, secret) =
        seal_labelled(keypair.config(), labels, b"", &mut Fixed([2; 32])).unwrap();
    let (_, sealer) = open_labelled(&opener, labels, &sealed).unwrap();
    let good = sealer.seal(&[5; NK], &[6; 16]).unwrap();
    assert_eq!(secret.open(&good), Ok([5; NK]));
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert_eq!(secret.open(&bad), Err(HpkeError::Decrypt), "byte {at}");
        assert_eq!(secret.open(&good[..at]), Err(HpkeError::Decrypt), "{at} bytes");
    }
    // Correctly sealed, but not a blind signature.
    let short = sealer.0.seal(&[5; NK - 1], &[6; 16]).unwrap();
    assert_eq!(secret.open(&short), Err(HpkeError::Decrypt));
}

/// The published example of the inner request has an older layout, and the info string of that
/// time.
#[test]
fn the_published_older_request_opens() {
    let Some(file) = vectors("rate_limit_tokens_06.json") else { return };
    let vector = &file["origin_name_encryption"];
    let id = HpkeConfigId::new(1);
    let keypair =
        HpkeKeypair::generate(id, &mut Fixed(array::<32>(vector, "issuer_encap_key_seed")));
    let key = EncapsulationKey::from(keypair.config());
    assert_eq!(key.to_bytes(), bytes(vector, "issuer_encap_key"));
    assert_eq!(key.id(), array(vector, "issuer_encap_key_id"));
    let token_key_id = vector["token_key_id"].as_str().unwrap().parse().unwrap();
    let aad = [&[1, 0, 0x20, 0, 1, 0, 1, 0, 3, token_key_id][..], &key.id()].concat();
    let sealed = bytes(vector, "encrypted_token_request");
    let labels = |info| Labels { info, aad: &aad, export: b"TokenResponse" };
    let opener = Opener::new(&keypair).unwrap();
    let (plaintext, _) = open_labelled(&opener, labels(b"TokenRequest"), &sealed).unwrap();
    let mut name = bytes(vector, "origin_name");
    name.resize(32, 0);
    let expected =
        [&bytes(vector, "blinded_msg")[..], &bytes(vector, "request_key"), &[0, 32], &name]
            .concat();
    assert_eq!(*plaintext, expected);
    assert_eq!(open_labelled(&opener, labels(INFO), &sealed).unwrap_err(), HpkeError::Decrypt);
}

/// HKDF-SHA512 without salt, computed by another implementation (Python's hmac and hashlib).
#[test]
fn each_participation_has_an_origin_secret_of_its_own() {
    let secret = Secret::new([7; 32]);
    for (number, expected) in [
        (0, "038a5a1de9d6320e92cb31d02b2176ad58c526c0dfbc1ec9e80bc18ba00de35d"),
        (1, "cb85e429d1eff610dcffa34e80a47211c9a140f80c220e8098de520f08f96660"),
        (256, "71fa2ed256a38d2669ee2cd0eb9dada4ee1bdb24bc6facfce44cf6fef3f29166"),
    ] {
        assert_eq!(hex::encode(participation_secret(&secret, number).expose()), expected);
    }
    // So the attester has an alias for each, and none of them is that of the key itself.
    let client = ClientSecret::new([5; 32]).public_key();
    let alias = |secret: &Secret<[u8; 32]>| {
        issuer_origin_alias(&client.blind(secret.expose(), ISSUER_CONTEXT), &client)
    };
    let mut aliases: std::collections::BTreeSet<_> =
        (0..256).map(|number| alias(&participation_secret(&secret, number))).collect();
    aliases.insert(alias(&secret));
    assert_eq!(aliases.len(), 257);
}

#[test]
fn debug_shows_no_secret() {
    let keypair = HpkeKeypair::generate(HpkeConfigId::new(1), &mut Fixed([1; 32]));
    let labels = Labels { info: INFO, aad: b"", export: EXPORT_LABEL };
    let (_, secret) = seal_labelled(keypair.config(), labels, b"", &mut Fixed([2; 32])).unwrap();
    assert_eq!(format!("{secret:?}"), "ResponseSecret([redacted])");
}
