//! Whole devices with tokens and noise of their own. A slice of `large-campaign --tokens`.

use sotto_tests::fleet::Fleet;

#[test]
fn vectors_of_devices_with_tokens_add_up_to_the_last_unit() {
    // Requests do not wait for each other here.
    let fleet = Fleet::start(30, 3, 3, "[pool]\nmin = 1\n").unwrap();
    fleet.answer(3).unwrap();
}
