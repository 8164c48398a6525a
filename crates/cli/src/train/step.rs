//! How the server moves the weights, as the command line says it.

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use sotto_learn::optimizer::Optimizer;

/// How fast a clip that follows a quantile moves.
const QUANTILE_RATE: f64 = 0.3;

/// Adam's learning rate in stories, and its other numbers.
const ADAM_RATE: f64 = 0.15;
const ADAM: (f64, f64, f64) = (0.9, 0.99, 1e-3);

/// What of the velocity stays, if nobody says otherwise.
const MOMENTUM: f64 = 0.8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A step in the direction of the mean.
    Sgd,
    /// SGD with a velocity.
    Momentum,
    /// Adam with 0.9, 0.99 and 0.001.
    Adam,
}

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct StepArgs {
    /// How the server moves the weights.
    #[arg(long, value_enum, value_name = "KIND", default_value = "sgd")]
    optimizer: Kind,
    /// With --optimizer momentum: how much of the velocity stays [default: 0.8]
    #[arg(long, value_name = "DECAY")]
    momentum: Option<f64>,
    /// The server's learning rate [default with --story: softmax 20 with digits and 60 with mnist,
    /// half with --quantile; mlp 7.5; two-labels 3; momentum multiplies these by 1 - decay; adam 0.15]
    #[arg(long, value_name = "RATE")]
    learning_rate: Option<f64>,
    /// The clip follows this quantile of the norms, for which devices vote.
    #[arg(long, value_name = "Q")]
    quantile: Option<f64>,
}

impl StepArgs {
    /// The optimizer. `usual` is a rate for SGD, if there is one.
    pub(super) fn optimizer(&self, usual: Option<f64>) -> Result<Optimizer> {
        ensure!(
            self.momentum.is_none() || self.optimizer == Kind::Momentum,
            "--momentum needs --optimizer momentum"
        );
        let decay = self.momentum.unwrap_or(MOMENTUM);
        let usual = usual.map(|sgd| match self.optimizer {
            Kind::Sgd => sgd,
            // In the long run a velocity is so many times a mean.
            Kind::Momentum => sgd * (1.0 - decay),
            Kind::Adam => ADAM_RATE,
        });
        let rate = self.learning_rate.or(usual);
        let rate = rate.context("a training of real devices needs --learning-rate")?;
        let (first_decay, second_decay, epsilon) = ADAM;
        let optimizer = match self.optimizer {
            Kind::Sgd => Optimizer::Sgd { rate },
            Kind::Momentum => Optimizer::Momentum { rate, decay },
            Kind::Adam => Optimizer::Adam { rate, first_decay, second_decay, epsilon },
        };
        optimizer.check()?;
        Ok(optimizer)
    }

    /// Which quantile the clip follows, and how fast, if devices vote.
    pub(super) fn quantile(&self) -> Option<(f64, f64)> {
        self.quantile.map(|quantile| (quantile, QUANTILE_RATE))
    }
}
