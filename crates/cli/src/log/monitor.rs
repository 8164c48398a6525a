//! `sotto log monitor`: reads what a log adds, tells it in words, and alerts to what is wrong.

mod alerts;
mod keys;
mod notebook;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use serde_json::json;
use sotto_crypto::note;
use sotto_protocol::log::{Misbehaviour, Reader};
use sotto_wire::Checkpoint;

use self::alerts::Report;
use self::notebook::Notebook;
use super::{misbehaviour, verify};
use crate::log_source::{LogArgs, LogSource};
use crate::output::{Outcome, Output, WithHint};
use crate::time_text::{now, parse_seconds};
use crate::trust_file;
use sotto_protocol::trust::Trust;

/// Entries that are read at once.
const STEP: u64 = 1_024;

#[derive(Debug, Args)]
#[command(
    after_help = "With --once: exit code 0 if nothing is wrong, 1 if there was an alert, 2 if the log \
    could not be read. An alert with a proof is also written to a misbehaviour file."
)]
pub(super) struct MonitorArgs {
    /// Log and witness keys, operators and floors.
    #[arg(long, value_name = "FILE")]
    trust: PathBuf,
    /// What was read before. Made if it does not exist.
    #[arg(long, value_name = "FILE")]
    state: PathBuf,
    #[command(flatten)]
    log: LogArgs,
    /// Read once, then end.
    #[arg(long)]
    once: bool,
    /// The time between two readings.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    interval: String,
    /// Do not ask aggregators for the keys that they serve.
    #[arg(long)]
    no_served_keys: bool,
    /// Where misbehaviour files are written.
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
}

impl MonitorArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        ensure!(self.once || !output.json(), "--json goes with --once");
        let trust = trust_file::read(&self.trust)?;
        let interval = Duration::from_secs(parse_seconds(&self.interval)?);
        let source = self.log.source(Some(&trust))?.context("which log?");
        let source = source.hint("give --log, or a URL in the trust file's policy")?;
        let mut notebook = Notebook::open(&self.state)?;
        loop {
            match self.read(&mut notebook, &source, &trust, output) {
                Ok(report) => {
                    self.tell(&report, output)?;
                    if self.once {
                        return Ok(if report.alerts.is_empty() {
                            Outcome::Yes
                        } else {
                            Outcome::No
                        });
                    }
                }
                Err(error) if self.once => return Err(error),
                Err(error) => output.remark(format!("the log could not be read: {error:#}")),
            }
            std::thread::sleep(interval);
        }
    }

    /// One reading: everything new, in order; then the state is kept.
    fn read(
        &self,
        notebook: &mut Notebook,
        source: &LogSource,
        trust: &Trust,
        output: &Output,
    ) -> Result<Report> {
        let mut report = Report::default();
        let mut reader = Reader::new(source.fetch());
        let newest = reader.checkpoint()?.ok_or_else(|| anyhow!("the log is empty"))?;
        let tree = note::verify_log(&newest, trust.policy())
            .context("the log's checkpoint cannot be believed")?;
        if let Some(found) = self.check_extends(notebook, source, trust, &tree, &newest)? {
            report.alert("the log contradicts itself", Some(found));
            // What lies in a forked tree is not worth reading.
            return Ok(report);
        }
        report.check_witnesses(&newest, trust, now()?);
        let bar = output.bar("entries", tree.size.saturating_sub(notebook.size()));
        while notebook.size() < tree.size {
            let end = tree.size.min(notebook.size().saturating_add(STEP));
            for entry in reader.entries(notebook.size()..end, &tree)? {
                notebook.read_entry(&entry, trust, &mut report);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        notebook.believe(&newest);
        if !self.no_served_keys {
            keys::compare(notebook, &self.log.connection, now()?, &mut report)?;
        }
        for evidence in &report.evidence {
            let path = misbehaviour::write(&self.out, evidence.clone())?;
            report.files.push(path);
        }
        notebook.keep(&self.state)?;
        report.size = tree.size;
        Ok(report)
    }

    fn check_extends(
        &self,
        notebook: &Notebook,
        source: &LogSource,
        trust: &Trust,
        new: &Checkpoint,
        note: &sotto_wire::Note,
    ) -> Result<Option<Misbehaviour>> {
        let Some(old_note) = notebook.checkpoint()? else { return Ok(None) };
        let old = Checkpoint::parse(old_note.text())?;
        ensure!(
            old.origin == new.origin,
            "{} is the state of the log {}",
            self.state.display(),
            old.origin
        );
        let Some(key) = trust.policy().log_keys(&new.origin).next() else { return Ok(None) };
        let mut fetch = source.fetch();
        if old.size <= new.size {
            verify::extends(&mut fetch, key, (&old, &old_note), (new, note))
        } else {
            // Going back is no contradiction by itself, but nobody should follow.
            let found = verify::extends(&mut fetch, key, (new, note), (&old, &old_note))?;
            match found {
                Some(found) => Ok(Some(found)),
                None => Err(anyhow!("the log has {} entries, but had {}", new.size, old.size)),
            }
        }
    }

    fn tell(&self, report: &Report, output: &Output) -> Result<()> {
        if output.json() {
            return output.value(&json!({
                "size": report.size,
                "news": report.news,
                "alerts": report.alerts,
                "misbehaviour_files": report.files,
            }));
        }
        for line in &report.news {
            output.line(line)?;
        }
        for alert in &report.alerts {
            output.line(format!("ALERT {alert}"))?;
        }
        for path in &report.files {
            output.line(format!("proof in {}", path.display()))?;
        }
        if report.news.is_empty() && report.alerts.is_empty() {
            output.line(format!("{} entries, nothing new, nothing wrong", report.size))?;
        }
        Ok(())
    }
}
