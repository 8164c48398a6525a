//! What the aggregators commit.
//!
//! A store offers domain facts, not rows. Each verb of [`LeaderStore`] and [`HelperStore`] is one
//! atomic step of the protocol. It documents what is durable when its future resolves and what
//! happens if it is called again. Verbs take and return the types of `sotto_protocol`. Where
//! records are stored is the store's own affair: [`Stretch`] is opaque. The back-ends
//! ([`MemoryStore`], [`SqliteStore`]) share the conformance suite in `tests/conformance.rs`.
//!
//! The futures need no particular runtime: work happens on the store's own threads.

mod attester_db;
mod clock;
mod collection_id;
mod hold;
mod intervals;
mod issuer_db;
mod lock;
mod memory;
mod outcome;
mod postgres;
mod queue;
mod sqlite;
mod tlog_dir;
mod verbs;
mod witness_dir;

pub use attester_db::{AttesterDb, AttesterDbOptions, Grant, Known, Recorded};
pub use clock::Clock;
pub use issuer_db::{IssuerDb, IssuerDbError};
pub use memory::MemoryStore;
pub use postgres::{
    MigrationPlan, PostgresOptions, PostgresStore, PostgresUrl, StoreKey, StoreKeys, check_schema,
    migrate, migration_plan,
};
pub use sqlite::{DiskFiles, SegmentFile, SegmentFiles, SqliteOptions, SqliteStore};
pub use tlog_dir::{
    DiskOp, DiskWatch, FolderFetch, Fsck, FsckError, LogDir, LogDirError, MAX_BATCH, Placed,
    Staged, Step, fsck,
};
pub use verbs::*;
pub use witness_dir::{WitnessAnswer, WitnessDir, WitnessDirError};
