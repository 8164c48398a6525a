//! A tap in front of a server. It records every request whole: when it came, from which address,
//! all of its bytes, and how long the answer was.
//!
//! The time is that of the test, so requests can be compared between two runs. Each request goes
//! on over a new connection, from the address that it came from: the server may restart in between.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{mem, thread};

use anyhow::Result;

use crate::http::{Connection, Response};

/// One request that arrived.
#[derive(Clone, PartialEq, Eq)]
pub struct Arrival {
    /// When, by the test's clock.
    pub at: u64,
    /// From which address.
    pub from: IpAddr,
    /// Method, path and version.
    pub line: String,
    /// The header, with names in lower case.
    pub fields: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    /// Status and length of the answer; `None` if there was none.
    pub answer: Option<(u16, usize)>,
}

impl Arrival {
    /// Whether the server did what it was asked.
    pub fn is_served(&self) -> bool {
        self.answer.is_some_and(|(status, _)| (200..300).contains(&status))
    }
}

/// Shows of the body only its length.
impl fmt::Debug for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, from, line, fields, body, answer } = self;
        write!(f, "{at} {from} {line} {fields:?} {} bytes, {answer:?}", body.len())
    }
}

/// A tap that runs for as long as the program.
#[derive(Debug)]
pub struct Tap {
    listen: SocketAddr,
    arrivals: Arc<Mutex<Vec<Arrival>>>,
}

impl Tap {
    /// Forwards requests to `server`, which need not be running yet.
    pub fn before(server: SocketAddr, clock: &Arc<AtomicU64>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let listen = listener.local_addr()?;
        let arrivals = Arc::<Mutex<Vec<Arrival>>>::default();
        let (shared, clock) = (Arc::clone(&arrivals), Arc::clone(clock));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (shared, clock) = (Arc::clone(&shared), Arc::clone(&clock));
                // When it ends, whatever the reason, the client sees its connection close.
                thread::spawn(move || pass(client, server, &clock, &shared));
            }
        });
        Ok(Self { listen, arrivals })
    }

    /// The base URL of the server as its clients know it.
    pub fn url(&self) -> String {
        format!("http://{}/", self.listen)
    }

    /// Everything that arrived since the last call, in order.
    pub fn take(&self) -> Vec<Arrival> {
        mem::take(&mut *locked(&self.arrivals))
    }
}

fn locked(arrivals: &Mutex<Vec<Arrival>>) -> std::sync::MutexGuard<'_, Vec<Arrival>> {
    arrivals.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pass(
    mut client: TcpStream,
    server: SocketAddr,
    clock: &AtomicU64,
    arrivals: &Mutex<Vec<Arrival>>,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    let from = client.peer_addr()?.ip();
    let mut incoming = Vec::new();
    while let Some((head, body)) = request(&mut client, &mut incoming)? {
        let text = String::from_utf8_lossy(&head).into_owned();
        let mut lines = text.lines();
        let line = lines.next().unwrap_or_default().to_owned();
        let fields = lines.filter_map(|line| line.split_once(": "));
        let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
        let (at, fields) = (clock.load(Ordering::SeqCst), fields.collect());
        let arrival = Arrival { at, from, line, fields, body: body.clone(), answer: None };
        // Recorded before it is forwarded: once a request is answered, it is found here.
        let place = {
            let mut arrivals = locked(arrivals);
            arrivals.push(arrival);
            arrivals.len() - 1
        };
        let Response { status, headers, body } =
            Connection::open_from(from, server)?.exchange(&head, &body)?;
        if let Some(arrival) = locked(arrivals).get_mut(place) {
            arrival.answer = Some((status, body.len()));
        }
        let mut answer = format!("HTTP/1.1 {status} \r\n");
        for (name, value) in headers {
            answer += &format!("{name}: {value}\r\n");
        }
        client.write_all(&[answer.as_bytes(), b"\r\n", &body].concat())?;
    }
    Ok(())
}

/// The next request, as head and body; `None` at the end of the connection.
fn request(
    client: &mut TcpStream,
    incoming: &mut Vec<u8>,
) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut chunk = [0; 16 * 1024];
    loop {
        if let Some(place) = incoming.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&incoming[..place]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.and_then(|text| text.parse().ok()).unwrap_or(0);
            let end = place + 4 + length;
            if incoming.len() >= end {
                let rest = incoming.split_off(end);
                let body = incoming.split_off(place + 4);
                return Ok(Some((mem::replace(incoming, rest), body)));
            }
        }
        match client.read(&mut chunk)? {
            0 => return Ok(None),
            count => incoming.extend_from_slice(&chunk[..count]),
        }
    }
}
