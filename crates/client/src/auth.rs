//! How the collector authenticates to the leader.

use sotto_crypto::Secret;
use zeroize::Zeroizing;

/// A credential, in one of the two forms that DAP servers accept.
#[derive(Debug)]
pub enum AuthToken {
    /// `Authorization: Bearer <token>` (RFC 6750).
    Bearer(Secret<String>),
    /// `DAP-Auth-Token: <token>`, which interoperability tests and older peers use.
    DapAuth(Secret<String>),
}

impl AuthToken {
    /// The header that carries it.
    pub(crate) fn header(&self) -> (&'static str, Zeroizing<String>) {
        let (name, value) = match self {
            Self::Bearer(token) => ("authorization", format!("Bearer {}", token.expose())),
            Self::DapAuth(token) => ("dap-auth-token", token.expose().clone()),
        };
        (name, Zeroizing::new(value))
    }
}
