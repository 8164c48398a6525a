//! How many requests a source may send, and how long it is remembered.

use std::net::IpAddr;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_protocol::relay::SourceLimit;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// How many of `count` requests of this source are admitted.
fn admitted(limit: &mut SourceLimit, source: &str, count: usize, now_ms: u64) -> usize {
    let mut rng = ChaCha20Rng::seed_from_u64(now_ms);
    (0..count).filter(|_| limit.admit(address(source), now_ms, &mut rng).is_some()).count()
}

#[test]
fn each_source_has_its_own_count() {
    let mut limit = SourceLimit::new(3, 60_000, 100);
    assert_eq!(admitted(&mut limit, "192.0.2.1", 5, 0), 3);
    assert_eq!(admitted(&mut limit, "192.0.2.2", 5, 0), 3);
    assert_eq!(admitted(&mut limit, "2001:db8::1", 5, 0), 3);
    assert_eq!(admitted(&mut limit, "192.0.2.1", 5, 59_999), 0);
    assert_eq!(limit.len(), 3);
}

#[test]
fn an_ipv6_subscriber_is_one_source() {
    let mut limit = SourceLimit::new(3, 60_000, 100);
    assert_eq!(admitted(&mut limit, "2001:db8:0:1::1", 2, 0), 2);
    assert_eq!(admitted(&mut limit, "2001:db8:0:1:ffff:ffff:ffff:ffff", 5, 0), 1);
    assert_eq!(admitted(&mut limit, "2001:db8:0:2::1", 5, 0), 3);
    assert_eq!(limit.len(), 2);
}

#[test]
fn an_ipv4_address_is_the_same_on_every_socket() {
    let mut limit = SourceLimit::new(3, 60_000, 100);
    assert_eq!(admitted(&mut limit, "192.0.2.1", 2, 0), 2);
    assert_eq!(admitted(&mut limit, "::ffff:192.0.2.1", 5, 0), 1);
    // All mapped addresses share 64 bits, but are not one source.
    assert_eq!(admitted(&mut limit, "::ffff:192.0.2.2", 5, 0), 3);
}

#[test]
fn at_its_end_a_window_is_forgotten() {
    let mut limit = SourceLimit::new(1, 60_000, 100);
    assert_eq!(limit.due_at(), None);
    assert_eq!(admitted(&mut limit, "192.0.2.1", 2, 1_000), 1);
    assert_eq!(limit.due_at(), Some(61_000));
    limit.forget(60_999);
    assert_eq!(limit.len(), 1);
    // Even without another request.
    limit.forget(61_000);
    assert!(limit.is_empty());
    assert_eq!(limit.due_at(), None);
    // The next window begins with the next request.
    assert_eq!(admitted(&mut limit, "192.0.2.1", 2, 200_000), 1);
    assert_eq!(limit.due_at(), Some(260_000));
    assert_eq!(admitted(&mut limit, "192.0.2.2", 2, 260_000), 1);
    assert_eq!(limit.len(), 1);
}

#[test]
fn the_table_is_bounded_and_a_flood_shuts_nobody_out() {
    let mut limit = SourceLimit::new(1, 60_000, 10);
    for host in 0..200 {
        assert_eq!(admitted(&mut limit, &format!("198.51.100.{host}"), 1, 0), 1);
    }
    assert_eq!(limit.len(), 10);
    // Sources in the table stay limited.
    assert_eq!(admitted(&mut limit, "198.51.100.0", 1, 0), 0);
}

#[test]
fn a_limit_of_none_admits_none() {
    for max_sources in [0, 10] {
        let mut limit = SourceLimit::new(0, 60_000, max_sources);
        assert_eq!(admitted(&mut limit, "192.0.2.1", 3, 0), 0);
    }
}

#[test]
fn debug_shows_no_source() {
    let mut limit = SourceLimit::new(3, 60_000, 100);
    admitted(&mut limit, "192.0.2.1", 1, 0);
    let shown = format!("{limit:?}");
    assert_eq!(shown, "SourceLimit { max: 3, window_ms: 60000, sources: 1, .. }");
}
