//! Joining advertised tasks.

use sotto_crypto::Secret;
use sotto_protocol::Moment;
use sotto_protocol::taskprov::{TaskprovPolicy, opt_in, restore};
use sotto_testing::aggregators::{COLLECTOR_KEY, NOW, PRECISION_S, interval, parameters};
use sotto_testing::keys::keypair;
use sotto_vdaf::VdafConfig;
use sotto_wire::{
    BatchMode, Decode, Encode, ProblemType, Role, TaskConfiguration, TaskExtension, TaskId,
    TaskParameters, TimePrecision, Url, VdafType, taskprov,
};

fn policy() -> TaskprovPolicy {
    TaskprovPolicy {
        role: Role::Helper,
        verify_key_init: Secret::new([5; 32]),
        collector_hpke_config: keypair(COLLECTOR_KEY).config().clone(),
        leader_endpoint: Url::new("https://leader.example/").unwrap(),
        helper_endpoint: Url::new("https://helper.example/dap").unwrap(),
        min_batch_size: 3,
        max_lifetime_s: 10 * PRECISION_S,
    }
}

/// A task that the policy allows: ten units long, five of them already over.
fn advertised() -> TaskParameters {
    let mut parameters = parameters(&VdafConfig::histogram(4), BatchMode::LeaderSelected);
    parameters.extensions.push(TaskExtension::TaskInterval(interval(-5, 10)));
    parameters
}

fn encoded(parameters: TaskParameters) -> Vec<u8> {
    TaskConfiguration::new(parameters).unwrap().to_bytes()
}

#[test]
fn an_acceptable_task_is_joined() {
    let configuration = encoded(advertised());
    let task_id = taskprov::task_id(&configuration);
    let task = opt_in(&task_id, &configuration, &policy(), NOW).unwrap();
    assert_eq!(*task.task.id(), task_id);
    assert_eq!(task.task.encoded_configuration(), configuration);
    assert_eq!(task.role, Role::Helper);
    assert!(task.taskprov);
    assert!(task.verify_key.ct_eq(&taskprov::verify_key(&[5; 32], &task_id)));

    // The last moment of the task, and the first after it.
    let end = NOW.0 + 5 * PRECISION_S;
    assert!(opt_in(&task_id, &configuration, &policy(), Moment(end - 1)).is_ok());
    assert!(opt_in(&task_id, &configuration, &policy(), Moment(end)).is_err());
    // Once joined, it is never left.
    let decoded = TaskConfiguration::from_bytes(&configuration).unwrap();
    let restored = restore(&task_id, decoded, &policy()).unwrap();
    assert_eq!(restored.task.encoded_configuration(), configuration);
}

type Alter = fn(&mut TaskParameters);

fn other() -> Url {
    Url::new("https://elsewhere.example/").unwrap()
}

#[test]
fn each_reason_to_opt_out() {
    let cases: [(&str, Alter); 11] = [
        ("another leader", |p| p.leader_aggregator_endpoint = other()),
        ("another helper", |p| p.helper_aggregator_endpoint = other()),
        ("another spelling", |p| {
            p.helper_aggregator_endpoint = Url::new("https://helper.example/dap/").unwrap();
        }),
        ("a small batch", |p| p.min_batch_size = 2),
        ("no interval", |p| p.extensions.clear()),
        ("a long interval", |p| set_interval(p, -5, 11)),
        ("an interval that is over", |p| set_interval(p, -10, 10)),
        ("an unknown extension", |p| {
            p.extensions.push(TaskExtension::Unknown { extension_type: 2, data: vec![] });
        }),
        ("noise", |p| p.extensions.push(TaskExtension::ServerNoise { sigma_micro: 1_000_000 })),
        ("an unknown VDAF", |p| p.vdaf_type = VdafType::POPLAR1),
        ("a chunk length that is a cost bomb", |p| {
            let bomb = VdafConfig::Prio3Histogram { length: 1000, chunk_length: 1 };
            p.vdaf_configuration = bomb.encode_configuration();
        }),
    ];
    for (name, alter) in cases {
        let mut parameters = advertised();
        alter(&mut parameters);
        let configuration = encoded(parameters);
        let task_id = taskprov::task_id(&configuration);
        let abort = opt_in(&task_id, &configuration, &policy(), NOW).unwrap_err();
        assert_eq!(abort.problem, ProblemType::InvalidTask, "{name}: {abort}");
        assert_eq!(abort.task_id, Some(task_id), "{name}");
    }
}

fn set_interval(parameters: &mut TaskParameters, start: i64, units: u64) {
    parameters.extensions = vec![TaskExtension::TaskInterval(interval(start, units))];
}

#[test]
fn a_task_that_begins_in_a_thousand_years_is_not_joined() {
    let mut parameters = parameters(&VdafConfig::histogram(4), BatchMode::LeaderSelected);
    let units = 1000 * 365 * 24 * 3600 / PRECISION_S as i64;
    parameters.extensions.push(TaskExtension::TaskInterval(interval(units, 1)));
    let configuration = encoded(parameters);
    let task_id = taskprov::task_id(&configuration);
    let abort = opt_in(&task_id, &configuration, &policy(), NOW).unwrap_err();
    assert_eq!(abort.problem, ProblemType::InvalidTask, "{abort}");
}

#[test]
fn a_task_may_end_as_far_ahead_as_it_may_be_long() {
    let mut parameters = advertised();
    set_interval(&mut parameters, 8, 2);
    let configuration = encoded(parameters);
    let task_id = taskprov::task_id(&configuration);
    let end = interval(8, 2).end().start_seconds(TimePrecision::from_seconds(PRECISION_S).unwrap());
    let earliest = end - policy().max_lifetime_s;
    assert!(opt_in(&task_id, &configuration, &policy(), Moment(earliest)).is_ok());
    let abort = opt_in(&task_id, &configuration, &policy(), Moment(earliest - 1)).unwrap_err();
    assert_eq!(abort.problem, ProblemType::InvalidTask, "{abort}");
}

#[test]
fn an_unknown_batch_mode_is_opted_out_of() {
    let mut configuration = encoded(advertised());
    // After task_info, two URLs, precision and batch size.
    let at = 1 + 20 + 2 + 23 + 2 + 26 + 8 + 8;
    assert_eq!(configuration[at], BatchMode::LeaderSelected as u8);
    configuration[at] = 9;
    let task_id = taskprov::task_id(&configuration);
    let abort = opt_in(&task_id, &configuration, &policy(), NOW).unwrap_err();
    assert_eq!(abort.problem, ProblemType::InvalidTask);
}

#[test]
fn an_advertisement_of_another_task_or_of_none_is_not_recognized() {
    let configuration = encoded(advertised());
    let other = TaskId::new([1; 32]);
    let abort = opt_in(&other, &configuration, &policy(), NOW).unwrap_err();
    assert_eq!(abort.problem, ProblemType::UnrecognizedTask);

    let garbage = &configuration[1..];
    let abort = opt_in(&taskprov::task_id(garbage), garbage, &policy(), NOW).unwrap_err();
    assert_eq!(abort.problem, ProblemType::UnrecognizedTask);
}
