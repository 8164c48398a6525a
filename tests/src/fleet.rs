//! Vectors with noise of the devices, through everything there is: whole devices with tokens of two
//! issuers, a log, a relay, gateways, leader, helper and the collector, each server a process.
//!
//! A device here has a seed, and the toss of its answer begins that seed's stream. So the noise in
//! memory is the noise that was sent, and the result must be the same sum, to the last unit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rand_core::{CryptoRng, Rng};
use sotto_client::{
    Delivery, Host, HttpOptions, HttpTransport, InsecureName, Log, Participant, QueryResult,
};
use sotto_dp::mechanism::Value;
use sotto_dp::mechanism::vector::clip;
use sotto_protocol::Moment;
use sotto_protocol::admission::Admitted;
use sotto_protocol::device::MemoryState;
use sotto_protocol::expression::{Attributes, Value as Attribute};
use sotto_testing::keys::rng;
use sotto_wire::recipe::Query;

use crate::large::{on_threads, peaks};
use crate::phone::{now, trust};
use crate::pipeline::{Group, in_memory};
use crate::world::World;

const RECIPE: &str = "vectors";
const ATTRIBUTE: &str = "embedding";
/// Of the smallest batch together, in units of the clip.
const SIGMA: &str = "4";
/// Before the toss, devices draw from streams that the toss does not use.
const EARLY: u64 = 1 << 32;
/// Much longer than a run takes.
const PATIENCE: Duration = Duration::from_secs(600);
/// The pause before a device that was turned away tries again.
const PAUSE: Duration = Duration::from_millis(200);

/// All parties, and devices that are ready to answer one recipe.
pub struct Fleet {
    world: World,
    devices: Vec<Mutex<Device>>,
    length: u32,
}

/// What an answer of all devices took, from the first device's pass on.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// Until the leader had all reports.
    pub accepted: Duration,
    /// Until the collector had the result.
    pub collected: Duration,
}

/// A device that answers with a vector of its own.
struct Device {
    participant: Participant<MemoryState>,
    seed: u64,
    vector: Vec<f64>,
    may_answer: Arc<AtomicBool>,
    /// The number of streams drawn so far.
    drawn: Arc<AtomicU64>,
}

impl Fleet {
    /// Starts all parties, the relay with these settings, publishes the recipe, and lets every device
    /// read it and fetch its two tokens, `lanes` at once. All devices have one address here, so
    /// nothing is limited by source.
    pub fn start(length: u32, count: u64, lanes: usize, relay: &str) -> Result<Self> {
        let mut world = World::arranged(|world| {
            world.oblivious.relay = format!("{relay}\n[sources]\nmax = 0\n");
            world.add_tokens()
        })?;
        world.start_with_keys()?;
        let (dimension, attribute) = (length.to_string(), format!("{ATTRIBUTE}:vector({length})"));
        let mut question = vec!["--purpose", "Where is everybody?", "--kind", "vector_sum"];
        question.extend(["--attribute", &attribute, "--mapping", ATTRIBUTE]);
        question.extend(["--dimension", &dimension, "--device-sigma", SIGMA]);
        world.publish_question(RECIPE, count, &question)?;
        for aggregator in [&world.pair.leader, &world.pair.helper] {
            world.wait_for(aggregator, "sotto_recipes_served", 1.0)?;
        }
        let transport = Arc::new(HttpTransport::new(HttpOptions::default())?);
        let at = now();
        let device = |seed| Device::new(&world, &transport, length, seed, at).map(Mutex::new);
        let devices = (0..count).map(device).collect::<Result<_>>()?;
        let fleet = Self { world, devices, length };
        fleet.each(lanes, Device::fetch_tokens)?;
        Ok(fleet)
    }

    /// Lets every device answer, `lanes` at once, collects, and compares with the sum in memory.
    pub fn answer(&self, lanes: usize) -> Result<Took> {
        let begin = Instant::now();
        self.each(lanes, Device::answer)?;
        let accepted = begin.elapsed();
        let count = self.devices.len() as f64;
        self.world.wait_for(&self.world.pair.leader, "sotto_reports_aggregated_total", count)?;
        let collected = self.world.collect(RECIPE)?;
        let took = Took { accepted, collected: begin.elapsed() };
        let result = QueryResult::from_json(collected.to_string().as_bytes())?;
        ensure!(result.count == self.devices.len() as u64, "{} reports", result.count);
        ensure!(result.sums.as_slice() == self.in_memory()?, "the sum is wrong");
        Ok(took)
    }

