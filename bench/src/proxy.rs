//! A pipe between leader and helper that counts what flows, in either direction.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::Result;

/// Bytes that passed, HTTP heads included.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    to_helper: AtomicU64,
    to_leader: AtomicU64,
}

impl Traffic {
    /// Leader to helper and helper to leader since the last call.
    pub(crate) fn take(&self) -> (u64, u64) {
        (self.to_helper.swap(0, Ordering::Relaxed), self.to_leader.swap(0, Ordering::Relaxed))
    }
}

/// Listens on `listen` and forwards connections to `helper`, as long as the program runs.
pub(crate) fn start(listen: SocketAddr, helper: SocketAddr) -> Result<Arc<Traffic>> {
    let listener = TcpListener::bind(listen)?;
    let counts = Arc::new(Traffic::default());
    let shared = Arc::clone(&counts);
    thread::spawn(move || {
        for leader in listener.incoming().flatten() {
            // The helper may be down for a moment; the leader then sees its connection close.
            let Ok(helper) = TcpStream::connect(helper) else { continue };
            let _ = connect(leader, helper, &shared);
        }
    });
    Ok(counts)
}

fn connect(leader: TcpStream, helper: TcpStream, counts: &Arc<Traffic>) -> io::Result<()> {
    for stream in [&leader, &helper] {
        stream.set_nodelay(true)?;
    }
    let (leader_back, helper_back) = (leader.try_clone()?, helper.try_clone()?);
    let forward = Arc::clone(counts);
    thread::spawn(move || pass(leader, helper, |count| add(&forward.to_helper, count)));
    let backward = Arc::clone(counts);
    thread::spawn(move || pass(helper_back, leader_back, |count| add(&backward.to_leader, count)));
    Ok(())
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn pass(mut from: TcpStream, mut to: TcpStream, count: impl Fn(u64)) {
    let mut buffer = vec![0; 256 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        count(read as u64);
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}
