//! `sotto recipe new`: asks questions on a terminal, takes options in scripts.

mod discovery;
mod draft;
mod inquiry;
pub(super) mod planned;
mod protection;
mod question;
#[cfg(test)]
pub(crate) mod testing;
mod training;

use std::io::{IsTerminal, stdin, stdout};
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use serde_json::json;
use sotto_dp::published;
use sotto_protocol::recipe::{Assessment, judgement_to_claim, set_claim};
use sotto_wire::recipe::{
    Privacy, Probability, Query, TokensDraft, parse_probability, parse_whole,
};
use sotto_wire::{Recipe, RecipeDraft};

use self::discovery::DiscoveryArgs;
pub(super) use self::inquiry::Inquiry;
use self::inquiry::Prompt;
use self::training::TrainingArgs;
use super::plan::expected;
use super::series;
use super::words::{self, grouped};
use crate::output::{Outcome, Output, WithHint, hinted, pointed};
use crate::recipe_file;
use crate::task_file::BatchModeName;
use crate::time_text::{now, parse_seconds};
use crate::vocabulary::Epsilon;

#[derive(Debug, Default, Args)]
#[command(
    after_help = "On a terminal, it asks for missing options, and keeps the answers in FILE.answers until the recipe \
    is written. In a script, the parties may be left out until the recipe is published:\n  sotto recipe new commute \
    --purpose 'How long do people commute?' \\\n    --attribute minutes:int --labels short,middle,long \\\n    --mapping \
    'minutes < 15 ? 0 : minutes < 45 ? 1 : 2' --population 1e6\n  sotto demo --recipe commute.toml"
)]
pub(crate) struct NewArgs {
    /// The recipe's name: a-z, 0-9, dot and hyphen. Each recipe of an author needs its own.
    #[arg(value_name = "NAME")]
    pub(super) name: Option<String>,
    /// Same as NAME.
    #[arg(long = "name", value_name = "NAME", conflicts_with = "name")]
    pub(super) name_option: Option<String>,
    /// One sentence for the owner of the device.
    #[arg(long, value_name = "TEXT")]
    pub(super) purpose: Option<String>,
    /// What is measured [default: histogram]
    #[arg(long, value_enum, help_heading = "Question")]
    pub(super) kind: Option<Kind>,
    /// The names of a histogram's buckets: a,b,c.
    #[arg(long, value_name = "A,B,C", help_heading = "Question")]
    pub(super) labels: Option<String>,
    /// The number of a histogram's buckets, if they have no names.
    #[arg(long, value_name = "N", conflicts_with = "labels", help_heading = "Question")]
    pub(super) buckets: Option<String>,
    /// The largest number of a sum or a mean.
    #[arg(long, value_name = "N", help_heading = "Question")]
    pub(super) max: Option<String>,
    /// Where a range of quantiles ends and the next one begins, in increasing order: 18,30,65.
    #[arg(long, value_name = "A,B,C", allow_hyphen_values = true, help_heading = "Question")]
    pub(super) boundaries: Option<String>,
    /// In how many buckets of a multi_histogram one device may be.
    #[arg(long, value_name = "N", help_heading = "Question")]
    pub(super) most: Option<String>,
    /// The published vectors of which the closest one counts: a text file with a vector per line and
    /// commas between its numbers.
    #[arg(long, value_name = "FILE", help_heading = "Question")]
    pub(super) candidates: Option<PathBuf>,
    /// How many numbers a vector has.
    #[arg(long, value_name = "D", help_heading = "Question")]
    pub(super) dimension: Option<String>,
    /// The largest norm (L2) of a vector; longer ones are made shorter [default: 1]
    #[arg(long, value_name = "C", help_heading = "Question")]
    pub(super) clip: Option<String>,
    /// Numbers of vectors are rounded to multiples of 2^-F [default: 15, or 20 above 100,000 numbers;
    /// candidates: 10]
    #[arg(long, value_name = "F", value_parser = clap::value_parser!(u32).range(0..=30), help_heading = "Question")]
    pub(super) fraction_bits: Option<u32>,
    /// Send only so many numbers of a vector, by a random projection that all devices share.
    #[arg(long, value_name = "K", help_heading = "Question")]
    pub(super) compress: Option<String>,
    /// An attribute that the device may read, with its type: name:bool, name:int, name:string,
    /// name:strings for a list of texts, or 'name:vector(64)' for 64 numbers.
    #[arg(long, value_name = "NAME:TYPE", help_heading = "Question")]
    pub(super) attribute: Vec<String>,
    /// The expression that gives the bucket (or its name), the number, true and false, a list of
    /// buckets, or a vector.
    #[arg(long, value_name = "EXPRESSION", help_heading = "Question")]
    pub(super) mapping: Option<String>,
    /// The answer if the mapping gives none; in a sparse_histogram also the bucket of nearly all
    /// devices [default: one more bucket, `unknown`, in a histogram; the first bucket in a
    /// sparse_histogram; else 0, false or no bucket]
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true, help_heading = "Question")]
    pub(super) fallback: Option<String>,
    /// Ask in up to N rounds. The file is the header of this series; a round is the same file with
    /// [series.round] and its index.
    #[arg(long, value_name = "N", value_parser = parse_whole, help_heading = "Rounds")]
    pub(super) rounds: Option<u64>,
    /// How long each round is open, one after the other: 1w [default: a round is open until the next
    /// one is published]
    #[arg(
        long,
        value_name = "LENGTH",
        value_parser = parse_seconds,
        requires = "rounds",
        conflicts_with_all = ["model", "closes", "max_window"],
        help_heading = "Rounds"
    )]
    pub(super) round_length: Option<u64>,
    /// A device takes part at most once, in a secret round.
    #[arg(long, requires = "rounds", help_heading = "Rounds")]
    pub(super) donation: bool,
    #[command(flatten)]
    pub(super) training: TrainingArgs,
    #[command(flatten)]
    pub(super) discovery: DiscoveryArgs,
    /// The approximate number of devices, like 1000000 or 1e6.
    #[arg(long, value_name = "N", help_heading = "Crowd")]
    pub(super) population: Option<String>,
    /// Ask only devices for which this expression is true; needs --certified.
    #[arg(long, value_name = "EXPRESSION", requires = "certified", help_heading = "Crowd")]
    pub(super) predicate: Option<String>,
    /// The id of the result in the log that says how many these are.
    #[arg(long, value_name = "ID", requires = "predicate", help_heading = "Crowd")]
    pub(super) certified: Option<String>,
    /// How many these are. Needed with --default-rate, and with --adjacency add-remove.
    #[arg(long, value_name = "N", value_parser = parse_whole, requires = "certified", help_heading = "Crowd")]
    pub(super) audience: Option<u64>,
    /// The probability that a device answers, like 1/50, 2% or 0.02 [default: planned, see --reports]
    #[arg(long, value_name = "Q", allow_negative_numbers = true, help_heading = "Crowd")]
    pub(super) rate: Option<String>,
    /// The same for a device with the default value of a sparse_histogram, which may be lower.
    #[arg(long, value_name = "Q", value_parser = parse_probability, help_heading = "Crowd")]
    pub(super) default_rate: Option<Probability>,
    /// The probability that a device that does not answer sends a dummy, which is counted and says
    /// nothing [default: 0]
    #[arg(long, value_name = "Q", value_parser = parse_probability, help_heading = "Crowd")]
    pub(super) dummy_rate: Option<Probability>,
    /// The probability that a device that does not answer sends cover, which hides from the relay
    /// who answers. Below 1 the epsilon grows [default: 1]
    #[arg(long, value_name = "C", value_parser = parse_probability, help_heading = "Crowd")]
    pub(super) cover: Option<Probability>,
    /// The smallest batch that is released [default: four standard deviations below the expected
    /// number of reports, dummies included]
    #[arg(long, value_name = "N", help_heading = "Crowd")]
    pub(super) min_batch: Option<String>,
    /// The largest epsilon that the recipe may claim: everything else is planned so that the error
    /// is small [default: at most 1, and no more than the error needs]
    #[arg(
        long,
        value_name = "EPSILON",
        conflicts_with_all = ["epsilon0", "device_sigma", "error"],
        help_heading = "Privacy"
    )]
    pub(super) epsilon: Option<String>,
    /// The largest error (standard error of an average bucket) that you accept, as a number or in
    /// percent: 500 or 5%. The smallest epsilon for it is planned.
    #[arg(
        long,
        value_name = "ERROR",
        conflicts_with_all = ["epsilon0", "sigma", "device_sigma", "insecure_exact"],
        help_heading = "Privacy"
    )]
    pub(super) error: Option<String>,
    /// The most answers that are expected; a plan has no more [default: 20,000]
    #[arg(long, value_name = "N", conflicts_with = "rate", value_parser = parse_whole, help_heading = "Crowd")]
    pub(super) reports: Option<u64>,
    /// The epsilon of the randomizer on the device, under replacement. The file of a recipe with
    /// RAPPOR or projective geometry response has half of it (per bucket that a device may be in):
    /// there it is under deletion [default: planned]
    #[arg(long, value_name = "EPSILON", allow_negative_numbers = true, help_heading = "Privacy")]
    pub(super) epsilon0: Option<String>,
    /// The randomizer on the device [default: planned]
    #[arg(
        long,
        value_enum,
        conflicts_with_all = ["sigma", "insecure_exact"],
        help_heading = "Privacy"
    )]
    pub(super) randomizer: Option<RandomizerName>,
    /// Exact answers, and noise of each aggregator on every sum: its sigma, in units of the sum, or of
    /// the clip of vectors [default: planned]
    #[arg(
        long,
        value_name = "SIGMA",
        allow_negative_numbers = true,
        conflicts_with_all = ["epsilon", "epsilon0"],
        help_heading = "Privacy"
    )]
    pub(super) sigma: Option<String>,
    /// Gaussian noise of which each device adds its part, for vectors and histograms: sigma of the
    /// smallest batch together, in units of the clip [default: planned]
    #[arg(
        long,
        value_name = "SIGMA",
        conflicts_with_all = ["epsilon0", "sigma", "insecure_exact"],
        help_heading = "Privacy"
    )]
    pub(super) device_sigma: Option<String>,
    /// The delta of the claim [default: 1e-9]
    #[arg(long, value_name = "DELTA", help_heading = "Privacy")]
    pub(super) delta: Option<String>,
    /// What the claim protects.
    #[arg(long, value_enum, default_value_t, help_heading = "Privacy")]
    pub(super) adjacency: Neighbours,
    /// No randomizer, no noise and no claim. Only devices that allow it answer.
    #[arg(
        long,
        conflicts_with_all = ["epsilon", "epsilon0", "sigma", "delta"],
        help_heading = "Privacy"
    )]
    pub(super) insecure_exact: bool,
    /// When it opens: POSIX seconds or 2026-11-20T00:00:00Z [default: the first midnight in over two
    /// days]
    #[arg(long, value_name = "TIME", help_heading = "Time")]
    pub(super) opens: Option<String>,
    /// When it closes [default: a week later, or when the last round has ended that has a length]
    #[arg(long, value_name = "TIME", help_heading = "Time")]
    pub(super) closes: Option<String>,
    /// Report times are rounded down to multiples of this.
    #[arg(long, value_name = "LENGTH", default_value = "1h", value_parser = parse_seconds, help_heading = "Time")]
    pub(super) window: u64,
    /// The longest time that one release may cover [default: from opens to closes, or a round that has a
    /// length]
    #[arg(long, value_name = "LENGTH", value_parser = parse_seconds, help_heading = "Time")]
    pub(super) max_window: Option<u64>,
    /// How reports are grouped into batches [default: time-interval;
    /// leader-selected for a training or a discovery]
    #[arg(long, value_enum, help_heading = "Time")]
    pub(super) batch_mode: Option<BatchModeName>,
    /// Who runs the leader: the name of the key that devices pin.
    #[arg(long, value_name = "NAME", help_heading = "Parties")]
    pub(super) leader_operator: Option<String>,
    /// The leader's base URL.
    #[arg(long, value_name = "URL", help_heading = "Parties")]
    pub(super) leader_url: Option<String>,
    /// Who runs the helper.
    #[arg(long, value_name = "NAME", help_heading = "Parties")]
    pub(super) helper_operator: Option<String>,
    /// The helper's base URL.
    #[arg(long, value_name = "URL", help_heading = "Parties")]
    pub(super) helper_url: Option<String>,
    /// The collector's key: a file of `sotto keys new`, or the public line that it prints.
    #[arg(long, value_name = "FILE", help_heading = "Parties")]
    pub(super) collector_key: Option<String>,
    /// The origin of the log: the name of its key.
    #[arg(long, value_name = "ORIGIN", help_heading = "Parties")]
    pub(super) log_origin: Option<String>,
    /// Who runs the issuer of the tokens with which the leader checks that each device contributes
    /// once.
    #[arg(long, value_name = "NAME", help_heading = "Parties")]
    pub(super) leader_issuer: Option<String>,
    /// Who runs the issuer of the helper's tokens: another operator. One issuer for both could
    /// invent devices.
    #[arg(long, value_name = "NAME", help_heading = "Parties")]
    pub(super) helper_issuer: Option<String>,
    /// The leader's issuer signs the helper's tokens too, and could invent devices. Only devices that
    /// allow it answer.
    #[arg(long, conflicts_with = "helper_issuer", help_heading = "Parties")]
    pub(super) insecure_single_issuer: bool,
    /// Only the leader checks tokens, because the helper cannot. Only devices that allow it answer.
    #[arg(
        long,
        conflicts_with_all = ["helper_issuer", "insecure_single_issuer"],
        help_heading = "Parties"
    )]
    pub(super) insecure_leader_only: bool,
    /// No tokens: anyone can contribute any number of times. Only devices that allow it answer.
    #[arg(
        long,
        conflicts_with_all = ["leader_issuer", "helper_issuer", "insecure_single_issuer", "insecure_leader_only"],
        help_heading = "Parties"
    )]
    pub(super) insecure_no_tokens: bool,
    /// The file to write [default: NAME.toml]
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long)]
    pub(super) force: bool,
}

