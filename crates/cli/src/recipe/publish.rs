//! `sotto recipe publish`.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use serde_json::json;
use sotto_crypto::note::NoteKey;
use sotto_protocol::admission::{Silence, Watch, check_url};
use sotto_protocol::log::admit::{AdmissionRules, Signers, check_entry};
use sotto_protocol::trust::Trust;
use sotto_wire::recipe::{Aggregator, Round};
use sotto_wire::{Entry, EntryKind, Recipe, Role};

use super::check::print;
use super::examine::examine;
use super::{series, words};
use crate::log_source::{LogArgs, LogSource};
use crate::output::{Outcome, Output, WithHint};
use crate::recipe_file::{self, AudienceArgs, Form, kind_words};
use crate::time_text::now;
use crate::{signer_file, trust_file};

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  sotto recipe publish commute.toml --signer author.key \\\n    \
    --log https://log.example\n\n\
    It waits until the log's witnesses have cosigned. A published entry cannot be changed or \
    removed. \
    Exit codes: 0 published; 1 not published, because a device would refuse it; 2 error."
)]
pub(super) struct PublishArgs {
    /// The recipe: TOML, canonical JSON, or a signed entry (also of a result).
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The author's key file (`sotto keys signer`).
    #[arg(long, value_name = "FILE")]
    signer: Option<PathBuf>,
    /// Check the recipe as a device with this trust file would, and the log's answer against its
    /// policy.
    #[arg(long, value_name = "FILE")]
    trust: Option<PathBuf>,
    /// The folder for the entry and its proof.
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Publish even if a device would refuse, and replace existing files.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    audience: AudienceArgs,
    #[command(flatten)]
    log: LogArgs,
}

