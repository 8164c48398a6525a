//! What must hold after a training, whoever was killed:
//!
//! - The log holds each round once, with the model that follows from the round before.
//! - The step of a round comes from a sum in which every device is counted once (without noise), and
//!   from the sum that was stored (if it was seen).
//! - Leader and helper have counted as many reports in each round as there are devices, with as many
//!   different ids: no token was spent twice.
//! - Of the models, those of the last two rounds are still there, and what others have written.
//! - A device has considered every round and paid once: the claim of the series, and nothing after
//!   its first round.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use sotto_learn::optimizer::Optimizer;
use sotto_protocol::log::Reader;
use sotto_protocol::recipe::derive_task;
use sotto_store::FolderFetch;
use sotto_wire::recipe::Privacy;
use sotto_wire::{Checkpoint, Entry, EntryId, Recipe};

use super::fleet::{Memory, Progress};
use super::kills::Killed;
use super::scene::{OTHERS, Scene};
use super::{DEVICES, ROUNDS, Trained};

/// Of the noise of both aggregators in a sum, in units of the clip, times 8: one of the sums of a
/// campaign is further away with a probability below 1e-12.
const MOST_NOISE: f32 = 0.708 * 8.0;

pub(super) fn check(
    scene: &Scene,
    fleet: &Progress,
    devices: &[Memory],
    killed: Killed,
) -> Result<Trained> {
    let rounds = rounds(scene)?;
    let steps = weights(scene, fleet, &rounds)?;
    check_models(scene, &rounds)?;
    check_steps(scene, &steps, &killed)?;
    for role in ["leader", "helper"] {
        check_store(&scene.stage.world.path(&format!("{role}-data")).join("sotto.sqlite"), &rounds)
            .context(role)?;
    }
    check_output(scene)?;
    for device in devices {
        check_device(scene, &rounds, device)?;
    }
    let Killed { kills, gave_up, between, sums } = killed;
    Ok(Trained { kills, gave_up, between, sums_seen: sums.len() })
}

/// The rounds in the log: each index once, in order.
fn rounds(scene: &Scene) -> Result<Vec<Recipe>> {
    let mut reader =
        Reader::new(FolderFetch::new(scene.stage.world.path("log-data").join("public")));
    let note = reader.checkpoint()?.context("the log is empty")?;
    let tree = Checkpoint::parse(note.text())?;
    let mut rounds = Vec::new();
    for bytes in reader.entries(0..tree.size, &tree)? {
        let entry = Entry::parse(&bytes)?;
        rounds.extend(entry.recipe().filter(|recipe| recipe.round().is_some()).cloned());
    }
    let indexes: Vec<_> =
        rounds.iter().flat_map(|round| round.round()).map(|it| it.index).collect();
    ensure!(indexes == (0..ROUNDS).collect::<Vec<_>>(), "the log has the rounds {indexes:?}");
    let header = rounds.iter().all(|round| round.header().as_ref() == Some(&scene.header));
    ensure!(header, "a round is of another series");
    Ok(rounds)
}

/// The weights of each round, and those after the last one.
fn weights(scene: &Scene, fleet: &Progress, rounds: &[Recipe]) -> Result<Vec<Vec<f32>>> {
    let mut steps = Vec::new();
    for round in rounds {
        steps.push(fleet.model(&digest(round)?).context("the devices trained another model")?);
    }
    steps.push(fs::read(scene.stage.world.path("weights"))?);
    ensure!(steps.iter().all(|file| file.len() == 4 * DEVICES), "the number of weights");
    let number = |bytes: &[u8; 4]| f32::from_le_bytes(*bytes);
    Ok(steps.iter().map(|file| file.as_chunks().0.iter().map(number).collect()).collect())
}

/// The models of the last two rounds are there, and what somebody else has written.
fn check_models(scene: &Scene, rounds: &[Recipe]) -> Result<()> {
    let mut expected: Vec<_> = rounds
        .iter()
        .rev()
        .take(2)
        .map(|round| Ok(digest(round)?.to_string()))
        .collect::<Result<_>>()?;
    expected.push(OTHERS.to_owned());
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry?.file_name().into_string().map_err(|_| anyhow!("a name"))
    };
    let mut found =
        fs::read_dir(scene.stage.world.path("models"))?.map(name).collect::<Result<Vec<_>>>()?;
    expected.sort();
    found.sort();
    ensure!(found == expected, "the models {found:?} are there, not {expected:?}");
    Ok(())
}

fn digest(round: &Recipe) -> Result<EntryId> {
    round.round().and_then(|it| it.model).context("a round has a model")
}

