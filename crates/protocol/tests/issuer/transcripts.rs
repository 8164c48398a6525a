//! The transcripts of a second implementation, byte for byte.

use sotto_protocol::issuer::consume_token_request;
use sotto_testing::published::rate_limited;
use sotto_wire::token::IssuerAnswer;

use crate::issuer::keys::{Issuer, NOW, WINDOW, array, bytes};

#[test]
fn every_transcript_gets_its_answer() {
    let (vectors, issuer) = (rate_limited(), Issuer::new());
    let all = vectors["transcripts"].as_array().unwrap();
    assert_eq!(all.len(), 4);
    for transcript in all {
        let request = bytes(&transcript["client_request"]["token_request"]);
        let nonce = array(&transcript["inputs"]["response_nonce"]);
        let answer =
            consume_token_request(&request, &issuer.keyring, &issuer.origins, NOW, WINDOW, &nonce);
        let expected = IssuerAnswer::Issued {
            index_key: array(&transcript["issuer"]["index_key"]),
            limit: 1,
            response: bytes(&transcript["issuer"]["encrypted_token_response"]),
        };
        assert!(answer == Ok(expected), "{}", transcript["id"]);
    }
}

#[test]
fn negatives_get_their_verdict() {
    let (vectors, issuer) = (rate_limited(), Issuer::new());
    let mut refused = 0;
    for negative in vectors["negatives"].as_array().unwrap() {
        let answer = issuer.answer(&bytes(&negative["token_request"]));
        let expected = &negative["expected"]["issuer_if_forwarded"];
        let expected = if expected.is_null() { &negative["expected"]["issuer"] } else { expected };
        match expected["verdict"].as_str().unwrap() {
            "accept" => assert!(answer.is_ok(), "{}", negative["id"]),
            "reject" => {
                let status = answer.unwrap_err().code();
                assert_eq!(u64::from(status), expected["http_status"].as_u64().unwrap());
                refused += 1;
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(refused, 2);
}
