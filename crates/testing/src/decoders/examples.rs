//! Valid encodings of every message, small enough that a mutation often hits a length or a code
//! point.

mod entry;
mod ohttp;
mod tlog;
mod token;

use std::borrow::Cow;

use sotto_wire::{
    AggParam, AggregateShare, AggregateShareReq, AggregationJobContinueReq,
    AggregationJobExtension, AggregationJobExtensions, AggregationJobInitReq, AggregationJobResp,
    BatchId, BatchMode, BatchSelector, BoundsError, CollectionJobExtension,
    CollectionJobExtensions, CollectionJobReq, CollectionJobResp, Duration, Encode, Extension,
    Extensions, HpkeAeadId, HpkeCiphertext, HpkeConfig, HpkeConfigId, HpkeConfigList, HpkeKdfId,
    HpkeKemId, Interval, MediaType, Payload, PlaintextInputShare, ProblemType, PublicShare, Query,
    Report, ReportError, ReportId, ReportIdChecksum, ReportMetadata, ReportShare,
    ReportUploadStatus, TaskConfiguration, TaskExtension, TaskId, TaskParameters, Time,
    TimePrecision, UploadErrors, UploadRequest, Url, VdafType, VerifyContinue, VerifyInit,
    VerifyResp, VerifyRespKind, taskprov,
};

/// Valid encodings for the decoder `name`; none if there is no such decoder.
pub(super) fn seeds(name: &str) -> Vec<Vec<u8>> {
    if let Some(seeds) = entry::seeds(name)
        .or_else(|| tlog::seeds(name))
        .or_else(|| ohttp::seeds(name))
        .or_else(|| token::seeds(name))
    {
        return seeds;
    }
    binary(name).unwrap_or_default().unwrap_or_else(|| text(name).unwrap_or_default())
}

fn binary(name: &str) -> Result<Option<Vec<Vec<u8>>>, BoundsError> {
    Ok(Some(match name {
        "batch_mode" => encode([BatchMode::TimeInterval, BatchMode::LeaderSelected]),
        "interval" => encode([interval()?]),
        "url" => encode([Url::new("https://leader.example/")?]),
        "task_configuration" => encode([task_configuration(false)?, task_configuration(true)?]),
        "hpke_config" => encode([hpke_config(1)?]),
        "hpke_config_list" => encode([
            HpkeConfigList::new(vec![hpke_config(1)?])?,
            HpkeConfigList::new(vec![hpke_config(9)?, hpke_config(1)?, hpke_config(200)?])?,
        ]),
        "hpke_ciphertext" => encode([hpke_ciphertext(3)?]),
        "extensions" => encode([Extensions::empty(), extensions()?]),
        "report_error" => encode(ReportError::ALL),
        "report_metadata" => encode([metadata(1, false)?, metadata(2, true)?]),
        "report" => encode([report(1, false)?, report(2, true)?]),
        "upload_request" => vec![
            UploadRequest::to_bytes(&[]),
            UploadRequest::to_bytes(&[report(1, false)?]),
            UploadRequest::to_bytes(&[report(1, false)?, report(2, true)?, report(3, false)?]),
        ],
        "report_upload_status" => encode([upload_status(1), upload_status(9)]),
        "upload_errors" => encode([
            UploadErrors::default(),
            UploadErrors { status: (0..12).map(upload_status).collect() },
        ]),
        "plaintext_input_share" => encode([
            PlaintextInputShare { private_extensions: Extensions::empty(), payload: payload(40)? },
            PlaintextInputShare { private_extensions: extensions()?, payload: payload(1)? },
        ]),
        _ => return aggregation(name),
    }))
}

