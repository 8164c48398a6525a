//! `sotto device run`: passes over the log, one after the other.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use serde_json::json;
use sotto_client::{StateFile, Transport, deliver};
use sotto_protocol::device::{DeviceStore, Host, Pass, pass};
use sotto_protocol::log::{Fetch, Watch, WatchError};
use sotto_protocol::trust::Trust;
use sotto_wire::EntryId;

use super::attributes;
use crate::connection::retry;
use crate::log_source::LogArgs;
use crate::output::{Outcome, Output, WithHint};
use crate::time_text::{now, parse_seconds};
use crate::{random, trust_file};

#[derive(Debug, Args)]
#[command(
    after_help = "Silence is the normal answer: whatever fails a check, cannot be paid for, or loses \
    its coin is left alone. The reasons of the first two are shown; what the coin said never is."
)]
pub(super) struct RunArgs {
    /// The device's memory: what it has seen, considered and spent. Made if it does not exist.
    #[arg(long, value_name = "FILE")]
    state: PathBuf,
    /// TOML lines `name = value`: what recipes may ask about.
    #[arg(long, value_name = "FILE")]
    attributes: PathBuf,
    /// Log and witness keys, operators, floors and budget.
    #[arg(long, value_name = "FILE")]
    trust: PathBuf,
    /// One pass, then end.
    #[arg(long)]
    once: bool,
    /// The time between two passes.
    #[arg(long, value_name = "TIME", default_value = "1h")]
    interval: String,
    /// A command whose exit code 0 says that now is a good time (idle, charging).
    #[arg(long, value_name = "COMMAND")]
    condition: Option<String>,
    #[command(flatten)]
    log: LogArgs,
}

impl RunArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        ensure!(self.once || !output.json(), "--json goes with --once");
        let trust = trust_file::read(&self.trust)?;
        if !trust.insecure_direct() {
            return Err(anyhow!("reports cannot travel through a relay yet"))
                .hint("insecure_direct = true in the trust file sends them to the leader, which then sees this device's address");
        }
        // A mistake in the file shows before anything is asked or sent.
        attributes::read(&self.attributes)?;
        let interval = Duration::from_secs(parse_seconds(&self.interval)?);
        let transport: Arc<dyn Transport> = self.log.connection.transport(1)?;
        let source = self.log.source(Some(&trust))?.context("which log?");
        let source =
            source.hint("give --log, or a URL after the log's key in the trust file's policy")?;
        let mut watch = Watch::new(source.fetch());
        let mut state =
            StateFile::open(&self.state).with_context(|| self.state.display().to_string())?;
        loop {
            let done = self.pass(&mut state, &mut watch, &trust, &transport);
            match done {
                Ok(done) => report(output, &watch, &done)?,
                Err(error) if self.once => return Err(error),
                // The next pass may fare better; a device makes no noise about it.
                Err(error) => output.remark(format!("this pass came to nothing: {error:#}")),
            }
            if self.once {
                return Ok(Outcome::Yes);
            }
            std::thread::sleep(interval);
        }
    }

    fn pass<F: Fetch>(
        &self,
        state: &mut StateFile,
        watch: &mut Watch<F>,
        trust: &Trust,
        transport: &Arc<dyn Transport>,
    ) -> Result<Pass> {
        let mut rng = random::system();
        // First what was promised earlier: the same bytes, whatever the log says today.
        deliver(state as &mut dyn DeviceStore, transport, &retry(3), &mut rng)?;
        // A long log is read in parts.
        while let Err(error) = watch.refresh(trust, now()?) {
            match error {
                WatchError::Behind { .. } => {}
                error => return Err(error.into()),
            }
        }
        let attributes = attributes::read(&self.attributes)?;
        let host = Host { conditions_met: self.conditions_met()?, attributes: &attributes };
        let done = pass(state, watch, trust, &host, now()?, &mut rng)?;
        deliver(state, transport, &retry(3), &mut rng)?;
        Ok(done)
    }

    fn conditions_met(&self) -> Result<bool> {
        let Some(command) = &self.condition else { return Ok(true) };
        let status = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .with_context(|| format!("cannot run {command:?}"))?;
        Ok(status.success())
    }
}

/// What was considered and what was not, never what was answered.
fn report<F: Fetch>(output: &Output, watch: &Watch<F>, done: &Pass) -> Result<()> {
    let name = |id: &EntryId| watch.name(id).unwrap_or_else(|| id.to_string());
    if output.json() {
        let silent: Vec<_> = done
            .silent
            .iter()
            .map(|(id, silence)| {
                let (check, reason) = (silence.check.name(), &silence.reason);
                json!({ "recipe": id, "name": name(id), "check": check, "reason": reason })
            })
            .collect();
        let considered: Vec<_> =
            done.considered.iter().map(|id| json!({ "recipe": id, "name": name(id) })).collect();
        return output.value(&json!({ "considered": considered, "silent": silent }));
    }
    for id in &done.considered {
        output.line(format!("considered  {}", name(id)))?;
    }
    for (id, silence) in &done.silent {
        output.line(format!("silent      {}: {silence}", name(id)))?;
    }
    if done.considered.is_empty() && done.silent.is_empty() {
        output.line("the log has no open recipe")?;
    }
    Ok(())
}
