//! `sotto serve gateway` in front of a leader and a log without their own gateways.

use std::fs;

use serde_json::json;
use sotto_tests::service::Service;
use sotto_tests::world::World;

use super::ACCEPTED;

/// A gateway with the keys of both operators, in front of the leader and of what it takes for the
/// log.
fn configure(gateway: &Service, world: &World, log_origin: &str) -> anyhow::Result<()> {
    let (leader, log) = (&world.pair.leader.url, world.log.url());
    gateway.write_config(&format!(
        "keys = [\"leader-gateway.toml\", \"keeper-gateway.toml\"]\n\
         [[targets]]\norigin = \"{leader}\"\n\
         [[targets]]\norigin = \"{log_origin}\"\nurl = \"{log}\"\n"
    ))
}

#[test]
fn one_gateway_before_leader_and_log() {
    let mut gateway = None;
    let mut world = World::arranged(|world| {
        let service = gateway.insert(Service::new(world.pair.folder(), "gateway", "gateway")?);
        world.oblivious.tables.clear();
        for operator in ["leader", "keeper"] {
            world.oblivious.urls.insert(operator, service.url());
        }
        Ok(())
    })
    .unwrap();
    let mut gateway = gateway.unwrap();
    configure(&gateway, &world, "http://other.example").unwrap();
    gateway.start().unwrap();
    world.start_with_keys().unwrap();
    world.publish_recipe("commute", 2).unwrap();

    // It forwards only to listed targets, even if it could reach others.
    fs::write(world.path("a.attributes.toml"), "minutes = 1\n").unwrap();
    let device = ["device", "run", "--once", "--trust", "trust.toml", "--state", "a.json"];
    let device = [&device[..], &["--attributes", "a.attributes.toml"]].concat();
    let (code, text) = world.exit_code(&device).unwrap();
    assert!(code == Some(2) && text.contains("421"), "{text}");

    gateway.kill().unwrap();
    configure(&gateway, &world, &world.log.url()).unwrap();
    gateway.start().unwrap();
    for (name, minutes) in [("a", 1), ("b", 50)] {
        let pass = world.device(name, minutes).unwrap();
        assert_eq!(pass["considered"].as_array().unwrap().len(), 1, "{pass}");
    }
    assert_eq!(world.pair.leader.metric(ACCEPTED).unwrap(), 2.0);
    assert_eq!(world.collect("commute").unwrap()["result"], json!([1, 0, 1]));
}
