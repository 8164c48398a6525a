//! Sockets: TLS, slow peers, shutdown.

use std::time::Duration;

use reqwest::StatusCode;
use sotto_crypto::Secret;
use sotto_server::{BindError, Helper, HelperConfig, Leader, LeaderConfig, TaskRefused, TlsConfig};
use sotto_store::MemoryStore;
use sotto_wire::{BatchMode, MediaType, Role};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::background::{LOOPBACK, PATIENCE, client, eventually};
use crate::server::harness::{Server, Setup, histogram, keypair, served};

fn certificate() -> (String, TlsConfig, TlsConfig) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (pem, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let config = || TlsConfig {
        certificate_chain: pem.clone().into_bytes(),
        private_key: Secret::new(key.clone().into_bytes()),
    };
    (pem.clone(), config(), config())
}

#[tokio::test]
async fn everything_over_tls() {
    let (pem, leader_tls, helper_tls) = certificate();
    let mut setup = Setup::new(BatchMode::TimeInterval);
    setup.scheme = "https";
    setup.leader.server.http.tls = Some(leader_tls);
    setup.helper.server.http.tls = Some(helper_tls);
    setup.leader.helper_certificates = Some(pem.clone().into_bytes());
    setup.helper_url = Box::new(|address| format!("https://{address}/"));
    let mut pair = setup.start().await;
    // A client that does not trust the certificate does not send anything.
    let config = format!("{}hpke_config", pair.leader.url);
    assert!(client(None).get(&config).send().await.is_err());
    // Plain HTTP at the TLS port is not answered.
    assert!(client(None).get(config.replace("https", "http")).send().await.is_err());

    pair.http = client(Some(&pem));
    let served = pair.http.get(&config).send().await.unwrap();
    assert_eq!(served.version(), reqwest::Version::HTTP_11);
    pair.upload_all([0, 1, 2, 3, 3]).await;
    let everything = pair.everything();
    assert_eq!(pair.collect(&everything).await.result, histogram(&[1, 1, 1, 2]));
    pair.stop().await;
}

#[tokio::test]
async fn plain_http_and_plain_tasks_need_to_be_asked_for() {
    let everywhere = "0.0.0.0:0".parse().unwrap();
    let bind = |config| Leader::bind(config, std::sync::Arc::new(MemoryStore::new()));
    let error = bind(LeaderConfig::new(everywhere, vec![keypair(1)])).await.unwrap_err();
    assert!(matches!(error, BindError::PlainHttp { .. }), "{error}");
    let mut config = LeaderConfig::new(everywhere, vec![keypair(1)]);
    config.server.http.insecure_http = true;
    assert!(bind(config).await.is_ok());
    // Also the operator's listener.
    let mut config = LeaderConfig::new(LOOPBACK, vec![keypair(1)]);
    config.server.http.admin_listen = Some(everywhere);
    let error = bind(config).await.unwrap_err();
    assert!(matches!(error, BindError::PlainAdmin { .. }), "{error}");
    let mut config = LeaderConfig::new(LOOPBACK, vec![keypair(1)]);
    config.server.http.admin_listen = Some(everywhere);
    config.server.http.insecure_http = true;
    assert!(bind(config).await.is_ok());

    let pair = Setup::new(BatchMode::TimeInterval).start().await;
    let mut config = LeaderConfig::new(LOOPBACK, vec![keypair(1)]);
    config.server.tasks.push(served(&pair.task, Role::Leader, &pair.collector));
    let error = bind(config).await.unwrap_err();
    assert!(matches!(error, BindError::Task(TaskRefused::Plain(_))), "{error}");
    assert!(error.to_string().contains("insecure_plain_tasks"));
    // A task of the other role, and one that is already served.
    let other = served(&pair.task, Role::Helper, &pair.collector);
    assert!(matches!(pair.leader_tasks.add(other), Err(TaskRefused::OtherRole(_))));
    let again = served(&pair.task, Role::Leader, &pair.collector);
    assert!(matches!(pair.leader_tasks.add(again), Err(TaskRefused::Exists(_))));
    pair.stop().await;
}

