//! The included transport against a minimal server on a loopback port.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::thread;

use zeroize::Zeroizing;

use super::*;

/// Answers every request on every connection with `answer`, and remembers the requests.
struct Server {
    url: String,
    connections: Arc<Mutex<usize>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/path", listener.local_addr().unwrap());
        let server = Self { url, connections: Arc::default(), requests: Arc::default() };
        let (connections, requests) = (server.connections.clone(), server.requests.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                *connections.lock().unwrap() += 1;
                let requests = requests.clone();
                thread::spawn(move || serve(stream.unwrap(), answer, &requests));
            }
        });
        server
    }

    fn request<'a>(&self, method: Method, body: &'a [u8]) -> HttpRequest<'a> {
        let headers = vec![("authorization", Zeroizing::new("Bearer t".to_owned()))];
        HttpRequest { method, url: self.url.clone(), headers, body, response_limit: 10 }
    }
}

fn serve(stream: TcpStream, answer: &str, requests: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut request, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            request.push_str(&lower);
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        request.push_str(&String::from_utf8(body).unwrap());
        requests.lock().unwrap().push(request);
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn transport() -> HttpTransport {
    let options = HttpOptions {
        connect_timeout: Duration::from_secs(5),
        request_timeout: Duration::from_secs(5),
        ..HttpOptions::default()
    };
    HttpTransport::new(options).unwrap()
}

#[test]
fn exchanges_share_a_connection() {
    let server = Server::start("HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 10\r\n\r\n0123456789");
    let transport = transport();
    for _ in 0..3 {
        let response = transport.send(&server.request(Method::Post, b"hello")).unwrap();
        assert_eq!((response.status, response.body.as_slice()), (200, &b"0123456789"[..]));
        assert_eq!(response.header("x-a"), Some("b"));
        assert_eq!(response.header("x-b"), None);
    }
    assert_eq!(*server.connections.lock().unwrap(), 1);
    let requests = server.requests.lock().unwrap();
    assert!(requests[0].starts_with("post /path http/1.1\r\n"), "{}", requests[0]);
    assert!(requests[0].contains("authorization: bearer t\r\n"));
    assert!(requests[0].ends_with("\r\n\r\nhello"));
    assert!(!requests[0].contains("user-agent"), "nothing that tells devices apart");
}

#[test]
fn get_and_delete_have_no_body() {
    let server = Server::start("HTTP/1.1 204 No Content\r\n\r\n");
    for (method, line) in [(Method::Get, "get /path"), (Method::Delete, "delete /path")] {
        let response = transport().send(&server.request(method, b"")).unwrap();
        assert_eq!((response.status, response.body.len()), (204, 0));
        let requests = server.requests.lock().unwrap();
        assert!(requests.last().unwrap().starts_with(line));
    }
}

#[test]
fn an_empty_post_is_sent() {
    let server = Server::start("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(transport().send(&server.request(Method::Post, b"")).unwrap().status, 200);
}

#[test]
fn long_answers_are_cut_off() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n0123456789a",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n01234567\r\n8\r\n01234567\r\n0\r\n\r\n",
    ] {
        let server = Server::start(answer);
        let error = transport().send(&server.request(Method::Get, b"")).unwrap_err();
        assert_eq!(error, TransportError::ResponseTooLong);
    }
}

#[test]
fn errors_and_redirects_are_answers() {
    let server = Server::start(
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    );
    for method in [Method::Get, Method::Post] {
        let response = transport().send(&server.request(method, b"")).unwrap();
        assert_eq!(response.status, 307);
    }
    let server = Server::start("HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno");
    let response = transport().send(&server.request(Method::Get, b"")).unwrap();
    assert_eq!((response.status, response.body.as_slice()), (500, &b"no"[..]));
}

#[test]
fn a_dead_or_broken_server_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let request =
        HttpRequest { method: Method::Get, url, headers: vec![], body: b"", response_limit: 10 };
    let error = transport().send(&request).unwrap_err();
    assert!(matches!(error, TransportError::NoConnection(_)) && error.is_transient(), "{error}");
    let server = Server::start("this is not HTTP\r\n\r\n");
    let error = transport().send(&server.request(Method::Get, b"")).unwrap_err();
    assert!(matches!(error, TransportError::Unreachable(_)) && error.is_transient(), "{error}");
}

