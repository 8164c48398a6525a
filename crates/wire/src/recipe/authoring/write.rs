//! From a draft to TOML.

use toml::Value;

use super::number::show_micro;
use super::{RecipeDraft, noise, query, randomizer, series, tokens};
use crate::recipe::{Accountant, Adjacency, Aggregator, Privacy, RecipeVdaf, Sampling};
use crate::{BatchMode, utc};

/// Above this, a float cannot represent every decimal in millionths, so text is written instead.
const FLOAT_EXACT_MICRO: u64 = 1_000_000_000_000_000;

/// The draft as TOML.
pub(super) fn draft(draft: &RecipeDraft) -> String {
    let mut out = Writer(String::new());
    out.comment("A Sotto recipe.");
    out.raw("version", 1);
    out.text("name", &draft.name);
    out.comment("One sentence for the person whose device it is.");
    out.text("purpose", &draft.purpose);
    if let Some(author) = &draft.author {
        out.group("author", "Who asks. Filled in on publication if it is missing.");
        out.text("name", author.name.as_str());
        out.text("key", &author.key.to_string());
    }
    out.group(
        "attributes",
        "What the expressions may read from a device: bool, int, string, strings or vector(64).",
    );
    for (name, kind) in &draft.attributes {
        out.text(name.as_str(), &kind.to_string());
    }
    if let Some(series) = &draft.series {
        series::write(&mut out, series);
    }
    who(&mut out, draft);
    when(&mut out, draft);
    sampling(&mut out, &draft.sampling);
    query::write(&mut out, &draft.query);
    randomizer::write(&mut out, &draft.randomizer);
    if let Some(noise) = &draft.noise {
        noise::write(&mut out, noise);
    }
    aggregation(&mut out, draft);
    privacy(&mut out, &draft.privacy);
    match &draft.parties {
        Some(parties) => {
            out.group("parties", "Who sums, for whom, and which log holds the recipe.");
            out.text("collector_hpke_config", &parties.collector_hpke_config);
            out.text("log", &parties.log);
            aggregator(&mut out, "parties.leader", &parties.leader);
            aggregator(&mut out, "parties.helper", &parties.helper);
            tokens::write(&mut out, &parties.tokens);
        }
        None => out.0.push_str(NO_PARTIES),
    }
    out.0
}

/// What an author fills in once the parties are known.
const NO_PARTIES: &str = r#"
# Who sums, for whom, and which log holds the recipe. `sotto demo --recipe` does
# without. To publish it, fill this in and remove the first `#` of each line.
# `sotto keys new --out collector.toml` prints collector_hpke_config.
#[parties]
#collector_hpke_config = "..."
#log = "log.example"
#
#[parties.leader]
#operator = "leader.example"
#url = "https://leader.example/"
#
#[parties.helper]
#operator = "helper.example"
#url = "https://helper.example/"
#
#[parties.tokens]
#kind = "rate_limited"
#
#[parties.tokens.leader]
#issuer = "issuer-a.example"
#
#[parties.tokens.helper]
#issuer = "issuer-b.example"
"#;

fn who(out: &mut Writer, draft: &RecipeDraft) {
    out.group("who", "The approximate number of devices. This never lowers an epsilon.");
    out.raw("population", draft.who.population);
    if let Some(targeting) = &draft.who.targeting {
        out.group(
            "who.targeting",
            "Which of them are asked, and the logged result that counted them.",
        );
        out.text("predicate", &targeting.predicate);
        out.text("certified", &targeting.certified.to_string());
    }
}

fn when(out: &mut Writer, draft: &RecipeDraft) {
    out.group("when", "When devices may answer; at most `max_window` is released at once.");
    out.raw("opens", moment(draft.when.opens));
    out.raw("closes", moment(draft.when.closes));
    out.text("window", &utc::format_length(draft.when.window_s));
    out.text("max_window", &utc::format_length(draft.when.max_window_s));
}

/// A date, or plain seconds beyond the years that dates support.
pub(super) fn moment(posix_seconds: u64) -> String {
    let date = utc::format(posix_seconds);
    if utc::parse(&date).is_some() { date } else { posix_seconds.to_string() }
}

