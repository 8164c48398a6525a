//! Both aggregators of one task, and reports that are altered before they are sealed.

use rand_chacha::ChaCha20Rng;
use rand_core::Rng;
use sotto_crypto::{HpkeKeypair, Secret, hpke};
use sotto_protocol::helper::{self, HelperOutcome};
use sotto_protocol::leader::aggregate::{
    JobInput, LeaderJob, LeaderOutcome, consume_aggregation_job_resp,
    produce_aggregation_job_init_req,
};
use sotto_protocol::{
    AggregatorTask, BucketAggregates, HpkeKeyring, Moment, ReleaseRules, Task, client,
};
use sotto_vdaf::{Measurement, VdafConfig};
use sotto_wire::labels::{input_share_info, vdaf_context};
use sotto_wire::{
    BatchId, BatchMode, Decode, Duration, Encode, Extensions, HpkeCiphertext, HpkeConfigId,
    InputShareAad, Interval, PublicShare, Report, ReportId, ReportMetadata, Role,
    TaskConfiguration, TaskExtension, TaskId, TaskParameters, Time, TimePrecision, Url, VdafType,
};

use super::keys::{keypair, keyring, rng};

/// The clock of all tests: a whole unit of the precision.
pub const NOW: Moment = Moment(1_700_000_000);

/// Seconds in a unit of time.
pub const PRECISION_S: u64 = 100;

/// The unit that `NOW` begins.
pub const UNIT: u64 = NOW.0 / PRECISION_S;

/// The batch of the leader-selected tests.
pub const BATCH: BatchId = BatchId::new([0xba; 32]);

pub fn unit(offset: i64) -> Time {
    Time::new(UNIT.checked_add_signed(offset).unwrap())
}

pub fn interval(start: i64, units: u64) -> Interval {
    Interval::new(unit(start), Duration::new(units)).unwrap()
}

pub const LEADER_KEY: u8 = 1;
pub const HELPER_KEY: u8 = 2;
pub const COLLECTOR_KEY: u8 = 3;

pub fn parameters(vdaf: &VdafConfig, mode: BatchMode) -> TaskParameters {
    TaskParameters {
        task_info: b"sixteen random bytes".to_vec(),
        leader_aggregator_endpoint: Url::new("https://leader.example/").unwrap(),
        helper_aggregator_endpoint: Url::new("https://helper.example/dap").unwrap(),
        time_precision: TimePrecision::from_seconds(PRECISION_S).unwrap(),
        min_batch_size: 3,
        batch_mode: mode,
        vdaf_type: VdafType::new(vdaf.vdaf_type()),
        vdaf_configuration: vdaf.encode_configuration(),
        extensions: Vec::new(),
    }
}

/// What an aggregator of a task without tokens knows.
pub fn aggregator_task(task: &Task, role: Role, collector: &HpkeKeypair) -> AggregatorTask {
    AggregatorTask {
        task: task.clone(),
        role,
        verify_key: Secret::new([9; 32]),
        collector_hpke_config: collector.config().clone(),
        taskprov: false,
        tokens: None,
        series: None,
        release: ReleaseRules::default(),
    }
}

/// Both aggregators of a task, with their keys.
pub struct Parties {
    pub leader: AggregatorTask,
    pub helper: AggregatorTask,
    pub leader_keys: HpkeKeyring,
    pub helper_keys: HpkeKeyring,
    pub rng: ChaCha20Rng,
}

impl Parties {
    pub fn new(vdaf: &VdafConfig, mode: BatchMode) -> Self {
        Self::with(parameters(vdaf, mode))
    }

    pub fn count() -> Self {
        Self::new(&VdafConfig::count(), BatchMode::TimeInterval)
    }

    /// Prio3Count in an interval of ten units that began five units ago.
    pub fn count_in_interval() -> Self {
        let mut parameters = parameters(&VdafConfig::count(), BatchMode::TimeInterval);
        parameters.extensions.push(TaskExtension::TaskInterval(interval(-5, 10)));
        Self::with(parameters)
    }

