//! `sotto keys publish`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use clap::{ArgGroup, Args};
use serde::Serialize;
use sotto_crypto::hpke::usable;
use sotto_crypto::note::{self, NoteKey};
use sotto_protocol::trust::Trust;
use sotto_protocol::{MAX_CLOCK_SKEW_S, Moment};
use sotto_wire::recipe::FORMAT_VERSION;
use sotto_wire::{EntryKind, KeyName, KeySet, KeyType, PublicKey, VerifierKey};

use crate::log_source::{LogArgs, LogSource};
use crate::output::{Outcome, Output, WithHint};
use crate::time_text::{now, parse_moment, parse_seconds, show_moment};
use crate::vocabulary::Time;
use crate::{recipe_file, signer_file, trust_file};

const DAY_S: u64 = 86_400;

/// How long the log and its witnesses may take to publish a set.
const PUBLISHING_S: u64 = 3_600;

#[derive(Debug, Args)]
#[command(
    override_usage = "sotto keys publish [OPTIONS] --signer <FILE> [--hpke-key <FILE>]...\n         \
    [--gateway-key <FILE>]... [--encapsulation-key <FILE>]...",
    after_help = "Example:\n  sotto keys publish --signer leader.key --url https://leader.example/ \\\n    \
    --hpke-key new.toml --hpke-key old.toml --gateway-key gateway.toml \\\n    \
    --log https://log.example\n\nA set replaces the whole set before it, so give all keys. Devices use the first \
    key of each kind once the set is in force: it must have been in the log for long enough, and start long enough \
    after the set before it. Until then devices use the old set.",
    group = ArgGroup::new("keys").args(["hpke_key", "gateway_key", "encapsulation_key"]).required(true).multiple(true)
)]
pub(super) struct PublishArgs {
    /// The operator's key file: the key that devices pin.
    #[arg(long, value_name = "FILE")]
    signer: PathBuf,
    /// A key file of the aggregator (`sotto keys new`), to which devices seal their reports; may be
    /// repeated. Needs --url.
    #[arg(long, value_name = "FILE", requires = "url")]
    hpke_key: Vec<PathBuf>,
    /// A key file of the gateway of the leader or the log (`sotto keys new`), to which devices seal
    /// their requests; may be repeated.
    #[arg(long, value_name = "FILE")]
    gateway_key: Vec<PathBuf>,
    /// A key file of the issuer (`sotto keys new`), to which devices seal their token requests; may
    /// be repeated.
    #[arg(long, value_name = "FILE")]
    encapsulation_key: Vec<PathBuf>,
    /// The aggregator's URL, exactly as recipes must spell it: the `public_url` of its
    /// configuration. Devices and aggregators refuse a recipe that names this operator elsewhere.
    #[arg(long, value_name = "URL", requires = "hpke_key")]
    url: Option<String>,
    /// The public key with which the aggregator signs receipts of releases (`sotto keys signer` prints
    /// it).
    #[arg(long, value_name = "VKEY", requires = "url")]
    receipt_key: Option<VerifierKey>,
    /// Publish a set without gateway keys even though the last one had some. Devices then stop
    /// sending to this operator.
    #[arg(long, conflicts_with = "gateway_key")]
    drop_gateway: bool,
    /// Publish a set without encapsulation keys even though the last one had some. Devices then
    /// stop requesting tokens from this issuer.
    #[arg(long, conflicts_with = "encapsulation_key")]
    drop_encapsulation: bool,
    /// When the keys come into use: POSIX seconds or 2026-11-15T08:00:00Z. By then the set must
    /// have been in the log for long enough [default: when devices with the trust file accept it;
    /// without --trust, in a day and an hour]
    #[arg(long, value_name = "TIME")]
    not_before: Option<String>,
    /// When the keys expire [default: --for after --not-before]
    #[arg(long, value_name = "TIME")]
    not_after: Option<String>,
    /// How long the keys may be used.
    #[arg(long = "for", value_name = "LENGTH", default_value = "90d", value_parser = parse_seconds, conflicts_with = "not_after")]
    length: u64,
    /// Check the log and its answer against this trust file, and check that devices with this file
    /// will use the set.
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    /// Write the signed entry here, and its proof beside it with the ending .proof.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    log: LogArgs,
}

