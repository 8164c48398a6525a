//! One suite for every store: the promises of the verbs, tested on each back-end, and on the SQLite
//! store over files that forget what was not synced. [`postgres`] has what only that store promises.
//!
//! `futures_executor` runs it: the futures need no runtime.

mod bench;
mod forgetful;
mod reports;

mod driver;

mod collections;
mod drains;
mod durable;
mod fencing;
mod helper;
mod helper_batches;
mod jobs;
mod leader_selected;
mod model;
mod postgres;
mod receipts;
mod replays;
mod requeues;
mod series;
mod tasks;
mod token_tasks;
mod unserved;
mod uploads;
