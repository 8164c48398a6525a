//! Makes the draft of a recipe from options and answers.

use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use sotto_protocol::recipe::crowd_of;
use sotto_wire::recipe::{
    Aggregator, KeyDraft, Participation, PartiesDraft, Privacy, Probability, Sampling, Series,
    Targeting, TokensDraft, When, Who, parse_probability, parse_whole,
};
use sotto_wire::{KeyName, KeySet, RecipeDraft, utc};

use super::planned::{Wanted, apply};
use super::protection::Protection;
use super::{Inquiry, NewArgs, completed, series};
use crate::output::WithHint;
use crate::task::same_server;
use crate::task_file::BatchModeName;
use crate::time_text::parse_moment;
use crate::{keys, task_file};

/// The answers that are expected, unless the author wants more or fewer: enough for useful totals.
pub(super) const AIM: u64 = 20_000;

const DAY_S: u64 = 86_400;
const WEEK_S: u64 = 7 * DAY_S;

/// Why leader and helper must not be the same.
const TWICE: &str = "whoever runs both sees every answer";

impl NewArgs {
    /// The draft. Its claim has not been computed yet.
    pub(super) fn draft(&self, ask: &mut Inquiry<'_>, now: u64) -> Result<RecipeDraft> {
        let (mut draft, wanted) = self.question_draft(ask, now)?;
        if let Some(wanted) = wanted {
            let recipe = completed(&draft)?;
            let planning = self.planning(&recipe, wanted)?;
            apply(planning.proposed()?, &mut draft);
        }
        Ok(draft)
    }

    /// The draft, and what its author wants of what is still to be planned: its rate, its minimum
    /// batch and its protection.
    pub(in crate::recipe) fn question_draft(
        &self,
        ask: &mut Inquiry<'_>,
        now: u64,
    ) -> Result<(RecipeDraft, Option<Wanted>)> {
        let given = self.name.as_deref().or(self.name_option.as_deref());
        let name = ask.value("--name", "Name (a-z, 0-9, dot, hyphen)", given, None, |text| {
            let allowed = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-');
            ensure!(text.bytes().all(allowed), "use a-z, 0-9, dot and hyphen");
            Ok(text.to_owned())
        })?;
        let mut answers = self.file(&name).into_os_string();
        answers.push(".answers");
        ask.keep_in(Path::new(&answers))?;
        let purpose = self.purpose.as_deref();
        let purpose =
            ask.value("--purpose", "Purpose, one sentence for people", purpose, None, |text| {
                Ok(text.to_owned())
            })?;
        let (attributes, query) = self.question(ask)?;
        let population = ask.value(
            "--population",
            "About how many devices are there?",
            self.population.as_deref(),
            None,
            whole,
        )?;
        // A donation spreads the answers over the rounds.
        let slots = self.rounds.filter(|_| self.donation).unwrap_or(1).max(1);
        let rate = default_rate(population / slots);
        let rate = parse_probability(self.rate.as_deref().unwrap_or(&rate))
            .map_err(|reason| anyhow!(reason))
            .context("--rate cannot be used")?;
        let Protection { randomizer, noise, mut privacy } = self.privacy(&query)?;
        let wanted = if self.is_protected() { None } else { Some(self.wanted(ask)?) };
        let when = self.when(ask, now)?;
        let sampling = Sampling {
            rate,
            default_rate: self.default_rate,
            dummy_rate: self.dummy_rate.unwrap_or(Probability::ZERO),
            cover: self.cover.unwrap_or(Probability::ONE),
        };
        let discovery = self.discovery(&query)?;
        let usual_mode = match self.training.training().is_some() || discovery.is_some() {
            false => BatchModeName::TimeInterval,
            true => BatchModeName::LeaderSelected,
        };
        let series = self.rounds.map(|rounds| Series {
            rounds,
            participation: match self.donation {
                true => Participation::Donation {},
                false => Participation::EachRound {},
            },
            length_s: self.round_length,
            training: self.training.training(),
            discovery,
            round: None,
        });
        if let (Privacy::Claim { rounds, .. }, Some(series)) = (&mut privacy, &series) {
            *rounds = series.rounds;
        }
        let in_round = |devices| series::in_round(devices, series.as_ref());
        let asked = (in_round(population), self.audience.map(in_round));
        let round = self.round_length.map(|length_s| when.of_round(0, length_s));
        let min_batch = self.min_batch(asked, &sampling, &round.unwrap_or(when))?;
        let draft = RecipeDraft {
            name,
            purpose,
            author: None,
            attributes,
            series,
            who: Who { population, targeting: self.targeting()? },
            when,
            sampling,
            query,
            randomizer,
            noise,
            vdaf: None,
            min_batch,
            batch_mode: self.batch_mode.unwrap_or(usual_mode).into(),
            privacy,
            parties: self.parties(ask)?,
        };
        Ok((draft, wanted))
    }

