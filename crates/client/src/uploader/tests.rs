//! The uploader against a scripted pair of aggregators.

use std::sync::atomic::{AtomicUsize, Ordering};

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto_crypto::{HpkeKeypair, hpke};
use sotto_wire::labels::input_share_info;
use sotto_wire::{
    BatchMode, Encode, HpkeAeadId, HpkeConfigId, HpkeConfigList, InputShareAad, ReportUploadStatus,
    UploadErrors, UploadRequest,
};

use super::*;
use crate::script::{Reply, Script, Sent, empty, impatient, message, problem, task, with_header};
use crate::transport::{HttpResponse, Method, TransportError};

const NOW: Moment = Moment(1_700_000_000);
const REPORTS_URL: &str =
    "https://leader.example/api/tasks/q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s/reports";

/// Both aggregators' keys; their `hpke_config` lists an unsupported suite first.
struct Pair {
    leader: HpkeKeypair,
    helper: HpkeKeypair,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut rng = rng(seed);
        let leader = HpkeKeypair::generate(HpkeConfigId::new(seed as u8), &mut rng);
        let helper = HpkeKeypair::generate(HpkeConfigId::new(seed as u8), &mut rng);
        Self { leader, helper }
    }

    /// Answers requests for keys.
    fn keys(&self, sent: &Sent) -> Option<HttpResponse> {
        let key = match sent.url.as_str() {
            "https://leader.example/api/hpke_config" => &self.leader,
            "https://helper.example/hpke_config" => &self.helper,
            _ => return None,
        };
        assert_eq!(sent.method, Method::Get);
        let ours = key.config();
        let other = HpkeConfig::new(
            HpkeConfigId::new(200),
            ours.kem_id(),
            ours.kdf_id(),
            HpkeAeadId::CHACHA20_POLY1305,
            ours.public_key().to_vec(),
        );
        let list = HpkeConfigList::new(vec![other.unwrap(), ours.clone()]).unwrap();
        Some(message(MediaType::HpkeConfigList, list.to_bytes()))
    }
}

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

fn device(script: &Arc<Script>) -> Uploader {
    let (retry, _) = impatient();
    Uploader::new(task(BatchMode::TimeInterval), script.clone()).with_retry(retry)
}

/// Serves keys, and passes uploads to `upload` with their number.
fn serve(upload: impl Fn(&Sent, usize) -> Reply + Send + Sync + 'static) -> Arc<Script> {
    let (pair, uploads) = (Pair::new(1), AtomicUsize::new(0));
    Script::new(move |sent, _| match pair.keys(sent) {
        Some(keys) => Ok(keys),
        None => upload(sent, uploads.fetch_add(1, Ordering::SeqCst)),
    })
}

/// Rejects the reports of an upload at these positions.
fn refuse(sent: &Sent, refused: &[(usize, ReportError)]) -> HttpResponse {
    let ids: Vec<ReportId> =
        UploadRequest::new(&sent.body).map(|r| r.unwrap().0.report_metadata.report_id).collect();
    let status =
        refused.iter().map(|(i, error)| ReportUploadStatus { report_id: ids[*i], error: *error });
    message(MediaType::UploadErrors, UploadErrors { status: status.collect() }.to_bytes())
}

fn prepare(device: &Uploader, count: usize) -> Vec<PreparedReport> {
    let mut rng = rng(7);
    let one = || device.prepare(&Measurement::Count(true), NOW, &mut rng).unwrap();
    std::iter::repeat_with(one).take(count).collect()
}

#[test]
fn a_report_opens_at_both_aggregators() {
    let script = serve(|_, _| Ok(empty(200)));
    let device = device(&script);
    let outcome = device.send(&Measurement::Count(true), NOW, &mut rng(1)).unwrap();
    assert_eq!(outcome, UploadOutcome::Accepted);

    let sent = script.sent();
    assert_eq!(sent.len(), 3, "two lists of keys and one upload");
    let upload = &sent[2];
    assert_eq!((upload.method, upload.url.as_str()), (Method::Post, REPORTS_URL));
    assert_eq!(upload.header("content-type"), Some(MediaType::UploadReq.as_str()));
    assert_eq!(upload.headers.len(), 1, "nothing else about the device");

    let report = Report::from_bytes(&upload.body).unwrap();
    assert_eq!(report.report_metadata.time.as_units(), NOW.0 / 3600);
    let aad = InputShareAad {
        task_id: *device.task().id(),
        task_configuration: device.task().encoded_configuration(),
        report_metadata: &report.report_metadata,
        public_share: &report.public_share,
    }
    .to_bytes();
    let pair = Pair::new(1);
    for (role, key, share) in [
        (sotto_wire::Role::Leader, &pair.leader, &report.leader_encrypted_input_share),
        (sotto_wire::Role::Helper, &pair.helper, &report.helper_encrypted_input_share),
    ] {
        hpke::open(key, &input_share_info(role), &aad, share).unwrap();
    }
}

