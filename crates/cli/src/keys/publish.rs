//! `sotto keys publish`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use serde_json::json;
use sotto_crypto::note::{self, NoteKey};
use sotto_wire::recipe::FORMAT_VERSION;
use sotto_wire::{Entry, EntryKind, KeySet, Note};

use crate::log_source::{LogArgs, LogSource};
use crate::output::{Outcome, Output, WithHint};
use crate::time_text::{now, parse_moment, parse_seconds, show_moment};
use crate::{recipe_file, signer_file, trust_file};

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  sotto keys publish --signer leader.key --hpke-key new.toml --hpke-key old.toml \\\n    \
    --log https://log.example\n\nThe first key is the one that devices use. They wait until a set has been in \
    the log for long enough, so an old key stays in the set until then."
)]
pub(super) struct PublishArgs {
    /// The operator's key file: the key that devices pin.
    #[arg(long, value_name = "FILE")]
    signer: PathBuf,
    /// A key file of the aggregator (`sotto keys new`); again for further keys.
    #[arg(long, value_name = "FILE", required = true)]
    hpke_key: Vec<PathBuf>,
    /// From when on the keys may be used: POSIX seconds or 2026-11-15T08:00:00Z.
    #[arg(long, value_name = "TIME", default_value = "now")]
    not_before: String,
    /// Until when the keys may be used [default: --for after --not-before]
    #[arg(long, value_name = "TIME")]
    not_after: Option<String>,
    /// How long the keys may be used.
    #[arg(long = "for", value_name = "LENGTH", default_value = "90d", value_parser = parse_seconds, conflicts_with = "not_after")]
    length: u64,
    /// Check the log and its answer against this trust file.
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    /// Write the signed entry here, and its proof beside it with the ending .proof.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    log: LogArgs,
}

impl PublishArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let signer = signer_file::read(&self.signer)?;
        let trust = self.trust.as_deref().map(trust_file::read).transpose()?;
        let policy = trust.as_ref().map(sotto_protocol::trust::Trust::policy);
        let source = self.log.source(trust.as_ref())?;
        let source =
            source.ok_or_else(|| anyhow!("--log is missing")).hint("give the log's URL")?;
        let last = last_seq(&source, policy, &signer)?;
        let set = self.key_set(&signer, last)?;
        let json = String::from_utf8(set.to_json())?;
        let text = Entry::text(EntryKind::KeySet, &json);
        let signature = signer.sign(&text);
        let entry = Entry::from_note(Note::new(text)?.with_signature(signature))?;
        if let Some(path) = &self.out {
            recipe_file::write(path, &entry.to_bytes(), true)?;
        }
        let proof = source.submit(&entry, policy, output)?;
        if let Some(path) = &self.out {
            let mut name = path.clone().into_os_string();
            name.push(".proof");
            recipe_file::write(Path::new(&name), &proof.to_bytes(), true)?;
        }
        if output.json() {
            output.value(&json!({
                "id": entry.id().to_string(),
                "index": proof.index,
                "operator": set.operator.name.as_str(),
                "seq": set.seq,
                "not_before": set.not_before,
                "not_after": set.not_after,
                "keys": set.hpke_configs.len(),
            }))?;
        } else {
            output.line(entry.id())?;
            output.remark(format!(
                "key set {} of {} is entry {} of the log, valid until {}",
                set.seq,
                set.operator.name,
                proof.index,
                show_moment(sotto_protocol::Moment(set.not_after)),
            ));
        }
        Ok(Outcome::Yes)
    }

    fn key_set(&self, signer: &NoteKey, last: Option<u64>) -> Result<KeySet> {
        let not_before = parse_moment(&self.not_before).context("--not-before")?.0;
        let not_after = match &self.not_after {
            Some(text) => parse_moment(text).context("--not-after")?.0,
            None => not_before.saturating_add(self.length),
        };
        if not_after <= now()?.0 {
            return Err(anyhow!("--not-after is in the past"));
        }
        let keys = self
            .hpke_key
            .iter()
            .map(|path| super::read(path).map(|key| KeySet::config_text(key.config())));
        let set = KeySet {
            version: FORMAT_VERSION,
            operator: signer_file::public(signer),
            seq: last.map_or(1, |seq| seq.saturating_add(1)),
            not_before,
            not_after,
            hpke_configs: keys.collect::<Result<_>>()?,
        };
        set.check()?;
        Ok(set)
    }
}

/// The sequence number of the operator's last key set in the log. Only sets that this key signed count: a log
/// could otherwise use up all numbers with sets of its own.
fn last_seq(
    source: &LogSource,
    policy: Option<&sotto_wire::TlogPolicy>,
    signer: &NoteKey,
) -> Result<Option<u64>> {
    let verifier = signer.verifier();
    let Some(mut snapshot) = source.newest(policy)? else { return Ok(None) };
    let entries = snapshot.entries()?;
    let ours = entries.iter().filter_map(|(_, entry)| {
        let set = entry.key_set()?;
        let signed = set.operator.is(&verifier) && note::verify(entry.note(), &verifier).is_ok();
        signed.then_some(set.seq)
    });
    Ok(ours.max())
}
