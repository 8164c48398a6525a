//! What a process logs, for tests that look through it.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, fmt};

/// All that was logged since [`Captured::start`].
#[derive(Clone, Default)]
pub(crate) struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    /// Captures for the whole process, once: what other tests log is captured too, and must be as quiet.
    pub(crate) fn start(filter: &str) -> Self {
        let captured = Self::default();
        let writer = captured.clone();
        let layer = fmt::layer().with_ansi(false).with_writer(move || writer.clone());
        let layer = layer.with_filter(filter.parse::<Targets>().unwrap());
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))
            .unwrap();
        captured
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