/// A key set in the log, with the number of keys of each kind.
#[derive(Serialize)]
struct Published<'a> {
    entry_id: String,
    index: u64,
    operator: &'a str,
    seq: u64,
    #[serde(flatten)]
    not_before: Time,
    #[serde(flatten)]
    not_after: Time,
    hpke_keys: usize,
    gateway_keys: usize,
    encapsulation_keys: usize,
    url: Option<&'a str>,
    receipt_key: Option<PublicKey>,
}

impl PublishArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let signer = signer_file::read(&self.signer)?;
        let trust = self.trust.as_deref().map(trust_file::read).transpose()?;
        let policy = trust.as_ref().map(Trust::policy);
        let source = self.log.required(trust.as_ref())?;
        let last = last_set(&source, policy, &signer)?;
        let rules = trust.as_ref().map_or(Rules::DEFAULT, Rules::of);
        let set = self.key_set(&signer, last.as_ref(), rules)?;
        if let Some(trust) = &trust {
            check_pinned(&set, trust)?;
            rules.check(&set, last.as_ref(), now()?.0)?;
        }
        let required = trust.as_ref().is_some_and(|trust| trust.settings().require_post_quantum);
        for kind in without_hybrid(&set)? {
            let problem = format!(
                "the set has no hybrid {kind} key: devices that require the hybrid suite, the default, \
                 would not use it"
            );
            if required {
                return Err(anyhow!(problem)).hint("make one with `sotto keys new` and add it");
            }
            output.warning(problem);
        }
        let had_receipt_key = last.as_ref().is_some_and(|last| last.receipt_key.is_some());
        if had_receipt_key && set.receipt_key.is_none() {
            output.warning(
                "the last key set names a key for receipts: without --receipt-key, auditors ignore the \
                 receipts that it signs",
            );
        }
        if let Some(old) =
            last.and_then(|last| last.url).filter(|old| set.url.as_ref() != Some(old))
        {
            output.warning(format!(
                "the last key set says {old}; recipes that name this URL are refused once the \
                 new set is in force"
            ));
        }
        let entry = signer_file::sign(EntryKind::KeySet, set.to_json(), &signer)?;
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
            output.value(&Published {
                entry_id: entry.id().to_string(),
                index: proof.index,
                operator: set.operator.name.as_str(),
                seq: set.seq,
                not_before: Time::new("not_before", set.not_before),
                not_after: Time::new("not_after", set.not_after),
                hpke_keys: set.hpke_configs.len(),
                gateway_keys: set.gateway_configs.as_ref().map_or(0, Vec::len),
                encapsulation_keys: set.encapsulation_configs.as_ref().map_or(0, Vec::len),
                url: set.url.as_deref(),
                receipt_key: set.receipt_key,
            })?;
        } else {
            output.line(entry.id())?;
            output.remark(format!(
                "key set {} of {} is entry {} of the log, valid from {} until {}",
                set.seq,
                set.operator.name,
                proof.index,
                show_moment(Moment(set.not_before)),
                show_moment(Moment(set.not_after)),
            ));
        }
        Ok(Outcome::Yes)
    }

    fn key_set(&self, signer: &NoteKey, last: Option<&KeySet>, rules: Rules) -> Result<KeySet> {
        let not_before = match &self.not_before {
            Some(text) => parse_moment(text).context("--not-before")?.0,
            None => rules.earliest(last, now()?.0),
        };
        let not_after = match &self.not_after {
            Some(text) => parse_moment(text).context("--not-after")?.0,
            None => not_before.saturating_add(self.length),
        };
        if not_after <= now()?.0 {
            return Err(anyhow!("--not-after is in the past"));
        }
        let receipt_key = self.receipt_key.as_ref();
        let receipt_key =
            receipt_key.map(|key| self::receipt_key(key, signer.name())).transpose()?;
        let set = KeySet {
            version: FORMAT_VERSION,
            operator: signer_file::public(signer),
            seq: last.map_or(1, |last| last.seq.saturating_add(1)),
            not_before,
            not_after,
            hpke_configs: config_texts(&self.hpke_key)?,
            gateway_configs: optional_texts(&self.gateway_key)?,
            encapsulation_configs: optional_texts(&self.encapsulation_key)?,
            url: self.url.clone(),
            receipt_key,
        };
        set.check()?;

        let lost = |keys: fn(&KeySet) -> &Option<Vec<String>>| {
            last.is_some_and(|last| keys(last).is_some()) && keys(&set).is_none()
        };
        let refuse = |kind: &str, purpose: &str| {
            Err(anyhow!("the last key set has {kind} keys, but this one would have none")).hint(
                format!(
                    "give --{kind}-key again, or --drop-{kind} if devices should stop {purpose}"
                ),
            )
        };
        if !self.drop_gateway && lost(|set| &set.gateway_configs) {
            return refuse("gateway", "sending");
        }
        if !self.drop_encapsulation && lost(|set| &set.encapsulation_configs) {
            return refuse("encapsulation", "requesting tokens");
        }
        Ok(set)
    }
}

