//! The query of a draft, in TOML.

use super::AuthoringError;
use super::fields::{Field, Fields};
use super::write::{Writer, list, quoted};
use crate::recipe::{Compression, Probability, Query, VectorQuery};

/// The kinds of queries.
#[derive(Clone, Copy)]
enum Kind {
    Count,
    Sum,
    Mean,
    Histogram,
    Quantiles,
    MultiHistogram,
    SparseHistogram,
    Nearest,
    VectorSum,
    VectorMean,
}

const KINDS: [(&str, Kind); 10] = [
    ("count", Kind::Count),
    ("sum", Kind::Sum),
    ("mean", Kind::Mean),
    ("histogram", Kind::Histogram),
    ("quantiles", Kind::Quantiles),
    ("multi_histogram", Kind::MultiHistogram),
    ("sparse_histogram", Kind::SparseHistogram),
    ("nearest", Kind::Nearest),
    ("vector_sum", Kind::VectorSum),
    ("vector_mean", Kind::VectorMean),
];

/// The query in the table `[query]`.
pub(super) fn read(field: Field) -> Result<Query, AuthoringError> {
    let mut fields = field.table()?;
    let kind = fields.required("kind")?.choice(&KINDS)?;
    let mapping = fields.required("mapping")?.text()?;
    let query = match kind {
        Kind::Count => Query::Count { mapping, fallback: fields.required("fallback")?.boolean()? },
        Kind::Sum => {
            let fallback = fields.required("fallback")?;
            let max = fields.required("max")?.integer()?;
            Query::Sum { max, mapping, fallback: fallback.integer()? }
        }
        Kind::Mean => {
            let fallback = fields.required("fallback")?;
            let max = fields.required("max")?.integer()?;
            Query::Mean { max, mapping, fallback: fallback.integer()? }
        }
        Kind::Histogram => {
            let fallback = fields.required("fallback")?;
            let (buckets, labels) = buckets(&mut fields)?;
            Query::Histogram { buckets, labels, mapping, fallback: fallback.integer()? }
        }
        Kind::Quantiles => {
            let fallback = fields.required("fallback")?.signed()?;
            let boundaries = fields.required("boundaries")?.list(Field::signed)?;
            let quantiles = fields.optional("quantiles");
            let quantiles = quantiles.map(|field| field.list(Field::probability)).transpose()?;
            let quantiles = quantiles.unwrap_or_else(Query::quartiles);
            Query::Quantiles { boundaries, quantiles, mapping, fallback }
        }
        Kind::MultiHistogram => {
            let fallback = fields.required("fallback")?.list(Field::integer)?;
            let (buckets, labels) = buckets(&mut fields)?;
            let most = fields.required("most")?.integer()?;
            Query::MultiHistogram { buckets, labels, most, mapping, fallback }
        }
        Kind::SparseHistogram => {
            let default = fields.required("default")?.integer()?;
            let (buckets, labels) = buckets(&mut fields)?;
            Query::SparseHistogram { buckets, labels, mapping, default }
        }
        Kind::Nearest => {
            let candidates =
                fields.required("candidates")?.list(|field| field.list(Field::signed))?;
            let fraction_bits = fields.required("fraction_bits")?.integer()?;
            let labels = labels(&mut fields)?;
            let fallback = fields.required("fallback")?.integer()?;
            Query::Nearest { candidates, fraction_bits, labels, mapping, fallback }
        }
        Kind::VectorSum => Query::VectorSum(vectors(mapping, &mut fields)?),
        Kind::VectorMean => Query::VectorMean(vectors(mapping, &mut fields)?),
    };
    fields.finish()?;
    Ok(query)
}

fn vectors(mapping: String, fields: &mut Fields) -> Result<VectorQuery, AuthoringError> {
    let dimension = fields.required("dimension")?.integer()?;
    let clip_micro = fields.required("clip")?.micro()?;
    let usual = VectorQuery::usual_fraction_bits(dimension);
    let fraction_bits = fields.optional("fraction_bits").map_or(Ok(usual), Field::integer)?;
    let compression = fields.optional("compression").map(compression).transpose()?;
    Ok(VectorQuery { dimension, clip_micro, fraction_bits, mapping, compression })
}

