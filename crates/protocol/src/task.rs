//! A task as each party holds it. DAP, section "Task Configuration".

use std::sync::Arc;

use sotto_dp::sampler::{DiscreteGaussian, Rate};
use sotto_vdaf::{Vdaf, VdafConfig};
use sotto_wire::limits::MAX_REPORT_LEN;
use sotto_wire::{Encode, Interval, TaskConfiguration, TaskExtension, TaskId, Time};

use crate::Rejection;

/// How far ahead of an aggregator's clock a timestamp may be: the "few minutes" of DAP, section
/// "Input Share Validation". No other check allows for clock skew.
pub const MAX_CLOCK_SKEW_S: u64 = 300;

/// What a report has beside its shares: metadata, two encapsulated keys, two tokens.
pub(crate) const MAX_REPORT_HEAD: usize = 4 * 1024;

/// Sigma is stated in millionths of the unit of a sum.
const SIGMA_UNIT: u64 = 1_000_000;

/// A moment, in POSIX seconds. Hosts pass the operating system's time; tests pass any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

/// What all parties of a task must agree on, byte for byte.
#[derive(Clone, Debug)]
pub struct Task {
    id: TaskId,
    configuration: TaskConfiguration,
    encoded: Arc<[u8]>,
    vdaf: Arc<dyn Vdaf>,
    interval: Option<Interval>,
    noise: Option<DiscreteGaussian>,
}

/// Why a task configuration cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// The VDAF or its parameters are not supported.
    #[error("the VDAF cannot be used: {0}")]
    Vdaf(String),
    /// A task extension is not known, but must be understood.
    #[error("task extension {0:#06x} is not known")]
    UnknownExtension(u16),
    /// The minimum batch is so large that its sum might wrap around the VDAF's field: no collector
    /// could ever get a result.
    #[error(
        "the minimum batch size of {min_batch_size} is too large: sums of more than {max_reports} of \
         this VDAF's measurements may wrap around its field"
    )]
    MayWrap {
        /// The task's minimum batch size.
        min_batch_size: u64,
        /// The most reports whose sum cannot wrap around.
        max_reports: u64,
    },
    /// Reports would be longer than leaders accept.
    #[error(
        "a report would have about {actual} bytes, more than the limit of {MAX_REPORT_LEN}; use \
         fewer elements, or a smaller field"
    )]
    TooLong {
        /// The length of a report without keys and tokens.
        actual: usize,
    },
    /// Something else that no party may accept.
    #[error("{0}")]
    Invalid(&'static str),
}

impl Task {
    /// Checks a configuration and builds its VDAF.
    pub fn new(id: TaskId, configuration: TaskConfiguration) -> Result<Self, TaskError> {
        let (mut interval, mut noise) = (None, None);
        for extension in configuration.extensions().iter() {
            match extension {
                TaskExtension::TaskInterval(value) => interval = Some(*value),
                TaskExtension::ServerNoise { sigma_micro } => {
                    let sigma = Rate::new(*sigma_micro, SIGMA_UNIT)
                        .map_err(|_| TaskError::Invalid("the noise is out of range"))?;
                    noise = Some(DiscreteGaussian::new(sigma));
                }
                TaskExtension::Unknown { extension_type, .. } => {
                    return Err(TaskError::UnknownExtension(*extension_type));
                }
            }
        }
        if configuration.min_batch_size() == 0 {
            return Err(TaskError::Invalid("the minimum batch size must be at least 1"));
        }
        let vdaf = VdafConfig::decode(
            configuration.vdaf_type().value(),
            configuration.vdaf_configuration(),
        )
        .and_then(|config| config.build())
        .map_err(|error| TaskError::Vdaf(error.to_string()))?;
        let sizes = vdaf.sizes();
        let actual = sizes.public_share + sizes.leader_share + sizes.helper_share;
        if actual.max(sizes.aggregate_share) > MAX_REPORT_LEN - MAX_REPORT_HEAD {
            return Err(TaskError::TooLong { actual });
        }
        let encoded = configuration.to_bytes().into();
        let task = Self { id, configuration, encoded, vdaf, interval, noise };
        let min_batch_size = task.configuration.min_batch_size();
        let max_reports = task.max_reports();
        if min_batch_size > max_reports {
            return Err(TaskError::MayWrap { min_batch_size, max_reports });
        }
        Ok(task)
    }

    /// The task's id.
    pub fn id(&self) -> &TaskId {
        &self.id
    }

    /// The agreed configuration.
    pub fn configuration(&self) -> &TaskConfiguration {
        &self.configuration
    }

    /// The configuration as it appears in every HPKE AAD.
    pub fn encoded_configuration(&self) -> &[u8] {
        &self.encoded
    }

    /// The VDAF of the task.
    pub fn vdaf(&self) -> &Arc<dyn Vdaf> {
        &self.vdaf
    }

    /// The interval that timestamps must lie in, if the task has one.
    pub fn interval(&self) -> Option<Interval> {
        self.interval
    }

    /// The noise that each aggregator adds to every element of its share of a batch, if any.
    pub fn noise(&self) -> Option<&DiscreteGaussian> {
        self.noise.as_ref()
    }

    /// How many reports a batch may have before its sum might wrap around in the VDAF's field. Noise
    /// is far smaller than the other half of the field.
    pub fn max_reports(&self) -> u64 {
        self.vdaf.max_reports() / if self.noise.is_some() { 2 } else { 1 }
    }

