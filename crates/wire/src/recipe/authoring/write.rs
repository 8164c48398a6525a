//! From a draft to TOML.

use toml::Value;

use super::number::show_micro;
use super::{RecipeDraft, noise, randomizer, tokens};
use crate::recipe::{Accountant, Adjacency, Aggregator, AttributeType, Privacy, Query, RecipeVdaf};
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
    out.group("attributes", "What the expressions may read from a device: bool, int or string.");
    for (name, kind) in &draft.attributes {
        let kind = match kind {
            AttributeType::Bool => "bool",
            AttributeType::Int => "int",
            AttributeType::String => "string",
        };
        out.text(name.as_str(), kind);
    }
    who(&mut out, draft);
    when(&mut out, draft);
    out.group("sampling", "The probability with which each device answers.");
    out.text("rate", &draft.sampling.rate.to_string());
    if !draft.sampling.cover.is_one() {
        out.text("cover", &draft.sampling.cover.to_string());
    }
    query(&mut out, &draft.query);
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

fn query(out: &mut Writer, query: &Query) {
    out.group("query", "What is measured; `fallback` counts where the mapping has no value.");
    match query {
        Query::Count { mapping, fallback } => {
            out.text("kind", "count");
            out.text("mapping", mapping);
            out.raw("fallback", fallback);
        }
        Query::Sum { max, mapping, fallback } => {
            out.text("kind", "sum");
            out.raw("max", max);
            out.text("mapping", mapping);
            out.raw("fallback", fallback);
        }
        Query::Histogram { buckets, labels, mapping, fallback } => {
            out.text("kind", "histogram");
            out.raw("buckets", buckets);
            if let Some(labels) = labels {
                let labels: Vec<_> = labels.iter().map(|label| quoted(label)).collect();
                out.raw("labels", format!("[{}]", labels.join(", ")));
            }
            out.text("mapping", mapping);
            out.raw("fallback", fallback);
        }
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

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}
