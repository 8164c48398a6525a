//! A DAP client: makes reports and reads the aggregators' answers. DAP, section "Uploading
//! Reports".
//!
//! Leaves to others: fetching HPKE configurations, sending, and whether to take part at all.

use rand_core::CryptoRng;
use sotto_crypto::{HpkeError, hpke};
use sotto_vdaf::{Measurement, ShardError};
use sotto_wire::labels::{input_share_info, vdaf_context};
use sotto_wire::token::TOKEN_EXTENSION;
use sotto_wire::{
    BoundsError, Decode, DecodeError, Encode, Extensions, HpkeCiphertext, HpkeConfig,
    HpkeConfigList, InputShareAad, Payload, PlaintextInputShare, PublicShare, Report, ReportError,
    ReportId, ReportMetadata, Role, Time, UploadErrors,
};
use zeroize::Zeroizing;

use crate::Task;
use crate::token::ReportTokens;

/// What every supported cipher adds.
const TAG_LEN: usize = 16;

/// Why a report could not be made or an answer could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The measurement does not fit the task.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// A share could not be sealed.
    #[error(transparent)]
    Hpke(#[from] HpkeError),
    /// The aggregator's answer does not decode.
    #[error("the aggregator's answer does not decode: {0}")]
    Decode(#[from] DecodeError),
    /// No listed HPKE configuration is supported.
    #[error("the aggregator lists no HPKE configuration of a supported suite")]
    NoSupportedHpkeConfig,
    /// The aggregators would reject the timestamp.
    #[error("the time is outside the task's interval")]
    OutsideTaskInterval,
    /// A field is longer than its message allows.
    #[error(transparent)]
    Bounds(#[from] BoundsError),
}

/// Makes one report: shards the measurement and seals each share to its aggregator.
///
/// `time` is in units of the task's precision ([`Task::time`]). The report id is that of `tokens`,
/// or 16 fresh bytes of `rng` for a task without tokens. Each token goes into the private
/// extensions of its own aggregator's share, where nobody else can read it. The public extensions
/// stay empty: anything there would split the set of devices.
pub fn produce_report(
    task: &Task,
    leader: &HpkeConfig,
    helper: &HpkeConfig,
    measurement: &Measurement,
    time: Time,
    tokens: Option<&ReportTokens>,
    rng: &mut dyn CryptoRng,
) -> Result<Vec<u8>, ClientError> {
    if task.check_interval(time).is_err() {
        return Err(ClientError::OutsideTaskInterval);
    }
    let report_id = tokens.map_or_else(|| random_report_id(rng), |tokens| tokens.report_id);
    let context = vdaf_context(task.id());
    let shares = task.vdaf().shard(&context, measurement, report_id.as_bytes(), rng)?;

    let report_metadata =
        ReportMetadata { report_id, time, public_extensions: Extensions::empty() };
    let public_share = PublicShare::new(shares.public_share)?;
    let aad = InputShareAad {
        task_id: *task.id(),
        task_configuration: task.encoded_configuration(),
        report_metadata: &report_metadata,
        public_share: &public_share,
    }
    .to_bytes();
    let leader_token = tokens.map(|tokens| tokens.leader.as_slice());
    let helper_token = tokens.and_then(|tokens| tokens.helper.as_deref());
    let mut seal = |role, config, share: &[u8], token: Option<&[u8]>| {
        let private_extensions = private_extensions(token)?;
        seal_input_share(role, config, &aad, &private_extensions, share, rng)
    };
    let leader_encrypted_input_share = seal(Role::Leader, leader, &shares.leader, leader_token)?;
    let helper_encrypted_input_share = seal(Role::Helper, helper, &shares.helper, helper_token)?;
    let report = Report {
        report_metadata,
        public_share,
        leader_encrypted_input_share,
        helper_encrypted_input_share,
    };
    Ok(report.to_bytes())
}

/// Makes cover: as many zeros as a report of this task is long. Nobody can tell the two apart once
/// they are sealed to a gateway, and the leader drops it ([`is_cover`]).
pub fn produce_cover(
    task: &Task,
    leader: &HpkeConfig,
    helper: &HpkeConfig,
    tokens: Option<&ReportTokens>,
) -> Result<Vec<u8>, ClientError> {
    let sizes = task.vdaf().sizes();
    let sealed = |config: &HpkeConfig, share: usize, token: Option<&[u8]>| {
        let plaintext = PlaintextInputShare {
            private_extensions: Extensions::empty(),
            payload: Payload::new(vec![0; share])?,
        };
        let extensions = private_extensions(token)?.len() - Extensions::empty().encoded_len();
        let len = plaintext.encoded_len() + extensions + TAG_LEN;
        let enc_len = config.kem_id().enc_len().ok_or(ClientError::NoSupportedHpkeConfig)?;
        Ok::<_, ClientError>(HpkeCiphertext::new(config.id(), vec![0; enc_len], vec![0; len])?)
    };
    let (report_id, public_extensions) = (ReportId::new([0; ReportId::LEN]), Extensions::empty());
    let report_metadata = ReportMetadata { report_id, time: Time::default(), public_extensions };
    let leader_token = tokens.map(|tokens| tokens.leader.as_slice());
    let helper_token = tokens.and_then(|tokens| tokens.helper.as_deref());
    let report = Report {
        report_metadata,
        public_share: PublicShare::new(vec![0; sizes.public_share])?,
        leader_encrypted_input_share: sealed(leader, sizes.leader_share, leader_token)?,
        helper_encrypted_input_share: sealed(helper, sizes.helper_share, helper_token)?,
    };
    Ok(vec![0; report.encoded_len()])
}

/// Whether the body of an upload is cover. A report never is: its id is random.
pub fn is_cover(body: &[u8]) -> bool {
    !body.is_empty() && body.iter().all(|byte| *byte == 0)
}

/// Picks the configuration to seal to: the first hybrid one, or else the first supported one,
/// because the list is in the aggregator's order of preference. DAP, section "HPKE Configuration
/// Request".
pub fn consume_hpke_config_list(bytes: &[u8]) -> Result<HpkeConfig, ClientError> {
    let listed = HpkeConfigList::from_bytes(bytes)?.as_slice().to_vec();
    hpke::usable(listed, false).into_iter().next().ok_or(ClientError::NoSupportedHpkeConfig)
}

/// Reads which reports of an upload the leader rejected, in the order in which they were sent. An
/// empty body means none. DAP, section "Upload Request".
pub fn consume_upload_errors(body: &[u8]) -> Result<Vec<(ReportId, ReportError)>, ClientError> {
    let errors = UploadErrors::from_bytes(body)?;
    Ok(errors.status.iter().map(|status| (status.report_id, status.error)).collect())
}

fn random_report_id(rng: &mut dyn CryptoRng) -> ReportId {
    let mut id = [0; ReportId::LEN];
    rng.fill_bytes(&mut id);
    ReportId::new(id)
}

/// The encoded list of an aggregator's private extensions: its token, if there is one. It is
/// written here because [`Extensions::new`] would leave a copy of the token behind.
fn private_extensions(token: Option<&[u8]>) -> Result<Zeroizing<Vec<u8>>, BoundsError> {
    let Some(token) = token else { return Ok(Zeroizing::new(Extensions::empty().to_bytes())) };
    let too_long = |_| BoundsError::Length("extension_data");
    let data_len = u16::try_from(token.len()).map_err(too_long)?;
    let list_len = u16::try_from(4 + token.len()).map_err(too_long)?;
    let mut list = Zeroizing::new(Vec::with_capacity(6 + token.len()));
    for number in [list_len, TOKEN_EXTENSION, data_len] {
        list.extend_from_slice(&number.to_be_bytes());
    }
    list.extend_from_slice(token);
    Ok(list)
}

/// Seals one share with its private extensions. DAP, section "Upload Request".
fn seal_input_share(
    role: Role,
    config: &HpkeConfig,
    aad: &[u8],
    private_extensions: &[u8],
    share: &[u8],
    rng: &mut dyn CryptoRng,
) -> Result<HpkeCiphertext<'static>, ClientError> {
    // Cannot fail: the list was just encoded.
    let plaintext = PlaintextInputShare {
        private_extensions: Extensions::from_bytes(private_extensions)?,
        payload: Payload::new(share)?,
    };
    let encoded = Zeroizing::new(plaintext.to_bytes());
    Ok(hpke::seal(config, &input_share_info(role), aad, &encoded, rng)?)
}
