//! The device's half of Oblivious HTTP (RFC 9458): a request that only the gateway can read, and
//! its answer.
//!
//! The relay sees the sender and one of a few lengths; the gateway sees the request but not the
//! sender. So whatever both see is the same for all devices: the encapsulated request is exactly as
//! long as its size class, its `date` is rounded, and it holds no field that the caller did not
//! give. Each request has its own key, and an [`Awaited`] opens one response: nothing links two
//! exchanges.
//!
//! Leaves to the caller: which gateway key to trust, and sending.

use std::fmt;

use rand_core::CryptoRng;
use sotto_crypto::HpkeError;
use sotto_crypto::ohttp::{ResponseOpener, seal_request};
use sotto_wire::bhttp::{Field, Request, Response};
use sotto_wire::ohttp::request_overhead;
use sotto_wire::size_class::SizeClass;
use sotto_wire::{DecodeError, HpkeConfig, HttpUrl, KeyName};
use zeroize::Zeroizing;

use crate::Moment;
use crate::http_date::rounded_date;

/// A request as the target gets it.
#[derive(Clone, Copy)]
pub struct InnerRequest<'a> {
    /// The method.
    pub method: &'a str,
    /// An absolute `http` or `https` URL.
    pub url: &'a str,
    /// Names and values, except `date`.
    pub fields: &'a [(&'a str, &'a str)],
    /// The body.
    pub content: &'a [u8],
}

/// Shows neither values nor the body.
impl fmt::Debug for InnerRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InnerRequest")
            .field("method", &self.method)
            .field("content_len", &self.content.len())
            .finish_non_exhaustive()
    }
}

/// An answer from the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnerResponse {
    /// The status code.
    pub status: u16,
    /// Names, in lower case, and values.
    pub fields: Vec<(String, String)>,
    /// The body.
    pub content: Vec<u8>,
}

/// Why an oblivious exchange failed on the device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObliviousError {
    /// The URL is not an absolute `http` or `https` one, or names a user or a fragment.
    #[error("the URL of an oblivious request must be absolute, without a user or a fragment")]
    InvalidUrl,
    /// A field that this module sets.
    #[error("the caller must not set the date of an oblivious request")]
    DateGiven,
    /// It does not fit into any size class for requests.
    #[error("the request is longer than the largest size class")]
    TooLong,
    /// The gateway's key cannot be used.
    #[error("the gateway's key cannot be used: {0}")]
    Key(HpkeError),
    /// The answer is not to this request, or not from the holder of the gateway's key.
    #[error("the oblivious response does not open")]
    Sealed,
    /// The answer opened, but is not a binary HTTP response.
    #[error("the oblivious response does not decode: {0}")]
    Malformed(DecodeError),
}

/// What opens the answer to one request.
#[derive(Debug)]
pub struct Awaited {
    opener: ResponseOpener,
}

/// Seals `request` to the gateway's key. Returns the body for the relay, padded to its size class.
pub fn produce_request(
    request: &InnerRequest<'_>,
    gateway: &HpkeConfig,
    now: Moment,
    rng: &mut dyn CryptoRng,
) -> Result<(Vec<u8>, Awaited), ObliviousError> {
    let url = HttpUrl::parse(request.url).map_err(|_| ObliviousError::InvalidUrl)?;
    let date = rounded_date(now);
    let names: Vec<String> =
        request.fields.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    if names.iter().any(|name| name == "date") {
        return Err(ObliviousError::DateGiven);
    }
    let mut fields = vec![field("date", &date)];
    fields.extend(names.iter().zip(request.fields).map(|(name, (_, value))| field(name, value)));
    let inner = Request {
        method: request.method,
        scheme: url.scheme(),
        authority: url.authority(),
        path: url.path_and_query(),
        fields,
        content: request.content.into(),
        trailers: Vec::new(),
    };
    let overhead = request_overhead(gateway);
    let class = SizeClass::holding(inner.encoded_len() + overhead)
        .filter(|class| *class <= SizeClass::MAX_REQUEST)
        .ok_or(ObliviousError::TooLong)?;
    let padded = inner.to_padded(class.bytes() - overhead).map(Zeroizing::new);
    let padded = padded.ok_or(ObliviousError::TooLong)?;
    let (body, opener) = seal_request(gateway, &padded, rng).map_err(ObliviousError::Key)?;
    Ok((body, Awaited { opener }))
}

impl Awaited {
    /// Opens the answer from the relay. It need not be padded: other gateways may not pad.
    pub fn consume_response(self, body: &[u8]) -> Result<InnerResponse, ObliviousError> {
        let opened = self.opener.open(body).map_err(|_| ObliviousError::Sealed)?;
        let response = Response::decode(&opened).map_err(ObliviousError::Malformed)?;
        // Nobody here reads values that are not text.
        let fields = response
            .fields
            .iter()
            .filter_map(|field| {
                let value = std::str::from_utf8(field.value).ok()?;
                Some((field.name.to_string(), value.to_owned()))
            })
            .collect();
        let content = response.content.into_owned();
        Ok(InnerResponse { status: response.status, fields, content })
    }
}

/// Where a request for this operator's gateway goes: a resource of the relay, named after the
/// operator. The relay's own list says where the gateway is.
pub fn relay_url(relay: &str, gateway: &KeyName) -> String {
    format!("{}/{}", relay.trim_end_matches('/'), percent_encoded(gateway))
}

/// A name as one URL segment: everything that is not unreserved (RFC 3986 §2.3) is encoded.
pub(crate) fn percent_encoded(name: &KeyName) -> String {
    let mut encoded = String::new();
    for byte in name.as_str().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn field<'a>(name: &'a str, value: &'a str) -> Field<'a> {
    Field { name, value: value.as_bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_one_segment_of_the_relays_path() {
        let url = |relay, name: &str| relay_url(relay, &name.parse().unwrap());
        assert_eq!(url("https://r.example", "leader.example"), "https://r.example/leader.example");
        assert_eq!(url("https://r.example/ohttp/", "a"), "https://r.example/ohttp/a");
        assert_eq!(
            url("https://r.example", "a/b?c#d%e~\u{e9}"),
            "https://r.example/a%2Fb%3Fc%23d%25e~%C3%A9"
        );
    }
}
