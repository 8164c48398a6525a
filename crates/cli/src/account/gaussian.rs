//! `sotto account gaussian` and `sotto account discrete-gaussian`: one noisy sum.

use anyhow::{Result, anyhow};
use clap::Args;
use sotto_dp::account::Accountant;
use sotto_dp::calibrate::{self, Target};
use sotto_dp::{Adjacency, Bracket, Count, Event, Shape, closed, discrete};

use super::flags::{
    AdjacencyName, CountName, Honest, ShapeName, at_least, delta, explain, non_negative,
    not_one_left_out, positive, product_up, quotient_down, whole,
};
use super::report::{Among, Detail, Report, View, precision};
use crate::output::WithHint;

#[derive(Debug, Args)]
#[command(after_help = "Give two of --sigma, --epsilon and --delta.\n\nExamples:\n  \
    sotto account gaussian --sigma 5.1 --delta 1e-8\n  \
    sotto account gaussian --epsilon 1 --delta 1e-8")]
pub(super) struct GaussianArgs {
    /// Standard deviation of the noise, in units of the sum.
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    sigma: Option<f64>,
    /// The privacy loss: probabilities change by a factor of e^epsilon at most.
    #[arg(long, value_name = "EPSILON", allow_negative_numbers = true)]
    epsilon: Option<f64>,
    /// The additive slack in that bound: roughly, the probability that it fails.
    #[arg(long, value_name = "DELTA", allow_negative_numbers = true)]
    delta: Option<f64>,
    /// The largest norm of one contribution, in the same units. Only sigma / sensitivity matters.
    #[arg(long, value_name = "NORM", default_value_t = 1.0, allow_negative_numbers = true)]
    sensitivity: f64,
    /// Which inputs are neighbours.
    #[arg(long, value_enum, default_value_t = AdjacencyName::AddRemove)]
    adjacency: AdjacencyName,
    /// Whether the number of devices is seen [default: hidden, where that matters].
    #[arg(long, value_enum)]
    count: Option<CountName>,
    /// The distance between two contributions, with --adjacency replace [default: vector].
    #[arg(long, value_enum)]
    shape: Option<ShapeName>,
    #[command(flatten)]
    honest: Honest,
}

impl GaussianArgs {
    pub(super) fn report(self) -> Result<Report> {
        let sensitivity = positive("--sensitivity", self.sensitivity)?;
        let honest = self.honest.fraction()?;
        let adjacency = Adjacency::from(self.adjacency);
        if self.shape.is_some() && adjacency != Adjacency::Replace {
            return Err(anyhow!("--shape has no meaning with --adjacency {adjacency}"))
                .hint("leave it out, or give --adjacency replace");
        }
        let (count, count_note) = view(self.count, adjacency)?;
        let shape = self.shape.map_or(Shape::default(), Shape::from);
        let distance = product_up(sensitivity, shape.distance(adjacency));
        // The noise of the honest devices, in units of the distance between neighbours.
        let multiplier = |sigma: f64| quotient_down(self.honest.noise(sigma), distance);
        let (computed, sigma, epsilon, delta) = match (self.sigma, self.epsilon, self.delta) {
            (Some(sigma), None, Some(at)) => {
                let (sigma, at) = (positive("--sigma", sigma)?, delta(at)?);
                let found = closed::gaussian_epsilon(multiplier(sigma), at).map_err(explain)?;
                (&["epsilon"], sigma, found.upper, at)
            }
            (Some(sigma), Some(epsilon), None) => {
                let (sigma, epsilon) =
                    (positive("--sigma", sigma)?, non_negative("--epsilon", epsilon)?);
                let found = closed::gaussian_delta(multiplier(sigma), epsilon).map_err(explain)?;
                (&["delta"], sigma, epsilon, found)
            }
            (None, Some(epsilon), Some(at)) => {
                let (epsilon, at) = (non_negative("--epsilon", epsilon)?, delta(at)?);
                let found = closed::gaussian_sigma(epsilon, at).map_err(explain)?;
                let sigma = self.honest.noise_of_all(product_up(found, distance));
                (&["sigma"], sigma, epsilon, at)
            }
            (sigma, epsilon, delta) => {
                let given = [
                    ("--epsilon", epsilon.is_some()),
                    ("--delta", delta.is_some()),
                    ("--sigma", sigma.is_some()),
                ];
                return Err(not_one_left_out(&given));
            }
        };
        let mut details = vec![Detail::number("sensitivity", sensitivity)];
        if adjacency == Adjacency::Replace {
            let name = if shape == Shape::OneHot { "one-hot" } else { "vector" };
            details.push(Detail::text("shape", name.into(), name));
        }
        let most = quotient_up(sigma * honest.sqrt(), distance);
        let found = ends(multiplier(sigma), most, delta);
        Ok(Report {
            epsilon,
            epsilon_lower: found.map(|found| found.lower.min(epsilon)),
            reached: found.filter(|_| computed == &["sigma"]).map(|found| found.upper.min(epsilon)),
            delta,
            sigma: Some(sigma),
            adjacency,
            among: Among::All,
            accountant: found.map_or("bound", precision),
            method: "analytic Gaussian".to_owned(),
            honest: Some(honest),
            count,
            computed,
            details,
            notes: self.honest.note("the noise").into_iter().chain(count_note).collect(),
            advice: None,
        })
    }
}

/// Both ends for noise between `least` and `most`.
fn ends(least: f64, most: f64, delta: f64) -> Option<Bracket> {
    let upper = closed::gaussian_epsilon(least, delta).ok()?.upper;
    let lower = closed::gaussian_epsilon(most, delta).ok()?.lower;
    Some(Bracket { lower, upper })
}

