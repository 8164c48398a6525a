//! Every message decodes to what was encoded, whatever it holds.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use sotto_wire::{
    AggregateShare, AggregateShareReq, AggregationJobContinueReq, AggregationJobExtension,
    AggregationJobExtensions, AggregationJobInitReq, AggregationJobResp, BatchId, BatchMode,
    BatchSelector, CollectionJobExtension, CollectionJobExtensions, CollectionJobReq,
    CollectionJobResp, Decode, Duration, Encode, Extension, Extensions, HpkeAeadId, HpkeCiphertext,
    HpkeConfig, HpkeConfigId, HpkeConfigList, HpkeKdfId, HpkeKemId, Interval, Opaque,
    PlaintextInputShare, Query, Report, ReportError, ReportId, ReportIdChecksum, ReportMetadata,
    ReportShare, ReportUploadStatus, TaskConfiguration, TaskExtension, TaskParameters, Time,
    TimePrecision, UploadErrors, UploadRequest, Url, VdafType, VerifyContinue, VerifyInit,
    VerifyResp, VerifyRespKind, taskprov,
};

/// Encodes, decodes and compares; the promised length must be the real one.
fn check<T>(value: &T) -> Result<(), TestCaseError>
where
    T: Encode + for<'a> DecodeAs<'a>,
{
    let bytes = value.to_bytes();
    prop_assert_eq!(bytes.len(), value.encoded_len());
    prop_assert!(value.equals_decoded(&bytes));
    Ok(())
}

/// Compares with the decoded bytes, for types whose lifetime is that of the bytes.
trait DecodeAs<'a> {
    fn equals_decoded(&self, bytes: &'a [u8]) -> bool;
}

macro_rules! decode_as {
    ($($type:ident $(<$lifetime:lifetime>)?),* $(,)?) => {$(
        impl<'a> DecodeAs<'a> for $type $(<$lifetime>)? {
            fn equals_decoded(&self, bytes: &'a [u8]) -> bool {
                $type::from_bytes(bytes).unwrap() == *self
            }
        }
    )*};
}

decode_as!(
    AggregateShare<'static>,
    AggregateShareReq,
    AggregationJobContinueReq<'static>,
    AggregationJobInitReq<'static>,
    AggregationJobResp<'static>,
    BatchSelector,
    CollectionJobReq,
    CollectionJobResp<'static>,
    Extensions<'static>,
    HpkeCiphertext<'static>,
    HpkeConfig,
    HpkeConfigList,
    Interval,
    PlaintextInputShare<'static>,
    Query,
    Report<'static>,
    ReportError,
    ReportMetadata<'static>,
    ReportShare<'static>,
    ReportUploadStatus,
    TaskConfiguration,
    UploadErrors,
    VerifyContinue<'static>,
    VerifyInit<'static>,
    VerifyResp<'static>,
);

fn bytes(min: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), min..100)
}

fn opaque<const MIN: usize>() -> impl Strategy<Value = Opaque<'static, MIN>> {
    bytes(MIN).prop_map(|bytes| Opaque::new(bytes).unwrap())
}

fn report_id() -> impl Strategy<Value = ReportId> {
    any::<[u8; 16]>().prop_map(ReportId::new)
}

fn batch_id() -> impl Strategy<Value = BatchId> {
    any::<[u8; 32]>().prop_map(BatchId::new)
}

fn interval() -> impl Strategy<Value = Interval> {
    (any::<u64>(), any::<u64>()).prop_map(|(start, duration)| {
        let duration = duration.min(u64::MAX - start);
        Interval::new(Time::new(start), Duration::new(duration)).unwrap()
    })
}

fn url() -> impl Strategy<Value = Url> {
    vec(0x21u8..0x7f, 1..60).prop_map(|url| Url::new(String::from_utf8(url).unwrap()).unwrap())
}

/// Types above the known ones, with data, in order.
fn unknown_extensions() -> impl Strategy<Value = Vec<(u16, Vec<u8>)>> {
    btree_map(2u16.., bytes(0), 0..5).prop_map(|map| map.into_iter().collect())
}

fn extensions() -> impl Strategy<Value = Extensions<'static>> {
    unknown_extensions().prop_map(|list| {
        let list: Vec<_> = list
            .into_iter()
            .map(|(extension_type, data)| Extension { extension_type, extension_data: data.into() })
            .collect();
        let extensions = Extensions::new(&list).unwrap();
        let decoded: Result<Vec<_>, _> = extensions.iter().collect();
        assert_eq!(decoded, Ok(list));
        assert_eq!(extensions.check(), Ok(()));
        extensions
    })
}

