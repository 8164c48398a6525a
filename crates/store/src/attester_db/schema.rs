//! The tables of an attester, and how its folder is opened.

use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use rand_core::CryptoRng;
use rusqlite::{Connection, params};

use super::AttesterDbOptions;
use super::mark::HighWaterMark;
use super::secret::{HashSecret, SecretFile};
use crate::sqlite::{lock, schema};
use crate::{Result, StoreError};

/// Incremented with every change to the tables.
const VERSION: i64 = 1;

/// The reading connection gets this fraction of the page memory.
const READER_CACHE_SHARE: u64 = 4;

const TABLES: &str = "
CREATE TABLE attester (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 0),
    mark BLOB NOT NULL,             -- the secret that all hashes are under
    window_s INTEGER NOT NULL,
    newest_window INTEGER NOT NULL, -- never goes back
    commits INTEGER NOT NULL        -- how many; the secret's file follows
) STRICT;

CREATE TABLE devices (
    device INTEGER PRIMARY KEY AUTOINCREMENT,
    tag BLOB NOT NULL UNIQUE,
    client_key BLOB NOT NULL,
    window INTEGER NOT NULL,        -- the last in which it asked for a token
    current INTEGER NOT NULL,       -- grants in that window
    previous INTEGER NOT NULL       -- and in the one before
) STRICT;

-- In the order of their windows, because the number of the window never goes back.
CREATE TABLE grants (
    number INTEGER PRIMARY KEY,
    device INTEGER NOT NULL,
    window INTEGER NOT NULL,
    issuer_alias BLOB NOT NULL,
    client_alias BLOB NOT NULL,
    request BLOB NOT NULL,
    response BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX grants_by_issuer_alias ON grants (device, issuer_alias);
CREATE UNIQUE INDEX grants_by_client_alias ON grants (device, client_alias);
CREATE INDEX grants_by_request ON grants (device, request);
";

/// An opened folder.
pub(super) struct Opened {
    pub(super) writer: Connection,
    pub(super) reader: Connection,
    pub(super) mark: HighWaterMark,
    pub(super) newest_window: u64,
}

/// Creates the folder if it is missing, and locks it for this process.
pub(super) fn take_folder(dir: &Path) -> Result<File> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| StoreError::Backend(format!("{}: {error}", dir.display())))?;
    lock(dir)
}

/// Opens the database and the secret, which must belong together.
pub(super) fn open(
    dir: &Path,
    options: &AttesterDbOptions,
    rng: &mut dyn CryptoRng,
) -> Result<Opened> {
    let window_s = i64::try_from(options.window_s).ok().filter(|length| *length > 0);
    let window_s = window_s.ok_or_else(|| refused(dir, "a window needs a length".into()))?;
    let path = dir.join("attester.sqlite");
    let secret_path = dir.join("attester.secret");
    let failed =
        |error: std::io::Error| StoreError::Backend(format!("{}: {error}", secret_path.display()));
    let known = SecretFile::read(&secret_path).map_err(failed)?;
    let has_database = path.exists();
    if known.is_some() && !has_database {
        return Err(refused(
            dir,
            "the database is gone, and the secret is not. A new database grants second tokens until \
             every token key of today has expired; then remove attester.secret as well"
                .into(),
        ));
    }
    let mut writer = schema::open_database(&path, options.cache_bytes, VERSION, TABLES, &[])?;
    let stored: Option<Stored> = read(&writer)?;
    let mut file = match (known, &stored) {
        (Some(file), Some(stored)) if file.secret.mark() == stored.mark => file,
        (Some(_), Some(_)) => {
            return Err(refused(dir, "secret and database do not belong together".into()));
        }
        (None, Some(_)) => {
            return Err(refused(
                dir,
                "attester.secret is missing: no device would be recognized".into(),
            ));
        }
        // A database without its row was being created when the process ended: nothing was granted.
        (Some(file), None) => file,
        (None, None) => SecretFile { secret: Arc::new(HashSecret::generate(rng)), commits: 0 },
    };
    if let Some(stored) = &stored
        && stored.window_s != window_s
    {
        let length = stored.window_s;
        return Err(refused(dir, format!("it was created with windows of {length} seconds")));
    }
    // A copy without its WAL may even have lost its row.
    let commits = stored.as_ref().map_or(0, |stored| stored.commits);
    if commits < file.commits {
        return Err(refused(
            dir,
            "the database is older than attester.secret, as after a restored backup. It would \
             grant second tokens"
                .into(),
        ));
    }
    // Opening counts as a commit, too: from now on, an earlier copy is rejected.
    let commits = commits + 1;
    if stored.is_none() {
        // The secret first: a database that has granted tokens always has one.
        file.write(&secret_path).map_err(failed)?;
    }
    let tx = writer.transaction()?;
    tx.execute(
        "INSERT INTO attester VALUES (0, ?1, ?2, 0, ?3)
         ON CONFLICT (only_row) DO UPDATE SET commits = excluded.commits",
        params![file.secret.mark(), window_s, commits as i64],
    )?;
    tx.commit()?;
    file.commits = commits;
    file.write(&secret_path).map_err(failed)?;
    let reader = schema::open_reader(&path, options.cache_bytes / READER_CACHE_SHARE)?;
    let newest_window = stored.map_or(0, |stored| stored.newest_window);
    let mark = HighWaterMark::new(file, secret_path);
    Ok(Opened { writer, reader, mark, newest_window })
}

struct Stored {
    mark: [u8; 16],
    window_s: i64,
    newest_window: u64,
    commits: u64,
}

fn read(conn: &Connection) -> Result<Option<Stored>> {
    let mut statement =
        conn.prepare("SELECT mark, window_s, newest_window, commits FROM attester")?;
    let mut rows = statement.query_map([], |row| {
        Ok(Stored {
            mark: row.get(0)?,
            window_s: row.get(1)?,
            newest_window: row.get::<_, i64>(2)? as u64,
            commits: row.get::<_, i64>(3)? as u64,
        })
    })?;
    Ok(rows.next().transpose()?)
}

fn refused(dir: &Path, why: String) -> StoreError {
    StoreError::Backend(format!("cannot open the attester's folder {}: {why}", dir.display()))
}
