//! `sotto account gaussian` and `sotto account discrete-gaussian`: one noisy sum.

use anyhow::{Result, anyhow};
use clap::Args;
use sotto_dp::account::Accountant;
use sotto_dp::calibrate::{self, Target};
use sotto_dp::{Adjacency, Bracket, Count, Error, Event, Shape, closed, discrete};

use super::flags::{
    Guarantee, Honest, adjacency, at_least, count, explain, not_one_left_out, positive, product_up,
    quotient_down, shape, shape_name, whole,
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
    #[command(flatten)]
    guarantee: Guarantee,
    /// The largest norm of one contribution, in the same units. Only sigma / sensitivity matters.
    #[arg(long, value_name = "NORM", default_value_t = 1.0, allow_negative_numbers = true)]
    sensitivity: f64,
    /// Which inputs are neighbours.
    #[arg(long, value_parser = adjacency(), default_value = "add-remove")]
    adjacency: Adjacency,
    /// Whether the number of devices is seen [default: hidden, where that matters].
    #[arg(long, value_parser = count())]
    count: Option<Count>,
    /// The distance between two contributions, with --adjacency replace [default: vector].
    #[arg(long, value_parser = shape())]
    shape: Option<Shape>,
    #[command(flatten)]
    honest: Honest,
}

impl GaussianArgs {
    pub(super) fn report(self) -> Result<Report> {
        let sensitivity = positive("--sensitivity", self.sensitivity)?;
        let honest = self.honest.fraction()?;
        let adjacency = self.adjacency;
        if self.shape.is_some() && adjacency != Adjacency::Replace {
            return Err(anyhow!("--shape has no meaning with --adjacency {adjacency}"))
                .hint("leave it out, or give --adjacency replace");
        }
        let (count, count_note) = view(self.count, adjacency)?;
        let shape = self.shape.unwrap_or_default();
        let distance = product_up(sensitivity, shape.distance(adjacency));
        // The noise of the honest devices, in units of the distance between neighbours.
        let multiplier = |sigma: f64| quotient_down(self.honest.noise(sigma), distance);
        let Solved { computed, sigma, epsilon, delta } = solve(
            (self.sigma, self.guarantee),
            |sigma, delta| closed::gaussian_epsilon(multiplier(sigma), delta),
            |sigma, epsilon| closed::gaussian_delta(multiplier(sigma), epsilon),
            |epsilon, delta| {
                let found = closed::gaussian_sigma(epsilon, delta)?;
                Ok(self.honest.noise_of_all(product_up(found, distance)))
            },
        )?;
        let mut details = vec![Detail::number("sensitivity", sensitivity)];
        if adjacency == Adjacency::Replace {
            let name = shape_name(shape);
            details.push(Detail::text("shape", name.into(), name));
        }
        let most = quotient_up(sigma * honest.sqrt(), distance);
        let found = ends(multiplier(sigma), most, delta);
        Ok(Report {
            epsilon,
            epsilon_lower: found.map(|found| found.lower.min(epsilon)),
            reached: found.filter(|_| computed == ["sigma"]).map(|found| found.upper.min(epsilon)),
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

/// The parameter that was left out, and the values of all three.
struct Solved {
    computed: &'static [&'static str],
    sigma: f64,
    epsilon: f64,
    delta: f64,
}

/// Computes the one of sigma, epsilon and delta that was left out from the other two.
fn solve(
    (sigma, guarantee): (Option<f64>, Guarantee),
    epsilon_of: impl Fn(f64, f64) -> Result<Bracket, Error>,
    delta_of: impl Fn(f64, f64) -> Result<f64, Error>,
    sigma_of: impl Fn(f64, f64) -> Result<f64, Error>,
) -> Result<Solved> {
    let sigma = sigma.map(|value| positive("--sigma", value)).transpose()?;
    Ok(match (sigma, guarantee.checked()?) {
        (Some(sigma), (None, Some(delta))) => {
            let epsilon = epsilon_of(sigma, delta).map_err(explain)?.upper;
            Solved { computed: &["epsilon"], sigma, epsilon, delta }
        }
        (Some(sigma), (Some(epsilon), None)) => {
            let delta = delta_of(sigma, epsilon).map_err(explain)?;
            Solved { computed: &["delta"], sigma, epsilon, delta }
        }
        (None, (Some(epsilon), Some(delta))) => {
            let sigma = sigma_of(epsilon, delta).map_err(explain)?;
            Solved { computed: &["sigma"], sigma, epsilon, delta }
        }
        (sigma, (epsilon, delta)) => {
            return Err(not_one_left_out(&[
                ("--epsilon", epsilon.is_some()),
                ("--delta", delta.is_some()),
                ("--sigma", sigma.is_some()),
            ]));
        }
    })
}

/// Both ends for noise between `least` and `most`.
fn ends(least: f64, most: f64, delta: f64) -> Option<Bracket> {
    let upper = closed::gaussian_epsilon(least, delta).ok()?.upper;
    let lower = closed::gaussian_epsilon(most, delta).ok()?.lower;
    Some(Bracket { lower, upper })
}

/// Whether the number of devices is seen, and a note about it. Where every device is present in any
/// case, the number reveals nothing.
fn view(given: Option<Count>, adjacency: Adjacency) -> Result<(Option<View>, Option<String>)> {
    match (adjacency, given) {
        (Adjacency::AddRemove, Some(Count::Seen)) => {
            Err(anyhow!("--count seen: the number of devices tells whether one of them is there"))
                .hint("if it is seen, use --adjacency replace, under which it tells nothing")
        }
        (Adjacency::AddRemove, _) => {
            let note =
                "The number of devices must be hidden: if it is seen, use --adjacency replace.";
            Ok((Some(View::Hidden), Some(note.to_owned())))
        }
        (_, given) => Ok((given.map(View::from), None)),
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
    #[command(flatten)]
    guarantee: Guarantee,
    /// The largest contribution, up or down, in whole units.
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true)]
    #[arg(value_parser = whole)]
    sensitivity: u64,
    /// Which inputs are neighbours.
    #[arg(long, value_parser = adjacency(), default_value = "add-remove")]
    adjacency: Adjacency,
    /// Whether the number of devices is seen [default: hidden, where that matters].
    #[arg(long, value_parser = count())]
    count: Option<Count>,
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
        let adjacency = self.adjacency;
        // From -sensitivity to sensitivity.
        let distance = match adjacency {
            Adjacency::Replace => sensitivity.saturating_mul(2),
            Adjacency::AddRemove | Adjacency::ZeroOut => sensitivity,
        };
        let (count, count_note) = view(self.count, adjacency)?;
        let target = |epsilon, delta| Target {
            epsilon,
            delta,
            // The event contains the distance.
            adjacency: Adjacency::AddRemove,
            shape: Shape::default(),
            accountant: Accountant::Best,
        };
        let make = |sigma: f64| Event::DiscreteGaussian { sigma, sensitivity: distance };
        let Solved { computed, sigma, epsilon, delta } = solve(
            (self.sigma, self.guarantee),
            |sigma, delta| discrete::epsilon(sigma, distance, delta),
            |sigma, epsilon| discrete::delta(sigma, distance, epsilon),
            |epsilon, delta| calibrate::sigma(target(epsilon, delta), make),
        )?;
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
}
