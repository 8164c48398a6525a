//! The answer: numbers, where they come from, and what they mean.

use anyhow::Result;
use serde_json::{Map, Value, json};
use sotto_dp::account::{Accountant, Answer};
use sotto_dp::number::{down, exact, up, up_short};
use sotto_dp::{Adjacency, Bracket, Count};

use crate::output::Output;
use crate::vocabulary::Epsilon;

/// Above this epsilon the sentence warns.
const LARGE: f64 = 10.0;

/// Two ends with a smaller relative distance are shown as one number.
const MEET: f64 = 1e-6;

/// If the target is missed by more than this fraction, the value reached is shown too.
const FAR: f64 = 1e-3;

/// The answer of every command of `sotto account`.
#[derive(Debug)]
pub(super) struct Report {
    /// The guarantee.
    pub(super) epsilon: f64,
    /// No smaller epsilon is possible. `None` if the method cannot tell.
    pub(super) epsilon_lower: Option<f64>,
    /// The epsilon that the computed parameter reaches, if `epsilon` is the target.
    pub(super) reached: Option<f64>,
    pub(super) delta: f64,
    pub(super) sigma: Option<f64>,
    pub(super) adjacency: Adjacency,
    pub(super) among: Among,
    /// The accountant whose bound it is.
    pub(super) accountant: &'static str,
    /// The same in words.
    pub(super) method: String,
    /// The fraction of devices that are assumed to be honest.
    pub(super) honest: Option<f64>,
    /// Whether the number of devices is seen.
    pub(super) count: Option<View>,
    /// The parameters that were computed: `epsilon`, `delta`, `sigma`, or names of details.
    pub(super) computed: &'static [&'static str],
    /// The other parameters and answers.
    pub(super) details: Vec<Detail>,
    /// More sentences for the explanation.
    pub(super) notes: Vec<String>,
    /// Advice on what to ask next, on a separate line.
    pub(super) advice: Option<String>,
}

/// The group of devices that the device belongs to, if it is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Among {
    /// The devices whose values are in the sum.
    All,
    /// The devices from which a part is sampled: a device may be present but not in the sum.
    Sampled,
    /// The devices that wait for a slot.
    Willing,
}

/// Whether the number of devices is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Hidden,
    Seen,
    /// Hidden for some of the releases, seen for others.
    Mixed,
}

impl From<Count> for View {
    fn from(count: Count) -> Self {
        match count {
            Count::Hidden => Self::Hidden,
            Count::Seen => Self::Seen,
        }
    }
}

impl View {
    fn name(self) -> &'static str {
        match self {
            Self::Hidden => "hidden",
            Self::Seen => "seen",
            Self::Mixed => "mixed",
        }
    }
}

/// One more parameter or answer.
#[derive(Debug)]
pub(super) struct Detail {
    name: &'static str,
    value: Value,
    /// The text for people; `None` if it is shown elsewhere.
    text: Option<String>,
}

impl Detail {
    /// As given.
    pub(super) fn number(name: &'static str, value: f64) -> Self {
        Self::text(name, json!(value), exact(value))
    }

    /// A whole number.
    pub(super) fn whole(name: &'static str, value: u64) -> Self {
        Self::text(name, json!(value), value.to_string())
    }

    /// Any value, with its own text.
    pub(super) fn text(name: &'static str, value: Value, text: impl Into<String>) -> Self {
        Self { name, value, text: Some(text.into()) }
    }

    /// For programs only.
    pub(super) fn silent(name: &'static str, value: Value) -> Self {
        Self { name, value, text: None }
    }
}

impl Report {
    /// Prints the report in the requested format.
    pub(super) fn print(&self, output: &Output) -> Result<()> {
        if output.json() {
            return output.value(&self.to_json());
        }
        let rows = self.rows();
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        for (name, text) in rows {
            let text = if self.is_computed(name) { output.bold(&text) } else { text };
            let name = format!("{:<width$}", name.replace('_', " "));
            output.entry(format!("{name}  "), text)?;
        }
        for text in std::iter::once(self.meaning()).chain(self.advice.clone()) {
            output.line("")?;
            output.prose(text)?;
        }
        Ok(())
    }

    fn to_json(&self) -> Value {
        let mut object = Map::new();
        let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
        put("epsilon", json!(Epsilon(self.epsilon)));
        put("epsilon_lower", json!(self.epsilon_lower.map(Epsilon)));
        if let Some(reached) = self.reached {
            put("epsilon_reached", json!(Epsilon(reached)));
        }
        put("delta", json!(self.delta));
        put("sigma", json!(self.sigma));
        put("adjacency", json!(self.adjacency));
        put("accountant", json!(self.accountant));
        put("method", json!(self.method));
        put("honest", json!(self.honest));
        put("count_view", json!(self.count.map(View::name)));
        put("computed", json!(self.computed));
        for detail in &self.details {
            put(detail.name, detail.value.clone());
        }
        put("meaning", json!(self.meaning()));
        Value::Object(object)
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        // A given number is shown as given. A computed one is rounded to the safe side.
        let shown = |name: &str, value: f64| {
            if self.is_computed(name) { finite(value, up) } else { exact(value) }
        };
        let mut rows = vec![("epsilon", shown("epsilon", self.epsilon))];
        let upper = self.reached.unwrap_or(self.epsilon);
        if upper < self.epsilon * (1.0 - FAR) {
            rows.push(("reached", format!("{} (epsilon)", up(upper))));
        }
        if let Some(lower) = self.epsilon_lower.filter(|lower| *lower > 0.0) {
            rows.push(("between", bracket(Bracket { lower, upper })));
        }
        rows.push(("delta", shown("delta", self.delta)));
        rows.extend(self.sigma.map(|sigma| ("sigma", shown("sigma", sigma))));
        let details = self.details.iter();
        rows.extend(details.filter_map(|detail| Some((detail.name, detail.text.clone()?))));
        rows.push(("adjacency", self.adjacency.to_string()));
        if let Some(honest) = self.honest {
            let all = if honest < 1.0 { "" } else { " (all)" };
            rows.push(("honest", exact(honest) + all));
        }
        rows.extend(self.count.map(|count| ("count", count.name().to_owned())));
        rows.push(("method", self.method.clone()));
        rows
    }

