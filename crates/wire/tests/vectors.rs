//! Values computed by an independent program from the example header of the taskprov specification.

use sha2::{Digest, Sha256};
use sotto_wire::{
    AggregateShareAad, BatchMode, CollectionJobReq, Decode, Duration, Encode, Extensions,
    InputShareAad, Interval, PublicShare, Query, ReportId, ReportIdChecksum, ReportMetadata, Role,
    TaskConfiguration, TaskExtension, TaskExtensions, TaskId, TaskParameters, Time, TimePrecision,
    Url, VdafType, labels, taskprov,
};

const TASK_CONFIGURATION: &str = concat!(
    "0474657374",
    "001b68747470733a2f2f6c65616465722e6578616d706c652e636f6d2f",
    "001b68747470733a2f2f68656c7065722e6578616d706c652e636f6d2f",
    "000000000000003c",
    "000000000000000a",
    "01",
    "0000",
    "00000001",
    "0000",
    "0014",
    "0001",
    "0010",
    "000000000000003c",
    "0000000000000064",
);
const TASK_ID: &str = "35848a898adb146b559385247c7e49db1cbd28af52e3c11cfb01d4fc4b490479";

fn task_configuration() -> TaskConfiguration {
    TaskConfiguration::new(TaskParameters {
        task_info: b"test".to_vec(),
        leader_aggregator_endpoint: Url::new("https://leader.example.com/").unwrap(),
        helper_aggregator_endpoint: Url::new("https://helper.example.com/").unwrap(),
        time_precision: TimePrecision::from_seconds(60).unwrap(),
        min_batch_size: 10,
        batch_mode: BatchMode::TimeInterval,
        vdaf_type: VdafType::PRIO3_COUNT,
        vdaf_configuration: Vec::new(),
        extensions: vec![TaskExtension::TaskInterval(
            Interval::new(Time::new(60), Duration::new(100)).unwrap(),
        )],
    })
    .unwrap()
}

/// The bytes `first, first + 1, ...`.
fn counting<const N: usize>(first: u8) -> [u8; N] {
    std::array::from_fn(|i| first + i as u8)
}

#[test]
fn task_configuration_bytes() {
    let bytes = task_configuration().to_bytes();
    assert_eq!(bytes.len(), 110);
    assert_eq!(hex::encode(&bytes), TASK_CONFIGURATION);
    let decoded = TaskConfiguration::from_bytes(&bytes).unwrap();
    assert_eq!(decoded, task_configuration());
    assert_eq!(decoded.task_interval().unwrap().end(), Time::new(160));
    assert_eq!(decoded.unknown_extension(), None);
}

/// The private extension for noise, after the interval: type, length, sigma in millionths.
#[test]
fn server_noise_bytes() {
    let interval = Interval::new(Time::new(60), Duration::new(100)).unwrap();
    let noise = TaskExtension::ServerNoise { sigma_micro: 2_500_000 };
    let list = TaskExtensions::new(vec![TaskExtension::TaskInterval(interval), noise]).unwrap();
    let expected = "002000010010000000000000003c0000000000000064ff11000800000000002625a0";
    assert_eq!(hex::encode(list.to_bytes()), expected);
    assert_eq!(TaskExtensions::from_bytes(&list.to_bytes()), Ok(list));
}

#[test]
fn task_id() {
    let task_id = taskprov::task_id(&task_configuration().to_bytes());
    assert_eq!(hex::encode(task_id.as_bytes()), TASK_ID);
    assert_eq!(task_id.to_string(), "NYSKiYrbFGtVk4UkfH5J2xy9KK9S48Ec-wHU_EtJBHk");
    assert_eq!("NYSKiYrbFGtVk4UkfH5J2xy9KK9S48Ec-wHU_EtJBHk".parse(), Ok(task_id));
}

#[test]
fn verify_keys() {
    let task_id = taskprov::task_id(&task_configuration().to_bytes());
    assert_eq!(
        hex::encode(taskprov::verify_key(&counting(0), &task_id)),
        "b8e92261737fbd368b4cd5b17fdafd6d8fe587f2696df6cd07b618167c2c83d0"
    );
    assert_eq!(
        hex::encode(taskprov::dap_verify_key(&counting(0), &task_id)),
        "62373b194870d72517396a4a0ef4e5db4222ec9ac809cba2670300a7bb21c88f"
    );
}

