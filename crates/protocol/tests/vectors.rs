//! Token test vectors: our own transcripts and those of others, and that every value in them is
//! checked.

use serde_json::{Value, json};
use sotto_testing::published::{rate_limited, vectors};
use sotto_testing::vectors::{Checked, check};

fn passes(file: &Value) -> Checked {
    check(&file.to_string()).unwrap().unwrap_or_else(|difference| panic!("{difference}"))
}

fn difference(file: &Value) -> String {
    check(&file.to_string()).unwrap().unwrap_err().to_string()
}

/// The pointers to all texts below `value`, except prose and `left_out`.
fn texts(value: &Value, at: &str, left_out: &[&str], found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(at.to_owned()),
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                texts(value, &format!("{at}/{index}"), left_out, found);
            }
        }
        Value::Object(object) => {
            for (name, value) in object.iter().filter(|(name, _)| {
                !["comment", "kind", "note", "reason", "source", "what", "why"]
                    .contains(&name.as_str())
                    && !left_out.contains(&name.as_str())
            }) {
                texts(value, &format!("{at}/{name}"), left_out, found);
            }
        }
        _ => {}
    }
}

/// Changes one character of each text in turn: none of the changed files may pass.
fn every_changed_text_is_found(file: &Value, below: &str, left_out: &[&str]) -> usize {
    let mut found = Vec::new();
    texts(file.pointer(below).unwrap(), below, left_out, &mut found);
    for pointer in &found {
        let text = file.pointer(pointer).unwrap().as_str().unwrap();
        let mut changed: Vec<char> = text.chars().collect();
        let middle = changed.len() / 2;
        match changed.get_mut(middle) {
            Some(character) => *character = if *character == '5' { '6' } else { '5' },
            None => changed.push('5'),
        }
        let mut other = file.clone();
        *other.pointer_mut(pointer).unwrap() = changed.into_iter().collect::<String>().into();
        let outcome = check(&other.to_string());
        assert!(!matches!(outcome, Some(Ok(_))), "{pointer} was changed, and nobody noticed");
    }
    found.len()
}

#[test]
fn our_transcripts_pass() {
    let checked = passes(&rate_limited());
    assert_eq!(checked.about, "rate-limited tokens 0x0004");
    assert!(checked.values > 280, "{checked:?}");
    // 4 transcripts, 3 steps that pass, N1's issuer, N3's attester, one valid key.
    assert_eq!((checked.accepted, checked.refused), (10, 23));
}

#[test]
fn published_vectors_pass() {
    for (name, least) in
        [("key_blinding.json", 30), ("rfc9578_0x0002.json", 27), ("rate_limit_tokens_06.json", 19)]
    {
        if let Some(file) = vectors(name) {
            let checked = passes(&file);
            assert!(checked.values >= least, "{name}: {checked:?}");
        }
    }
}

#[test]
fn a_changed_character_anywhere_in_a_transcript_is_found() {
    let mut file = rate_limited();
    // The rest of the file is checked elsewhere, and is slow.
    file["transcripts"].as_array_mut().unwrap().truncate(1);
    file["relations"] = json!([{ "a": "T1", "b": "T1", "same_client": true }]);
    file["negatives"] = json!([]);
    file["attester_sequence"]["steps"].as_array_mut().unwrap().truncate(1);
    file.as_object_mut().unwrap().remove("mixed_order_demo");
    file["origins"].as_object_mut().unwrap().remove("O2");
    passes(&file);
    assert_eq!(every_changed_text_is_found(&file, "/transcripts/0", &[]), 71);
}

#[test]
fn a_changed_character_in_the_rest_of_the_file_is_found() {
    let file = rate_limited();
    for section in ["constants", "clients", "encap_keys", "relations", "public_key_checks"] {
        // An encoding that is not a key may well be changed into another that is not one.
        let left_out: &[&str] = if section == "public_key_checks" { &["key"] } else { &[] };
        every_changed_text_is_found(&file, &format!("/{section}"), left_out);
    }
    every_changed_text_is_found(&file, "/origins/O1", &[]);
    every_changed_text_is_found(&file, "/mixed_order_demo", &[]);
    // N1: the blind is wrong in any case. N2: the request is wrong in any case.
    every_changed_text_is_found(&file, "/negatives/0", &["id", "request_blind"]);
    every_changed_text_is_found(&file, "/negatives/2", &["id"]);
}

#[test]
fn a_changed_character_in_published_vectors_is_found() {
    for name in ["key_blinding.json", "rfc9578_0x0002.json", "rate_limit_tokens_06.json"] {
        if let Some(file) = vectors(name) {
            every_changed_text_is_found(&file, "", &[]);
        }
    }
}

