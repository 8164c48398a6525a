//! Task configurations (DAP "Task Configuration").
//!
//! Their bytes are bound into every ciphertext of the task, so all parties must hold the same ones.
//! [`taskprov`](crate::taskprov) derives task ids and keys from them. The protocol decides whether
//! a configuration is acceptable.

use std::fmt;

use crate::codec::{
    BoundsError, Decode, DecodeError, Encode, Reader, Sink, put_opaque_u8, put_opaque_u16,
};
use crate::extensions::{ExtensionKind, ExtensionList, extension_value};
use crate::time::{Interval, TimePrecision};

/// A party of the protocol, as it appears in HPKE labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Role {
    /// Requests aggregate results.
    Collector = 0,
    /// Creates reports.
    Client = 1,
    /// The aggregator that receives reports and drives the protocol.
    Leader = 2,
    /// The aggregator that answers the leader.
    Helper = 3,
}

impl Role {
    /// The party in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Collector => "collector",
            Self::Client => "client",
            Self::Leader => "leader",
            Self::Helper => "helper",
        }
    }
}

/// How the reports of a task are grouped into batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BatchMode {
    /// Batches are intervals of time, chosen by the collector.
    TimeInterval = 1,
    /// Batches are chosen by the leader, one after another.
    LeaderSelected = 2,
}

impl Encode for BatchMode {
    fn encode(&self, out: &mut impl Sink) {
        out.push(*self as u8);
    }
}

impl Decode<'_> for BatchMode {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::TimeInterval),
            2 => Ok(Self::LeaderSelected),
            value => Err(DecodeError::UnknownValue { field: "BatchMode", value }),
        }
    }
}

/// A code point of the VDAF registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VdafType(u32);

impl VdafType {
    /// Prio3Count.
    pub const PRIO3_COUNT: Self = Self(1);
    /// Prio3Histogram.
    pub const PRIO3_HISTOGRAM: Self = Self(4);
    /// Poplar1.
    pub const POPLAR1: Self = Self(6);

    /// The VDAF with this code point.
    pub const fn new(code_point: u32) -> Self {
        Self(code_point)
    }

    /// The code point.
    pub const fn value(self) -> u32 {
        self.0
    }
}

/// The base URL of an aggregator: 1 to 2^16-1 bytes of visible ASCII.
///
/// Never normalised: another spelling of the same address is another task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Url(String);

impl Url {
    /// Checks length and characters.
    pub fn new(url: impl Into<String>) -> Result<Self, BoundsError> {
        let url = url.into();
        if url.is_empty() || u16::try_from(url.len()).is_err() {
            return Err(BoundsError::Length("Url"));
        }
        if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BoundsError::UrlCharacter);
        }
        Ok(Self(url))
    }

    /// The text as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for Url {
    type Err = BoundsError;

    fn from_str(url: &str) -> Result<Self, BoundsError> {
        Self::new(url)
    }
}

impl Encode for Url {
    fn encode(&self, out: &mut impl Sink) {
        put_opaque_u16(out, self.0.as_bytes());
    }
}

impl Decode<'_> for Url {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = reader.opaque_u16()?;
        let text = std::str::from_utf8(bytes).map_err(|_| BoundsError::UrlCharacter)?;
        Ok(Self::new(text)?)
    }
}

/// A task extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskExtension {
    /// Reports are accepted only for times in this interval.
    TaskInterval(Interval),
    /// Each aggregator adds discrete Gaussian noise to its share of every sum. A private type: an
    /// aggregator that does not know it must not take part, so none can leave the noise out.
    ServerNoise {
        /// The parameter sigma of each one's noise, in millionths of the unit of the sum.
        sigma_micro: u64,
    },
    /// A type that is not known here. Nobody may take part in such a task.
    Unknown {
        /// The code point.
        extension_type: u16,
        /// The data.
        data: Vec<u8>,
    },
}

/// The extensions of a task.
pub type TaskExtensions = ExtensionList<TaskExtension>;

const TASK_INTERVAL: u16 = 1;
/// From the private-use range.
const SERVER_NOISE: u16 = 0xff11;

impl ExtensionKind for TaskExtension {
    fn extension_type(&self) -> u16 {
        match self {
            Self::TaskInterval(_) => TASK_INTERVAL,
            Self::ServerNoise { .. } => SERVER_NOISE,
            Self::Unknown { extension_type, .. } => *extension_type,
        }
    }

    fn encode_data(&self, out: &mut impl Sink) {
        match self {
            Self::TaskInterval(interval) => interval.encode(out),
            Self::ServerNoise { sigma_micro } => out.extend_from_slice(&sigma_micro.to_be_bytes()),
            Self::Unknown { data, .. } => out.extend_from_slice(data),
        }
    }

    fn decode_data(extension_type: u16, data: &[u8]) -> Result<Self, DecodeError> {
        match extension_type {
            TASK_INTERVAL => Ok(Self::TaskInterval(extension_value(extension_type, data)?)),
            SERVER_NOISE => match data.try_into() {
                Ok(sigma_micro) => {
                    Ok(Self::ServerNoise { sigma_micro: u64::from_be_bytes(sigma_micro) })
                }
                Err(_) => Err(BoundsError::ExtensionData(extension_type).into()),
            },
            _ => Ok(Self::Unknown { extension_type, data: data.to_vec() }),
        }
    }
}

