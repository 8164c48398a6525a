//! A web server for one test: the path of a request decides the answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// The requests so far: request line and body.
pub(crate) type Requests = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// Serves the status and body that `answer` returns for a request line. Returns the address and the
/// list of requests.
pub(crate) fn serve(
    answer: impl Fn(&str) -> (u16, Vec<u8>) + Send + 'static,
) -> (String, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Requests::default();
    let seen = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut first, mut length) = (String::new(), 0);
            stream.read_line(&mut first).unwrap();
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                if let Some((name, value)) = line.split_once(':')
                    && name.eq_ignore_ascii_case("content-length")
                {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let (status, answer) = answer(&first);
            seen.lock().unwrap().push((first, body));
            let head = format!(
                "HTTP/1.1 {status} Test\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                answer.len()
            );
            stream.get_mut().write_all(&[head.as_bytes(), &answer].concat()).unwrap();
        }
    });
    (url, requests)
}
