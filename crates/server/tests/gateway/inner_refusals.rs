//! What fails after a request has been opened: sealed answers that look like an acknowledgement.

use sotto_protocol::Moment;
use sotto_protocol::http_date::{parse_imf_fixdate, rounded_date};
use sotto_protocol::oblivious::InnerRequest;
use sotto_wire::MediaType;
use sotto_wire::bhttp::{Field, Request};
use sotto_wire::ohttp::DATE_PROBLEM;

use crate::gateway::device::{
    Channel, LEADER, SMALLEST, encoded, field, open, problem, reports_url, setup, upload,
};
use crate::server::harness::{COLLECTOR_TOKEN, moment};

const BLANK: &str = "about:blank";

#[tokio::test]
async fn only_uploads_are_within_reach() {
    let mut pair = setup().start().await;
    let channel = Channel::to_leader(&pair);
    let (task, report) = (*pair.task.id(), pair.report(1));
    let upload_type = ("content-type", MediaType::UploadReq.as_str());
    let collection_type = ("content-type", MediaType::CollectionJobReq.as_str());
    let bearer = format!("Bearer {COLLECTOR_TOKEN}");
    let authorized = [collection_type, ("authorization", bearer.as_str())];
    let collection = pair.collection_request(&pair.everything());
    for (method, url, fields, content, status) in [
        (
            "POST",
            format!("{LEADER}/tasks/{task}/collection_jobs"),
            &authorized[..],
            &collection,
            404,
        ),
        ("GET", format!("{LEADER}/tasks/{task}/collection_jobs/x"), &authorized, &collection, 404),
        ("GET", format!("{LEADER}/hpke_config"), &[], &collection, 404),
        ("GET", format!("{LEADER}/gateway"), &[], &collection, 404),
        ("GET", format!("{LEADER}/livez"), &[], &collection, 404),
        ("GET", format!("{LEADER}/"), &[], &collection, 404),
        ("POST", format!("{LEADER}/tasks/{task}/reports/"), &[upload_type], &report, 404),
        ("POST", format!("{LEADER}//tasks/{task}/reports"), &[upload_type], &report, 404),
        ("POST", format!("{LEADER}/x/../tasks/{task}/reports"), &[upload_type], &report, 404),
        ("GET", reports_url(&task), &[upload_type], &report, 405),
        ("CONNECT", reports_url(&task), &[upload_type], &report, 405),
        ("POST", reports_url(&task), &[collection_type], &report, 415),
        ("POST", reports_url(&task).replace("leader", "log"), &[upload_type], &report, 421),
        ("POST", reports_url(&task).replace("https", "http"), &[upload_type], &report, 421),
        (
            "POST",
            reports_url(&task).replace(".example", ".example:444"),
            &[upload_type],
            &report,
            421,
        ),
        ("POST", reports_url(&task), &[upload_type], &report, 200),
    ] {
        let (body, awaited) = channel.seal(&InnerRequest { method, url: &url, fields, content });
        let outer = channel.post(body).await;
        assert_eq!(outer.body.len(), SMALLEST, "{method} {url}");
        let response = open(outer, awaited);
        assert_eq!(response.status, status, "{method} {url}");
        if status != 200 {
            assert_eq!(field(&response, "content-type"), Some("application/problem+json"));
            assert_eq!(problem(&response.content, status).0, BLANK);
        }
    }
    pair.stop().await;
}

#[tokio::test]
async fn a_request_is_taken_once() {
    let mut pair = setup().start().await;
    let (url, channel) = (reports_url(pair.task.id()), Channel::to_leader(&pair));
    let report = pair.report(1);
    let (body, awaited) = channel.seal(&upload(&url, &report));
    let first = channel.post(body.clone()).await;
    let again = channel.post(body.clone()).await;
    assert_eq!(first.body.len(), again.body.len());
    assert_ne!(first.body, again.body);
    assert_eq!(open(first, awaited).status, 200);
    assert!(pair.leader.metric("sotto_reports_accepted_total").await == 1.0);
    let replayed = r#"sotto_gateway_requests_total{outcome="replayed"}"#;
    assert_eq!(pair.leader.metric(replayed).await, 1.0);

    // To see what the second answer says: the same exchange, sealed by hand.
    let date = rounded_date(moment());
    let message = encoded(&inner(&[("date", &date)]));
    let mut rng = <rand_chacha::ChaCha20Rng as rand_core::SeedableRng>::seed_from_u64(3);
    let seal = |rng: &mut rand_chacha::ChaCha20Rng| {
        sotto_crypto::ohttp::seal_request(&channel.key, &message, rng).unwrap()
    };
    let (body, _) = seal(&mut rng.clone());
    channel.post(body.clone()).await;
    let (same, opener) = seal(&mut rng);
    assert_eq!(body, same);
    let opened = opener.open(&channel.post(same).await.body).unwrap();
    let response = sotto_wire::bhttp::Response::decode(&opened).unwrap();
    assert_eq!(response.status, 400);
    let (kind, detail) = problem(&response.content, 400);
    assert_eq!((kind.as_str(), detail.as_str()), (BLANK, "This request was received before."));
    pair.stop().await;
}

