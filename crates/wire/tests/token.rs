//! Layouts of rate-limited tokens, compared with the transcripts of a second implementation in
//! `vectors/tokens_0004`.

use sotto_testing::published::{array, bytes, rate_limited};
use sotto_wire::token::{
    EncapsulationKey, InnerTokenRequest, IssuerAnswer, IssuerAnswerBatch, MAX_TOKEN_BATCH, NK,
    ShortOpaque, TOKEN_LEN, TOKEN_RESPONSE_LEN, TOKEN_TYPE, Token, TokenChallenge, TokenRequest,
    TokenRequestBatch, attestation_message, byte_sequence, parse_byte_sequence, token_input,
};
use sotto_wire::{Decode, DecodeError, Encode};

#[test]
fn the_layouts_of_the_transcripts() {
    for transcript in rate_limited()["transcripts"].as_array().unwrap() {
        let (inputs, client) = (&transcript["inputs"], &transcript["client_request"]);
        let challenge = TokenChallenge::new(
            TOKEN_TYPE,
            inputs["issuer_name"].as_str().unwrap(),
            bytes(inputs, "redemption_context").try_into().ok(),
            inputs["origin_info"].as_str().unwrap(),
        )
        .unwrap();
        assert_eq!(challenge.to_bytes(), bytes(client, "token_challenge"));
        assert_eq!(TokenChallenge::from_bytes(&challenge.to_bytes()).as_ref(), Ok(&challenge));
        assert_eq!(challenge.digest(), array(client, "challenge_digest"));
        let nonce = array(inputs, "nonce");
        let input =
            token_input(TOKEN_TYPE, &nonce, &challenge.digest(), &array(client, "token_key_id"));
        assert_eq!(input, array(client, "token_input"));

        let inner = InnerTokenRequest {
            token_key_id: array::<1>(client, "truncated_token_key_id")[0],
            blinded_msg: array(client, "blinded_msg"),
            padded_origin_name: InnerTokenRequest::pad_origin_name(challenge.origin_info())
                .unwrap(),
        };
        assert_eq!(inner.to_bytes(), bytes(client, "inner_token_request"));
        assert_eq!(inner.origin_name().as_deref(), Ok(challenge.origin_info()));

        let encoded = bytes(client, "token_request");
        let request = TokenRequest::from_bytes(&encoded).unwrap();
        assert_eq!(request.request_key, array(client, "request_key"));
        assert_eq!(request.issuer_encap_key_id, array(client, "issuer_encap_key_id"));
        let encrypted = bytes(client, "encrypted_token_request");
        assert_eq!(*request.encrypted_token_request, encrypted[..]);
        assert_eq!(request.request_signature, array(client, "request_signature"));
        assert_eq!(request.signed_message(), bytes(client, "signed_message"));
        assert_eq!(request.to_bytes(), encoded);

        let response = bytes(&transcript["issuer"], "encrypted_token_response");
        assert_eq!(response.len(), TOKEN_RESPONSE_LEN);
        let encoded = bytes(&transcript["client_final"], "token");
        assert_eq!(encoded.len(), TOKEN_LEN);
        let token = Token::from_bytes(&encoded).unwrap();
        assert_eq!((token.nonce, token.input()), (nonce, input));
        assert_eq!(token.to_bytes(), encoded);
    }
}

#[test]
fn the_encapsulation_key_and_its_id() {
    let key = &rate_limited()["encap_keys"]["E1"];
    let decoded = EncapsulationKey::from_bytes(&bytes(key, "encapsulation_key")).unwrap();
    assert_eq!(decoded.id(), array(key, "issuer_encap_key_id"));
    assert_eq!(decoded.config().public_key(), bytes(key, "pk"));
    assert_eq!(decoded.config().id().value(), 1);
    let mut other = bytes(key, "encapsulation_key");
    other[2] = 0x10;
    assert_eq!(EncapsulationKey::from_bytes(&other), Err(DecodeError::Malformed("kem_id")));
}