fn sampling(out: &mut Writer, sampling: &Sampling) {
    let Sampling { rate, default_rate, dummy_rate, cover } = sampling;
    match default_rate {
        None => {
            out.group("sampling", "The probability with which each device answers.");
            out.text("rate", &rate.to_string());
        }
        Some(default_rate) => {
            let comment = "The probability of answering with the default value, and with another.";
            out.group("sampling", comment);
            out.text("default_rate", &default_rate.to_string());
            out.text("other_rate", &rate.to_string());
        }
    }
    if !dummy_rate.is_zero() {
        out.text("dummy_rate", &dummy_rate.to_string());
    }
    if !cover.is_one() {
        out.text("cover", &cover.to_string());
    }
}

fn aggregation(out: &mut Writer, draft: &RecipeDraft) {
    out.group("aggregation", "The smallest batch that is released, and how batches are formed.");
    out.raw("min_batch", draft.min_batch);
    let batch_mode = match draft.batch_mode {
        BatchMode::TimeInterval => "time_interval",
        BatchMode::LeaderSelected => "leader_selected",
    };
    out.text("batch_mode", batch_mode);
    let Some(vdaf) = &draft.vdaf else { return };
    out.group(
        "aggregation.vdaf",
        "Follows from the query. Filled in on publication if it is missing.",
    );
    match vdaf {
        RecipeVdaf::Prio3Count => out.text("type", "Prio3Count"),
        RecipeVdaf::Prio3Sum { max_measurement } => {
            out.text("type", "Prio3Sum");
            out.raw("max_measurement", max_measurement);
        }
        RecipeVdaf::Prio3Histogram { length, chunk_length } => {
            out.text("type", "Prio3Histogram");
            out.raw("length", length);
            out.raw("chunk_length", chunk_length);
        }
        RecipeVdaf::Prio3MultihotCountVec { length, chunk_length, max_weight } => {
            out.text("type", "Prio3MultihotCountVec");
            out.raw("length", length);
            out.raw("chunk_length", chunk_length);
            out.raw("max_weight", max_weight);
        }
        RecipeVdaf::Pine64 { dimension, norm_bound, chunk_length, chunk_length_norm_equality } => {
            out.text("type", "Pine64");
            out.raw("dimension", dimension);
            out.raw("norm_bound", norm_bound);
            out.raw("chunk_length", chunk_length);
            out.raw("chunk_length_norm_equality", chunk_length_norm_equality);
        }
    }
}

fn privacy(out: &mut Writer, privacy: &Privacy) {
    out.group("privacy", "What one device is promised. Every device computes it again.");
    match privacy {
        Privacy::InsecureUnbounded => out.text("kind", "insecure_unbounded"),
        Privacy::Claim { epsilon_micro, delta, adjacency, accountant, rounds } => {
            out.text("kind", "claim");
            out.micro("epsilon", *epsilon_micro);
            out.text("delta", &delta.to_string());
            let adjacency = match adjacency {
                Adjacency::Replace => "replace",
                Adjacency::AddRemove => "add_remove",
            };
            out.text("adjacency", adjacency);
            let Accountant::Best = accountant;
            out.text("accountant", "best");
            out.raw("rounds", rounds);
        }
    }
}

fn aggregator(out: &mut Writer, group: &str, aggregator: &Aggregator) {
    out.table(group);
    out.text("operator", aggregator.operator.as_str());
    out.text("url", &aggregator.url);
}

/// TOML, line by line.
pub(super) struct Writer(String);

impl Writer {
    pub(super) fn comment(&mut self, comment: &str) {
        self.0.push_str(&format!("# {comment}\n"));
    }

    pub(super) fn group(&mut self, name: &str, comment: &str) {
        self.0.push_str(&format!("\n# {comment}\n[{name}]\n"));
    }

    pub(super) fn table(&mut self, name: &str) {
        self.0.push_str(&format!("\n[{name}]\n"));
    }

    pub(super) fn text(&mut self, key: &str, value: &str) {
        self.raw(key, quoted(value));
    }

    pub(super) fn micro(&mut self, key: &str, micro: u64) {
        let shown = show_micro(micro);
        self.raw(key, if micro < FLOAT_EXACT_MICRO { shown } else { quoted(&shown) });
    }

    pub(super) fn raw(&mut self, key: &str, value: impl std::fmt::Display) {
        self.0.push_str(&format!("{key} = {value}\n"));
    }
}

/// Text as TOML spells it.
pub(super) fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// Values as a list.
pub(super) fn list<T: std::fmt::Display>(values: impl IntoIterator<Item = T>) -> String {
    let values: Vec<_> = values.into_iter().map(|value| value.to_string()).collect();
    format!("[{}]", values.join(", "))
}
