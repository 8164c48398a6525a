//! `sotto account sampled-gaussian`: noisy sums over secret random samples, as in private training.

use anyhow::{Result, anyhow};
use clap::Args;
use serde_json::{Map, json};
use sotto_dp::account::{Accountant, Question};
use sotto_dp::calibrate::{self, Target};
use sotto_dp::number::{down, exact, up};
use sotto_dp::{Adjacency, Count, Event, Shape};

use super::flags::{
    self, Guarantee, Honest, adjacency, at_least, count, counted, explain, not_one_left_out,
    parse_rate, positive, quotient_down, rate, shape, shape_name, whole,
};
use super::report::{Among, Detail, Report, View, accountant};
use crate::output::{Output, WithHint};
use crate::vocabulary::Epsilon;

#[derive(Debug, Args)]
#[command(after_help = "Give all but one of --rate, --steps, --sigma, --epsilon and --delta.\n\n\
    Examples:\n  \
    sotto account sampled-gaussian --rate 0.02 --steps 2500 --sigma 5.1 \\\n    \
    --delta 1e-8\n  \
    sotto account sampled-gaussian --rate 0.01 --steps 1 --sigma 0.7764 \\\n    \
    --delta 1e-6 --count seen --population 1e6 --shape one-hot --honest 0.5\n\n\
    Sotto's own servers see how many devices were sampled: for a guarantee against them, add \
    --count seen and --population, and --honest 0.5 as for every recipe.")]
pub(super) struct SampledGaussianArgs {
    /// The probability of being sampled in a step.
    #[arg(long, value_name = "Q", value_parser = parse_rate, allow_negative_numbers = true)]
    rate: Option<f64>,
    /// The number of sums, each over a fresh sample.
    #[arg(long, value_name = "T", value_parser = whole, allow_negative_numbers = true)]
    steps: Option<u64>,
    /// Standard deviation of the noise of each sum, in units of the sum.
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    sigma: Option<f64>,
    #[command(flatten)]
    guarantee: Guarantee,
    /// The largest norm of one contribution, in the same units. Only sigma / sensitivity matters.
    #[arg(long, value_name = "NORM", default_value_t = 1.0, allow_negative_numbers = true)]
    sensitivity: f64,
    /// The method of accounting.
    #[arg(long, value_parser = flags::accountant(), default_value = "best")]
    accountant: Accountant,
    /// Which inputs are neighbours.
    #[arg(long, value_parser = adjacency(), default_value = "add-remove")]
    adjacency: Adjacency,
    /// Whether the number of sampled devices is seen.
    #[arg(long, value_parser = count(), default_value = "hidden")]
    count: Count,
    /// The number of other devices to sample from.
    #[arg(long, value_name = "N", value_parser = whole, allow_negative_numbers = true)]
    population: Option<u64>,
    /// The distance between two contributions, where it matters [default: vector].
    #[arg(long, value_parser = shape())]
    shape: Option<Shape>,
    #[command(flatten)]
    honest: Honest,
}

/// The largest number of steps that is tried.
const MOST_STEPS: u64 = 1 << 39;

/// The situation, without rate, steps and noise.
#[derive(Clone, Copy)]
struct Plan {
    honest: Honest,
    sensitivity: f64,
    adjacency: Adjacency,
    accountant: Accountant,
    shape: Shape,
    /// The number of other honest devices, if the count is seen.
    seen: Option<u64>,
}

/// All five parameters.
#[derive(Clone, Copy)]
struct Solved {
    computed: &'static [&'static str],
    rate: f64,
    steps: u64,
    sigma: f64,
    /// As given.
    epsilon: Option<f64>,
    delta: f64,
}

impl Plan {
    fn event(self, rate: f64, steps: u64, sigma: f64) -> Event {
        let noise = self.honest.noise(sigma);
        let once = match self.seen {
            Some(population) => Event::SampledCountSeen {
                rate,
                population,
                dummy_rate: 0.0,
                sigma: quotient_down(noise, self.sensitivity),
                shape: self.shape,
            },
            None => {
                let of = Event::Gaussian { sigma: noise, sensitivity: self.sensitivity };
                Event::PoissonSampled { rate, of: Box::new(of) }
            }
        };
        Event::Repeated { times: steps, of: Box::new(once) }
    }

    fn target(self, epsilon: f64, delta: f64) -> Target {
        let Self { adjacency, shape, accountant, .. } = self;
        Target { epsilon, delta, adjacency, shape, accountant }
    }

