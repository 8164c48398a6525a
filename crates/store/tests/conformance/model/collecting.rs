//! Collection steps.

use std::time::Duration;

use sotto_store::{Closing, CollectionCreated, CollectionDeleted, CollectionState, Turn};
use sotto_wire::{BatchMode, BatchSelector, CollectionJobId, Query, TaskId};

use super::super::bench::LEASE;
use super::super::driver::{request, run};
use super::super::reports::{assert_holds, batch_mode, interval};
use super::Walk;
use super::leading::END;
use super::oracle::CollectionFacts;

impl Walk {
    pub(super) fn create_collection(&mut self) {
        let task_id = self.some_task();
        let query = match batch_mode(&task_id) {
            BatchMode::TimeInterval => {
                let start = self.below(usize::try_from(END).unwrap()) as u64;
                Query::TimeInterval(interval(start, 1 + self.below(3) as u64))
            }
            BatchMode::LeaderSelected => Query::LeaderSelected,
        };
        let created = run(self.bench.store().create_collection(task_id, request(&query), query));
        let mut others = self.oracle.collections.iter().filter(|other| other.task_id == task_id);
        let existing = others.clone().find(|other| other.query == query).map(|other| other.id);
        let overlaps = match query {
            Query::LeaderSelected => false,
            Query::TimeInterval(wanted) => {
                let mut collected = self.oracle.tasks[&task_id].collected.iter();
                collected.any(|interval| interval.overlaps(&wanted))
                    || others.any(|other| {
                        other.state == CollectionState::Pending
                            && matches!(other.query, Query::TimeInterval(i) if i.overlaps(&wanted))
                    })
            }
        };
        match created {
            CollectionCreated::Existing(id) => assert_eq!(existing, Some(id)),
            CollectionCreated::Overlap => assert!(existing.is_none() && overlaps),
            CollectionCreated::Created(id) => {
                assert!(existing.is_none() && !overlaps);
                assert!(!self.collections.contains(&(task_id, id)), "an id was given twice");
                self.collections.push((task_id, id));
                let state = CollectionState::Pending;
                let facts = CollectionFacts { task_id, id, query, state, selector: None };
                self.oracle.collections.push(facts);
            }
        }
        self.note(created);
    }

    pub(super) fn work_on_a_collection(&mut self) {
        let Some(job) = run(self.bench.store().lease_collection(LEASE, Turn::default())) else {
            return;
        };
        let min_batch_size = 1 + self.below(4) as u64;
        let closing = run(self.bench.store().close_batch(job.lease, min_batch_size));
        let index = self.facts_index(job.task_id, job.id);
        let outcome = match closing {
            Closing::TooFew => {
                self.check_too_few(index, min_batch_size);
                "too few".to_owned()
            }
            Closing::Draining => {
                self.close(index, None);
                "draining".to_owned()
            }
            Closing::Drained { selector, aggregate } => {
                self.close(index, Some(selector));
                assert!(!self.oracle.is_expected(job.task_id, &selector), "drained too early");
                assert_holds(&aggregate, &self.oracle.held(job.task_id, &selector));
                self.finish(index, job.lease, selector)
            }
        };
        if self.oracle.collections[index].state == CollectionState::Pending {
            let pause = Duration::from_millis(self.below(3) as u64 * 100);
            run(self.bench.store().release(job.lease, pause));
        }
        self.note((job.id, outcome));
    }

    fn finish(
        &mut self,
        index: usize,
        lease: sotto_store::Lease,
        selector: BatchSelector,
    ) -> String {
        let task_id = self.oracle.collections[index].task_id;
        let choice = self.below(10);
        let store = self.bench.store();
        match choice {
            0..2 => "drained".to_owned(),
            2 => {
                run(store.fail_collection(lease, "problem".into(), "detail".into()));
                let (problem, detail) = ("problem".into(), "detail".into());
                self.oracle.collections[index].state = CollectionState::Failed { problem, detail };
                "failed".to_owned()
            }
            _ => {
                run(store.finish_collection(lease, b"response".to_vec().into()));
                let finished = CollectionState::Finished(b"response".to_vec());
                self.oracle.collections[index].state = finished;
                self.oracle.collect(task_id, &selector);
                format!("finished {selector:?}")
            }
        }
    }

    pub(super) fn delete_collection(&mut self) {
        if self.collections.is_empty() {
            return;
        }
        let index = self.below(self.collections.len());
        let (task_id, id) = self.collections[index];
        let deleted = run(self.bench.store().delete_collection(task_id, id));
        let is_it = |facts: &CollectionFacts| facts.task_id == task_id && facts.id == id;
        let found = self.oracle.collections.iter().position(is_it);
        let is_closing = found.is_some_and(|index| {
            let facts = &self.oracle.collections[index];
            facts.state == CollectionState::Pending && facts.selector.is_some()
        });
        if is_closing {
            assert_eq!(deleted, CollectionDeleted::UnderWay);
        } else {
            assert_eq!(deleted, CollectionDeleted::Deleted);
            found.map(|index| self.oracle.collections.remove(index));
        }
        self.note(deleted);
    }

    /// Every collection job ever created, with its expected state.
    pub(super) fn collection_states(
        &self,
    ) -> Vec<(TaskId, CollectionJobId, Option<CollectionState>)> {
        let state = |(task_id, id): &(TaskId, CollectionJobId)| {
            let is_it = |facts: &&CollectionFacts| facts.task_id == *task_id && facts.id == *id;
            let found = self.oracle.collections.iter().find(is_it);
            (*task_id, *id, found.map(|facts| facts.state.clone()))
        };
        self.collections.iter().map(state).collect()
    }

    fn facts_index(&self, task_id: TaskId, id: CollectionJobId) -> usize {
        let is_it = |facts: &CollectionFacts| facts.task_id == task_id && facts.id == id;
        self.oracle.collections.iter().position(is_it).expect("an unknown collection")
    }

    fn check_too_few(&self, index: usize, min_batch_size: u64) {
        let facts = &self.oracle.collections[index];
        assert!(facts.selector.is_none(), "a closed batch was opened again");
        if let Query::TimeInterval(interval) = facts.query {
            let selector = BatchSelector::TimeInterval(interval);
            assert!((self.oracle.held(facts.task_id, &selector).len() as u64) < min_batch_size);
        }
    }

    /// Records that a batch is closed, which it may have been before.
    fn close(&mut self, index: usize, seen: Option<BatchSelector>) {
        let facts = &mut self.oracle.collections[index];
        match facts.query {
            Query::TimeInterval(interval) => {
                let selector = BatchSelector::TimeInterval(interval);
                assert!(seen.is_none() || seen == Some(selector));
                if facts.selector.is_none() {
                    facts.selector = Some(selector);
                    let task_id = facts.task_id;
                    self.oracle.task(task_id).closed.push(interval);
                }
            }
            Query::LeaderSelected => match (facts.selector, seen) {
                // Unknown until it has drained; a placeholder marks it as closed.
                (None, None) => {
                    facts.selector = Some(BatchSelector::TimeInterval(interval(0, 0)));
                }
                (Some(BatchSelector::LeaderSelected(known)), Some(seen)) => {
                    assert_eq!(BatchSelector::LeaderSelected(known), seen, "the batch changed");
                }
                (_, Some(seen)) => facts.selector = Some(seen),
                (Some(_), None) => {}
            },
        }
    }
}
