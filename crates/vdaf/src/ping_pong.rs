//! Framing of ping-pong messages (VDAF, section "The Ping-Pong Topology").
//!
//! ```text
//! enum { initialize(0), continue(1), finish(2), (255) } MessageType;
//! struct { MessageType type; opaque payload<0..2^32-1>; } Message;   // initialize and finish
//! ```
//! A one-round VDAF has no `continue`: the leader sends `initialize` with its verifier share, and
//! the helper answers `finish` with the verifier message. Both have a fixed length per VDAF.

/// Bytes before the payload.
pub(crate) const HEADER: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum MessageType {
    Initialize = 0,
    Finish = 2,
}

/// A buffer with the header of a message of `payload` bytes, to be followed by those bytes.
pub(crate) fn produce_header(kind: MessageType, payload: usize) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER + payload);
    message.push(kind as u8);
    // Payloads are bounded by the length of a measurement, far below 2^32.
    message.extend_from_slice(&(payload as u32).to_be_bytes());
    message
}

/// The payload of a message that must be of this type and length.
pub(crate) fn consume_message(kind: MessageType, length: usize, message: &[u8]) -> Option<&[u8]> {
    let (header, payload) = message.split_at_checked(HEADER)?;
    let expected = produce_header(kind, length);
    (header == expected && payload.len() == length).then_some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_round_trips_and_nothing_else_passes() {
        let mut message = produce_header(MessageType::Initialize, 3);
        message.extend_from_slice(b"abc");
        assert_eq!(message, b"\x00\x00\x00\x00\x03abc");
        assert_eq!(consume_message(MessageType::Initialize, 3, &message), Some(&b"abc"[..]));
        assert_eq!(consume_message(MessageType::Finish, 3, &message), None);
        assert_eq!(consume_message(MessageType::Initialize, 2, &message), None);
        for length in 0..message.len() {
            assert_eq!(consume_message(MessageType::Initialize, 3, &message[..length]), None);
        }
        message.push(0);
        assert_eq!(consume_message(MessageType::Initialize, 3, &message), None);
        assert_eq!(consume_message(MessageType::Initialize, 4, &message), None);
    }

    #[test]
    fn an_empty_payload_is_a_payload() {
        let message = produce_header(MessageType::Finish, 0);
        assert_eq!(message, [2, 0, 0, 0, 0]);
        assert_eq!(consume_message(MessageType::Finish, 0, &message), Some(&[][..]));
    }
}