    fn question(self, event: &Event) -> Question<'_> {
        let Self { adjacency, shape, accountant, .. } = self;
        Question { event, adjacency, shape, accountant }
    }

    /// Whether the target is met.
    fn holds(self, rate: f64, steps: u64, sigma: f64, (epsilon, delta): (f64, f64)) -> bool {
        let event = self.event(rate, steps, sigma);
        self.question(&event).epsilon_upper(delta).is_ok_and(|found| found <= epsilon)
    }
}

impl Solved {
    /// Whether the search for the number of steps ended before a limit was found.
    fn unlimited(self) -> bool {
        self.computed == ["steps"] && self.steps >= MOST_STEPS
    }
}

impl SampledGaussianArgs {
    pub(super) fn report(self, output: &Output) -> Result<Report> {
        let plan = self.plan()?;
        let solved = self.solve(plan)?;
        let event = plan.event(solved.rate, solved.steps, solved.sigma);
        // A delta of 1 needs no computation.
        let at = solved.delta.min(1.0 - f64::EPSILON);
        let answer = plan.question(&event).epsilon(at).map_err(explain)?;
        let epsilon = solved.epsilon.unwrap_or(answer.epsilon.upper);
        let mut details = self.details(plan, solved);
        let mut notes: Vec<String> =
            plan.honest.note("the noise and the crowd").into_iter().collect();
        if plan.seen.is_none() {
            notes.push(
                "Nobody may see how many were sampled: this is the paper's model.".to_owned(),
            );
            if let Some(population) = self.population {
                let (detail, note) = self.if_seen(plan, solved, population, output);
                details.push(detail);
                notes.push(note);
            }
        }
        if solved.unlimited() {
            notes.push("More steps may meet the target as well: they were not tried.".to_owned());
        }
        let calibrated = solved.computed != ["epsilon"] && solved.computed != ["delta"];
        Ok(Report {
            epsilon,
            epsilon_lower: Some(answer.epsilon.lower.min(epsilon)),
            reached: calibrated.then(|| answer.epsilon.upper.min(epsilon)),
            delta: solved.delta,
            sigma: Some(solved.sigma),
            adjacency: plan.adjacency,
            among: Among::Sampled,
            accountant: accountant(&answer),
            method: answer.method.to_owned(),
            honest: Some(plan.honest.fraction()?),
            count: Some(View::from(self.count)),
            computed: solved.computed,
            details,
            notes,
            advice: self.advice(plan),
        })
    }

    /// Advice: our own servers see more than the paper's model assumes.
    fn advice(&self, plan: Plan) -> Option<String> {
        if plan.seen.is_some() {
            return None;
        }
        let population = if self.population.is_some() { "" } else { " --population N" };
        let honest = match plan.honest.fraction() {
            Ok(all) if all >= 1.0 => ", and --honest 0.5 as for every recipe",
            _ => "",
        };
        Some(format!(
            "Sotto's own servers see the count: for them add --count seen{population}{honest}."
        ))
    }

    /// The flags that describe the situation, checked.
    fn plan(&self) -> Result<Plan> {
        self.honest.fraction()?;
        let adjacency = self.adjacency;
        let population =
            self.population.map(|value| at_least("--population", value, 1)).transpose()?;
        let seen = match (self.count, population) {
            (Count::Hidden, _) => None,
            (Count::Seen, Some(population)) => Some(self.others(population)?),
            (Count::Seen, None) => {
                return Err(anyhow!("--count seen needs --population"))
                    .hint("give the number of other devices to sample from");
            }
        };
        if self.shape.is_some() && population.is_none() && adjacency != Adjacency::Replace {
            return Err(anyhow!("--shape has no meaning while the count is hidden"))
                .hint("leave it out, or give --count seen and --population");
        }
        Ok(Plan {
            honest: self.honest,
            sensitivity: positive("--sensitivity", self.sensitivity)?,
            adjacency,
            accountant: self.accountant,
            shape: self.shape.unwrap_or_default(),
            seen,
        })
    }

    /// The honest part of the population.
    fn others(&self, population: u64) -> Result<u64> {
        match self.honest.others(population) {
            0 => Err(anyhow!("--population is {population}: with --honest, nobody is left of it")),
            others => Ok(others),
        }
    }

