//! From a recipe to its DAP task. It depends on nothing else, so two parties with the same recipe
//! have the same task.

use sotto_wire::recipe::{Recipe, When};
use sotto_wire::{
    Duration, Encode, Interval, TaskConfiguration, TaskExtension, TaskParameters, Time,
    TimePrecision, Url, VdafType, taskprov,
};

use super::mechanism::{derive_vdaf, mechanism, server_sigma, stated};
use crate::Task;

/// The DAP task of a recipe. Its `task_info` is the recipe's id, so that both HPKE AADs
/// authenticate the whole recipe. Taskprov, "Deriving the Task ID".
pub fn derive_task(recipe: &Recipe) -> Result<Task, String> {
    let vdaf = derive_vdaf(&mechanism(recipe).map_err(|error| error.to_string())?);
    let (follows, found) = (stated(&vdaf), &recipe.aggregation.vdaf);
    if follows != *found {
        return Err(format!(
            "the VDAF must be the one of the query, {follows:?}, and is {found:?}"
        ));
    }
    let When { opens, closes, window_s, .. } = recipe.answer_times();
    let precision = TimePrecision::from_seconds(window_s).map_err(|error| error.to_string())?;
    let start = Time::from_posix_seconds(opens, precision);
    let windows = closes.saturating_sub(opens) / window_s.max(1);
    let interval =
        Interval::new(start, Duration::new(windows)).map_err(|error| error.to_string())?;
    // A task extension, so that no aggregator can serve the task and leave the noise out.
    let sigma = server_sigma(recipe).map_err(|error| error.to_string())?;
    let noise = sigma.map(|sigma_micro| TaskExtension::ServerNoise { sigma_micro });
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
        extensions: [TaskExtension::TaskInterval(interval)].into_iter().chain(noise).collect(),
    })
    .map_err(|error| error.to_string())?;
    let id = taskprov::task_id(&configuration.to_bytes());
    Task::new(id, configuration).map_err(|error| error.to_string())
}