    fn targeting(&self) -> Result<Option<Targeting>> {
        let (Some(predicate), Some(certified)) = (&self.predicate, &self.certified) else {
            return Ok(None);
        };
        let certified = certified.parse().map_err(|error| anyhow!("--certified: {error}"))?;
        Ok(Some(Targeting { predicate: predicate.clone(), certified }))
    }

    fn when(&self, ask: &mut Inquiry<'_>, now: u64) -> Result<When> {
        let window = self.window.max(1);
        let moment = |text: &str| Ok(parse_moment(text)?.0);
        // Within the last day or window: tests want an open recipe at once.
        let earliest = now.saturating_sub(window.max(DAY_S));
        let coming = |text: &str| {
            let opens = moment(text)?;
            ensure!(opens >= earliest, "it is in the past: a recipe is published before it opens");
            Ok(opens)
        };
        let step = if DAY_S.is_multiple_of(window) { DAY_S } else { window };
        // A day until devices may know it, and another one until they have their tokens.
        let first = now.saturating_add(2 * DAY_S).div_ceil(step).saturating_mul(step);
        let default = utc::format(first);
        let question = "When does it open?";
        let opens =
            ask.value("--opens", question, self.opens.as_deref(), Some(&default), coming)?;
        let default = utc::format(
            opens
                .saturating_add(WEEK_S)
                .min(utc::parse("9999-12-31").unwrap_or(u64::MAX))
                .div_ceil(window)
                * window,
        );
        let question = "When does it close?";
        let closes = match self.round_length.zip(self.rounds) {
            None => {
                ask.value("--closes", question, self.closes.as_deref(), Some(&default), moment)?
            }
            Some((length_s, rounds)) => {
                let whole = length_s > 0 && length_s.is_multiple_of(window);
                ensure!(
                    whole,
                    "--round-length must be a multiple of --window, {window} seconds, and above 0"
                );
                opens.saturating_add(length_s.saturating_mul(rounds))
            }
        };
        for (option, time) in [("--opens", opens), ("--closes", closes)] {
            if !time.is_multiple_of(window) {
                let below = utc::format(time - time % window);
                return Err(anyhow!("{option} must be a multiple of the window"))
                    .hint(format!("use {below}, or a shorter --window"));
            }
        }
        let longest = self.max_window.or(self.round_length);
        let max_window_s = longest.unwrap_or(closes.saturating_sub(opens));
        Ok(When { opens, closes, window_s: window, max_window_s })
    }

    fn min_batch(
        &self,
        (population, audience): (u64, Option<u64>),
        sampling: &Sampling,
        when: &When,
    ) -> Result<u64> {
        let crowd = crowd_of(population, audience, sampling, when, 1);
        let given = self.min_batch.as_deref().map(whole).transpose();
        let given = given.context("--min-batch cannot be used")?;
        Ok(given.unwrap_or(crowd.safe_min_batch))
    }

