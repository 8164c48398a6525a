//! The options of a new training: what devices train, or evaluate.

use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use sotto_wire::recipe::{Model, Training, parse_epsilon};

use super::{Kind, NewArgs};
use crate::output::WithHint;

#[derive(Debug, Default, Args)]
pub(in crate::recipe) struct TrainingArgs {
    /// Devices train this model: softmax:FEATURES:CLASSES, mlp:FEATURES:HIDDEN:CLASSES, or one that
    /// their application knows, NAME:WEIGHTS. The query is the sum of their updates.
    #[arg(long = "training", help_heading = "Training", value_name = "MODEL", requires = "rounds", requires = "models", value_parser = parse_model)]
    model: Option<Model>,
    /// Where devices read the models of rounds: the URL of a folder of static files.
    #[arg(long, help_heading = "Training", value_name = "URL", requires = "model")]
    models: Option<String>,
    /// How many steps of gradient descent a device makes in a round [default: 1]
    #[arg(long, help_heading = "Training", value_name = "N", requires = "model")]
    steps: Option<u32>,
    /// How many examples a step uses at most [default: all of the device]
    #[arg(long, help_heading = "Training", value_name = "N", requires = "model")]
    batch: Option<u32>,
    /// What a device multiplies the mean gradient of a step by [default: 1]
    #[arg(long, help_heading = "Training", value_name = "RATE", requires = "model", value_parser = parse_epsilon)]
    learning_rate: Option<u64>,
    /// Devices vote on the clip with this weight, for `sotto train --quantile`.
    #[arg(long, help_heading = "Training", value_name = "WEIGHT", requires = "model", value_parser = parse_epsilon)]
    vote_weight: Option<u64>,
    /// Devices train nothing: they say how good the model is, for `sotto train --evaluation`. A larger
    /// loss than this one counts as this one.
    #[arg(
        long,
        help_heading = "Training",
        value_name = "LOSS",
        requires = "model",
        conflicts_with_all = ["steps", "batch", "learning_rate"],
        value_parser = parse_epsilon
    )]
    largest_loss: Option<u64>,
}

impl TrainingArgs {
    /// The training, if there is one.
    pub(super) fn training(&self) -> Option<Training> {
        let trains = self.largest_loss.is_none();
        Some(Training {
            model: self.model.clone()?,
            models: self.models.clone()?,
            steps: self.steps.unwrap_or(trains.into()),
            batch: self.batch,
            learning_rate_micro: self.learning_rate.unwrap_or(if trains { 1_000_000 } else { 0 }),
            vote_weight_micro: self.vote_weight,
            largest_loss_micro: self.largest_loss,
        })
    }
}

impl NewArgs {
    /// With the question that a training asks, where the author says nothing else.
    pub(super) fn with_training(mut self) -> Result<Self> {
        let Some(training) = self.training.training() else { return Ok(self) };
        let other = self.kind.filter(|kind| !matches!(kind, Kind::VectorSum | Kind::VectorMean));
        if let Some(name) = other.and_then(|kind| kind.to_possible_value()) {
            return Err(anyhow!("--training does not go with --kind {}", name.get_name()))
                .hint("leave --kind out, or take vector_sum or vector_mean");
        }
        let (asked, numbers) = (training.attribute(), training.answer_numbers());
        self.kind.get_or_insert(Kind::VectorSum);
        self.dimension.get_or_insert_with(|| numbers.to_string());
        self.mapping.get_or_insert_with(|| asked.to_owned());
        if !self.attribute.iter().any(|one| one.starts_with(&format!("{asked}:"))) {
            self.attribute.push(format!("{asked}:vector({numbers})"));
        }
        Ok(self)
    }
}

fn parse_model(text: &str) -> Result<Model, String> {
    let number = |text: &str| {
        text.parse().map_err(|_| format!("{text:?} is not a whole number of at most {}", u32::MAX))
    };
    Ok(match text.split(':').collect::<Vec<_>>()[..] {
        ["softmax", features, classes] => {
            Model::Softmax { features: number(features)?, classes: number(classes)? }
        }
        ["mlp", features, hidden, classes] => Model::Mlp {
            features: number(features)?,
            hidden: number(hidden)?,
            classes: number(classes)?,
        },
        [name, weights] if !["softmax", "mlp"].contains(&name) => {
            Model::Custom { name: name.to_owned(), weights: number(weights)? }
        }
        _ => return Err("write it like softmax:65:10, mlp:65:16:10 or own-model:1000".to_owned()),
    })
}
