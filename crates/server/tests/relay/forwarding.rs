//! What passes through the relay in either direction, and what does not.

use tokio::io::AsyncWriteExt;

use crate::relay::gateway::{Gateway, Reply};
use crate::relay::harness::{AT_ONCE, OPERATOR, Server, answer, config, noise, rest};

/// The head that the gateway gets, whatever the device sends.
fn forwarded_head(gateway: &Gateway, len: usize) -> String {
    format!(
        "POST /gateway HTTP/1.1\r\ncontent-type: message/ohttp-req\r\nhost: {}\r\n\
         content-length: {len}\r\n\r\n",
        gateway.addr
    )
}

#[tokio::test]
async fn only_the_content_goes_on() {
    let gateway = Gateway::start().await;
    let relay = Server::start(config(&gateway, AT_ONCE)).await;
    // The relay does not care if it is garbage.
    for (index, len) in [0, 1, 7, 55, 4096, 6_000, 65_536].into_iter().enumerate() {
        let body = noise(index as u64, len);
        let mut stream = relay.connect().await;
        let head = format!(
            "POST /{OPERATOR} HTTP/1.1\r\nHost: relay.example\r\nContent-Type: Message/OHTTP-Req\r\n\
             Via: 1.1 home.example\r\nForwarded: for=192.0.2.60\r\nX-Forwarded-For: 192.0.2.60\r\n\
             X-Real-IP: 192.0.2.60\r\nCookie: id=7\r\nUser-Agent: device/7\r\nReferer: http://a/\r\n\
             Authorization: Bearer secret\r\nProxy-Authorization: Basic x\r\nOrigin: http://a\r\n\
             Accept-Language: tlh\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nX-Odd: 7\r\n\
             Traceparent: 00-7\r\nAccept: */*\r\nTE: trailers\r\nTrailer: X-Last\r\n\
             Connection: close, x-odd\r\nContent-Length: {len}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&body).await.unwrap();
        let answer = answer(&mut stream).await;
        assert_eq!((answer.status, &answer.body[..]), (200, &b"answer"[..]));
        let recorded = gateway.recorded().pop().unwrap();
        assert_eq!(recorded.head, forwarded_head(&gateway, len));
        assert!(recorded.body == body, "{len}");
    }
    relay.stopped().await;
}

#[tokio::test]
async fn a_body_of_unannounced_length_goes_on_with_its_length() {
    let gateway = Gateway::start().await;
    let relay = Server::start(config(&gateway, AT_ONCE)).await;
    // In memory, and from a file.
    for len in [3_000_usize, 100_000] {
        let body = noise(len as u64, len);
        let mut stream = relay.connect().await;
        let head = format!(
            "POST /{OPERATOR} HTTP/1.1\r\nhost: x\r\ncontent-type: message/ohttp-req\r\n\
             connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        for chunk in body.chunks(1_000) {
            stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes()).await.unwrap();
            stream.write_all(chunk).await.unwrap();
            stream.write_all(b"\r\n").await.unwrap();
        }
        stream.write_all(b"0\r\nx-last: 7\r\n\r\n").await.unwrap();
        assert_eq!(answer(&mut stream).await.status, 200);
        let recorded = gateway.recorded().pop().unwrap();
        assert_eq!(recorded.head, forwarded_head(&gateway, len));
        assert!(recorded.body == body);
    }
    relay.stopped().await;
}

