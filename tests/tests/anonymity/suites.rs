//! Devices that know X25519 alone, and devices that require the hybrid suite, with the same servers.

use std::sync::Arc;

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use serde_json::json;
use sotto_client::{HttpOptions, HttpTransport};
use sotto_crypto::hpke::Suite;
use sotto_protocol::client::produce_report;
use sotto_protocol::device::Pending;
use sotto_tests::phone::{Phone, now, trust};
use sotto_tests::world::World;
use sotto_vdaf::Measurement;

use super::{Door, public_half, seal_upload};

/// A world whose servers have keys of both suites, all of them in their key sets.
fn world() -> World {
    let mut world = World::arranged(|world| {
        let table = "[gateway]\nkeys = [\"leader-gateway.toml\", \"old-gateway.toml\"]\n";
        world.oblivious.tables.insert("leader", table.into());
        Ok(())
    })
    .unwrap();
    let make = |id: &str, file: &str| {
        let suite = ["--suite", "x25519"];
        let arguments = [&["keys", "new", "--id", id, "--out", file], &suite[..]].concat();
        world.run_json(&arguments).unwrap();
    };
    make("30", "old-gateway.toml");
    for operator in ["leader", "helper"] {
        make("31", &format!("old-{operator}.toml"));
    }
    for operator in ["leader", "helper"] {
        world.aggregator(operator).hpke_keys_first(&format!("old-{operator}.toml")).unwrap();
    }
    world.start_with_keys().unwrap();
    for operator in ["leader", "helper"] {
        let keys = [format!("old-{operator}.toml"), format!("{operator}-hpke-1.toml")];
        let gateway: &[&str] = match operator {
            "leader" => &["old-gateway.toml", "leader-gateway.toml"],
            _ => &[],
        };
        world.publish_key_set(operator, &[&keys[0], &keys[1]], gateway).unwrap();
    }
    world
}

#[test]
fn old_and_new_devices_are_counted_together() {
    let world = world();
    world.publish_recipe("commute", 2).unwrap();
    let transport = Arc::new(HttpTransport::new(HttpOptions::default()).unwrap());
    let mut new = Phone::new(&world, &trust(&world).unwrap(), transport, 1).unwrap();
    new.answer(10).unwrap();
    let admitted = new.admitted("commute").unwrap();
    let keys =
        [admitted.leader_config(), admitted.helper_config(), admitted.gateway_config().unwrap()];
    assert_eq!(keys.map(Suite::of), [Some(Suite::Hybrid); 3], "though it is listed last");

    // What a device of an older version takes from the same sets.
    let old = |file: &str| {
        let config = public_half(&world, file);
        assert_eq!(Suite::of(&config), Some(Suite::X25519));
        config
    };
    let task = admitted.assessment.task();
    let report = produce_report(
        task,
        &old("old-leader.toml"),
        &old("old-helper.toml"),
        &Measurement::Histogram(1),
        task.time(now()),
        None,
        &mut ChaCha20Rng::seed_from_u64(2),
    );
    let pending = Pending {
        report: report.unwrap(),
        task_configuration: task.encoded_configuration().to_vec(),
        from: 0,
        sends: 0,
        route: None,
    };
    let (body, awaited) = seal_upload(&world, &pending, &old("old-gateway.toml"), now(), 3);
    let answer = Door::Relay.post(&world, &body);
    assert_eq!(answer.status, 200);
    assert_eq!(awaited.consume_response(&answer.body).unwrap().status, 200);
    assert_eq!(world.collect("commute").unwrap()["count"], json!(2));
}

/// Devices with this trust file would go silent, so the set is not published.
#[test]
fn a_key_set_without_hybrid_keys_is_not_published_by_accident() {
    let world = world();
    let hybrid = "leader-hpke-1.toml";
    for (keys, gateway, kind) in [
        ("old-leader.toml", "leader-gateway.toml", "HPKE"),
        (hybrid, "old-gateway.toml", "gateway"),
    ] {
        let refused = world.publish_key_set("leader", &[keys], &[gateway]).unwrap_err();
        let said = format!("{refused:#}");
        assert!(said.contains(&format!("no hybrid {kind} key")), "{said}");
    }
    world.publish_key_set("leader", &[hybrid], &["leader-gateway.toml"]).unwrap();
}
