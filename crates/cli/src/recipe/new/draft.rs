//! Makes the draft of a recipe from options and answers.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, anyhow, bail, ensure};
use clap::ValueEnum;
use sotto_dp::crowd::safe_min_batch;
use sotto_dp::published;
use sotto_protocol::expression::{Expression, Reason};
use sotto_protocol::recipe::windows::least_share;
use sotto_protocol::recipe::{check_mapping, judgement, suggested_randomizer};
use sotto_wire::recipe::{
    Accountant, Adjacency, Aggregator, AttributeName, AttributeType, KeyDraft, PartiesDraft,
    Privacy, Probability, Query, Randomizer, Sampling, Targeting, TokensDraft, When, Who,
    parse_epsilon, parse_probability, parse_whole,
};
use sotto_wire::{KeyName, KeySet, RecipeDraft, utc};

use super::{Inquiry, Kind, NewArgs};
use crate::output::{WithHint, hinted, pointed};
use crate::recipe::certify::parse_attribute;
use crate::task::same_server;
use crate::time_text::parse_moment;
use crate::{keys, recipe_file, task_file};

/// The answers that the default rate aims at: enough for useful totals and a small epsilon.
const AIM: u64 = 20_000;

const DAY_S: u64 = 86_400;
const WEEK_S: u64 = 7 * DAY_S;

/// The bucket of devices for which the mapping has no value.
const UNKNOWN: &str = "unknown";

/// A randomizer's epsilon is searched in steps of 0.01, up to 8: above, it protects nobody.
const HUNDREDTH_MICRO: u64 = 10_000;
const MOST_HUNDREDTHS: u64 = 800;

/// Why leader and helper must not be the same.
const TWICE: &str = "whoever runs both sees every answer";

type Attributes = BTreeMap<AttributeName, AttributeType>;

impl NewArgs {
    /// The draft. Its claim has not been computed yet.
    pub(super) fn draft(&self, ask: &mut Inquiry<'_>, now: u64) -> Result<RecipeDraft> {
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
        let rate = default_rate(population);
        let rate = ask.value(
            "--rate",
            "With which probability does a device answer?",
            self.rate.as_deref(),
            Some(&rate),
            |text| parse_probability(text).map_err(|reason| anyhow!(reason)),
        )?;
        let (randomizer, privacy) = self.privacy(&query, ask)?;
        let when = self.when(ask, now)?;
        let min_batch = self.min_batch(population, rate, &when, ask)?;
        let mut draft = RecipeDraft {
            name,
            purpose,
            author: None,
            attributes,
            who: Who { population, targeting: self.targeting()? },
            when,
            sampling: Sampling {
                cover: self.cover.unwrap_or(Probability::ONE),
                ..Sampling::new(rate)
            },
            query,
            randomizer,
            noise: None,
            vdaf: None,
            min_batch,
            batch_mode: self.batch_mode.into(),
            privacy,
            parties: self.parties(ask)?,
        };
        if let Some(epsilon) = &self.epsilon {
            let named = |error: anyhow::Error| error.context("--epsilon cannot be used");
            parse_epsilon(epsilon)
                .map_err(|reason| anyhow!(reason))
                .and_then(|target| calibrate(&mut draft, target))
                .map_err(named)?;
        }
        Ok(draft)
    }

    fn question(&self, ask: &mut Inquiry<'_>) -> Result<(Attributes, Query)> {
        let given = self.kind.and_then(|kind| kind.to_possible_value());
        let given = given.as_ref().map(|kind| kind.get_name());
        let question = "What is measured: histogram, count or sum?";
        let kind = ask.value("--kind", question, given, Some("histogram"), |text| {
            Kind::from_str(text, true).map_err(|_| anyhow!("say histogram, count or sum"))
        })?;
        if !self.insecure_exact && suggested_randomizer(&kind.example(), 1).is_none() {
            return no_randomizer();
        }
        let (labels, size) = match kind {
            Kind::Histogram => self.buckets(ask)?,
            Kind::Sum => {
                let max = self.max.as_deref();
                (None, ask.value("--max", "The largest number?", max, None, whole)?)
            }
            Kind::Count => (None, 0),
        };
        let given = (!self.attribute.is_empty()).then(|| self.attribute.join(","));
        let question = "What may it read? name:type with bool, int or string, comma between";
        let attributes: Attributes =
            ask.value("--attribute", question, given.as_deref(), Some(""), |text| {
                text.split(',').filter(|one| !one.trim().is_empty()).map(parse_attribute).collect()
            })?;
        let question = match kind {
            Kind::Histogram => "Mapping to the bucket, like: minutes < 15 ? 0 : 1",
            Kind::Count => "Mapping to yes or no, like: minutes < 15",
            Kind::Sum => "Mapping to the number, like: minutes",
        };
        let empty = String::new();
        let without = match kind {
            Kind::Count => Query::Count { mapping: empty, fallback: self.fallback_bool()? },
            Kind::Sum => {
                Query::Sum { max: size, mapping: empty, fallback: self.fallback_number(0, None)? }
            }
            Kind::Histogram => self.histogram(labels, size)?,
        };
        let query = ask.value("--mapping", question, self.mapping.as_deref(), None, |text| {
            let mut query = without.clone();
            *query.mapping_mut() = text.to_owned();
            match check_mapping(&query, &attributes) {
                Ok(_) => Ok(query),
                Err(reason) => Err(wrong_mapping(reason, &query, &attributes)),
            }
        })?;
        Ok((attributes, query))
    }

