//! The error for other epsilons, of every protection that fits.

use anyhow::Result;
use serde::Serialize;
use sotto_protocol::plan::{MOST_LOCAL_COMPARED_MICRO, Plan, Protection, Wish, central_error};
use sotto_wire::recipe::{Privacy, Recipe};

use super::expected::number;
use crate::recipe::new::planned::Planning;
use crate::recipe::words::query;
use crate::svg_chart::{Axis, Chart, Point, Scale, Series, svg};

/// Epsilons, in millionths.
const EPSILONS: [u64; 5] = [20_000, 100_000, 500_000, 1_000_000, 4_000_000];

/// One protection at one epsilon.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FrontierPoint {
    pub(super) mechanism: &'static str,
    pub(super) epsilon: f64,
    pub(super) stderr: f64,
    pub(super) noise_stderr: f64,
    /// What one trusted server would give at this epsilon.
    pub(super) central_error: f64,
    /// The paper's model of the same recipe.
    pub(super) paper_epsilon: f64,
}

/// All points, by protection.
pub(super) fn points(planning: &Planning<'_>) -> Result<Vec<FrontierPoint>> {
    let wish = Wish { most_local_micro: MOST_LOCAL_COMPARED_MICRO, ..planning.wish.clone() };
    // Nearly all of the time is judging, one protection at a time.
    let lines = std::thread::scope(|scope| {
        let lines = Protection::ALL.map(|one| {
            let wish = &wish;
            scope.spawn(move || wish.frontier(&[one], &EPSILONS))
        });
        lines.map(|line| line.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let mut found = Vec::new();
    for (protection, plans) in lines.into_iter().flatten() {
        for plan in plans {
            found.push(point(protection, &plan, wish.devices)?);
        }
    }
    Ok(found)
}

fn point(protection: Protection, plan: &Plan, devices: u64) -> Result<FrontierPoint> {
    Ok(FrontierPoint {
        mechanism: protection.kind(),
        epsilon: claimed(&plan.recipe),
        stderr: plan.errors.average.total,
        noise_stderr: plan.errors.average.noise,
        central_error: central_error(&plan.recipe, devices)?.unwrap_or(0.0),
        paper_epsilon: plan.judgement.paper_epsilon,
    })
}

/// The claim of a recipe.
pub(super) fn claimed(recipe: &Recipe) -> f64 {
    match recipe.privacy {
        Privacy::Claim { epsilon_micro, .. } => epsilon_micro as f64 / 1e6,
        Privacy::InsecureUnbounded => f64::INFINITY,
    }
}

/// The error against epsilon, as SVG.
pub(super) fn chart(planning: &Planning<'_>, points: &[FrontierPoint]) -> String {
    let wish = &planning.wish;
    let of = |kind: &str, name: &str, y: fn(&FrontierPoint) -> f64| {
        let of_kind = points.iter().filter(|point| point.mechanism == kind);
        let points: Vec<Point> = of_kind.map(|point| Point::new(point.epsilon, y(point))).collect();
        Series { name: name.to_owned(), points, ..Series::default() }
    };
    let mut series: Vec<Series> = Protection::ALL
        .iter()
        .map(|one| of(one.kind(), &one.kind().replace('_', " "), |point| point.noise_stderr))
        .collect();
    series.push(of(Protection::ServerGaussian.kind(), "the sample alone", |point| {
        (point.stderr * point.stderr - point.noise_stderr * point.noise_stderr).max(0.0).sqrt()
    }));
    series.push(of(Protection::ServerGaussian.kind(), "one trusted server", |point| {
        point.central_error
    }));
    series.retain(|one| !one.points.is_empty());
    let axis = |label: &str| Axis { label: label.to_owned(), scale: Scale::Log, ..Axis::default() };
    svg(&Chart {
        title: format!("{}: error against epsilon", query(&wish.recipe.query)),
        notes: vec![format!(
            "{} devices. Of an average bucket: the error from the noise alone, at the epsilon that a device \
             computes, whatever that of a randomizer alone is. The squares of it and of the error of the \
             sample add up.",
            number(wish.devices as f64)
        )],
        x: axis("epsilon (half of the devices honest, the count seen, the worst population)"),
        y: axis("standard error"),
        series,
    })
}
