//! Tasks, keys, and the counts of rejected reports.

use sotto_protocol::{HpkeKeyring, Moment, Rejection, Rejections, Task, TaskError};
use sotto_testing::aggregators::{PRECISION_S, interval, parameters, unit};
use sotto_testing::keys::{keypair, keyring};
use sotto_vdaf::VdafConfig;
use sotto_wire::{
    BatchMode, Decode, Encode, HpkeConfigId, HpkeConfigList, ReportError, TaskConfiguration,
    TaskExtension, TaskId, TaskParameters, Time, VdafType,
};

fn task(alter: fn(&mut TaskParameters)) -> Result<Task, TaskError> {
    let mut parameters = parameters(&VdafConfig::sum(9), BatchMode::TimeInterval);
    alter(&mut parameters);
    Task::new(TaskId::new([1; 32]), TaskConfiguration::new(parameters).unwrap())
}

#[test]
fn a_task_that_nobody_may_serve_is_refused() {
    assert!(task(|_| {}).is_ok());
    let unknown = task(|p| {
        p.extensions.push(TaskExtension::Unknown { extension_type: 0xff01, data: vec![] });
    });
    assert_eq!(unknown.unwrap_err(), TaskError::UnknownExtension(0xff01));
    let empty = task(|p| p.min_batch_size = 0);
    assert!(matches!(empty, Err(TaskError::Invalid(_))));
    let poplar = task(|p| p.vdaf_type = VdafType::POPLAR1);
    assert!(matches!(poplar, Err(TaskError::Vdaf(_))));
    let short = task(|p| p.vdaf_configuration.truncate(7));
    assert!(matches!(short, Err(TaskError::Vdaf(_))));
}

#[test]
fn a_task_whose_smallest_batch_may_wrap_is_refused() {
    let sum = |max, min_batch_size| {
        let mut parameters = parameters(&VdafConfig::sum(max), BatchMode::TimeInterval);
        parameters.min_batch_size = min_batch_size;
        Task::new(TaskId::new([1; 32]), TaskConfiguration::new(parameters).unwrap())
    };
    // Field64 has a little less than 2^64 elements.
    assert!(sum(1 << 62, 3).is_ok());
    let error = sum(1 << 62, 4).unwrap_err();
    assert_eq!(error, TaskError::MayWrap { min_batch_size: 4, max_reports: 3 });
    let shown = error.to_string();
    assert!(shown.contains("batch size of 4") && shown.contains("more than 3"), "{shown}");
}

#[test]
fn times_are_in_units_of_the_precision() {
    let task = task(|p| p.extensions = vec![TaskExtension::TaskInterval(interval(-1, 2))]).unwrap();
    assert_eq!(task.time(Moment(3 * PRECISION_S - 1)), Time::new(2));
    assert_eq!(task.interval(), Some(interval(-1, 2)));
    assert_eq!(task.check_interval(unit(-2)), Err(Rejection::TaskNotStarted));
    assert_eq!(task.check_interval(unit(-1)), Ok(()));
    assert_eq!(task.check_interval(unit(0)), Ok(()));
    assert_eq!(task.check_interval(unit(1)), Err(Rejection::TaskExpired));
}

#[test]
fn a_keyring_has_a_key_and_no_id_twice() {
    assert!(HpkeKeyring::new(&[]).is_err());
    assert!(HpkeKeyring::new(&[keypair(1), keypair(2), keypair(1)]).is_err());
    let ring = keyring(&[5, 3]);
    let served = ring.config_list().unwrap().to_bytes();
    let list = HpkeConfigList::from_bytes(&served).unwrap();
    assert_eq!(list.as_slice(), [keypair(5).config().clone(), keypair(3).config().clone()]);
    assert!(ring.opener(HpkeConfigId::new(3)).is_some());
    assert!(ring.opener(HpkeConfigId::new(4)).is_none());
}

/// Reasons from this number on are not in DAP.
const OUR_OWN: u8 = 128;

#[test]
fn reasons_keep_their_numbers_and_names() {
    for reason in Rejection::ALL {
        assert_eq!(Rejection::from_code(reason.code()), Some(reason));
        assert_eq!(reason.to_string(), reason.name());
        let error = ReportError::from(reason);
        if reason.code() < OUR_OWN {
            assert_eq!(error.value(), reason.code(), "{reason}");
            assert_eq!(Rejection::from(error), reason);
            assert_eq!(error.name(), reason.name());
        }
    }
    assert_eq!(Rejection::from_code(4), None);
    // Stores hold these numbers.
    let ours = Rejection::ALL.into_iter().filter(|reason| reason.code() >= OUR_OWN);
    let ours: Vec<_> = ours.map(|reason| (reason.code(), reason.name())).collect();
    let expected = [
        (128, "job_abandoned"),
        (129, "token_missing"),
        (130, "token_malformed"),
        (131, "token_wrong_key"),
        (132, "token_wrong_recipe"),
        (133, "token_expired"),
        (134, "token_forged"),
        (135, "token_other_report"),
    ];
    assert_eq!(ours, expected);
}

/// The sender of the report and the other aggregator learn that a token was bad, but not how.
#[test]
fn every_bad_token_is_the_same_to_others() {
    for reason in Rejection::ALL.into_iter().filter(|reason| reason.name().starts_with("token_")) {
        assert_eq!(ReportError::from(reason), ReportError::InvalidMessage, "{reason}");
    }
}

#[test]
fn refused_reports_are_counted_by_reason() {
    let mut rejections = Rejections::default();
    rejections.add(Rejection::VdafVerifyError);
    rejections.add_many(Rejection::ReportReplayed, 2);
    rejections.add_many(Rejection::ReportDropped, 0);
    rejections.add(Rejection::VdafVerifyError);
    let counts: Vec<_> = rejections.iter().collect();
    assert_eq!(counts, [(Rejection::ReportReplayed, 2), (Rejection::VdafVerifyError, 2)]);
    assert_eq!(rejections.total(), 4);
}
