//! Receipts: what they may say, and what their rounded counts mean.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_testing::arbitrary;
use sotto_wire::limits::{MAX_INTEGER, MAX_RECEIPTS, MAX_RECIPE_LIFE_S};
use sotto_wire::{Receipt, Role};

fn receipt() -> Receipt {
    let receipt = arbitrary::receipt(&mut ChaCha20Rng::seed_from_u64(21));
    Receipt { start: 7_200, end: 10_800, count: 1_024, seq: 3, ..receipt }
}

#[test]
fn counts_are_rounded_down_to_a_power_of_two() {
    let cases = [(0, 0), (1, 1), (2, 2), (3, 2), (4, 4), (1_023, 512), (1_024, 1_024)];
    for (count, rounded) in cases.into_iter().chain([(MAX_INTEGER, 1 << 52), (u64::MAX, 1 << 63)]) {
        assert_eq!(Receipt::rounded(count), rounded, "{count}");
    }
}

/// A batch of exactly the minimum is never accused, and half of the rounded minimum always is.
#[test]
fn a_rounded_count_accuses_nobody_who_kept_the_minimum() {
    for minimum in 1..=2_050 {
        let of = |count| Receipt { count: Receipt::rounded(count), ..receipt() };
        assert!(of(minimum).may_reach(minimum));
        assert!(of(minimum + 1).may_reach(minimum));
        let smaller = Receipt::rounded(minimum) / 2;
        if smaller > 0 {
            let most = 2 * smaller - 1;
            assert!(most < minimum && !of(most).may_reach(minimum), "{minimum}");
        }
    }
    // 1,000 of 1,024 looks like 512 to 1,023: nothing is proved.
    assert!(Receipt { count: 512, ..receipt() }.may_reach(1_000));
    assert!(!Receipt { count: 256, ..receipt() }.may_reach(1_000));
}

#[test]
fn what_breaks_the_format_is_no_receipt() {
    receipt().check().unwrap();
    let last = Receipt { seq: MAX_RECEIPTS, end: 7_200 + MAX_RECIPE_LIFE_S, ..receipt() };
    last.check().unwrap();
    for (bad, why) in [
        (Receipt { version: 2, ..receipt() }, "version"),
        (Receipt { seq: 0, ..receipt() }, "seq"),
        (Receipt { seq: MAX_RECEIPTS + 1, ..receipt() }, "seq"),
        (Receipt { end: 7_200, ..receipt() }, "start must be earlier"),
        (Receipt { start: 10_801, ..receipt() }, "start must be earlier"),
        (Receipt { end: 7_201 + MAX_RECIPE_LIFE_S, ..receipt() }, "end - start"),
        (Receipt { start: MAX_INTEGER, end: MAX_INTEGER + 1, ..receipt() }, "end"),
        (Receipt { count: 0, ..receipt() }, "power of two"),
        (Receipt { count: 1_000, ..receipt() }, "power of two"),
        (Receipt { count: 1 << 53, ..receipt() }, "count"),
        (Receipt { role: Role::Collector, ..receipt() }, "role"),
    ] {
        let error = Receipt::parse(&bad.to_json()).unwrap_err().to_string();
        assert!(error.contains(why), "{why}: {error}");
    }
}
