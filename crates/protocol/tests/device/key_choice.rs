//! Which key set a device takes from the log: the same for all, whatever else the log holds and
//! whatever it says about ages.

use sotto_protocol::admission::{Silence, Watch};
use sotto_protocol::log::first;
use sotto_testing::keys::{key, key_of};
use sotto_testing::log::{Batch, at, signed};
use sotto_testing::recipe::{DAY, HOUR, NOW, key_set_entry, leader_set};
use sotto_testing::world::{Plan, World};
use sotto_wire::recipe::KeySet;

/// A set that came later: its number, when it begins, when the quorum saw it.
struct Later(u64, u64, u64);

fn plan(later: &[Later], change: fn(&mut KeySet)) -> Plan {
    let mut plan = Plan::new();
    for Later(seq, not_before, seen) in later {
        let mut set = leader_set(&key("leader.example"), *seq, *not_before);
        change(&mut set);
        let entries = vec![key_set_entry(&set, &key("leader.example"))];
        plan.later.push(Batch { entries, times: at(*seen) });
    }
    plan
}

/// The number of the leader's key set that a device takes.
fn taken(world: &World) -> Result<u64, Silence> {
    let mut watch = Watch::new(world.log.files.clone());
    watch.refresh(&world.trust, world.now).unwrap();
    Ok(watch.key_set(&"leader.example".parse().unwrap(), &world.trust)?.seq)
}

fn chosen(later: &[Later], change: fn(&mut KeySet)) -> Option<u64> {
    taken(&plan(later, change).build()).ok()
}

#[test]
fn the_last_one_that_has_begun() {
    let six = |not_before| [Later(6, not_before, NOW - 3 * DAY)];
    assert_eq!(chosen(&[], |_| {}), Some(5));
    assert_eq!(chosen(&six(NOW - 2 * DAY), |_| {}), Some(6));
    assert_eq!(chosen(&six(NOW + 1), |_| {}), Some(5), "not yet");
    assert_eq!(chosen(&[Later(4, NOW - 2 * DAY, NOW - 3 * DAY)], |_| {}), Some(5), "lower");
    let again = [Later(5, NOW - 2 * DAY, NOW - 3 * DAY)];
    assert_eq!(chosen(&again, |set| set.not_after += 1), Some(5), "the number again");
}

#[test]
fn nobody_falls_back_to_an_older_one() {
    let over = |set: &mut KeySet| set.not_after = NOW - DAY;
    assert_eq!(chosen(&[Later(6, NOW - 2 * DAY, NOW - 3 * DAY)], over), None, "over");
    assert_eq!(
        chosen(&[Later(6, NOW - 2 * DAY, NOW - 2 * HOUR)], |_| {}),
        None,
        "not public in time"
    );
}

#[test]
fn one_that_begins_too_soon_is_passed_over_by_all() {
    let sets = |begins| [Later(6, NOW - 3 * DAY, NOW - 4 * DAY), Later(7, begins, NOW - 4 * DAY)];
    assert_eq!(chosen(&sets(NOW - 2 * DAY - 1), |_| {}), Some(6));
    assert_eq!(chosen(&sets(NOW - 2 * DAY), |_| {}), Some(7));
}

#[test]
fn one_that_the_operator_did_not_sign_hides_nothing() {
    let mut plan = Plan::new();
    let set = leader_set(&key("leader.example"), 6, NOW - 2 * DAY);
    let entries = vec![key_set_entry(&set, &key_of("mallory", "leader.example"))];
    plan.later.push(Batch { entries, times: at(NOW - 3 * DAY) });
    let world = plan.build();
    assert_eq!(taken(&world), Ok(5));
    let mut store = world.device();
    assert_eq!(world.walk(&mut store, 1).unwrap().considered, [plan.focus()]);
}

/// Otherwise a log that shows each device different first checkpoints could choose each device's
/// keys.
#[test]
fn what_the_log_says_about_ages_chooses_nothing() {
    let six = Later(6, NOW - 2 * DAY, NOW - 3 * DAY);
    let mut world = plan(&[six], |_| {}).build();
    assert_eq!(taken(&world), Ok(6));
    let bare: Vec<u8> = world
        .log
        .checkpoints
        .iter()
        .flat_map(|note| {
            first::encode(&signed(note.text(), [None; 3], &key(sotto_testing::log::ORIGIN)))
        })
        .collect();
    world.log.files.insert(first::path(0), bare);
    assert!(taken(&world).is_err(), "no other set takes its place");
}

/// Entries that are repeated are listed again, so one signature is enough for a flood.
#[test]
fn one_operators_flood_takes_no_room_from_another() {
    let mut plan = plan(&[Later(6, NOW - 2 * DAY, NOW - 3 * DAY)], |_| {});
    let other = key("other.example");
    let flood = key_set_entry(&leader_set(&other, 1, NOW - 39 * DAY), &other);
    let entries = vec![flood; 10_000];
    plan.later.insert(0, Batch { entries, times: at(NOW - 4 * DAY) });
    assert_eq!(taken(&plan.build()).unwrap(), 6);
}
