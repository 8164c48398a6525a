//! From TOML to a draft.

use std::collections::BTreeMap;

use super::fields::{Field, Fields};
use super::{AuthoringError, PartiesDraft, RecipeDraft, noise, query, randomizer, series, tokens};
use crate::BatchMode;
use crate::recipe::{
    Accountant, Adjacency, Aggregator, AttributeName, AttributeType, FORMAT_VERSION, Privacy,
    Probability, RecipeVdaf, Sampling, Signer, Targeting, When, Who,
};

/// The draft in this TOML.
pub(super) fn draft(text: &str) -> Result<RecipeDraft, AuthoringError> {
    let mut document = Fields::document(text)?;
    if let Some(version) = document.optional("version") {
        let refusal = version.refused(format!("only version {FORMAT_VERSION} is known"));
        if version.integer::<u64>()? != FORMAT_VERSION {
            return Err(refusal);
        }
    }
    let name = document.required("name")?.text()?;
    let purpose = document.required("purpose")?.text()?;
    let author = document.optional("author").map(signer).transpose()?;
    let attributes = document.optional("attributes").map(attributes).transpose()?;
    let series = document.optional("series").map(series::read).transpose()?;
    let who = who(document.required("who")?)?;
    let when = when(document.required("when")?)?;
    let sampling = sampling(document.required("sampling")?)?;
    let query = query::read(document.required("query")?)?;
    let randomizer = randomizer::read(document.required("randomizer")?)?;
    let noise = document.optional("noise").map(noise::read).transpose()?;
    let aggregation = aggregation(document.required("aggregation")?)?;
    let (vdaf, min_batch, batch_mode) = aggregation;
    let rounds = series.as_ref().map_or(1, |series| series.rounds);
    let privacy = privacy(document.required("privacy")?, rounds)?;
    let parties = document.optional("parties").map(parties).transpose()?;
    document.finish()?;
    Ok(RecipeDraft {
        name,
        purpose,
        author,
        attributes: attributes.unwrap_or_default(),
        series,
        who,
        when,
        sampling,
        query,
        randomizer,
        noise,
        vdaf,
        min_batch,
        batch_mode,
        privacy,
        parties,
    })
}

fn signer(field: Field) -> Result<Signer, AuthoringError> {
    let mut fields = field.table()?;
    let signer =
        Signer { name: fields.required("name")?.parsed()?, key: fields.required("key")?.parsed()? };
    fields.finish()?;
    Ok(signer)
}

fn attributes(field: Field) -> Result<BTreeMap<AttributeName, AttributeType>, AuthoringError> {
    field
        .table()?
        .rest()
        .map(|(key, field)| {
            let name = key.parse().map_err(|error| field.refused(format!("{error}")))?;
            Ok((name, field.parsed()?))
        })
        .collect()
}

fn who(field: Field) -> Result<Who, AuthoringError> {
    let mut fields = field.table()?;
    let population = fields.required("population")?.integer()?;
    let targeting = fields.optional("targeting").map(targeting).transpose()?;
    fields.finish()?;
    Ok(Who { population, targeting })
}

fn targeting(field: Field) -> Result<Targeting, AuthoringError> {
    let mut fields = field.table()?;
    let predicate = fields.required("predicate")?.text()?;
    let certified = fields.required("certified")?.parsed()?;
    fields.finish()?;
    Ok(Targeting { predicate, certified })
}

fn when(field: Field) -> Result<When, AuthoringError> {
    let mut fields = field.table()?;
    let when = When {
        opens: fields.required("opens")?.moment()?,
        closes: fields.required("closes")?.moment()?,
        window_s: fields.required("window")?.length()?,
        max_window_s: fields.required("max_window")?.length()?,
    };
    fields.finish()?;
    Ok(when)
}

fn sampling(field: Field) -> Result<Sampling, AuthoringError> {
    let mut fields = field.table()?;
    let probability = |field: Option<Field>| field.map(Field::probability).transpose();
    let rate = probability(fields.optional("rate"))?;
    let (default_rate, other_rate) =
        (fields.optional("default_rate"), fields.optional("other_rate"));
    if let (Some(_), Some(both)) = (rate, default_rate.as_ref().or(other_rate.as_ref())) {
        return Err(both.refused("there is a rate for all devices already: keep one of the two"));
    }
    let (rate, default_rate) = match (rate, default_rate, other_rate) {
        (Some(rate), ..) => (rate, None),
        (None, Some(default), Some(other)) => (other.probability()?, Some(default.probability()?)),
        (None, Some(_), None) => return Err(fields.missing("other_rate")),
        (None, None, Some(_)) => return Err(fields.missing("default_rate")),
        (None, None, None) => return Err(fields.missing("rate")),
    };
    let dummy_rate = probability(fields.optional("dummy_rate"))?.unwrap_or(Probability::ZERO);
    let cover = probability(fields.optional("cover"))?.unwrap_or(Probability::ONE);
    fields.finish()?;
    Ok(Sampling { rate, default_rate, dummy_rate, cover })
}

