//! Reports and their upload (DAP "Uploading Reports").
//!
//! The protocol seals and checks reports.

use crate::codec::{Decode, DecodeError, Encode, Reader, Sink};
use crate::extensions::Extensions;
use crate::hpke::HpkeCiphertext;
use crate::ids::{ReportId, TaskId};
use crate::opaque::{Payload, PublicShare};
use crate::time::Time;

/// Why one report is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReportError {
    /// Reserved for testing.
    Reserved = 0,
    /// The bucket was already collected.
    BatchCollected = 1,
    /// A report with this id was already aggregated or uploaded.
    ReportReplayed = 2,
    /// The aggregator can no longer decide, or does not want the report.
    ReportDropped = 3,
    /// Registered, but not used by any rule.
    HpkeUnknownConfigId = 4,
    /// Unknown HPKE configuration or decryption failure.
    HpkeDecryptError = 5,
    /// The VDAF rejected the report.
    VdafVerifyError = 6,
    /// The time is after the task's interval.
    TaskExpired = 7,
    /// Undecodable share, or an unknown, duplicate or unsorted report extension.
    InvalidMessage = 8,
    /// The time is too far in the future. The only error after which the leader may retry.
    ReportTooEarly = 9,
    /// The time is before the task's interval.
    TaskNotStarted = 10,
    /// Upload: unknown HPKE configuration; the client fetches a fresh list.
    OutdatedConfig = 11,
    /// Aggregation: the helper does not have the job's verification key; the leader may try
    /// another.
    UnknownVerificationKeyId = 12,
}

impl ReportError {
    /// Every error, by code point.
    pub const ALL: [Self; 13] = [
        Self::Reserved,
        Self::BatchCollected,
        Self::ReportReplayed,
        Self::ReportDropped,
        Self::HpkeUnknownConfigId,
        Self::HpkeDecryptError,
        Self::VdafVerifyError,
        Self::TaskExpired,
        Self::InvalidMessage,
        Self::ReportTooEarly,
        Self::TaskNotStarted,
        Self::OutdatedConfig,
        Self::UnknownVerificationKeyId,
    ];

    /// The name in the registry.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::BatchCollected => "batch_collected",
            Self::ReportReplayed => "report_replayed",
            Self::ReportDropped => "report_dropped",
            Self::HpkeUnknownConfigId => "hpke_unknown_config_id",
            Self::HpkeDecryptError => "hpke_decrypt_error",
            Self::VdafVerifyError => "vdaf_verify_error",
            Self::TaskExpired => "task_expired",
            Self::InvalidMessage => "invalid_message",
            Self::ReportTooEarly => "report_too_early",
            Self::TaskNotStarted => "task_not_started",
            Self::OutdatedConfig => "outdated_config",
            Self::UnknownVerificationKeyId => "unknown_verification_key_id",
        }
    }

    /// The code point.
    pub const fn value(self) -> u8 {
        self as u8
    }
}

impl std::fmt::Display for ReportError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Encode for ReportError {
    fn encode(&self, out: &mut impl Sink) {
        out.push(*self as u8);
    }
}

impl Decode<'_> for ReportError {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let value = reader.u8()?;
        Self::ALL
            .get(usize::from(value))
            .copied()
            .ok_or(DecodeError::UnknownValue { field: "ReportError", value })
    }
}

/// The metadata of a report that everyone may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportMetadata<'a> {
    /// The id of the report and the nonce of its shares.
    pub report_id: ReportId,
    /// When the measurement was made.
    pub time: Time,
    /// Extensions that both aggregators see; unchecked.
    pub public_extensions: Extensions<'a>,
}

impl ReportMetadata<'_> {
    /// The same metadata, independent of the received buffer.
    pub fn into_owned(self) -> ReportMetadata<'static> {
        ReportMetadata {
            report_id: self.report_id,
            time: self.time,
            public_extensions: self.public_extensions.into_owned(),
        }
    }
}

impl Encode for ReportMetadata<'_> {
    fn encode(&self, out: &mut impl Sink) {
        self.report_id.encode(out);
        self.time.encode(out);
        self.public_extensions.encode(out);
    }
}

impl<'a> Decode<'a> for ReportMetadata<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            report_id: ReportId::decode(reader)?,
            time: Time::decode(reader)?,
            public_extensions: Extensions::decode(reader)?,
        })
    }
}

/// What a client uploads for one measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report<'a> {
    /// The metadata that everyone may see.
    pub report_metadata: ReportMetadata<'a>,
    /// The share that both aggregators see.
    pub public_share: PublicShare<'a>,
    /// A [`PlaintextInputShare`], sealed to the leader.
    pub leader_encrypted_input_share: HpkeCiphertext<'a>,
    /// A [`PlaintextInputShare`], sealed to the helper.
    pub helper_encrypted_input_share: HpkeCiphertext<'a>,
}

