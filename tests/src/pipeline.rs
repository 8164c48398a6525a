//! Collections from the coin to the result: devices that toss, a leader and a helper as processes,
//! a collector. Beside it the same without any of them: the coins in memory, and what they add up
//! to.
//!
//! A device has its own seed. The toss of the device library, with that seed, must send what the
//! mechanism alone gives with the same seed. So the sum that both aggregators hold together must be
//! the sum in memory, to the last unit, and so must the result be what the sum in memory gives.
//! Noise of aggregators comes after that sum: nobody but an aggregator knows its draws, so the
//! result is then compared with what such noise can be.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_executor::block_on;
use rusqlite::{Connection, OpenFlags};
use sotto_client::{
    AuthToken, Collected, CollectionJob, Collector, HttpOptions, HttpTransport, Poll, QueryResult,
};
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_dp::mechanism::{Mechanism, Value};
use sotto_protocol::Moment;
use sotto_protocol::admission::{Admitted, View, Watch};
use sotto_protocol::device::{Change, DeviceStore, Host, MemoryState, consider, follow, toss};
use sotto_protocol::expression::Attributes;
use sotto_protocol::recipe::{Assessment, derive_task, mechanism};
use sotto_protocol::trust::{Floors, Trust, TrustFile};
use sotto_protocol::uniform_below;
use sotto_store::{SqliteOptions, SqliteStore, StoredTask, TaskStore};
use sotto_testing::keys::{key, keypair_from, rng, witness};
use sotto_testing::log::{Log, ORIGIN, at, entry, policy};
use sotto_testing::recipe::{HOUR, key_set, key_set_entry, pinned, recipe_at, set_query};
use sotto_vdaf::{AggregateResult, AggregateShare};
use sotto_wire::recipe::{
    AttributeType, KeySet, Noise, Privacy, Probability, Query, Randomizer, Recipe, Sampling,
};
use sotto_wire::{Encode, EntryKind, HpkeConfig, Interval, Time};

use crate::devices::upload_all;
use crate::pair::{Aggregator, Pair};

/// Much longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(120);
const POLL_PAUSE: Duration = Duration::from_millis(5);
/// Reports that are made before they are uploaded.
const AT_ONCE: usize = 256;
const CONNECTIONS: usize = 4;
const COLLECTOR_TOKEN: &str = "token-of-the-collector";
/// So many deviations away, noise of a normal law is once in 10^32 draws.
const FAR: f64 = 12.0;

/// Devices with the same data.
#[derive(Clone, Debug)]
pub struct Group {
    /// What they know about themselves.
    pub attributes: Attributes,
    /// What the mechanism gets to randomize.
    pub value: Value,
    /// The probability with which each takes part.
    pub rate: Probability,
    /// How many there are.
    pub devices: u64,
}

/// One collection, as the coins in memory have it.
#[derive(Clone, Debug)]
pub struct Batch {
    question: usize,
    time: Moment,
    /// The sums without noise of aggregators.
    pub sums: Vec<i128>,
    /// How many reports were sent.
    pub reports: u64,
    /// How many devices of each group took part.
    pub taking_part: Vec<u64>,
}

/// A leader and a helper that serve the tasks of some recipes, and what devices know about them.
#[derive(Debug)]
pub struct Pipeline {
    pair: Pair,
    trust: Trust,
    view: View,
    state: MemoryState,
    questions: Vec<Arc<Admitted>>,
    transport: Arc<HttpTransport>,
    newest: u64,
}

/// A recipe without a claim that asks this, of devices that know their `region`, their `apps` and
/// their `trace`.
pub fn asking(
    name: &str,
    query: Query,
    sampling: Sampling,
    randomizer: Randomizer,
    noise: Option<Noise>,
) -> Result<Recipe> {
    let mut recipe = recipe_at(name, now()?);
    recipe.attributes = [
        ("region".parse()?, AttributeType::Int),
        ("apps".parse()?, AttributeType::Strings),
        ("trace".parse()?, AttributeType::Vector(8)),
    ]
    .into();
    recipe.privacy = Privacy::InsecureUnbounded;
    recipe.aggregation.min_batch = 1;
    (recipe.sampling, recipe.randomizer, recipe.noise) = (sampling, randomizer, noise);
    set_query(&mut recipe, query);
    Ok(recipe)
}

