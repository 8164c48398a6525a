//! Reports that have arrived and wait for a job: when it is worth forming jobs.

use std::collections::HashMap;
use std::time::Duration;

use sotto_wire::TaskId;

/// Reports accepted but not yet formed into jobs, by task, as far as this process has seen them.
#[derive(Clone, Debug)]
pub struct Intake {
    job_reports: u64,
    job_bytes: u64,
    /// Under `None`: reports of which only the store knows the task.
    waiting: HashMap<Option<TaskId>, Waiting>,
    hurry: bool,
}

/// Reports and bytes of each task.
pub type Counted = HashMap<TaskId, (u64, u64)>;

#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    reports: u64,
    bytes: u64,
    since: Option<Duration>,
}

/// When to form jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Immediately.
    Now,
    /// At this time, unless something changes before then.
    At(Duration),
    /// Something waits, and has to wait until jobs have ended.
    Held,
    /// Nothing is waiting: look again when something changes.
    Idle,
}

impl Intake {
    /// An empty intake. A job is full at `job_reports` reports or `job_bytes` bytes.
    pub fn new(job_reports: usize, job_bytes: usize) -> Self {
        Self {
            job_reports: job_reports as u64,
            job_bytes: job_bytes as u64,
            waiting: HashMap::new(),
            hurry: false,
        }
    }

    /// Reports of a task were accepted. Returns whether that may change [`Self::due`]: true for the
    /// task's first report and for the one that fills a job.
    pub fn add(&mut self, task_id: TaskId, reports: u64, bytes: u64) -> bool {
        let (job_reports, job_bytes) = (self.job_reports, self.job_bytes);
        let is_full = |waiting: &Waiting| waiting.fills(job_reports, job_bytes);
        let waiting = self.waiting.entry(Some(task_id)).or_default();
        let (was_empty, was_full) = (waiting.reports == 0, is_full(waiting));
        waiting.reports = waiting.reports.saturating_add(reports);
        waiting.bytes = waiting.bytes.saturating_add(bytes);
        was_empty || (!was_full && is_full(waiting))
    }

    /// The reports and bytes currently counted.
    pub fn counted(&self) -> Counted {
        let counted = |(task_id, waiting): (&Option<TaskId>, &Waiting)| {
            Some(((*task_id)?, (waiting.reports, waiting.bytes)))
        };
        self.waiting.iter().filter_map(counted).collect()
    }

    /// Reports and bytes were formed into jobs, or were passed over. There may be more than were
    /// counted: an earlier process accepted the others.
    pub fn take(&mut self, taken: &Counted) {
        self.waiting.remove(&None);
        for (task_id, (reports, bytes)) in taken {
            if let Some(waiting) = self.waiting.get_mut(&Some(*task_id)) {
                waiting.reports = waiting.reports.saturating_sub(*reports);
                waiting.bytes = waiting.bytes.saturating_sub(*bytes);
                if waiting.reports == 0 {
                    self.waiting.remove(&Some(*task_id));
                }
            }
        }
    }

    /// The store knows that something is waiting, whatever was counted. Returns whether that is
    /// new.
    pub fn count_at_least_one(&mut self) -> bool {
        let is_new = !self.waiting.contains_key(&None);
        self.waiting.entry(None).or_default().reports = 1;
        is_new
    }

    /// Somebody is waiting for what was accepted: form it now.
    pub fn hurry(&mut self) {
        self.hurry = true;
    }

    /// Starts the wait for the next jobs: delays count from now on.
    pub fn start_waiting(&mut self) {
        self.waiting.values_mut().for_each(|waiting| waiting.since = None);
    }

    /// When to form jobs: immediately if a job is full or [`Self::hurry()`] was called, which this
    /// clears; otherwise once the reports of a task have waited for its patience. A task without
    /// patience gives no reason to form jobs. `None` stands for all tasks together.
    pub fn due(
        &mut self,
        now: Duration,
        patience: impl Fn(Option<&TaskId>) -> Option<Duration>,
    ) -> Due {
        if self.hurry && patience(None).is_some() {
            self.hurry = false;
            return Due::Now;
        }
        let (job_reports, job_bytes) = (self.job_reports, self.job_bytes);
        let is_anything_waiting = self.hurry || !self.waiting.is_empty();
        let due = self.waiting.iter_mut().filter_map(|(task_id, waiting)| {
            let due = waiting.since.get_or_insert(now).saturating_add(patience(task_id.as_ref())?);
            Some(if waiting.fills(job_reports, job_bytes) { now } else { due })
        });
        match due.min() {
            Some(due) if due <= now => Due::Now,
            Some(due) => Due::At(due),
            None if is_anything_waiting => Due::Held,
            None => Due::Idle,
        }
    }
}

