//! Unfinished jobs of one kind: who holds each, and whose turn it is. For stores of a single
//! process, whose leases end with it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use sotto_wire::TaskId;

use crate::hold::Hold;
use crate::{Lease, TaskJobs, Turn};

/// Jobs by number and by task.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    jobs: BTreeMap<u64, Queued<T>>,
    by_task: BTreeMap<TaskId, OfTask>,
}

#[derive(Debug)]
struct Queued<T> {
    task_id: TaskId,
    reports: u64,
    hold: Hold,
    job: T,
}

/// The numbers of a task's jobs, and how many reports they have together.
#[derive(Debug, Default)]
struct OfTask {
    numbers: BTreeSet<u64>,
    reports: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { jobs: BTreeMap::new(), by_task: BTreeMap::new() }
    }
}

impl<T> Queue<T> {
    /// Adds a job of this many reports that nobody holds.
    pub(crate) fn insert(&mut self, number: u64, task_id: TaskId, reports: u64, job: T) {
        let of_task = self.by_task.entry(task_id).or_default();
        of_task.numbers.insert(number);
        of_task.reports += reports;
        self.jobs.insert(number, Queued { task_id, reports, hold: Hold::default(), job });
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let Queued { task_id, reports, job, .. } = self.jobs.remove(&number)?;
        if let Some(of_task) = self.by_task.get_mut(&task_id) {
            of_task.numbers.remove(&number);
            of_task.reports -= reports;
            if of_task.numbers.is_empty() {
                self.by_task.remove(&task_id);
            }
        }
        Some(job)
    }

    /// Removes all jobs of a task and returns them.
    pub(crate) fn remove_task(&mut self, task_id: &TaskId) -> Vec<T> {
        let of_task = self.by_task.remove(task_id).unwrap_or_default();
        of_task.numbers.iter().filter_map(|number| Some(self.jobs.remove(number)?.job)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.jobs.values().map(|queued| &queued.job)
    }

    /// What each task has.
    pub(crate) fn by_task(&self) -> impl Iterator<Item = (TaskId, TaskJobs)> {
        let jobs = |of_task: &OfTask| of_task.numbers.len() as u64;
        self.by_task.iter().map(move |(task_id, of_task)| {
            (*task_id, TaskJobs { jobs: jobs(of_task), reports: of_task.reports })
        })
    }

    /// The job that a lease is for, unless another lease was granted since.
    pub(crate) fn held(&self, lease: Lease) -> Option<&T> {
        let queued = self.jobs.get(&lease.job).filter(|queued| queued.hold.is_held_by(lease));
        queued.map(|queued| &queued.job)
    }

    /// The oldest job that is due and not leased, of the task whose turn it is.
    pub(crate) fn next(&self, turn: &Turn, now_ms: u64) -> Option<u64> {
        let first_free = |(task_id, of_task): (&TaskId, &OfTask)| {
            let is_free = |number: &&u64| {
                self.jobs.get(number).is_some_and(|queued| queued.hold.is_free(now_ms))
            };
            if (turn.is_ready)(task_id) {
                of_task.numbers.iter().find(is_free).copied()
            } else {
                None
            }
        };
        let Some(after) = turn.after else { return self.by_task.iter().find_map(first_free) };
        let mut later = self.by_task.range((Excluded(after), Unbounded));
        later.find_map(first_free).or_else(|| self.by_task.range(..=after).find_map(first_free))
    }

    /// Sets who holds a job.
    pub(crate) fn hold(&mut self, number: u64, hold: Hold) {
        if let Some(queued) = self.jobs.get_mut(&number) {
            queued.hold = hold;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    fn task(id: u8) -> TaskId {
        TaskId::new([id; 32])
    }

    /// Jobs 1 to 4 belong to task 1, job 5 to task 2, job 6 to task 3.
    fn queue() -> Queue<()> {
        let mut queue = Queue::default();
        for (number, id) in [(1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (6, 3)] {
            queue.insert(number, task(id), 10, ());
        }
        queue
    }

    #[test]
    fn tasks_take_turns_however_many_jobs_each_has() {
        let mut queue = queue();
        let (mut turn, mut order) = (Turn::default(), Vec::new());
        while let Some(number) = queue.next(&turn, 0) {
            order.push(number);
            turn.after = queue.jobs.get(&number).map(|queued| queued.task_id);
            queue.hold(number, Hold::held(number, 0, Duration::from_secs(1)));
        }
        assert_eq!(order, [1, 5, 6, 2, 3, 4]);
    }

    #[test]
    fn a_task_that_is_not_ready_is_left_out() {
        let queue = queue();
        let is_ready =
            |id: u8| -> crate::TaskFilter { Arc::new(move |task_id| *task_id == task(id)) };
        for (id, after, next) in
            [(1, None, Some(1)), (1, Some(1), Some(1)), (2, Some(3), Some(5)), (4, None, None)]
        {
            let turn = Turn { after: after.map(task), is_ready: is_ready(id) };
            assert_eq!(queue.next(&turn, 0), next, "{id} after {after:?}");
        }
    }

    #[test]
    fn a_task_leaves_with_its_jobs() {
        let mut queue = queue();
        assert_eq!(queue.remove_task(&task(1)).len(), 4);
        queue.remove(5);
        let left = TaskJobs { jobs: 1, reports: 10 };
        assert_eq!(queue.by_task().collect::<Vec<_>>(), [(task(3), left)]);
        assert_eq!(queue.len(), 1);
    }
}
