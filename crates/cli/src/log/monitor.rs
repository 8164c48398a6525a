//! `sotto log monitor`: reads the new entries of a log, describes them, and raises alerts.

mod events;
mod hook;
mod keys;
mod releases;
mod state;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use serde_json::json;
use sotto_crypto::note;
use sotto_protocol::log::Reader;
use sotto_protocol::trust::Trust;

use self::events::{EventKind, Report};
use self::state::MonitorState;
use super::about::About;
use super::findings::Party;
use super::fork::{self, Compared, SignedTree};
use super::memory::{Memory, PlaceArgs};
use super::misbehaviour;
use crate::log_source::{LogArgs, LogSource};
use crate::output::{Outcome, Output, WithHint};
use crate::time_text::{now, parse_seconds};
use crate::trust_file;

/// The number of entries that are read at a time.
const STEP: u64 = 1_024;

#[derive(Debug, Args)]
#[command(
    after_help = "With --once: exit code 0 if nothing is wrong, 1 if there was an alert, 2 if the log \
    could not be read or the hook failed. An event that the hook does not accept is kept in the \
    state, and given to it again at the next reading. An alert with a proof is also written to a misbehaviour file, and remembered: \
    a log that contradicted itself stays an alert, see `sotto log memory`."
)]
pub(super) struct MonitorArgs {
    /// Log and witness keys, operators and floors.
    #[arg(long, value_name = "FILE")]
    trust: PathBuf,
    /// The monitor's state file. Created if it does not exist.
    #[arg(long, value_name = "FILE")]
    state: PathBuf,
    #[command(flatten)]
    log: LogArgs,
    /// Read once, then exit.
    #[arg(long)]
    once: bool,
    /// The time between two readings.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    interval: String,
    /// Do not check which keys the aggregators serve.
    #[arg(long)]
    no_served_keys: bool,
    /// Where misbehaviour files are written.
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    #[command(flatten)]
    memory: PlaceArgs,
    /// Run this shell command for each event, with the event as JSON on its standard input.
    #[arg(long, value_name = "COMMAND")]
    hook: Option<String>,
    /// The longest time for one run of the hook.
    #[arg(long, value_name = "TIME", default_value = "30s", requires = "hook")]
    hook_timeout: String,
}

