//! What an attester counts: which device has had which token, over two windows.
//!
//! ```text
//! DIR/sotto.lock         held while the database is open
//! DIR/attester.sqlite    devices and grants (WAL, synchronous=FULL)
//! DIR/attester.secret    the key of every hash in it; whoever has both files can test guesses
//!                        at a device
//! ```
//! The secret's file also records how many commits the database has. It is written when the
//! database is opened, within seconds of a commit, and when the database is closed. A database with
//! fewer commits is rejected. This catches an old copy of the database, made before or during a
//! run, with or without its `-wal`, that is restored beside the newer secret. It does not catch a
//! copy of the whole folder that is restored as a whole. Nor, after a crash, does it catch a copy
//! that lacks only commits from the last seconds before the crash.
//!
//! A grant is durable before [`AttesterDb::record`] resolves, and only then may its response go to
//! the device. From then on the same request gets the same response, so a crash wastes no token,
//! and any other request for the origin gets none, so no second token is granted.
//!
//! Time is counted in windows of a fixed length. A grant counts in its own window and in the next:
//! no token key lives longer than a window, so a row outlives every key that it counts for. The
//! window number never decreases, whatever the clock does.
//!
//! Two threads: `sotto-attester` writes and commits calls in groups ([`writer`]), `sotto-reads`
//! looks up. Devices, keys, aliases and requests are stored as keyed hashes only. Responses are
//! sealed to devices.

mod counting;
mod mark;
mod schema;
mod secret;
mod tidy;
mod writer;

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand_core::CryptoRng;
use rusqlite::Connection;
use sotto_protocol::Moment;
use sotto_protocol::attester::DeviceIdentity;
use sotto_wire::KeyName;

use self::counting::Asked;
use self::secret::{HashSecret, Tag};
use self::writer::{Writer, WriterState};
use crate::sqlite::worker::{self, Worker};
use crate::{Result, StoreError};

/// How an attester counts.
#[derive(Clone, Debug)]
pub struct AttesterDbOptions {
    /// The length of a window. It is fixed when the database is created.
    pub window_s: u64,
    /// The number of origins that one device may have tokens for in two windows.
    pub max_aliases_per_device: u64,
    /// Memory for database pages.
    pub cache_bytes: u64,
}

impl Default for AttesterDbOptions {
    fn default() -> Self {
        Self { window_s: 30 * 24 * 3600, max_aliases_per_device: 10_000, cache_bytes: 32 << 20 }
    }
}

/// A token that an issuer has granted, before it reaches the device.
#[derive(Clone)]
pub struct Grant {
    /// The device that it is for.
    pub device: DeviceIdentity,
    /// The issuer that granted it.
    pub issuer: KeyName,
    /// The device's key.
    pub client_key: [u8; 32],
    /// What the device calls the origin.
    pub client_alias: [u8; 32],
    /// What the issuer's response calls the origin.
    pub issuer_alias: [u8; 64],
    /// The digest of the request.
    pub request_digest: [u8; 32],
    /// The sealed response.
    pub response: Vec<u8>,
}

/// What is known about a request before it goes to the issuer.
#[derive(Clone, PartialEq, Eq)]
pub enum Known {
    /// Nothing: the issuer may be asked.
    Unknown,
    /// The request was answered with this response, which may be sent again.
    Answered(Vec<u8>),
    /// The client alias has had a token for another request, so no response of the issuer could be
    /// granted.
    Withheld,
    /// The device has another client key.
    OtherKey,
}

/// What happened to a grant.
#[derive(Clone, PartialEq, Eq)]
pub enum Recorded {
    /// The grant is new and counts. The response may go to the device.
    New,
    /// The same request was granted before, with this response.
    AlreadyGranted(Vec<u8>),
    /// The device has already had its token for this origin.
    Withheld,
    /// One origin under two client aliases, or one client alias for two origins.
    OtherAlias,
    /// The device has another client key.
    OtherKey,
    /// The device has had tokens for too many origins.
    Full,
}

/// The database of an attester. Dropping it finishes the calls in progress and closes the files.
pub struct AttesterDb {
    reads: Worker<Reads>,
    writer: Writer,
    secret: Arc<HashSecret>,
    windows: Arc<Windows>,
    _lock: File,
}

