//! The messages between leader and helper that verify and aggregate reports (DAP "Verifying and
//! Aggregating Reports").
//!
//! The VDAF interprets the payloads.

use crate::codec::{Decode, DecodeError, Encode, Reader, Sink};
use crate::extensions::{ExtensionKind, ExtensionList, extension_value};
use crate::hpke::HpkeCiphertext;
use crate::ids::{BatchId, ReportId};
use crate::opaque::{AggParam, Payload, PublicShare};
use crate::report::{ReportError, ReportMetadata};

/// A report as the helper sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportShare<'a> {
    /// The metadata that everyone may see.
    pub report_metadata: ReportMetadata<'a>,
    /// The share that both aggregators see.
    pub public_share: PublicShare<'a>,
    /// The helper's input share.
    pub encrypted_input_share: HpkeCiphertext<'a>,
}

impl Encode for ReportShare<'_> {
    fn encode(&self, out: &mut impl Sink) {
        self.report_metadata.encode(out);
        self.public_share.encode(out);
        self.encrypted_input_share.encode(out);
    }
}

impl<'a> Decode<'a> for ReportShare<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            report_metadata: ReportMetadata::decode(reader)?,
            public_share: PublicShare::decode(reader)?,
            encrypted_input_share: HpkeCiphertext::decode(reader)?,
        })
    }
}

/// One report with the leader's first verification message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyInit<'a> {
    /// The report.
    pub report_share: ReportShare<'a>,
    /// The leader's message.
    pub payload: Payload<'a>,
}

impl Encode for VerifyInit<'_> {
    fn encode(&self, out: &mut impl Sink) {
        self.report_share.encode(out);
        self.payload.encode(out);
    }
}

impl<'a> Decode<'a> for VerifyInit<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { report_share: ReportShare::decode(reader)?, payload: Payload::decode(reader)? })
    }
}

/// An aggregation job extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AggregationJobExtension {
    /// The batch that the reports of the job go into, in leader-selected mode.
    LeaderSelectedBatchId(BatchId),
    /// A type that is not known here.
    Unknown {
        /// The code point.
        extension_type: u16,
        /// The data.
        data: Vec<u8>,
    },
}

/// The extensions of an aggregation job.
pub type AggregationJobExtensions = ExtensionList<AggregationJobExtension>;

const LEADER_SELECTED_BATCH_ID: u16 = 1;

impl ExtensionKind for AggregationJobExtension {
    fn extension_type(&self) -> u16 {
        match self {
            Self::LeaderSelectedBatchId(_) => LEADER_SELECTED_BATCH_ID,
            Self::Unknown { extension_type, .. } => *extension_type,
        }
    }

    fn encode_data(&self, out: &mut impl Sink) {
        match self {
            Self::LeaderSelectedBatchId(batch_id) => batch_id.encode(out),
            Self::Unknown { data, .. } => out.extend_from_slice(data),
        }
    }

    fn decode_data(extension_type: u16, data: &[u8]) -> Result<Self, DecodeError> {
        match extension_type {
            LEADER_SELECTED_BATCH_ID => {
                Ok(Self::LeaderSelectedBatchId(extension_value(extension_type, data)?))
            }
            _ => Ok(Self::Unknown { extension_type, data: data.to_vec() }),
        }
    }
}

/// The leader's request to aggregate a set of reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregationJobInitReq<'a> {
    /// The task's verification key that the leader used.
    pub verification_key_id: u8,
    /// The aggregation parameter.
    pub agg_param: AggParam<'a>,
    /// Extensions of the job.
    pub extensions: AggregationJobExtensions,
    /// The reports.
    pub verify_inits: Vec<VerifyInit<'a>>,
}

