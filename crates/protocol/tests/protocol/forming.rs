//! How the backlog becomes jobs.

use std::collections::HashSet;

use sotto_protocol::leader::aggregate::{
    FormedBatch, FormedJobs, JobLimits, UnknownTask, form_jobs,
};
use sotto_protocol::{Rejection, memory};
use sotto_testing::aggregators::{Craft, NOW, PRECISION_S, Parties, interval, parameters, unit};
use sotto_testing::keys::rng;
use sotto_vdaf::{Measurement, VdafConfig};
use sotto_wire::{BatchMode, Encode, TaskExtension, TaskId, Time};

const UNLIMITED: JobLimits = JobLimits { max_job_reports: usize::MAX, max_job_bytes: usize::MAX };

/// The tasks of a time-interval and a leader-selected world, and one that is not served.
const TIMED: TaskId = TaskId::new([1; 32]);
const SELECTED: TaskId = TaskId::new([2; 32]);
const GONE: TaskId = TaskId::new([3; 32]);

struct Backlog {
    timed: Parties,
    selected: Parties,
    records: Vec<(TaskId, Vec<u8>)>,
}

impl Backlog {
    fn new(vdaf: &VdafConfig) -> Self {
        Self {
            timed: Parties::new(vdaf, BatchMode::TimeInterval),
            selected: Parties::new(vdaf, BatchMode::LeaderSelected),
            records: Vec::new(),
        }
    }

    fn count() -> Self {
        Self::new(&VdafConfig::count())
    }

    fn push(&mut self, task_id: TaskId, measurement: &Measurement, offset: i64) {
        let parties = if task_id == SELECTED { &mut self.selected } else { &mut self.timed };
        let report = parties.report(measurement, unit(offset));
        self.records.push((task_id, report));
    }

    /// What the first report takes in a job.
    fn report_memory(&self) -> usize {
        let (task_id, report) = &self.records[0];
        let parties = if *task_id == SELECTED { &self.selected } else { &self.timed };
        memory::report(&parties.leader.task.vdaf().sizes(), report.len())
    }

    fn form(&self, limits: JobLimits) -> FormedJobs {
        self.try_form(limits).unwrap()
    }

    fn try_form(&self, limits: JobLimits) -> Result<FormedJobs, UnknownTask> {
        let records = self.records.iter().map(|(task_id, report)| (*task_id, &report[..]));
        let task = |task_id: &TaskId| match *task_id {
            TIMED => Some(&self.timed.leader),
            SELECTED => Some(&self.selected.leader),
            _ => None,
        };
        form_jobs(records, task, limits, NOW, &mut rng(5))
    }
}

/// Which records are in which job.
fn records(formed: &FormedJobs) -> Vec<Vec<usize>> {
    let jobs = formed.jobs.iter();
    jobs.map(|job| job.reports.iter().map(|report| report.record).collect()).collect()
}

#[test]
fn records_are_grouped_by_task_in_order_of_arrival() {
    let mut backlog = Backlog::count();
    for task_id in [TIMED, SELECTED, TIMED, SELECTED, TIMED] {
        backlog.push(task_id, &Measurement::Count(true), 0);
    }
    backlog.records.push((TIMED, b"no report".to_vec()));
    let formed = backlog.form(UNLIMITED);
    assert_eq!(records(&formed), [vec![0, 2, 4], vec![1, 3]]);
    assert_eq!(formed.rejections, [(TIMED, Rejection::InvalidMessage)]);
    let [timed, selected] = &formed.jobs[..] else { panic!() };
    assert_eq!((timed.task_id, timed.batch, timed.now), (TIMED, FormedBatch::TimeInterval, NOW));
    assert_eq!(selected.task_id, SELECTED);
    assert!(matches!(selected.batch, FormedBatch::LeaderSelected { .. }));
    assert_eq!(timed.reports[1].time, unit(0));
}

/// One late report, or a slow crowd, must not make a batch that no aggregator may release.
#[test]
fn reports_of_different_windows_do_not_share_a_batch() {
    let mut backlog = Backlog::count();
    for task_id in [SELECTED, TIMED] {
        for offset in [0, -9, 1, 2, -9, 3, 4, 5] {
            backlog.push(task_id, &Measurement::Count(true), offset);
        }
    }
    let windows = |backlog: &Backlog| -> Vec<(u64, Vec<Time>)> {
        let formed = backlog.form(UNLIMITED);
        let ids: HashSet<_> = formed.jobs.iter().map(|job| format!("{:?}", job.batch)).collect();
        assert_eq!(ids.len(), formed.jobs.len());
        let jobs = formed.jobs.iter().filter_map(|job| match job.batch {
            FormedBatch::TimeInterval => None,
            FormedBatch::LeaderSelected { window, .. } => {
                Some((window, job.reports.iter().map(|report| report.time).collect()))
            }
        });
        jobs.collect()
    };
    let [(0, all)] = &windows(&backlog)[..] else { panic!("there is no limit") };
    assert_eq!(all.len(), 8);
    for units in 1..20 {
        for parties in [&mut backlog.selected, &mut backlog.timed] {
            // A fraction of a unit makes no window longer.
            parties.leader.release.max_window_s = Some(units * PRECISION_S + PRECISION_S / 2);
        }
        assert_eq!(backlog.form(UNLIMITED).jobs.last().unwrap().reports.len(), 8, "by interval");
        let windows = windows(&backlog);
        assert_eq!(windows.iter().map(|(_, times)| times.len()).sum::<usize>(), 8);
        for (_, times) in &windows {
            let (first, last) = (times.iter().min().unwrap(), times.iter().max().unwrap());
            assert!(last.as_units() - first.as_units() < units, "{units}: {times:?}");
        }
        let distinct: HashSet<_> = windows.iter().map(|(window, _)| window).collect();
        assert_eq!(distinct.len(), windows.len(), "one batch per window");
    }
}

