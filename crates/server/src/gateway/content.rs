//! The content of an opened request, handed to the server without a copy: a report may have 8 MB.

use std::borrow::Cow;
use std::ops::Range;

use axum::body::Body;
use bytes::Bytes;
use zeroize::Zeroizing;

use crate::http::Share;

/// An opened request, and its share of the memory.
pub(super) struct Held {
    pub(super) message: Zeroizing<Vec<u8>>,
    pub(super) _share: Share,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

/// The content of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A part of the opened request.
    Part(Range<usize>),
    /// Put together from several parts of it.
    Gathered(Vec<u8>),
}

impl Content {
    /// `content`, which was decoded from `message`.
    pub(super) fn of(content: Cow<'_, [u8]>, message: &[u8]) -> Self {
        let part = match &content {
            Cow::Borrowed(part) => place(message, part),
            Cow::Owned(_) => None,
        };
        part.map_or_else(|| Self::Gathered(content.into_owned()), Self::Part)
    }
}

/// The content of the request to the server.
pub(super) fn request_body(message: Held, content: Content) -> Body {
    match content {
        Content::Part(part) if part.is_empty() => Body::empty(),
        Content::Part(part) => Body::from(Bytes::from_owner(message).slice(part)),
        Content::Gathered(content) => Body::from(content),
    }
}

/// Where a part of some bytes lies in them.
fn place(whole: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let range = start..start.checked_add(part.len())?;
    (whole.get(range.clone())?.len() == part.len()).then_some(range)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_part_is_handed_on_in_its_place() {
        let message = Zeroizing::new(vec![1, 2, 3, 4, 5]);
        let content = Content::of(Cow::Borrowed(&message[1..4]), &message);
        assert_eq!(content, Content::Part(1..4));
        let place = message[1..4].as_ptr();
        let held = Held { message, _share: Share::default() };
        let body = request_body(held, content).collect().await.unwrap().to_bytes();
        assert_eq!(body.as_ref(), [2, 3, 4]);
        assert_eq!(body.as_ptr(), place);
    }

    #[test]
    fn other_bytes_are_copied() {
        let (message, other) = ([1, 2, 3], [2, 3]);
        let content = Content::of(Cow::Borrowed(&other), &message);
        assert_eq!(content, Content::Gathered(vec![2, 3]));
        assert_eq!(Content::of(Cow::Owned(vec![9]), &message), Content::Gathered(vec![9]));
        let end = Content::of(Cow::Borrowed(&message[3..]), &message);
        assert_eq!(end, Content::Part(3..3));
    }
}