#[test]
fn input_share_aad() {
    let task_configuration = task_configuration().to_bytes();
    let report_metadata = ReportMetadata {
        report_id: ReportId::new(counting(0)),
        time: Time::new(28_333_333),
        public_extensions: Extensions::empty(),
    };
    let aad = InputShareAad {
        task_id: taskprov::task_id(&task_configuration),
        task_configuration: &task_configuration,
        report_metadata: &report_metadata,
        public_share: &PublicShare::default(),
    };
    let bytes = aad.to_bytes();
    assert_eq!(bytes.len(), 172);
    assert_eq!(aad.encoded_len(), 172);
    assert_eq!(
        hex::encode(Sha256::digest(&bytes)),
        "29532756dc723f0502f1004ec3b658c43f22ad70b03960ce2433c94acd0ecf4e"
    );
}

#[test]
fn aggregate_share_aad() {
    let task_configuration = task_configuration().to_bytes();
    let collection_job_req = CollectionJobReq::new(Query::LeaderSelected).to_bytes();
    let aad = AggregateShareAad {
        task_id: taskprov::task_id(&task_configuration),
        task_configuration: &task_configuration,
        collection_job_req: &collection_job_req,
    };
    // One after another, without lengths between them.
    let expected = format!("{TASK_ID}{TASK_CONFIGURATION}020000000000000000");
    assert_eq!(hex::encode(aad.to_bytes()), expected);
    assert_eq!(aad.encoded_len(), expected.len() / 2);
}

#[test]
fn checksum() {
    let (first, second) = (ReportId::new(counting(0)), ReportId::new(counting(0x10)));
    let mut both = ReportIdChecksum::default();
    both.add(&first);
    both.add(&second);
    assert_eq!(
        hex::encode(both.as_bytes()),
        "426be7550294cc9567e57b171d6fdd16900a1955a1566f60f8f8ac926314be65"
    );
    let (mut one, mut other) = (ReportIdChecksum::default(), ReportIdChecksum::default());
    one.add(&second);
    other.add(&first);
    one.merge(&other);
    assert_eq!(one, both);
}

#[test]
fn info_strings() {
    let input = "6461702d313820696e707574207368617265";
    assert_eq!(hex::encode(labels::input_share_info(Role::Leader)), format!("{input}0102"));
    assert_eq!(hex::encode(labels::input_share_info(Role::Helper)), format!("{input}0103"));
    let aggregate = "6461702d3138206167677265676174652073686172650";
    assert_eq!(hex::encode(labels::aggregate_share_info(Role::Leader)), format!("{aggregate}200"));
    assert_eq!(hex::encode(labels::aggregate_share_info(Role::Helper)), format!("{aggregate}300"));
    let context = labels::vdaf_context(&TaskId::new(counting(0)));
    assert_eq!(context[..6], *b"dap-18");
    assert_eq!(context[6..], counting::<32>(0));
}

#[test]
fn taskprov_header() {
    let bytes = task_configuration().to_bytes();
    let value = taskprov::header_value(&bytes);
    assert!(value.starts_with(":BHRlc3Q"), "{value}");
    for same in [
        value.clone(),
        format!("  {value} "),
        format!("{value};a;b=1;c=?1; d=\"x;,\\\"y\"; e=:YQ==:;f=to/ken"),
        value.replace('=', ""),
    ] {
        assert_eq!(taskprov::parse_header(&same).as_ref(), Ok(&bytes), "{same}");
    }
    for other in [
        "".to_owned(),
        value.trim_matches(':').to_owned(),
        value[..value.len() - 1].to_owned(),
        format!("{value}, {value}"),
        format!("{value};a, {value}"),
        format!("{value};A=1"),
        format!("{value};a="),
        format!("{value};a=\"x"),
        format!("{value};a=\"\\x\""),
        format!("{value}a=1"),
        ":AA-_:".to_owned(),
        ":A:".to_owned(),
        "\"text\"".to_owned(),
        "token".to_owned(),
        "1".to_owned(),
        format!(":{}:", "A".repeat(1 << 20)),
    ] {
        let start = &other[..other.len().min(40)];
        assert_eq!(taskprov::parse_header(&other), Err(taskprov::HeaderError), "{start}");
    }
}