/// Whether the number of devices is seen, and a note about it. Where every device is present in any
/// case, the number reveals nothing.
fn view(given: Option<CountName>, adjacency: Adjacency) -> Result<(Option<View>, Option<String>)> {
    match (adjacency, given) {
        (Adjacency::AddRemove, Some(CountName::Seen)) => {
            Err(anyhow!("--count seen: the number of devices tells whether one of them is there"))
                .hint("if it is seen, use --adjacency replace, under which it tells nothing")
        }
        (Adjacency::AddRemove, _) => {
            let note =
                "The number of devices must be hidden: if it is seen, use --adjacency replace.";
            Ok((Some(View::Hidden), Some(note.to_owned())))
        }
        (_, given) => Ok((given.map(|count| View::from(Count::from(count))), None)),
    }
}

/// A quotient of rounded numbers, rounded up.
fn quotient_up(numerator: f64, denominator: f64) -> f64 {
    product_up(numerator / denominator, 1.0 + 8.0 * f64::EPSILON)
}

#[derive(Debug, Args)]
#[command(after_help = "Give two of --sigma, --epsilon and --delta.\n\nExample:\n  \
    sotto account discrete-gaussian --sigma 5.1 --delta 1e-8")]
pub(super) struct DiscreteGaussianArgs {
    /// The parameter of the noise (from 2 upwards, its standard deviation).
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    sigma: Option<f64>,
    /// The privacy loss: probabilities change by a factor of e^epsilon at most.
    #[arg(long, value_name = "EPSILON", allow_negative_numbers = true)]
    epsilon: Option<f64>,
    /// The additive slack in that bound: roughly, the probability that it fails.
    #[arg(long, value_name = "DELTA", allow_negative_numbers = true)]
    delta: Option<f64>,
    /// The largest contribution, up or down, in whole units.
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true)]
    #[arg(value_parser = whole)]
    sensitivity: u64,
    /// Which inputs are neighbours.
    #[arg(long, value_enum, default_value_t = AdjacencyName::AddRemove)]
    adjacency: AdjacencyName,
    /// Whether the number of devices is seen [default: hidden, where that matters].
    #[arg(long, value_enum)]
    count: Option<CountName>,
    #[command(flatten)]
    honest: Honest,
}

impl DiscreteGaussianArgs {
    pub(super) fn report(self) -> Result<Report> {
        let sensitivity = at_least("--sensitivity", self.sensitivity, 1)?;
        let honest = self.honest.fraction()?;
        if honest < 1.0 {
            let hint = "describe a distributed_discrete_gaussian for `sotto account compose`";
            return Err(anyhow!(
                "--honest: a part of discrete Gaussian noise is not a discrete Gaussian"
            ))
            .hint(hint);
        }
        let adjacency = Adjacency::from(self.adjacency);
        // From -sensitivity to sensitivity.
        let distance = match adjacency {
            Adjacency::Replace => sensitivity.saturating_mul(2),
            Adjacency::AddRemove | Adjacency::ZeroOut => sensitivity,
        };
        let (count, count_note) = view(self.count, adjacency)?;
        let (computed, sigma, epsilon, delta) = self.solve(distance)?;
        let found = discrete::epsilon(sigma, distance, delta).ok();
        Ok(Report {
            epsilon,
            epsilon_lower: found.map(|found| found.lower.min(epsilon)),
            reached: found.filter(|_| computed == ["sigma"]).map(|found| found.upper.min(epsilon)),
            delta,
            sigma: Some(sigma),
            adjacency,
            among: Among::All,
            accountant: found.map_or("bound", precision),
            method: "exact hockey stick of the discrete Gaussian".to_owned(),
            honest: Some(honest),
            count,
            computed,
            details: vec![Detail::whole("sensitivity", sensitivity)],
            notes: count_note.into_iter().collect(),
            advice: None,
        })
    }

    /// The parameter that was left out, and all three values.
    fn solve(&self, distance: u64) -> Result<(&'static [&'static str], f64, f64, f64)> {
        Ok(match (self.sigma, self.epsilon, self.delta) {
            (Some(sigma), None, Some(at)) => {
                let (sigma, at) = (positive("--sigma", sigma)?, delta(at)?);
                let found = discrete::epsilon(sigma, distance, at).map_err(explain)?;
                (&["epsilon"], sigma, found.upper, at)
            }
            (Some(sigma), Some(epsilon), None) => {
                let (sigma, epsilon) =
                    (positive("--sigma", sigma)?, non_negative("--epsilon", epsilon)?);
                let found = discrete::delta(sigma, distance, epsilon).map_err(explain)?;
                (&["delta"], sigma, epsilon, found)
            }
            (None, Some(epsilon), Some(at)) => {
                let target = Target {
                    epsilon: non_negative("--epsilon", epsilon)?,
                    delta: delta(at)?,
                    // The event contains the distance.
                    adjacency: Adjacency::AddRemove,
                    shape: Shape::default(),
                    accountant: Accountant::Best,
                };
                let make = |sigma: f64| Event::DiscreteGaussian { sigma, sensitivity: distance };
                (&["sigma"], calibrate::sigma(target, make).map_err(explain)?, epsilon, at)
            }
            (sigma, epsilon, delta) => {
                let given = [
                    ("--epsilon", epsilon.is_some()),
                    ("--delta", delta.is_some()),
                    ("--sigma", sigma.is_some()),
                ];
                return Err(not_one_left_out(&given));
            }
        })
    }
}
