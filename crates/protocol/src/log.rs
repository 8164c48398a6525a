//! The public log, without its files and its network.
//!
//! A log is a C2SP `tlog-tiles` tree of signed notes plus two derived kinds of file: `by-id` rows,
//! which find an entry by its id, and `first` files, which keep the cosigned checkpoint that first
//! covered an entry and so prove its age. [`Reader`] reads all of them from anywhere and trusts
//! none; [`mod@sequence`] is the pure core of appending, [`admit`] says which entries a log accepts
//! and [`witnessing`] how it handles a witness's answer. Files and locks belong to `sotto-store`,
//! HTTP to `sotto-server` and `sotto-client`.

#[cfg(feature = "server")]
pub mod admit;
pub mod first;
pub mod misbehaviour;
pub mod reader;
pub mod rows;
#[cfg(feature = "server")]
pub mod sequence;
pub mod tiles;
#[cfg(feature = "server")]
pub mod witnessing;

pub use misbehaviour::{Accused, Comparison, ForeignRoot, Misbehaviour, compare};
pub use reader::{Fetch, FetchError, Reader, ReaderError};

/// The path of the newest cosigned checkpoint.
pub const CHECKPOINT_PATH: &str = "checkpoint";
