//! The log of servers: to stderr, as text on a terminal and as JSON elsewhere.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Starts logging at the level of `SOTTO_LOG`, `info` by default. Starting twice does nothing.
pub(crate) fn start() {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .with_env_var("SOTTO_LOG")
        .from_env_lossy();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    // An error means that a log is already there.
    let _ = if stderr().is_terminal() {
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        builder.with_ansi(colour).with_target(false).try_init()
    } else {
        builder.json().flatten_event(true).try_init()
    };
}