impl Waiting {
    fn fills(&self, job_reports: u64, job_bytes: u64) -> bool {
        self.reports >= job_reports || self.bytes >= job_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(200);
    const NOW: Duration = Duration::from_secs(5);
    const TASK: TaskId = TaskId::new([1; 32]);
    const OTHER: TaskId = TaskId::new([2; 32]);

    fn always(_: Option<&TaskId>) -> Option<Duration> {
        Some(DELAY)
    }

    fn taken(reports: u64, bytes: u64) -> Counted {
        Counted::from([(TASK, (reports, bytes))])
    }

    #[test]
    fn a_full_job_goes_at_once_and_others_after_the_delay() {
        let mut intake = Intake::new(10, 1000);
        assert!(intake.add(TASK, 3, 30));
        assert_eq!(intake.due(NOW, always), Due::At(NOW + DELAY));
        assert!(!intake.add(TASK, 1, 10), "neither the first nor enough");
        assert_eq!(intake.due(NOW + DELAY / 2, always), Due::At(NOW + DELAY));
        assert_eq!(intake.due(NOW + DELAY, always), Due::Now);
        assert!(intake.add(TASK, 6, 60));
        assert_eq!(intake.due(NOW, always), Due::Now);
        intake.take(&taken(10, 100));
        intake.add(TASK, 1, 1000);
        assert_eq!(intake.due(NOW, always), Due::Now);
        intake.take(&taken(1, 1000));
        intake.hurry();
        assert_eq!(intake.due(NOW, always), Due::Now);
        assert_eq!(intake.due(NOW, always), Due::Idle, "the hurry is over");
    }

    #[test]
    fn each_task_waits_by_its_own_patience() {
        let mut intake = Intake::new(10, 1000);
        let only_other = |task: Option<&TaskId>| (task == Some(&OTHER)).then_some(DELAY);
        intake.hurry();
        assert!(intake.add(TASK, 10, 100), "a full job");
        assert_eq!(intake.due(NOW, only_other), Due::Held, "its task has too many jobs");
        assert!(intake.add(OTHER, 1, 10), "the first of its task");
        assert_eq!(intake.due(NOW, only_other), Due::At(NOW + DELAY));
        assert_eq!(intake.due(NOW + DELAY, only_other), Due::Now);
        intake.take(&Counted::from([(OTHER, (1, 10))]));
        assert_eq!(intake.due(NOW + DELAY, only_other), Due::Held);
        assert_eq!(intake.due(NOW + DELAY, always), Due::Now, "the hurry was remembered");
    }

    #[test]
    fn a_count_that_was_lost_is_found_again() {
        let mut intake = Intake::new(10, 1000);
        // New reports arrive while those of an earlier process are being formed, and their count is
        // taken.
        intake.add(TASK, 5, 50);
        intake.take(&taken(7, 70));
        assert!(intake.count_at_least_one());
        assert_eq!(intake.due(NOW, always), Due::At(NOW + DELAY));
        assert!(!intake.count_at_least_one());
        intake.start_waiting();
        assert_eq!(intake.due(NOW + DELAY, always), Due::At(NOW + 2 * DELAY));
        intake.take(&Counted::new());
        assert_eq!(intake.due(NOW, always), Due::Idle, "the store was asked since");
    }

    #[test]
    fn nothing_waits_for_ever_but_an_empty_intake() {
        let mut intake = Intake::new(10, 1000);
        // More were taken than counted: an earlier process had accepted them.
        intake.take(&taken(5, 50));
        assert_eq!(intake.due(NOW, always), Due::Idle);
        assert!(intake.add(TASK, 1, 10), "the first wakes the loop");
        assert_eq!(intake.due(2 * NOW, always), Due::At(2 * NOW + DELAY));
    }
}
