//! Crashes around every commit of a device that requests tokens.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use sotto_client::{Log, Participant, ParticipantError, StateFile};
use sotto_protocol::device::{Change, DeviceState, DeviceStore, StateError};
use sotto_testing::world::World;
use sotto_wire::{Decode, Report};

use super::{Attester, Fate, attested, two_recipes};
use crate::device::files::{begin, sealing_key};

/// When a device dies: around the commit with this number.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Death {
    Never,
    Before(usize),
    After(usize),
}

struct Mortal<'a> {
    inner: StateFile,
    death: Death,
    commits: &'a RefCell<usize>,
    answered: &'a RefCell<Vec<Vec<u8>>>,
}

impl DeviceStore for Mortal<'_> {
    fn state(&self) -> &DeviceState {
        self.inner.state()
    }

    fn commit(&mut self, change: Change) -> Result<(), StateError> {
        let number = self.commits.replace_with(|count| *count + 1);
        let died = || Err(StateError::Io(std::io::Error::other("crash")));
        if self.death == Death::Before(number) {
            return died();
        }
        if let Change::Answered { pending, .. } = &change {
            self.answered.borrow_mut().push(pending.report.clone());
        }
        self.inner.commit(change)?;
        if self.death == Death::After(number) { died() } else { Ok(()) }
    }
}

/// A life with at most one death. Returns how many commits there were, and the reports that were
/// made durable.
fn live_through(
    world: &World,
    log: &mut Option<Log>,
    path: &Path,
    attester: &Arc<Attester>,
    death: Death,
) -> (usize, Vec<Vec<u8>>) {
    let (commits, answered) = (RefCell::new(0), RefCell::new(Vec::new()));
    begin(world, path);
    for life in 0..6 {
        let inner = StateFile::open(path, &sealing_key()).unwrap();
        let store = Mortal { inner, death, commits: &commits, answered: &answered };
        // A different seed in each life: a second request or toss would have different bytes.
        let host = attested(world, attester, 100 + life);
        let trust = Arc::new(world.trust.clone());
        let mut device = Participant::new(host, trust, store, log.take().unwrap());
        match device.pass() {
            Ok(_) | Err(ParticipantError::State(StateError::Io(_))) => {}
            Err(other) => panic!("{other}"),
        }
        *log = Some(device.into_parts().2);
    }
    (commits.into_inner(), answered.into_inner())
}

#[test]
fn no_crash_burns_a_token_asks_twice_for_one_or_uses_one_twice() {
    let world = two_recipes().build();
    let mut log = Some(Log::from_files(world.log.files.clone()).shared_for(u64::MAX));
    let mut run = |death: Death, lost: Option<usize>| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let attester =
            Attester::new(
                move |number| {
                    if Some(number) == lost { Fate::Lost } else { Fate::Answered }
                },
            );
        let (commits, answered) = live_through(&world, &mut log, &path, &attester, death);
        let words = format!("{death:?}, lost {lost:?}");
        let authority = attester.authority.lock().unwrap();
        assert_eq!(authority.granted(), 4, "{words}: no token is burned");
        assert_eq!(authority.distinct().len(), 4, "{words}: no second request for a token");
        let state = StateFile::read(&path, &sealing_key()).unwrap();
        assert_eq!(state.audit().len(), 2, "{words}: both recipes were considered, once");
        let text = serde_json::to_string(&state).unwrap();
        assert!(!text.contains(r#""kind":"granted""#), "{words}: tokens are gone once considered");
        let mut ids: Vec<_> = answered
            .iter()
            .map(|report| Report::from_bytes(report).unwrap().report_metadata.report_id)
            .collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), answered.len(), "{words}: no token is used twice");
        (commits, answered.len())
    };
    let (commits, answers) = run(Death::Never, None);
    assert_eq!(answers, 2);
    let mut silenced = 0;
    for number in 0..commits {
        for death in [Death::Before(number), Death::After(number)] {
            silenced += usize::from(run(death, None).1 < 2);
        }
        run(Death::After(number), Some(number % 4));
    }
    for lost in 0..4 {
        assert_eq!(run(Death::Never, Some(lost)).1, 2);
    }
    // Only a crash between considering and answering causes silence: after the former, before the
    // latter.
    assert_eq!(silenced, 4);
}