    /// A histogram with these buckets. Unless the author chose a fallback, devices for which the
    /// mapping has no value have a bucket of their own: they must not look like an answer.
    fn histogram(&self, mut labels: Option<Vec<String>>, mut size: u64) -> Result<Query> {
        if self.fallback.is_none() {
            match &mut labels {
                Some(labels) if labels.iter().any(|label| label == UNKNOWN) => {}
                Some(labels) => labels.push(UNKNOWN.to_owned()),
                None => size = size.saturating_add(1),
            }
        }
        size = labels.as_ref().map_or(size, |labels| labels.len() as u64);
        let own = labels.as_ref().and_then(|all| all.iter().position(|label| label == UNKNOWN));
        let own = own.map_or(size.saturating_sub(1), |index| index as u64);
        let fallback = self.fallback_number(own, labels.as_deref())?;
        let fallback = u32::try_from(fallback).map_err(|_| anyhow!("--fallback is too large"))?;
        let buckets = u32::try_from(size).map_err(|_| anyhow!("--buckets is too large"))?;
        Ok(Query::Histogram { buckets, labels, mapping: String::new(), fallback })
    }

    fn buckets(&self, ask: &mut Inquiry<'_>) -> Result<(Option<Vec<String>>, u64)> {
        if let Some(buckets) = &self.buckets {
            let buckets = ask.value("--buckets", "", Some(buckets), None, whole)?;
            return Ok((None, buckets));
        }
        let question = "Names of the buckets, comma between (or how many there are)";
        ask.value("--labels", question, self.labels.as_deref(), None, |text| {
            if let Ok(number) = text.parse() {
                return Ok((None, number));
            }
            let labels: Vec<String> =
                text.split(',').map(|label| label.trim().to_owned()).collect();
            ensure!(labels.len() >= 2, "a histogram has at least two buckets");
            let count = labels.len() as u64;
            Ok((Some(labels), count))
        })
    }

    fn fallback_bool(&self) -> Result<bool> {
        match self.fallback.as_deref() {
            None => Ok(false),
            Some(text) => text.parse().map_err(|_| anyhow!("--fallback {text}: say true or false")),
        }
    }

    /// A number, or the name of a bucket.
    fn fallback_number(&self, default: u64, labels: Option<&[String]>) -> Result<u64> {
        let Some(text) = self.fallback.as_deref() else { return Ok(default) };
        let index = labels.and_then(|labels| labels.iter().position(|label| label == text));
        match (index, text.parse()) {
            (Some(index), _) => Ok(index as u64),
            (None, Ok(number)) => Ok(number),
            (None, Err(_)) => bail!("--fallback {text}: say a number, or one of the labels"),
        }
    }

    fn targeting(&self) -> Result<Option<Targeting>> {
        let (Some(predicate), Some(certified)) = (&self.predicate, &self.certified) else {
            return Ok(None);
        };
        let certified = certified.parse().map_err(|error| anyhow!("--certified: {error}"))?;
        Ok(Some(Targeting { predicate: predicate.clone(), certified }))
    }