    /// The parties, or none of them: an author may first try a question.
    fn parties(&self, ask: &mut Inquiry<'_>) -> Result<Option<PartiesDraft>> {
        let name = |text: &str| text.parse::<KeyName>().map_err(anyhow::Error::new);
        let url = |text: &str| {
            let known = text.starts_with("https://") || text.starts_with("http://");
            ensure!(known, "a URL begins with https:// or http://");
            Ok(text.to_owned())
        };
        let question = "Who runs the leader (the name of the key; nothing if not known yet)?";
        let given = self.leader_operator.as_deref();
        let default = if self.names_parties() { None } else { Some("") };
        let operator = ask.value("--leader-operator", question, given, default, |text| {
            if text.is_empty() { Ok(None) } else { name(text).map(Some) }
        })?;
        let Some(operator) = operator else { return Ok(None) };
        let given = self.leader_url.as_deref();
        let leader_url = ask.value("--leader-url", "The leader's URL?", given, None, url)?;
        let leader = Aggregator { operator, url: leader_url };
        let given = self.helper_operator.as_deref();
        let operator =
            ask.value("--helper-operator", "Who runs the helper?", given, None, |text| {
                let operator = name(text)?;
                ensure!(operator != leader.operator, "leader and helper must differ: {TWICE}");
                Ok(operator)
            })?;
        let given = self.helper_url.as_deref();
        let helper_url = ask.value("--helper-url", "The helper's URL?", given, None, |text| {
            let own = url(text)?;
            ensure!(!same_server(&own, &leader.url), "the leader is at this address: {TWICE}");
            Ok(own)
        })?;
        let helper = Aggregator { operator, url: helper_url };
        let question = "The file of the collector's key (`sotto keys new`)?";
        let given = self.collector_key.as_deref();
        let collector_hpke_config =
            ask.value("--collector-key", question, given, None, |file| {
                collector_key(Path::new(file))
            })?;
        let question = "The origin of the log (the name of its key)?";
        let log = ask.value("--log-origin", question, self.log_origin.as_deref(), None, name)?;
        let log = log.to_string();
        Ok(Some(PartiesDraft {
            leader,
            helper,
            collector_hpke_config,
            log,
            tokens: self.tokens(ask)?,
        }))
    }

    /// Who checks tokens. Having no tokens must be an explicit choice.
    fn tokens(&self, ask: &mut Inquiry<'_>) -> Result<TokensDraft> {
        const NONE: &str = "insecure-no-tokens";
        let question = "Who issues the leader's tokens (or insecure-no-tokens)?";
        let given = match self.insecure_no_tokens {
            true => Some(NONE),
            false => self.leader_issuer.as_deref(),
        };
        let issuer = |text: &str| Ok(KeyDraft::Missing(text.parse::<KeyName>()?));
        let leader = ask.value("--leader-issuer", question, given, None, |text| match text {
            NONE => Ok(None),
            text => issuer(text).map(Some),
        })?;
        let Some(leader) = leader else { return Ok(TokensDraft::InsecureNone) };
        if self.insecure_leader_only {
            return Ok(TokensDraft::InsecureLeaderOnly { leader });
        }
        if self.insecure_single_issuer {
            let helper = leader.clone();
            return Ok(TokensDraft::RateLimited { leader, helper });
        }
        let question = "Who issues the helper's tokens (another operator)?";
        let given = self.helper_issuer.as_deref();
        let helper = ask.value("--helper-issuer", question, given, None, |text| {
            let helper = issuer(text)?;
            ensure!(
                helper != leader,
                "the issuers must differ: one that signs for both could invent devices"
            );
            Ok(helper)
        })?;
        Ok(TokensDraft::RateLimited { leader, helper })
    }
}

/// The public half of a key file, or of a file that holds nothing else.
fn collector_key(path: &Path) -> Result<String> {
    let text = crate::private_file::read(path).hint("make one with `sotto keys new --out FILE`")?;
    if let Ok(config) = task_file::hpke_config(text.trim()) {
        return Ok(KeySet::config_text(&config));
    }
    let key = keys::read(path).hint("make one with `sotto keys new --out FILE`")?;
    Ok(KeySet::config_text(key.config()))
}

/// A whole number, 1 or more.
pub(super) fn whole(text: &str) -> Result<u64> {
    let number = parse_whole(text).map_err(|reason| anyhow!(reason))?;
    ensure!(number > 0, "it must be at least 1");
    Ok(number)
}

/// The rate at which about [`AIM`] devices answer.
fn default_rate(population: u64) -> String {
    match population / AIM {
        0 | 1 => "1".to_owned(),
        den => format!("1/{den}"),
    }
}