    /// The peak memory of relay, leader and helper so far, in bytes.
    pub fn peaks(&self) -> Result<[(&'static str, u64); 3]> {
        peaks(&self.world.relay, &self.world.pair)
    }

    /// The sum of what the devices hold, clipped, with the noise that their seeds give.
    fn in_memory(&self) -> Result<Vec<i128>> {
        let admitted = self.device(0).admitted()?;
        let (mechanism, recipe) = (admitted.assessment.mechanism(), admitted.assessment.recipe());
        let Query::VectorSum(query) = &recipe.query else { bail!("not a sum of vectors") };
        let bound = mechanism.clip().context("vectors have a clip")?;
        let sums = Mutex::new(vec![0; self.length as usize]);
        self.each(thread::available_parallelism()?.get(), |device| {
            let sent = clip(&device.vector, self.length, query.fraction_bits, bound);
            let group = Group {
                attributes: Attributes::new(),
                value: Value::Vector(sent),
                rate: recipe.sampling.rate,
                devices: 1,
            };
            let tossed = in_memory(mechanism, &group, &recipe.sampling.dummy_rate, device.seed);
            let Some((true, Value::Vector(noisy))) = tossed else { bail!("nothing is sent") };
            let mut sums = sums.lock().unwrap_or_else(PoisonError::into_inner);
            sums.iter_mut().zip(noisy).for_each(|(sum, number)| *sum += i128::from(number));
            Ok(())
        })?;
        Ok(sums.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn device(&self, index: usize) -> MutexGuard<'_, Device> {
        self.devices[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets every device do this, on so many threads.
    fn each(&self, threads: usize, work: impl Fn(&mut Device) -> Result<()> + Sync) -> Result<()> {
        let next = AtomicUsize::new(0);
        on_threads(threads, || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= self.devices.len() {
                    return Ok(());
                }
                work(&mut self.device(index)).with_context(|| format!("device {index}"))?;
            }
        })
    }
}

impl Device {
    fn new(
        world: &World,
        transport: &Arc<HttpTransport>,
        length: u32,
        seed: u64,
        at: Moment,
    ) -> Result<Self> {
        let mut host = Host::new(Arc::<HttpTransport>::clone(transport));
        let (drawn, may_answer) =
            (Arc::new(AtomicU64::new(EARLY)), Arc::new(AtomicBool::new(false)));
        let (streams, ready) = (Arc::clone(&drawn), Arc::clone(&may_answer));
        host.random = Arc::new(move || {
            let mut rng = rng(seed);
            rng.set_stream(streams.fetch_add(1, Ordering::SeqCst));
            Box::new(rng) as Box<dyn CryptoRng>
        });
        host.attestor = Some(Box::new(InsecureName::new(format!("device {seed}"))?));
        host.conditions = Box::new(move || Ok(ready.load(Ordering::SeqCst)));
        let vector = vector(length, seed);
        let attribute = Attribute::Vector(vector.clone().into());
        host.attributes = Box::new(move || Ok([(ATTRIBUTE.to_owned(), attribute.clone())].into()));
        let trust = trust(world)?;
        let log = Log::at(&world.log.url(), &host, &trust)?;
        // With a clock that stands still, tokens come at once: the toss is what is drawn first.
        let participant = Participant::new(host, trust, MemoryState::default(), log).frozen_at(at);
        Ok(Self { participant, seed, vector, may_answer, drawn })
    }

    /// Reads the log and requests the tokens, and nothing else.
    fn fetch_tokens(&mut self) -> Result<()> {
        let tokens = self.participant.pass()?.tokens.context("no tokens were requested")?;
        ensure!((tokens.granted, tokens.waiting) == (2, 0), "{tokens:?}");
        self.drawn.store(0, Ordering::SeqCst);
        self.may_answer.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Makes the report and sends it, until the leader has it.
    fn answer(&mut self) -> Result<()> {
        let done = self.participant.pass()?;
        ensure!(done.considered.len() == 1, "not considered: {:?}", done.silent);
        let (deadline, mut delivery) = (Instant::now() + PATIENCE, done.insecure_delivery);
        while delivery == (Delivery { waiting: 1, ..Delivery::default() }) {
            ensure!(Instant::now() < deadline, "not accepted in {PATIENCE:?}");
            thread::sleep(PAUSE);
            delivery = self.participant.pass()?.insecure_delivery;
        }
        ensure!(delivery == (Delivery { accepted: 1, ..Delivery::default() }), "{delivery:?}");
        Ok(())
    }

    /// The recipe, as this device has checked it.
    fn admitted(&self) -> Result<Arc<Admitted>> {
        let admitted = self.participant.log().recipes().values().next();
        let admitted = admitted.context("the log has no recipe")?;
        admitted.clone().map_err(|silence| anyhow!("the recipe is refused: {silence}"))
    }
}

/// Numbers of either sign, all of about the same size: a norm of about 0.6.
fn vector(length: u32, seed: u64) -> Vec<f64> {
    let most = f64::from(length).sqrt();
    let mut rng = rng(seed);
    rng.set_stream(u64::MAX);
    (0..length)
        .map(|_| (f64::from(rng.next_u32()) / f64::from(u32::MAX) * 2.0 - 1.0) / most)
        .collect()
}