#[tokio::test]
async fn a_helper_in_the_clear_is_refused() {
    let mut setup = Setup::new(BatchMode::TimeInterval);
    setup.leader.server.http.insecure_http = true;
    setup.helper_url = Box::new(|_| "http://helper.example/".into());
    let pair = setup.start().await;
    let leader = LeaderConfig::new(LOOPBACK, vec![keypair(1)]);
    let store = std::sync::Arc::new(MemoryStore::new());
    let mut config = leader;
    config.server.insecure_plain_tasks = true;
    config.server.tasks.push(served(&pair.task, Role::Leader, &pair.collector));
    let error = Leader::bind(config, store).await.unwrap_err();
    assert!(matches!(error, BindError::Task(TaskRefused::HelperUrl { .. })), "{error}");
    pair.stop().await;
}

#[tokio::test]
async fn keys_of_stored_reports_must_be_configured() {
    let mut setup = Setup::new(BatchMode::TimeInterval);
    setup.leader.aggregation.job_delay = Duration::from_secs(3600);
    let mut pair = setup.start().await;
    pair.upload_all([1]).await;
    let store = std::sync::Arc::clone(&pair.leader_store);
    pair.stop().await;
    let config = LeaderConfig::new(LOOPBACK, vec![keypair(7)]);
    let error = Leader::bind(config, std::sync::Arc::clone(&store)).await.unwrap_err();
    assert!(matches!(&error, BindError::MissingKeys(ids) if ids == &[1]), "{error}");
    let config = LeaderConfig::new(LOOPBACK, vec![keypair(7), keypair(1)]);
    assert!(Leader::bind(config, store).await.is_ok());
}

async fn connect(server: &Server) -> TcpStream {
    let address = server.url.trim_start_matches("http://").trim_end_matches('/');
    TcpStream::connect(address).await.unwrap()
}

/// Reads until the peer closes.
async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset also ends the stream.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.unwrap();
    bytes
}

#[tokio::test]
async fn dawdling_peers_are_cut_off() {
    let mut setup = Setup::new(BatchMode::TimeInterval);
    setup.leader.server.http.connections.header_timeout = Duration::from_millis(300);
    setup.leader.server.http.connections.max_connections = 2;
    setup.leader.server.http.body_timeout = Duration::from_millis(300);
    let mut pair = setup.start().await;
    // One says nothing, one never ends its head: together they hold all the connections there are.
    let mut silent = connect(&pair.leader).await;
    let mut slow = connect(&pair.leader).await;
    slow.write_all(b"POST / HTTP/1.1\r\nhost:").await.unwrap();
    // This upload waits for a connection and gets one.
    pair.upload_all([1]).await;
    assert!(rest(&mut silent).await.is_empty());
    let refused = rest(&mut slow).await;
    assert!(refused.is_empty() || refused.starts_with(b"HTTP/1.1 4"), "{refused:?}");

    // A body that never ends gets an answer.
    let mut stuck = connect(&pair.leader).await;
    let head = format!(
        "POST /tasks/{}/reports HTTP/1.1\r\nhost: x\r\ncontent-type: {}\r\ncontent-length: 100\r\n\r\nabc",
        pair.task.id(),
        MediaType::UploadReq.as_str()
    );
    stuck.write_all(head.as_bytes()).await.unwrap();
    let answer = rest(&mut stuck).await;
    assert!(answer.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&answer));
    pair.stop().await;
}