/// The first window starts with the task: a release over the task's whole time stays one batch.
#[test]
fn windows_start_with_the_task() {
    let mut parameters = parameters(&VdafConfig::count(), BatchMode::LeaderSelected);
    parameters.extensions.push(TaskExtension::TaskInterval(interval(-3, 10)));
    let mut parties = Parties::with(parameters);
    parties.leader.release.max_window_s = Some(5 * PRECISION_S);
    for (offset, window) in [(-3, 0), (1, 0), (2, 1), (6, 1)] {
        assert_eq!(parties.leader.batch_window(unit(offset)), window, "{offset}");
    }
    parties.leader.release.max_window_s = Some(10 * PRECISION_S);
    assert!((-3..7).all(|offset| parties.leader.batch_window(unit(offset)) == 0));
}

/// If a task is missing by mistake, its reports must not be lost.
#[test]
fn a_record_of_an_unknown_task_is_an_error() {
    let mut backlog = Backlog::count();
    for task_id in [TIMED, SELECTED, GONE, TIMED] {
        backlog.push(task_id, &Measurement::Count(true), 0);
    }
    backlog.records.push((TIMED, b"no report".to_vec()));
    assert_eq!(backlog.try_form(UNLIMITED), Err(UnknownTask(GONE)));
    backlog.records.retain(|(task_id, _)| *task_id != GONE);
    assert_eq!(records(&backlog.form(UNLIMITED)), [vec![0, 2], vec![1]]);
}

#[test]
fn jobs_are_bounded_in_reports_and_bytes() {
    let mut backlog = Backlog::count();
    (0..5).for_each(|_| backlog.push(SELECTED, &Measurement::Count(true), 0));
    let len = backlog.report_memory();
    let formed = backlog.form(JobLimits { max_job_reports: 2, ..UNLIMITED });
    assert_eq!(records(&formed), [vec![0, 1], vec![2, 3], vec![4]]);
    let batches: Vec<_> = formed.jobs.iter().map(|job| job.batch).collect();
    assert!(batches.iter().all(|batch| *batch == batches[0]), "one new batch, not three");

    let formed = backlog.form(JobLimits { max_job_bytes: 3 * len, ..UNLIMITED });
    assert_eq!(records(&formed), [vec![0, 1, 2], vec![3, 4]]);
    // A report larger than the limit gets its own job.
    let formed = backlog.form(JobLimits { max_job_bytes: 1, ..UNLIMITED });
    assert_eq!(records(&formed), [[0], [1], [2], [3], [4]]);
}

#[test]
fn every_bucket_of_a_job_counts_with_its_accumulator() {
    let mut backlog = Backlog::new(&VdafConfig::histogram(100));
    for offset in [0, 0, -1, -2, -2] {
        backlog.push(TIMED, &Measurement::Histogram(1), offset);
    }
    let len = backlog.report_memory();
    let accumulator = 100 * 16;
    let limits = |max_job_bytes| JobLimits { max_job_bytes, ..UNLIMITED };
    let formed = backlog.form(limits(5 * len + 3 * accumulator));
    assert_eq!(records(&formed), [[0, 1, 2, 3, 4]]);
    let formed = backlog.form(limits(5 * len + 3 * accumulator - 1));
    assert_eq!(records(&formed), [vec![0, 1, 2, 3], vec![4]]);
    let formed = backlog.form(limits(2 * len + accumulator));
    assert_eq!(records(&formed), [vec![0, 1], vec![2], vec![3, 4]]);

    // Each job has its own accumulators, even for a bucket that the previous job had.
    backlog.records.clear();
    (0..3).for_each(|_| backlog.push(TIMED, &Measurement::Histogram(1), 0));
    let formed = backlog.form(limits(2 * len + accumulator - 1));
    assert_eq!(records(&formed), [[0], [1], [2]]);
}

/// The helper rejects a whole job in which an id occurs twice.
#[test]
fn one_id_with_two_timestamps_does_not_spoil_the_job() {
    let mut backlog = Backlog::count();
    backlog.push(TIMED, &Measurement::Count(true), 0);
    let mut craft = Craft::new(&mut backlog.timed, &Measurement::Count(true));
    for offset in [0, -1] {
        craft.time = unit(offset);
        let report = craft.seal(&mut backlog.timed).to_bytes();
        backlog.records.push((TIMED, report));
    }
    let formed = backlog.form(UNLIMITED);
    assert_eq!(records(&formed), [[0, 1]]);
    assert_eq!(formed.rejections, [(TIMED, Rejection::ReportReplayed)]);
    // In another job the store judges it.
    let formed = backlog.form(JobLimits { max_job_reports: 2, ..UNLIMITED });
    assert_eq!(records(&formed), [vec![0, 1], vec![2]]);
}
