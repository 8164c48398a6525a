use sotto_vdaf::VdafConfig;
use sotto_wire::{HpkeConfigId, taskprov};

use super::*;

fn fields(vdaf: VdafConfig) -> TaskFields {
    TaskFields {
        leader: "https://leader.example/dap".into(),
        helper: "https://helper.example/".into(),
        vdaf,
        batch_mode: BatchModeName::TimeInterval,
        min_batch_size: 100,
        time_precision: 3_600,
        task_start: Some(7_200),
        task_end: Some(36_000),
        task_info: URL_SAFE_NO_PAD.encode([7; 16]),
        encoded: String::new(),
    }
}

fn task(vdaf: VdafConfig) -> Task {
    let configuration = fields(vdaf).configuration().unwrap();
    Task::new(taskprov::task_id(&configuration.to_bytes()), configuration).unwrap()
}

fn all_vdafs() -> [VdafConfig; 6] {
    [
        VdafConfig::count(),
        VdafConfig::sum(1_000),
        VdafConfig::sum_vec(10, 3),
        VdafConfig::histogram(16),
        VdafConfig::multihot_count_vec(12, 4),
        VdafConfig::l1_bound_sum(5, 9),
    ]
}

fn write(folder: &tempfile::TempDir, text: &str) -> std::path::PathBuf {
    let path = folder.path().join("task.toml");
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn client_files_come_back() {
    let folder = tempfile::tempdir().unwrap();
    for vdaf in all_vdafs() {
        let task = task(vdaf);
        let path = write(&folder, &client_text(&task).unwrap());
        let read = TaskFile::read_task(&path).unwrap();
        assert_eq!(read.id(), task.id());
        assert_eq!(read.encoded_configuration(), task.encoded_configuration());
    }
}

#[test]
fn aggregator_and_collector_files_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let key = HpkeKeypair::generate(HpkeConfigId::new(9), &mut crate::random::system());
    for role in [Role::Leader, Role::Helper] {
        let part = AggregatorPart {
            task: task(VdafConfig::count()),
            role,
            verify_key: Secret::new([3; 32]),
            leader_token: Secret::new("leader-token".into()),
            collector_token: (role == Role::Leader).then(|| Secret::new("collector-token".into())),
            collector_hpke_config: key.config().clone(),
        };
        let path = write(&folder, &aggregator_text(&part).unwrap());
        let read = TaskFile::read_aggregator(&path).unwrap();
        assert_eq!(read.role, role);
        assert_eq!(read.verify_key, part.verify_key);
        assert_eq!(read.leader_token, part.leader_token);
        assert_eq!(read.collector_token, part.collector_token);
        assert_eq!(read.collector_hpke_config, part.collector_hpke_config);
        let error = TaskFile::read_collector(&path).unwrap_err();
        assert!(error.to_string().contains("not that of the collector"), "{error}");
    }
    let token = Secret::new("collector-token".into());
    let part = CollectorPart { task: task(VdafConfig::count()), token, key };
    let path = write(&folder, &collector_text(&part).unwrap());
    let read = TaskFile::read_collector(&path).unwrap();
    assert_eq!(read.token, part.token);
    assert_eq!(read.key.config(), part.key.config());
    assert_eq!(read.key.private_key(), part.key.private_key());
}

#[test]
fn an_edited_field_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let text = client_text(&task(VdafConfig::histogram(16))).unwrap();
    for (from, to) in [
        ("min_batch_size = 100", "min_batch_size = 1"),
        ("https://helper.example/", "https://helper.example"),
        ("length = 16", "length = 17"),
        ("time_precision = 3600", "time_precision = 1800"),
    ] {
        let edited = text.replace(from, to);
        assert_ne!(edited, text);
        let error = TaskFile::read_task(&write(&folder, &edited)).unwrap_err();
        assert!(format!("{error:#}").contains("do not match `encoded`"), "{from}: {error:#}");
    }
}

#[test]
fn a_misspelt_key_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let text = client_text(&task(VdafConfig::count())).unwrap().replace("helper =", "hepler =");
    let error = TaskFile::read_task(&write(&folder, &text)).unwrap_err();
    assert!(format!("{error:#}").contains("unknown field `hepler`"), "{error:#}");
}

#[test]
fn intervals_lie_on_the_grid() {
    let hour = TimePrecision::from_seconds(3_600).unwrap();
    assert!(task_interval(hour, None, None).unwrap().is_none());
    let interval = task_interval(hour, Some(7_200), Some(10_800)).unwrap().unwrap();
    assert_eq!((interval.start(), interval.duration()), (Time::new(2), Duration::new(1)));
    for (start, end) in [(Some(0), None), (Some(5), Some(3_600)), (Some(3_600), Some(3_600))] {
        assert!(task_interval(hour, start, end).is_err());
    }
}