/// Each announces the longest upload that is allowed, and sends next to nothing.
#[tokio::test]
async fn a_few_slow_bodies_do_not_shut_out_uploads() {
    let mut setup = Setup::new(BatchMode::TimeInterval);
    setup.leader.server.http.max_memory = 512 * 1024;
    let mut pair = setup.start().await;
    let mut slow = Vec::new();
    for _ in 0..16 {
        let mut stream = connect(&pair.leader).await;
        let head = format!(
            "POST /tasks/{}/reports HTTP/1.1\r\nhost: x\r\ncontent-type: {}\r\ncontent-length: 8388608\r\nexpect: 100-continue\r\n\r\n",
            pair.task.id(),
            MediaType::UploadReq.as_str()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // The handler asks for the body.
        let mut go_on = [0; 25];
        stream.read_exact(&mut go_on).await.unwrap();
        assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(b"x").await.unwrap();
        slow.push(stream);
    }
    let body: Vec<u8> = (0..100).flat_map(|index| pair.report(index % 4)).collect();
    assert!(body.len() > 32 * 1024);
    assert_eq!(pair.upload(body).await.status(), StatusCode::OK);
    drop(slow);
    pair.stop().await;
}

#[tokio::test]
async fn an_idle_connection_gives_its_place_up() {
    let (pem, tls, _) = certificate();
    let mut setup = Setup::new(BatchMode::TimeInterval);
    setup.scheme = "https";
    setup.leader.server.http.tls = Some(tls);
    setup.leader.server.http.connections.max_connections = 1;
    setup.leader.server.http.connections.header_timeout = Duration::from_millis(300);
    let pair = setup.start().await;
    let url = format!("{}hpke_config", pair.leader.url);
    let idle = client(Some(&pem));
    assert_eq!(idle.get(&url).send().await.unwrap().status(), StatusCode::OK);
    let other = client(Some(&pem)).get(&url).timeout(PATIENCE).send().await.unwrap();
    assert_eq!(other.status(), StatusCode::OK);
    drop(idle);
    pair.stop().await;
}

#[tokio::test]
async fn draining_finishes_requests_in_flight() {
    let mut pair = Setup::new(BatchMode::TimeInterval).start().await;
    let report = pair.report(1);
    let mut upload = connect(&pair.leader).await;
    let mut idle = connect(&pair.leader).await;
    let head = format!(
        "POST /tasks/{}/reports HTTP/1.1\r\nhost: x\r\ncontent-type: {}\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\r\n",
        pair.task.id(),
        MediaType::UploadReq.as_str(),
        report.len()
    );
    upload.write_all(head.as_bytes()).await.unwrap();
    // The handler waits for the body: the request is in flight.
    let mut go_on = [0; 25];
    upload.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    upload.write_all(&report[..10]).await.unwrap();
    pair.leader.begin_stop();
    let leader = &pair.leader;
    eventually("the leader says that it drains", || async {
        leader.readyz().await.1["reasons"][0]["name"] == "draining"
    })
    .await;
    assert_eq!(leader.readyz().await.0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(leader.admin_get("livez").await.0, StatusCode::OK);
    assert!(rest(&mut idle).await.is_empty());
    upload.write_all(&report[10..]).await.unwrap();
    let answer = rest(&mut upload).await;
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    let address = pair.leader.url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    assert!(TcpStream::connect(address).await.is_err());
    // What was acknowledged is in the store, which nobody holds any more.
    let store = std::sync::Arc::clone(&pair.leader_store);
    pair.stop().await;
    let load = store.load().await.unwrap();
    assert!(load.segment_bytes > 0, "{load:?}");
    assert_eq!(std::sync::Arc::strong_count(&store), 1);
}

#[tokio::test]
async fn a_drain_has_a_deadline_and_dropping_ends_at_once() {
    for drop_it in [false, true] {
        let mut config = HelperConfig::new(LOOPBACK, vec![keypair(2)]);
        config.server.http.drain_deadline = Duration::from_millis(200);
        let helper = Helper::bind(config, std::sync::Arc::new(MemoryStore::new())).await.unwrap();
        let url = format!("http://{}", helper.addr());
        let mut server = Server::at(url, helper);
        let mut stuck = connect(&server).await;
        stuck.write_all(b"POST /tasks HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n").await.unwrap();
        if drop_it {
            server.running.abort();
            assert!(server.running.await.unwrap_err().is_cancelled());
        } else {
            server.begin_stop();
            server.running.await.unwrap().unwrap();
        }
        rest(&mut stuck).await;
    }
}