impl<'a> Report<'a> {
    /// Decodes one report and returns it with the bytes that it was decoded from.
    pub fn decode_with_raw(reader: &mut Reader<'a>) -> Result<(Self, &'a [u8]), DecodeError> {
        reader.with_raw()
    }

    /// The same report, independent of the received buffer.
    pub fn into_owned(self) -> Report<'static> {
        Report {
            report_metadata: self.report_metadata.into_owned(),
            public_share: self.public_share.into_owned(),
            leader_encrypted_input_share: self.leader_encrypted_input_share.into_owned(),
            helper_encrypted_input_share: self.helper_encrypted_input_share.into_owned(),
        }
    }
}

impl Encode for Report<'_> {
    fn encode(&self, out: &mut impl Sink) {
        self.report_metadata.encode(out);
        self.public_share.encode(out);
        self.leader_encrypted_input_share.encode(out);
        self.helper_encrypted_input_share.encode(out);
    }
}

impl<'a> Decode<'a> for Report<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            report_metadata: ReportMetadata::decode(reader)?,
            public_share: PublicShare::decode(reader)?,
            leader_encrypted_input_share: HpkeCiphertext::decode(reader)?,
            helper_encrypted_input_share: HpkeCiphertext::decode(reader)?,
        })
    }
}

/// The body of an upload: reports up to the end, each yielded with the bytes that it was decoded
/// from.
///
/// The iterator ends after the first error: without that report's length the next one cannot be
/// found.
#[derive(Clone, Debug)]
pub struct UploadRequest<'a>(Reader<'a>);

impl<'a> UploadRequest<'a> {
    /// Starts at the first report of `body`.
    pub fn new(body: &'a [u8]) -> Self {
        Self(Reader::new(body))
    }

    /// The body that uploads `reports`.
    pub fn to_bytes(reports: &[Report<'_>]) -> Vec<u8> {
        reports.to_bytes()
    }
}

impl<'a> Iterator for UploadRequest<'a> {
    type Item = Result<(Report<'a>, &'a [u8]), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let result = Report::decode_with_raw(&mut self.0);
        if result.is_err() {
            self.0.rest();
        }
        Some(result)
    }
}

/// A report that an upload rejected, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportUploadStatus {
    /// The report.
    pub report_id: ReportId,
    /// Why it was rejected.
    pub error: ReportError,
}

impl Encode for ReportUploadStatus {
    fn encode(&self, out: &mut impl Sink) {
        self.report_id.encode(out);
        self.error.encode(out);
    }
}

impl Decode<'_> for ReportUploadStatus {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { report_id: ReportId::decode(reader)?, error: ReportError::decode(reader)? })
    }
}

/// The response to an upload that was not accepted completely: only the failures, in the order of
/// the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UploadErrors {
    /// The failures.
    pub status: Vec<ReportUploadStatus>,
}

impl Encode for UploadErrors {
    fn encode(&self, out: &mut impl Sink) {
        self.status.encode(out);
    }
}

impl Decode<'_> for UploadErrors {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { status: reader.values_to_end()? })
    }
}

/// What is sealed to one aggregator. Secret: encode it into a buffer that is zeroized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaintextInputShare<'a> {
    /// Extensions that only this aggregator sees; unchecked.
    pub private_extensions: Extensions<'a>,
    /// The input share of the VDAF.
    pub payload: Payload<'a>,
}

impl Encode for PlaintextInputShare<'_> {
    fn encode(&self, out: &mut impl Sink) {
        self.private_extensions.encode(out);
        self.payload.encode(out);
    }
}

impl<'a> Decode<'a> for PlaintextInputShare<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            private_extensions: Extensions::decode(reader)?,
            payload: Payload::decode(reader)?,
        })
    }
}

/// The associated data of an input share: the ciphertext opens only for this task and report.
#[derive(Clone, Debug)]
pub struct InputShareAad<'a> {
    /// The task.
    pub task_id: TaskId,
    /// The encoded [`TaskConfiguration`](crate::TaskConfiguration).
    pub task_configuration: &'a [u8],
    /// The report.
    pub report_metadata: &'a ReportMetadata<'a>,
    /// The share that both aggregators see.
    pub public_share: &'a PublicShare<'a>,
}

impl Encode for InputShareAad<'_> {
    fn encode(&self, out: &mut impl Sink) {
        self.task_id.encode(out);
        out.extend_from_slice(self.task_configuration);
        self.report_metadata.encode(out);
        self.public_share.encode(out);
    }
}
