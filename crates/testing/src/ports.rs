//! Ports for servers that tests start as processes.

use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// A free port of the loopback interface, below the range that the system uses for outgoing
/// connections: nobody else must take it before a server listens, or while one restarts.
pub fn free_port() -> io::Result<u16> {
    free_ports(1)
}

/// The first of `count` neighbouring ports of that kind.
pub fn free_ports(count: u16) -> io::Result<u16> {
    const FIRST: u16 = 10_000;
    const COUNT: u16 = 20_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Programs that run at the same time start at different ports.
    let begin = (std::process::id() as u16).wrapping_mul(97) % COUNT;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(count, Ordering::Relaxed);
        let first = FIRST + (begin + step % COUNT) % COUNT;
        if (first..first + count).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return Ok(first);
        }
    }
    Err(io::Error::other("no free port"))
}
