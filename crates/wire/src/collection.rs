//! Messages that collect a batch (DAP "Collecting Results").
//!
//! The protocol decides whether a query is valid for a task.

use crate::checksum::ReportIdChecksum;
use crate::codec::{BoundsError, Decode, DecodeError, Encode, Reader, Sink, put_opaque_u16};
use crate::extensions::{ExtensionKind, ExtensionList};
use crate::hpke::HpkeCiphertext;
use crate::ids::{BatchId, TaskId};
use crate::opaque::AggParam;
use crate::task::BatchMode;
use crate::time::Interval;

/// Which batch the collector wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Query {
    /// All reports of an interval.
    TimeInterval(Interval),
    /// The next batch.
    LeaderSelected,
}

impl Query {
    /// The batch mode that the query belongs to.
    pub const fn batch_mode(&self) -> BatchMode {
        match self {
            Self::TimeInterval(_) => BatchMode::TimeInterval,
            Self::LeaderSelected => BatchMode::LeaderSelected,
        }
    }
}

impl Encode for Query {
    fn encode(&self, out: &mut impl Sink) {
        self.batch_mode().encode(out);
        match self {
            Self::TimeInterval(interval) => put_opaque_u16(out, &interval.to_bytes()),
            Self::LeaderSelected => put_opaque_u16(out, &[]),
        }
    }
}

impl Decode<'_> for Query {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let batch_mode = BatchMode::decode(reader)?;
        let config = reader.opaque_u16()?;
        match batch_mode {
            BatchMode::TimeInterval => Ok(Self::TimeInterval(Interval::from_bytes(config)?)),
            BatchMode::LeaderSelected if config.is_empty() => Ok(Self::LeaderSelected),
            BatchMode::LeaderSelected => Err(BoundsError::Length("Query.config").into()),
        }
    }
}

/// A collection job extension. None is defined yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionJobExtension {
    /// The code point.
    pub extension_type: u16,
    /// The data.
    pub data: Vec<u8>,
}

/// The extensions of a collection job.
pub type CollectionJobExtensions = ExtensionList<CollectionJobExtension>;

impl ExtensionKind for CollectionJobExtension {
    fn extension_type(&self) -> u16 {
        self.extension_type
    }

    fn encode_data(&self, out: &mut impl Sink) {
        out.extend_from_slice(&self.data);
    }

    fn decode_data(extension_type: u16, data: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self { extension_type, data: data.to_vec() })
    }
}

/// The collector's request for a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionJobReq {
    /// Which batch.
    pub query: Query,
    /// The aggregation parameter.
    pub agg_param: AggParam<'static>,
    /// Extensions of the job.
    pub extensions: CollectionJobExtensions,
}

impl CollectionJobReq {
    /// A request with an empty aggregation parameter and no extensions, as for Prio3.
    pub fn new(query: Query) -> Self {
        Self { query, agg_param: AggParam::default(), extensions: ExtensionList::default() }
    }
}

impl Encode for CollectionJobReq {
    fn encode(&self, out: &mut impl Sink) {
        self.query.encode(out);
        self.agg_param.encode(out);
        self.extensions.encode(out);
    }
}

impl Decode<'_> for CollectionJobReq {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            query: Query::decode(reader)?,
            agg_param: AggParam::decode(reader)?.into_owned(),
            extensions: CollectionJobExtensions::decode(reader)?,
        })
    }
}

/// The leader's response: both aggregate shares, sealed to the collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionJobResp<'a> {
    /// The number of reports in the batch, as the leader claims.
    pub report_count: u64,
    /// The smallest interval that covers the times of the reports.
    pub interval: Interval,
    /// The leader's aggregate share.
    pub leader_encrypted_agg_share: HpkeCiphertext<'a>,
    /// The helper's aggregate share.
    pub helper_encrypted_agg_share: HpkeCiphertext<'a>,
}