fn aggregation(field: Field) -> Result<(Option<RecipeVdaf>, u64, BatchMode), AuthoringError> {
    let mut fields = field.table()?;
    let modes = [
        ("time_interval", BatchMode::TimeInterval),
        ("leader_selected", BatchMode::LeaderSelected),
    ];
    let min_batch = fields.required("min_batch")?.integer()?;
    let batch_mode = fields.required("batch_mode")?.choice(&modes)?;
    let vdaf = fields.optional("vdaf").map(vdaf).transpose()?;
    fields.finish()?;
    Ok((vdaf, min_batch, batch_mode))
}

fn vdaf(field: Field) -> Result<RecipeVdaf, AuthoringError> {
    let mut fields = field.table()?;
    // The parameters are read below; only the type matters here.
    let count = RecipeVdaf::Prio3Count;
    let sum = RecipeVdaf::Prio3Sum { max_measurement: 0 };
    let histogram = RecipeVdaf::Prio3Histogram { length: 0, chunk_length: 0 };
    let multihot = RecipeVdaf::Prio3MultihotCountVec { length: 0, chunk_length: 0, max_weight: 0 };
    let pine = RecipeVdaf::Pine64 {
        dimension: 0,
        norm_bound: 0,
        chunk_length: 0,
        chunk_length_norm_equality: 0,
    };
    let types = [
        ("Prio3Count", count),
        ("Prio3Sum", sum),
        ("Prio3Histogram", histogram),
        ("Prio3MultihotCountVec", multihot),
        ("Pine64", pine),
    ];
    let mut vdaf = fields.required("type")?.choice(&types)?;
    match &mut vdaf {
        RecipeVdaf::Prio3Count => {}
        RecipeVdaf::Prio3Sum { max_measurement } => {
            *max_measurement = fields.required("max_measurement")?.integer()?;
        }
        RecipeVdaf::Prio3Histogram { length, chunk_length } => {
            *length = fields.required("length")?.integer()?;
            *chunk_length = fields.required("chunk_length")?.integer()?;
        }
        RecipeVdaf::Prio3MultihotCountVec { length, chunk_length, max_weight } => {
            *length = fields.required("length")?.integer()?;
            *chunk_length = fields.required("chunk_length")?.integer()?;
            *max_weight = fields.required("max_weight")?.integer()?;
        }
        RecipeVdaf::Pine64 { dimension, norm_bound, chunk_length, chunk_length_norm_equality } => {
            *dimension = fields.required("dimension")?.integer()?;
            *norm_bound = fields.required("norm_bound")?.integer()?;
            *chunk_length = fields.required("chunk_length")?.integer()?;
            *chunk_length_norm_equality =
                fields.required("chunk_length_norm_equality")?.integer()?;
        }
    }
    fields.finish()?;
    Ok(vdaf)
}

fn privacy(field: Field, rounds: u64) -> Result<Privacy, AuthoringError> {
    let mut fields = field.table()?;
    let kinds = [("claim", true), ("insecure_unbounded", false)];
    let privacy = if fields.required("kind")?.choice(&kinds)? {
        let adjacencies = [("replace", Adjacency::Replace), ("add_remove", Adjacency::AddRemove)];
        Privacy::Claim {
            epsilon_micro: fields.required("epsilon")?.micro()?,
            delta: fields.required("delta")?.probability()?,
            adjacency: match fields.optional("adjacency") {
                Some(field) => field.choice(&adjacencies)?,
                None => Adjacency::Replace,
            },
            accountant: match fields.optional("accountant") {
                Some(field) => field.choice(&[("best", Accountant::Best)])?,
                None => Accountant::Best,
            },
            rounds: fields.optional("rounds").map_or(Ok(rounds), Field::integer)?,
        }
    } else {
        Privacy::InsecureUnbounded
    };
    fields.finish()?;
    Ok(privacy)
}

fn parties(field: Field) -> Result<PartiesDraft, AuthoringError> {
    let mut fields = field.table()?;
    let parties = PartiesDraft {
        leader: aggregator(fields.required("leader")?)?,
        helper: aggregator(fields.required("helper")?)?,
        collector_hpke_config: fields.required("collector_hpke_config")?.text()?,
        log: fields.required("log")?.text()?,
        tokens: tokens::read(fields.required("tokens")?)?,
    };
    fields.finish()?;
    Ok(parties)
}

fn aggregator(field: Field) -> Result<Aggregator, AuthoringError> {
    let mut fields = field.table()?;
    let operator = fields.required("operator")?.parsed()?;
    let url = fields.required("url")?.text()?;
    fields.finish()?;
    Ok(Aggregator { operator, url })
}