    fn is_computed(&self, name: &str) -> bool {
        self.computed.contains(&name)
    }

    /// Explains `P(S) <= e^epsilon Q(S) + delta`, for both orders of the neighbours, in plain
    /// words.
    fn meaning(&self) -> String {
        let neighbours = match (self.adjacency, self.among) {
            (Adjacency::AddRemove, Among::All) => {
                "with a given device as without it, and the other way round"
            }
            (Adjacency::AddRemove, Among::Sampled) => {
                "with a given device among those that may be sampled as without it, and the other way \
                 round, whether or not it was sampled"
            }
            (Adjacency::AddRemove, Among::Willing) => {
                "with a given device among the willing ones as without it, and the other way round, \
                 whether or not it found a slot"
            }
            (Adjacency::Replace, _) => "with one value of a given device as with another",
            (Adjacency::ZeroOut, _) => {
                "with the value of a given device as with the null value in its place, and the other \
                 way round"
            }
        };
        let delta = if self.is_computed("delta") { up(self.delta) } else { exact(self.delta) };
        let from = match self.count {
            Some(View::Seen) => "the result and the number of devices in it",
            Some(View::Mixed) => "the results, and from the number of devices where that is seen,",
            Some(View::Hidden) | None => "the result",
        };
        let mut text = if self.epsilon.is_finite() {
            format!(
                "Whatever is concluded from {from} is at most {} as likely {neighbours}, plus {delta} \
                 (delta).",
                factor(self.epsilon)
            )
        } else {
            format!("Nothing is promised at delta {delta}: the result may tell everything.")
        };
        if self.epsilon.is_finite() && self.epsilon > LARGE {
            text.push_str(" That protects hardly anybody.");
        }
        for note in &self.notes {
            text.push(' ');
            text.push_str(note);
        }
        text
    }
}

/// `2.78 times (e^epsilon)`.
fn factor(epsilon: f64) -> String {
    let factor = epsilon.exp();
    if epsilon <= LARGE {
        format!("{} times (e^epsilon)", up_short(factor))
    } else if factor.is_finite() {
        format!("{} times (e^{})", up_short(factor), up(epsilon))
    } else {
        format!("e^{} times (e^epsilon)", up(epsilon))
    }
}

/// Both ends, for people. A lower end of 0 counts as unknown.
pub(super) fn bracket(bound: Bracket) -> String {
    let upper = finite(bound.upper, up);
    if bound.lower > 0.0 {
        format!("{} .. {upper} (certified)", down(bound.lower))
    } else {
        format!("at most {upper} (no lower end known)")
    }
}

fn finite(value: f64, show: impl Fn(f64) -> String) -> String {
    if value == f64::INFINITY { "unbounded".to_owned() } else { show(value) }
}

/// The name of an answer's accountant.
pub(super) fn accountant(answer: &Answer) -> &'static str {
    match answer.accountant {
        Accountant::Rdp => "rdp",
        Accountant::Pld => "pld",
        Accountant::Best => precision(answer.epsilon),
    }
}

/// The name of a closed form or a direct sum: `exact` if the true value is known, else `bound`.
pub(super) fn precision(epsilon: Bracket) -> &'static str {
    let Bracket { lower, upper } = epsilon;
    if upper.is_finite() && upper - lower <= MEET * upper { "exact" } else { "bound" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinity_has_a_name() {
        let open = Bracket { lower: 0.5, upper: f64::INFINITY };
        assert_eq!(bracket(open), "0.5 .. unbounded (certified)");
        assert_eq!(precision(open), "bound");
        assert_eq!(
            bracket(Bracket { lower: 0.0, ..open }),
            "at most unbounded (no lower end known)"
        );
    }

    #[test]
    fn exact_is_said_only_where_the_ends_meet() {
        assert_eq!(precision(Bracket { lower: 1.0, upper: 1.000_000_5 }), "exact");
        assert_eq!(precision(Bracket { lower: 1.0, upper: 1.000_01 }), "bound");
        assert_eq!(precision(Bracket { lower: 0.0, upper: 0.0 }), "exact");
    }

    #[test]
    fn factors_are_numbers_as_long_as_there_are_any() {
        assert_eq!(factor(1.0), "2.72 times (e^epsilon)");
        assert_eq!(factor(28.4104), "2.19e12 times (e^28.4104)");
        assert_eq!(factor(1000.0), "e^1000 times (e^epsilon)");
    }
}