    pub fn with(parameters: TaskParameters) -> Self {
        let configuration = TaskConfiguration::new(parameters).unwrap();
        let task = Task::new(TaskId::new([7; 32]), configuration).unwrap();
        let aggregator = |role| aggregator_task(&task, role, &keypair(COLLECTOR_KEY));
        Self {
            leader: aggregator(Role::Leader),
            helper: aggregator(Role::Helper),
            leader_keys: keyring(&[LEADER_KEY]),
            helper_keys: keyring(&[HELPER_KEY]),
            rng: rng(42),
        }
    }

    pub fn mode(&self) -> BatchMode {
        self.leader.task.configuration().batch_mode()
    }

    pub fn batch_id(&self) -> Option<BatchId> {
        (self.mode() == BatchMode::LeaderSelected).then_some(BATCH)
    }

    /// A device's report.
    pub fn report(&mut self, measurement: &Measurement, time: Time) -> Vec<u8> {
        client::produce_report(
            &self.leader.task,
            keypair(LEADER_KEY).config(),
            keypair(HELPER_KEY).config(),
            measurement,
            time,
            None,
            &mut self.rng,
        )
        .unwrap()
    }

    /// Reports of `true` at this moment, for tasks of Prio3Count.
    pub fn reports(&mut self, count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|_| self.report(&Measurement::Count(true), unit(0))).collect()
    }

    /// A job of `count` new reports.
    pub fn job(&mut self, count: usize) -> LeaderJob {
        let reports = self.reports(count);
        self.produce(&reports)
    }

    pub fn produce(&self, reports: &[Vec<u8>]) -> LeaderJob {
        self.produce_at(reports, NOW)
    }

    pub fn produce_at(&self, reports: &[Vec<u8>], now: Moment) -> LeaderJob {
        let reports: Vec<&[u8]> = reports.iter().map(Vec::as_slice).collect();
        let job = JobInput { reports: &reports, now, batch_id: self.batch_id() };
        produce_aggregation_job_init_req(&self.leader, &self.leader_keys, &job).unwrap()
    }

    /// The helper's answer to a request, with nothing spent before.
    pub fn answer(&self, request: &[u8]) -> HelperOutcome {
        self.answer_at(request, NOW)
    }

    pub fn answer_at(&self, request: &[u8], now: Moment) -> HelperOutcome {
        let parsed = helper::parse_aggregation_job_init_req(&self.helper, request).unwrap();
        let spent = vec![None; parsed.reports().len()];
        let keys = &self.helper_keys;
        helper::consume_aggregation_job_init_req(&self.helper, keys, parsed, &spent, now).unwrap()
    }

    /// A whole job: request, answer, both outcomes.
    pub fn aggregate(&self, reports: &[Vec<u8>]) -> (LeaderOutcome, HelperOutcome) {
        let job = self.produce(reports);
        let helper = self.answer(&job.request);
        (consume_aggregation_job_resp(job, &helper.response).unwrap(), helper)
    }
}

/// Asserts that both aggregators counted the same reports in the same buckets. Returns how many.
#[track_caller]
pub fn assert_same_books(leader: &BucketAggregates, helper: &BucketAggregates) -> u64 {
    let book = |buckets: &BucketAggregates| -> Vec<_> {
        let aggregates = buckets.iter();
        aggregates.map(|(bucket, a)| (*bucket, a.count, a.checksum, a.first, a.last)).collect()
    };
    assert_eq!(book(leader), book(helper));
    leader.values().map(|aggregate| aggregate.count).sum()
}