/// What a claim protects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Neighbours {
    /// Which value a device has.
    #[default]
    Replace,
    /// Also whether the device is there at all. It needs noise of the aggregators, and an audience
    /// that a logged result certifies.
    AddRemove,
}

/// What a device does to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum RandomizerName {
    /// One of the buckets, most likely the true one. Good for few buckets.
    RandomizedResponse,
    /// For each bucket a bit, each flipped with the same probability. It goes with dummies.
    Rappor,
    /// One of many groups of buckets, most likely one with the true one. As precise as rappor for many
    /// buckets, in much smaller reports.
    ProjectiveGeometry,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// How many devices fall into each bucket.
    #[default]
    Histogram,
    /// How many devices say yes.
    Count,
    /// The sum of a number per device.
    Sum,
    /// The mean of a number per device.
    Mean,
    /// The quartiles of a number, from how many devices fall into each range.
    Quantiles,
    /// How many devices fall into each bucket, where one device may be in several.
    #[value(name = "multi_histogram")]
    MultiHistogram,
    /// A histogram in which nearly all devices are in one bucket.
    #[value(name = "sparse_histogram")]
    SparseHistogram,
    /// Which of several published vectors is closest to that of the device.
    Nearest,
    /// The sum of a vector per device.
    #[value(name = "vector_sum")]
    VectorSum,
    /// The mean of a vector per device.
    #[value(name = "vector_mean")]
    VectorMean,
}