/// The input of [`TaskConfiguration::new`], which checks it.
#[derive(Clone, Debug)]
pub struct TaskParameters {
    /// Arbitrary bytes, 1 to 255. At least 16 random ones if the task id must not be guessable.
    pub task_info: Vec<u8>,
    /// The leader's URL.
    pub leader_aggregator_endpoint: Url,
    /// The helper's URL.
    pub helper_aggregator_endpoint: Url,
    /// The unit of all times.
    pub time_precision: TimePrecision,
    /// The minimum number of reports in a batch.
    pub min_batch_size: u64,
    /// How reports are grouped into batches.
    pub batch_mode: BatchMode,
    /// The VDAF.
    pub vdaf_type: VdafType,
    /// The VDAF's parameters, encoded, at most 2^16-1 bytes.
    pub vdaf_configuration: Vec<u8>,
    /// Extensions, by increasing type.
    pub extensions: Vec<TaskExtension>,
}

/// Everything that the parties of a task agree on, except keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskConfiguration {
    task_info: Vec<u8>,
    leader_aggregator_endpoint: Url,
    helper_aggregator_endpoint: Url,
    time_precision: TimePrecision,
    min_batch_size: u64,
    batch_mode: BatchMode,
    vdaf_type: VdafType,
    vdaf_configuration: Vec<u8>,
    extensions: TaskExtensions,
}

impl TaskConfiguration {
    /// Checks lengths and the order of extensions.
    pub fn new(parameters: TaskParameters) -> Result<Self, BoundsError> {
        let extensions = TaskExtensions::new(parameters.extensions)?;
        if parameters.task_info.is_empty() || u8::try_from(parameters.task_info.len()).is_err() {
            return Err(BoundsError::Length("task_info"));
        }
        if u16::try_from(parameters.vdaf_configuration.len()).is_err() {
            return Err(BoundsError::Length("vdaf_configuration"));
        }
        Ok(Self {
            task_info: parameters.task_info,
            leader_aggregator_endpoint: parameters.leader_aggregator_endpoint,
            helper_aggregator_endpoint: parameters.helper_aggregator_endpoint,
            time_precision: parameters.time_precision,
            min_batch_size: parameters.min_batch_size,
            batch_mode: parameters.batch_mode,
            vdaf_type: parameters.vdaf_type,
            vdaf_configuration: parameters.vdaf_configuration,
            extensions,
        })
    }

    /// Arbitrary bytes.
    pub fn task_info(&self) -> &[u8] {
        &self.task_info
    }

    /// The leader's URL.
    pub fn leader_aggregator_endpoint(&self) -> &Url {
        &self.leader_aggregator_endpoint
    }

    /// The helper's URL.
    pub fn helper_aggregator_endpoint(&self) -> &Url {
        &self.helper_aggregator_endpoint
    }

    /// The unit of all times.
    pub fn time_precision(&self) -> TimePrecision {
        self.time_precision
    }

    /// The minimum number of reports in a batch.
    pub fn min_batch_size(&self) -> u64 {
        self.min_batch_size
    }

    /// How reports are grouped into batches.
    pub fn batch_mode(&self) -> BatchMode {
        self.batch_mode
    }

    /// The VDAF.
    pub fn vdaf_type(&self) -> VdafType {
        self.vdaf_type
    }

    /// The parameters of the VDAF, encoded.
    pub fn vdaf_configuration(&self) -> &[u8] {
        &self.vdaf_configuration
    }

    /// Extensions, by increasing type.
    pub fn extensions(&self) -> &TaskExtensions {
        &self.extensions
    }

    /// The times for which reports are accepted, if the task limits them.
    pub fn task_interval(&self) -> Option<Interval> {
        self.extensions.iter().find_map(|extension| match extension {
            TaskExtension::TaskInterval(interval) => Some(*interval),
            _ => None,
        })
    }

    /// The first extension that is not known here, if any: a reason not to take part.
    pub fn unknown_extension(&self) -> Option<u16> {
        self.extensions.iter().find_map(|extension| match extension {
            TaskExtension::Unknown { extension_type, .. } => Some(*extension_type),
            _ => None,
        })
    }
}

impl Encode for TaskConfiguration {
    fn encode(&self, out: &mut impl Sink) {
        put_opaque_u8(out, &self.task_info);
        self.leader_aggregator_endpoint.encode(out);
        self.helper_aggregator_endpoint.encode(out);
        out.extend_from_slice(&self.time_precision.as_seconds().to_be_bytes());
        out.extend_from_slice(&self.min_batch_size.to_be_bytes());
        self.batch_mode.encode(out);
        put_opaque_u16(out, &[]);
        out.extend_from_slice(&self.vdaf_type.0.to_be_bytes());
        put_opaque_u16(out, &self.vdaf_configuration);
        self.extensions.encode(out);
    }
}

impl Decode<'_> for TaskConfiguration {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let task_info = reader.opaque_u8()?;
        if task_info.is_empty() {
            return Err(BoundsError::Length("task_info").into());
        }
        let leader_aggregator_endpoint = Url::decode(reader)?;
        let helper_aggregator_endpoint = Url::decode(reader)?;
        let time_precision = TimePrecision::from_seconds(reader.u64()?)?;
        let min_batch_size = reader.u64()?;
        let batch_mode = BatchMode::decode(reader)?;
        // Neither batch mode has a configuration.
        if !reader.opaque_u16()?.is_empty() {
            return Err(BoundsError::Length("batch_config").into());
        }
        let vdaf_type = VdafType(reader.u32()?);
        let vdaf_configuration = reader.opaque_u16()?;
        let extensions = TaskExtensions::decode(reader)?;
        Ok(Self {
            task_info: task_info.to_vec(),
            leader_aggregator_endpoint,
            helper_aggregator_endpoint,
            time_precision,
            min_batch_size,
            batch_mode,
            vdaf_type,
            vdaf_configuration: vdaf_configuration.to_vec(),
            extensions,
        })
    }
}