#[tokio::test]
async fn of_an_answer_only_the_needed_comes_back() {
    let gateway = Gateway::start().await;
    let relay = Server::start(config(&gateway, AT_ONCE)).await;
    let marks = "server: gw/1\r\nset-cookie: id=7\r\nx-mark: 7\r\nvia: 1.1 gw\r\netag: \"7\"\r\n\
                 alt-svc: h3=\":443\"\r\nlocation: /7\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
    for (fields, names) in [
        ("content-type: message/ohttp-res\r\n", vec!["content-type"]),
        ("content-type: application/problem+json\r\n", vec!["content-type"]),
        ("content-type: text/html; mark=7\r\n", vec![]),
        // A parameter could be a mark. It does not change the type.
        ("content-type: message/ohttp-res; mark=7\r\n", vec!["content-type"]),
        ("content-type: Application/Problem+JSON ;charset=utf-8\r\n", vec!["content-type"]),
        (
            "content-type: message/ohttp-res\r\nretry-after: 17\r\n",
            vec!["content-type", "retry-after"],
        ),
        ("retry-after: Thu, 01 Jan 1970 00:00:00 GMT\r\n", vec![]),
        ("retry-after: -1\r\n", vec![]),
    ] {
        for status in ["200 OK", "400 Mark", "429 x", "302 Found", "503 x"] {
            let reply =
                format!("HTTP/1.1 {status}\r\n{marks}{fields}content-length: 4\r\n\r\nbody");
            gateway.answer_with(Reply::Bytes(reply.into_bytes()));
            let answer = relay.post(b"request").await;
            let mut expected = vec!["connection", "content-length", "date"];
            expected.extend(&names);
            expected.sort_unstable();
            assert_eq!(answer.names(), expected, "{answer:?}");
            assert_eq!(answer.status.to_string(), status[..3]);
            assert_eq!(answer.body, b"body");
            for mark in ["1970", "Mark", "mark", "charset", "JSON"] {
                assert!(!answer.head.contains(mark), "{answer:?}");
            }
        }
    }
    // Trailers are dropped.
    let reply = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-mark\r\n\r\n\
                 4\r\nbody\r\n0\r\nx-mark: 7\r\n\r\n";
    gateway.answer_with(Reply::Bytes(reply.into()));
    let mut stream = relay.begin(b"request").await;
    let bytes = String::from_utf8(rest(&mut stream).await).unwrap();
    assert!(bytes.ends_with("\r\n\r\nbody") && !bytes.contains("mark"), "{bytes}");
    assert!(bytes.contains("content-length: 4\r\n"), "{bytes}");
    relay.stopped().await;
}

#[tokio::test]
async fn requests_that_are_not_for_a_gateway() {
    let gateway = Gateway::start().await;
    let mut settings = config(&gateway, AT_ONCE);
    settings.http.base_path = "/relay/".into();
    let mut other = settings.gateways[0].clone();
    other.operator = "a/bé".parse().unwrap();
    settings.gateways.push(other);
    let relay = Server::start(settings).await;
    let send = async |line: &str, media_type: &str| {
        let mut stream = relay.connect().await;
        let head = format!(
            "{line} HTTP/1.1\r\nhost: x\r\n{media_type}content-length: 4\r\nconnection: close\r\n\r\nbody"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        answer(&mut stream).await
    };
    let right = "content-type: message/ohttp-req\r\n";
    for path in ["/", "/relay", "/relay/", "/relay/other.example", "/relay/leader.example/x"] {
        send(&format!("POST {path}"), right).await.is_problem(404);
    }
    for path in ["/leader.example", "/relay/%ff", "/relay/http%3A%2F%2F127.0.0.1%2F", "/relay/.."] {
        send(&format!("POST {path}"), right).await.is_problem(404);
    }
    for method in ["GET", "PUT", "DELETE"] {
        send(&format!("{method} /relay/leader.example"), right).await.is_problem(405);
    }
    for media_type in ["", "content-type: message/ohttp-res\r\n", "content-type: text/plain\r\n"] {
        send("POST /relay/leader.example", media_type).await.is_problem(415);
    }
    assert!(gateway.recorded().is_empty());
    // A name is one segment of the path, percent-encoded where necessary. A query is ignored.
    for path in ["leader.example", "%6Ceader.example", "a%2Fb%C3%A9", "leader.example?mark=7"] {
        assert_eq!(send(&format!("POST /relay/{path}"), right).await.status, 200, "{path}");
    }
    assert_eq!(gateway.recorded().len(), 4);
    assert!(gateway.recorded().iter().all(|got| got.head == forwarded_head(&gateway, 4)));
    relay.stopped().await;
}
