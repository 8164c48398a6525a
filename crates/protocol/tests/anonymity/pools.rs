//! When a pool is released, in virtual time.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_protocol::relay::{Pool, PoolRule, SourceLimit};

fn rng() -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(51)
}

fn sorted(mut items: Vec<u32>) -> Vec<u32> {
    items.sort_unstable();
    items
}

#[test]
fn the_rule_is_sixteen_requests_or_ten_seconds() {
    assert_eq!(PoolRule::default(), PoolRule { min: 16, wait_ms: 10_000 });
}

#[test]
fn an_empty_pool_is_never_due() {
    let mut pool: Pool<u32> = Pool::new(PoolRule::default());
    assert_eq!(pool.due_at(), None);
    assert!(pool.take(u64::MAX, &mut rng()).is_empty());
    assert!(pool.take_all(&mut rng()).is_empty());
}

#[test]
fn enough_requests_go_at_once() {
    let mut pool = Pool::new(PoolRule { min: 3, wait_ms: 10_000 });
    for (item, now_ms) in [(1, 100), (2, 200)] {
        pool.push(item, None, now_ms);
        assert!(pool.take(now_ms, &mut rng()).is_empty());
    }
    pool.push(3, None, 300);
    assert!(pool.due_at().unwrap() <= 300);
    assert_eq!(sorted(pool.take(300, &mut rng())), [1, 2, 3]);
    assert!(pool.is_empty());
}

/// Anyone who wants a request to be forwarded alone needs as many addresses as the pool requires
/// sources.
#[test]
fn requests_of_one_source_are_no_company() {
    let mut limit = SourceLimit::new(1_000, 60_000, 100);
    let mut pool = Pool::new(PoolRule { min: 3, wait_ms: 10_000 });
    let mut tag = |last: u8, now_ms| limit.admit([192, 0, 2, last].into(), now_ms, &mut rng());
    assert!(tag(1, 0).is_some());
    pool.push(0, tag(1, 0), 0);
    for item in 1..50 {
        pool.push(item, tag(2, 10), 10);
        assert!(pool.take(10, &mut rng()).is_empty(), "{item}");
    }
    pool.push(50, tag(3, 20), 20);
    assert_eq!(sorted(pool.take(20, &mut rng())), (0..=50).collect::<Vec<_>>());
    // The next pool starts over.
    pool.push(51, tag(1, 30), 30);
    assert!(pool.take(30, &mut rng()).is_empty());
    assert_eq!(pool.due_at(), Some(10_030));
}

#[test]
fn few_requests_go_when_the_first_has_waited() {
    let mut pool = Pool::new(PoolRule { min: 16, wait_ms: 10_000 });
    pool.push(1, None, 5_000);
    pool.push(2, None, 14_999);
    assert_eq!(pool.due_at(), Some(15_000));
    assert!(pool.take(14_999, &mut rng()).is_empty());
    assert_eq!(pool.len(), 2);
    assert_eq!(sorted(pool.take(15_000, &mut rng())), [1, 2]);
    // The next first request waits its own time.
    assert_eq!(pool.due_at(), None);
    pool.push(3, None, 20_000);
    assert_eq!(pool.due_at(), Some(30_000));
}

#[test]
fn all_go_together_however_many_came() {
    let mut pool = Pool::new(PoolRule { min: 2, wait_ms: 10 });
    for item in 0..50 {
        pool.push(item, None, 0);
    }
    assert_eq!(sorted(pool.take(0, &mut rng())), (0..50).collect::<Vec<_>>());
}

#[test]
fn the_end_waits_for_nothing() {
    let mut pool = Pool::new(PoolRule::default());
    pool.push(1, None, 0);
    pool.push(2, None, 0);
    assert_eq!(sorted(pool.take_all(&mut rng())), [1, 2]);
    assert!(pool.is_empty());
}

#[test]
fn a_minimum_of_none_or_one_holds_nothing_back() {
    for min in [0, 1] {
        let mut pool = Pool::new(PoolRule { min, wait_ms: 10_000 });
        assert_eq!(pool.due_at(), None);
        pool.push(1, None, 7);
        assert_eq!(pool.take(7, &mut rng()), [1]);
    }
}

#[test]
fn no_request_waits_longer_than_a_gateway_allows() {
    let mut pool = Pool::new(PoolRule { min: 16, wait_ms: u64::MAX });
    pool.push(1, None, 1_000);
    assert_eq!(pool.due_at(), Some(1_000 + PoolRule::MAX_WAIT_MS));
    let mut pool = Pool::new(PoolRule { min: 16, wait_ms: 10_000 });
    pool.push(1, None, u64::MAX);
    assert_eq!(pool.due_at(), Some(u64::MAX));
}

/// A day of arrivals at uneven times: no request waits too long or is lost, and every early release
/// has company.
#[test]
fn every_request_leaves_once_and_in_time() {
    let rule = PoolRule { min: 8, wait_ms: 10_000 };
    let (mut pool, mut rng) = (Pool::new(rule), rng());
    let mut left = vec![0; 20_000];
    let mut now_ms = 0;
    for item in 0..left.len() {
        now_ms += sotto_protocol::uniform_below(4_000, &mut rng);
        // The host wakes at the moment that the pool gave.
        if let Some(due_ms) = pool.due_at().filter(|due_ms| *due_ms <= now_ms) {
            for (item, came_ms) in pool.take(due_ms, &mut rng) {
                left[item] += 1;
                assert!(due_ms - came_ms <= rule.wait_ms);
            }
        }
        pool.push((item, now_ms), None, now_ms);
        let emitted = pool.take(now_ms, &mut rng);
        assert!(emitted.is_empty() || emitted.len() == rule.min);
        emitted.iter().for_each(|(item, _)| left[*item] += 1);
    }
    pool.take_all(&mut rng).iter().for_each(|(item, _)| left[*item] += 1);
    assert!(left.iter().all(|times| *times == 1));
}