fn aggregation(name: &str) -> Result<Option<Vec<Vec<u8>>>, BoundsError> {
    Ok(Some(match name {
        "report_share" => encode([report_share(1)?]),
        "verify_init" => encode([verify_init(1)?]),
        "aggregation_job_init_req" => encode([
            AggregationJobInitReq {
                verification_key_id: 0,
                agg_param: AggParam::default(),
                extensions: AggregationJobExtensions::default(),
                verify_inits: vec![verify_init(1)?, verify_init(2)?],
            },
            AggregationJobInitReq {
                verification_key_id: 1,
                agg_param: AggParam::new(vec![1, 2, 3])?,
                extensions: AggregationJobExtensions::new(vec![
                    AggregationJobExtension::LeaderSelectedBatchId(BatchId::new([7; 32])),
                    AggregationJobExtension::Unknown { extension_type: 5, data: vec![1, 2] },
                ])?,
                verify_inits: vec![verify_init(3)?],
            },
        ]),
        "verify_resp" => encode(verify_resps()?),
        "aggregation_job_resp" => encode([
            AggregationJobResp::default(),
            AggregationJobResp { verify_resps: verify_resps()? },
        ]),
        "verify_continue" => encode([verify_continue(1)?]),
        "aggregation_job_continue_req" => encode([AggregationJobContinueReq {
            step: 1,
            verify_continues: vec![verify_continue(1)?, verify_continue(2)?],
        }]),
        _ => return collection(name),
    }))
}

fn collection(name: &str) -> Result<Option<Vec<Vec<u8>>>, BoundsError> {
    Ok(Some(match name {
        "query" => encode([Query::TimeInterval(interval()?), Query::LeaderSelected]),
        "collection_job_req" => {
            encode([CollectionJobReq::new(Query::LeaderSelected), collection_job_req()?])
        }
        "collection_job_resp" => encode([CollectionJobResp {
            report_count: 100,
            interval: interval()?,
            leader_encrypted_agg_share: hpke_ciphertext(4)?,
            helper_encrypted_agg_share: hpke_ciphertext(5)?,
        }]),
        "batch_selector" => encode(batch_selectors()?),
        "aggregate_share_req" => {
            let [interval, batch] = batch_selectors()?;
            encode([
                aggregate_share_req(collection_job_req()?, interval),
                aggregate_share_req(CollectionJobReq::new(Query::LeaderSelected), batch),
            ])
        }
        "aggregate_share" => {
            encode([AggregateShare { encrypted_aggregate_share: hpke_ciphertext(6)? }])
        }
        _ => return Ok(None),
    }))
}

fn text(name: &str) -> Result<Vec<Vec<u8>>, BoundsError> {
    let id = TaskId::new([0x5a; 32]).to_string();
    let texts = match name {
        "task_id_text"
        | "batch_id_text"
        | "aggregation_job_id_text"
        | "collection_job_id_text"
        | "aggregate_share_id_text" => vec![id],
        "report_id_text" => vec![ReportId::new([0x5a; 16]).to_string()],
        "taskprov_header" => {
            let value = taskprov::header_value(&task_configuration(true)?.to_bytes());
            let with_parameters = format!("{value};a;b=1; c=\"x\\\"y\"; d=:YQ==:");
            vec![value, with_parameters, "::".to_owned()]
        }
        "media_type" => MediaType::ALL
            .iter()
            .flat_map(|media_type| {
                let plain = media_type.as_str();
                [plain.to_owned(), format!("{plain}; version=\"18\"; x=y")]
            })
            .collect(),
        "problem_type" => ProblemType::ALL.iter().map(|problem| problem.urn()).collect(),
        _ => Vec::new(),
    };
    Ok(texts.into_iter().map(String::into_bytes).collect())
}

fn encode<T: Encode>(values: impl IntoIterator<Item = T>) -> Vec<Vec<u8>> {
    values.into_iter().map(|value| value.to_bytes()).collect()
}

fn interval() -> Result<Interval, BoundsError> {
    Interval::new(Time::new(28_333_333), Duration::new(60))
}

fn task_configuration(extended: bool) -> Result<TaskConfiguration, BoundsError> {
    let mut extensions = Vec::new();
    if extended {
        extensions.push(TaskExtension::TaskInterval(interval()?));
        extensions.push(TaskExtension::Unknown { extension_type: 0xff01, data: vec![9; 32] });
        extensions.push(TaskExtension::ServerNoise { sigma_micro: 2_500_000 });
    }
    TaskConfiguration::new(TaskParameters {
        task_info: b"test".to_vec(),
        leader_aggregator_endpoint: Url::new("https://leader.example/")?,
        helper_aggregator_endpoint: Url::new("https://helper.example/")?,
        time_precision: TimePrecision::from_seconds(60)?,
        min_batch_size: 100,
        batch_mode: if extended { BatchMode::LeaderSelected } else { BatchMode::TimeInterval },
        vdaf_type: VdafType::PRIO3_HISTOGRAM,
        vdaf_configuration: vec![0, 0, 1, 0, 0, 0, 0, 16],
        extensions,
    })
}