/// Every step counts every device once, and is the one of the stored sum.
fn check_steps(scene: &Scene, steps: &[Vec<f32>], killed: &Killed) -> Result<()> {
    for (index, pair) in steps.windows(2).enumerate() {
        let [before, after] = pair else { continue };
        let counted = before.iter().zip(after).map(|(one, other)| (other - one) * DEVICES as f32);
        let counted: Vec<f32> = counted.collect();
        let fits = match scene.exact {
            true => counted.iter().all(|number| *number == 1.0),
            false => counted.iter().all(|number| (number - 1.0).abs() < MOST_NOISE),
        };
        ensure!(fits, "round {index} counted the devices {counted:?}");
    }
    let plan =
        sotto_client::plan(&scene.header, DEVICES as f64, Optimizer::Sgd { rate: 1.0 }, None)?;
    let mut seen = BTreeSet::new();
    for (index, sum) in &killed.sums {
        ensure!(seen.insert(*index), "round {index} had two sums");
        let [before, after] = [0, 1].map(|more| &steps[*index as usize + more]);
        let mut progress = plan.start(before.iter().map(|weight| f64::from(*weight)).collect())?;
        plan.advance(&mut progress, sum)?;
        let next: Vec<f32> = progress.weights().iter().map(|weight| *weight as f32).collect();
        ensure!(next == *after, "the step of round {index} is not that of its sum");
    }
    Ok(())
}

/// An aggregator has counted every device once in each round, under ids that are all different.
fn check_store(database: &Path, rounds: &[Recipe]) -> Result<()> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut query = connection.prepare(
        "SELECT task_id, reason, count FROM counters JOIN tasks USING (task) ORDER BY task, reason",
    )?;
    let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, Vec<u8>>(0)?, row.get(1)?, row.get(2)?));
    let rows: Vec<(Vec<u8>, i64, i64)> = query.query_map([], row)?.collect::<Result<_, _>>()?;
    let counted: BTreeMap<_, _> =
        rows.iter().filter(|row| row.1 == 0).map(|row| (row.0.clone(), row.2)).collect();
    for round in rounds {
        let task = derive_task(round).map_err(anyhow::Error::msg)?;
        let count = counted.get(task.id().as_bytes().as_slice());
        ensure!(count == Some(&(DEVICES as i64)), "a round counted {count:?} reports: {rows:?}");
    }
    ensure!(counted.len() == rounds.len(), "other tasks counted reports");
    let ids = "SELECT COUNT(*), COUNT(DISTINCT report_id), COUNT(DISTINCT task) FROM report_ids";
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let (ids, different, tasks): (i64, i64, i64) = connection.query_row(ids, [], row)?;
    let all = (DEVICES * rounds.len()) as i64;
    ensure!(
        (ids, different, tasks) == (all, all, 1),
        "{ids} ids, {different} of them different, in {tasks} tasks"
    );
    Ok(())
}

/// What the command printed: each round with all devices, and no epsilon above the claim.
fn check_output(scene: &Scene) -> Result<()> {
    let text = fs::read_to_string(scene.stage.world.path("train.log"))?;
    let lines: Vec<Value> = text
        .lines()
        .filter(|line| line.starts_with('{'))
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let claimed = match scene.header.privacy {
        Privacy::Claim { epsilon_micro, .. } => epsilon_micro as f64 / 1e6,
        Privacy::InsecureUnbounded => f64::INFINITY,
    };
    ensure!(lines.iter().any(|line| line["round"].is_u64()), "no round was told");
    let mut told = BTreeSet::new();
    for line in lines.iter().filter(|line| line["round"].is_u64()) {
        let index = line["round"].as_u64().context("a round has a number")?;
        ensure!(told.insert(index), "round {index} was over twice");
        ensure!(line["count"] == DEVICES, "round {index} had other reports: {line}");
        let epsilon = line["computed_epsilon"].as_f64().unwrap_or(0.0);
        ensure!(epsilon <= claimed, "epsilon {epsilon} of round {index} is above {claimed}");
    }
    // One that was killed after it had said so says so again: the same.
    let ends = lines.iter().filter(|line| line["model_digest"].is_string());
    let ends: BTreeSet<_> =
        ends.map(|end| (end["rounds"].as_u64(), end["model_digest"].as_str())).collect();
    let model = EntryId::of(&fs::read(scene.stage.world.path("weights"))?).to_string();
    let all = [(Some(ROUNDS), Some(&*model))];
    ensure!(ends.iter().eq(&all), "the ends are {ends:?}, not {all:?}");
    Ok(())
}

/// A device has considered each round, and paid for the series once.
fn check_device(scene: &Scene, rounds: &[Recipe], memory: &Memory) -> Result<()> {
    let all: Vec<_> = rounds.iter().map(Recipe::id).collect();
    let considered = &memory.considered;
    ensure!(*considered == all, "a device considered {considered:?}, not {all:?}");
    let claimed = match scene.header.privacy {
        Privacy::Claim { epsilon_micro, .. } => Some(epsilon_micro),
        Privacy::InsecureUnbounded => None,
    };
    let audit = memory.state.audit();
    let paid: Vec<_> = audit.iter().map(|line| (line.recipe, line.epsilon_micro)).collect();
    ensure!(paid == [(scene.header.id(), claimed)], "a device paid {paid:?}, not {claimed:?}");
    let first = memory.after_first.as_ref().context("a device has considered a round")?;
    ensure!(memory.state.ledger() == first.ledger(), "the ledger changed after the first round");
    Ok(())
}
