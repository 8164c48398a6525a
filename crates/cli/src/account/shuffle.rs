//! `sotto account shuffle`: randomized reports in random order.

use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use sotto_dp::account::{Accountant, Answer, Question};
use sotto_dp::calibrate::{self, Target};
use sotto_dp::number::{down, exact, up};
use sotto_dp::{Adjacency, Event, Shape, shuffle};

use super::flags::{
    Guarantee, Honest, at_least, explain, not_one_left_out, only_replace, positive, whole,
};
use super::report::{Among, Detail, Report, precision};
use crate::output::WithHint;
use crate::vocabulary::Epsilon;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mechanism {
    /// Any local randomizer, by its epsilon under replacement.
    Generic,
    /// k-ary randomized response.
    Krr,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Give all but one of --epsilon0, --n, --epsilon and --delta.\n\nExamples:\n  \
    sotto account shuffle --epsilon0 4 --n 10000 --delta 1e-10\n  \
    sotto account shuffle --epsilon 0.5 --n 10000 --delta 1e-10\n\n\
    --epsilon0 is the local epsilon under replacement. RAPPOR and projective geometry response are \
    described by deletion, which can be half of it: describe them as events (sotto account compose)."
)]
pub(super) struct ShuffleArgs {
    /// The epsilon of one report, under replacement.
    #[arg(long, value_name = "EPSILON", allow_negative_numbers = true)]
    epsilon0: Option<f64>,
    /// The number of reports, including the device's own.
    #[arg(long, value_name = "N", value_parser = whole, allow_negative_numbers = true)]
    n: Option<u64>,
    #[command(flatten)]
    guarantee: Guarantee,
    /// What the devices do with their values.
    #[arg(long, value_enum, default_value_t = Mechanism::Generic)]
    mechanism: Mechanism,
    /// Number of symbols, with --mechanism krr.
    #[arg(long, value_name = "K", value_parser = whole, allow_negative_numbers = true)]
    k: Option<u64>,
    /// Which inputs are neighbours. Shuffling supports only replacement.
    #[arg(long, value_parser = only_replace(), default_value = "replace")]
    adjacency: Adjacency,
    #[command(flatten)]
    honest: Honest,
}

/// All four parameters.
struct Solved {
    computed: &'static [&'static str],
    epsilon0: f64,
    n: u64,
    epsilon: Option<f64>,
    delta: f64,
}

impl ShuffleArgs {
    pub(super) fn report(self) -> Result<Report> {
        let honest = self.honest.fraction()?;
        if self.adjacency != Adjacency::Replace {
            return Err(anyhow!(
                "--adjacency {}: the number of reports is known, so none can be missing",
                self.adjacency
            ))
            .hint("leave it out: shuffling is accounted under replacement");
        }
        let symbols = self.symbols()?;
        let solved = self.solve(symbols)?;
        let event = self.event(symbols, solved.epsilon0, solved.n);
        // A delta of 1 needs no computation.
        let at = solved.delta.min(1.0 - f64::EPSILON);
        let answer = question(&event).epsilon(at).map_err(explain)?;
        let Answer { epsilon: found, method, .. } = answer;
        let epsilon = solved.epsilon.unwrap_or(found.upper);
        let epsilon0 = Detail::text(
            "epsilon0",
            solved.epsilon0.into(),
            if solved.computed == ["epsilon0"] {
                down(solved.epsilon0)
            } else {
                exact(solved.epsilon0)
            },
        );
        let mut details = vec![epsilon0, Detail::whole("n", solved.n)];
        details.extend(symbols.map(|k| Detail::whole("k", k)));
        let name = if symbols.is_some() { "krr" } else { "generic" };
        details.push(Detail::text("mechanism", name.into(), name));
        let crowd = self.honest.crowd(solved.n);
        if crowd < solved.n {
            details.push(Detail::whole("honest_crowd", crowd));
        }
        details.extend(closed_form(solved.epsilon0, crowd, solved.delta));
        let calibrated = solved.computed == ["epsilon0"] || solved.computed == ["n"];
        let crowd = format!("the crowd, {} of {},", crowd, solved.n);
        Ok(Report {
            epsilon,
            epsilon_lower: Some(found.lower.min(epsilon)),
            reached: calibrated.then(|| found.upper.min(epsilon)),
            delta: solved.delta,
            sigma: None,
            adjacency: Adjacency::Replace,
            among: Among::All,
            accountant: precision(found),
            method: method.to_owned(),
            honest: Some(honest),
            count: None,
            computed: solved.computed,
            details,
            notes: self.honest.note(&crowd).into_iter().collect(),
            advice: None,
        })
    }

