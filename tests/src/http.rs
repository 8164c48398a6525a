//! A plain HTTP/1.1 client on one kept-alive connection: bytes out, bytes in.
//!
//! Load drivers share the machine with the servers that they measure, and the crash campaign must
//! know exactly which request was answered. So both need direct access to the socket. Loopback
//! only.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

/// Longer than any correct answer takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// One connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// The first header of this name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        Self::over(TcpStream::connect(address)?)
    }

    /// Connects from an address of this machine.
    pub fn open_from(source: IpAddr, address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.bind(&SocketAddr::new(source, 0).into())?;
        socket.connect(&address.into())?;
        Self::over(socket.into())
    }

    fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self { stream, outgoing: Vec::new(), incoming: Vec::new() })
    }

    /// Sends a request whose head was made by [`head`], without waiting for the answer.
    pub fn send(&mut self, head: &[u8], body: &[u8]) -> io::Result<()> {
        self.outgoing.clear();
        self.outgoing.extend_from_slice(head);
        self.outgoing.extend_from_slice(body);
        self.stream.write_all(&self.outgoing)
    }

    /// Reads the next answer.
    pub fn receive(&mut self) -> io::Result<Response> {
        let head_len = loop {
            if let Some(place) = self.incoming.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break place + 4;
            }
            self.fill()?;
        };
        let head = String::from_utf8_lossy(&self.incoming[..head_len]).into_owned();
        let mut lines = head.lines();
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1))
            .and_then(|code| code.parse().ok())
            .ok_or_else(|| malformed("no status line"))?;
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let mut response = Response { status, headers, body: Vec::new() };
        if response.header("transfer-encoding").is_some() {
            return Err(malformed("the answer has no length"));
        }
        let body_len: usize =
            response.header("content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
        while self.incoming.len() < head_len + body_len {
            self.fill()?;
        }
        response.body = self.incoming[head_len..head_len + body_len].to_vec();
        self.incoming.drain(..head_len + body_len);
        Ok(response)
    }

    /// Sends a request and reads its answer.
    pub fn exchange(&mut self, head: &[u8], body: &[u8]) -> io::Result<Response> {
        self.send(head, body)?;
        self.receive()
    }

    /// Our address on this connection.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut chunk = [0; 16 * 1024];
        match self.stream.read(&mut chunk)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.incoming.extend_from_slice(&chunk[..count]);
                Ok(())
            }
        }
    }
}

/// The head of a request: method, path, headers, and the length of the body that will follow.
pub fn head(method: &str, path: &str, headers: &[(&str, &str)], body_len: usize) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("content-length: {body_len}\r\n\r\n"));
    text.into_bytes()
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn two_answers_on_one_connection_even_if_they_arrive_together() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let count = stream.read(&mut request).unwrap();
            let answers = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX: y\r\n\r\nabc\
                            HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answers).unwrap();
            request[..count].to_vec()
        });
        let mut connection = Connection::open(address).unwrap();
        let first = connection.exchange(&head("POST", "/a", &[("k", "v")], 2), b"hi").unwrap();
        let second = connection.receive().unwrap();
        assert_eq!((first.status, first.body.as_slice()), (200, b"abc".as_slice()));
        assert_eq!(first.header("x"), Some("y"));
        assert_eq!((second.status, second.body.len()), (429, 0));
        let request = server.join().unwrap();
        assert_eq!(
            request,
            b"POST /a HTTP/1.1\r\nhost: 127.0.0.1\r\nk: v\r\ncontent-length: 2\r\n\r\nhi"
        );
        assert!(connection.receive().is_err());
    }
}
