//! The PostgreSQL database of leader and helper, as their files name it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sotto_server::PostgresTable;
use sotto_store::{PostgresOptions, PostgresStore, PostgresUrl, StoreKey, StoreKeys};

use crate::output::WithHint;
use crate::task_file::secret_array;
use crate::{private_file, random};

/// How many bytes of reports one commit takes at most.
const SEGMENT_BYTES: usize = 4 << 20;

/// The address in a configuration.
pub(crate) fn url(table: &PostgresTable, insecure: bool) -> Result<PostgresUrl> {
    let roots = table.ca.as_deref().map(authorities).transpose()?;
    let url = PostgresUrl::new(table.url.expose(), roots)?;
    if !url.is_protected() && !insecure {
        return Err(anyhow!(
            "[postgres]: the connection to another machine would not be encrypted"
        ))
        .hint("set `ca` to the certificates of the authorities that vouch for the database");
    }
    Ok(url)
}

fn authorities(path: &Path) -> Result<RootCertStore> {
    let pem = private_file::read_bytes(path)?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| anyhow!("{}: {error}", path.display()))?;
        roots.add(certificate).with_context(|| path.display().to_string())?;
    }
    ensure!(!roots.is_empty(), "{} has no certificate", path.display());
    Ok(roots)
}

/// Opens the store for a role.
pub(super) async fn open(
    table: &PostgresTable,
    role: &'static str,
    insecure: bool,
) -> Result<PostgresStore> {
    let options = PostgresOptions {
        url: url(table, insecure)?,
        role,
        max_connections: table.max_connections,
        max_backlog_bytes: table.max_backlog,
        cache_bytes: table.cache,
        segment_bytes: SEGMENT_BYTES,
        keys: keys(&table.keys)?,
        rng: Box::new(random::system()),
        clock: None,
    };
    PostgresStore::open(options).await.context("cannot open the store in the database")
}

/// Checks everything that [`open`] needs, and changes nothing.
pub(super) async fn check(table: &PostgresTable, insecure: bool) -> Result<()> {
    keys(&table.keys)?;
    sotto_store::check_schema(&url(table, insecure)?).await.context("[postgres]")
}

fn keys(files: &[PathBuf]) -> Result<StoreKeys> {
    let read = |path: &PathBuf| -> Result<StoreKey> {
        let text = String::from_utf8(private_file::read_key(path)?)
            .map_err(|_| anyhow!("{} is not a key of a store", path.display()))?;
        let key = secret_array(&sotto_crypto::Secret::new(text.trim().to_owned()))
            .with_context(|| format!("{} is not a key of a store", path.display()))?;
        Ok(StoreKey::new(*key.expose()))
    };
    let mut keys = files.iter().map(read);
    let Some(current) = keys.next() else {
        return Err(anyhow!("[postgres]: `keys` is empty"))
            .hint("make one with `sotto keys store`");
    };
    Ok(StoreKeys { current: current?, previous: keys.collect::<Result<_>>()? })
}