#[test]
fn differences_name_the_transcript_and_the_field() {
    let mut file = rate_limited();
    file["transcripts"][2]["attester"]["index_result"] = "00".into();
    assert!(difference(&file).starts_with("T3.attester.index_result: the file says 00, "));
    let mut file = rate_limited();
    file["negatives"][2]["expected"]["issuer"]["http_status"] = 400.into();
    assert_eq!(
        difference(&file),
        "N3.expected.issuer.http_status: the file says 400, computed is 401"
    );
    let mut file = rate_limited();
    file["attester_sequence"]["steps"][1]["to_client"] = 200.into();
    assert_eq!(
        difference(&file),
        "attester_sequence.steps[1].to_client: the file says 200, computed is 429"
    );
    let mut file = rate_limited();
    file["relations"][1]["same_origin"] = false.into();
    assert!(difference(&file).starts_with("relations[1].same_origin: "));
    let mut file = rate_limited();
    file["public_key_checks"][9]["valid"] = true.into();
    assert!(difference(&file).starts_with("public_key_checks[9].valid: "));
}

#[test]
fn what_cannot_be_checked_does_not_pass() {
    let mut file = rate_limited();
    file["transcripts"][0]["issuer"]["extra"] = "00".into();
    assert!(difference(&file).starts_with("T1.issuer.extra: is not known"));
    let mut file = rate_limited();
    file["surprise"] = json!([1]);
    assert!(difference(&file).starts_with("surprise: is not known"));
    let mut file = rate_limited();
    file["transcripts"][0]["issuer"].as_object_mut().unwrap().remove("blind_sig");
    assert_eq!(difference(&file), "T1.issuer.blind_sig: is missing");
    let mut file = rate_limited();
    file["negatives"][0]["expected"] = json!({ "somebody": "reject" });
    assert!(difference(&file).starts_with("N1.expected.somebody: is not a party"));
}

#[test]
fn other_files_are_not_ours() {
    for text in ["", "{}", "[]", "{\"operations\":[]}", "{\"format\":\"another\"}"] {
        assert_eq!(check(text), None, "{text}");
    }
}

/// Adds a negative with `T1` as its base and these fields.
fn with_negative(fields: Value) -> Value {
    let mut file = rate_limited();
    let mut negative = json!({ "id": "N9", "base": "T1" });
    negative.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    file["negatives"].as_array_mut().unwrap().push(negative);
    file
}

/// T1's field with the last digit changed.
fn tampered(group: &str, field: &str) -> String {
    let file = rate_limited();
    let text = file["transcripts"][0][group][field].as_str().unwrap().to_owned();
    let last = if text.ends_with('0') { '1' } else { '0' };
    format!("{}{last}", &text[..text.len() - 1])
}

#[test]
fn negatives_of_any_kind_go_to_the_party_that_they_name() {
    let reject = json!({ "verdict": "reject", "http_status": 400 });
    let response = tampered("issuer", "encrypted_token_response");
    passes(&with_negative(json!({
        "encrypted_token_response": response, "expected": { "client": { "verdict": "reject" } },
    })));
    passes(&with_negative(json!({ "expected": { "client": "accept", "token_verifies": true } })));
    let forged = tampered("client_final", "token");
    for party in ["token_verifies", "client", "verifier"] {
        let expected = json!({ party: if party == "token_verifies" { json!(false) } else { json!("reject") } });
        passes(&with_negative(json!({ "token": forged, "expected": expected })));
    }
    let other = rate_limited()["transcripts"][3]["client_final"]["token"].clone();
    passes(&with_negative(json!({ "token": other, "expected": { "token_verifies": false } })));
    // A key with a component of small order, and one that is too short.
    let mixed = rate_limited()["public_key_checks"][9]["key"].clone();
    for key in [mixed.clone(), json!("00")] {
        passes(&with_negative(
            json!({ "client_key": key, "expected": { "attester_request": reject } }),
        ));
    }
    let index = json!({ "index_key": mixed, "expected": { "attester_response": reject } });
    passes(&with_negative(index));
    let limit = json!({ "limit": 2, "expected": { "attester_response": reject } });
    passes(&with_negative(limit));
    // Another token type, another encapsulation key, a request that ends early.
    let request = rate_limited()["transcripts"][0]["client_request"]["token_request"]
        .as_str()
        .unwrap()
        .to_owned();
    for bad in [
        format!("0003{}", &request[4..]),
        format!("{}00{}", &request[..70], &request[72..]),
        request[..request.len() - 2].to_owned(),
        tampered("client_request", "token_request"),
    ] {
        passes(&with_negative(json!({
            "token_request": bad,
            "expected": { "attester_request": reject, "issuer_if_forwarded": reject },
        })));
    }
    // The second request for an origin, once the first was granted.
    let late = json!({ "verdict": "reject", "http_status": 429 });
    let mut file =
        with_negative(json!({ "after": ["T1"], "expected": { "attester_response": late } }));
    file["negatives"][3]["base"] = "T2".into();
    passes(&file);
}

#[test]
fn a_wrong_verdict_is_found() {
    for expected in [
        json!({ "client": "reject" }),
        json!({ "token_verifies": false }),
        json!({ "issuer": { "verdict": "reject", "http_status": 400 } }),
        json!({ "attester_request": "reject" }),
        json!({ "attester_response": "reject" }),
        json!({ "attester_request": { "verdict": "perhaps" } }),
        json!({}),
    ] {
        let file = with_negative(json!({ "expected": expected }));
        assert!(difference(&file).starts_with("N9"), "{expected}");
    }
}