#[test]
fn keys_are_fetched_once_and_shared() {
    let script = serve(|_, _| Ok(empty(200)));
    let device = device(&script);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let device = &device;
            scope.spawn(move || {
                device.send(&Measurement::Count(true), NOW, &mut rng(seed)).unwrap()
            });
        }
    });
    let fetched = script.sent().iter().filter(|sent| sent.method == Method::Get).count();
    assert_eq!(fetched, 2);
}

#[test]
fn each_report_has_its_outcome() {
    let script = serve(|sent, _| {
        Ok(refuse(sent, &[(1, ReportError::ReportTooEarly), (3, ReportError::BatchCollected)]))
    });
    let device = device(&script);
    let outcomes = device.upload(&prepare(&device, 4), &mut rng(1)).unwrap();
    assert_eq!(
        outcomes,
        [
            UploadOutcome::Accepted,
            UploadOutcome::Rejected(ReportError::ReportTooEarly),
            UploadOutcome::Accepted,
            UploadOutcome::Rejected(ReportError::BatchCollected),
        ]
    );
    assert!(device.upload(&[], &mut rng(1)).unwrap().is_empty());
    assert_eq!(script.sent().len(), 3, "an empty upload is not sent");
}

#[test]
fn an_outdated_key_is_fetched_anew_and_the_report_made_anew() {
    let rotated = Arc::new(AtomicUsize::new(0));
    let (old, new) = (Pair::new(1), Pair::new(2));
    let state = rotated.clone();
    let script = Script::new(move |sent, _| {
        let pair = if state.load(Ordering::SeqCst) == 0 { &old } else { &new };
        if let Some(keys) = pair.keys(sent) {
            return Ok(keys);
        }
        let report = Report::from_bytes(&sent.body).unwrap();
        let id = report.leader_encrypted_input_share.config_id();
        let current = id == pair.leader.config().id() && state.fetch_add(1, Ordering::SeqCst) > 0;
        Ok(if current { empty(200) } else { refuse(sent, &[(0, ReportError::OutdatedConfig)]) })
    });
    let device = device(&script);
    let outcome = device.send(&Measurement::Count(true), NOW, &mut rng(1)).unwrap();
    assert_eq!(outcome, UploadOutcome::Accepted);
    let uploads: Vec<Sent> =
        script.sent().into_iter().filter(|sent| sent.method == Method::Post).collect();
    let ids: Vec<ReportId> = uploads
        .iter()
        .map(|sent| Report::from_bytes(&sent.body).unwrap().report_metadata.report_id)
        .collect();
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1], "a fresh report, not the old one sealed anew");
}

#[test]
fn an_outdated_key_is_retried_once_only() {
    let script = serve(|sent, _| Ok(refuse(sent, &[(0, ReportError::OutdatedConfig)])));
    let outcome = device(&script).send(&Measurement::Count(true), NOW, &mut rng(1)).unwrap();
    assert_eq!(outcome, UploadOutcome::Rejected(ReportError::OutdatedConfig));
    assert_eq!(script.sent().len(), 6, "keys and upload, twice");
}

#[test]
fn a_late_answer_about_old_keys_keeps_the_new_ones() {
    let script = serve(|sent, _| Ok(refuse(sent, &[(0, ReportError::OutdatedConfig)])));
    let device = device(&script);
    let old = prepare(&device, 2);
    device.upload(&old[..1], &mut rng(1)).unwrap();
    prepare(&device, 1); // fetches
    let fetched = || script.sent().iter().filter(|sent| sent.method == Method::Get).count();
    assert_eq!(fetched(), 4);
    device.upload(&old[1..], &mut rng(1)).unwrap();
    prepare(&device, 1);
    assert_eq!(fetched(), 4, "the answer was about keys that are gone");
    let kept = PreparedReport::from_bytes(old[0].as_bytes().to_vec()).unwrap();
    device.upload(&[kept], &mut rng(1)).unwrap();
    prepare(&device, 1);
    assert_eq!(fetched(), 6, "whose keys were outdated is unknown");
}

