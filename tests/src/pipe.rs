//! A pipe in front of a server. It records every byte that passes, in both directions, and can be
//! cut.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
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
    cut: Arc<AtomicU8>,
}

/// What no longer arrives. The connection that carried it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Everything passes.
    Nothing = 0,
    /// Requests do not reach the server.
    Requests = 1,
    /// The server answers, but the answer does not reach the client.
    Answers = 2,
}

impl Pipe {
    /// Forwards connections to `server`, which need not be running yet.
    pub fn before(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let listen = listener.local_addr()?;
        let records: Arc<Mutex<Vec<Record>>> = Arc::default();
        let cut = Arc::new(AtomicU8::new(Cut::Nothing as u8));
        let (shared, blade) = (Arc::clone(&records), Arc::clone(&cut));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Without a server the client sees its connection close.
                let Ok(server) = TcpStream::connect(server) else { continue };
                let _ = join(client, server, &shared, &blade);
            }
        });
        Ok(Self { listen, records, cut })
    }

    /// What does not arrive from now on.
    pub fn cut(&self, cut: Cut) {
        self.cut.store(cut as u8, Ordering::SeqCst);
    }

    /// The base URL of the server as its clients know it.
    pub fn url(&self) -> String {
        format!("http://{}/", self.listen)
    }

    /// Everything that passed so far: one record for each connection and direction.
    pub fn recorded(&self) -> Vec<Vec<u8>> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.iter().map(|record| bytes(record).clone()).collect()
    }
}

fn bytes(record: &Record) -> std::sync::MutexGuard<'_, Vec<u8>> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

fn join(
    client: TcpStream,
    server: TcpStream,
    records: &Mutex<Vec<Record>>,
    cut: &Arc<AtomicU8>,
) -> io::Result<()> {
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    let back = (server.try_clone()?, client.try_clone()?);
    for ((from, to), ends_at) in [((client, server), Cut::Requests), (back, Cut::Answers)] {
        let record = Record::default();
        records.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&record));
        let cut = Arc::clone(cut);
        thread::spawn(move || {
            pass(from, to, &record, || cut.load(Ordering::SeqCst) == ends_at as u8)
        });
    }
    Ok(())
}

fn pass(mut from: TcpStream, mut to: TcpStream, record: &Record, is_cut: impl Fn() -> bool) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if is_cut() {
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
            return;
        }
        // Recorded before it is forwarded: once a request is answered, it is found here.
        bytes(record).extend_from_slice(&buffer[..read]);
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}