/// The key that signs receipts. Its name is the operator's.
fn receipt_key(key: &VerifierKey, operator: &KeyName) -> Result<PublicKey> {
    ensure!(key.key_type() == KeyType::Ed25519, "--receipt-key is the key of a witness");
    ensure!(
        key.name() == operator,
        "--receipt-key is the key of {}, not of {operator}",
        key.name()
    );
    Ok(PublicKey::new(*key.public_key()))
}

/// Like [`config_texts`], for optional keys: `None` if there are none.
fn optional_texts(files: &[PathBuf]) -> Result<Option<Vec<String>>> {
    (!files.is_empty()).then(|| config_texts(files)).transpose()
}

/// The public halves of key files, as key sets hold them.
fn config_texts(files: &[PathBuf]) -> Result<Vec<String>> {
    files.iter().map(|path| Ok(KeySet::config_text(super::read(path)?.config()))).collect()
}

/// When a set may come into force, by the rules of devices.
#[derive(Clone, Copy)]
struct Rules {
    min_log_age_s: u64,
    min_spacing_s: u64,
}

impl Rules {
    /// The defaults of a trust file.
    const DEFAULT: Self = Self { min_log_age_s: DAY_S, min_spacing_s: DAY_S };

    fn of(trust: &Trust) -> Self {
        let (min_log_age_s, min_spacing_s) =
            (trust.settings().min_log_age_s, trust.settings().min_key_set_spacing_s);
        Self { min_log_age_s, min_spacing_s }
    }

    /// The earliest start that devices accept, with time for the log and its witnesses to publish
    /// the set.
    fn earliest(self, last: Option<&KeySet>, now: u64) -> u64 {
        let margin = if self.min_log_age_s == 0 { 0 } else { PUBLISHING_S };
        let public = now.saturating_add(self.min_log_age_s).saturating_add(margin);
        public.max(self.after(last))
    }

    fn after(self, last: Option<&KeySet>) -> u64 {
        last.map_or(0, |last| last.not_before.saturating_add(self.min_spacing_s))
    }

    /// Checks that devices will use the set. A published set cannot be taken back.
    fn check(self, set: &KeySet, last: Option<&KeySet>, now: u64) -> Result<()> {
        let latest = set.not_before.saturating_add(MAX_CLOCK_SKEW_S);
        let problem = if latest < now.saturating_add(self.min_log_age_s) {
            "it would come into force before it has been in the log for long enough"
        } else if set.not_before < self.after(last) {
            "it would come into force too soon after the last key set"
        } else {
            return Ok(());
        };
        let earliest = show_moment(Moment(self.earliest(last, now)));
        Err(anyhow!("devices would ignore this key set: {problem}"))
            .hint(format!("omit --not-before, or give {earliest}"))
    }
}

/// The kinds of keys that the set has, but in no hybrid suite.
fn without_hybrid(set: &KeySet) -> Result<Vec<&'static str>> {
    let kinds = [
        ("HPKE", set.configs()?),
        ("gateway", set.gateway_keys()?),
        ("encapsulation", set.encapsulation_keys()?),
    ];
    let lacks = |keys: &Vec<_>| !keys.is_empty() && usable(keys.clone(), true).is_empty();
    Ok(kinds.into_iter().filter(|(_, keys)| lacks(keys)).map(|(kind, _)| kind).collect())
}