impl AttesterDb {
    /// Opens the database in `dir`, and creates the folder if it is missing.
    ///
    /// Returns an error if the folder is in use, lacks one of its two files, was created with
    /// another window length, or if the database has fewer commits than the secret's file records
    /// (an old copy would grant second tokens).
    pub fn open(dir: &Path, options: &AttesterDbOptions, rng: &mut dyn CryptoRng) -> Result<Self> {
        let lock = schema::take_folder(dir)?;
        let opened = schema::open(dir, options, rng)?;
        let windows =
            Arc::new(Windows { length_s: options.window_s, newest: opened.newest_window.into() });
        let failed = |error: std::io::Error| StoreError::Backend(error.to_string());
        let reads = Reads { conn: opened.reader, windows: Arc::clone(&windows) };
        let secret = opened.mark.secret();
        let writer = Writer::start(WriterState {
            conn: opened.writer,
            windows: Arc::clone(&windows),
            max_aliases: options.max_aliases_per_device,
            mark: opened.mark,
        });
        Ok(Self {
            reads: Worker::start("sotto-reads", reads).map_err(failed)?,
            writer: writer.map_err(failed)?,
            secret,
            windows,
            _lock: lock,
        })
    }

    /// The length of a window.
    pub fn window_s(&self) -> u64 {
        self.windows.length_s
    }

    /// What is known about a device's request. Changes nothing.
    pub async fn stored_answer(
        &self,
        device: &DeviceIdentity,
        issuer: &KeyName,
        client_key: &[u8; 32],
        client_alias: &[u8; 32],
        request_digest: &[u8; 32],
        now: Moment,
    ) -> Result<Known> {
        let issuer = secret::issuer(issuer);
        let asked = Asked {
            device: self.secret.device(device),
            client_key: self.secret.client_key(client_key),
            client_alias: self.secret.client_alias(&issuer, client_alias),
            request: self.secret.request(&issuer, request_digest),
        };
        self.reads
            .run(move |reads| {
                let window = reads.windows.at(now);
                counting::look_up(&reads.conn, window, &asked)
            })
            .await
    }

    /// Counts grants in order and returns the outcome of each. When it resolves, either all are
    /// durable or none is. Recording a grant again changes nothing.
    pub async fn record(&self, grants: Vec<Grant>, now: Moment) -> Result<Vec<Recorded>> {
        let rows = grants.into_iter().map(|grant| self.row(grant)).collect();
        self.writer.record(rows, now).await
    }

    /// The number of devices and grants in the database, including those that are still to be
    /// deleted. Reads every row: for tests.
    pub async fn counts(&self) -> Result<(u64, u64)> {
        self.reads
            .run(|reads| {
                let count = |table: &str| -> Result<u64> {
                    let sql = format!("SELECT COUNT(*) FROM {table}");
                    Ok(reads.conn.query_row(&sql, [], |row| row.get::<_, i64>(0))? as u64)
                };
                Ok((count("devices")?, count("grants")?))
            })
            .await
    }

    fn row(&self, grant: Grant) -> Row {
        let issuer = secret::issuer(&grant.issuer);
        Row {
            asked: Asked {
                device: self.secret.device(&grant.device),
                client_key: self.secret.client_key(&grant.client_key),
                client_alias: self.secret.client_alias(&issuer, &grant.client_alias),
                request: self.secret.request(&issuer, &grant.request_digest),
            },
            issuer_alias: self.secret.issuer_alias(&issuer, &grant.issuer_alias),
            response: grant.response,
        }
    }
}

impl Drop for AttesterDb {
    fn drop(&mut self) {
        // The writing connection closes last and cleans up its WAL.
        self.reads.stop();
        self.writer.stop();
    }
}

/// A grant in its stored form.
struct Row {
    asked: Asked,
    issuer_alias: Tag,
    response: Vec<u8>,
}

/// The current window number.
struct Windows {
    length_s: u64,
    /// The largest window in which something was committed.
    newest: AtomicU64,
}

impl Windows {
    /// The window of a moment, or a later one that was seen before. A clock that is set back must
    /// neither make later grants stop counting nor bring deleted windows back.
    fn at(&self, now: Moment) -> u64 {
        let window = now.0.checked_div(self.length_s).unwrap_or(0);
        window.max(self.newest.load(Ordering::Acquire))
    }
}

/// What the reading thread owns.
struct Reads {
    conn: Connection,
    windows: Arc<Windows>,
}

impl worker::State for Reads {}

impl fmt::Debug for AttesterDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttesterDb").finish_non_exhaustive()
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant").finish_non_exhaustive()
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "Unknown",
            Self::Answered(_) => "Answered(..)",
            Self::Withheld => "Withheld",
            Self::OtherKey => "OtherKey",
        })
    }
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::New => "New",
            Self::AlreadyGranted(_) => "AlreadyGranted(..)",
            Self::Withheld => "Withheld",
            Self::OtherAlias => "OtherAlias",
            Self::OtherKey => "OtherKey",
            Self::Full => "Full",
        })
    }
}
