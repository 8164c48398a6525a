//! Our events as named tuples of `dp-accounting`.

use anyhow::{Result, anyhow};
use serde_json::{Map, Value, json};
use sotto_dp::Event;

use super::{CLASSES, MODULE, ROUNDING};
use crate::output::hinted;

/// The event as the library's named tuple, or why there is none.
pub(in crate::account::compose) fn write(event: &Event, path: &str) -> Result<Value> {
    let inner = |of: &Event| write(of, &format!("{path}.of"));
    Ok(match event {
        Event::Gaussian { sigma, sensitivity } => {
            tuple("GaussianDpEvent", [multiplier(*sigma, *sensitivity)])
        }
        Event::Laplace { scale, sensitivity } => {
            tuple("LaplaceDpEvent", [multiplier(*scale, *sensitivity)])
        }
        Event::RandomizedResponse { epsilon0, k } => {
            let noise = *k as f64 / (epsilon0.exp_m1() + *k as f64) * (1.0 - ROUNDING);
            tuple("RandomizedResponseDpEvent", [json!(noise), json!(k)])
        }
        Event::PureDp { epsilon } => tuple("EpsilonDeltaDpEvent", [json!(epsilon), json!(0.0)]),
        Event::ApproximateDp { delta, .. } if *delta >= 1.0 => tuple("NonPrivateDpEvent", []),
        Event::ApproximateDp { epsilon, delta } => {
            tuple("EpsilonDeltaDpEvent", [json!(epsilon), json!(delta)])
        }
        Event::Zcdp { rho } => tuple("ZCDpEvent", [json!(rho), json!(0.0)]),
        Event::PoissonSampled { rate, of } => {
            tuple("PoissonSampledDpEvent", [json!(rate), inner(of)?])
        }
        Event::SampledWithoutReplacement { population, sample, of } => {
            let values = [json!(population), json!(sample), inner(of)?];
            tuple("SampledWithoutReplacementDpEvent", values)
        }
        Event::TruncatedPoisson { rate, population, max_batch, sigma, .. } => {
            let size = population.saturating_add(1);
            let values = [json!(size), json!(rate), json!(max_batch), json!(sigma)];
            tuple("TruncatedSubsampledGaussianDpEvent", values)
        }
        Event::RandomAllocation {
            slots, selected, donation: false, population: None, of, ..
        } => tuple("RandomAllocationDpEvent", [inner(of)?, json!(selected), json!(slots)]),
        Event::Composed { of } if of.is_empty() => tuple("NoOpDpEvent", []),
        Event::Composed { of } => {
            let parts = of.iter().enumerate();
            let parts = parts.map(|(i, part)| write(part, &format!("{path}.of[{i}]")));
            tuple("ComposedDpEvent", [Value::Array(parts.collect::<Result<_>>()?)])
        }
        Event::Repeated { times, of } => tuple("SelfComposedDpEvent", [inner(of)?, json!(times)]),
        Event::DiscreteGaussian { .. }
        | Event::DistributedDiscreteGaussian { .. }
        | Event::ImportanceSampled { .. }
        | Event::SampledCountSeen { .. }
        | Event::CountOnly { .. }
        | Event::RandomAllocation { .. }
        | Event::Rappor { .. }
        | Event::ProjectiveGeometry { .. }
        | Event::Shuffled { .. }
        | Event::Summed { .. } => {
            let name = json!(event)["event"].as_str().unwrap_or_default().to_owned();
            let error = anyhow!("{path}: dp-accounting has no event like {name}");
            let hint = "write its (epsilon, delta) as `approximate_dp`: sotto account computes it";
            return Err(hinted(error, hint));
        }
    })
}

/// The noise in units of the sensitivity, never more than it is.
fn multiplier(noise: f64, sensitivity: f64) -> Value {
    json!(if sensitivity == 1.0 { noise } else { (noise / sensitivity).next_down() })
}

fn tuple<const N: usize>(name: &str, values: [Value; N]) -> Value {
    let mut fields = Map::new();
    fields.insert("module_name".to_owned(), MODULE.into());
    fields.insert("class_name".to_owned(), name.into());
    let known = CLASSES.iter().find(|(known, _)| *known == name).map_or(&[][..], |class| class.1);
    fields.extend(known.iter().zip(values).map(|((field, _), value)| ((*field).to_owned(), value)));
    Value::Object(fields)
}
