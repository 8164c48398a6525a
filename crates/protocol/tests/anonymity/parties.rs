//! A device and a gateway.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_crypto::HpkeKeypair;
use sotto_crypto::ohttp::{ResponseOpener, seal_request};
use sotto_protocol::gateway::{
    GatewayKeyring, InnerRefusal, Opened, ReplayWindow, consume_request,
};
use sotto_protocol::http_date::imf_fixdate;
use sotto_protocol::oblivious::{Awaited, InnerRequest, produce_request};
use sotto_protocol::{Fault, Moment};
use sotto_wire::bhttp::{Field, Request, Response};
use sotto_wire::ohttp::DATE_PROBLEM;
use sotto_wire::{HpkeConfig, HpkeConfigId};

/// The start of a ten-minute step.
pub(crate) const NOON: Moment = Moment(1_794_744_000);

pub(crate) const KEY_IDS: [u8; 2] = [7, 8];

pub(crate) const UPLOAD: InnerRequest<'_> = InnerRequest {
    method: "POST",
    url: "https://leader.example/dap/tasks/a/reports",
    fields: &[("content-type", "application/ppm-dap;message=upload-req")],
    content: b"a report",
};

/// A gateway with two keys, and the generator that everything here draws from.
pub(crate) struct Gateway {
    pub(crate) keys: GatewayKeyring,
    pub(crate) window: ReplayWindow,
    pub(crate) rng: ChaCha20Rng,
}

impl Gateway {
    pub(crate) fn new(seed: u64) -> Self {
        Self::remembering(1_000, seed)
    }

    /// A gateway that remembers at most `max` requests.
    pub(crate) fn remembering(max: usize, seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let keys = KEY_IDS.map(|id| HpkeKeypair::generate(HpkeConfigId::new(id), &mut rng));
        let window = ReplayWindow::new(ReplayWindow::DEFAULT_WINDOW_S, max, [3; 16]);
        Self { keys: GatewayKeyring::new(&keys).unwrap(), window, rng }
    }

    pub(crate) fn config(&self) -> HpkeConfig {
        self.keys.configs()[0].clone()
    }

    /// What a device sends.
    pub(crate) fn produce(
        &mut self,
        request: &InnerRequest<'_>,
        now: Moment,
    ) -> (Vec<u8>, Awaited) {
        produce_request(request, &self.config(), now, &mut self.rng).unwrap()
    }

    /// An upload whose only field is this `date`, or none: our device would not send it.
    pub(crate) fn dated(&mut self, date: Option<&str>) -> Vec<u8> {
        let fields: Vec<_> =
            date.iter().map(|date| Field { name: "date", value: date.as_bytes() }).collect();
        let request = Request {
            method: "POST",
            scheme: "https",
            authority: "leader.example",
            path: "/",
            fields,
            content: b"a report".into(),
            trailers: vec![],
        };
        let mut message = Vec::new();
        request.encode(&mut message);
        self.sealed(&message).0
    }

    /// The same with the date of a moment.
    pub(crate) fn dated_at(&mut self, date: u64) -> Vec<u8> {
        self.dated(Some(&imf_fixdate(Moment(date))))
    }

    /// Any bytes, sealed as a request.
    pub(crate) fn sealed(&mut self, message: &[u8]) -> (Vec<u8>, ResponseOpener) {
        seal_request(&self.config(), message, &mut self.rng).unwrap()
    }

    pub(crate) fn open(&self, body: &[u8]) -> Opened {
        consume_request(&self.keys, body).unwrap()
    }

    /// The verdict on a body that opens.
    pub(crate) fn admit(&mut self, body: &[u8], now: Moment) -> Result<(), InnerRefusal> {
        let opened = self.open(body);
        self.window.admit(&opened, &opened.decode()?, now)
    }

    /// The answer of a gateway whose target says 200 with this content.
    pub(crate) fn answer(&mut self, body: &[u8], content: &[u8], now: Moment) -> Vec<u8> {
        match self.admit(body, now) {
            Ok(()) => self.respond(body, &success(content)),
            Err(refusal) => {
                let (status, kind) = match refusal {
                    InnerRefusal::Date => (400, DATE_PROBLEM),
                    InnerRefusal::Malformed | InnerRefusal::Replayed => (400, "about:blank"),
                    InnerRefusal::Full => (503, "about:blank"),
                };
                let content = format!("{{\"type\": \"{kind}\"}}");
                self.respond(body, &problem(status, content.as_bytes()))
            }
        }
        .unwrap()
    }

    /// This answer to a body that opens, sealed.
    pub(crate) fn respond(
        &mut self,
        body: &[u8],
        response: &Response<'_>,
    ) -> Result<Vec<u8>, Fault> {
        let (_, responder) = self.open(body).into_parts();
        responder.respond(response, &mut self.rng)
    }
}

pub(crate) fn problem(status: u16, content: &[u8]) -> Response<'_> {
    let field = Field { name: "content-type", value: b"application/problem+json" };
    Response { status, fields: vec![field], ..success(content) }
}

pub(crate) fn success(content: &[u8]) -> Response<'_> {
    Response {
        informational: vec![],
        status: 200,
        fields: vec![Field { name: "content-type", value: b"text/plain" }],
        content: content.into(),
        trailers: vec![],
    }
}
