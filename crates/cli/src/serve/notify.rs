//! Tells the service manager (systemd, `Type=notify`) how far a server is.

/// Sends a state, `READY=1` or `STOPPING=1`, to the socket that the service manager named, if any. A
/// manager that cannot be told is no reason to stop.
pub(super) fn tell(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(%error, "the service manager cannot be told: {state}");
    }
}

#[cfg(unix)]
fn send(socket: &std::ffi::OsStr, state: &str) -> std::io::Result<()> {
    use std::os::unix::net::UnixDatagram;
    let sender = UnixDatagram::unbound()?;
    // A name that begins with @ is not a file.
    #[cfg(target_os = "linux")]
    if let Some(name) = socket.as_encoded_bytes().strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt;
        let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        return sender.send_to_addr(state.as_bytes(), &address).map(drop);
    }
    sender.send_to(state.as_bytes(), socket).map(drop)
}

#[cfg(not(unix))]
fn send(_socket: &std::ffi::OsStr, _state: &str) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}
