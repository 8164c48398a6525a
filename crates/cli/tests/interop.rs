//! The interoperability test API, driven as a test runner of another implementation would: four
//! processes, JSON over HTTP, a histogram in both batch modes.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sotto_client::{HttpOptions, HttpRequest, HttpTransport, Method, Transport};
use zeroize::Zeroizing;

/// Longer than any machine needs.
const PATIENCE: Duration = Duration::from_secs(300);

/// A party in its own process.
struct Party {
    process: Child,
    url: String,
}

impl Party {
    fn start(role: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_sotto"))
            .args(["interop", role, "--port", "0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening at ").unwrap().to_owned();
        Self { process, url }
    }

    fn call(&self, name: &str, request: &Value) -> Value {
        let (status, body) = self.post(name, request);
        assert_eq!(status, 200, "{name}");
        serde_json::from_slice(&body).unwrap()
    }

    fn post(&self, name: &str, request: &Value) -> (u16, Vec<u8>) {
        let transport = HttpTransport::new(HttpOptions::default()).unwrap();
        let body = request.to_string();
        let response = transport
            .send(&HttpRequest {
                method: Method::Post,
                url: format!("{}internal/test/{name}", self.url),
                headers: vec![("content-type", Zeroizing::new("application/json".into()))],
                body: body.as_bytes(),
                response_limit: 1 << 20,
            })
            .unwrap();
        (response.status, response.body)
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Parties {
    client: Party,
    leader: Party,
    helper: Party,
    collector: Party,
}

/// What differs between two tasks.
struct Plan {
    task_id: [u8; 32],
    batch_mode: u64,
    /// Whether to use the field names of the older generation.
    old_names: bool,
}

impl Plan {
    /// The fields that all parties get.
    fn fields(&self, parties: &Parties) -> Value {
        let mut fields = json!({
            "task_id": URL_SAFE_NO_PAD.encode(self.task_id),
            "leader": parties.leader.url,
            "helper": parties.helper.url,
            "vdaf": { "type": "Prio3Histogram", "length": "4", "chunk_length": "2" },
            "min_batch_size": 6,
            "time_precision": 3600,
        });
        let mode = if self.old_names { "query_type" } else { "batch_mode" };
        fields[mode] = self.batch_mode.into();
        if self.old_names {
            fields["max_batch_query_count"] = 1.into();
            fields["max_batch_size"] = 100.into();
            fields["task_expiration"] = 9_999_999_999u64.into();
        }
        fields
    }
}

fn with(mut fields: Value, more: Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        fields[key] = value.clone();
    }
    fields
}

fn add_task(parties: &Parties, plan: &Plan) {
    let fields = plan.fields(parties);
    let token = json!({ "collector_authentication_token": "collector-token" });
    let added = parties.collector.call("add_task", &with(fields.clone(), token.clone()));
    assert_eq!(added["status"], "success", "{added}");
    let config = added["collector_hpke_config"].clone();
    for (role, party) in [("leader", &parties.leader), ("helper", &parties.helper)] {
        let endpoint = json!({ "task_id": fields["task_id"], "role": role, "hostname": role });
        let endpoint = party.call("endpoint_for_task", &endpoint);
        assert_eq!((&endpoint["status"], &endpoint["endpoint"]), (&"success".into(), &"/".into()));
        let mut request = with(
            fields.clone(),
            json!({
                "role": role,
                "vdaf_verify_key": URL_SAFE_NO_PAD.encode([9; 32]),
                "leader_authentication_token": "leader-token",
                "collector_hpke_config": config,
            }),
        );
        if role == "leader" {
            request = with(request, token.clone());
        }
        let added = party.call("add_task", &request);
        assert_eq!(added["status"], "success", "{added}");
    }
}

fn upload(parties: &Parties, plan: &Plan, time: u64, buckets: &[u64]) {
    for bucket in buckets {
        let more = json!({ "measurement": bucket.to_string(), "time": time });
        let answer = parties.client.call("upload", &with(plan.fields(parties), more));
        assert_eq!(answer["status"], "success", "{answer}");
    }
}

fn collect(parties: &Parties, plan: &Plan, query: Value) -> Value {
    let request = json!({
        "task_id": URL_SAFE_NO_PAD.encode(plan.task_id), "agg_param": "", "query": query,
    });
    let started = parties.collector.call("collection_start", &request);
    assert_eq!(started["status"], "success", "{started}");
    let handle = json!({ "handle": started["handle"] });
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        let polled = parties.collector.call("collection_poll", &handle);
        match polled["status"].as_str().unwrap() {
            "complete" => return polled,
            "in progress" => assert!(std::time::Instant::now() < deadline, "no result"),
            _ => panic!("{polled}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_histogram_in_both_batch_modes_and_both_generations() {
    let parties = Parties {
        client: Party::start("client"),
        leader: Party::start("aggregator"),
        helper: Party::start("aggregator"),
        collector: Party::start("collector"),
    };
    for party in [&parties.client, &parties.leader, &parties.helper, &parties.collector] {
        party.call("ready", &json!({}));
        assert_eq!(party.post("nothing", &json!({})).0, 404);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let start = now - now % 3_600;

    let by_time = Plan { task_id: [1; 32], batch_mode: 1, old_names: false };
    add_task(&parties, &by_time);
    upload(&parties, &by_time, now, &[0, 1, 1, 3, 3, 3, 3]);
    let query = json!({
        "type": 1, "batch_interval_start": start, "batch_interval_duration": 3_600,
    });
    let result = collect(&parties, &by_time, query);
    assert_eq!(result["report_count"], 7);
    assert_eq!(result["result"], json!(["1", "2", "0", "4"]));
    assert_eq!(
        (&result["interval_start"], &result["interval_duration"]),
        (&start.into(), &3_600.into())
    );

    // Two batches, one after the other, with the older names.
    let by_leader = Plan { task_id: [2; 32], batch_mode: 2, old_names: true };
    add_task(&parties, &by_leader);
    for bucket in [2, 0] {
        upload(&parties, &by_leader, now, &[bucket; 6]);
        let result = collect(&parties, &by_leader, json!({ "type": 2, "subtype": 1 }));
        assert_eq!(result["report_count"], 6);
        let mut expected = json!(["0", "0", "0", "0"]);
        expected[bucket as usize] = "6".into();
        assert_eq!(result["result"], expected);
    }
}

#[test]
fn failures_are_told_in_the_answer() {
    let client = Party::start("client");
    let answer = client.call("upload", &json!({ "task_id": "x" }));
    assert_eq!(answer["status"], "error");
    let collector = Party::start("collector");
    let answer = collector.call("collection_poll", &json!({ "handle": "none" }));
    assert_eq!(
        (&answer["status"], &answer["error"]),
        (&"error".into(), &"the handle is not known".into())
    );
}