fn task_configuration() -> impl Strategy<Value = TaskConfiguration> {
    let noise = proptest::option::of(any::<u64>());
    let extensions = (proptest::option::of(interval()), unknown_extensions(), noise);
    let numbers = (1u64.., any::<u64>(), any::<u32>());
    let mode = prop_oneof![Just(BatchMode::TimeInterval), Just(BatchMode::LeaderSelected)];
    (vec(any::<u8>(), 1..=255), url(), url(), numbers, mode, bytes(0), extensions).prop_map(
        |(task_info, leader, helper, (precision, min_batch_size, vdaf), mode, vdaf_config, ext)| {
            let (interval, unknown, noise) = ext;
            let interval = interval.map(TaskExtension::TaskInterval);
            let noise = noise.map(|sigma_micro| TaskExtension::ServerNoise { sigma_micro });
            let unknown = unknown
                .into_iter()
                .filter(|(extension_type, _)| *extension_type < 0xff11)
                .map(|(extension_type, data)| TaskExtension::Unknown { extension_type, data });
            TaskConfiguration::new(TaskParameters {
                task_info,
                leader_aggregator_endpoint: leader,
                helper_aggregator_endpoint: helper,
                time_precision: TimePrecision::from_seconds(precision).unwrap(),
                min_batch_size,
                batch_mode: mode,
                vdaf_type: VdafType::new(vdaf),
                vdaf_configuration: vdaf_config,
                extensions: interval.into_iter().chain(unknown).chain(noise).collect(),
            })
            .unwrap()
        },
    )
}

fn hpke_config() -> impl Strategy<Value = HpkeConfig> {
    (any::<u8>(), any::<u16>(), any::<u16>(), any::<u16>(), bytes(1)).prop_map(
        |(id, kem, kdf, aead, key)| {
            HpkeConfig::new(
                HpkeConfigId::new(id),
                HpkeKemId::new(kem),
                HpkeKdfId::new(kdf),
                HpkeAeadId::new(aead),
                key,
            )
            .unwrap()
        },
    )
}

fn hpke_ciphertext() -> impl Strategy<Value = HpkeCiphertext<'static>> {
    (any::<u8>(), bytes(1), bytes(1)).prop_map(|(id, enc, payload)| {
        HpkeCiphertext::new(HpkeConfigId::new(id), enc, payload).unwrap()
    })
}

fn report_error() -> impl Strategy<Value = ReportError> {
    proptest::sample::select(&ReportError::ALL[..])
}

fn report_metadata() -> impl Strategy<Value = ReportMetadata<'static>> {
    (report_id(), any::<u64>(), extensions()).prop_map(|(report_id, time, public_extensions)| {
        ReportMetadata { report_id, time: Time::new(time), public_extensions }
    })
}

fn report() -> impl Strategy<Value = Report<'static>> {
    (report_metadata(), opaque(), hpke_ciphertext(), hpke_ciphertext()).prop_map(
        |(report_metadata, public_share, leader, helper)| Report {
            report_metadata,
            public_share,
            leader_encrypted_input_share: leader,
            helper_encrypted_input_share: helper,
        },
    )
}

fn report_share() -> impl Strategy<Value = ReportShare<'static>> {
    (report_metadata(), opaque(), hpke_ciphertext()).prop_map(
        |(report_metadata, public_share, encrypted_input_share)| ReportShare {
            report_metadata,
            public_share,
            encrypted_input_share,
        },
    )
}

fn verify_init() -> impl Strategy<Value = VerifyInit<'static>> {
    (report_share(), opaque())
        .prop_map(|(report_share, payload)| VerifyInit { report_share, payload })
}

fn aggregation_job_init_req() -> impl Strategy<Value = AggregationJobInitReq<'static>> {
    let extensions = (proptest::option::of(batch_id()), unknown_extensions());
    (any::<u8>(), opaque(), extensions, vec(verify_init(), 0..4)).prop_map(
        |(verification_key_id, agg_param, (batch_id, unknown), verify_inits)| {
            let batch_id = batch_id.map(AggregationJobExtension::LeaderSelectedBatchId);
            let unknown = unknown.into_iter().map(|(extension_type, data)| {
                AggregationJobExtension::Unknown { extension_type, data }
            });
            let extensions = batch_id.into_iter().chain(unknown).collect();
            AggregationJobInitReq {
                verification_key_id,
                agg_param,
                extensions: AggregationJobExtensions::new(extensions).unwrap(),
                verify_inits,
            }
        },
    )
}

fn verify_resp() -> impl Strategy<Value = VerifyResp<'static>> {
    let kind = prop_oneof![
        opaque().prop_map(VerifyRespKind::Continue),
        Just(VerifyRespKind::Finish),
        report_error().prop_map(VerifyRespKind::Reject),
    ];
    (report_id(), kind).prop_map(|(report_id, kind)| VerifyResp { report_id, kind })
}

fn verify_continue() -> impl Strategy<Value = VerifyContinue<'static>> {
    (report_id(), opaque()).prop_map(|(report_id, payload)| VerifyContinue { report_id, payload })
}

