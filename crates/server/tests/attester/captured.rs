//! What a process logs, for tests that look through it.

#[path = "../server/captured.rs"]
#[allow(dead_code, reason = "not all of it is for these tests")]
mod shared;

pub(crate) use shared::Captured;