impl MonitorArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        ensure!(self.once || !output.json(), "--json needs --once");
        let trust = trust_file::read(&self.trust)?;
        let interval = Duration::from_secs(parse_seconds(&self.interval)?);
        let source = self.log.source(Some(&trust))?.context("no log is given");
        let source = source.hint("give --log, or a URL in the trust file's policy")?;
        let hook_timeout = Duration::from_secs(parse_seconds(&self.hook_timeout)?);
        let mut state = MonitorState::open(&self.state)?;
        loop {
            match self.read(&mut state, &source, &trust, output) {
                Ok(mut report) => {
                    if let Some(hook) = &self.hook {
                        report.hook_failures = state.deliver(|event| {
                            hook::run(hook, output.value_line(event)?, hook_timeout)
                        });
                        report.pending = state.pending();
                        state.keep(&self.state)?;
                    }
                    self.tell(&report, output)?;
                    if self.once {
                        return Ok(match (report.has_alert(), report.pending) {
                            (true, _) => Outcome::No,
                            (false, 0) => Outcome::Yes,
                            (false, _) => Outcome::Undecided,
                        });
                    }
                }
                Err(error) if self.once => return Err(error),
                Err(error) => output.remark(format!("the log could not be read: {error:#}")),
            }
            std::thread::sleep(interval);
        }
    }

    /// Reads everything new, in order, then saves the state. If it fails, the state is
    /// unchanged.
    fn read(
        &self,
        state: &mut MonitorState,
        source: &LogSource,
        trust: &Trust,
        output: &Output,
    ) -> Result<Report> {
        let mut reader = Reader::new(source.fetch());
        let newest = reader.checkpoint()?.ok_or_else(|| anyhow!("the log is empty"))?;
        note::verify_log(&newest, trust.policy())
            .context("the log's checkpoint cannot be believed")?;
        let newest = SignedTree::new(newest)?;
        let mut report = Report { size: newest.tree.size, ..Report::default() };
        let memory = self.memory.open();
        for proof in memory.as_ref().map_or(Ok(Vec::new()), Memory::proofs)? {
            if proof.accuses_log(trust.policy(), &newest.tree.origin) {
                let about = About { name: Some(proof.name.clone()), ..About::default() };
                let (against, words) = match proof.check() {
                    Ok(words) => (Some(Party::Log), words),
                    Err(words) => (None, words),
                };
                report.alert(EventKind::Remembered, &about, against, words);
            }
        }
        if !self.check_extends(state, source, trust, &newest, &mut report)? {
            // The entries of a contradicting tree are not read, and the state keeps what it
            // knows.
            self.write_proofs(memory.as_ref(), &mut report);
            if self.hook.is_some() {
                state.queue(&report.events);
                state.keep(&self.state)?;
            }
            return Ok(report);
        }
        report.check_witnesses(&newest.note, trust, now()?);
        // What is in the tree was public when a quorum had cosigned it.
        let time_s = match note::quorum(&newest.note, trust.policy()) {
            Ok(time) => time.proven,
            Err(_) => now()?.0,
        };
        let mut next = state.clone();
        let bar = output.bar("entries", newest.tree.size.saturating_sub(next.size()));
        while next.size() < newest.tree.size {
            let end = newest.tree.size.min(next.size().saturating_add(STEP));
            for entry in reader.entries(next.size()..end, &newest.tree)? {
                next.read_entry(&entry, trust, time_s, &mut report);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        next.find_missing(time_s, &mut report);
        next.believe(&newest.note);
        if !self.no_served_keys {
            keys::compare(&next, trust, &self.log.connection, now()?, &mut report)?;
        }
        self.write_proofs(memory.as_ref(), &mut report);
        // With the state, so that no event is lost if we are stopped before the hook has it.
        if self.hook.is_some() {
            next.queue(&report.events);
        }
        next.keep(&self.state)?;
        *state = next;
        Ok(report)
    }

    /// Whether the log extends what was read before. If not, the report has the reason.
    fn check_extends(
        &self,
        state: &MonitorState,
        source: &LogSource,
        trust: &Trust,
        new: &SignedTree,
        report: &mut Report,
    ) -> Result<bool> {
        let Some(old) = state.checkpoint()? else { return Ok(true) };
        let (was, is) = (old.tree.size, new.tree.size);
        ensure!(
            old.tree.origin == new.tree.origin,
            "{} is the state of the log {}",
            self.state.display(),
            old.tree.origin
        );
        let nothing = About::default();
        match fork::compare(&mut *source.fetch(), trust.policy(), &old, new) {
            Compared::Contradict(found) => {
                let words = format!("the log contradicts itself: sizes {was} and {is}");
                report.alert(EventKind::SplitView, &nothing, Some(Party::Log), words);
                report.evidence.push(found);
                Ok(false)
            }
            // A smaller tree is no contradiction by itself, but nobody should accept it.
            Compared::Agree | Compared::Unclear(_) if is < was => {
                let words = format!("the log has {is} entries, but had {was}");
                report.alert(EventKind::Smaller, &nothing, Some(Party::Log), words);
                Ok(false)
            }
            Compared::Agree => Ok(true),
            Compared::Unclear(reason) => {
                Err(anyhow!("the log cannot be compared with size {was}: {reason}"))
            }
        }
    }

    /// Writes every proof. If one cannot be written, its alert is still shown.
    fn write_proofs(&self, memory: Option<&Memory>, report: &mut Report) {
        for evidence in std::mem::take(&mut report.evidence) {
            let remembered = memory.map_or(Ok(()), |memory| memory.accuse(&evidence));
            let written = misbehaviour::write(&self.out, &evidence);
            let written = written.map(|path| report.files.push(path));
            for error in [remembered, written].into_iter().filter_map(Result::err) {
                let words = format!("a proof could not be written: {error:#}");
                report.alert(EventKind::ProofNotWritten, &About::default(), None, words);
            }
        }
    }

    fn tell(&self, report: &Report, output: &Output) -> Result<()> {
        if output.json() {
            return output.value(&json!({
                "size": report.size,
                "events": report.events,
                "misbehaviour_files": report.files,
                "hook_failures": report.hook_failures,
                "hook_pending": report.pending,
            }));
        }
        let (alerts, news): (Vec<_>, Vec<_>) = report.events.iter().partition(|event| event.alert);
        for event in news {
            output.event("", &event.words)?;
        }
        for event in alerts {
            output.event("ALERT ", &event.words)?;
        }
        for path in &report.files {
            output.line(format!("proof in {}", path.display()))?;
        }
        if report.events.is_empty() {
            output.line(format!("{} entries, nothing new, nothing wrong", report.size))?;
        }
        for failure in &report.hook_failures {
            output.remark(format!("the hook failed: {failure}"));
        }
        if report.pending > 0 {
            let words = "events wait for the hook, until the next reading";
            output.remark(format!("{} {words}", report.pending));
        }
        Ok(())
    }
}
