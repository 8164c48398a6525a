//! The log output of servers: to stderr, as text on a terminal and as JSON elsewhere.
//!
//! A warning or an error that repeats is written once, and then counted once a minute.

use std::collections::HashMap;
use std::fmt::{Debug, Write};
use std::io::{IsTerminal, stderr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::{Context, Filter, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, registry};

/// How often repetitions are counted.
const COUNT_AGAIN: Duration = Duration::from_secs(60);

/// The most different lines that are remembered. Further ones are written each time.
const MAX_LINES: usize = 1_000;

/// Starts log output at the level of `SOTTO_LOG`, for instance `warn,hyper=debug`, or at this level if
/// that is not set. Starting twice does nothing.
pub(crate) fn start(level: Level) {
    let wanted = std::env::var("SOTTO_LOG").unwrap_or_default();
    let filter = wanted.parse().ok().filter(|_| !wanted.is_empty()).unwrap_or_else(|| {
        // The store says what went wrong with its database, in its own words.
        let quiet = [("tokio_postgres", LevelFilter::OFF), ("deadpool", LevelFilter::OFF)];
        Targets::new().with_default(level).with_targets(quiet)
    });
    let layer = layer().with_writer(stderr);
    let repeats = Repeats::default();
    let once = repeats.clone();
    // An error means that log output has been started before.
    let started = if stderr().is_terminal() {
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let layer = layer.with_ansi(colour).with_target(false);
        registry().with(filter).with(layer.with_filter(once)).try_init()
    } else {
        registry().with(filter).with(layer.json().flatten_event(true).with_filter(once)).try_init()
    };
    if started.is_ok() {
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(COUNT_AGAIN);
                repeats.tell();
            }
        });
    }
}

/// The warnings and errors that were written lately, and how often each has come again.
#[derive(Clone, Debug, Default)]
struct Repeats(Arc<Mutex<HashMap<String, u64>>>);

impl Repeats {
    /// Whether a line is to be written: it is not one of the last minute.
    fn is_new(&self, line: String) -> bool {
        let mut lines = self.lock();
        if let Some(count) = lines.get_mut(&line) {
            *count += 1;
            return false;
        }
        if lines.len() < MAX_LINES {
            lines.insert(line, 0);
        }
        true
    }

    /// The lines that have come again since the last call. The others are forgotten.
    fn take(&self) -> Vec<(String, u64)> {
        let mut lines = self.lock();
        lines.retain(|_, count| *count > 0);
        lines.iter_mut().map(|(line, count)| (line.clone(), std::mem::take(count))).collect()
    }

    /// Writes how often each line has come again.
    fn tell(&self) {
        for (line, times) in self.take() {
            tracing::warn!(times, "again in the last minute: {line}");
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Filter<S> for Repeats {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::WARN || metadata.target() == module_path!() {
            return true;
        }
        let mut line = Line::default();
        event.record(&mut line);
        self.is_new(line.message + &line.fields)
    }
}

/// An event as text. Numbers are left out: lines that differ only in the number of a job are the same.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    fn record_u64(&mut self, _: &Field, _: u64) {}

    fn record_i64(&mut self, _: &Field, _: i64) {}
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_repeats_is_written_once_and_counted() {
        let (written, repeats) = (Written::default(), Repeats::default());
        let writer = written.clone();
        let layer = layer().json().flatten_event(true).with_writer(move || writer.clone());
        let lines = || {
            let mut bytes = written.0.lock().unwrap();
            let text = String::from_utf8(std::mem::take(&mut *bytes)).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let fail = |helper: &str, job: u64| tracing::warn!(target: "x", helper, job, "no answer");
        let subscriber = registry().with(layer.with_filter(repeats.clone()));
        tracing::subscriber::with_default(subscriber, || {
            (0..100).for_each(|job| fail("https://a.example/", job));
            fail("https://b.example/", 0);
            (0..3).for_each(|_| tracing::info!(target: "x", "a remark"));
            assert_eq!(lines().len(), 5, "each failure once, each remark");
            for times in [99, 7] {
                repeats.tell();
                let told = lines();
                assert_eq!(told.len(), 1, "{told:?}");
                assert!(told[0].contains("again in the last minute: no answer"), "{told:?}");
                assert!(told[0].contains("a.example"), "{told:?}");
                assert!(told[0].contains(&format!("\"times\":{times}")), "{told:?}");
                (0..7).for_each(|job| fail("https://a.example/", job));
                assert_eq!(lines().len(), 0);
            }
            // Once it has stopped for a minute, it is news again.
            repeats.tell();
            repeats.tell();
            lines();
            fail("https://a.example/", 0);
            fail("https://b.example/", 0);
            assert_eq!(lines().len(), 2);
        });
    }
}
