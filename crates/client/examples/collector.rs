//! Collects the answers to a recipe: `collector RECIPE KEY-FILE TOKEN`. The key is 32 raw bytes.
#![allow(clippy::print_stdout)]

use std::{env, error::Error, fs, sync::Arc, time};

use sotto_client::{AuthToken, Collector, HttpOptions, HttpTransport};
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::{Moment, recipe::derive_task};
use sotto_wire::{Duration, Entry, Interval, Query, recipe::KeySet};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [recipe, key, token] = &arguments[..] else { return Err("RECIPE KEY-FILE TOKEN".into()) };
    let entry = Entry::parse(&fs::read(recipe)?)?;
    let recipe = entry.recipe().ok_or("not a recipe")?;
    let config = KeySet::parse_config("collector", &recipe.parties.collector_hpke_config)?;
    let key = HpkeKeypair::from_parts(config, Secret::new(fs::read(key)?.as_slice().try_into()?))?;
    let (task, token) = (derive_task(recipe)?, AuthToken::Bearer(Secret::new(token.clone())));
    let when = recipe.answer_times();
    let [opens, closes] = [when.opens, when.closes].map(|at| task.time(Moment(at)));
    let length = Duration::new(closes.as_units() - opens.as_units());
    let query = Query::TimeInterval(Interval::new(opens, length)?);
    let http = Arc::new(HttpTransport::new(HttpOptions::default())?);
    let collector = Collector::new(task, key, token, http).with_taskprov();
    let mut rng = rand_core::UnwrapErr(getrandom::SysRng);
    let patience = time::Duration::from_secs(60);
    let batch = collector.collect(&query, patience, &mut |_| (), &mut rng)?.collection;
    println!("{} reports: {:?}", batch.report_count, batch.result.as_slice());
    Ok(())
}