impl Encode for CollectionJobResp<'_> {
    fn encode(&self, out: &mut impl Sink) {
        out.extend_from_slice(&self.report_count.to_be_bytes());
        self.interval.encode(out);
        self.leader_encrypted_agg_share.encode(out);
        self.helper_encrypted_agg_share.encode(out);
    }
}

impl<'a> Decode<'a> for CollectionJobResp<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            report_count: reader.u64()?,
            interval: Interval::decode(reader)?,
            leader_encrypted_agg_share: HpkeCiphertext::decode(reader)?,
            helper_encrypted_agg_share: HpkeCiphertext::decode(reader)?,
        })
    }
}

/// The buckets of which the leader wants the helper's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchSelector {
    /// All buckets of an interval.
    TimeInterval(Interval),
    /// One batch.
    LeaderSelected(BatchId),
}

impl BatchSelector {
    /// The batch mode that the selector belongs to.
    pub const fn batch_mode(&self) -> BatchMode {
        match self {
            Self::TimeInterval(_) => BatchMode::TimeInterval,
            Self::LeaderSelected(_) => BatchMode::LeaderSelected,
        }
    }
}

impl Encode for BatchSelector {
    fn encode(&self, out: &mut impl Sink) {
        self.batch_mode().encode(out);
        match self {
            Self::TimeInterval(interval) => put_opaque_u16(out, &interval.to_bytes()),
            Self::LeaderSelected(batch_id) => put_opaque_u16(out, batch_id.as_bytes()),
        }
    }
}

impl Decode<'_> for BatchSelector {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let batch_mode = BatchMode::decode(reader)?;
        let config = reader.opaque_u16()?;
        match batch_mode {
            BatchMode::TimeInterval => Ok(Self::TimeInterval(Interval::from_bytes(config)?)),
            BatchMode::LeaderSelected => Ok(Self::LeaderSelected(BatchId::from_bytes(config)?)),
        }
    }
}

/// The leader's request for the helper's aggregate share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregateShareReq {
    /// What the collector asked the leader for.
    pub collection_job_req: CollectionJobReq,
    /// The buckets.
    pub batch_selector: BatchSelector,
    /// The number of reports that the leader aggregated in them.
    pub report_count: u64,
    /// The checksum of their ids.
    pub checksum: ReportIdChecksum,
}

impl Encode for AggregateShareReq {
    fn encode(&self, out: &mut impl Sink) {
        self.collection_job_req.encode(out);
        self.batch_selector.encode(out);
        out.extend_from_slice(&self.report_count.to_be_bytes());
        out.extend_from_slice(self.checksum.as_bytes());
    }
}

impl Decode<'_> for AggregateShareReq {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            collection_job_req: CollectionJobReq::decode(reader)?,
            batch_selector: BatchSelector::decode(reader)?,
            report_count: reader.u64()?,
            checksum: reader.array().map(ReportIdChecksum::from)?,
        })
    }
}

/// The helper's aggregate share, sealed to the collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregateShare<'a> {
    /// The sealed share.
    pub encrypted_aggregate_share: HpkeCiphertext<'a>,
}

impl Encode for AggregateShare<'_> {
    fn encode(&self, out: &mut impl Sink) {
        self.encrypted_aggregate_share.encode(out);
    }
}

impl<'a> Decode<'a> for AggregateShare<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { encrypted_aggregate_share: HpkeCiphertext::decode(reader)? })
    }
}

/// The associated data of an aggregate share: it opens only for the request that it answers.
#[derive(Clone, Debug)]
pub struct AggregateShareAad<'a> {
    /// The task.
    pub task_id: TaskId,
    /// The encoded [`TaskConfiguration`](crate::TaskConfiguration).
    pub task_configuration: &'a [u8],
    /// The encoded [`CollectionJobReq`].
    pub collection_job_req: &'a [u8],
}

impl Encode for AggregateShareAad<'_> {
    fn encode(&self, out: &mut impl Sink) {
        self.task_id.encode(out);
        out.extend_from_slice(self.task_configuration);
        out.extend_from_slice(self.collection_job_req);
    }
}