    /// The timestamp of a moment, in units of the task's precision.
    pub fn time(&self, now: Moment) -> Time {
        Time::from_posix_seconds(now.0, self.configuration.time_precision())
    }

    /// Checks that a timestamp is not too far ahead of the clock. DAP, section "Input Share
    /// Validation".
    pub fn check_clock(&self, time: Time, now: Moment) -> Result<(), Rejection> {
        let start_s = time.start_seconds(self.configuration.time_precision());
        if start_s > now.0.saturating_add(MAX_CLOCK_SKEW_S) {
            return Err(Rejection::ReportTooEarly);
        }
        Ok(())
    }

    /// Checks that a timestamp lies in the task's interval. DAP, section "Input Share Validation".
    pub fn check_interval(&self, time: Time) -> Result<(), Rejection> {
        match self.interval {
            Some(interval) if time < interval.start() => Err(Rejection::TaskNotStarted),
            Some(interval) if time >= interval.end() => Err(Rejection::TaskExpired),
            _ => Ok(()),
        }
    }
}

#[cfg(feature = "server")]
pub use aggregator::{AggregatorTask, HpkeKeyring};

#[cfg(feature = "server")]
mod aggregator {
    use std::sync::Arc;

    use sotto_crypto::{HpkeKeypair, Secret, server_hpke::Opener};
    use sotto_wire::{
        BatchMode, EntryId, HpkeConfig, HpkeConfigId, HpkeConfigList, Role, TaskId, Time,
    };

    use super::Task;
    use crate::token::VerifyToken;
    use crate::{Fault, ReleaseRules, ReplayScope};

    /// A task as one of its aggregators holds it.
    #[derive(Debug)]
    pub struct AggregatorTask {
        /// What everybody knows about it.
        pub task: Task,
        /// Leader or helper.
        pub role: Role,
        /// Shared by the two aggregators, hidden from devices.
        pub verify_key: Secret<[u8; 32]>,
        /// The key that aggregate shares are sealed to.
        pub collector_hpke_config: HpkeConfig,
        /// Whether requests to peers carry the `DAP-Taskprov` header.
        pub taskprov: bool,
        /// Checks the token that each report must hold in this aggregator's share. If `None`, no
        /// token is required and none is understood.
        pub tokens: Option<Arc<dyn VerifyToken>>,
        /// The series that the task is a round of: one token is good for one report of all rounds.
        pub series: Option<EntryId>,
        /// When a batch may be released, beside the minimum batch size.
        pub release: ReleaseRules,
    }

    impl AggregatorTask {
        /// The set of reports within which an id must be new.
        pub fn replay_scope(&self) -> ReplayScope {
            match (&self.tokens, self.series, self.task.configuration().batch_mode()) {
                (Some(_), Some(series), _) => ReplayScope::Series(TaskId::new(*series.as_bytes())),
                (None, _, BatchMode::TimeInterval) => ReplayScope::Bucket,
                _ => ReplayScope::Task,
            }
        }

        /// The window of a leader-selected batch that a report belongs to. Reports of different
        /// windows never share a batch, so that none covers more time than `max_window_s`: one
        /// late report must not spoil a batch. The first window starts with the task. Always 0 for
        /// time-interval tasks, and where there is no limit.
        pub fn batch_window(&self, time: Time) -> u64 {
            let configuration = self.task.configuration();
            match (configuration.batch_mode(), self.release.max_window_s) {
                (BatchMode::LeaderSelected, Some(longest_s)) => {
                    let units = (longest_s / configuration.time_precision().as_seconds()).max(1);
                    let start =
                        self.task.interval().map_or(0, |interval| interval.start().as_units());
                    time.as_units().saturating_sub(start) / units
                }
                _ => 0,
            }
        }
    }

    /// An aggregator's HPKE keys, the preferred one first.
    #[derive(Debug)]
    pub struct HpkeKeyring {
        openers: Vec<Opener>,
    }

    impl HpkeKeyring {
        /// A ring of at least one key, all with distinct ids.
        pub fn new(keys: &[HpkeKeypair]) -> Result<Self, Fault> {
            if keys.is_empty() {
                return Err(Fault("at least one HPKE key is needed".into()));
            }
            let mut openers: Vec<Opener> = Vec::with_capacity(keys.len());
            for key in keys {
                let id = key.config().id();
                if openers.iter().any(|other| other.config().id() == id) {
                    return Err(Fault("two HPKE keys have the same id".into()));
                }
                openers.push(Opener::new(key).map_err(|error| Fault(error.to_string()))?);
            }
            Ok(Self { openers })
        }

        /// The key with this id.
        pub fn opener(&self, id: HpkeConfigId) -> Option<&Opener> {
            self.openers.iter().find(|opener| opener.config().id() == id)
        }

        /// The id of the most preferred key.
        pub fn preferred(&self) -> Option<HpkeConfigId> {
            self.openers.first().map(|opener| opener.config().id())
        }

        /// What `hpke_config` serves, most preferred first.
        pub fn configs(&self) -> Vec<HpkeConfig> {
            self.openers.iter().map(|opener| opener.config().clone()).collect()
        }

        /// The same as a wire message.
        pub fn config_list(&self) -> Result<HpkeConfigList, Fault> {
            HpkeConfigList::new(self.configs()).map_err(|error| Fault(error.to_string()))
        }
    }
}
