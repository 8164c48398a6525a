//! Which tasks may store more reports: the reports of one cannot fill the room of others.

use std::collections::HashMap;

use sotto_wire::TaskId;

/// Whether a task that holds `held` bytes may store more, if `stored` of `max` bytes are in use.
///
/// A task may hold as much as is free. So one task alone fills at most half of the room, and each
/// further one at most half of what is left: if `n` grow together, one part in `n + 1` stays free. A
/// task that holds little is refused last.
pub fn has_room(max: u64, stored: u64, held: u64) -> bool {
    let free = max.saturating_sub(stored);
    free > 0 && held <= free
}

/// The longest report of each task that was accepted, as far as this process has seen them: an
/// estimate of what the reports in its jobs need.
#[derive(Clone, Debug, Default)]
pub struct Longest(HashMap<TaskId, u64>);

impl Longest {
    /// Reports of a task were accepted.
    pub fn add(&mut self, task_id: TaskId, reports: u64, bytes: u64) {
        let longest = self.0.entry(task_id).or_default();
        *longest = (*longest).max(bytes.div_ceil(reports.max(1)));
    }

    /// About how many bytes this many reports of a task need.
    pub fn bytes(&self, task_id: &TaskId, reports: u64) -> u64 {
        self.0.get(task_id).copied().unwrap_or(0).saturating_mul(reports)
    }

    /// Forgets tasks that are no longer served.
    pub fn retain(&mut self, is_served: impl Fn(&TaskId) -> bool) {
        self.0.retain(|task_id, _| is_served(task_id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_may_hold_as_much_as_is_free() {
        for (max, stored, held, may_store) in [
            (100, 0, 0, true),
            (100, 50, 50, true),
            (100, 51, 51, false),
            // Others have filled most of it: whoever holds little goes on.
            (100, 90, 5, true),
            (100, 90, 11, false),
            (100, 99, 0, true),
            (100, 100, 0, false),
            (100, 200, 0, false),
            (0, 0, 0, false),
        ] {
            assert_eq!(has_room(max, stored, held), may_store, "{max} {stored} {held}");
        }
    }

    #[test]
    fn greedy_tasks_leave_room_for_others() {
        /// What stays free if, time after time, this one of those with room stores a byte.
        fn free(tasks: usize, next: fn(&[u64], &[usize]) -> usize) -> u64 {
            let mut held = vec![0_u64; tasks];
            loop {
                let stored = held.iter().sum();
                let has_room = |task: &usize| has_room(10_000, stored, held[*task]);
                let with_room: Vec<usize> = (0..tasks).filter(has_room).collect();
                if with_room.is_empty() {
                    return 10_000 - stored;
                }
                let task = next(&held, &with_room);
                held[task] += 1;
            }
        }
        for tasks in 1..=10 {
            let parts = tasks as u64 + 1;
            let together = free(tasks, |held, with_room| {
                with_room.iter().copied().min_by_key(|task| held[*task]).unwrap()
            });
            assert!(together + parts >= 10_000 / parts, "{tasks}: {together}");
            let one_by_one = free(tasks, |_, with_room| with_room[0]);
            assert!(one_by_one + 1 >= 10_000 >> tasks, "{tasks}: {one_by_one}");
            assert!(has_room(10_000, 10_000 - one_by_one, 0), "a newcomer has room");
        }
    }

    #[test]
    fn bytes_are_estimated_by_the_longest_report() {
        let task_id = TaskId::new([1; 32]);
        let mut longest = Longest::default();
        assert_eq!(longest.bytes(&task_id, 9), 0);
        longest.add(task_id, 2, 21);
        longest.add(task_id, 1, 5);
        assert_eq!(longest.bytes(&task_id, 9), 99);
        longest.retain(|_| false);
        assert_eq!(longest.bytes(&task_id, 9), 0);
    }
}