    /// `--k`, which is required or forbidden depending on the mechanism.
    fn symbols(&self) -> Result<Option<u64>> {
        match (self.mechanism, self.k) {
            (Mechanism::Krr, Some(k)) => at_least("--k", k, 2).map(Some),
            (Mechanism::Krr, None) => Err(anyhow!("--mechanism krr needs --k"))
                .hint("give the number of symbols to choose from"),
            (Mechanism::Generic, Some(_)) => {
                Err(anyhow!("--k has no meaning with --mechanism generic"))
                    .hint("give --mechanism krr")
            }
            (Mechanism::Generic, None) => Ok(None),
        }
    }

    fn event(&self, symbols: Option<u64>, epsilon0: f64, n: u64) -> Event {
        let local = match symbols {
            Some(k) => Event::RandomizedResponse { epsilon0, k },
            None => Event::PureDp { epsilon: epsilon0 },
        };
        Event::Shuffled { n: self.honest.crowd(n), of: Box::new(local) }
    }

    fn solve(&self, symbols: Option<u64>) -> Result<Solved> {
        let epsilon0 = self.epsilon0.map(|value| positive("--epsilon0", value)).transpose()?;
        let n = self.n.map(|value| at_least("--n", value, 1)).transpose()?;
        let (epsilon, delta) = self.guarantee.checked()?;
        let target = |epsilon: f64, delta: f64| Target {
            epsilon,
            delta,
            adjacency: Adjacency::Replace,
            shape: Shape::default(),
            accountant: Accountant::Best,
        };
        Ok(match (epsilon0, n, epsilon, delta) {
            (Some(epsilon0), Some(n), None, Some(delta)) => {
                Solved { computed: &["epsilon"], epsilon0, n, epsilon, delta }
            }
            (Some(epsilon0), Some(n), Some(at), None) => {
                let crowd = self.honest.crowd(n);
                let delta = match symbols {
                    Some(k) => shuffle::krr_delta(epsilon0, k, crowd, at),
                    None => shuffle::generic_delta(epsilon0, crowd, at),
                };
                // A probability too small for a floating-point number is still not 0.
                let delta = delta.max(f64::MIN_POSITIVE);
                Solved { computed: &["delta"], epsilon0, n, epsilon, delta }
            }
            (None, Some(n), Some(at), Some(delta)) => {
                let make = |epsilon0: f64| self.event(symbols, epsilon0, n);
                let epsilon0 = calibrate::epsilon0(target(at, delta), make).map_err(explain)?;
                Solved { computed: &["epsilon0"], epsilon0, n, epsilon, delta }
            }
            (Some(epsilon0), None, Some(at), Some(delta)) => {
                let make = |n: u64| self.event(symbols, epsilon0, n);
                let n = calibrate::crowd(target(at, delta), make).map_err(explain)?;
                Solved { computed: &["n"], epsilon0, n, epsilon, delta }
            }
            _ => {
                let given = [
                    ("--epsilon", epsilon.is_some()),
                    ("--delta", delta.is_some()),
                    ("--epsilon0", epsilon0.is_some()),
                    ("--n", n.is_some()),
                ];
                return Err(not_one_left_out(&given));
            }
        })
    }
}

fn question(event: &Event) -> Question<'_> {
    let (adjacency, shape, accountant) = (Adjacency::Replace, Shape::default(), Accountant::Best);
    Question { event, adjacency, shape, accountant }
}

/// The closed form, whether it is valid, and why not. It holds for every mechanism, but not for
/// every number of reports.
fn closed_form(epsilon0: f64, n: u64, delta: f64) -> [Detail; 3] {
    const NAMES: [&str; 3] = ["closed_form", "closed_form_valid", "closed_form_reason"];
    let (epsilon, reason, text) = match shuffle::closed_form_epsilon(epsilon0, n, delta) {
        Ok(epsilon) => (epsilon, Value::Null, up(epsilon)),
        Err(_) => {
            let largest = (n as f64 / (8.0 * (2.0 / delta).ln()) - 1.0).ln();
            let reason = if largest > 0.0 {
                format!("needs epsilon0 <= ln(n / (8 ln(2/delta)) - 1) = {}", down(largest))
            } else {
                format!("needs n >= 16 ln(2/delta) = {}", up(16.0 * (2.0 / delta).ln()))
            };
            (f64::INFINITY, reason.clone().into(), format!("not valid: {reason}"))
        }
    };
    [
        Detail::text(NAMES[0], json!(Epsilon(epsilon)), text),
        Detail::silent(NAMES[1], reason.is_null().into()),
        Detail::silent(NAMES[2], reason),
    ]
}
