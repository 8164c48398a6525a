//! Keys outside the prime-order subgroup, of small order, or not canonical: each would break the
//! limit.

use super::*;

#[test]
fn no_such_client_key_is_registered() {
    let vectors = rate_limited();
    let request = honest(20);
    let body = request.request.to_bytes();
    let mut invalid = 0;
    for check in vectors["public_key_checks"].as_array().unwrap() {
        let refused = refusal(&body, key(&check["key"]), request.blind);
        if check["valid"].as_bool().unwrap() {
            assert_eq!(refused, Some(AttesterRefusal::Blind), "{check}");
        } else {
            invalid += 1;
            assert_eq!(refused, Some(AttesterRefusal::ClientKey), "{check}");
        }
    }
    assert!(invalid >= 17);
}

#[test]
fn no_such_request_key_is_passed_on() {
    let vectors = rate_limited();
    for check in vectors["public_key_checks"].as_array().unwrap() {
        let mut request = honest(21);
        request.request.request_key = key(&check["key"]);
        request.sign();
        let expected = match check["valid"].as_bool().unwrap() {
            true => AttesterRefusal::Blind,
            false => AttesterRefusal::RequestKey,
        };
        assert_eq!(request.refusal(), Some(expected), "{check}");
    }
}

#[test]
fn no_such_index_key_is_counted_by() {
    let vectors = rate_limited();
    let request = honest(22);
    let body = request.request.to_bytes();
    let client_key = *request.secret.public_key().as_bytes();
    let forwarded =
        consume_token_request(&ask(&body, client_key, request.blind), &[ENCAP_KEY]).unwrap();
    for check in vectors["public_key_checks"].as_array().unwrap() {
        let index_key = key(&check["key"]);
        let answer = IssuerAnswer::Issued { index_key, limit: TOKEN_LIMIT, response: vec![3; 288] };
        let refused = consume_issuer_answer(&forwarded, &answer).err();
        let is_valid = check["valid"].as_bool().unwrap();
        assert_eq!(refused, (!is_valid).then_some(AttesterRefusal::IndexKey), "{check}");
    }
}

/// The attack of the transcripts: each line would give a different alias for one origin, under one
/// client key.
#[test]
fn a_torsioned_client_key_gets_nothing() {
    let demo = &rate_limited()["mixed_order_demo"];
    let client_key = key(&demo["client_key"]);
    for line in demo["lines"].as_array().unwrap() {
        let mut request = honest(23);
        request.request.request_key = key(&line["request_key"]);
        let body = request.request.to_bytes();
        let refused = refusal(&body, client_key, key(&line["request_blind"]));
        assert_eq!(refused, Some(AttesterRefusal::ClientKey));
    }
}