/// Tosses a device's coins and randomizes its value, with the mechanism alone. `None`: nothing is
/// sent. Else whether the device took part, and what is summed.
pub fn in_memory(
    mechanism: &Mechanism,
    group: &Group,
    dummy_rate: &Probability,
    seed: u64,
) -> Option<(bool, Value)> {
    let mut rng = rng(seed);
    let mut coin = |rate: &Probability| uniform_below(rate.den(), &mut rng) < rate.num();
    if coin(&group.rate) {
        return Some((true, mechanism.randomize(group.value.clone(), &mut rng)));
    }
    coin(dummy_rate).then(|| mechanism.dummy(&mut rng)).flatten().map(|dummy| (false, dummy))
}

impl Pipeline {
    /// Starts both aggregators with the tasks of these recipes, publishes their keys and the
    /// recipes in a log, and lets a device read it.
    pub fn start(mut recipes: Vec<Recipe>) -> Result<Self> {
        let mut pair = Pair::new()?;
        let collector = collector_key();
        for recipe in &mut recipes {
            recipe.parties.leader.url.clone_from(&pair.leader.url);
            recipe.parties.helper.url.clone_from(&pair.helper.url);
            recipe.parties.collector_hpke_config = KeySet::config_text(collector.config());
        }
        serve(&mut pair, &recipes, collector.config())?;
        pair.start()?;
        // The hour before this one. Earlier hours are for more batches of one recipe.
        let newest = now()? / HOUR * HOUR - HOUR;
        let published = newest - 22 * HOUR;
        let mut entries = Vec::new();
        for (operator, aggregator) in
            [("leader.example", &pair.leader), ("helper.example", &pair.helper)]
        {
            let operator = key(operator);
            let set = KeySet {
                url: Some(aggregator.url.clone()),
                hpke_configs: vec![KeySet::config_text(&aggregator.hpke_config()?)],
                ..key_set(&operator, 1, published)
            };
            entries.push(key_set_entry(&set, &operator));
        }
        let author = key("author.example");
        entries.extend(
            recipes.iter().map(|recipe| entry(EntryKind::Recipe, &recipe.to_json(), &[&author])),
        );
        let mut log = Log::empty();
        log.publish(&entries, at(published), &key(ORIGIN));
        let trust = trust()?;
        let mut watch = Watch::new(log.files.clone());
        watch.refresh(&trust, Moment(published))?;
        let mut state = MemoryState::default();
        let view = follow(&mut state, &mut watch, &trust, Moment(published))?;
        let admitted = |recipe: &Recipe| {
            let verdict = watch.recipes().get(&recipe.id()).context("the log lacks a recipe")?;
            verdict.clone().map_err(|silence| anyhow!("{}: {silence}", recipe.name))
        };
        let questions = recipes.iter().map(admitted).collect::<Result<_>>()?;
        let transport = Arc::new(HttpTransport::new(HttpOptions::default())?);
        Ok(Self { pair, trust, view, state, questions, transport, newest })
    }

    /// The recipe with this index, as every party has checked it.
    pub fn question(&self, index: usize) -> &Assessment {
        &self.questions[index].assessment
    }

    /// Lets every device of the groups toss, and uploads what they send, as the batch of the hour
    /// that is `back` hours before the newest; there are 22. With `only_senders`, devices that send
    /// nothing in memory are not simulated at all.
    pub fn send(
        &self,
        question: usize,
        back: u64,
        groups: &[Group],
        only_senders: bool,
        seed: u64,
    ) -> Result<Batch> {
        let assessment = self.question(question);
        let (recipe, task) = (assessment.recipe(), assessment.task());
        let mechanism = mechanism(recipe)?;
        let mut batch = Batch {
            question,
            time: Moment(self.newest - back * HOUR),
            sums: vec![0; mechanism.encoding().numbers() as usize],
            reports: 0,
            taking_part: Vec::new(),
        };
        let (mut seeds, mut waiting) = (seed.., Vec::new());
        let upload = |reports: &mut Vec<Vec<u8>>| {
            let leader = self.pair.leader.address();
            upload_all(task, leader, reports, CONNECTIONS, PATIENCE, &AtomicUsize::new(0))?;
            reports.clear();
            anyhow::Ok(())
        };
        for group in groups {
            let mut taking_part = 0;
            for seed in seeds.by_ref().take(usize::try_from(group.devices)?) {
                let expected = in_memory(&mechanism, group, &recipe.sampling.dummy_rate, seed);
                if only_senders && expected.is_none() {
                    continue;
                }
                let sent = self.toss(question, group, batch.time, seed)?;
                ensure!(sent.is_some() == expected.is_some(), "device {seed} tossed other coins");
                waiting.extend(sent);
                if let Some((took_part, value)) = expected {
                    taking_part += u64::from(took_part);
                    batch.reports += 1;
                    add(&mut batch.sums, &value);
                }
                if waiting.len() == AT_ONCE {
                    upload(&mut waiting)?;
                }
            }
            batch.taking_part.push(taking_part);
        }
        upload(&mut waiting)?;
        Ok(batch)
    }

