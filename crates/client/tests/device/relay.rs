//! One exchange through a relay: what the relay sees, what the gateway sees, and how answers are
//! handled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sotto_client::{HttpRequest, HttpResponse, Method, RelayTransport, Transport, TransportError};
use sotto_protocol::gateway::OuterRefusal;
use sotto_testing::keys::gateway_key;
use sotto_testing::recipe::{HOUR, NOW};
use sotto_wire::ohttp::{KEY_PROBLEM, request_overhead};
use sotto_wire::size_class::SizeClass;
use zeroize::Zeroizing;

use crate::device::behind_relay::{
    BehindRelay, Inner, answer, clock, random, refused, sealed, through,
};

const URL: &str = "https://leader.example/tasks/7/reports";

fn request(body: &[u8]) -> HttpRequest<'_> {
    HttpRequest {
        method: Method::Post,
        url: URL.to_owned(),
        headers: vec![
            ("dap-taskprov", Zeroizing::new("the whole task".to_owned())),
            ("content-type", Zeroizing::new("application/ppm-dap;message=upload-req".to_owned())),
        ],
        body,
        response_limit: 1_000,
    }
}

/// A target that echoes the request.
fn echo() -> Arc<BehindRelay> {
    BehindRelay::new(&[gateway_key(1)], |inner: &Inner| {
        answer(200, &[("content-type", "text/plain")], &inner.content)
    })
}

fn send(transport: &RelayTransport, body: &[u8]) -> Result<HttpResponse, TransportError> {
    transport.send(&request(body))
}

#[test]
fn the_relay_sees_a_gateway_and_a_size_class_and_nothing_of_the_request() {
    let relay = echo();
    let response = send(&through(&relay, &gateway_key(1)), b"a report").unwrap();
    assert_eq!(response, answer(200, &[("content-type", "text/plain")], b"a report"));
    let [outer] = &relay.outer()[..] else { panic!("one exchange") };
    assert_eq!(outer.method, Method::Post);
    assert_eq!(outer.url, "https://relay.example/leader.example");
    assert_eq!(outer.headers, [("content-type".to_owned(), "message/ohttp-req".to_owned())]);
    assert_eq!(outer.body.len(), 4_096);
    for clear in [&b"a report"[..], b"the whole task", b"upload-req", b"tasks/7", b"leader."] {
        assert!(!outer.body.windows(clear.len()).any(|window| window == clear));
    }
    let [inner] = &relay.inner()[..] else { panic!("one request") };
    assert_eq!((inner.method.as_str(), inner.url.as_str()), ("POST", URL));
    let names: Vec<&str> = inner.fields.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["date", "dap-taskprov", "content-type"]);
    assert!(inner.fields[0].1.ends_with(":00 GMT"), "{}", inner.fields[0].1);
    assert_eq!(inner.content, b"a report");
}

#[test]
fn every_request_is_exactly_the_smallest_class_that_holds_it() {
    let relay = echo();
    let transport = through(&relay, &gateway_key(1));
    send(&transport, b"").unwrap();
    let head = {
        let inner = &relay.inner()[0];
        let fields: usize = inner.fields.iter().map(|(name, value)| name.len() + value.len()).sum();
        let overhead = request_overhead(gateway_key(1).config());
        overhead + inner.method.len() + inner.url.len() + fields
    };
    for length in
        [1, 1_000, 3_000, 4_096 - head, 4_096, 8_192, 16_384 - head, 16_384, 60_000, 300_000]
    {
        let body = vec![9; length];
        let request = HttpRequest { response_limit: length, ..request(&body) };
        let response = transport.send(&request).unwrap();
        assert_eq!(response.body.len(), length);
        let sent = relay.outer().last().unwrap().body.len();
        let class = SizeClass::of_exact(sent).expect("a size class");
        // Lengths and the like take less than 64 bytes.
        let (least, most) = (length + head - "https://".len(), length + head + 64);
        let smallest = [least, most].map(|length| SizeClass::holding(length).unwrap());
        assert!(smallest.contains(&class), "{length} bytes in {sent}");
    }
    let long = vec![0; SizeClass::MAX_REQUEST.bytes()];
    let before = relay.outer().len();
    assert!(matches!(send(&transport, &long), Err(TransportError::InvalidRequest(_))));
    assert_eq!(relay.outer().len(), before, "nothing is sent");
}

#[test]
fn the_same_request_twice_has_nothing_in_common_outside() {
    let relay = echo();
    let transport = through(&relay, &gateway_key(1));
    for _ in 0..2 {
        send(&transport, b"a report").unwrap();
    }
    let (outer, inner) = (relay.outer(), relay.inner());
    assert_eq!(inner[0], inner[1]);
    // After the id of the key and the suite, which all devices share.
    let (one, other) = (&outer[0].body[7..], &outer[1].body[7..]);
    let equal = one.iter().zip(other).filter(|(one, other)| one == other).count();
    assert!(equal < 100, "about one byte in 256 is the same by chance: {equal}");
}