    fn privacy(&self, query: &Query, ask: &mut Inquiry<'_>) -> Result<(Randomizer, Privacy)> {
        if self.insecure_exact {
            return Ok((Randomizer::None, Privacy::InsecureUnbounded));
        }
        let question = "Epsilon of the randomizer on the device";
        // With --epsilon it is computed once everything else is known.
        let given = self.epsilon0.as_deref().or(self.epsilon.as_ref().map(|_| "4"));
        let epsilon0 = ask.value("--epsilon0", question, given, Some("4"), |text| {
            let micro = parse_epsilon(text).map_err(|reason| anyhow!(reason))?;
            ensure!(micro > 0, "it must be above 0");
            Ok(micro)
        })?;
        let question = "Delta of the claim";
        let delta =
            ask.value("--delta", question, self.delta.as_deref(), Some("1e-9"), |text| {
                let delta = parse_probability(text).map_err(|reason| anyhow!(reason))?;
                ensure!(!delta.is_zero() && !delta.is_one(), "it must be above 0 and below 1");
                Ok(delta)
            })?;
        let claim = Privacy::Claim {
            epsilon_micro: 1,
            delta,
            adjacency: Adjacency::Replace,
            accountant: Accountant::Best,
            rounds: 1,
        };
        match suggested_randomizer(query, epsilon0) {
            Some(randomizer) => Ok((randomizer, claim)),
            None => no_randomizer(),
        }
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
        let closes =
            ask.value("--closes", question, self.closes.as_deref(), Some(&default), moment)?;
        for (option, time) in [("--opens", opens), ("--closes", closes)] {
            if !time.is_multiple_of(window) {
                let below = utc::format(time - time % window);
                return Err(anyhow!("{option} must be a multiple of the window"))
                    .hint(format!("use {below}, or a shorter --window"));
            }
        }
        let max_window_s = self.max_window.unwrap_or(closes.saturating_sub(opens));
        Ok(When { opens, closes, window_s: window, max_window_s })
    }

    fn min_batch(
        &self,
        population: u64,
        rate: Probability,
        when: &When,
        ask: &mut Inquiry<'_>,
    ) -> Result<u64> {
        let expected = population as f64 * rate.to_f64() * least_share(when);
        let default = safe_min_batch(expected).to_string();
        let question = "The smallest batch that is released";
        ask.value("--min-batch", question, self.min_batch.as_deref(), Some(&default), whole)
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

/// The error with its place, and a hint if it is about an attribute.
fn wrong_mapping(reason: String, query: &Query, attributes: &Attributes) -> anyhow::Error {
    let place = reason.split_once(':').and_then(|(place, _)| place.split_once(", "));
    let place = place.and_then(|(_, place)| recipe_file::place_in(query.mapping(), place));
    let error = pointed(anyhow!(reason), place);
    let wrong = Expression::compile(query.mapping(), attributes).err();
    let labels = match query {
        Query::Histogram { labels: Some(labels), .. } => labels.as_slice(),
        _ => &[],
    };
    match wrong.map(|wrong| wrong.reason) {
        Some(Reason::Undeclared(name)) if !labels.contains(&name) => hinted(
            error,
            format!("declare what it reads: --attribute {name}:int, :bool or :string"),
        ),
        _ => error,
    }
}

fn no_randomizer<T>() -> Result<T> {
    Err(anyhow!("a count or a sum has no randomizer yet, so it can claim nothing"))
        .hint("ask for a histogram (of two buckets for yes and no), or give --insecure-exact")
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

/// Gives the randomizer the largest epsilon, in hundredths, with which the claim is at most
/// `target`.
fn calibrate(draft: &mut RecipeDraft, target: u64) -> Result<()> {
    ensure!(target > 0, "it must be above 0");
    let mut recipe = recipe_file::with_stand_ins(draft.clone())?;
    let mut meets = |hundredths: u64| -> Result<bool> {
        let Some(randomizer) = suggested_randomizer(&recipe.query, hundredths * HUNDREDTH_MICRO)
        else {
            return no_randomizer();
        };
        (recipe.randomizer, draft.randomizer) = (randomizer, randomizer);
        let judged = judgement(&recipe)?.map_or(f64::INFINITY, |judged| judged.epsilon);
        Ok(judged.is_finite() && published(judged)? <= target)
    };
    let (mut best, mut above) = (0, MOST_HUNDREDTHS + 1);
    while best + 1 < above {
        let middle = best.midpoint(above);
        if meets(middle)? { best = middle } else { above = middle }
    }
    if best == 0 {
        return Err(anyhow!("no randomizer reaches it with so few answers"))
            .hint("raise --epsilon, --min-batch or --population, or lower --rate");
    }
    meets(best).map(drop)
}

fn whole(text: &str) -> Result<u64> {
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