    /// All steps of one device: it considers the recipe, tosses, and makes a report.
    fn toss(
        &self,
        question: usize,
        group: &Group,
        time: Moment,
        seed: u64,
    ) -> Result<Option<Vec<u8>>> {
        let (admitted, host) = (
            &self.questions[question],
            Host { conditions_met: true, attributes: &group.attributes, learner: None },
        );
        let (state, view) = (self.state.state(), &self.view);
        let step = consider(state, admitted, view, &self.trust, &host, time, &mut rng(0));
        let step = step.map_err(|silence| anyhow!("a device refuses: {silence}"))?;
        ensure!(step.silence.is_none(), "a device is not asked");
        match toss(step.ticket, &host, &mut rng(seed))? {
            Some(Change::Answered { pending, .. }) => Ok(Some(pending.report)),
            None => Ok(None),
            Some(_) => Err(anyhow!("a toss gave something else")),
        }
    }

    /// Waits until everything is summed, compares the sums of both aggregators with those in memory,
    /// collects, and compares the results.
    pub fn collect(&self, batches: &[Batch]) -> Result<Vec<QueryResult>> {
        let all: u64 = batches.iter().map(|batch| batch.reports).sum();
        let deadline = Instant::now() + PATIENCE;
        while self.pair.leader.metric("sotto_reports_aggregated_total")? < all as f64 {
            ensure!(Instant::now() < deadline, "the reports are not summed in {PATIENCE:?}");
            thread::sleep(POLL_PAUSE);
        }
        for batch in batches {
            let name = &self.question(batch.question).recipe().name;
            self.check_stored(batch).with_context(|| format!("{name}: before any noise"))?;
        }
        // The leader works on all of them while the first one is waited for.
        let jobs: Vec<_> = batches.iter().map(|batch| self.ask(batch)).collect::<Result<_>>()?;
        let waited = batches.iter().zip(jobs).map(|(batch, (collector, job, poll))| {
            let name = &self.question(batch.question).recipe().name;
            let collected = wait(&collector, job, poll).with_context(|| name.clone())?;
            self.check_result(batch, &collected).with_context(|| format!("{name}: the result"))
        });
        waited.collect()
    }

    fn ask(&self, batch: &Batch) -> Result<(Collector, CollectionJob, Poll)> {
        let task = self.question(batch.question).task().clone();
        let query = sotto_wire::Query::TimeInterval(Interval::bucket(task.time(batch.time))?);
        let auth = AuthToken::Bearer(Secret::new(COLLECTOR_TOKEN.to_owned()));
        let collector = Collector::new(task, collector_key(), auth, self.transport.clone());
        let (job, poll) = collector.start(&query, &mut rng(1))?;
        Ok((collector, job, poll))
    }

    /// The shares that the aggregators hold, added, are what the coins in memory gave.
    fn check_stored(&self, batch: &Batch) -> Result<()> {
        let task = self.question(batch.question).task();
        let share = |aggregator: &Aggregator| {
            let database = aggregator.data_dir().join("sotto.sqlite");
            stored(&database, task.id().as_bytes(), task.time(batch.time))
        };
        let (leader, reports) = share(&self.pair.leader)?;
        let (helper, again) = share(&self.pair.helper)?;
        ensure!(reports == again && reports == batch.reports, "{reports} and {again} reports");
        let found = task.vdaf().unshard(&leader, &helper, reports)?;
        ensure!(found.as_slice() == batch.sums, "{found:?} is not {:?}", batch.sums);
        Ok(())
    }