impl NewArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        self.with_training()?.with_discovery().write(output)
    }

    fn write(self, output: &Output) -> Result<Outcome> {
        let guided = !output.json() && stdin().is_terminal() && stdout().is_terminal();
        let (mut input, mut questions) = (stdin().lock(), std::io::stderr());
        let prompt = guided.then(|| Prompt::new(&mut input, &mut questions, output.width()));
        let mut inquiry = Inquiry::new(prompt);
        if !guided {
            self.nothing_missing()?;
        }
        let now = now()?.0;
        let mut draft = self.draft(&mut inquiry, now)?;
        let recipe = with_claim(&mut draft, self.audience)?;
        let out = self.file(&recipe.name);
        recipe_file::write(&out, draft.to_toml().as_bytes(), self.force)?;
        inquiry.forget()?;
        let crowd = series::crowd_of_round(&recipe, self.audience);
        let expected_errors = expected::of(&recipe, self.audience);
        if output.json() {
            let (epsilon, delta) = match recipe.privacy {
                Privacy::Claim { epsilon_micro, delta, .. } => {
                    (Epsilon::from_micro(epsilon_micro), Some(delta.to_f64()))
                }
                Privacy::InsecureUnbounded => (Epsilon(f64::INFINITY), None),
            };
            output.value(&json!({
                "file": out,
                "name": recipe.name,
                "epsilon": epsilon,
                "delta": delta,
                "min_batch": recipe.aggregation.min_batch,
                "crowd": crowd,
                "expected_errors": expected_errors,
            }))?;
            return Ok(Outcome::Yes);
        }
        output.line(out.display())?;
        output.remark(format!("it claims {}", words::privacy(&recipe.privacy)));
        let which = series::of_which_round(&recipe);
        output.remark(format!("{} answers are expected{which}", grouped(crowd.expected as u64)));
        if let Some(expected) = expected_errors.first() {
            output.remark(format!("expected error, {}: {}", expected.label(), expected.words()));
            expected.warning().into_iter().for_each(|warning| output.warning(warning));
        }
        if recipe.aggregation.min_batch > crowd.safe_min_batch && !crowd.is_almost_sure() {
            let safe = grouped(crowd.safe_min_batch);
            output.warning(format!("a minimum batch above {safe} may not be reached"));
        }
        if recipe.when.opens < now {
            output.warning("it is open already; devices want a recipe to be in the log for a day");
        }
        if let Query::Histogram { fallback, .. } | Query::Nearest { fallback, .. } = &recipe.query
            && !self.is_discovery()
        {
            let bucket = words::bucket(&recipe.query, *fallback);
            output.remark(format!("{bucket} counts devices for which the mapping has no value"));
        }
        let out = out.display();
        let demo = format!("demo --recipe {out}");
        let demo = if self.is_discovery() { "discover --story words" } else { &demo };
        let mut next = vec![format!("sotto {demo}")];
        let Some(tokens) = draft.tokens() else {
            output.next(&next);
            output.remark(format!("before you publish it, fill in [parties] at the end of {out}"));
            return Ok(Outcome::Yes);
        };
        if let Some(warning) = words::token_warning(&recipe.parties.tokens) {
            output.warning(warning);
        }
        let issuers = match tokens {
            TokensDraft::RateLimited { .. } => Some("--leader-issuer URL --helper-issuer URL"),
            TokensDraft::InsecureLeaderOnly { .. } => Some("--leader-issuer URL"),
            TokensDraft::InsecureNone => None,
        };
        next.push(format!("sotto recipe check {out}"));
        next.extend(issuers.map(|issuers| {
            format!("sotto recipe tokens {out} --signer FILE \\\n        {issuers}")
        }));
        next.push(format!("sotto recipe publish {out} --signer FILE --log URL"));
        output.next(&next);
        Ok(Outcome::Yes)
    }

    /// The file to write.
    fn file(&self, name: &str) -> PathBuf {
        self.out.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.toml")))
    }

    /// Whether an option says who runs something.
    fn names_parties(&self) -> bool {
        let named = [
            &self.leader_operator,
            &self.leader_url,
            &self.helper_operator,
            &self.helper_url,
            &self.collector_key,
            &self.log_origin,
            &self.leader_issuer,
            &self.helper_issuer,
        ];
        named.into_iter().any(Option::is_some)
            || self.insecure_no_tokens
            || self.insecure_single_issuer
            || self.insecure_leader_only
    }

    /// Without a terminal no questions are asked: options without a default must be given.
    pub(super) fn nothing_missing(&self) -> Result<()> {
        let kind = self.kind.unwrap_or_default();
        let size = match kind {
            Kind::Histogram | Kind::SparseHistogram | Kind::MultiHistogram => {
                ("--labels (or --buckets)", self.labels.is_some() || self.buckets.is_some())
            }
            Kind::Sum | Kind::Mean => ("--max", self.max.is_some()),
            Kind::Quantiles => ("--boundaries", self.boundaries.is_some()),
            Kind::VectorSum | Kind::VectorMean => ("--dimension", self.dimension.is_some()),
            Kind::Nearest => ("--candidates", self.candidates.is_some()),
            Kind::Count => ("", true),
        };
        let needed = [
            ("--name", self.name.is_some() || self.name_option.is_some()),
            ("--purpose", self.purpose.is_some()),
            size,
            ("--mapping", self.mapping.is_some()),
            ("--population", self.population.is_some()),
            ("--most", kind != Kind::MultiHistogram || self.most.is_some()),
        ];
        let parties = [
            ("--leader-operator", self.leader_operator.is_some()),
            ("--leader-url", self.leader_url.is_some()),
            ("--helper-operator", self.helper_operator.is_some()),
            ("--helper-url", self.helper_url.is_some()),
            ("--collector-key", self.collector_key.is_some()),
            ("--log-origin", self.log_origin.is_some()),
            (
                "--leader-issuer (or --insecure-no-tokens)",
                self.leader_issuer.is_some() || self.insecure_no_tokens,
            ),
            (
                "--helper-issuer",
                self.helper_issuer.is_some()
                    || self.insecure_no_tokens
                    || self.insecure_single_issuer
                    || self.insecure_leader_only,
            ),
        ];
        // Nobody has to be found to begin with, but half of the parties are a mistake.
        let parties = parties.iter().filter(|_| self.names_parties());
        let missing: Vec<&str> = needed
            .iter()
            .chain(parties)
            .filter(|(_, given)| !given)
            .map(|(name, _)| *name)
            .collect();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(anyhow!("missing: {}", missing.join(", ")))
                .hint("give them, or run it on a terminal to be asked"),
        }
    }
}