/// A report to be altered before it is sealed: the client authenticates whatever is set here.
#[derive(Clone)]
pub struct Craft {
    pub report_id: ReportId,
    pub time: Time,
    /// Extension lists without their length, legal or not.
    pub public_extensions: Vec<u8>,
    pub leader_extensions: Vec<u8>,
    pub helper_extensions: Vec<u8>,
    pub public_share: Vec<u8>,
    pub leader_share: Vec<u8>,
    pub helper_share: Vec<u8>,
    /// Bytes after the plaintext share.
    pub leader_trailing: Vec<u8>,
    pub helper_trailing: Vec<u8>,
}

impl Craft {
    pub fn new(parties: &mut Parties, measurement: &Measurement) -> Self {
        let mut report_id = [0; 16];
        parties.rng.fill_bytes(&mut report_id);
        let task = &parties.leader.task;
        let context = vdaf_context(task.id());
        let shares =
            task.vdaf().shard(&context, measurement, &report_id, &mut parties.rng).unwrap();
        Self {
            report_id: ReportId::new(report_id),
            time: unit(0),
            public_extensions: Vec::new(),
            leader_extensions: Vec::new(),
            helper_extensions: Vec::new(),
            public_share: shares.public_share.clone(),
            leader_share: shares.leader.to_vec(),
            helper_share: shares.helper.to_vec(),
            leader_trailing: Vec::new(),
            helper_trailing: Vec::new(),
        }
    }

    pub fn seal(&self, parties: &mut Parties) -> Report<'static> {
        let report_metadata = ReportMetadata {
            report_id: self.report_id,
            time: self.time,
            public_extensions: raw_extensions(&self.public_extensions),
        };
        let public_share = PublicShare::new(self.public_share.clone()).unwrap();
        let aad = InputShareAad {
            task_id: *parties.leader.task.id(),
            task_configuration: parties.leader.task.encoded_configuration(),
            report_metadata: &report_metadata,
            public_share: &public_share,
        }
        .to_bytes();
        let mut seal = |role, key, extensions: &[u8], share: &[u8], trailing: &[u8]| {
            let mut plaintext = raw_extensions(extensions).to_bytes();
            plaintext.extend_from_slice(&u32::try_from(share.len()).unwrap().to_be_bytes());
            plaintext.extend_from_slice(share);
            plaintext.extend_from_slice(trailing);
            let info = input_share_info(role);
            hpke::seal(keypair(key).config(), &info, &aad, &plaintext, &mut parties.rng).unwrap()
        };
        let (leader, helper) = (&self.leader_share, &self.helper_share);
        Report {
            leader_encrypted_input_share: seal(
                Role::Leader,
                LEADER_KEY,
                &self.leader_extensions,
                leader,
                &self.leader_trailing,
            ),
            helper_encrypted_input_share: seal(
                Role::Helper,
                HELPER_KEY,
                &self.helper_extensions,
                helper,
                &self.helper_trailing,
            ),
            report_metadata,
            public_share,
        }
    }
}

fn raw_extensions(list: &[u8]) -> Extensions<'static> {
    let mut bytes = u16::try_from(list.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend_from_slice(list);
    Extensions::from_bytes(&bytes).unwrap().into_owned()
}

/// An extension list of these types, each without data.
pub fn extension_types(types: &[u16]) -> Vec<u8> {
    types.iter().flat_map(|t| [t.to_be_bytes(), [0, 0]]).flatten().collect()
}

/// The ciphertext with another key id.
pub fn under_key(ciphertext: &HpkeCiphertext<'_>, id: u8) -> HpkeCiphertext<'static> {
    let (enc, payload) = (ciphertext.enc().to_vec(), ciphertext.payload().to_vec());
    HpkeCiphertext::new(HpkeConfigId::new(id), enc, payload).unwrap()
}

/// The ciphertext with one bit of its payload flipped.
pub fn corrupted(ciphertext: &HpkeCiphertext<'_>) -> HpkeCiphertext<'static> {
    let mut payload = ciphertext.payload().to_vec();
    payload[0] ^= 1;
    HpkeCiphertext::new(ciphertext.config_id(), ciphertext.enc().to_vec(), payload).unwrap()
}