fn check_pinned(set: &KeySet, trust: &Trust) -> Result<()> {
    let name = &set.operator.name;
    if trust.operator(name).is_some_and(|pinned| set.operator.is(pinned)) {
        return Ok(());
    }
    Err(anyhow!("the trust file does not pin this key as the operator {name}"))
        .hint("sign with the operator's key, or omit --trust")
}

/// The operator's last key set in the log. Only sets that this key signed count: otherwise a log
/// could use up all sequence numbers with sets that it forged.
fn last_set(
    source: &LogSource,
    policy: Option<&sotto_wire::TlogPolicy>,
    signer: &NoteKey,
) -> Result<Option<KeySet>> {
    let verifier = signer.verifier();
    let Some(mut snapshot) = source.newest(policy)? else { return Ok(None) };
    let entries = snapshot.entries()?;
    let ours = entries.iter().filter_map(|(_, entry)| {
        let set = entry.key_set()?;
        let signed = set.operator.is(&verifier) && note::verify(entry.note(), &verifier).is_ok();
        signed.then(|| set.clone())
    });
    Ok(ours.max_by_key(|set| set.seq))
}

#[cfg(test)]
mod tests {
    use sotto_crypto::Secret;
    use sotto_protocol::trust::{PinnedOperator, TrustFile};

    use super::*;

    const NOW: u64 = 1_794_700_800;

    fn key(name: &str, seed: u8) -> NoteKey {
        NoteKey::from_seed(name.parse().unwrap(), Secret::new([seed; 32]))
    }

    fn set(signer: &NoteKey, not_before: u64) -> KeySet {
        KeySet {
            version: FORMAT_VERSION,
            operator: signer_file::public(signer),
            seq: 1,
            not_before,
            not_after: not_before + 1_000_000,
            hpke_configs: vec![KeySet::config_text(crate::keys::generate(1).config())],
            gateway_configs: None,
            encapsulation_configs: None,
            url: None,
            receipt_key: None,
        }
    }

    fn trust(leader: &NoteKey) -> Trust {
        let (log, witness) = (key("log.example", 1).verifier(), key("w.example", 2).cosigner());
        let policy = format!("log {log}\nwitness w {witness}\nquorum w\n");
        let pinned = PinnedOperator { key: leader.verifier().to_string() };
        TrustFile { operators: vec![pinned], ..TrustFile::new(policy) }.try_into().unwrap()
    }

    #[test]
    fn the_default_beginning_is_one_that_devices_accept() {
        let leader = key("leader.example", 3);
        let rules = Rules::of(&trust(&leader));
        assert_eq!((rules.min_log_age_s, rules.min_spacing_s), (86_400, 86_400));
        assert_eq!(rules.earliest(None, NOW), NOW + 86_400 + PUBLISHING_S);
        // A set that is not in force yet.
        let last = set(&leader, NOW + 50_000);
        let next = set(&leader, rules.earliest(Some(&last), NOW));
        assert_eq!(next.not_before, NOW + 136_400);
        rules.check(&next, Some(&last), NOW).unwrap();
        let none = Rules { min_log_age_s: 0, min_spacing_s: 0 };
        assert_eq!(none.earliest(Some(&set(&leader, NOW)), NOW), NOW);
    }

    #[test]
    fn a_set_that_devices_would_ignore_is_not_published() {
        let (leader, other) = (key("leader.example", 3), key("leader.example", 4));
        let trust = trust(&leader);
        let rules = Rules::of(&trust);
        let last = set(&leader, NOW + 50_000);
        let soonest = NOW + 86_400 - MAX_CLOCK_SKEW_S;
        assert!(rules.check(&set(&leader, soonest - 1), None, NOW).is_err());
        assert!(rules.check(&set(&leader, soonest), None, NOW).is_ok());
        assert!(rules.check(&set(&leader, NOW + 136_399), Some(&last), NOW).is_err());
        assert!(check_pinned(&last, &trust).is_ok());
        assert!(check_pinned(&set(&other, NOW), &trust).is_err());
    }
}
