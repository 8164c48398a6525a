//! Published transcripts: RFC 9578's own for type 0x0002, and the RSA part of those for type
//! 0x0004.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sotto_testing::published::{array, bytes, rate_limited, vectors};
use sotto_wire::Decode;
use sotto_wire::token::{Token, TokenChallenge, token_input};

use super::*;

#[test]
fn the_vectors_of_rfc_9578() {
    let Some(file) = vectors("rfc9578_0x0002.json") else { return };
    let list = file["vectors"].as_array().unwrap();
    assert!(!list.is_empty());
    for vector in list {
        let pem = String::from_utf8(bytes(vector, "skS")).unwrap();
        let base64: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
        let issuer = IssuerKey::from_pkcs8(&STANDARD.decode(base64).unwrap()).unwrap();
        let key = TokenKey::parse_spki(&bytes(vector, "pkS")).unwrap();
        assert_eq!(issuer.token_key(), &key);

        let challenge = bytes(vector, "token_challenge");
        let challenge = TokenChallenge::from_bytes(&challenge).unwrap();
        let input = token_input(2, &array(vector, "nonce"), &challenge.digest(), key.id());
        let (blinded, unblinder) =
            blind_with(&key, &input, &array(vector, "salt"), &array(vector, "blind")).unwrap();
        let request = [&[0, 2, key.truncated_id()], &blinded[..]].concat();
        assert_eq!(request, bytes(vector, "token_request"));

        let response = issuer.blind_sign(&blinded).unwrap();
        assert_eq!(response[..], bytes(vector, "token_response"));
        let authenticator = unblinder.finalize(&key, &input, &response).unwrap();
        let token = bytes(vector, "token");
        assert_eq!([&input[..], &authenticator].concat(), token);
        let token = Token::from_bytes(&token).unwrap();
        let verifier = TokenVerifier::new(&key).unwrap();
        verifier.verify(&token.input(), &token.authenticator).unwrap();
    }
}

#[test]
fn the_rsa_of_the_rate_limited_transcripts() {
    let file = rate_limited();
    let transcripts = file["transcripts"].as_array().unwrap();
    assert_eq!(transcripts.len(), 4);
    for transcript in transcripts {
        let origin = &file["origins"][transcript["origin"].as_str().unwrap()];
        let issuer = IssuerKey::from_pkcs8(&bytes(origin, "pkcs8_der")).unwrap();
        let key = TokenKey::parse_spki(&bytes(origin, "spki_der")).unwrap();
        assert_eq!(issuer.token_key(), &key);
        assert_eq!(key.id()[..], bytes(origin, "token_key_id"));
        assert_eq!(key.origin_name(), origin["origin_name"].as_str().unwrap());

        let inputs = &transcript["inputs"];
        let request = &transcript["client_request"];
        let input = bytes(request, "token_input");
        let salt = array(inputs, "salt");
        assert_eq!(pss::encode(&input, &salt)[..], bytes(request, "pss_encoded"));
        let (blinded, unblinder) =
            blind_with(&key, &input, &salt, &array(inputs, "rsa_blind")).unwrap();
        assert_eq!(blinded[..], bytes(request, "blinded_msg"));
        assert_eq!(unblinder.to_bytes()[..], bytes(request, "blind_inv"));

        let blind_sig = issuer.blind_sign(&blinded).unwrap();
        assert_eq!(blind_sig[..], bytes(&transcript["issuer"], "blind_sig"));
        let authenticator = unblinder.finalize(&key, &input, &blind_sig).unwrap();
        assert_eq!(authenticator[..], bytes(&transcript["client_final"], "authenticator"));
        TokenVerifier::new(&key).unwrap().verify(&input, &authenticator).unwrap();
    }
}
