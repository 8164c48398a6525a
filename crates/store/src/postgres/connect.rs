//! Connections, and what can go wrong with them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{
    Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime, Timeouts,
};
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::StoreError;

/// Where a database is, and how to reach it. It may hold a password, and is never printed.
#[derive(Clone)]
pub struct PostgresUrl {
    config: Config,
    roots: Option<Arc<RootCertStore>>,
}

impl PostgresUrl {
    /// A connection string as PostgreSQL's own programs take it: `postgres://user@host/database`, or
    /// `host=... dbname=...`. With certificates of authorities the server is verified, and a
    /// connection without TLS is refused.
    pub fn new(text: &str, roots: Option<RootCertStore>) -> Result<Self, StoreError> {
        let mut config = Config::from_str(text).map_err(|error| {
            // The text may hold a password.
            StoreError::Backend(format!("the connection string is invalid: {error}"))
        })?;
        match &roots {
            Some(_) => drop(config.ssl_mode(SslMode::Require)),
            None if config.get_ssl_mode() == SslMode::Require => {
                return Err(StoreError::Backend(
                    "sslmode=require needs the certificates of the authorities that vouch for the \
                     database"
                        .into(),
                ));
            }
            None => drop(config.ssl_mode(SslMode::Disable)),
        }
        config.application_name("sotto");
        config.connect_timeout(Duration::from_secs(5));
        config.tcp_user_timeout(Duration::from_secs(15));
        config.keepalives_idle(Duration::from_secs(15));
        // Locks decide who sees what, statement by statement, whatever the server's default is. A
        // statement that is stuck must not outlive the caller's patience. Plans that were made when a
        // table was empty are wrong an hour later, and ours need no statistics.
        let settings = "-c default_transaction_isolation=read\\ committed \
                        -c statement_timeout=30s -c lock_timeout=10s \
                        -c idle_in_transaction_session_timeout=30s \
                        -c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c jit=off";
        let given = config.get_options().unwrap_or_default().to_owned();
        config.options(format!("{settings} {given}"));
        Ok(Self { config, roots: roots.map(Arc::new) })
    }

    /// Whether nobody on a network can read the connection.
    pub fn is_protected(&self) -> bool {
        let is_local = |host: &Host| match host {
            Host::Unix(_) => true,
            Host::Tcp(name) => {
                name == "localhost" || name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
            }
        };
        self.roots.is_some() || self.config.get_hosts().iter().all(is_local)
    }

    pub(super) fn pool(&self, max_connections: usize) -> Result<Pool, StoreError> {
        let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = match &self.roots {
            Some(roots) => {
                let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
                let tls = ClientConfig::builder_with_provider(provider)
                    .with_safe_default_protocol_versions()
                    .map_err(|error| StoreError::Backend(format!("TLS: {error}")))?
                    .with_root_certificates(Arc::clone(roots))
                    .with_no_client_auth();
                let tls = MakeRustlsConnect::new(tls);
                Manager::from_config(self.config.clone(), tls, manager_config)
            }
            None => Manager::from_config(self.config.clone(), NoTls, manager_config),
        };
        let wait = Some(Duration::from_secs(20));
        Pool::builder(manager)
            .max_size(max_connections.max(2))
            .timeouts(Timeouts { wait, create: wait, recycle: wait })
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| StoreError::Backend(format!("PostgreSQL: {error}")))
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostgresUrl")
    }
}

/// Why a transaction came to nothing.
#[derive(Debug)]
pub(super) enum Failure {
    /// The verb's own answer.
    Store(StoreError),
    /// What this process knew is out of date; it has forgotten it.
    Stale,
    Database(tokio_postgres::Error),
    Pool(PoolError),
}

impl Failure {
    pub(super) fn broken(why: String) -> Self {
        Self::Store(StoreError::Backend(why))
    }

    /// Whether the same step may succeed soon.
    pub(super) fn is_passing(&self) -> bool {
        let error = match self {
            Self::Store(_) => return false,
            Self::Stale => return true,
            Self::Pool(PoolError::Backend(error)) | Self::Database(error) => error,
            Self::Pool(_) => return false,
        };
        let Some(state) = error.code() else {
            // The connection was lost, or could not be made.
            return error.is_closed()
                || std::error::Error::source(error)
                    .is_some_and(|source| source.is::<std::io::Error>());
        };
        [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            // Two processes made the same row; the second finds it.
            SqlState::UNIQUE_VIOLATION,
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::TOO_MANY_CONNECTIONS,
        ]
        .contains(state)
    }

    pub(super) fn into_store(self) -> StoreError {
        match self {
            Self::Store(error) => error,
            other => StoreError::Backend(other.to_string()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Stale => f.write_str("another process changed a task"),
            // The message alone: details quote values.
            Self::Database(error) | Self::Pool(PoolError::Backend(error)) => {
                match error.as_db_error() {
                    Some(error) => write!(f, "PostgreSQL: {}", error.message()),
                    None => write!(f, "PostgreSQL: {error}"),
                }
            }
            Self::Pool(error) => write!(f, "PostgreSQL: {error}"),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}
