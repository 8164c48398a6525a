//! A leader that cheats. It holds the leader's tokens, the report ids and the helper's sealed
//! shares, and never a token that the helper accepts. The same at the level of the protocol, with
//! more variants, is in the tests of `sotto-store`.

use sotto_protocol::token::ReportTokens;
use sotto_tests::http::{Connection, Response, head};
use sotto_tests::pipe::Pipe;
use sotto_tests::world::LEADER_TOKEN;
use sotto_wire::token::Token;
use sotto_wire::{
    AggregationJobInitReq, AggregationJobResp, Decode, Encode, ReportError, VerifyRespKind,
};

use crate::tokens::rogue::{ROLES, Rogue, Wish, present};
use crate::tokens::{AGGREGATED, Scene, dropped, until_equal};

/// A request that passed on the way to the helper.
pub(crate) struct Passed {
    pub(crate) line: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// The requests of one connection.
pub(crate) fn requests(mut record: &[u8]) -> Vec<Passed> {
    let mut requests = Vec::new();
    while let Some(end) = record.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
        let text = String::from_utf8_lossy(&record[..end]).into_owned();
        let mut lines = text.lines();
        let line = lines.next().unwrap().to_owned();
        let fields: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let length = fields.iter().find(|(name, _)| name == "content-length");
        let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
        let body = record[end + 4..end + 4 + length].to_vec();
        requests.push(Passed { line, fields, body });
        record = &record[end + 4 + length..];
    }
    requests
}

/// Sends another body instead of one that passed.
fn post(scene: &Scene, passed: &Passed, body: &[u8]) -> Response {
    let bearer = format!("Bearer {LEADER_TOKEN}");
    let mut fields = vec![("authorization", bearer.as_str())];
    let kept = ["content-type", "dap-taskprov", "accept"];
    let is_kept = |(name, _): &&(String, String)| kept.contains(&name.as_str());
    fields.extend(passed.fields.iter().filter(is_kept).map(|(n, v)| (n.as_str(), v.as_str())));
    let head = head("POST", passed.line.split(' ').nth(1).unwrap(), &fields, body.len());
    let mut helper = Connection::open(scene.world.pair.helper.address()).unwrap();
    helper.exchange(&head, body).unwrap()
}

/// What a leader can substitute for the helper's token.
fn replacements(seen: &ReportTokens, helper: &Wish) -> [(&'static str, Option<Vec<u8>>); 3] {
    let mut forged = Token::from_bytes(&seen.leader).unwrap();
    forged.token_key_id = *helper.key.id();
    forged.challenge_digest = helper.challenge_digest;
    [
        ("token_missing", None),
        ("token_wrong_key", Some(seen.leader.clone())),
        ("token_forged", Some(forged.to_bytes())),
    ]
}

#[test]
fn a_leader_can_neither_replace_nor_replay() {
    let mut pipe = None;
    let mut scene = Scene::arranged(|world| {
        let before_helper = Pipe::before(world.pair.helper.address())?;
        world.pair.helper.url = before_helper.url();
        pipe = Some(before_helper);
        Ok(())
    });
    let pipe = pipe.unwrap();
    scene.publish("commute", 3);
    scene.honest(&[5, 20, 50]);
    let (leader, helper) = (&scene.world.pair.leader, &scene.world.pair.helper);
    until_equal(AGGREGATED, 3.0, || leader.metric(AGGREGATED).unwrap());

    // Repeated jobs get the same answer, or a new one, but count once.
    let records = pipe.recorded();
    let jobs: Vec<Passed> = records
        .iter()
        .filter(|record| !record.starts_with(b"HTTP"))
        .flat_map(|record| requests(record))
        .filter(|passed| {
            passed.line.starts_with("POST ") && passed.line.contains("/aggregation_jobs ")
        })
        .collect();
    for job in &jobs {
        assert!(post(&scene, job, &job.body).status < 300);
    }
    // All their reports in one other job: every report is recognized as a replay.
    let mut other = AggregationJobInitReq::from_bytes(&jobs[0].body).unwrap();
    let bodies = jobs.iter().map(|job| AggregationJobInitReq::from_bytes(&job.body).unwrap());
    other.verify_inits = bodies.flat_map(|body| body.verify_inits).collect();
    other.verify_inits.reverse();
    let before = dropped(helper, "report_replayed");
    let response = post(&scene, &jobs[0], &other.to_bytes());
    assert!(response.status < 300, "{response:?}");
    let answers = AggregationJobResp::from_bytes(&response.body).unwrap().verify_resps;
    assert_eq!(answers.len(), 3);
    for answer in answers {
        assert_eq!(answer.kind, VerifyRespKind::Reject(ReportError::ReportReplayed));
    }
    assert_eq!(dropped(helper, "report_replayed"), before + 3.0);

    // The leader withholds the reports of these devices, to send its own with their tokens.
    let admitted = scene.admitted("commute");
    for (number, name) in ["first", "second", "third"].into_iter().enumerate() {
        let mut victim = Rogue::new(name, 4_000 + number as u64);
        let seen = victim.tokens(&scene.world, &admitted);
        let helpers = Wish::of(&admitted, ROLES[1], [0; 32]);
        let (reason, token) = replacements(&seen, &helpers)[number].clone();
        let mut own = seen.clone();
        own.helper = token;
        let report = victim.report(&admitted, 0, present(&admitted), Some(&own));
        assert_eq!(scene.upload(&admitted, &report).body, b"");
        until_equal(reason, 1.0, || dropped(&scene.world.pair.helper, reason));
    }
    let leader = &scene.world.pair.leader;
    until_equal("refused by the helper", 3.0, || dropped(leader, "invalid_message"));
    scene.collect("commute", [1, 1, 1]);
}
