//! The boundary of a window, and the expiry of a token key, in real time: windows of a few seconds,
//! and a recipe within one of them.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sotto_tests::phone::now;
use sotto_wire::Time;

use crate::tokens::rogue::{Rogue, present};
use crate::tokens::{Scene, dropped, refused, until_equal};

/// The machine was too slow: something fell on the wrong side of a boundary.
struct TooLate;

#[test]
fn a_window_edge_and_the_end_of_a_key() {
    // Each try has more time between two boundaries.
    let mut lengths = [10, 20, 40].into_iter();
    while run(lengths.next().unwrap()).is_err() {}
}

fn run(window_s: u64) -> Result<(), TooLate> {
    let mut scene = Scene::arranged(|world| {
        world.tokens.as_mut().unwrap().window_s = window_s;
        world.floors = "min_window_s = 1\n".to_owned();
        Ok(())
    });
    // Four tenths into a window: the recipe opens here, and its keys stay valid for another nine
    // tenths of a window.
    let begin = (now().0 + window_s * 6 / 10).next_multiple_of(window_s) - window_s * 6 / 10;
    let (edge, closes) = (begin + window_s * 6 / 10, begin + window_s * 9 / 10);
    sleep_until(begin);
    let (opens, closing) = ((begin - 2).to_string(), closes.to_string());
    let when = ["--opens", &opens, "--closes", &closing, "--window", "1s"];
    scene.world.publish_recipe_when("brief", 4, &when, "0s").unwrap();
    let admitted = scene.admitted("brief");
    let world = &scene.world;
    let mut mallory = Rogue::new("mallory", 1);
    let mut late = Rogue::new("late", 2);
    let tokens = mallory.tokens(world, &admitted);
    let unspent = late.tokens(world, &admitted);
    let report = mallory.report(&admitted, 0, present(&admitted), Some(&tokens));
    assert_eq!(scene.upload(&admitted, &report).body, b"");
    scene.honest(&[5, 20, 50]);
    if now().0 >= edge {
        return Err(TooLate);
    }

    // In the next window, the previous one still counts, also for the device's key.
    sleep_until(edge);
    let mut reset = Rogue::new("mallory", 3);
    let statuses =
        (mallory.statuses(&scene.world, &admitted), reset.statuses(&scene.world, &admitted));
    if now().0 >= closes {
        return Err(TooLate);
    }
    assert_eq!(statuses, ([429; 2], [400; 2]));
    assert_eq!(refused(scene.attesters(), "withheld"), 2.0);
    assert_eq!(refused(scene.attesters(), "other_key"), 2.0);

    // A token that was not spent in time is worthless, whatever time the report states.
    sleep_until(closes);
    let before = Time::new(closes - 1);
    let report = late.report(&admitted, 2, before, Some(&unspent));
    assert_eq!(scene.upload(&admitted, &report).status, 200);
    let leader = &scene.world.pair.leader;
    until_equal("expired", 1.0, || dropped(leader, "token_expired"));

    // Two windows later nothing is counted any more, and the keys have expired.
    sleep_until(edge + window_s);
    let mut stranger = Rogue::new("stranger", 4);
    for device in [&mut mallory, &mut stranger] {
        assert_eq!(device.statuses(&scene.world, &admitted), [400; 2]);
    }
    assert_eq!(refused(scene.attesters(), "issuer_refused"), 4.0);
    assert_eq!(refused(scene.issuers(), "expired"), 4.0);
    scene.collect("brief", [2, 1, 1]);
    Ok(())
}

/// Waits until this second has begun.
fn sleep_until(second: u64) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    thread::sleep(Duration::from_secs(second).saturating_sub(since) + Duration::from_millis(20));
}
