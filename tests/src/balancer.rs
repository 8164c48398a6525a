//! One address in front of several servers, as a load balancer is: each connection goes to the next
//! one that takes it.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use anyhow::Result;

/// A balancer that runs for as long as the program.
#[derive(Clone, Debug)]
pub struct Balancer {
    listen: SocketAddr,
    servers: Arc<Vec<Server>>,
}

#[derive(Debug)]
struct Server {
    address: SocketAddr,
    is_out: AtomicBool,
}

impl Balancer {
    /// In front of these servers, which need not be running yet.
    pub fn before(servers: impl IntoIterator<Item = SocketAddr>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let servers = servers.into_iter();
        let servers: Vec<Server> =
            servers.map(|address| Server { address, is_out: AtomicBool::new(false) }).collect();
        let balancer = Self { listen: listener.local_addr()?, servers: Arc::new(servers) };
        let shared = Arc::clone(&balancer.servers);
        thread::spawn(move || {
            let next = AtomicUsize::new(0);
            for client in listener.incoming().flatten() {
                // Without a server the client sees its connection close.
                if let Some(server) = connect(&shared, &next) {
                    let _ = join(client, server);
                }
            }
        });
        Ok(balancer)
    }

    /// Takes a server out of the rotation, or puts it back, as a balancer does that watches them.
    pub fn set_out(&self, server: usize, is_out: bool) {
        if let Some(server) = self.servers.get(server) {
            server.is_out.store(is_out, Ordering::SeqCst);
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listen
    }

    /// The base URL of the servers as their clients know it.
    pub fn url(&self) -> String {
        format!("http://{}/", self.listen)
    }
}

fn connect(servers: &[Server], next: &AtomicUsize) -> Option<TcpStream> {
    let first = next.fetch_add(1, Ordering::Relaxed);
    (0..servers.len())
        .filter_map(|step| servers.get((first + step) % servers.len()))
        .filter(|server| !server.is_out.load(Ordering::SeqCst))
        .find_map(|server| TcpStream::connect(server.address).ok())
}

/// Carries bytes both ways until either side ends.
fn join(client: TcpStream, server: TcpStream) -> io::Result<()> {
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    for (mut from, mut to) in [(client.try_clone()?, server.try_clone()?), (server, client)] {
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
            let _ = from.shutdown(Shutdown::Both);
        });
    }
    Ok(())
}