#[test]
fn pinned_keys_are_never_fetched() {
    let script = Script::new(|sent, _| {
        assert_eq!(sent.method, Method::Post);
        Ok(refuse(sent, &[(0, ReportError::OutdatedConfig)]))
    });
    let pair = Pair::new(3);
    let device = device(&script)
        .with_hpke_configs(pair.leader.config().clone(), pair.helper.config().clone());
    let outcome = device.send(&Measurement::Count(false), NOW, &mut rng(1)).unwrap();
    assert_eq!(outcome, UploadOutcome::Rejected(ReportError::OutdatedConfig));
    assert_eq!(script.sent().len(), 1);
}

#[test]
fn a_lost_answer_is_made_good_with_the_same_bytes() {
    for lost in [TransportError::Timeout, TransportError::Unreachable("broken pipe".into())] {
        let script = serve(move |sent, number| match number {
            0 => Err(lost.clone()),
            1 => Ok(with_header(empty(503), "Retry-After", "7")),
            // The first attempt had arrived.
            _ => Ok(refuse(sent, &[(0, ReportError::ReportReplayed)])),
        });
        let (retry, slept) = impatient();
        let device = device(&script).with_retry(retry);
        let outcomes = device.upload(&prepare(&device, 2), &mut rng(1)).unwrap();
        assert_eq!(outcomes, [UploadOutcome::Accepted; 2]);
        let sent = script.sent();
        let bodies: Vec<&[u8]> = sent[2..].iter().map(|sent| sent.body.as_slice()).collect();
        assert_eq!(bodies.len(), 3);
        assert!(bodies.iter().all(|body| *body == bodies[0]));
        assert!(slept.lock().unwrap()[1].as_secs() >= 7, "Retry-After is obeyed");
    }
}

#[test]
fn a_replay_in_the_first_answer_is_a_rejection() {
    let script = serve(|sent, _| Ok(refuse(sent, &[(0, ReportError::ReportReplayed)])));
    let outcome = device(&script).send(&Measurement::Count(true), NOW, &mut rng(1)).unwrap();
    assert_eq!(outcome, UploadOutcome::Rejected(ReportError::ReportReplayed));
}

#[test]
fn the_same_report_twice_in_one_upload() {
    let script = serve(|sent, _| Ok(refuse(sent, &[(1, ReportError::ReportReplayed)])));
    let device = device(&script);
    let report = prepare(&device, 1).remove(0);
    let mut outcomes = device.upload(&[report.clone(), report], &mut rng(1)).unwrap();
    outcomes.sort_by_key(|outcome| *outcome != UploadOutcome::Accepted);
    assert_eq!(
        outcomes,
        [UploadOutcome::Accepted, UploadOutcome::Rejected(ReportError::ReportReplayed)]
    );
}

#[test]
fn patience_ends() {
    let script = serve(|_, _| Err(TransportError::Timeout));
    let error = device(&script).send(&Measurement::Count(true), NOW, &mut rng(1)).unwrap_err();
    assert!(matches!(
        error,
        UploadError::Upload(ExchangeError::Transport(TransportError::Timeout))
    ));
    assert_eq!(script.sent().len(), 2 + 5);

    let script = serve(|_, _| Ok(with_header(empty(429), "retry-after", "3600")));
    let error = device(&script).send(&Measurement::Count(true), NOW, &mut rng(1)).unwrap_err();
    let UploadError::Upload(ExchangeError::Problem(refusal)) = error else { panic!("{error}") };
    assert_eq!(refusal.status, 429);
    assert_eq!(script.sent().len(), 2 + 1, "an hour is too long to wait");
}