#[test]
fn what_is_said_in_clear_fails_the_exchange_and_nothing_else() {
    let problem = "application/problem+json";
    let retry = |status, retry_after| TransportError::Relay { status, retry_after };
    let secs = |seconds| Some(Duration::from_secs(seconds));
    let of = |status| answer(status, &[], b"");
    let key = format!(r#"{{"type":"{KEY_PROBLEM}"}}"#);
    let key = |status, media_type| answer(status, &[("content-type", media_type)], key.as_bytes());
    let bad = |reason: &str| TransportError::BadAnswer(reason.to_owned());
    let (unsealed, unopened) =
        (bad("it is not an encapsulated response"), bad("the oblivious response does not open"));
    let rows = [
        (answer(429, &[("Retry-After", "7")], b""), retry(429, secs(7)), true),
        (answer(503, &[("retry-after", "soon")], b""), retry(503, None), true),
        (of(408), retry(408, None), true),
        (of(500), retry(500, None), true),
        (of(502), retry(502, None), true),
        (of(404), retry(404, None), false),
        (of(413), retry(413, None), false),
        (of(302), retry(302, None), false),
        (refused(OuterRefusal::Malformed), retry(400, None), false),
        (refused(OuterRefusal::UnknownKey), TransportError::GatewayKey, false),
        (key(422, problem), TransportError::GatewayKey, false),
        (key(400, "text/plain"), retry(400, None), false),
        (key(503, problem), retry(503, None), true),
        (of(200), unsealed.clone(), false),
        (answer(200, &[("content-type", "text/html")], b"hi"), unsealed.clone(), false),
        (answer(206, &[("content-type", "message/ohttp-res")], b"hi"), unsealed, false),
        (sealed(Vec::new()), unopened.clone(), false),
        (sealed(vec![7; 4_096]), unopened, false),
    ];
    for (said, expected, transient) in rows {
        let relay = echo();
        relay.interfere(Ok(said.clone()));
        let transport = through(&relay, &gateway_key(1));
        let error = send(&transport, b"a report").unwrap_err();
        assert_eq!((error.is_transient(), bare(error)), (transient, expected), "{said:?}");
        assert_eq!(relay.outer().len(), 1, "a transport does not retry");
        send(&transport, b"a report").expect("no trace of it is left");
    }
    for error in [TransportError::Timeout, TransportError::Unreachable("gone".to_owned())] {
        let relay = echo();
        relay.interfere(Err(error.clone()));
        assert_eq!(send(&through(&relay, &gateway_key(1)), b"").map_err(bare), Err(error));
    }
}

/// An error without the name of the relay where it happened.
fn bare(error: TransportError) -> TransportError {
    match error {
        TransportError::AtRelay { error, .. } => *error,
        other => other,
    }
}

#[test]
fn an_answer_to_another_request_is_none() {
    let relay = echo();
    let transport = through(&relay, &gateway_key(1));
    let captured = {
        send(&transport, b"one").unwrap();
        // What the gateway would answer to these bytes, had the relay sent them to a gateway with
        // the same key.
        let again = echo();
        let body = relay.outer()[0].body.clone();
        let outer = HttpRequest {
            method: Method::Post,
            url: String::new(),
            headers: Vec::new(),
            body: &body,
            response_limit: 4_096,
        };
        again.send(&outer).unwrap()
    };
    relay.interfere(Ok(captured));
    let failed = send(&transport, b"two").map_err(bare);
    assert!(matches!(failed, Err(TransportError::BadAnswer(_))));
}

#[test]
fn a_device_whose_clock_is_wrong_is_told_so_and_no_more() {
    for now in [NOW - HOUR, NOW + HOUR] {
        let relay = echo();
        let transport = RelayTransport::new(
            Arc::<BehindRelay>::clone(&relay),
            vec!["https://relay.example".to_owned()],
            "leader.example".parse().unwrap(),
            vec![gateway_key(1).config().clone()],
            clock(now),
            random(),
        );
        let error = send(&transport, b"a report").unwrap_err();
        assert_eq!((&error, error.is_transient()), (&TransportError::Clock, false));
        assert_eq!(relay.inner().len(), 0);
        assert_eq!(
            send(&transport, b"a report"),
            Err(TransportError::Clock),
            "its own clock counts"
        );
    }
}

#[test]
fn statuses_of_the_target_come_through_as_they_are() {
    for status in [200, 204, 400, 404, 421, 429, 500, 503] {
        let relay = BehindRelay::new(&[gateway_key(1)], move |_: &Inner| {
            answer(status, &[("retry-after", "9")], b"why")
        });
        let response = send(&through(&relay, &gateway_key(1)), b"").unwrap();
        assert_eq!(response, answer(status, &[("retry-after", "9")], b"why"));
    }
}

#[test]
fn answers_have_limits_inside_and_outside() {
    let relay = BehindRelay::new(&[gateway_key(1)], |inner: &Inner| {
        let length = String::from_utf8(inner.content.clone()).unwrap().parse().unwrap();
        answer(200, &[], &vec![1; length])
    });
    let transport = through(&relay, &gateway_key(1));
    let ask = |length: usize, response_limit: usize| {
        let body = length.to_string();
        let request = HttpRequest { response_limit, ..request(body.as_bytes()) };
        transport.send(&request).map(|response| response.body.len())
    };
    assert_eq!(ask(1_000, 1_000), Ok(1_000));
    assert_eq!(ask(1_001, 1_000), Err(TransportError::ResponseTooLong), "inside");
    let outside = ask(60_000, 1_000).map_err(bare);
    assert_eq!(outside, Err(TransportError::ResponseTooLong), "outside");
    assert_eq!(ask(100_000, 100_000), Ok(100_000));
    let limits: Vec<usize> = relay.outer().iter().map(|outer| outer.response_limit).collect();
    assert_eq!(limits, [8_192, 8_192, 8_192, 262_144], "no more than what may come is read");
    for (limit, sealed) in [(0, 8_192), (20 << 20, 64 << 20), (usize::MAX, 64 << 20)] {
        ask(0, limit).unwrap();
        assert_eq!(relay.outer().last().unwrap().response_limit, sealed);
    }
}

#[test]
fn each_exchange_draws_its_relay() {
    let relay = echo();
    let with = |relays: &[&str]| {
        RelayTransport::new(
            Arc::<BehindRelay>::clone(&relay),
            relays.iter().map(|name| format!("https://{name}.example")).collect(),
            "leader.example".parse().unwrap(),
            vec![gateway_key(1).config().clone()],
            clock(NOW),
            random(),
        )
    };
    let transport = with(&["a", "b", "c"]);
    for _ in 0..300 {
        send(&transport, b"").unwrap();
    }
    let mut by_relay = BTreeMap::<String, usize>::new();
    for outer in relay.outer() {
        *by_relay.entry(outer.url).or_default() += 1;
    }
    let names: Vec<&String> = by_relay.keys().collect();
    assert_eq!(
        names,
        ["a", "b", "c"].map(|name| format!("https://{name}.example/leader.example")).each_ref()
    );
    // Five standard deviations around 100.
    assert!(by_relay.values().all(|count| (59..=141).contains(count)), "{by_relay:?}");
    assert_eq!(send(&with(&[]), b""), Err(TransportError::NoRelay));
    assert_eq!(relay.outer().len(), 300);
    let shown = format!("{transport:?}");
    assert!(shown.contains("leader.example") && !shown.contains("a.example"), "{shown}");
}

#[test]
fn a_newer_key_counts_from_the_next_exchange_on() {
    let relay = echo();
    let transport = through(&relay, &gateway_key(1));
    send(&transport, b"one").unwrap();
    relay.rotate(&[gateway_key(2)]);
    assert_eq!(send(&transport, b"two"), Err(TransportError::GatewayKey));
    transport.use_keys(vec![gateway_key(2).config().clone()]);
    send(&transport, b"two").unwrap();
    let keys: Vec<u8> = relay.outer().iter().map(|outer| outer.body[0]).collect();
    assert_eq!(keys, [1, 1, 2]);
}

#[test]
fn a_key_that_is_refused_gives_way_to_the_next_and_the_last_one_stays() {
    let relay = echo();
    let transport = through(&relay, &gateway_key(1));
    relay.rotate(&[gateway_key(2)]);
    let key = |id| gateway_key(id).config().clone();
    transport.use_keys(vec![key(1), key(2)]);
    send(&transport, b"one").unwrap();
    send(&transport, b"two").unwrap();
    relay.rotate(&[gateway_key(1)]);
    for _ in 0..2 {
        assert_eq!(send(&transport, b"three"), Err(TransportError::GatewayKey));
    }
    transport.use_keys(vec![key(1), key(2)]);
    send(&transport, b"three").unwrap();
    let keys: Vec<u8> = relay.outer().iter().map(|outer| outer.body[0]).collect();
    assert_eq!(keys, [1, 2, 2, 2, 2, 1]);
}

#[test]
fn a_relay_that_fails_is_passed_over_and_the_last_one_is_named() {
    struct OneDown(Arc<BehindRelay>);
    impl Transport for OneDown {
        fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
            match request.url.starts_with("https://down.example/") {
                true => Err(TransportError::Unreachable("no such host".to_owned())),
                false => self.0.send(request),
            }
        }
    }
    let relay = echo();
    let with = |relays: &[&str]| {
        RelayTransport::new(
            Arc::new(OneDown(Arc::clone(&relay))),
            relays.iter().map(|name| format!("https://{name}.example/")).collect(),
            "leader.example".parse().unwrap(),
            vec![gateway_key(1).config().clone()],
            clock(NOW),
            random(),
        )
    };
    let transport = with(&["down", "up"]);
    for _ in 0..50 {
        send(&transport, b"").unwrap();
    }
    assert_eq!(relay.outer().len(), 50);
    let error = send(&with(&["down"]), b"").unwrap_err();
    assert!(error.is_transient());
    assert_eq!(error.to_string(), "relay https://down.example/: unreachable: no such host");
    // A busy relay is as good as none.
    relay.interfere(Ok(answer(429, &[("retry-after", "9")], b"")));
    let error = send(&with(&["up"]), b"").unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(9)));
}
