//! From a recipe to its DAP task, and to nothing else: two parties that hold the same recipe hold the same task.

use sotto_vdaf::VdafConfig;
use sotto_wire::recipe::{Query, Recipe, RecipeVdaf};
use sotto_wire::{
    Duration, Encode, Interval, TaskConfiguration, TaskExtension, TaskParameters, Time,
    TimePrecision, Url, VdafType, taskprov,
};

use crate::Task;

/// The VDAF that answers the recipe's query, with the parameters that we compute. An author's parameters are never
/// taken: a bad chunk length makes verification fifty times as dear.
pub fn derive_vdaf(query: &Query) -> VdafConfig {
    match query {
        Query::Count { .. } => VdafConfig::count(),
        Query::Sum { max, .. } => VdafConfig::sum(*max),
        Query::Histogram { buckets, .. } => VdafConfig::histogram(*buckets),
    }
}

/// The same, as a recipe states it.
pub fn recipe_vdaf(query: &Query) -> RecipeVdaf {
    match derive_vdaf(query) {
        VdafConfig::Prio3Histogram { length, chunk_length } => {
            RecipeVdaf::Prio3Histogram { length, chunk_length }
        }
        VdafConfig::Prio3Sum { max_measurement } => RecipeVdaf::Prio3Sum { max_measurement },
        _ => RecipeVdaf::Prio3Count,
    }
}

/// The DAP task of a recipe. Its `task_info` is the recipe's id, so that both HPKE AADs authenticate the whole
/// recipe. Taskprov, "Deriving the Task ID".
pub fn derive_task(recipe: &Recipe) -> Result<Task, String> {
    if recipe_vdaf(&recipe.query) != recipe.aggregation.vdaf {
        return Err("the VDAF is not the one that follows from the query".to_owned());
    }
    let vdaf = derive_vdaf(&recipe.query);
    let window_s = recipe.when.window_s;
    let precision = TimePrecision::from_seconds(window_s).map_err(|error| error.to_string())?;
    let start = Time::from_posix_seconds(recipe.when.opens, precision);
    let windows = recipe.when.closes.saturating_sub(recipe.when.opens) / window_s.max(1);
    let interval =
        Interval::new(start, Duration::new(windows)).map_err(|error| error.to_string())?;
    let url = |text: &str| Url::new(text).map_err(|error| error.to_string());
    let configuration = TaskConfiguration::new(TaskParameters {
        task_info: recipe.id().as_bytes().to_vec(),
        leader_aggregator_endpoint: url(&recipe.parties.leader.url)?,
        helper_aggregator_endpoint: url(&recipe.parties.helper.url)?,
        time_precision: precision,
        min_batch_size: recipe.aggregation.min_batch,
        batch_mode: recipe.aggregation.batch_mode,
        vdaf_type: VdafType::new(vdaf.vdaf_type()),
        vdaf_configuration: vdaf.encode_configuration(),
        extensions: vec![TaskExtension::TaskInterval(interval)],
    })
    .map_err(|error| error.to_string())?;
    let id = taskprov::task_id(&configuration.to_bytes());
    Task::new(id, configuration).map_err(|error| error.to_string())
}
