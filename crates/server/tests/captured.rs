//! Everything that a process logs, for tests that search it.

use std::io::Write;
use std::process::Command;
use std::sync::{Arc, Mutex};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

/// Set in a process that runs one test.
const ALONE: &str = "SOTTO_TEST_ALONE";

/// The log output of the process since [`Captured::alone`].
#[derive(Clone, Default)]
pub(crate) struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    /// Log output can only be captured once per process, and for all its threads. So this runs the
    /// named test again in a separate process. Returns `None` in the parent once that has passed,
    /// and a capture in the child.
    pub(crate) fn alone(test: &str, filter: &str) -> Option<Self> {
        if std::env::var_os(ALONE).is_none() {
            let mut again = Command::new(std::env::current_exe().unwrap());
            let output = again.args(["--exact", test]).env(ALONE, "1").output().unwrap();
            let shown = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && shown.contains("1 passed"), "{shown}");
            return None;
        }
        let captured = Self::default();
        let writer = captured.clone();
        let layer = fmt::layer().with_ansi(false).with_writer(move || writer.clone());
        // Also captures what goes through the crate `log`.
        let layer = layer.with_filter(filter.parse::<Targets>().unwrap());
        tracing_subscriber::registry().with(layer).init();
        Some(captured)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The ways in which 16 bytes are usually printed.
pub(crate) fn spellings(bytes: &[u8]) -> [String; 4] {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let base64 = sotto_wire::ReportId::new(bytes.try_into().unwrap()).to_string();
    [hex.to_uppercase(), hex, base64, format!("{bytes:?}")]
}
