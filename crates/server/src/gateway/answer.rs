//! Answers, before and after they are sealed.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use sotto_wire::bhttp;
use sotto_wire::ohttp::{RESPONSE_MEDIA_TYPE, RESPONSE_OVERHEAD};
use sotto_wire::size_class::SizeClass;

use super::destination::returned;
use crate::http::{ReadBody, Share, content};
use crate::pace::Paced;
use crate::problem::Failure;

/// The length of the smallest answer. Memory for one is reserved before a request is passed on: the
/// server may have stored a report by the time it answers, and the gateway must be able to pass
/// that on.
pub(super) const SMALL: usize = 4 * 1024;

/// The longest content of an answer: together with its head it fits into the largest size class.
pub(super) const MAX_CONTENT: usize = 64 * 1024 * 1024 - SMALL;

/// The bytes that are written at once; the pace of a peer is checked after each piece. One TLS
/// record.
const PIECE: usize = 16 * 1024;

/// An answer to be sealed.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) content: ReadBody,
}

impl Answer {
    /// A refusal by the gateway itself.
    pub(super) async fn refusal(failure: Failure) -> Self {
        let (head, body) = failure.into_response().into_parts();
        // It is already in memory.
        let content = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let content = ReadBody::new(content, Share::default());
        Self { status: head.status, headers: head.headers, content }
    }

    /// The response inside the sealed answer.
    pub(super) fn response(&self) -> bhttp::Response<'_> {
        bhttp::Response {
            informational: Vec::new(),
            status: self.status.as_u16(),
            fields: returned(&self.headers),
            content: self.content.bytes().as_ref().into(),
            trailers: Vec::new(),
        }
    }

    /// The size class of the sealed answer, if it fits into one.
    pub(super) fn class(&self) -> Option<SizeClass> {
        SizeClass::holding(self.response().encoded_len() + RESPONSE_OVERHEAD)
    }
}

/// A sealed answer that is being sent, with its share of the memory.
pub(super) fn sealed(bytes: Vec<u8>, share: Share) -> Response {
    let body = Sealed(ReadBody::new(bytes.into(), share).into_bytes());
    content(RESPONSE_MEDIA_TYPE, Body::new(Paced::new(body)))
}

/// Bytes that are sent in pieces.
struct Sealed(Bytes);

impl HttpBody for Sealed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let len = self.0.len().min(PIECE);
        Poll::Ready((len > 0).then(|| Ok(Frame::data(self.0.split_to(len)))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Mutex;
    use tokio::time::Instant;

    use super::*;
    use crate::http::BodyReader;

    #[tokio::test]
    async fn sealed_answers_go_out_whole_and_give_their_memory_back() {
        let budget = BodyReader::new(4 * PIECE, Duration::from_secs(1));
        for len in [0, 1, PIECE - 1, PIECE, PIECE + 1, 4 * PIECE] {
            let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            let share = budget.reserve(4 * PIECE).unwrap();
            let mut body = sealed(bytes.clone(), share).into_body();
            assert_eq!(body.size_hint().exact(), Some(len as u64));
            let mut sent = Vec::new();
            while let Some(frame) = body.frame().await {
                let piece = frame.unwrap().into_data().unwrap();
                assert!(piece.len() <= PIECE);
                // Counted until the last piece is dropped.
                assert!(budget.reserve(1).is_err());
                sent.extend_from_slice(&piece);
            }
            assert!(sent == bytes, "{len}");
            drop(body);
            assert!(budget.reserve(4 * PIECE).is_ok());
        }
    }

    /// Has an answer of `len` bytes read by a peer that reads 16 KiB at a time, with a pause before
    /// each. Returns how many bytes it got, and whether all memory was released.
    async fn read_slowly(len: usize, pause: Duration) -> (usize, bool) {
        let budget = BodyReader::new(len, Duration::from_secs(1));
        let response = sealed(vec![7; len], budget.reserve(len).unwrap());
        let response = Mutex::new(Some(response));
        let (near, mut far) = tokio::io::duplex(4 * 1024);
        let serve = service_fn(async |_| {
            Ok::<_, Infallible>(response.lock().await.take().unwrap_or_default())
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(near), serve);
        let reader = async {
            let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
            far.write_all(request).await.unwrap();
            let (mut piece, mut taken) = (vec![0; PIECE], 0);
            loop {
                tokio::time::sleep(pause).await;
                let mut got = 0;
                while got < PIECE {
                    match far.read(&mut piece[got..]).await.unwrap() {
                        0 => return taken + got,
                        more => got += more,
                    }
                }
                taken += got;
            }
        };
        let (served, taken) = tokio::join!(connection, reader);
        assert_eq!(served.is_ok(), taken > len, "{served:?}");
        (taken, budget.reserve(len).is_ok())
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_too_slowly_is_given_up() {
        let len = 4 * 1024 * 1024;
        let start = Instant::now();
        let (taken, given_back) = read_slowly(len, Duration::from_secs(2)).await;
        assert!(taken < len && given_back, "{taken}");
        // After t seconds, 8 KiB times t have been sent and 16 KiB times (t - 30) are required:
        // about 60 s.
        assert!(start.elapsed() > Duration::from_secs(30));
        assert!(start.elapsed() < Duration::from_secs(120), "{:?}", start.elapsed());

        let (taken, given_back) = read_slowly(len, Duration::from_millis(900)).await;
        assert!(taken > len && given_back, "{taken}");
        // A small answer is sent before anybody can be late.
        let (taken, given_back) = read_slowly(SMALL, Duration::from_secs(600)).await;
        assert!(taken > SMALL && given_back, "{taken}");
    }

    #[tokio::test]
    async fn refusals_fit_into_the_smallest_class() {
        let long = Failure::Refused(StatusCode::BAD_GATEWAY, "x".repeat(3000));
        for failure in [Failure::NotFound, Failure::OutOfMemory, long] {
            let answer = Answer::refusal(failure).await;
            assert_eq!(answer.class().unwrap().bytes(), SMALL);
        }
    }
}
