//! Dates and replays: what a gateway remembers, and for how long.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sotto_protocol::Moment;
use sotto_protocol::gateway::{InnerRefusal, ReplayWindow};

use crate::anonymity::parties::{Gateway, NOON, UPLOAD};

const WINDOW_S: u64 = ReplayWindow::DEFAULT_WINDOW_S;

#[test]
fn the_same_bytes_are_admitted_once() {
    let mut gateway = Gateway::new(31);
    let (first, _) = gateway.produce(&UPLOAD, NOON);
    let (second, _) = gateway.produce(&UPLOAD, NOON);
    assert_eq!(gateway.admit(&first, NOON), Ok(()));
    assert_eq!(gateway.admit(&second, NOON), Ok(()));
    for later in [0, 1, 599, 600, WINDOW_S] {
        let now = Moment(NOON.0 + later);
        assert_eq!(gateway.admit(&first, now), Err(InnerRefusal::Replayed), "{later}");
    }
    assert_eq!(gateway.window.len(), 2);
    // From here on, only its date keeps it out.
    let now = Moment(NOON.0 + WINDOW_S + 1);
    assert_eq!(gateway.admit(&first, now), Err(InnerRefusal::Date));
}

#[test]
fn the_window_has_exact_edges() {
    let mut gateway = Gateway::new(32);
    for (offset, expected) in [
        (301, Err(InnerRefusal::Date)),
        (300, Ok(())),
        (0, Ok(())),
        (-1_800, Ok(())),
        (-1_801, Err(InnerRefusal::Date)),
    ] {
        let body = gateway.dated_at(NOON.0.checked_add_signed(offset).unwrap());
        assert_eq!(gateway.admit(&body, NOON), expected, "{offset}");
    }
}

/// Whenever in its ten minutes a device sends, and even if its clock is up to five minutes off,
/// there is room for the longest wait at a relay.
#[test]
fn an_honest_request_arrives_in_time() {
    let mut gateway = Gateway::new(33);
    gateway.window = ReplayWindow::new(ReplayWindow::MIN_WINDOW_S, 100_000, [1; 16]);
    for second in (0..600).step_by(7) {
        for clock in [-300_i64, 0, 300] {
            let now = Moment(NOON.0 + second);
            let (body, _) =
                gateway.produce(&UPLOAD, Moment(now.0.checked_add_signed(clock).unwrap()));
            assert_eq!(gateway.admit(&body, Moment(now.0 + 60)), Ok(()), "{second} {clock}");
        }
    }
}

#[test]
fn no_window_is_shorter_than_the_least() {
    let mut gateway = Gateway::new(34);
    gateway.window = ReplayWindow::new(0, 10, [1; 16]);
    let oldest = gateway.dated_at(NOON.0 - ReplayWindow::MIN_WINDOW_S);
    assert_eq!(gateway.admit(&oldest, NOON), Ok(()));
    let older = gateway.dated_at(NOON.0 - ReplayWindow::MIN_WINDOW_S - 1);
    assert_eq!(gateway.admit(&older, NOON), Err(InnerRefusal::Date));
}

#[test]
fn a_date_that_cannot_be_read_is_none() {
    let mut gateway = Gateway::new(35);
    for date in [None, Some(""), Some("1794744000"), Some("Sun, 15 Nov 2026 12:00:00 +0000")] {
        let body = gateway.dated(date);
        assert_eq!(gateway.admit(&body, NOON), Err(InnerRefusal::Date), "{date:?}");
    }
    // The most extreme dates.
    for date in [0, 253_402_300_799] {
        let body = gateway.dated_at(date);
        assert_eq!(gateway.admit(&body, NOON), Err(InnerRefusal::Date), "{date}");
    }
    assert!(gateway.window.is_empty());
    let body = gateway.dated_at(NOON.0);
    assert_eq!(gateway.admit(&body, Moment(u64::MAX)), Err(InnerRefusal::Date));
    assert_eq!(gateway.admit(&body, Moment(0)), Err(InnerRefusal::Date));
}

