//! Devices that leak: a transport that opens what is sealed to the leader, and seals something else.

use std::net::Ipv4Addr;

use sotto_client::{HttpRequest, HttpResponse, Random, Transport, TransportError};
use sotto_protocol::Moment;
use sotto_protocol::client::is_cover;
use sotto_protocol::gateway::{GatewayKeyring, Opened, consume_request};
use sotto_protocol::oblivious::{InnerRequest, produce_request};
use sotto_tests::phone::Source;
use sotto_wire::bhttp::{Field, Response};
use sotto_wire::ohttp::REQUEST_MEDIA_TYPE;

/// What a careless device does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leak {
    /// Its address is in a header inside the sealed upload, where no relay can strip it.
    Header,
    /// Its passes come every two hours, at a second that follows from its address. Not the transport
    /// does this, but whoever wakes the device.
    Phase,
    /// The upload has a field whose length depends on the value.
    Size,
    /// A report is sent once more; cover is not.
    Resend,
    /// Cover is one byte longer than a report.
    Cover,
}

/// The transport of a device; an honest one without a leak.
pub(super) struct Careless {
    pub(super) source: Source,
    pub(super) leak: Option<Leak>,
    pub(super) address: Ipv4Addr,
    pub(super) minutes: i64,
    /// The leader's gateway.
    pub(super) keys: GatewayKeyring,
    pub(super) now: Moment,
    pub(super) random: Random,
}

impl Transport for Careless {
    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
        if self.leak.is_none() || !request.url.ends_with("/leader.example") {
            return self.source.send(request);
        }
        let opened = consume_request(&self.keys, request.body).unwrap();
        let inner = opened.decode().unwrap();
        let (mut fields, mut content) = (inner_fields(&opened), inner.content.to_vec());
        fields.retain(|(name, _)| name != "date");
        let is_cover = is_cover(&content);
        match self.leak {
            Some(Leak::Header) => fields.push(("x-real-ip".into(), self.address.to_string())),
            Some(Leak::Size) => {
                fields.push(("x-minutes".into(), "|".repeat(40 * self.minutes as usize)));
            }
            Some(Leak::Cover) if is_cover => content.push(0),
            _ => {}
        }
        let (method, url) =
            (inner.method, format!("{}://{}{}", inner.scheme, inner.authority, inner.path));
        let fields: Vec<_> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        let other = InnerRequest { method, url: &url, fields: &fields, content: &content };
        let exchange = || {
            let (key, rng) = (&self.keys.configs()[0], &mut *(self.random)());
            let (body, awaited) = produce_request(&other, key, self.now, rng).unwrap();
            let (url, limit) = (request.url.clone(), request.response_limit);
            let outer = HttpRequest::post(url, REQUEST_MEDIA_TYPE, &body, limit);
            let answer = self.source.send(&outer)?;
            Ok((awaited.consume_response(&answer.body).unwrap(), answer))
        };
        let (response, mut answer) = exchange()?;
        if self.leak == Some(Leak::Resend) && !is_cover {
            exchange()?;
        }
        let fields = response.fields.iter();
        let fields = fields.map(|(name, value)| Field { name, value: value.as_bytes() });
        let response = Response {
            informational: Vec::new(),
            status: response.status,
            fields: fields.collect(),
            content: response.content.into(),
            trailers: Vec::new(),
        };
        let (_, responder) = opened.into_parts();
        answer.body = responder.respond(&response, &mut *(self.random)()).unwrap();
        Ok(answer)
    }
}

/// The header inside a sealed request.
pub(super) fn inner_fields(opened: &Opened) -> Vec<(String, String)> {
    let text = |field: &Field<'_>| {
        (field.name.to_owned(), String::from_utf8(field.value.to_vec()).unwrap())
    };
    opened.decode().unwrap().fields.iter().map(text).collect()
}
