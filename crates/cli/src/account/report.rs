//! The answer: numbers, where they come from, and what they mean.

use anyhow::Result;
use serde_json::{Map, Value, json};
use sotto_dp::account::{Accountant, Answer};
use sotto_dp::{Adjacency, Count};

use super::number::{down, exact, up, up_short};
use crate::output::Output;

/// Above this, a factor of `e^epsilon` is written as a power.
const LARGE: f64 = 10.0;

/// What every command of `sotto account` answers.
#[derive(Debug)]
pub(super) struct Report {
    /// The guarantee.
    pub(super) epsilon: f64,
    /// No smaller epsilon is possible, if the method can tell.
    pub(super) epsilon_lower: Option<f64>,
    pub(super) delta: f64,
    pub(super) sigma: Option<f64>,
    pub(super) adjacency: Adjacency,
    /// Whose bound it is.
    pub(super) accountant: &'static str,
    /// The same in words.
    pub(super) method: String,
    /// The fraction of honest devices that was counted with.
    pub(super) honest: Option<f64>,
    /// Whether the number of devices is among what is seen.
    pub(super) count: Option<Count>,
    /// What was not given and is the answer: `epsilon`, `delta`, `sigma`, names of details.
    pub(super) computed: &'static [&'static str],
    /// The other parameters and answers.
    pub(super) details: Vec<Detail>,
    /// What else the sentence has to say.
    pub(super) notes: Vec<String>,
}

/// One more parameter or answer.
#[derive(Debug)]
pub(super) struct Detail {
    name: &'static str,
    value: Value,
    text: String,
}

impl Detail {
    /// As given.
    pub(super) fn number(name: &'static str, value: f64) -> Self {
        Self { name, value: json!(value), text: exact(value) }
    }

    /// A whole number.
    pub(super) fn whole(name: &'static str, value: u64) -> Self {
        Self { name, value: json!(value), text: value.to_string() }
    }

    /// Anything, with its own words.
    pub(super) fn text(name: &'static str, value: Value, text: impl Into<String>) -> Self {
        Self { name, value, text: text.into() }
    }
}

impl Report {
    /// Prints the report in the form that was asked for.
    pub(super) fn print(&self, output: &Output) -> Result<()> {
        if output.json() {
            return output.value(&self.to_json());
        }
        let rows = self.rows();
        let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        for (name, text) in rows {
            let text = if self.is_computed(name) { output.bold(&text) } else { text };
            let name = format!("{:<width$}", name.replace('_', " "));
            output.line(format!("{name}  {text}"))?;
        }
        output.line("")?;
        output.line(self.meaning())
    }

    fn to_json(&self) -> Value {
        let mut object = Map::new();
        let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
        put("epsilon", json!(self.epsilon));
        put("epsilon_lower", json!(self.epsilon_lower));
        put("delta", json!(self.delta));
        put("sigma", json!(self.sigma));
        put("adjacency", json!(self.adjacency));
        put("accountant", json!(self.accountant));
        put("method", json!(self.method));
        put("honest", json!(self.honest));
        put("count", json!(self.count));
        put("computed", json!(self.computed));
        for detail in &self.details {
            put(detail.name, detail.value.clone());
        }
        put("meaning", json!(self.meaning()));
        Value::Object(object)
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        // A given number is shown as given; a computed one never on the wrong side.
        let shown = |name: &str, value: f64| {
            if self.is_computed(name) { up(value) } else { exact(value) }
        };
        let mut rows = vec![("epsilon", shown("epsilon", self.epsilon))];
        if let Some(lower) = self.epsilon_lower.filter(|lower| *lower > 0.0) {
            // The target may lie above the upper end of what was found.
            rows.push(("between", format!("{} .. {} (certified)", down(lower), up(self.epsilon))));
        }
        rows.push(("delta", shown("delta", self.delta)));
        rows.extend(self.sigma.map(|sigma| ("sigma", shown("sigma", sigma))));
        rows.extend(self.details.iter().map(|detail| (detail.name, detail.text.clone())));
        rows.push(("adjacency", self.adjacency.to_string()));
        if let Some(honest) = self.honest {
            let all = if honest < 1.0 { "" } else { " (all)" };
            rows.push(("honest", exact(honest) + all));
        }
        rows.extend(self.count.map(|count| match count {
            Count::Hidden => ("count", "hidden".to_owned()),
            Count::Seen => ("count", "seen".to_owned()),
        }));
        rows.push(("method", self.method.clone()));
        rows
    }

    fn is_computed(&self, name: &str) -> bool {
        self.computed.contains(&name)
    }

    /// In plain words.
    fn meaning(&self) -> String {
        let what = match self.adjacency {
            Adjacency::AddRemove => "took part",
            Adjacency::Replace => "holds one value rather than another",
            Adjacency::ZeroOut => "contributed its value rather than nothing",
        };
        let delta = if self.is_computed("delta") { up(self.delta) } else { exact(self.delta) };
        let who = match self.count {
            Some(Count::Seen) => "Whoever sees the result and how many devices took part",
            _ => "Whoever sees the result",
        };
        let mut text = if self.epsilon.is_finite() {
            let factor = if self.epsilon > LARGE {
                format!("e^{} (e^epsilon), which protects hardly anybody", up(self.epsilon))
            } else {
                format!("{} (e^epsilon)", up_short(self.epsilon.exp()))
            };
            format!(
                "{who} can raise the odds that a given device {what} by at most a factor of \
                 {factor}, except with probability {delta}."
            )
        } else {
            format!("{who} may learn everything: nothing is promised at delta {delta}.")
        };
        for note in &self.notes {
            text.push(' ');
            text.push_str(note);
        }
        text
    }
}

/// How the accountant of an answer is called; `Best` stands for closed forms and exact sums.
pub(super) fn accountant(answer: &Answer) -> &'static str {
    match answer.accountant {
        Accountant::Rdp => "rdp",
        Accountant::Pld => "pld",
        Accountant::Best => "exact",
    }
}