#[test]
fn a_hybrid_encapsulation_key() {
    let config = sotto_testing::x_wing::config(vec![5; 1216]);
    let encoded = EncapsulationKey::from(&config).to_bytes();
    assert_eq!(encoded.len(), 1 + 2 + 1216 + 2 + 2);
    assert_eq!(EncapsulationKey::from_bytes(&encoded).unwrap().config(), &config);
    for len in 0..encoded.len() {
        assert!(EncapsulationKey::from_bytes(&encoded[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn the_headers_are_byte_sequences() {
    for transcript in rate_limited()["transcripts"].as_array().unwrap() {
        for (header, field) in [
            ("Sec-Token-Origin-Alias", "client_origin_alias"),
            ("Sec-Token-Request-Blind", "request_blind"),
        ] {
            let value = transcript["headers_to_attester"][header].as_str().unwrap();
            let expected = bytes(&transcript["inputs"], field);
            assert_eq!(parse_byte_sequence(value).as_ref(), Some(&expected));
            assert_eq!(byte_sequence(&expected), value);
        }
    }
    for bad in ["", ":", "AA==", ":AA==", ":A:", ":AA==:x", "\":AA==:\"", ":AA==:, :AA==:"] {
        assert_eq!(parse_byte_sequence(bad), None, "{bad}");
    }
    assert_eq!(parse_byte_sequence(&byte_sequence(&vec![0; 20_000])), None);
}

#[test]
fn names_are_padded_in_one_way() {
    let inner = |padded: Vec<u8>| InnerTokenRequest {
        token_key_id: 0,
        blinded_msg: [0; NK],
        padded_origin_name: ShortOpaque::new(padded).unwrap(),
    };
    for len in 1..100 {
        let name = "o".repeat(len);
        let padded = InnerTokenRequest::pad_origin_name(&name).unwrap();
        assert_eq!(padded.len(), len + 31 - (len - 1) % 32);
        assert_eq!(inner(padded.to_vec()).origin_name(), Ok(name));
        assert!(inner(padded[..padded.len() - 1].to_vec()).origin_name().is_err());
        let longer = [&padded[..], &[0; 32]].concat();
        assert!(inner(longer).origin_name().is_err());
    }
    assert!(inner(vec![0; 32]).origin_name().is_err());
    assert!(inner(vec![0xff; 32]).origin_name().is_err(), "not UTF-8");
    assert!(InnerTokenRequest::pad_origin_name("").is_err());
    assert!(InnerTokenRequest::pad_origin_name("a\0").is_err());
}

#[test]
fn challenges_keep_to_their_bounds() {
    assert!(TokenChallenge::new(4, "", None, "").is_err());
    assert!(TokenChallenge::new(4, "i".repeat(65_536), None, "").is_err());
    assert!(TokenChallenge::new(4, "i", None, "o".repeat(65_536)).is_err());
    // A context has 32 bytes or none.
    let short = [&[0, 4, 0, 1, b'i', 31][..], &[0; 31], &[0, 0]].concat();
    assert_eq!(
        TokenChallenge::from_bytes(&short),
        Err(DecodeError::Malformed("redemption_context"))
    );
}

#[test]
fn batches_keep_to_their_bounds() {
    let one = ShortOpaque::new(vec![1]).unwrap();
    assert!(TokenRequestBatch::new(Vec::new()).is_err());
    assert!(TokenRequestBatch::new(vec![one.clone(); MAX_TOKEN_BATCH]).is_ok());
    assert!(TokenRequestBatch::new(vec![one; MAX_TOKEN_BATCH + 1]).is_err());
    assert!(TokenRequestBatch::from_bytes(&[]).is_err());
    assert!(TokenRequestBatch::from_bytes(&[0, 0]).is_err(), "an empty request");
    let long = IssuerAnswer::Issued { index_key: [0; 32], limit: 1, response: vec![0; 65_536] };
    assert!(IssuerAnswerBatch::new(vec![long]).is_err());
    assert!(IssuerAnswerBatch::from_bytes(&[2, 0, 0]).is_err(), "neither issued nor refused");
}

#[test]
fn batches_may_be_cut_between_their_elements_alone() {
    let requests = [vec![1], vec![2; 300]].map(|bytes| ShortOpaque::new(bytes).unwrap());
    let batch = TokenRequestBatch::new(requests.to_vec()).unwrap().to_bytes();
    let accepted = |len: &usize| TokenRequestBatch::from_bytes(&batch[..*len]).is_ok();
    assert_eq!((0..=batch.len()).filter(accepted).collect::<Vec<_>>(), [3, 305]);
    let issued = IssuerAnswer::Issued { index_key: [0; 32], limit: 1, response: vec![0; 288] };
    let answers = vec![IssuerAnswer::Refused { status: 400 }, issued];
    let batch = IssuerAnswerBatch::new(answers).unwrap().to_bytes();
    let accepted = |len: &usize| IssuerAnswerBatch::from_bytes(&batch[..*len]).is_ok();
    assert_eq!((0..=batch.len()).filter(accepted).collect::<Vec<_>>(), [3, 334]);
}

#[test]
fn an_attestation_covers_all_that_the_attester_acts_on() {
    let [attester, issuer] =
        ["attester.example", "issuer.example"].map(|name| name.parse().unwrap());
    let message = attestation_message(&attester, &issuer, &[1; 32], &[2; 32], &[3; 32], b"body");
    let digest = "230d8358dc8e8890b4c58deeb62912ee2f20357ae92a5cc861b98e68fe31acb5";
    let expected = [
        &b"sotto attestation v1\0\0\x10attester.example\0\x0eissuer.example"[..],
        &[1; 32],
        &[2; 32],
        &[3; 32],
        &hex::decode(digest).unwrap(),
    ]
    .concat();
    assert_eq!(message, expected);
}

#[test]
fn debug_links_nothing() {
    let file = rate_limited();
    let transcript = &file["transcripts"][0];
    let request = bytes(&transcript["client_request"], "token_request");
    let token = bytes(&transcript["client_final"], "token");
    let answer = IssuerAnswer::Issued { index_key: [7; 32], limit: 1, response: vec![7] };
    let shown = format!(
        "{:?} {:?} {answer:?}",
        TokenRequest::from_bytes(&request).unwrap(),
        Token::from_bytes(&token).unwrap()
    );
    assert_eq!(
        shown,
        "TokenRequest { token_type: 4, .. } Token { token_type: 4, .. } Issued { limit: 1, .. }"
    );
}