#[test]
fn a_refused_upload_says_why() {
    let urn = "urn:ietf:params:ppm:dap:error:unrecognizedTask";
    let script = serve(move |_, _| Ok(problem(404, urn, "no such task\\u001b[2J")));
    let error = device(&script).send(&Measurement::Count(true), NOW, &mut rng(1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "upload: the aggregator refused: HTTP status 404, unrecognizedTask: no such task[2J"
    );
    assert_eq!(script.sent().len(), 3, "no retry");
}

#[test]
fn bad_answers_to_uploads_are_errors() {
    let stranger =
        ReportUploadStatus { report_id: ReportId::new([9; 16]), error: ReportError::ReportDropped };
    let stranger = UploadErrors { status: vec![stranger] }.to_bytes();
    for (reply, reason) in [
        (message(MediaType::UploadErrors, stranger), "an error about no report"),
        (message(MediaType::UploadErrors, vec![1; 16]), "do not decode"),
        (message(MediaType::UploadReq, vec![1; 17]), "content type"),
    ] {
        let script = serve(move |_, _| Ok(reply.clone()));
        let error = device(&script).send(&Measurement::Count(true), NOW, &mut rng(1)).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn bad_keys_are_errors_that_name_the_aggregator() {
    let unsupported = HpkeConfig::new(
        HpkeConfigId::new(1),
        sotto_wire::HpkeKemId::P256_HKDF_SHA256,
        sotto_wire::HpkeKdfId::HKDF_SHA256,
        HpkeAeadId::AES_128_GCM,
        vec![4; 65],
    );
    let unsupported = HpkeConfigList::new(vec![unsupported.unwrap()]).unwrap().to_bytes();
    let pair = Pair::new(1);
    let supported = HpkeConfigList::new(vec![pair.leader.config().clone()]).unwrap().to_bytes();
    let trailing = [&supported[..], b"x"].concat();
    for (reply, reason) in [
        (Ok(message(MediaType::HpkeConfigList, unsupported)), "supported suite"),
        (Ok(message(MediaType::HpkeConfigList, vec![0, 0])), "does not decode"),
        (Ok(message(MediaType::HpkeConfigList, trailing)), "does not decode"),
        (Ok(message(MediaType::UploadErrors, supported)), "content type"),
        (Ok(empty(200)), "content type"),
        (Ok(empty(404)), "404"),
        (Err(TransportError::InsecureHttp), "plain http"),
    ] {
        let pair = Pair::new(1);
        let script = Script::new(move |sent, _| match sent.url.contains("helper") {
            true => reply.clone(),
            false => Ok(pair.keys(sent).unwrap()),
        });
        let error = device(&script).send(&Measurement::Count(true), NOW, &mut rng(1)).unwrap_err();
        let shown = error.to_string();
        assert!(shown.starts_with("the helper's HPKE keys") && shown.contains(reason), "{shown}");
        assert_eq!(script.sent().len(), 2);
        let limit = script.sent()[1].response_limit;
        assert_eq!(limit, limits::MAX_HPKE_CONFIG_LIST_LEN);
    }
}

#[test]
fn taskprov_announces_the_task_on_uploads_only() {
    let script = serve(|_, _| Ok(empty(200)));
    let device = device(&script).with_taskprov();
    device.send(&Measurement::Count(true), NOW, &mut rng(1)).unwrap();
    let sent = script.sent();
    assert_eq!(sent[0].header(taskprov::HEADER), None);
    let announced = taskprov::parse_header(sent[2].header(taskprov::HEADER).unwrap()).unwrap();
    assert_eq!(announced, device.task().encoded_configuration());
}

#[test]
fn a_measurement_of_another_type_is_an_error() {
    let script = serve(|_, _| Ok(empty(200)));
    let error = device(&script).send(&Measurement::Sum(3), NOW, &mut rng(1)).unwrap_err();
    assert!(matches!(error, UploadError::Report(ClientError::Shard(_))));
    assert!(script.sent().iter().all(|sent| sent.method == Method::Get));
}

#[test]
fn debug_shows_neither_report_nor_keys() {
    let script = serve(|_, _| Ok(empty(200)));
    let device = device(&script);
    let report = prepare(&device, 1).remove(0);
    let len = report.as_bytes().len();
    assert_eq!(format!("{report:?}"), format!("PreparedReport {{ len: {len}, .. }}"));
    assert!(format!("{device:?}").starts_with("Uploader { task: "));
}
