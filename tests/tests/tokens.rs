//! Attacks on "one contribution per device", between real processes over real sockets. Cheating
//! devices, leaders and authors run in this process, with all the means of honest ones. In each
//! test exactly the honest devices are counted.
//!
//! The local randomizer keeps values except with a probability below 1e-12 per report (epsilon 30),
//! so results are compared exactly.
#![cfg(target_os = "linux")] // every 127.x.y.z is an address of the machine

mod audience;
mod author;
pub(crate) mod certificates;
mod chains;
mod crashes;
mod leader;
mod refusals;
mod revoked;
mod rogue;
mod torsion;
mod twice;
mod windows;
pub(crate) mod wire;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use sotto_client::{Delivery, InsecureName, PassReport};
use sotto_protocol::admission::Admitted;
use sotto_protocol::trust::Trust;
use sotto_tests::http::{Connection, Response, head};
use sotto_tests::pair::Aggregator;
use sotto_tests::phone::{Phone, Source, trust};
use sotto_tests::service::Service;
use sotto_tests::token_services::TokenServices;
use sotto_tests::world::World;
use sotto_wire::{MediaType, taskprov};

/// Longer than anything here takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const AGGREGATED: &str = "sotto_reports_aggregated_total";

/// A world with tokens, and devices in it.
struct Scene {
    world: World,
    trust: Arc<Trust>,
    /// The number of devices so far: each has its own randomness.
    devices: u64,
}

impl Scene {
    /// All parties are serving, and their keys are in the log.
    fn new() -> Self {
        Self::arranged(|_| Ok(()))
    }

    /// The same after `arrange` has changed things.
    fn arranged(arrange: impl FnOnce(&mut World) -> anyhow::Result<()>) -> Self {
        let world = World::arranged(|world| {
            world.add_tokens()?;
            arrange(world)
        });
        let mut world = world.unwrap();
        world.start_with_keys().unwrap();
        let trust = trust(&world).unwrap();
        Self { world, trust, devices: 0 }
    }

    /// Publishes a recipe for at least this many devices, and waits until the aggregators serve it.
    fn publish(&self, recipe: &str, devices: u64) {
        self.publish_with(recipe, devices, &[]);
    }

    /// The same, with options of `recipe new`.
    fn publish_with(&self, recipe: &str, devices: u64, options: &[&str]) {
        let served = "sotto_recipes_served";
        let before = self.world.pair.leader.metric(served).unwrap();
        self.world.publish_recipe_with(recipe, devices, options).unwrap();
        for aggregator in [&self.world.pair.leader, &self.world.pair.helper] {
            until_equal(served, before + 1.0, || aggregator.metric(served).unwrap());
        }
    }

    fn services(&mut self) -> &mut TokenServices {
        self.world.tokens.as_mut().unwrap()
    }

    /// The attesters of the leader's and of the helper's tokens.
    fn attesters(&self) -> [&Service; 2] {
        self.world.tokens.as_ref().unwrap().chains.each_ref().map(|chain| &chain.attester)
    }

    /// The issuers of the leader's and of the helper's tokens.
    fn issuers(&self) -> [&Service; 2] {
        self.world.tokens.as_ref().unwrap().chains.each_ref().map(|chain| &chain.issuer)
    }

    /// How many tokens the attesters have granted since they started.
    fn granted(&self) -> f64 {
        let granted = |service: &Service| service.metric("sotto_attester_granted_total").unwrap();
        self.attesters().map(granted).iter().sum()
    }

    /// A device without an attestation.
    fn bare_phone(&mut self) -> Phone {
        self.devices += 1;
        let source = Arc::new(Source::new(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        Phone::new(&self.world, &self.trust, source, self.devices).unwrap()
    }

    /// An honest device.
    fn phone(&mut self, name: &str) -> Phone {
        self.bare_phone().attested(InsecureName::new(name).unwrap())
    }

    /// Honest devices with these minutes answer all open recipes.
    fn honest(&mut self, minutes: &[i64]) {
        for minutes in minutes {
            let name = format!("honest {}", self.devices);
            let mut phone = self.phone(&name);
            answer(&mut phone, *minutes);
        }
    }

    /// A recipe, as every device admits it.
    fn admitted(&mut self, recipe: &str) -> Arc<Admitted> {
        let mut phone = self.bare_phone();
        phone.pass_busy().unwrap();
        phone.admitted(recipe).unwrap()
    }

    /// Sends a report to the leader.
    fn upload(&self, admitted: &Admitted, report: &[u8]) -> Response {
        let task = admitted.assessment.task();
        let announced = taskprov::header_value(task.encoded_configuration());
        let fields = [
            ("content-type", MediaType::UploadReq.as_str()),
            (taskprov::HEADER, announced.as_str()),
        ];
        let path = format!("/tasks/{}/reports", task.id());
        let head = head("POST", &path, &fields, report.len());
        let mut leader = Connection::open(self.world.pair.leader.address()).unwrap();
        leader.exchange(&head, report).unwrap()
    }

    /// Collects a recipe: how many devices answered short, middle and long.
    fn collect(&self, recipe: &str, counts: [u64; 3]) {
        let collected = self.world.collect(recipe).unwrap();
        assert_eq!(collected["result"], json!(counts), "{collected}");
        assert_eq!(collected["count"], counts.iter().sum::<u64>());
    }
}

/// One honest device answers every open recipe.
fn answer(phone: &mut Phone, minutes: i64) {
    let done = phone.pass(minutes).unwrap();
    let round = done.tokens.as_ref().unwrap();
    assert_eq!((round.granted, round.waiting), (round.asked, 0), "{round:?}");
    assert_sent(&done);
}

/// Checks that the pass answered at least one recipe and that the leader has all answers.
fn assert_sent(done: &PassReport) {
    assert!(!done.considered.is_empty(), "{:?}", done.silent);
    let taken = Delivery { accepted: done.considered.len(), ..Delivery::default() };
    assert_eq!(done.insecure_delivery, taken);
}

/// How many reports an aggregator has refused for this reason, at upload or later.
fn dropped(aggregator: &Aggregator, reason: &str) -> f64 {
    ["rejected", "dropped"]
        .map(|when| format!("sotto_reports_{when}_total{{reason=\"{reason}\"}}"))
        .map(|name| aggregator.metric(&name).unwrap())
        .iter()
        .sum()
}

/// How many token requests the attesters (or the issuers) have refused for this reason since they
/// started.
fn refused(services: [&Service; 2], reason: &str) -> f64 {
    let refused = |service: &Service| {
        let role = service.name().split('-').next().unwrap();
        service.metric(&format!("sotto_{role}_refused_total{{reason=\"{reason}\"}}")).unwrap()
    };
    services.map(refused).iter().sum()
}

/// Waits until the two are equal, and fails if they never are.
fn until_equal(what: &str, expected: f64, actual: impl Fn() -> f64) {
    let deadline = Instant::now() + PATIENCE;
    while actual() != expected {
        assert!(Instant::now() < deadline, "{what}: {} and not {expected}", actual());
        thread::sleep(Duration::from_millis(20));
    }
}
