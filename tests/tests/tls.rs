//! The same over TLS: both aggregators have certificates of a private authority.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};
use sotto_tests::cli::{collect, upload};
use sotto_tests::pair::{Aggregator, Pair};
use sotto_tests::process::run;

/// Writes an authority and a certificate for `localhost`; returns the paths of authority, chain and
/// key.
fn certificates(folder: &Path) -> (PathBuf, PathBuf, PathBuf) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let server_key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let server = server.signed_by(&server_key, &authority).unwrap();
    let paths = (folder.join("ca.pem"), folder.join("cert.pem"), folder.join("key.pem"));
    fs::write(&paths.0, authority.pem()).unwrap();
    fs::write(&paths.1, server.pem()).unwrap();
    fs::write(&paths.2, server_key.serialize_pem()).unwrap();
    paths
}

fn secure(aggregator: &mut Aggregator, (ca, cert, key): &(PathBuf, PathBuf, PathBuf)) {
    let (ca, cert, key) = (json!(ca), json!(cert), json!(key));
    aggregator.configure(&format!("[tls]\ncert = {cert}\nkey = {key}\nca = {ca}")).unwrap();
    aggregator.url = format!("https://localhost:{}/", aggregator.address().port());
}

#[test]
fn all_parties_over_tls() {
    let mut pair = Pair::new().unwrap();
    let paths = certificates(pair.folder());
    secure(&mut pair.leader, &paths);
    secure(&mut pair.helper, &paths);
    let options = ["--vdaf", "histogram", "--length", "10", "--min-batch-size", "20"];
    let files = pair.add_task("tls", &options).unwrap();
    pair.start().unwrap();
    let time = files.past_time().unwrap();
    let measurements: Vec<Value> = (0..20).map(|device| json!(device % 10)).collect();
    let ca = paths.0.to_string_lossy().into_owned();
    let uploaded = upload(&files, &measurements, time, pair.folder(), &["--ca", &ca]).unwrap();
    assert_eq!(uploaded["accepted"], 20);
    let collected = collect(&files, Some(time), &["--deadline", "60", "--ca", &ca]).unwrap();
    assert_eq!(collected["result"], json!(vec![2; 10]));
    // A certificate of an authority that the device does not know is refused.
    let task = files.path("client").to_string_lossy().into_owned();
    let stranger = ["upload", "--task", &task, "--measurement", "1", "--attempts", "1"];
    assert_eq!(run(stranger).unwrap().status.code(), Some(2));
}
