use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::token::{TokenRefusal, VerifyToken};
use sotto_protocol::{Moment, ReleaseRules, Task};
use sotto_vdaf::VdafConfig;
use sotto_wire::{
    BatchMode, HpkeConfigId, ReportId, TaskConfiguration, TaskParameters, TimePrecision,
    Url as WireUrl, VdafType,
};

use super::*;

/// A leader's task with this id and helper.
pub(crate) fn leader_task(id: u8, helper: &str) -> Result<ServedTask, TaskRefused> {
    let vdaf = VdafConfig::count();
    let configuration = TaskConfiguration::new(TaskParameters {
        task_info: vec![id],
        leader_aggregator_endpoint: WireUrl::new("https://leader.example/").unwrap(),
        helper_aggregator_endpoint: WireUrl::new(helper).unwrap(),
        time_precision: TimePrecision::from_seconds(60).unwrap(),
        min_batch_size: 1,
        batch_mode: BatchMode::TimeInterval,
        vdaf_type: VdafType::new(vdaf.vdaf_type()),
        vdaf_configuration: vdaf.encode_configuration(),
        extensions: Vec::new(),
    })
    .unwrap();
    let mut rng = crate::environment::Environment::default().rng().unwrap();
    let aggregator = AggregatorTask {
        task: Task::new(TaskId::new([id; 32]), configuration).unwrap(),
        role: Role::Leader,
        verify_key: Secret::new([0; 32]),
        collector_hpke_config: HpkeKeypair::generate(HpkeConfigId::new(1), &mut rng)
            .config()
            .clone(),
        taskprov: false,
        tokens: None,
        series: None,
        release: ReleaseRules::default(),
    };
    let token = Arc::new(AuthToken::bearer("token").unwrap());
    ServedTask::leader(aggregator, Arc::clone(&token), token)
}

#[test]
fn resources_lie_below_the_helper_as_it_is_spelled() {
    let id = TaskId::new([1; 32]);
    for base in ["https://helper.example/dap/", "https://helper.example/dap"] {
        let task = leader_task(1, base).unwrap();
        let endpoint = task.helper.as_ref().unwrap();
        let expected = format!("https://helper.example/dap/tasks/{id}/aggregate_shares");
        assert_eq!(endpoint.aggregate_shares.as_str(), expected);
    }
    for bad in ["helper.example", "ftp://helper.example/", "https://helper.example/?a=b"] {
        let refused = leader_task(1, bad).unwrap_err();
        assert!(matches!(refused, TaskRefused::HelperUrl { .. }), "{bad}");
    }
}

/// Takes every token.
#[derive(Debug)]
struct AnyToken;

impl VerifyToken for AnyToken {
    fn verify(&self, _: &[u8], _: Moment) -> Result<ReportId, TokenRefusal> {
        Ok(ReportId::new([0; 16]))
    }
}

/// Without the ids of its series a round would take spent tokens.
#[test]
fn no_round_of_a_forgotten_series_is_served() {
    let registry = TaskRegistry::new(Role::Leader, true, false);
    let registry = registry.without(vec![TaskId::new([9; 32])]);
    let round = |id, series| {
        let mut task = leader_task(id, "https://helper.example/").unwrap();
        task.aggregator.series = Some(EntryId::new([series; 32]));
        task.aggregator.tokens = Some(Arc::new(AnyToken));
        task
    };
    registry.add(round(1, 8)).unwrap();
    let refused = registry.add(round(2, 9)).unwrap_err().to_string();
    assert!(refused.contains("forget_tasks"), "{refused}");
    // No token is checked, so no spent token was forgotten.
    let unchecked = || {
        let mut task = round(3, 9);
        task.aggregator.tokens = None;
        task
    };
    registry.add(unchecked()).unwrap();
    assert_eq!(round(1, 8).aggregator().replay_scope(), ReplayScope::Series(TaskId::new([8; 32])));
    assert_eq!(unchecked().aggregator().replay_scope(), ReplayScope::Bucket);
}

#[test]
fn plain_http_is_for_loopback() {
    let registry = TaskRegistry::new(Role::Leader, true, false);
    for (id, (helper, fine)) in [
        ("https://helper.example/", true),
        ("http://127.0.0.1:8080/", true),
        ("http://[::1]:8080/", true),
        ("http://localhost/", true),
        ("http://helper.example/", false),
        ("http://192.0.2.1/", false),
        ("http://localhost.example/", false),
    ]
    .into_iter()
    .enumerate()
    {
        let task = leader_task(id as u8, helper).unwrap();
        assert_eq!(registry.add(task).is_ok(), fine, "{helper}");
    }
}