/// The recipe of a draft, with placeholders for what is not known yet.
fn completed(draft: &RecipeDraft) -> Result<Recipe> {
    recipe_file::with_stand_ins(draft.clone()).map_err(|error| {
        let is_too_long = error.to_string().contains("fit into an entry");
        match draft.query.labels() {
            _ if is_too_long && draft.query.candidate_dimension().is_some() => hinted(
                error,
                "give fewer --candidates, with fewer numbers, or a smaller --fraction-bits",
            ),
            Some(_) if is_too_long => {
                hinted(error, "give fewer or shorter --labels, or --buckets, which have no names")
            }
            _ => error,
        }
    })
}

/// Computes the claim of a draft as a device will, and writes it into the draft. The returned
/// recipe has placeholders for its author and for the issuers' keys.
pub(super) fn with_claim(draft: &mut RecipeDraft, audience: Option<u64>) -> Result<Recipe> {
    let mut recipe = completed(draft)?;
    let judged = judgement_to_claim(&recipe, audience)?;
    if let Some(judged) = judged.filter(|judged| judged.epsilon.is_finite()) {
        set_claim(&mut recipe, published(judged.epsilon)?.max(1))?;
        draft.privacy = recipe.privacy;
    }
    Assessment::certified(recipe.clone(), audience).map_err(|silence| {
        let place = recipe_file::in_expression(&recipe, &silence.reason);
        pointed(anyhow!("{silence}").context("a device would refuse this recipe"), place)
    })?;
    Ok(recipe)
}

#[cfg(test)]
mod tests;
