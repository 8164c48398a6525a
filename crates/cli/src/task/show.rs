//! `sotto task show`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use sotto_protocol::Moment;
use sotto_vdaf::{Sizes, VdafConfig};
use sotto_wire::recipe::Recipe;
use sotto_wire::size_class::SizeClass;
use sotto_wire::token::TOKEN_LEN;
use sotto_wire::{Role, taskprov};

use crate::output::{Outcome, Output};
use crate::task_file::{BatchModeName, TaskFields, TaskFile};
use crate::time_text::{show_moment, show_seconds};
use crate::vocabulary::Time;

/// The bytes of a report besides its shares: id, time, lengths, and the overhead of two HPKE
/// ciphertexts.
const REPORT_OVERHEAD: usize = 152;

/// What the hybrid suite adds to the two ciphertexts.
const HYBRID_BYTES: usize = 2_176;

/// What an encapsulated request has besides the report.
const REQUEST_BYTES: usize = 1_300;

const REDACTED: &str = "[redacted]";

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A task file of any party.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl ShowArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let (file, task) = TaskFile::read(&self.file)?;
        let derived = *task.id() == taskprov::task_id(task.encoded_configuration());
        if output.json() {
            output.value(&as_json(&file, derived))?;
            return Ok(Outcome::Yes);
        }
        let fields = &file.task;
        let row = |name: &str, value: &str| output.entry(format!("{name:<16} "), value);
        row("task", &file.task_id)?;
        row("party", file.party.name())?;
        row("leader", &fields.leader)?;
        row("helper", &fields.helper)?;
        row("vdaf", &vdaf_text(&serde_json::to_value(&fields.vdaf)?))?;
        row("batch mode", fields.batch_mode.name())?;
        row("min batch size", &fields.min_batch_size.to_string())?;
        row("time precision", &show_seconds(fields.time_precision))?;
        if let (Some(start), Some(end)) = (fields.task_start, fields.task_end) {
            let interval =
                format!("{} to {}", show_moment(Moment(start)), show_moment(Moment(end)));
            row("task interval", &interval)?;
        }
        row("task info", &fields.task_info)?;
        if !derived {
            row("note", "the task id is not derived from the configuration")?;
        }
        row("report", &format!("{} bytes", report_bytes(&task.vdaf().sizes())))?;
        match (&file.aggregator, &file.collector) {
            (None, None) => row("secrets", "none")?,
            _ => row("secrets", REDACTED)?,
        }
        Ok(Outcome::Yes)
    }
}

/// The length of a report of a recipe: sealed with the hybrid suite, which devices require by default,
/// and with a token for each aggregator that checks one.
pub(crate) fn recipe_report_bytes(recipe: &Recipe, sizes: &Sizes) -> usize {
    let checks_token = |role: &Role| recipe.parties.tokens.key(*role).is_some();
    let tokens = [Role::Leader, Role::Helper].iter().filter(|role| checks_token(role)).count();
    // An extension has a type and a length.
    report_bytes(sizes) + HYBRID_BYTES + tokens * (4 + TOKEN_LEN)
}

/// What a device uploads, with a report of this length or with cover: a size class. `None` if it is
/// too long.
pub(crate) fn upload_bytes(report_bytes: usize) -> Option<usize> {
    SizeClass::holding(report_bytes + REQUEST_BYTES).map(|class| class.bytes())
}

/// The length of a report with shares of these sizes, sealed with the suite of DAP.
fn report_bytes(sizes: &Sizes) -> usize {
    sizes.public_share + sizes.leader_share + sizes.helper_share + REPORT_OVERHEAD
}

fn as_json(file: &TaskFile, derived: bool) -> Value {
    let mut value = json!({
        "party": file.party,
        "task_id": file.task_id,
        "task_id_derived": derived,
        "task": Configured::of(&file.task),
    });
    if let Some(aggregator) = &file.aggregator {
        value["aggregator"] = json!({
            "vdaf_verify_key": REDACTED,
            "leader_authentication_token": REDACTED,
            "collector_hpke_config": aggregator.collector_hpke_config,
        });
        if aggregator.collector_authentication_token.is_some() {
            value["aggregator"]["collector_authentication_token"] = REDACTED.into();
        }
    }
    if let Some(collector) = &file.collector {
        value["collector"] = json!({
            "authentication_token": REDACTED,
            "hpke_config": collector.hpke_config,
            "hpke_private_key": REDACTED,
        });
    }
    value
}

/// The fields of the task's configuration.
#[derive(Serialize)]
struct Configured<'a> {
    leader_url: &'a str,
    helper_url: &'a str,
    vdaf: &'a VdafConfig,
    batch_mode: BatchModeName,
    min_batch: u64,
    time_precision_s: u64,
    #[serde(flatten)]
    starts: Option<Time>,
    #[serde(flatten)]
    ends: Option<Time>,
    task_info: &'a str,
    encoded: &'a str,
}

impl<'a> Configured<'a> {
    fn of(fields: &'a TaskFields) -> Self {
        Self {
            leader_url: &fields.leader,
            helper_url: &fields.helper,
            vdaf: &fields.vdaf,
            batch_mode: fields.batch_mode,
            min_batch: fields.min_batch_size,
            time_precision_s: fields.time_precision,
            starts: fields.task_start.map(|start| Time::new("starts", start)),
            ends: fields.task_end.map(|end| Time::new("ends", end)),
            task_info: &fields.task_info,
            encoded: &fields.encoded,
        }
    }
}

/// `Prio3Histogram (chunk_length 5, length 16)`.
fn vdaf_text(vdaf: &Value) -> String {
    let name = vdaf["type"].as_str().unwrap_or_default();
    let parameters: Vec<String> = vdaf
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| *key != "type")
        .map(|(key, value)| format!("{key} {}", value.as_str().unwrap_or(&value.to_string())))
        .collect();
    if parameters.is_empty() {
        name.to_owned()
    } else {
        format!("{name} ({})", parameters.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use sotto_protocol::client::produce_cover;
    use sotto_protocol::recipe::derive_task;
    use sotto_protocol::token::ReportTokens;
    use sotto_wire::ReportId;
    use sotto_wire::recipe::Tokens;

    use super::*;
    use crate::keys::generate_hybrid;
    use crate::recipe::testing;

    /// Cover has the length of a report.
    #[test]
    fn a_report_of_a_recipe_is_as_long_as_is_said() {
        let with_tokens = testing::recipe();
        let mut without = with_tokens.clone();
        without.parties.tokens = Tokens::InsecureNone;
        let [leader, helper] = [1, 2].map(|id| generate_hybrid(id).config().clone());
        let tokens = ReportTokens {
            report_id: ReportId::new([0; ReportId::LEN]),
            leader: vec![0; TOKEN_LEN],
            helper: Some(vec![0; TOKEN_LEN]),
        };
        for (recipe, tokens) in [(with_tokens, Some(&tokens)), (without, None)] {
            let task = derive_task(&recipe).unwrap();
            let cover = produce_cover(&task, &leader, &helper, tokens).unwrap();
            assert_eq!(recipe_report_bytes(&recipe, &task.vdaf().sizes()), cover.len());
        }
    }
}
