//! How long a command waits for servers, and what it says meanwhile.
//!
//! [`Patience`] watches a transport. Connections, requests and the pauses between attempts all end
//! when the time is over or somebody stops the command, whatever the server does. After three
//! seconds a line says who does not answer.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use anyhow::Result;
use sotto_client::{HttpRequest, HttpResponse, RetryPolicy, Transport, TransportError};
use sotto_protocol::Task;

use crate::signals;

/// After this time without an answer, a line says so.
const SILENCE: Duration = Duration::from_secs(3);
/// The longest time for one attempt: a connection that was lost is not noticed otherwise.
const ATTEMPT: Duration = Duration::from_secs(30);
/// How often a wait looks whether it is over.
const STEP: Duration = Duration::from_millis(50);

/// Until when a command waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    /// Until this much time has passed, whatever happens.
    Total(Duration),
    /// Until one exchange, with all its attempts, has taken this long.
    Exchange(Duration),
}

/// Why a command no longer waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The time is over.
    Time,
    /// SIGINT or SIGTERM.
    Signal,
}

/// What a command waits for, and until when. Clones share it.
#[derive(Clone)]
pub(crate) struct Patience(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

#[derive(Default)]
struct State {
    ends: Option<Instant>,
    longest_exchange: Option<Duration>,
    over: Option<Over>,
    /// What servers are called, by the beginning of their URLs.
    names: Vec<(String, &'static str)>,
    /// The exchanges without an answer. A thread has one at a time.
    silent: HashMap<ThreadId, Silent>,
    /// What was told: who is silent, and which attempt it was.
    told: HashSet<(String, u32)>,
}

#[derive(Clone)]
struct Silent {
    who: String,
    attempt: u32,
    since: Instant,
    /// Why the last attempt failed.
    failure: Option<String>,
}

impl Patience {
    /// From now on. `tell` shows a line to people.
    pub(crate) fn new(limit: Limit, tell: impl Fn(&str) + Send + Sync + 'static) -> Result<Self> {
        let patience = Self(Arc::new(Shared { state: Mutex::default(), tell: Box::new(tell) }));
        patience.limit(limit);
        let stopped = patience.clone();
        signals::on_stop(move || stopped.lock().over = Some(Over::Signal))?;
        Ok(patience)
    }

    /// Waits again, with a new limit, even if it was over.
    pub(crate) fn limit(&self, limit: Limit) {
        let mut state = self.lock();
        (state.ends, state.longest_exchange) = match limit {
            Limit::Total(time) => (Instant::now().checked_add(time), None),
            Limit::Exchange(time) => (None, Some(time)),
        };
        state.over = None;
    }

    /// Calls the servers of a task leader and helper.
    pub(crate) fn name_servers(&self, task: &Task) {
        let configuration = task.configuration();
        let leader = configuration.leader_aggregator_endpoint();
        let helper = configuration.helper_aggregator_endpoint();
        let url = |url: &sotto_wire::Url| url.as_str().trim_end_matches('/').to_owned();
        self.lock().names.extend([(url(leader), "leader"), (url(helper), "helper")]);
    }

    /// The same transport, but nobody waits for it any longer than this.
    pub(crate) fn watch(&self, transport: Arc<dyn Transport>) -> Arc<dyn Transport> {
        Arc::new(Watched { patience: self.clone(), transport })
    }

    /// Pauses end with the patience.
    pub(crate) fn retry(&self, policy: RetryPolicy) -> RetryPolicy {
        let patience = self.clone();
        policy.with_sleep(move |pause| {
            let end = Instant::now() + pause;
            while patience.still().is_some() {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return;
                }
                thread::sleep(left.min(STEP));
            }
        })
    }

    /// Why it is over, if it is.
    pub(crate) fn over(&self) -> Option<Over> {
        self.lock().over
    }

    /// Who does not answer, in words.
    pub(crate) fn silent(&self) -> Option<String> {
        let state = self.lock();
        state.silent.values().min_by_key(|silent| silent.since).map(ToString::to_string)
    }

    /// Looks at the clock, and tells what is to be told. `None` once it is over.
    fn still(&self) -> Option<()> {
        let mut state = self.lock();
        let mine = state.silent.get(&thread::current().id()).cloned();
        let silence = mine.as_ref().map(|silent| silent.since.elapsed());
        let too_long = silence.zip(state.longest_exchange).is_some_and(|(is, most)| is >= most);
        if too_long || state.ends.is_some_and(|end| Instant::now() >= end) {
            state.over.get_or_insert(Over::Time);
        }
        if let Some(mine) = mine
            && silence >= Some(SILENCE)
            && state.told.insert((mine.who.clone(), mine.attempt))
        {
            (self.0.tell)(&mine.to_string());
        }
        state.over.is_none().then_some(())
    }

    fn begin(&self, url: &str) {
        let mut state = self.lock();
        let who = state.who(url);
        let new = Silent { who, attempt: 0, since: Instant::now(), failure: None };
        state.silent.entry(thread::current().id()).or_insert(new).attempt += 1;
    }

    /// Another attempt follows after a transient failure. Otherwise the exchange has ended.
    fn end(&self, outcome: &Result<HttpResponse, TransportError>) {
        let failure = match outcome {
            Ok(response) if response.status == 429 || response.status >= 500 => {
                format!("HTTP status {}", response.status)
            }
            Err(TransportError::GaveUp) => return,
            Err(error) if error.is_transient() => error.to_string(),
            Ok(_) | Err(_) => return self.answered(),
        };
        if let Some(silent) = self.lock().silent.get_mut(&thread::current().id()) {
            silent.failure = Some(failure);
        }
    }

    fn answered(&self) {
        let mut state = self.lock();
        if let Some(silent) = state.silent.remove(&thread::current().id()) {
            state.told.retain(|(who, _)| *who != silent.who);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn who(&self, url: &str) -> String {
        let named = self.names.iter().filter(|(start, _)| url.starts_with(start.as_str()));
        match named.max_by_key(|(start, _)| start.len()) {
            Some((start, name)) => format!("the {name} at {start}"),
            // Scheme, host and port.
            None => url.split('/').take(3).collect::<Vec<_>>().join("/"),
        }
    }
}

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { who, attempt, since, failure } = self;
        let seconds = since.elapsed().as_secs();
        write!(f, "{who} does not answer: attempt {attempt}, {seconds} s so far")?;
        failure.as_ref().map_or(Ok(()), |failure| write!(f, " (before: {failure})"))
    }
}

impl fmt::Debug for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").finish_non_exhaustive()
    }
}