fn compression(field: Field) -> Result<Compression, AuthoringError> {
    let mut fields = field.table()?;
    let dimension = fields.required("dimension")?.integer()?;
    let seed = fields.required("seed")?.integer()?;
    fields.finish()?;
    Ok(Compression { dimension, seed })
}

fn buckets(fields: &mut Fields) -> Result<(u32, Option<Vec<String>>), AuthoringError> {
    let buckets = fields.required("buckets")?.integer()?;
    Ok((buckets, labels(fields)?))
}

fn labels(fields: &mut Fields) -> Result<Option<Vec<String>>, AuthoringError> {
    fields.optional("labels").map(|field| field.list(Field::text)).transpose()
}

/// Writes the table `[query]`.
pub(super) fn write(out: &mut Writer, query: &Query) {
    let comment = match query {
        Query::SparseHistogram { .. } => {
            "What is measured; `default` also counts where the mapping has no value."
        }
        Query::Nearest { .. } => {
            "What is measured: the closest candidate; `fallback` counts where there is no vector."
        }
        Query::VectorSum(_) | Query::VectorMean(_) => {
            "What is measured: a vector of norm `clip` at most, zero where a device has none."
        }
        _ => "What is measured; `fallback` counts where the mapping has no value.",
    };
    out.group("query", comment);
    out.text("kind", query.kind());
    match query {
        Query::Sum { max, .. } | Query::Mean { max, .. } => out.raw("max", max),
        Query::Quantiles { boundaries, quantiles, .. } => {
            out.raw("boundaries", list(boundaries));
            if *quantiles != Query::quartiles() {
                let quoted: Vec<_> = quantiles.iter().map(Probability::to_string).collect();
                out.raw("quantiles", texts(&quoted));
            }
        }
        Query::Nearest { candidates, fraction_bits, .. } => {
            let lines: Vec<_> =
                candidates.iter().map(|one| format!("    {},\n", list(one))).collect();
            out.raw("candidates", format!("[\n{}]", lines.concat()));
            out.raw("fraction_bits", fraction_bits);
        }
        _ => {}
    }
    let implied = matches!(query, Query::Quantiles { .. } | Query::Nearest { .. });
    if let (Some(buckets), false) = (query.buckets(), implied) {
        out.raw("buckets", buckets);
    }
    if let Some(labels) = query.labels() {
        out.raw("labels", texts(labels));
    }
    if let Query::MultiHistogram { most, .. } = query {
        out.raw("most", most);
    }
    out.text("mapping", query.mapping());
    match query {
        Query::Count { fallback, .. } => out.raw("fallback", fallback),
        Query::Sum { fallback, .. } | Query::Mean { fallback, .. } => out.raw("fallback", fallback),
        Query::Histogram { fallback, .. } | Query::Nearest { fallback, .. } => {
            out.raw("fallback", fallback);
        }
        Query::Quantiles { fallback, .. } => out.raw("fallback", fallback),
        Query::MultiHistogram { fallback, .. } => out.raw("fallback", list(fallback)),
        Query::SparseHistogram { default, .. } => out.raw("default", default),
        Query::VectorSum(vectors) | Query::VectorMean(vectors) => {
            write_vectors(out, vectors);
        }
    }
}

fn write_vectors(out: &mut Writer, vectors: &VectorQuery) {
    out.raw("dimension", vectors.dimension);
    out.micro("clip", vectors.clip_micro);
    out.raw("fraction_bits", vectors.fraction_bits);
    if let Some(Compression { dimension, seed }) = vectors.compression {
        out.group("query.compression", "A random projection, the same for all devices.");
        out.raw("dimension", dimension);
        out.raw("seed", seed);
    }
}

fn texts(texts: &[String]) -> String {
    list(texts.iter().map(|text| quoted(text)))
}