#[test]
fn plain_http_stays_on_this_machine() {
    let request = |url: &str| HttpRequest {
        method: Method::Get,
        url: url.to_owned(),
        headers: vec![],
        body: b"",
        response_limit: 10,
    };
    let send = |url: &str| transport().send(&request(url)).unwrap_err();
    assert_eq!(send("http://leader.example/"), TransportError::InsecureHttp);
    assert_eq!(send("http://127.0.0.1.example/"), TransportError::InsecureHttp);
    assert_eq!(send("http://user@10.0.0.1:80/"), TransportError::InsecureHttp);
    assert_eq!(send("ftp://127.0.0.1/"), TransportError::InvalidUrl);
    assert_eq!(send("/tasks"), TransportError::InvalidUrl);
    assert_eq!(send("leader.example"), TransportError::InvalidUrl);
    assert_eq!(send("http://[::1"), TransportError::InvalidUrl);
    for (host, expected) in [
        ("localhost", true),
        ("LocalHost", true),
        ("127.0.0.1", true),
        ("127.8.9.1", true),
        ("[::1]", true),
        ("[::2]", false),
        ("0.0.0.0", false),
        ("localhost.example", false),
    ] {
        assert_eq!(is_loopback(host), expected, "{host}");
    }
    let options = HttpOptions { insecure_http: true, ..HttpOptions::default() };
    let open = HttpTransport::new(options).unwrap();
    assert!(open.agent(&"http://leader.example/".parse().unwrap()).is_ok());
}

#[test]
fn https_without_cryptography_is_an_error_and_no_panic() {
    let request = HttpRequest {
        method: Method::Get,
        url: "https://127.0.0.1:1/".into(),
        headers: vec![],
        body: b"",
        response_limit: 10,
    };
    assert_eq!(transport().send(&request).unwrap_err(), TransportError::NoCryptoProvider);
}

#[test]
fn tls_trusts_the_given_authorities_and_no_others() {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let names = vec!["localhost".to_owned()];
    let certified = rcgen::generate_simple_self_signed(names).unwrap();
    let (port, pem) = (tls_server(&certified, provider.clone()), certified.cert.pem());
    let send = |host: &str, pem: Option<&str>| {
        let options = HttpOptions {
            ca_certificates_pem: pem.map(|pem| pem.as_bytes().to_vec()),
            crypto_provider: Some(provider.clone()),
            ..HttpOptions::default()
        };
        HttpTransport::new(options).unwrap().send(&HttpRequest {
            method: Method::Get,
            url: format!("https://{host}:{port}/"),
            headers: vec![],
            body: b"",
            response_limit: 10,
        })
    };
    assert_eq!(send("localhost", Some(&pem)).unwrap().body, b"sealed");
    for (host, pem) in [("localhost", None), ("127.0.0.1", Some(pem.as_str()))] {
        let error = send(host, pem).unwrap_err();
        assert!(matches!(error, TransportError::Tls(_)), "{host}: {error}");
        assert!(!error.is_transient());
    }
}

/// Answers one request per connection. Returns the port.
fn tls_server(
    certified: &rcgen::CertifiedKey<rcgen::KeyPair>,
    provider: Arc<CryptoProvider>,
) -> u16 {
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key.into())
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = rustls::ServerConnection::new(config.clone()).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream.unwrap());
            let mut request = [0; 1024];
            // Handshakes that the client aborts end here.
            if matches!(stream.read(&mut request), Ok(1..)) {
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsealed";
                stream.write_all(answer).unwrap();
                stream.flush().unwrap();
            }
        }
    });
    port
}

#[test]
fn certificates_must_be_readable() {
    let with = |pem: &[u8]| {
        let pem = Some(pem.to_vec());
        HttpTransport::new(HttpOptions { ca_certificates_pem: pem, ..HttpOptions::default() })
    };
    let valid = b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    assert!(with(valid).is_ok());
    for pem in [&b""[..], b"no pem", b"-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n"]
    {
        assert_eq!(with(pem).unwrap_err(), TransportError::InvalidCertificates);
    }
}

#[test]
fn debug_shows_no_credential() {
    let server = Server::start("");
    let shown = format!("{:?}", server.request(Method::Post, b"secret body"));
    assert!(!shown.contains("Bearer") && !shown.contains("secret"), "{shown}");
}
