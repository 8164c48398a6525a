//! The rounds of a draft, in TOML.

use super::AuthoringError;
use super::fields::{Field, Fields};
use super::write::Writer;
use crate::recipe::{Discovery, Model, Participation, Round, Series, Training};
use crate::utc;

/// The series in the table `[series]`.
pub(super) fn read(field: Field) -> Result<Series, AuthoringError> {
    let mut fields = field.table()?;
    let rounds = fields.required("rounds")?.integer()?;
    let each = match fields.optional("participation") {
        None => true,
        Some(field) => field.choice(&[("each_round", true), ("donation", false)])?,
    };
    let participation = match each {
        true => Participation::EachRound {},
        false => Participation::Donation {},
    };
    let length_s = fields.optional("length").map(Field::length).transpose()?;
    let training = fields.optional("training").map(training).transpose()?;
    let discovery = fields.optional("discovery").map(discovery).transpose()?;
    let round = fields.optional("round").map(round).transpose()?;
    fields.finish()?;
    Ok(Series { rounds, participation, length_s, training, discovery, round })
}

fn discovery(field: Field) -> Result<Discovery, AuthoringError> {
    let mut fields = field.table()?;
    let lists = fields.required("lists")?.text()?;
    let list_len = fields.required("list_len")?.integer()?;
    fields.finish()?;
    Ok(Discovery { lists, list_len })
}

fn training(field: Field) -> Result<Training, AuthoringError> {
    let mut fields = field.table()?;
    let largest_loss_micro = fields.optional("largest_loss").map(Field::micro).transpose()?;
    // The rules of the format refuse what an evaluation does not have.
    let mut needed = |key| match largest_loss_micro {
        None => fields.required(key).map(Some),
        Some(_) => Ok(fields.optional(key)),
    };
    let (steps, learning_rate) = (needed("steps")?, needed("learning_rate")?);
    let training = Training {
        model: model(fields.required("model")?.table()?)?,
        models: fields.required("models")?.text()?,
        steps: steps.map(Field::integer).transpose()?.unwrap_or(0),
        batch: fields.optional("batch").map(Field::integer).transpose()?,
        learning_rate_micro: learning_rate.map(Field::micro).transpose()?.unwrap_or(0),
        vote_weight_micro: fields.optional("vote_weight").map(Field::micro).transpose()?,
        largest_loss_micro,
    };
    fields.finish()?;
    Ok(training)
}

fn model(mut fields: Fields) -> Result<Model, AuthoringError> {
    #[derive(Clone, Copy)]
    enum Kind {
        Softmax,
        Mlp,
        Custom,
    }
    let kinds = [("softmax", Kind::Softmax), ("mlp", Kind::Mlp), ("custom", Kind::Custom)];
    let model = match fields.required("kind")?.choice(&kinds)? {
        Kind::Softmax => Model::Softmax {
            features: fields.required("features")?.integer()?,
            classes: fields.required("classes")?.integer()?,
        },
        Kind::Mlp => Model::Mlp {
            features: fields.required("features")?.integer()?,
            hidden: fields.required("hidden")?.integer()?,
            classes: fields.required("classes")?.integer()?,
        },
        Kind::Custom => Model::Custom {
            name: fields.required("name")?.text()?,
            weights: fields.required("weights")?.integer()?,
        },
    };
    fields.finish()?;
    Ok(model)
}

fn round(field: Field) -> Result<Round, AuthoringError> {
    let mut fields = field.table()?;
    let index = fields.required("index")?.integer()?;
    let model = fields.optional("model").map(Field::parsed).transpose()?;
    fields.finish()?;
    Ok(Round { index, model })
}

/// Writes the table `[series]`.
pub(super) fn write(out: &mut Writer, series: &Series) {
    out.group("series", "The rounds, and in which of them a device takes part.");
    out.raw("rounds", series.rounds);
    match series.participation {
        Participation::EachRound {} => out.text("participation", "each_round"),
        Participation::Donation {} => out.text("participation", "donation"),
    }
    if let Some(length_s) = series.length_s {
        out.text("length", &utc::format_length(length_s));
    }
    if let Some(training) = &series.training {
        let says = match training.is_evaluation() {
            true => "Devices say how good the model is.",
            false => "How a device computes its update of the model.",
        };
        out.group("series.training", says);
        out.text("models", &training.models);
        match training.largest_loss_micro {
            Some(largest) => out.micro("largest_loss", largest),
            None => {
                out.raw("steps", training.steps);
                if let Some(batch) = training.batch {
                    out.raw("batch", batch);
                }
                out.micro("learning_rate", training.learning_rate_micro);
            }
        }
        if let Some(weight) = training.vote_weight_micro {
            out.micro("vote_weight", weight);
        }
        out.table("series.training.model");
        write_model(out, &training.model);
    }
    if let Some(discovery) = &series.discovery {
        out.group("series.discovery", "Words are looked for, in lists of candidates.");
        out.text("lists", &discovery.lists);
        out.raw("list_len", discovery.list_len);
    }
    if let Some(round) = &series.round {
        out.group("series.round", "Which round this is.");
        out.raw("index", round.index);
        if let Some(model) = &round.model {
            out.text("model", &model.to_string());
        }
    }
}

fn write_model(out: &mut Writer, model: &Model) {
    match model {
        Model::Softmax { features, classes } => {
            out.text("kind", "softmax");
            out.raw("features", features);
            out.raw("classes", classes);
        }
        Model::Mlp { features, hidden, classes } => {
            out.text("kind", "mlp");
            out.raw("features", features);
            out.raw("hidden", hidden);
            out.raw("classes", classes);
        }
        Model::Custom { name, weights } => {
            out.text("kind", "custom");
            out.text("name", name);
            out.raw("weights", weights);
        }
    }
}
