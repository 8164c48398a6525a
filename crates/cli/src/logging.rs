//! The log output of servers: to stderr, as text on a terminal and as JSON elsewhere.

use std::io::{IsTerminal, stderr};

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts log output at the level of `SOTTO_LOG`, for instance `warn,hyper=debug`, or at this level if
/// that is not set. Starting twice does nothing.
pub(crate) fn start(level: Level) {
    let wanted = std::env::var("SOTTO_LOG").unwrap_or_default();
    let filter = wanted
        .parse()
        .ok()
        .filter(|_| !wanted.is_empty())
        .unwrap_or_else(|| Targets::new().with_default(level));
    let layer = layer().with_writer(stderr);
    // An error means that log output has been started before.
    let _ = if stderr().is_terminal() {
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        registry().with(filter).with(layer.with_ansi(colour).with_target(false)).try_init()
    } else {
        registry().with(filter).with(layer.json().flatten_event(true)).try_init()
    };
}
