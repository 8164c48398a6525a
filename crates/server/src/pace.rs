//! How slowly a peer may read an answer that is held for it.
//!
//! The listener disconnects peers that read nothing. A peer that reads a little now and then would
//! still occupy memory or disk that others need.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::HttpBody;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

use crate::environment::{Instant, instant};

/// After [`GRACE`], a body must have been sent at this many bytes per second on average.
const MIN_RATE: u64 = 16 * 1024;
const GRACE: Duration = Duration::from_secs(30);

/// A body that breaks off if its next piece is requested too late.
pub(crate) struct Paced<B> {
    body: B,
    sent: u64,
    start: Instant,
}

impl<B> Paced<B> {
    /// Starts the clock now.
    pub(crate) fn new(body: B) -> Self {
        Self { body, sent: 0, start: instant() }
    }

    /// Whether sending took longer than allowed.
    fn is_late(&self) -> bool {
        let earned = Duration::from_millis(self.sent * 1000 / MIN_RATE);
        instant() - self.start > GRACE + earned
    }
}

impl<B> HttpBody for Paced<B>
where
    B: HttpBody<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if !self.body.is_end_stream() && self.is_late() {
            return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let frame = frame.transpose().map_err(io::Error::other)?;
        self.sent += frame.as_ref().and_then(Frame::data_ref).map_or(0, |data| data.len() as u64);
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::BodyExt;

    use super::*;

    const PIECE: usize = 64 * 1024;

    /// This many pieces.
    struct Pieces(usize);

    impl HttpBody for Pieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let left = self.0;
            self.0 = left.saturating_sub(1);
            Poll::Ready((left > 0).then(|| Ok(Frame::data(Bytes::from_static(&[7; PIECE])))))
        }

        fn is_end_stream(&self) -> bool {
            self.0 == 0
        }
    }

    /// How many pieces a peer gets that pauses after each.
    async fn taken(pieces: usize, pause: Duration) -> usize {
        let mut body = Paced::new(Pieces(pieces));
        let mut taken = 0;
        while let Some(Ok(_)) = body.frame().await {
            taken += 1;
            tokio::time::sleep(pause).await;
        }
        taken
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_too_little_is_given_up() {
        // Four seconds earn one piece, and the grace period is as long as one of thirty.
        assert_eq!(taken(100, Duration::from_millis(3_900)).await, 100);
        assert_eq!(taken(100, Duration::from_secs(8)).await, 8);
        assert_eq!(taken(100, Duration::from_secs(600)).await, 1);
        // What has been sent can no longer be late.
        assert_eq!(taken(1, Duration::from_secs(600)).await, 1);
    }
}
