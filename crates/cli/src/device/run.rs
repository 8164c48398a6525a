//! `sotto device run`: passes over the log, one after the other.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::json;
use sotto_client::{
    HttpLog, LogRoute, Routes, StateFile, TokenRound, Transport, deliver, fetch_tokens,
};
use sotto_protocol::admission::{Watch, WatchError};
use sotto_protocol::device::tokens::Live;
use sotto_protocol::device::{DeviceStore, Host, Pass, follow, pass};
use sotto_protocol::log::Fetch;
use sotto_protocol::token::Attestor;
use sotto_protocol::trust::Trust;
use sotto_wire::EntryId;

use super::attestation::AttestationArgs;
use super::{attributes, state_key};
use crate::connection::{retry, routes};
use crate::log_source::{LogArgs, LogSource};
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
    attestation: AttestationArgs,
    #[command(flatten)]
    log: LogArgs,
}

impl RunArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        ensure!(self.once || !output.json(), "--json goes with --once");
        let trust = trust_file::read(&self.trust)?;
        if trust.insecure_direct() {
            output.remark(
                "insecure_direct: no relay is used, log and leader see this device's address",
            );
        }
        // A mistake in the file shows before anything is asked or sent.
        attributes::read(&self.attributes)?;
        let interval = Duration::from_secs(parse_seconds(&self.interval)?);
        let source = self.log.source(Some(&trust))?.context("which log?");
        let source =
            source.hint("give --log, or a URL after the log's key in the trust file's policy")?;
        let key = state_key::open_or_make(&self.state)?;
        let mut state =
            StateFile::open(&self.state, &key).with_context(|| self.state.display().to_string())?;
        let transport: Arc<dyn Transport> = self.log.connection.transport(1)?;
        let tokens = self.tokens(&trust, Arc::clone(&transport), output)?;
        let routes = routes(transport);
        let (fetch, log_route) = log_of(&source, &routes, &state, &trust)?;
        let mut watch = Watch::new(fetch);
        loop {
            if let Some(route) = &log_route {
                route.renew(state.state(), &trust);
            }
            let spinner = output.spinner("reading the log, deciding, sending");
            let done = self.pass(&mut state, &mut watch, &trust, &routes, tokens.as_ref());
            spinner.finish_and_clear();
            match done {
                Ok((done, round)) => report(output, &watch, &done, round.as_ref())?,
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
        routes: &Routes,
        tokens: Option<&TokenDesk>,
    ) -> Result<(Pass, Option<TokenRound>)> {
        let mut rng = random::system();
        // First what was promised earlier: the same bytes, whatever the log says today.
        send(state, watch, trust, routes)?;
        // A long log is read in parts.
        while let Err(error) = watch.refresh(trust, now()?) {
            match error {
                WatchError::Behind { .. } => {}
                error => return Err(error.into()),
            }
        }
        let round = tokens.map(|desk| desk.ask(state, watch, trust)).transpose()?;
        let attributes = attributes::read(&self.attributes)?;
        let host = Host { conditions_met: self.conditions_met()?, attributes: &attributes };
        let done = pass(state, watch, trust, &host, now()?, &mut rng)?;
        send(state, watch, trust, routes)?;
        Ok((done, round))
    }

    /// The way to tokens, if the trust file names one.
    fn tokens(
        &self,
        trust: &Trust,
        transport: Arc<dyn Transport>,
        output: &Output,
    ) -> Result<Option<TokenDesk>> {
        let attestor = self.attestation.attestor()?;
        match trust.tokens() {
            None => return Ok(None),
            Some(tokens) if tokens.attester.is_none() => {
                output.remark(
                    "no tokens are asked for: the trust file names no attester under [tokens]",
                );
                return Ok(None);
            }
            Some(_) => {}
        }
        if attestor.is_none() {
            output.remark(
                "no tokens are asked for: --certificate and --certificate-key (or --insecure-name) say which device this is",
            );
        }
        Ok(attestor.map(|attestor| TokenDesk { attestor, transport }))
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

/// Where tokens come from.
struct TokenDesk {
    attestor: Box<dyn Attestor>,
    transport: Arc<dyn Transport>,
}

impl TokenDesk {
    /// Asks for what is due. An attester that does not answer keeps nobody from the rest: tokens in hand are good.
    fn ask<F: Fetch>(
        &self,
        state: &mut StateFile,
        watch: &mut Watch<F>,
        trust: &Trust,
    ) -> Result<TokenRound> {
        let (mut rng, now) = (random::system(), now()?);
        let view = follow(state, watch, trust, now)?;
        let live = Live { view: &view, recipes: watch.recipes() };
        let (attestor, transport) = (self.attestor.as_ref(), self.transport.as_ref());
        Ok(fetch_tokens(state, &live, trust, attestor, transport, now, &mut rng)?)
    }
}

/// The files of the log, and the way to them if it leads through relays. A folder on this machine needs none.
fn log_of(
    source: &LogSource,
    routes: &Routes,
    state: &StateFile,
    trust: &Trust,
) -> Result<(Box<dyn Fetch>, Option<LogRoute>)> {
    let LogSource::Http { url, .. } = source else { return Ok((source.fetch(), None)) };
    let route = routes.to_log(state.state(), trust).hint(
        "pin the log's gateway and relays in the trust file; insecure_direct = true does without, and log and \
         leader then see this device's address",
    )?;
    Ok((Box::new(HttpLog::new(url, route.transport())), Some(route)))
}

/// Sends what waits to be sent.
fn send<F: Fetch>(
    state: &mut StateFile,
    watch: &Watch<F>,
    trust: &Trust,
    routes: &Routes,
) -> Result<()> {
    let ways = routes.to_leaders(state.state(), watch, trust);
    deliver(state, &mut |id| ways.get(id).cloned(), &retry(3), &mut random::system())?;
    Ok(())
}

/// What was considered and what was not, never what was answered.
fn report<F: Fetch>(
    output: &Output,
    watch: &Watch<F>,
    done: &Pass,
    round: Option<&TokenRound>,
) -> Result<()> {
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
        let mut value = json!({ "considered": considered, "silent": silent });
        if let Some(round) = round {
            value["tokens"] = json!({
                "asked": round.asked,
                "granted": round.granted,
                "withheld": round.withheld,
                "refused": round.refused,
                "waiting": round.waiting,
                "trouble": round.trouble.as_ref().map(ToString::to_string),
            });
        }
        return output.value(&value);
    }
    for remark in round.map(remarks).unwrap_or_default() {
        output.remark(remark);
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

/// What a person should know about the tokens of a pass.
fn remarks(round: &TokenRound) -> Vec<String> {
    let mut remarks = Vec::new();
    if round.withheld > 0 {
        remarks.push(format!(
            "the attester withholds {} tokens for good: this device has had them, or another that shows the same attestation",
            round.withheld
        ));
    }
    if let Some(trouble) = &round.trouble {
        let (missing, asked) = (round.asked - round.granted - round.withheld, round.asked);
        remarks.push(format!("{missing} of {asked} requests for tokens brought none: {trouble}"));
    } else if round.waiting > 0 {
        remarks.push(format!("{} tokens are to be asked for at a later time", round.waiting));
    }
    remarks
}
