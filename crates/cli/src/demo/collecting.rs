//! What both demos do once the reports are in.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sotto_client::{Collected, Collector};
use sotto_protocol::{Moment, Task};
use sotto_wire::{Interval, Query};

use super::result::DemoBatch;
use crate::output::Output;
use crate::{random, vocabulary};

/// How long the demo waits without progress before it gives up. Far longer than any machine needs,
/// so that a busy machine alone never makes it fail.
const PATIENCE: Duration = Duration::from_secs(600);

/// Shows how leader and helper work through the reports; `summed` returns how many are done.
pub(super) fn wait_until_summed(
    total: u64,
    output: &Output,
    summed: impl Fn() -> Result<u64>,
) -> Result<()> {
    let bar = output.bar("summed", total);
    let (mut done, mut since) = (0, Instant::now());
    while done < total {
        let now_done = summed()?;
        if now_done > done {
            (done, since) = (now_done, Instant::now());
            bar.set_position(done);
        }
        ensure!(since.elapsed() < PATIENCE, "the aggregation makes no progress");
        std::thread::sleep(Duration::from_millis(20));
    }
    bar.finish();
    Ok(())
}

/// The collector requests the one unit of time that contains all reports.
pub(super) fn collect(collector: &Collector, moment: Moment, output: &Output) -> Result<Collected> {
    let query = Query::TimeInterval(Interval::bucket(collector.task().time(moment))?);
    let spinner = output.spinner("collecting");
    let collected = collector.collect(&query, PATIENCE, &mut |_| (), &mut random::system());
    spinner.finish_and_clear();
    collected.context("the collector got no result")
}

/// The batch, as shown in the result.
pub(super) fn batch(task: &Task, collected: &Collected) -> DemoBatch {
    DemoBatch {
        interval: vocabulary::Interval::of(task, collected.collection.interval),
        count: collected.collection.report_count,
    }
}
