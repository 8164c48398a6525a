//! At the most verbose documented log level, with good and bad requests, no secret, address or
//! report id appears in the log output.

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;
use sotto_tests::cli::{collect, upload};
use sotto_tests::http::{Connection, Response, head};
use sotto_tests::pair::{Pair, get};
use sotto_wire::MediaType;

/// Every form in which bytes might be printed.
fn spellings(bytes: &[u8]) -> Vec<String> {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let list = format!("{bytes:?}").trim_matches(['[', ']']).to_owned();
    vec![hex.to_uppercase(), hex, list, URL_SAFE_NO_PAD.encode(bytes), STANDARD.encode(bytes)]
}

/// The values of quoted strings in a secret file, under keys that name secrets.
fn secrets_of(text: &str) -> Vec<String> {
    let is_secret =
        |key: &str| ["token", "private_key", "verify_key"].iter().any(|part| key.contains(part));
    text.lines()
        .filter_map(|line| line.split_once(" = "))
        .filter(|(key, _)| is_secret(key))
        .map(|(_, value)| value.trim_matches('"').to_owned())
        .collect()
}

#[test]
fn nothing_that_identifies_or_reveals_is_logged() {
    let mut pair = Pair::new().unwrap();
    pair.leader.log_level = "debug";
    pair.helper.log_level = "debug";
    let files = pair.add_task("logs", &["--vdaf", "sum", "--max-measurement", "999983"]).unwrap();
    pair.start().unwrap();
    let time = files.past_time().unwrap();

    let prepared = pair.folder().join("prepared");
    let path = prepared.to_string_lossy().into_owned();
    let measurements = vec![json!(424_243); 100];
    upload(&files, &measurements, time, pair.folder(), &["--prepare-only", "--out", &path])
        .unwrap();
    let bytes = fs::read(&prepared).unwrap();
    let report_len = u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
    let reports: Vec<&[u8]> = bytes.chunks(4 + report_len).map(|chunk| &chunk[4..]).collect();

    // Uploads that are refused: garbage, another media type, a damaged report, a replay.
    let mut connection = Connection::open(pair.leader.address()).unwrap();
    let url = format!("/tasks/{}/reports", files.task().id());
    let mut post = |media_type: &str, body: &[u8]| -> Response {
        let head = head("POST", &url, &[("content-type", media_type)], body.len());
        connection.exchange(&head, body).unwrap()
    };
    let upload_req = MediaType::UploadReq.as_str();
    assert_eq!(post(upload_req, b"garbage").status, 400);
    assert!((400..500).contains(&post("text/plain", reports[0]).status));
    let mut damaged = reports[0].to_vec();
    damaged[report_len - 1] ^= 1;
    damaged[0] ^= 1;
    assert_eq!(post(upload_req, &damaged).status, 200);
    for report in &reports {
        assert_eq!(post(upload_req, report).status, 200);
    }
    post(upload_req, reports[1]);
    // A collector with another token.
    let jobs = format!("/tasks/{}/collection_jobs", files.task().id());
    let refused = get(pair.leader.address(), &format!("{jobs}/nothing")).unwrap();
    assert!((400..500).contains(&refused.status));
    let collected = collect(&files, Some(time), &["--deadline", "60"]).unwrap();
    assert_eq!(collected["count"], 100);

    let devices_address = connection.local_address().unwrap().to_string();
    let mut forbidden = vec![devices_address, "424243".into(), "42424300".into()];
    for party in ["leader", "helper", "collector"] {
        forbidden.extend(secrets_of(&fs::read_to_string(files.path(party)).unwrap()));
    }
    for aggregator in [&pair.leader, &pair.helper] {
        let key = fs::read_to_string(aggregator.data_dir().join("hpke_key.toml")).unwrap();
        forbidden.extend(secrets_of(&key));
    }
    assert!(forbidden.len() >= 3 + 3 + 2 + 2 + 2, "{}", forbidden.len());
    forbidden.extend(reports.iter().flat_map(|report| spellings(&report[..16])));
    for aggregator in [&pair.leader, &pair.helper] {
        let log = aggregator.log_text();
        assert!(log.contains("serving"), "{log}");
        for secret in &forbidden {
            assert!(!log.contains(secret.as_str()), "{secret} is in\n{log}");
        }
    }
    // Nor do they appear in the metrics.
    for aggregator in [&pair.leader, &pair.helper] {
        let metrics = get(aggregator.admin_address(), "/metrics").unwrap();
        let metrics = String::from_utf8(metrics.body).unwrap();
        assert!(forbidden.iter().all(|secret| !metrics.contains(secret.as_str())));
    }
}
