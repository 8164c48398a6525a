//! The transcripts of a second implementation.

use super::*;

fn encap_key_ids(vectors: &Value) -> Vec<[u8; 32]> {
    let keys = vectors["encap_keys"].as_object().unwrap();
    keys.values().map(|entry| key(&entry["issuer_encap_key_id"])).collect()
}

#[test]
fn aliases_are_those_of_the_transcripts() {
    let vectors = rate_limited();
    let key_ids = encap_key_ids(&vectors);
    for transcript in vectors["transcripts"].as_array().unwrap() {
        let (request, inputs) = (&transcript["client_request"], &transcript["inputs"]);
        let body = hex(&request["token_request"]);
        let ask = Ask {
            body: &body,
            client_key: key(&request["client_key"]),
            request_blind: key(&inputs["request_blind"]),
            client_alias: key(&inputs["client_origin_alias"]),
        };
        let forwarded = consume_token_request(&ask, &key_ids).unwrap();
        let response = hex(&transcript["issuer"]["encrypted_token_response"]);
        let index_key = key(&transcript["issuer"]["index_key"]);
        let answer =
            IssuerAnswer::Issued { index_key, limit: TOKEN_LIMIT, response: response.clone() };
        let issued = consume_issuer_answer(&forwarded, &answer).unwrap();
        assert_eq!(issued.alias.to_vec(), hex(&transcript["attester"]["issuer_origin_alias"]));
        assert_eq!(issued.response, response);
    }
}

#[test]
fn negatives_get_their_verdicts() {
    let vectors = rate_limited();
    let key_ids = encap_key_ids(&vectors);
    for negative in vectors["negatives"].as_array().unwrap() {
        let body = hex(&negative["token_request"]);
        let ask = ask(&body, key(&negative["client_key"]), key(&negative["request_blind"]));
        let outcome = consume_token_request(&ask, &key_ids);
        let expected = &negative["expected"]["attester_request"];
        match expected["verdict"].as_str().unwrap() {
            "accept" => assert!(outcome.is_ok(), "{}", negative["id"]),
            _ => {
                let status = super::status(outcome.unwrap_err());
                assert_eq!(Some(u64::from(status)), expected["http_status"].as_u64());
            }
        }
    }
}
