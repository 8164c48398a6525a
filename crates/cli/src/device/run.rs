//! `sotto device run`: repeated passes over the log.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::json;
use sotto_client::{Host, Log, Participant, PassReport, StateFile, TokenRound};
use sotto_protocol::trust::Trust;
use sotto_wire::EntryId;

use super::attestation::AttestationArgs;
use super::{attributes, state_key};
use crate::log_source::{LogArgs, LogSource};
use crate::output::{Outcome, Output, WithHint};
use crate::trust_file;

#[derive(Debug, Args)]
#[command(
    override_usage = "sotto device run [OPTIONS] --state <FILE> --attributes <FILE>\n         \
    --trust <FILE>",
    after_help = "Silence is normal: a device does not answer a recipe that fails a check, \
    exceeds the budget, or loses the coin toss. The first two reasons are shown; the outcome of \
    the coin toss never is."
)]
pub(super) struct RunArgs {
    /// The device's state: what it has seen, considered and spent. Created if it does not exist.
    #[arg(long, value_name = "FILE")]
    state: PathBuf,
    /// TOML lines `name = value`: what recipes may read.
    #[arg(long, value_name = "FILE")]
    attributes: PathBuf,
    /// Log and witness keys, operators, floors and budget.
    #[arg(long, value_name = "FILE")]
    trust: PathBuf,
    /// Make one pass, then exit.
    #[arg(long)]
    once: bool,
    /// A command that exits with code 0 if now is a good time (idle, charging).
    #[arg(long, value_name = "COMMAND")]
    condition: Option<String>,
    #[command(flatten)]
    attestation: AttestationArgs,
    #[command(flatten)]
    log: LogArgs,
}

impl RunArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        ensure!(self.once || !output.json(), "--json needs --once");
        let trust = trust_file::read(&self.trust)?;
        if trust.settings().insecure_direct {
            output.remark(
                "insecure_direct: no relay is used, log and leader see this device's address",
            );
        }
        // A mistake in the file is reported before anything is sent.
        for mistake in attributes::mistakes(&self.attributes)? {
            output.remark(format!("{}: {mistake}", self.attributes.display()));
        }
        let source = self.log.source(Some(&trust))?.context("no log is given");
        let source = source
            .hint("give --log, or put a URL after the log's key in the trust file's policy")?;
        let key = state_key::open_or_make(&self.state)?;
        let state =
            StateFile::open(&self.state, &key).with_context(|| self.state.display().to_string())?;
        let host = self.host(&trust, output)?;
        let log = log_of(&source, &host, &trust)?;
        let mut device = Participant::new(host, Arc::new(trust), state, log);
        loop {
            let spinner = output.spinner("making a pass");
            let done = device.pass();
            spinner.finish_and_clear();
            match done {
                Ok(done) => report(output, &device, &done)?,
                Err(error) if self.once => return Err(error.into()),
                // The next pass may succeed.
                Err(error) => {
                    let error = anyhow::Error::from(error);
                    output.remark(format!("this pass failed: {error:#}"));
                }
            }
            if self.once {
                return Ok(Outcome::Yes);
            }
            std::thread::sleep(device.pause());
        }
    }

    /// This machine as the host of a device.
    fn host(&self, trust: &Trust, output: &Output) -> Result<Host> {
        let mut host = Host::new(self.log.connection.transport(1)?);
        host.attestor = self.attestation.attestor()?;
        match trust.tokens() {
            None => {}
            Some(tokens) if tokens.leader.attester.is_none() => output.remark(
                "no tokens are requested: the trust file names no attesters under [tokens.leader] and \
                 [tokens.helper]",
            ),
            Some(_) if host.attestor.is_none() => output.remark(
                "no tokens are requested: --certificate and --certificate-key (or --insecure-name) \
                 say which device this is",
            ),
            Some(_) => {}
        }
        let (path, condition) = (self.attributes.clone(), self.condition.clone());
        host.attributes = Box::new(move || Ok(attributes::read(&path)?));
        host.conditions = Box::new(move || Ok(conditions_met(condition.as_deref())?));
        Ok(host)
    }
}

/// Whether the command reports that now is a good time.
fn conditions_met(command: Option<&str>) -> Result<bool> {
    let Some(command) = command else { return Ok(true) };
    let status = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("cannot run {command:?}"))?;
    Ok(status.success())
}

/// The log. A folder on this machine needs no relays.
fn log_of(source: &LogSource, host: &Host, trust: &Trust) -> Result<Log> {
    let LogSource::Http { url, .. } = source else { return Ok(Log::from_files(source.fetch())) };
    Log::at(url, host, trust).hint(
        "pin the log's gateway and relays in the trust file; insecure_direct = true works without them, \
         and log and leader then see this device's address",
    )
}

/// Shows what was considered and what was not, but never what was answered.
fn report(output: &Output, device: &Participant<StateFile>, done: &PassReport) -> Result<()> {
    let name = |id: &EntryId| device.log().name(id).unwrap_or_else(|| id.to_string());
    // Noted before the coin is tossed, so it says nothing about the coin.
    let fallback = |id: &EntryId| {
        let line = device.audit().iter().rfind(|line| line.recipe == *id);
        line.and_then(|line| line.fallback.as_deref())
    };
    let round = done.tokens.as_ref();
    if output.json() {
        let silent: Vec<_> = done
            .silent
            .iter()
            .map(|(id, silence)| {
                let (check, reason) = (silence.check.name(), &silence.reason);
                json!({ "recipe_id": id, "name": name(id), "check": check, "reason": reason })
            })
            .collect();
        let considered = done.considered.iter().map(|id| {
            let mut line = json!({ "recipe_id": id, "name": name(id) });
            if let Some(reason) = fallback(id) {
                line["fallback"] = reason.into();
            }
            line
        });
        let considered: Vec<_> = considered.collect();
        let mut value = json!({ "considered": considered, "silent": silent });
        if let Some(round) = round {
            value["tokens"] = json!({
                "asked": round.asked,
                "granted": round.granted,
                "withheld": round.withheld,
                "refused": round.refused,
                "waiting": round.waiting,
                "trouble": round.failure.as_ref().map(|(attester, why)| format!("{attester}: {why}")),
            });
        }
        return output.value(&value);
    }
    for remark in round.map(remarks).unwrap_or_default() {
        output.remark(remark);
    }
    for id in &done.considered {
        output.event("considered  ", name(id))?;
        if let Some(reason) = fallback(id) {
            output.event("            ", format!("fallback used: {reason}"))?;
        }
    }
    for (id, silence) in &done.silent {
        output.event("silent      ", format!("{}: {silence}", name(id)))?;
    }
    if done.considered.is_empty() && done.silent.is_empty() {
        output.line("the log has no open recipe")?;
    }
    Ok(())
}

/// Remarks about the tokens of a pass.
fn remarks(round: &TokenRound) -> Vec<String> {
    let mut remarks = Vec::new();
    if round.withheld > 0 {
        remarks.push(format!(
            "the attesters withhold {} tokens: this device already has them, or another one with the \
             same attestation",
            round.withheld
        ));
    }
    if let Some((attester, failure)) = &round.failure {
        let (missing, asked) = (round.asked - round.granted - round.withheld, round.asked);
        remarks.push(format!(
            "{missing} of {asked} token requests failed, the last at {attester}: {failure}"
        ));
    } else if round.waiting > 0 {
        remarks.push(format!("{} tokens will be requested later", round.waiting));
    }
    remarks
}