fn query() -> impl Strategy<Value = Query> {
    prop_oneof![interval().prop_map(Query::TimeInterval), Just(Query::LeaderSelected)]
}

fn collection_job_req() -> impl Strategy<Value = CollectionJobReq> {
    (query(), opaque(), unknown_extensions()).prop_map(|(query, agg_param, extensions)| {
        let extensions = extensions
            .into_iter()
            .map(|(extension_type, data)| CollectionJobExtension { extension_type, data })
            .collect();
        let extensions = CollectionJobExtensions::new(extensions).unwrap();
        CollectionJobReq { query, agg_param, extensions }
    })
}

fn batch_selector() -> impl Strategy<Value = BatchSelector> {
    prop_oneof![
        interval().prop_map(BatchSelector::TimeInterval),
        batch_id().prop_map(BatchSelector::LeaderSelected),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(2),
        ..ProptestConfig::default()
    })]

    #[test]
    fn intervals(value in interval()) {
        check(&value)?;
    }

    #[test]
    fn task_configurations(value in task_configuration()) {
        check(&value)?;
        let bytes = value.to_bytes();
        prop_assert_eq!(taskprov::parse_header(&taskprov::header_value(&bytes)), Ok(bytes));
    }

    #[test]
    fn hpke_configs(config in hpke_config(), mut list in vec(hpke_config(), 1..5)) {
        check(&config)?;
        list.sort_by_key(|config| config.id());
        list.dedup_by_key(|config| config.id());
        check(&HpkeConfigList::new(list).unwrap())?;
    }

    #[test]
    fn hpke_ciphertexts(value in hpke_ciphertext()) {
        check(&value)?;
        check(&AggregateShare { encrypted_aggregate_share: value })?;
    }

    #[test]
    fn report_extensions(value in extensions()) {
        check(&value)?;
    }

    #[test]
    fn reports(reports in vec(report(), 0..4)) {
        for report in &reports {
            check(&report.report_metadata)?;
            check(report)?;
        }
        let body = UploadRequest::to_bytes(&reports);
        let decoded: Vec<_> = UploadRequest::new(&body).map(|item| item.unwrap()).collect();
        prop_assert_eq!(decoded.len(), reports.len());
        let mut joined = Vec::new();
        for ((report, raw), original) in decoded.iter().zip(&reports) {
            prop_assert_eq!(report, original);
            prop_assert_eq!(*raw, original.to_bytes());
            joined.extend_from_slice(raw);
        }
        prop_assert_eq!(joined, body);
    }

    #[test]
    fn upload_errors(status in vec((report_id(), report_error()), 0..10)) {
        let status: Vec<_> = status
            .into_iter()
            .map(|(report_id, error)| ReportUploadStatus { report_id, error })
            .collect();
        for status in &status {
            check(status)?;
            check(&status.error)?;
        }
        check(&UploadErrors { status })?;
    }

    #[test]
    fn plaintext_input_shares(private_extensions in extensions(), payload in opaque()) {
        check(&PlaintextInputShare { private_extensions, payload })?;
    }

    #[test]
    fn aggregation_job_init_reqs(value in aggregation_job_init_req()) {
        for verify_init in &value.verify_inits {
            check(&verify_init.report_share)?;
            check(verify_init)?;
        }
        check(&value)?;
    }

    #[test]
    fn aggregation_job_resps(verify_resps in vec(verify_resp(), 0..5)) {
        for verify_resp in &verify_resps {
            check(verify_resp)?;
        }
        check(&AggregationJobResp { verify_resps })?;
    }

    #[test]
    fn aggregation_job_continue_reqs(
        step in any::<u16>(),
        verify_continues in vec(verify_continue(), 0..5),
    ) {
        for verify_continue in &verify_continues {
            check(verify_continue)?;
        }
        check(&AggregationJobContinueReq { step, verify_continues })?;
    }

    #[test]
    fn collection_job_reqs(value in collection_job_req()) {
        check(&value.query)?;
        check(&value)?;
    }

    #[test]
    fn collection_job_resps(
        report_count in any::<u64>(),
        interval in interval(),
        leader in hpke_ciphertext(),
        helper in hpke_ciphertext(),
    ) {
        check(&CollectionJobResp {
            report_count,
            interval,
            leader_encrypted_agg_share: leader,
            helper_encrypted_agg_share: helper,
        })?;
    }

    #[test]
    fn aggregate_share_reqs(
        collection_job_req in collection_job_req(),
        batch_selector in batch_selector(),
        report_count in any::<u64>(),
        checksum in any::<[u8; 32]>(),
    ) {
        check(&batch_selector)?;
        let checksum = ReportIdChecksum::from(checksum);
        check(&AggregateShareReq { collection_job_req, batch_selector, report_count, checksum })?;
    }

    #[test]
    fn ids(id in report_id()) {
        prop_assert_eq!(id.to_string().parse(), Ok(id));
    }
}
