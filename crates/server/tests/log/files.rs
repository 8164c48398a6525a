//! The public files, byte for byte, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use reqwest::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::log::harness::WitnessedLog;

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn every_public_file_is_served_as_it_is() {
    let mut world = WitnessedLog::new(61).await;
    for _ in 0..3 {
        let entry = world.entry();
        world.publish(&entry).await;
    }
    // The index is written after the answer.
    world.stop_log().await;
    world.start_log().await;
    let entry = world.entry();
    world.publish(&entry).await;
    let public = world.log_folder().join("public");
    let mut kinds = std::collections::BTreeSet::new();
    for path in files(&public) {
        let name = path.strip_prefix(&public).unwrap().to_str().unwrap().to_owned();
        let bytes = fs::read(&path).unwrap();
        let response = world.http.get(world.url(&name)).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{name}");
        let headers = response.headers().clone();
        let cache = headers["cache-control"].to_str().unwrap();
        assert_eq!(cache.contains("immutable"), name.starts_with("tile/"), "{name}");
        let media_type = match name.as_str() {
            "checkpoint" => "text/plain; charset=utf-8",
            _ => "application/octet-stream",
        };
        assert_eq!(headers["content-type"], media_type);
        assert!(response.bytes().await.unwrap() == bytes, "{name}");
        let head = world.http.head(world.url(&name)).send().await.unwrap();
        assert_eq!(head.status(), StatusCode::OK);
        assert_eq!(head.headers()["content-length"], bytes.len().to_string().as_str());
        assert!(head.bytes().await.unwrap().is_empty());
        kinds.insert(name.split('/').next().unwrap().to_owned());
    }
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["by-id", "checkpoint", "first", "tile"]);
    world.stop().await;
}

/// The status of a request whose path is sent unchanged: clients normalize dots.
async fn raw(world: &WitnessedLog, path: &str) -> String {
    let mut stream = TcpStream::connect(world.log().addr).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: log\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_leads_out_of_the_public_folder() {
    let mut world = WitnessedLog::new(62).await;
    let entry = world.entry();
    world.publish(&entry).await;
    assert!(raw(&world, "/checkpoint").await.starts_with("HTTP/1.1 200"));
    for path in [
        "/state/pending",
        "/../state/pending",
        "/public/checkpoint",
        "/tile/../checkpoint",
        "/tile/../../state/pending",
        "/tile/%2e%2e/%2e%2e/state/pending",
        "/tile/..%2f..%2fstate/pending",
        "/tile/entries/../../../log.lock",
        "/first/../../state/pending",
        "/first/%2e%2e/checkpoint",
        "/by-id/..",
        "/by-id/%2e%2e%2fcheckpoint",
        "/by-id/%2e%2e%2f%2e%2e%2fstate%2fpending",
        "/tile//etc/passwd",
        "//etc/passwd",
        "/tile/0/",
        "/tile/0",
        "/tile",
        "/",
        "/%63heckpoint",
        "/checkpoint/",
        "/tile/0/000.p/1%00",
        "/tile/0/000.p",
        "/by-id",
    ] {
        let answer = raw(&world, path).await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }
    // A query changes nothing.
    assert!(raw(&world, "/checkpoint?x=../y").await.starts_with("HTTP/1.1 200"));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tiles_that_nobody_signed_are_not_served() {
    let mut world = WitnessedLog::new(63).await;
    let entry = world.entry();
    world.publish(&entry).await;
    let public = world.log_folder().join("public");
    for name in ["tile/0/000.p/2", "tile/entries/000.p/2"] {
        fs::write(public.join(name), b"left over from a crash").unwrap();
        let response = world.http.get(world.url(name)).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        assert_eq!(response.headers()["cache-control"], "no-store");
    }
    world.stop().await;
}