impl PublishArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let trust = self.trust.as_deref().map(trust_file::read).transpose()?;
        let signer = self.signer.as_deref().map(signer_file::read).transpose()?;
        let source = self.log.required(trust.as_ref())?;
        let entry = entry(recipe_file::read(&self.file)?, signer.as_ref())?;
        self.publish(&entry, trust.as_ref(), &source, output)
    }

    /// The next round of the header in the file, whatever was published before.
    pub(super) fn run_next_round(self, output: &Output) -> Result<Outcome> {
        let trust = self.trust.as_deref().map(trust_file::read).transpose()?;
        let signer = self.signer.as_deref().map(signer_file::read).transpose()?;
        let missing = || anyhow!("--signer is missing: a round is signed by its author");
        let signer = signer.ok_or_else(missing)?;
        let source = self.log.required(trust.as_ref())?;
        let header = entry(recipe_file::read(&self.file)?, Some(&signer))?;
        let header = header.recipe().ok_or_else(|| anyhow!("the file is not a recipe"))?;
        let policy = trust.as_ref().map(Trust::policy);
        let entries = source.newest(policy)?.map(|mut log| log.entries()).transpose()?;
        let index = next_round(header, &entries.unwrap_or_default(), now()?.0)?;
        let round = header.with_round(Round { index, model: None })?;
        self.publish(&sign(&round, &signer)?, trust.as_ref(), &source, output)
    }

    fn publish(
        &self,
        entry: &Entry,
        trust: Option<&Trust>,
        source: &LogSource,
        output: &Output,
    ) -> Result<Outcome> {
        check_signatures(entry)?;
        if let Some(recipe) = entry.recipe() {
            if trust.is_none() {
                output.warning(
                    "the aggregators' URLs are not compared with the operators' key sets: give \
                     --trust, the file that devices use",
                );
            }
            let urls = trust.map(|trust| check_urls(recipe, source, trust)).transpose()?;
            if !self.acceptable(entry, trust, urls, output)? {
                return Ok(Outcome::No);
            }
        }
        let with_tokens = |recipe: &&Recipe| recipe.parties.tokens.key(Role::Leader).is_some();
        if let Some(recipe) = entry.recipe().filter(with_tokens).filter(|_| !self.force) {
            let newest = source.newest(trust.map(Trust::policy))?;
            let published = newest.map(|mut snapshot| snapshot.entries()).transpose()?;
            check_fresh_keys(recipe, &published.unwrap_or_default())?;
        }
        let (name, ending) = file_name(entry);
        std::fs::create_dir_all(&self.out)
            .with_context(|| format!("cannot make {}", self.out.display()))?;
        // Without the `./` of the default: people will type these names.
        let out = self.out.strip_prefix(".").unwrap_or(&self.out);
        let entry_file = out.join(format!("{name}.{ending}"));
        let proof_file = out.join(format!("{name}.proof"));
        // Signatures are deterministic: a second attempt finds its own file.
        let same = std::fs::read(&entry_file).is_ok_and(|bytes| bytes == entry.to_bytes());
        recipe_file::write(&entry_file, &entry.to_bytes(), self.force || same)?;
        let proof = source.submit(entry, trust.map(Trust::policy), output)?;
        recipe_file::write(&proof_file, &proof.to_bytes(), true)?;
        if output.json() {
            output.value(&json!({
                "entry_id": entry.id(),
                "kind": entry.kind().as_str(),
                "index": proof.index,
                "entry_file": entry_file,
                "proof_file": proof_file,
            }))?;
            return Ok(Outcome::Yes);
        }
        output.line(entry.id())?;
        let kind = kind_words(entry.kind());
        output.remark(format!("the {kind} is entry {} of the log", proof.index));
        output.remark(format!(
            "  entry  {}\n  proof  {}",
            entry_file.display(),
            proof_file.display()
        ));
        if let Some(recipe) = entry.recipe() {
            output.remark(words::summary(recipe));
            if let Some(left) = series::rounds_left(recipe) {
                output.remark(left);
            }
            let trust = self.trust.as_deref().map_or("FILE".into(), |path| path.to_string_lossy());
            let entry = entry_file.display();
            output.next(&[format!("sotto log verify {entry} --trust {trust}")]);
        }
        Ok(Outcome::Yes)
    }

    /// Whether to publish: a device would accept the recipe, or `--force` is given. Prints the
    /// reason if not.
    fn acceptable(
        &self,
        entry: &Entry,
        trust: Option<&Trust>,
        urls: Option<Vec<Url>>,
        output: &Output,
    ) -> Result<bool> {
        let mut loaded = Form::Entry(Box::new(entry.clone())).loaded()?;
        loaded.audience = self.audience.of(&loaded.recipe, &self.log)?;
        let mut found = examine(&loaded, trust, now()?.0)?;
        for url in urls.into_iter().flatten() {
            match url {
                Url::Signed => {}
                Url::Wrong(silence) => found.fail(silence),
                Url::Unknown(silence) => found.warnings.push(format!(
                    "the URL of an aggregator was not compared with the operator's key set: {silence}"
                )),
            }
        }
        for warning in &found.warnings {
            output.warning(warning);
        }
        if found.ok || self.force {
            return Ok(true);
        }
        if output.json() {
            output.value(&found)?;
        } else {
            print(&found, output)?;
            output.remark("not published; --force publishes it anyway");
        }
        Ok(false)
    }
}

