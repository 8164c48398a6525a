//! How the collector authenticates to the leader.

use std::fmt;

use sotto_crypto::Secret;
use zeroize::Zeroizing;

/// A credential, in one of the two forms that DAP servers accept.
pub enum AuthToken {
    /// `Authorization: Bearer <token>` (RFC 6750).
    Bearer(Secret<String>),
    /// `DAP-Auth-Token: <token>`, which interoperability tests and older peers use.
    DapAuth(Secret<String>),
}

impl AuthToken {
    /// The header that carries it.
    pub(crate) fn header(&self) -> (&'static str, Zeroizing<String>) {
        match self {
            Self::Bearer(token) => {
                ("authorization", Zeroizing::new(format!("Bearer {}", token.expose())))
            }
            Self::DapAuth(token) => ("dap-auth-token", Zeroizing::new(token.expose().clone())),
        }
    }
}

impl fmt::Debug for AuthToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bearer(_) => "Bearer([redacted])",
            Self::DapAuth(_) => "DapAuth([redacted])",
        })
    }
}