    fn solve(&self, plan: Plan) -> Result<Solved> {
        let q = self.rate.map(rate).transpose()?;
        let steps = self.steps.map(|value| at_least("--steps", value, 1)).transpose()?;
        let sigma = self.sigma.map(|value| positive("--sigma", value)).transpose()?;
        let (epsilon, delta) = self.guarantee.checked()?;
        Ok(match (q, steps, sigma, epsilon, delta) {
            (Some(rate), Some(steps), Some(sigma), None, Some(delta)) => {
                Solved { computed: &["epsilon"], rate, steps, sigma, epsilon, delta }
            }
            (Some(rate), Some(steps), Some(sigma), Some(at), None) => {
                let event = plan.event(rate, steps, sigma);
                let delta = plan.question(&event).delta(at).map_err(explain)?;
                Solved { computed: &["delta"], rate, steps, sigma, epsilon, delta }
            }
            (Some(rate), Some(steps), None, Some(at), Some(delta)) => {
                let make = |sigma: f64| plan.event(rate, steps, sigma);
                let sigma = calibrate::sigma(plan.target(at, delta), make).map_err(explain)?;
                Solved { computed: &["sigma"], rate, steps, sigma, epsilon, delta }
            }
            (None, Some(steps), Some(sigma), Some(at), Some(delta)) => {
                let make = |rate: f64| plan.event(rate, steps, sigma);
                let rate = calibrate::rate(plan.target(at, delta), make).map_err(explain)?;
                Solved { computed: &["rate"], rate, steps, sigma, epsilon, delta }
            }
            (Some(rate), None, Some(sigma), Some(at), Some(delta)) => {
                let make = |steps: u64| plan.event(rate, steps, sigma);
                let steps = match calibrate::times(plan.target(at, delta), make) {
                    // There is practically no limit.
                    Err(_) if plan.holds(rate, MOST_STEPS, sigma, (at, delta)) => MOST_STEPS,
                    found => found.map_err(explain)?,
                };
                Solved { computed: &["steps"], rate, steps, sigma, epsilon, delta }
            }
            _ => {
                let given = [
                    ("--epsilon", epsilon.is_some()),
                    ("--delta", delta.is_some()),
                    ("--sigma", sigma.is_some()),
                    ("--rate", q.is_some()),
                    ("--steps", steps.is_some()),
                ];
                return Err(not_one_left_out(&given));
            }
        })
    }

    fn details(&self, plan: Plan, solved: Solved) -> Vec<Detail> {
        let shown =
            if solved.computed == ["rate"] { down(solved.rate) } else { exact(solved.rate) };
        let unlimited = solved.unlimited();
        let least = if unlimited { "at least " } else { "" };
        let steps = format!("{least}{}", solved.steps);
        let mut details = vec![
            Detail::text("rate", solved.rate.into(), shown),
            Detail::text("steps", solved.steps.into(), steps),
            Detail::number("sensitivity", plan.sensitivity),
        ];
        if unlimited {
            details.push(Detail::silent("steps_at_least", true.into()));
        }
        if let Some(population) = self.population {
            let others = plan.honest.others(population);
            let honest =
                if others < population { format!(", {others} honest") } else { String::new() };
            let text = counted(population, "other") + &honest;
            details.push(Detail::text("population", population.into(), text));
            if others < population {
                details.push(Detail::silent("honest_population", others.into()));
            }
        }
        // With the count seen, one device in means another one out.
        if plan.seen.is_some() || plan.adjacency == Adjacency::Replace {
            details.push(Detail::text("shape", json!(plan.shape), shape_name(plan.shape)));
        }
        details
    }

    /// The cost if the count is seen, for the given shape or for both.
    fn if_seen(
        &self,
        plan: Plan,
        solved: Solved,
        population: u64,
        output: &Output,
    ) -> (Detail, String) {
        const NAME: &str = "count_seen";
        let shapes = self.shape.map_or(vec![Shape::OneHot, Shape::Vector], |shape| vec![shape]);
        let mut values = Map::new();
        let mut texts = Vec::new();
        for shape in shapes {
            let name = shape_name(shape);
            let answer = self.others(population).and_then(|others| {
                let plan = Plan { shape, seen: Some(others), accountant: Accountant::Best, ..plan };
                let event = plan.event(solved.rate, solved.steps, solved.sigma);
                plan.question(&event).epsilon_upper(solved.delta).map_err(explain)
            });
            match answer {
                Ok(epsilon) => {
                    values.insert(name.to_owned(), json!(Epsilon(epsilon)));
                    texts.push(format!("{} ({name})", up(epsilon)));
                }
                Err(error) => output.remark(format!("With the count seen: {error}.")),
            }
        }
        if texts.is_empty() {
            let note = "The cost if the count is seen cannot be computed here.";
            return (Detail::text(NAME, json!(null), "no answer"), note.to_owned());
        }
        let text = texts.join(", ");
        let note = format!(
            "Aggregators do see it: for them, among {}, epsilon is {text}.",
            counted(population, "other")
        );
        (Detail::text(NAME, values.into(), format!("epsilon {text}")), note)
    }
}