struct Watched {
    patience: Patience,
    transport: Arc<dyn Transport>,
}

impl Transport for Watched {
    /// The exchange has its own thread, which is left behind if the wait is over first.
    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
        self.patience.still().ok_or(TransportError::GaveUp)?;
        self.patience.begin(&request.url);
        let (url, headers, body) =
            (request.url.clone(), request.headers.clone(), request.body.to_vec());
        let (method, response_limit) = (request.method, request.response_limit);
        let (sender, receiver) = mpsc::channel();
        let transport = Arc::clone(&self.transport);
        let started = Instant::now();
        thread::spawn(move || {
            let request = HttpRequest { method, url, headers, body: &body, response_limit };
            // Nobody may be waiting any more.
            let _ = sender.send(transport.send(&request));
        });
        let outcome = loop {
            if self.patience.still().is_none() {
                break Err(TransportError::GaveUp);
            }
            match receiver.recv_timeout(STEP) {
                Ok(outcome) => break outcome,
                Err(RecvTimeoutError::Timeout) if started.elapsed() < ATTEMPT => {}
                Err(_) => break Err(TransportError::Timeout),
            }
        };
        self.patience.end(&outcome);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that never answers, or answers at once.
    struct Server(bool);

    impl Transport for Server {
        fn send(&self, _: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
            if !self.0 {
                thread::sleep(Duration::from_secs(600));
            }
            Ok(HttpResponse { status: 200, headers: Vec::new(), body: Vec::new() })
        }
    }

    fn get(patience: &Patience, answers: bool) -> Result<HttpResponse, TransportError> {
        let request = HttpRequest::get("http://leader.example/api/x".to_owned(), 0);
        patience.watch(Arc::new(Server(answers))).send(&request)
    }

    #[test]
    fn nobody_waits_for_a_silent_server_beyond_the_limit() {
        for limit in [Limit::Total, Limit::Exchange] {
            let told = Arc::new(Mutex::new(Vec::new()));
            let log = Arc::clone(&told);
            let tell = move |line: &str| log.lock().unwrap().push(line.to_owned());
            let patience = Patience::new(limit(Duration::from_secs(4)), tell).unwrap();
            patience.lock().names.push(("http://leader.example/api".to_owned(), "leader"));
            assert!(get(&patience, true).is_ok());
            assert_eq!((patience.over(), patience.silent()), (None, None));
            assert_eq!(get(&patience, false), Err(TransportError::GaveUp));
            assert_eq!(patience.over(), Some(Over::Time));
            let line = "the leader at http://leader.example/api does not answer: attempt 1";
            assert_eq!(*told.lock().unwrap(), [format!("{line}, 3 s so far")]);
            assert!(patience.silent().unwrap().starts_with(line));
            // Nothing else is tried, and no pause is made.
            assert_eq!(get(&patience, true), Err(TransportError::GaveUp));
            patience.limit(Limit::Total(Duration::from_secs(600)));
            assert!(get(&patience, true).is_ok(), "unless there is a new limit");
        }
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let patience = Patience::new(Limit::Total(Duration::from_secs(600)), |_| {}).unwrap();
        let stopping = patience.clone();
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(200));
            stopping.lock().over = Some(Over::Signal);
        });
        assert_eq!(get(&patience, false), Err(TransportError::GaveUp));
        assert_eq!(patience.over(), Some(Over::Signal));
    }
}
