//! Who gets the leader's secret, and where it connects to: not what an author says, but what the
//! operators signed and listed.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sotto_tests::pair::Aggregator;
use sotto_tests::world::World;

const PATIENCE: Duration = Duration::from_secs(60);

/// A listener that nobody should connect to.
fn trap() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    (listener, url)
}

fn assert_untouched(trap: &TcpListener) {
    assert_eq!(trap.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "somebody connected");
}

/// Waits until an aggregator has written this.
fn until_logged(aggregator: &Aggregator, words: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !aggregator.log_text().contains(words) {
        assert!(Instant::now() < deadline, "no {words:?} in: {}", aggregator.log_text());
        thread::sleep(Duration::from_millis(20));
    }
}

fn checks(pass: &Value) -> Vec<&str> {
    let silent = pass["silent"].as_array().unwrap().iter();
    silent.map(|silence| silence["check"].as_str().unwrap()).collect()
}

#[test]
fn a_listed_author_cannot_aim_the_leader_at_a_server_of_their_own() {
    let mut world = World::new().unwrap();
    world.start_with_keys().unwrap();
    let (trap, url) = trap();
    // The author is told, and publishes all the same.
    let aimed = world.publish_recipe_with_helper_at(&url, "aimed", 4).unwrap();
    let mut again = vec!["recipe", "publish", "aimed.toml", "--signer", "author.key"];
    again.extend(["--trust", "trust.toml"]);
    let (code, told) = world.exit_code(&again).unwrap();
    assert_eq!(code, Some(1), "{told}");
    let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("the operator's key set says"), "{told}");
    world.publish_recipe("honest", 4).unwrap();

    for (name, minutes) in [("a", 5), ("b", 20), ("c", 50), ("d", 50)] {
        let pass = world.device(name, minutes).unwrap();
        assert_eq!(pass["considered"].as_array().unwrap().len(), 1, "{pass}");
        assert_ne!(pass["considered"][0]["recipe_id"], aimed["entry_id"]);
        assert_eq!(checks(&pass), ["key_sets"], "{pass}");
        let reason = pass["silent"][0]["reason"].as_str().unwrap();
        assert!(reason.contains(&url) && reason.contains(&world.pair.helper.url), "{reason}");
    }
    for aggregator in [&world.pair.leader, &world.pair.helper] {
        until_logged(aggregator, "the operator's key set says");
        assert_eq!(aggregator.metric("sotto_recipes_served").unwrap(), 1.0);
    }
    assert_eq!(world.collect("honest").unwrap()["result"], json!([1, 1, 2]));
    assert_untouched(&trap);
}

#[test]
fn a_leader_does_not_connect_to_loopback_unless_the_peers_entry_says_so() {
    let mut world = World::arranged(|world| {
        world.private_addresses = false;
        Ok(())
    })
    .unwrap();
    world.start_with_keys().unwrap();
    world.publish_recipe("commute", 2).unwrap();
    // Something else listens where the helper was.
    world.pair.helper.kill().unwrap();
    let trap = TcpListener::bind(world.pair.helper.address()).unwrap();
    trap.set_nonblocking(true).unwrap();
    for name in ["a", "b"] {
        let pass = world.device(name, 5).unwrap();
        assert_eq!(pass["considered"].as_array().unwrap().len(), 1, "{pass}");
    }
    let refused = r#"sotto_helper_request_errors_total{reason="no_public_address"}"#;
    world.wait_for(&world.pair.leader, refused, 3.0).unwrap();
    assert_untouched(&trap);
}