/// The number of the round that comes after those in the log. If rounds have a length, those that
/// are over are left out.
fn next_round(header: &Recipe, log: &[(u64, Entry)], now: u64) -> Result<u64> {
    let series = header.series.as_ref().filter(|_| header.is_header());
    let Some(series) = series else {
        return Err(anyhow!("{} is not the header of a series", header.name))
            .hint("`sotto recipe new --rounds T` makes one; other recipes are asked once");
    };
    if series.training.is_some() {
        return Err(anyhow!("a round of a training needs a model")).hint("run `sotto train`");
    }
    let own = log.iter().filter_map(|(_, entry)| entry.recipe());
    let own = own.filter(|recipe| recipe.series_id() == header.id());
    let (mut published, mut next) = (false, 0);
    for recipe in own {
        match recipe.round() {
            None => published = true,
            Some(round) => next = next.max(round.index + 1),
        }
    }
    if !published {
        return Err(anyhow!("the header is not in the log, so devices would refuse the round"))
            .hint("publish it first: `sotto recipe publish`");
    }
    if let Some(length_s) = series.length_s {
        let last = next.checked_sub(1).map(|last| header.when.of_round(last, length_s));
        if let Some(last) = last.filter(|last| last.closes > now) {
            let closes = words::moment(last.closes);
            return Err(anyhow!("the last round is open until {closes}, and another would end it"))
                .hint("publish the next one when it is over");
        }
        ensure!(now < header.when.closes, "the time of the last round is over");
        next = next.max(now.saturating_sub(header.when.opens) / length_s);
    }
    if next >= series.rounds {
        let rounds = series.rounds;
        return Err(anyhow!("all {rounds} rounds are in the log, and the claim is about no more"))
            .hint("publish a new header under another name");
    }
    Ok(next)
}

/// The URL of an aggregator in a recipe, compared with what its operator signed.
enum Url {
    Signed,
    Wrong(Silence),
    /// There is no key set yet that a device would use.
    Unknown(Silence),
}

/// Compares the URLs of both aggregators with the key sets that a device would use.
fn check_urls(recipe: &Recipe, source: &LogSource, trust: &Trust) -> Result<Vec<Url>> {
    let mut watch = Watch::new(source.fetch());
    // What is wrong with the log itself is reported by the submission.
    let read = watch.refresh(trust, now()?).map(drop);
    let compare = |named: &Aggregator| match watch.key_set(&named.operator, trust) {
        Ok(set) => check_url(set.url.as_deref(), named).map_or_else(Url::Wrong, |()| Url::Signed),
        Err(silence) => Url::Unknown(match &read {
            Ok(()) => silence,
            Err(error) => Silence { reason: error.to_string(), ..silence },
        }),
    };
    Ok([&recipe.parties.leader, &recipe.parties.helper].map(compare).into())
}

/// Signs the recipe if it is not signed yet.
fn entry(form: Form, signer: Option<&NoteKey>) -> Result<Entry> {
    let missing = || {
        Err(anyhow!("--signer is missing: the recipe is not signed yet"))
            .hint("make a key with `sotto keys signer --name NAME --out FILE`")
    };
    match (form, signer) {
        (Form::Entry(entry), _) => Ok(*entry),
        (_, None) => missing(),
        (Form::Draft(draft, _), Some(signer)) => {
            if let Some((role, issuer)) = recipe_file::parties(&draft)?.tokens.missing_key() {
                let option = format!("--{}-issuer URL", role.as_str());
                return Err(anyhow!("the recipe has no token key of {issuer} yet")).hint(format!(
                    "request it: `sotto recipe tokens FILE --signer FILE {option}`"
                ));
            }
            sign(&recipe_file::complete(*draft, signer_file::public(signer))?, signer)
        }
        (Form::Json(recipe), Some(signer)) => {
            let author = &recipe.author;
            ensure!(
                *author == signer_file::public(signer),
                "the recipe's author is {}, not the signer",
                author.verifier()
            );
            sign(&recipe, signer)
        }
    }
}

/// The entry of a recipe, signed by its author.
pub(super) fn sign(recipe: &Recipe, signer: &NoteKey) -> Result<Entry> {
    recipe.check()?;
    signer_file::sign(EntryKind::Recipe, recipe.to_json(), signer)
}

/// Checks the signatures that a log requires, before anything is sent.
fn check_signatures(entry: &Entry) -> Result<()> {
    let origin = entry.recipe().map(|recipe| recipe.parties.log.clone()).unwrap_or_default();
    let rules = AdmissionRules { origin, signers: Signers::InsecureOpen };
    let checked = check_entry(&rules, entry).context("the entry cannot be published");
    match entry.kind() {
        EntryKind::Result => checked.hint(
            "a result needs both operators: the second signs with `sotto recipe certify --add FILE`",
        ),
        _ => checked,
    }
}