fn inner<'a>(fields: &[(&'a str, &'a str)]) -> Request<'a> {
    let fields = fields.iter().map(|(name, value)| Field { name, value: value.as_bytes() });
    Request {
        method: "GET",
        scheme: "https",
        authority: "leader.example",
        path: "/",
        fields: fields.collect(),
        content: (&[][..]).into(),
        trailers: Vec::new(),
    }
}

#[tokio::test]
async fn dates_outside_the_window_are_told_the_time() {
    let pair = setup().start().await;
    let channel = Channel::to_leader(&pair);
    let now = moment().0;
    let text = |seconds: u64| rounded_date(Moment(seconds));
    let (fresh, old, early) = (text(now), text(now - 3600), text(now + 1200));
    let malformed = [
        inner(&[]),
        inner(&[("date", "yesterday")]),
        inner(&[("date", &old)]),
        inner(&[("date", &early)]),
        inner(&[("dates", &fresh)]),
    ];
    for request in malformed {
        let answer = channel.ask_raw(&encoded(&request)).await;
        assert_eq!((answer.outer_len, answer.status), (SMALLEST, 400));
        assert_eq!(problem(&answer.content, 400).0, DATE_PROBLEM);
        let told = parse_imf_fixdate(&answer.date.unwrap()).unwrap().0;
        assert!((now..now + 120).contains(&told));
    }
    assert_eq!(channel.ask_raw(&encoded(&inner(&[("date", &fresh)]))).await.status, 404);
    pair.stop().await;
}

#[tokio::test]
async fn what_is_no_request_is_refused() {
    let pair = setup().start().await;
    let channel = Channel::to_leader(&pair);
    let date = rounded_date(moment());
    let mut response = Vec::new();
    sotto_wire::bhttp::Response {
        informational: Vec::new(),
        status: 200,
        fields: Vec::new(),
        content: (&[][..]).into(),
        trailers: Vec::new(),
    }
    .encode(&mut response);
    let good = || inner(&[("date", &date)]);
    for message in [
        Vec::new(),
        vec![0xff; 200],
        response,
        encoded(&good())[..20].to_vec(),
        encoded(&Request { method: "G T", ..good() }),
        encoded(&Request { path: "", ..good() }),
        encoded(&Request { path: "no slash", ..good() }),
        encoded(&Request { path: "*", ..good() }),
        encoded(&inner(&[("date", &date), ("content-type", "a\r\nb")])),
        // Each of these is ambiguous.
        encoded(&inner(&[("date", &date), ("date", &date)])),
        encoded(&inner(&[("date", &date), ("host", "a.example"), ("host", "b.example")])),
        encoded(&inner(&[("accept", "a/b"), ("date", &date), ("accept", "a/b")])),
        encoded(&inner(&[("content-type", "a/b"), ("content-type", "c/d"), ("date", &date)])),
        encoded(&inner(&[("date", &date), ("dap-taskprov", ":AA:"), ("dap-taskprov", ":BB:")])),
    ] {
        let answer = channel.ask_raw(&message).await;
        assert_eq!((answer.outer_len, answer.status), (SMALLEST, 400));
        assert_eq!(problem(&answer.content, 400).0, BLANK);
    }
    // Nobody reads these fields, so they may be repeated.
    let twice = encoded(&inner(&[("x-a", "1"), ("date", &date), ("x-a", "2")]));
    assert_eq!(channel.ask_raw(&twice).await.status, 404);
    pair.stop().await;
}
