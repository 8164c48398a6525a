//! Another implementation as a client of our gateway.

use std::io::Cursor;

use bhttp::{Message, Mode};
use ohttp::{ClientRequest, KeyConfig};
use reqwest::StatusCode;
use sotto_protocol::http_date::rounded_date;
use sotto_wire::MediaType;

use crate::gateway::device::{Channel, SMALLEST, setup};
use crate::server::harness::{histogram, moment};

#[tokio::test]
async fn the_ohttp_crate_uploads_through_our_gateway() {
    ohttp::init();
    let mut pair = setup().start().await;
    let channel = Channel::to_leader(&pair);
    let keys = channel.http.get(&channel.url).send().await.unwrap();
    assert_eq!(keys.status(), StatusCode::OK);
    assert_eq!(keys.headers()["content-type"], "application/ohttp-keys");
    let keys = keys.bytes().await.unwrap();
    assert_eq!(KeyConfig::decode_list(&keys).unwrap().len(), 1);

    let modes = [Mode::KnownLength, Mode::IndeterminateLength];
    for (index, mode) in [0, 1, 2, 3, 3].into_iter().zip(modes.into_iter().cycle()) {
        let path = format!("/tasks/{}/reports", pair.task.id());
        let mut request = Message::request(
            b"POST".to_vec(),
            b"https".to_vec(),
            b"leader.example".to_vec(),
            path.into_bytes(),
        );
        request.put_header("date", rounded_date(moment()));
        request.put_header("content-type", MediaType::UploadReq.as_str());
        request.write_content(pair.report(index));
        let mut message = Vec::new();
        request.write_bhttp(mode, &mut message).unwrap();

        let client = ClientRequest::from_encoded_config_list(&keys).unwrap();
        let (body, awaited) = client.encapsulate(&message).unwrap();
        let outer = channel.post(body).await;
        assert_eq!((outer.status, outer.body.len()), (StatusCode::OK, SMALLEST));
        let opened = awaited.decapsulate(&outer.body).unwrap();
        let response = Message::read_bhttp(&mut Cursor::new(opened)).unwrap();
        assert_eq!(response.control().status().unwrap().code(), 200);
        assert!(response.content().is_empty());
    }
    let everything = pair.everything();
    assert_eq!(pair.collect(&everything).await.result, histogram(&[1, 1, 1, 2]));
    pair.stop().await;
}

/// A refusal, with content and fields.
#[tokio::test]
async fn the_ohttp_crate_reads_our_refusals() {
    ohttp::init();
    let pair = setup().start().await;
    let channel = Channel::to_leader(&pair);
    let keys = channel.http.get(&channel.url).send().await.unwrap().bytes().await.unwrap();
    let parts = ["GET", "https", "leader.example", "/"].map(|part| part.as_bytes().to_vec());
    let [method, scheme, authority, path] = parts;
    let request = Message::request(method, scheme, authority, path);
    let mut message = Vec::new();
    request.write_bhttp(Mode::KnownLength, &mut message).unwrap();
    let client = ClientRequest::from_encoded_config_list(&keys).unwrap();
    let (body, awaited) = client.encapsulate(&message).unwrap();
    let opened = awaited.decapsulate(&channel.post(body).await.body).unwrap();
    let response = Message::read_bhttp(&mut Cursor::new(opened)).unwrap();
    assert_eq!(response.control().status().unwrap().code(), 400);
    assert_eq!(response.header().get(b"content-type").unwrap(), b"application/problem+json");
    assert!(response.header().get(b"date").is_some());
    let document = String::from_utf8(response.content().to_vec()).unwrap();
    assert!(document.contains("http-problem-types#date"), "{document}");
    pair.stop().await;
}