/// Checks that no other recipe in the log uses the token keys: devices get their tokens once per
/// key, so they refuse the second recipe. A header and its rounds have the same keys.
fn check_fresh_keys(recipe: &Recipe, log: &[(u64, Entry)]) -> Result<()> {
    let own = token_keys(recipe);
    let reuses = |other: &&Recipe| {
        other.series_id() != recipe.series_id()
            && token_keys(other).iter().any(|key| own.contains(key))
    };
    match log.iter().filter_map(|(_, entry)| entry.recipe()).find(reuses) {
        None => Ok(()),
        Some(other) => {
            Err(anyhow!("the recipe {} in the log already uses these token keys", other.name)).hint(
                "in [parties.tokens.leader] and [parties.tokens.helper], remove all but `issuer`, then request new keys \
                 with `sotto recipe tokens`; --force publishes it, and devices refuse it",
            )
        }
    }
}

fn token_keys(recipe: &Recipe) -> Vec<&str> {
    let key = |role| recipe.parties.tokens.key(role).map(|key| key.public_key.as_str());
    [Role::Leader, Role::Helper].into_iter().filter_map(key).collect()
}

/// The file's name and ending: the recipe's name and round, else the first characters of the id.
fn file_name(entry: &Entry) -> (String, &'static str) {
    let short: String = entry.id().to_string().chars().take(12).collect();
    match entry.recipe() {
        Some(recipe) => match recipe.round() {
            None => (recipe.name.clone(), "recipe"),
            Some(round) => (format!("{}-round-{}", recipe.name, round.index), "recipe"),
        },
        None if entry.kind() == EntryKind::KeySet => (short, "keys"),
        None => (short, entry.kind().as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::hint_of;
    use crate::recipe::testing;

    const WEEK: u64 = 7 * 86_400;

    /// The log of a header and these rounds.
    fn log(header: &Recipe, rounds: &[u64]) -> Vec<(u64, Entry)> {
        let author = testing::author();
        let round = |index: &u64| header.with_round(Round { index: *index, model: None }).unwrap();
        let recipes = [header.clone()].into_iter().chain(rounds.iter().map(round));
        (0..).zip(recipes.map(|recipe| sign(&recipe, &author).unwrap())).collect()
    }

    /// The next round is that of this week, once the last one is over.
    #[test]
    fn the_next_round_with_a_length_follows_the_clock() {
        let header = testing::weekly();
        let opens = header.when.opens;
        let next = |rounds: &[u64], now: u64| next_round(&header, &log(&header, rounds), now);
        assert_eq!(next(&[], opens - 9_000).unwrap(), 0, "before it opens");
        assert_eq!(next(&[], opens + WEEK - 1).unwrap(), 0);
        assert_eq!(next(&[0], opens + WEEK).unwrap(), 1);
        assert_eq!(next(&[0, 1], opens + 4 * WEEK).unwrap(), 4, "two weeks were missed");
        assert_eq!(next(&[0, 24], opens + 26 * WEEK - 1).unwrap(), 25);
        for (rounds, now) in [(&[0][..], opens - 1), (&[0], opens + WEEK - 1), (&[0, 5], opens)] {
            let error = next(rounds, now).unwrap_err();
            assert!(error.to_string().contains("the last round is open until"), "{error}");
            assert_eq!(hint_of(&error).unwrap(), "publish the next one when it is over");
        }
        for rounds in [&[][..], &[0, 25]] {
            let error = next(rounds, opens + 26 * WEEK).unwrap_err();
            assert!(error.to_string().contains("the time of the last round is over"), "{error}");
        }
    }

    #[test]
    fn the_next_round_without_a_length_follows_the_last_one() {
        let header = testing::header();
        let next = |rounds: &[u64]| next_round(&header, &log(&header, rounds), testing::NOW);
        assert_eq!((next(&[]).unwrap(), next(&[0, 3]).unwrap()), (0, 4));
        let error = next(&[29]).unwrap_err().to_string();
        assert!(error.contains("all 30 rounds are in the log"), "{error}");
    }
}