    /// The result is the one that the sums in memory give; with noise of aggregators, as far away as
    /// two draws can be.
    fn check_result(&self, batch: &Batch, collected: &Collected) -> Result<QueryResult> {
        let assessment = self.question(batch.question);
        let recipe = Some((assessment.recipe(), None));
        let found = QueryResult::new(assessment.task(), recipe, collected)?;
        let mut expected = collected.clone();
        expected.collection.report_count = batch.reports;
        expected.collection.result = match &collected.collection.result {
            AggregateResult::Vector(_) => AggregateResult::Vector(batch.sums.clone()),
            AggregateResult::Scalar(_) => AggregateResult::Scalar(batch.sums[0]),
        };
        match assessment.recipe().noise {
            None => {
                let expected = QueryResult::new(assessment.task(), recipe, &expected)?;
                ensure!(found == expected, "{found:?} is not {expected:?}");
            }
            Some(Noise::ServerGaussian { sigma_micro }) => {
                // That of vectors is in units of the clip.
                let unit = mechanism(assessment.recipe())?.clip().unwrap_or(1);
                let sigma = sigma_micro as f64 / 1e6 * 2_f64.sqrt() * unit as f64;
                ensure!(found.count == batch.reports, "{} reports", found.count);
                for (noisy, sum) in found.sums.as_slice().iter().zip(&batch.sums) {
                    let noise = (noisy - sum) as f64;
                    ensure!(noise.abs() < FAR * sigma, "a noise of {noise} for sigma {sigma}");
                }
            }
        }
        Ok(found)
    }
}

fn wait(collector: &Collector, job: CollectionJob, mut poll: Poll) -> Result<Collected> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Poll::Ready(collection) = poll {
            return Ok(Collected { collection, job });
        }
        ensure!(Instant::now() < deadline, "no result in {PATIENCE:?}");
        thread::sleep(POLL_PAUSE);
        poll = collector.poll(&job, &mut rng(2))?;
    }
}

/// The share of a batch in an aggregator's store, and how many reports are in it.
fn stored(database: &Path, task: &[u8], time: Time) -> Result<(AggregateShare, u64)> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let query = "SELECT share, count FROM buckets JOIN tasks USING (task) \
                 WHERE task_id = ? AND bucket = ?";
    let bucket = i64::try_from(time.as_units())?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?));
    let (share, count) = connection.query_row(query, (task, bucket), read)?;
    Ok((AggregateShare::from_store_bytes(&share)?, u64::try_from(count)?))
}

fn add(sums: &mut [i128], value: &Value) {
    match value {
        Value::Bit(bit) => sums[0] += i128::from(*bit),
        Value::Number(number) => sums[0] += i128::from(*number),
        Value::OneHot(symbol) => sums[*symbol as usize] += 1,
        Value::Labels(labels) => labels.iter().for_each(|label| sums[*label as usize] += 1),
        Value::Vector(numbers) => {
            sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += i128::from(*number));
        }
    }
}

/// Gives both aggregators the tasks of the recipes, as if they had been announced.
fn serve(pair: &mut Pair, recipes: &[Recipe], collector: &HpkeConfig) -> Result<()> {
    let shared = format!(
        "[taskprov]\nleader = \"{}\"\nhelper = \"{}\"\nmin_batch_size = 1\n\
         leader_authentication_token = \"token-between-leader-and-helper\"\n\
         verify_key_init = \"{}\"\ncollector_hpke_config = \"{}\"\n",
        pair.leader.url,
        pair.helper.url,
        URL_SAFE_NO_PAD.encode([4; 32]),
        URL_SAFE_NO_PAD.encode(collector.to_bytes())
    );
    let own = format!("collector_authentication_token = \"{COLLECTOR_TOKEN}\"\n");
    for (aggregator, own) in [(&mut pair.leader, &*own), (&mut pair.helper, "")] {
        aggregator.configure(&format!("{shared}{own}"))?;
        // In band they would not join a task with noise; what is stored is served.
        let store = SqliteStore::open(&aggregator.data_dir(), SqliteOptions::default())?;
        for recipe in recipes {
            let task = derive_task(recipe).map_err(|error| anyhow!("{}: {error}", recipe.name))?;
            let announced = StoredTask::Announced(task.encoded_configuration().to_vec());
            block_on(store.put_task(*task.id(), announced))?;
        }
    }
    Ok(())
}

fn collector_key() -> HpkeKeypair {
    keypair_from(1, 99)
}

/// A device without history, tokens or relay, which answers without a claim.
fn trust() -> Result<Trust> {
    let floors = Floors {
        dishonest_devices: 0,
        min_population: 1,
        max_sending_epsilon: 100.0,
        ..Floors::default()
    };
    Ok(Trust::try_from(TrustFile {
        operators: pinned(&["leader.example", "helper.example"]),
        floors,
        insecure_no_min_age: true,
        insecure_exact: true,
        insecure_no_tokens: true,
        insecure_direct: true,
        insecure_fresh_start: true,
        ..TrustFile::new(policy(&key(ORIGIN), &[0, 1, 2].map(witness), 2))
    })?)
}

fn now() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}
