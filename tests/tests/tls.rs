//! The same over TLS: both aggregators have certificates of a private authority.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use sotto_tests::cli::{collect, upload};
use sotto_tests::pair::{Aggregator, Pair};
use sotto_tests::process::run;

/// The paths of an authority, of a chain and of its key.
type Paths = (PathBuf, PathBuf, PathBuf);
type Authority = CertifiedIssuer<'static, KeyPair>;

/// Writes an authority and a certificate for `localhost`.
fn certificates(folder: &Path) -> (Authority, Paths) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let paths = (folder.join("ca.pem"), folder.join("cert.pem"), folder.join("key.pem"));
    fs::write(&paths.0, authority.pem()).unwrap();
    renew(&authority, &paths);
    (authority, paths)
}

/// Writes a new certificate for `localhost` over the old one, and returns it.
fn renew(authority: &Authority, (_, cert, key): &Paths) -> Vec<u8> {
    let server_key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let server = server.signed_by(&server_key, authority).unwrap();
    fs::write(cert, server.pem()).unwrap();
    fs::write(key, server_key.serialize_pem()).unwrap();
    server.der().to_vec()
}

fn secure(aggregator: &mut Aggregator, (ca, cert, key): &Paths) {
    let (ca, cert, key) = (json!(ca), json!(cert), json!(key));
    aggregator.configure(&format!("[tls]\ncert = {cert}\nkey = {key}\nca = {ca}")).unwrap();
    aggregator.url = format!("https://localhost:{}/", aggregator.address().port());
}

#[test]
fn all_parties_over_tls() {
    let mut pair = Pair::new().unwrap();
    let (_, paths) = certificates(pair.folder());
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

/// A client that stays on its connection, and sees the certificate.
struct Client(BufReader<StreamOwned<ClientConnection, TcpStream>>);

impl Client {
    fn connect(config: &Arc<ClientConfig>, address: SocketAddr) -> Self {
        let tls = ClientConnection::new(Arc::clone(config), "localhost".try_into().unwrap());
        let tcp = TcpStream::connect(address).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(StreamOwned::new(tls.unwrap(), tcp)))
    }

    /// Asks for the HPKE keys. Panics unless the whole answer arrives.
    fn get(&mut self) {
        self.0
            .get_mut()
            .write_all(b"GET /hpke_config HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .unwrap();
        let (mut status, mut length) = (String::new(), 0);
        self.0.read_line(&mut status).unwrap();
        assert!(status.starts_with("HTTP/1.1 200"), "{status:?}");
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            match line.trim_end().split_once(": ") {
                Some(("content-length", text)) => length = text.parse().unwrap(),
                Some(_) => {}
                None => break,
            }
        }
        assert!(length > 0);
        self.0.read_exact(&mut vec![0; length]).unwrap();
    }

    fn certificate(&self) -> Vec<u8> {
        self.0.get_ref().conn.peer_certificates().unwrap()[0].to_vec()
    }
}

/// Longer than any machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until new connections to these servers get this certificate.
fn wait_for(certificate: &[u8], config: &Arc<ClientConfig>, addresses: [SocketAddr; 2]) {
    let start = Instant::now();
    let is_renewed = |address| {
        let mut client = Client::connect(config, address);
        client.get();
        client.certificate() == certificate
    };
    while !addresses.into_iter().all(is_renewed) {
        assert!(start.elapsed() < PATIENCE, "the certificate is not renewed");
    }
}

/// Clients keep asking, on one connection and on a new one each, and devices send,
/// and leader and helper talk to each other, while the certificates of both are renewed 100 times by
/// SIGHUP, and once by replacing the files alone.
#[cfg(unix)]
#[test]
fn a_renewed_certificate_costs_no_request() {
    let mut pair = Pair::new().unwrap();
    let (authority, paths) = certificates(pair.folder());
    secure(&mut pair.leader, &paths);
    secure(&mut pair.helper, &paths);
    let files = pair.add_task("renewal", &["--vdaf", "count", "--min-batch-size", "1"]).unwrap();
    pair.start().unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(authority.der().to_vec())).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(builder.with_root_certificates(roots).with_no_client_auth());

    let addresses = [pair.leader.address(), pair.helper.address()];
    let (time, ca) = (files.past_time().unwrap(), paths.0.to_string_lossy().into_owned());
    let (done, requests, uploaded) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let goes_on = || !done.load(Ordering::Relaxed);
    let ask = |address| {
        let mut kept = Client::connect(&config, address);
        while goes_on() {
            kept.get();
            Client::connect(&config, address).get();
            requests.fetch_add(2, Ordering::Relaxed);
        }
    };
    let send = || {
        while goes_on() {
            let reports = vec![json!(true); 10];
            let options = ["--ca", &ca, "--deadline", "60"];
            let sent = upload(&files, &reports, time, pair.folder(), &options).unwrap();
            assert_eq!(sent["accepted"], 10);
            uploaded.fetch_add(10, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        for address in addresses {
            let ask = &ask;
            scope.spawn(move || ask(address));
        }
        scope.spawn(send);
        let _end = End(&done);
        for _ in 0..100 {
            let certificate = renew(&authority, &paths);
            pair.leader.process().unwrap().signal("HUP").unwrap();
            pair.helper.process().unwrap().signal("HUP").unwrap();
            wait_for(&certificate, &config, addresses);
        }
        let certificate = renew(&authority, &paths);
        wait_for(&certificate, &config, addresses);
    });
    // Neither is lost what leader and helper sent each other.
    let (requests, uploaded) = (requests.into_inner(), uploaded.into_inner());
    assert!(requests > 200 && uploaded >= 10, "{requests} requests, {uploaded} reports");
    let collected = collect(&files, Some(time), &["--deadline", "60", "--ca", &ca]).unwrap();
    assert_eq!(collected["result"], json!(uploaded));
}

/// Ends the load, also if the test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
