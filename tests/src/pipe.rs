//! A pipe before a server that keeps every byte that passes, in either direction.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Result;

/// What one connection carried in one direction.
type Record = Arc<Mutex<Vec<u8>>>;

/// A pipe that runs for as long as the program.
#[derive(Debug)]
pub struct Pipe {
    listen: SocketAddr,
    records: Arc<Mutex<Vec<Record>>>,
}

impl Pipe {
    /// Passes connections on to `server`, which need not run yet.
    pub fn before(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let listen = listener.local_addr()?;
        let records: Arc<Mutex<Vec<Record>>> = Arc::default();
        let shared = Arc::clone(&records);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Without a server the client sees its connection close.
                let Ok(server) = TcpStream::connect(server) else { continue };
                let _ = join(client, server, &shared);
            }
        });
        Ok(Self { listen, records })
    }

    /// The base URL of the server as its clients know it.
    pub fn url(&self) -> String {
        format!("http://{}/", self.listen)
    }

    /// All that passed so far: one for each connection and direction.
    pub fn recorded(&self) -> Vec<Vec<u8>> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.iter().map(|record| bytes(record).clone()).collect()
    }
}

fn bytes(record: &Record) -> std::sync::MutexGuard<'_, Vec<u8>> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

fn join(client: TcpStream, server: TcpStream, records: &Mutex<Vec<Record>>) -> io::Result<()> {
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    let back = (server.try_clone()?, client.try_clone()?);
    for (from, to) in [(client, server), back] {
        let record = Record::default();
        records.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&record));
        thread::spawn(move || pass(from, to, &record));
    }
    Ok(())
}

fn pass(mut from: TcpStream, mut to: TcpStream, record: &Record) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        // Kept before it arrives: whoever was answered finds the request here.
        bytes(record).extend_from_slice(&buffer[..read]);
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}
