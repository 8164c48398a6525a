//! A transport that plays a script and remembers what it was sent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sotto_protocol::Task;
use sotto_vdaf::VdafConfig;
use sotto_wire::{
    BatchMode, MediaType, TaskConfiguration, TaskId, TaskParameters, TimePrecision, Url, VdafType,
};

use crate::retry::RetryPolicy;
use crate::transport::{HttpRequest, HttpResponse, Method, Transport, TransportError};

pub(crate) type Reply = Result<HttpResponse, TransportError>;

/// A request as it was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) response_limit: usize,
}

impl Sent {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| *other == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Answers each request by a function of the request and the number of earlier requests.
pub(crate) struct Script {
    #[allow(clippy::type_complexity)]
    reply: Box<dyn Fn(&Sent, usize) -> Reply + Send + Sync>,
    sent: Mutex<Vec<Sent>>,
}

impl Script {
    pub(crate) fn new(reply: impl Fn(&Sent, usize) -> Reply + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { reply: Box::new(reply), sent: Mutex::default() })
    }

    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.sent.lock().unwrap().clone()
    }
}

impl Transport for Script {
    fn send(&self, request: &HttpRequest<'_>) -> Reply {
        let headers = request.headers.iter().map(|(name, value)| (*name, value.to_string()));
        let sent = Sent {
            method: request.method,
            url: request.url.clone(),
            headers: headers.collect(),
            body: request.body.to_vec(),
            response_limit: request.response_limit,
        };
        let number = {
            let mut all = self.sent.lock().unwrap();
            all.push(sent.clone());
            all.len() - 1
        };
        (self.reply)(&sent, number)
    }
}

/// An answer with nothing in it.
pub(crate) fn empty(status: u16) -> HttpResponse {
    HttpResponse { status, headers: Vec::new(), body: Vec::new() }
}

/// An answer with a message.
pub(crate) fn message(media_type: MediaType, body: Vec<u8>) -> HttpResponse {
    let headers = vec![("Content-Type".to_owned(), media_type.as_str().to_owned())];
    HttpResponse { status: 200, headers, body }
}

/// A refusal.
pub(crate) fn problem(status: u16, urn: &str, detail: &str) -> HttpResponse {
    let body = format!(r#"{{"type":"{urn}","title":"a title","detail":"{detail}","taskid":"x"}}"#);
    let headers = vec![("content-type".to_owned(), "application/problem+json".to_owned())];
    HttpResponse { status, headers, body: body.into_bytes() }
}

pub(crate) fn with_header(mut response: HttpResponse, name: &str, value: &str) -> HttpResponse {
    response.headers.push((name.to_owned(), value.to_owned()));
    response
}

/// A task at leader.example and helper.example. The leader's endpoint has a path, and ends with a
/// slash.
pub(crate) fn task(batch_mode: BatchMode) -> Task {
    let vdaf = VdafConfig::count();
    let configuration = TaskConfiguration::new(TaskParameters {
        task_info: b"a task".to_vec(),
        leader_aggregator_endpoint: Url::new("https://leader.example/api/").unwrap(),
        helper_aggregator_endpoint: Url::new("https://helper.example").unwrap(),
        time_precision: TimePrecision::from_seconds(3600).unwrap(),
        min_batch_size: 2,
        batch_mode,
        vdaf_type: VdafType::new(vdaf.vdaf_type()),
        vdaf_configuration: vdaf.encode_configuration(),
        extensions: Vec::new(),
    })
    .unwrap();
    Task::new(TaskId::new([0xab; 32]), configuration).unwrap()
}

/// Retries without waiting, and records how long it would have waited.
pub(crate) fn impatient() -> (RetryPolicy, Arc<Mutex<Vec<Duration>>>) {
    let slept = Arc::new(Mutex::new(Vec::new()));
    let log = slept.clone();
    let policy = RetryPolicy::default().with_sleep(move |pause| log.lock().unwrap().push(pause));
    (policy, slept)
}
