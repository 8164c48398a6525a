//! The crate `bhttp` reads what we write, and we read what it writes.

use std::borrow::Cow;
use std::io::Cursor;

use bhttp::{Message, Mode};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use sotto_wire::bhttp::{Field, Informational, Request, Response};

type Fields = Vec<(String, Vec<u8>)>;

fn fields() -> impl Strategy<Value = Fields> {
    // The crate merges `cookie` into one field, whatever the number of lines.
    let name = "[a-z0-9!#$%&'*+.^_`|~-]{1,80}".prop_filter("cookie", |name| name != "cookie");
    let value = "[!-~\u{e9}]([ -~\t]{0,200}[!-~])?".prop_map(String::into_bytes);
    vec((name, prop_oneof![value, Just(Vec::new())]), 0..6)
}

fn borrowed(fields: &Fields) -> Vec<Field<'_>> {
    fields.iter().map(|(name, value)| Field { name, value }).collect()
}

/// The fields of a section in the crate's form.
fn theirs(section: &bhttp::FieldSection) -> Fields {
    let text = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
    section.iter().map(|field| (text(field.name()), field.value().to_vec())).collect()
}

fn written(message: &Message, mode: Mode) -> Vec<u8> {
    let mut out = Vec::new();
    message.write_bhttp(mode, &mut out).unwrap();
    out
}

fn read(bytes: &[u8]) -> Message {
    Message::read_bhttp(&mut Cursor::new(bytes)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(9292), ..ProptestConfig::default() })]

    #[test]
    fn requests_agree_with_the_crate(
        method in "[A-Z]{1,8}",
        scheme in "[a-z][a-z0-9+.-]{0,6}",
        authority in "([a-z0-9.:-]{1,70})?",
        path in "/[!-\"$-~]{0,100}",
        lists in (fields(), fields()),
        content in vec(any::<u8>(), 0..300),
        padding in 0..100_usize,
    ) {
        let request = Request {
            method: &method,
            scheme: &scheme,
            authority: &authority,
            path: &path,
            fields: borrowed(&lists.0),
            content: Cow::Borrowed(&content),
            trailers: borrowed(&lists.1),
        };
        // They read what we write.
        let ours = request.to_padded(request.encoded_len() + padding).unwrap();
        let message = read(&ours);
        prop_assert_eq!(message.control().method(), Some(method.as_bytes()));
        prop_assert_eq!(message.control().scheme(), Some(scheme.as_bytes()));
        prop_assert_eq!(message.control().authority().unwrap_or_default(), authority.as_bytes());
        prop_assert_eq!(message.control().path(), Some(path.as_bytes()));
        prop_assert_eq!(&theirs(message.header()), &lists.0);
        prop_assert_eq!(message.content(), &content[..]);
        prop_assert_eq!(&theirs(message.trailer()), &lists.1);
        // We read what they write, in both framings; with known length the bytes are the same.
        let known = written(&message, Mode::KnownLength);
        prop_assert_eq!(&known[..], &ours[..request.encoded_len()]);
        let indeterminate = written(&message, Mode::IndeterminateLength);
        prop_assert_eq!(Request::decode(&ours), Ok(request.clone()));
        prop_assert_eq!(Request::decode(&indeterminate), Ok(request));
    }

    #[test]
    fn responses_agree_with_the_crate(
        informational in vec((100..200_u16, fields()), 0..3),
        status in 200..600_u16,
        lists in (fields(), fields()),
        content in vec(any::<u8>(), 0..300),
        padding in 0..100_usize,
    ) {
        let response = Response {
            informational: informational
                .iter()
                .map(|(status, list)| Informational { status: *status, fields: borrowed(list) })
                .collect(),
            status,
            fields: borrowed(&lists.0),
            content: Cow::Borrowed(&content),
            trailers: borrowed(&lists.1),
        };
        let ours = response.to_padded(response.encoded_len() + padding).unwrap();
        let message = read(&ours);
        let before: Vec<_> = message
            .informational()
            .iter()
            .map(|one| (one.status().code(), theirs(one.fields())))
            .collect();
        prop_assert_eq!(&before, &informational);
        prop_assert_eq!(message.control().status().map(|status| status.code()), Some(status));
        prop_assert_eq!(&theirs(message.header()), &lists.0);
        prop_assert_eq!(message.content(), &content[..]);
        prop_assert_eq!(&theirs(message.trailer()), &lists.1);
        let known = written(&message, Mode::KnownLength);
        prop_assert_eq!(&known[..], &ours[..response.encoded_len()]);
        let indeterminate = written(&message, Mode::IndeterminateLength);
        prop_assert_eq!(Response::decode(&ours), Ok(response.clone()));
        prop_assert_eq!(Response::decode(&indeterminate), Ok(response));
    }
}