#[test]
fn a_full_window_refuses_what_is_new_and_still_knows_what_is_old() {
    let mut gateway = Gateway::remembering(3, 36);
    let bodies: Vec<_> = (0..4).map(|_| gateway.produce(&UPLOAD, NOON).0).collect();
    for body in &bodies[..3] {
        assert_eq!(gateway.admit(body, NOON), Ok(()));
    }
    assert_eq!(gateway.admit(&bodies[3], NOON), Err(InnerRefusal::Full));
    assert_eq!(gateway.admit(&bodies[0], NOON), Err(InnerRefusal::Replayed));
    assert_eq!(gateway.window.len(), 3);
    // There is room again once the ten minutes are out of the window.
    let later = Moment(NOON.0 + 600 + WINDOW_S);
    let (body, _) = gateway.produce(&UPLOAD, later);
    assert_eq!(gateway.admit(&body, later), Ok(()));
    assert_eq!(gateway.window.len(), 1);
}

#[test]
fn ten_minutes_are_forgotten_when_none_of_their_dates_is_admitted_any_more() {
    let mut gateway = Gateway::new(37);
    let (first, last) = (gateway.dated_at(NOON.0), gateway.dated_at(NOON.0 + 599));
    assert_eq!(gateway.admit(&first, Moment(NOON.0 + 400)), Ok(()));
    assert_eq!(gateway.admit(&last, Moment(NOON.0 + 400)), Ok(()));
    let end = NOON.0 + 599 + WINDOW_S;
    assert_eq!(gateway.admit(&last, Moment(end)), Err(InnerRefusal::Replayed));
    assert_eq!(gateway.window.len(), 2);
    assert_eq!(gateway.admit(&last, Moment(end + 1)), Err(InnerRefusal::Date));
    assert_eq!(gateway.window.len(), 0);
}

/// What was forgotten must not become new again, and a clock that is corrected must not shut
/// everybody out.
#[test]
fn a_clock_that_jumps_opens_no_door() {
    let mut gateway = Gateway::new(38);
    let (body, _) = gateway.produce(&UPLOAD, NOON);
    assert_eq!(gateway.admit(&body, NOON), Ok(()));
    assert_eq!(gateway.admit(&body, Moment(NOON.0 + 1_000_000)), Err(InnerRefusal::Date));
    assert!(gateway.window.is_empty());
    assert_eq!(gateway.admit(&body, NOON), Err(InnerRefusal::Date));
    let next = Moment(NOON.0 + 600);
    let (body, _) = gateway.produce(&UPLOAD, next);
    assert_eq!(gateway.admit(&body, next), Ok(()));
}

/// Hours of traffic with random replays: each request gets in once, in any order, and memory use
/// follows the window.
#[test]
fn no_replay_gets_in_over_hours() {
    let mut gateway = Gateway::remembering(10_000, 39);
    let mut rng = ChaCha20Rng::seed_from_u64(40);
    let mut sent: Vec<(Vec<u8>, u64)> = Vec::new();
    for step in 0..600 {
        let now = Moment(NOON.0 + step * 20);
        let (body, _) = gateway.produce(&UPLOAD, now);
        assert_eq!(gateway.admit(&body, now), Ok(()));
        sent.push((body, now.0));
        for _ in 0..3 {
            let (old, made) = &sent[(rng.next_u32() as usize) % sent.len()];
            let date = made - made % 600;
            let expected = match date + WINDOW_S >= now.0 {
                true => InnerRefusal::Replayed,
                false => InnerRefusal::Date,
            };
            assert_eq!(gateway.admit(old, now), Err(expected));
        }
        // At most the window and two roundings, at three requests a minute.
        assert!(gateway.window.len() <= (WINDOW_S as usize + 1_200) / 20 + 1);
    }
}