impl AggregationJobInitReq<'_> {
    /// The batch that the reports go into, if the extensions name one.
    pub fn batch_id(&self) -> Option<BatchId> {
        self.extensions.iter().find_map(|extension| match extension {
            AggregationJobExtension::LeaderSelectedBatchId(batch_id) => Some(*batch_id),
            AggregationJobExtension::Unknown { .. } => None,
        })
    }

    /// The first extension that is not known here, if any.
    pub fn unknown_extension(&self) -> Option<u16> {
        self.extensions.iter().find_map(|extension| match extension {
            AggregationJobExtension::LeaderSelectedBatchId(_) => None,
            AggregationJobExtension::Unknown { extension_type, .. } => Some(*extension_type),
        })
    }
}

impl Encode for AggregationJobInitReq<'_> {
    fn encode(&self, out: &mut impl Sink) {
        out.push(self.verification_key_id);
        self.agg_param.encode(out);
        self.extensions.encode(out);
        self.verify_inits.encode(out);
    }
}

impl<'a> Decode<'a> for AggregationJobInitReq<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            verification_key_id: reader.u8()?,
            agg_param: AggParam::decode(reader)?,
            extensions: AggregationJobExtensions::decode(reader)?,
            verify_inits: reader.values_to_end()?,
        })
    }
}

/// The helper's answer for one report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyResp<'a> {
    /// The report.
    pub report_id: ReportId,
    /// The answer.
    pub kind: VerifyRespKind<'a>,
}

/// What the helper answers for one report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerifyRespKind<'a> {
    /// A message for the leader. Prio3's helper sends this, although it is done itself.
    Continue(Payload<'a>),
    /// Done, without a message.
    Finish,
    /// The report is rejected.
    Reject(ReportError),
}

impl Encode for VerifyResp<'_> {
    fn encode(&self, out: &mut impl Sink) {
        self.report_id.encode(out);
        match &self.kind {
            VerifyRespKind::Continue(payload) => {
                out.push(0);
                payload.encode(out);
            }
            VerifyRespKind::Finish => out.push(1),
            VerifyRespKind::Reject(error) => {
                out.push(2);
                error.encode(out);
            }
        }
    }
}

impl<'a> Decode<'a> for VerifyResp<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let report_id = ReportId::decode(reader)?;
        let kind = match reader.u8()? {
            0 => VerifyRespKind::Continue(Payload::decode(reader)?),
            1 => VerifyRespKind::Finish,
            2 => VerifyRespKind::Reject(ReportError::decode(reader)?),
            value => return Err(DecodeError::UnknownValue { field: "VerifyRespType", value }),
        };
        Ok(Self { report_id, kind })
    }
}

/// The helper's answers, in the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AggregationJobResp<'a> {
    /// The answers.
    pub verify_resps: Vec<VerifyResp<'a>>,
}

impl Encode for AggregationJobResp<'_> {
    fn encode(&self, out: &mut impl Sink) {
        self.verify_resps.encode(out);
    }
}

impl<'a> Decode<'a> for AggregationJobResp<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { verify_resps: reader.values_to_end()? })
    }
}

/// One report with the leader's next verification message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyContinue<'a> {
    /// The report.
    pub report_id: ReportId,
    /// The leader's message.
    pub payload: Payload<'a>,
}

impl Encode for VerifyContinue<'_> {
    fn encode(&self, out: &mut impl Sink) {
        self.report_id.encode(out);
        self.payload.encode(out);
    }
}

impl<'a> Decode<'a> for VerifyContinue<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { report_id: ReportId::decode(reader)?, payload: Payload::decode(reader)? })
    }
}

/// The leader's request to continue a job, for VDAFs with more than one round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregationJobContinueReq<'a> {
    /// The step that the leader has reached; never 0 in a valid request.
    pub step: u16,
    /// The reports to continue.
    pub verify_continues: Vec<VerifyContinue<'a>>,
}

impl Encode for AggregationJobContinueReq<'_> {
    fn encode(&self, out: &mut impl Sink) {
        out.extend_from_slice(&self.step.to_be_bytes());
        self.verify_continues.encode(out);
    }
}

impl<'a> Decode<'a> for AggregationJobContinueReq<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { step: reader.u16()?, verify_continues: reader.values_to_end()? })
    }
}