fn hpke_config(id: u8) -> Result<HpkeConfig, BoundsError> {
    HpkeConfig::new(
        HpkeConfigId::new(id),
        HpkeKemId::X25519_HKDF_SHA256,
        HpkeKdfId::HKDF_SHA256,
        HpkeAeadId::AES_128_GCM,
        vec![id; 32],
    )
}

fn hpke_ciphertext(id: u8) -> Result<HpkeCiphertext<'static>, BoundsError> {
    HpkeCiphertext::new(HpkeConfigId::new(id), vec![id; 32], vec![id; 40])
}

fn extensions() -> Result<Extensions<'static>, BoundsError> {
    Extensions::new(&[
        Extension { extension_type: 0, extension_data: Cow::Borrowed(&[]) },
        Extension { extension_type: 7, extension_data: Cow::Borrowed(&[1, 2, 3]) },
        Extension { extension_type: 0xffff, extension_data: Cow::Borrowed(&[4; 20]) },
    ])
}

fn metadata(id: u8, extended: bool) -> Result<ReportMetadata<'static>, BoundsError> {
    Ok(ReportMetadata {
        report_id: ReportId::new([id; 16]),
        time: Time::new(28_333_333),
        public_extensions: if extended { extensions()? } else { Extensions::empty() },
    })
}

fn report(id: u8, extended: bool) -> Result<Report<'static>, BoundsError> {
    Ok(Report {
        report_metadata: metadata(id, extended)?,
        public_share: if extended {
            PublicShare::new(vec![id; 64])?
        } else {
            PublicShare::default()
        },
        leader_encrypted_input_share: hpke_ciphertext(1)?,
        helper_encrypted_input_share: hpke_ciphertext(2)?,
    })
}

fn upload_status(id: u8) -> ReportUploadStatus {
    let error = ReportError::ALL.get(usize::from(id)).copied().unwrap_or(ReportError::Reserved);
    ReportUploadStatus { report_id: ReportId::new([id; 16]), error }
}

fn payload(len: usize) -> Result<Payload<'static>, BoundsError> {
    Payload::new(vec![0xa5; len])
}

fn report_share(id: u8) -> Result<ReportShare<'static>, BoundsError> {
    Ok(ReportShare {
        report_metadata: metadata(id, false)?,
        public_share: PublicShare::new(vec![id; 32])?,
        encrypted_input_share: hpke_ciphertext(2)?,
    })
}

fn verify_init(id: u8) -> Result<VerifyInit<'static>, BoundsError> {
    Ok(VerifyInit { report_share: report_share(id)?, payload: payload(24)? })
}

fn verify_resps() -> Result<Vec<VerifyResp<'static>>, BoundsError> {
    let report_id = ReportId::new([3; 16]);
    Ok(vec![
        VerifyResp { report_id, kind: VerifyRespKind::Continue(payload(24)?) },
        VerifyResp { report_id, kind: VerifyRespKind::Finish },
        VerifyResp { report_id, kind: VerifyRespKind::Reject(ReportError::VdafVerifyError) },
    ])
}

fn verify_continue(id: u8) -> Result<VerifyContinue<'static>, BoundsError> {
    Ok(VerifyContinue { report_id: ReportId::new([id; 16]), payload: payload(24)? })
}

fn collection_job_req() -> Result<CollectionJobReq, BoundsError> {
    Ok(CollectionJobReq {
        query: Query::TimeInterval(interval()?),
        agg_param: AggParam::new(vec![1, 2, 3])?,
        extensions: CollectionJobExtensions::new(vec![
            CollectionJobExtension { extension_type: 2, data: vec![] },
            CollectionJobExtension { extension_type: 3, data: vec![1, 2, 3] },
        ])?,
    })
}

fn batch_selectors() -> Result<[BatchSelector; 2], BoundsError> {
    Ok([
        BatchSelector::TimeInterval(interval()?),
        BatchSelector::LeaderSelected(BatchId::new([8; 32])),
    ])
}

fn aggregate_share_req(
    collection_job_req: CollectionJobReq,
    batch_selector: BatchSelector,
) -> AggregateShareReq {
    let mut checksum = ReportIdChecksum::default();
    checksum.add(&ReportId::new([1; 16]));
    AggregateShareReq { collection_job_req, batch_selector, report_count: 100, checksum }
}
