//! The relay learns only the size class of a body.

use sotto_crypto::HpkeKeypair;
use sotto_protocol::Moment;
use sotto_protocol::gateway::{GatewayKeyring, consume_request};
use sotto_protocol::oblivious::{InnerRequest, ObliviousError, produce_request};
use sotto_wire::HpkeConfigId;
use sotto_wire::size_class::SizeClass;

use crate::anonymity::parties::{Gateway, NOON, UPLOAD, problem, success};

const SMALLEST: usize = 4096;

#[test]
fn every_request_has_the_length_of_a_class() {
    let mut gateway = Gateway::new(21);
    for len in [0, 1, 3_000, 3_800, 4_000, 4_096, 16_000, 16_384, 65_536, 300_000, 5_000_000] {
        let content = vec![1; len];
        let (body, _) = gateway.produce(&InnerRequest { content: &content, ..UPLOAD }, NOON);
        let class = SizeClass::of_exact(body.len()).expect("an exact class");
        // The smallest class that holds it: besides the content there is only a head of less than
        // 300 bytes.
        assert_eq!(Some(class), SizeClass::holding(body.len()));
        assert!(class.index() == 0 || len + 300 > class.bytes() / 4, "{len}");
        assert_eq!(gateway.open(&body).decode().unwrap().content.len(), len);
    }
}

#[test]
fn the_edge_of_a_class_is_exact() {
    let mut gateway = Gateway::new(22);
    // Lengths around the edge, found from the encoded length of one of them.
    let content = vec![1; SMALLEST];
    let len_of = |gateway: &mut Gateway, len: usize| {
        let request = InnerRequest { content: &content[..len], ..UPLOAD };
        gateway.produce(&request, NOON).0.len()
    };
    let fits = (3_000..SMALLEST).rev().find(|len| len_of(&mut gateway, *len) == SMALLEST).unwrap();
    let (body, _) = gateway.produce(&InnerRequest { content: &content[..fits], ..UPLOAD }, NOON);
    let opened = gateway.open(&body);
    // Not one byte of padding is left.
    assert_eq!(opened.decode().unwrap().encoded_len(), SMALLEST - 55);
    assert_eq!(opened.into_parts().0.len(), SMALLEST - 55);
    assert_eq!(len_of(&mut gateway, fits + 1), 2 * SMALLEST);
}

/// The longer encapsulated key takes its bytes from the padding, not from the class.
#[test]
fn a_hybrid_request_has_the_length_of_a_class_too() {
    let mut gateway = Gateway::new(29);
    let keypair = HpkeKeypair::generate_hybrid(HpkeConfigId::new(1), &mut gateway.rng);
    let keys = GatewayKeyring::new(std::slice::from_ref(&keypair)).unwrap();
    for (len, class) in
        [(0, 4_096), (1_800, 4_096), (3_000, 8_192), (6_800, 8_192), (7_200, 16_384)]
    {
        let content = vec![1; len];
        let request = InnerRequest { content: &content, ..UPLOAD };
        let (body, _) =
            produce_request(&request, keypair.config(), NOON, &mut gateway.rng).unwrap();
        assert_eq!(body.len(), class, "{len}");
        let opened = consume_request(&keys, &body).unwrap();
        assert_eq!(opened.decode().unwrap().content, content);
        assert_eq!(opened.into_parts().0.len(), class - 7 - 1120 - 16);
    }
}

#[test]
fn what_no_class_holds_is_not_sent() {
    let mut gateway = Gateway::new(23);
    let content = vec![1; SizeClass::MAX_REQUEST.bytes()];
    let too_long = InnerRequest { content: &content, ..UPLOAD };
    let refused = produce_request(&too_long, &gateway.config(), NOON, &mut gateway.rng);
    assert_eq!(refused.unwrap_err(), ObliviousError::TooLong);
    let largest = InnerRequest { content: &content[300..], ..UPLOAD };
    assert_eq!(gateway.produce(&largest, NOON).0.len(), SizeClass::MAX_REQUEST.bytes());
}

#[test]
fn every_answer_has_the_length_of_a_class() {
    let mut gateway = Gateway::new(24);
    for len in [0, 1, 4_000, 4_096, 20_000, 300_000, 20_000_000] {
        let (body, awaited) = gateway.produce(&UPLOAD, NOON);
        let answer = gateway.answer(&body, &vec![2; len], NOON);
        let class = SizeClass::of_exact(answer.len()).expect("an exact class");
        assert!(class.index() == 0 || len + 300 > class.bytes() / 4, "{len}");
        assert_eq!(awaited.consume_response(&answer).unwrap().content, vec![2; len]);
    }
}

/// Every length around the edge has an answer: the last that fits fills its class, and the next
/// gets the class above.
#[test]
fn the_edge_of_an_answers_class_is_exact() {
    let mut gateway = Gateway::new(28);
    let content = vec![2; SMALLEST];
    let lengths: Vec<_> = (SMALLEST - 120..SMALLEST)
        .map(|len| {
            let (body, _) = gateway.produce(&UPLOAD, NOON);
            let response = success(&content[..len]);
            let answer = gateway.respond(&body, &response).unwrap().len();
            (response.encoded_len() + 32, answer)
        })
        .collect();
    assert!(lengths.iter().any(|(needed, _)| *needed == SMALLEST));
    for (needed, answer) in lengths {
        let expected = if needed <= SMALLEST { SMALLEST } else { 2 * SMALLEST };
        assert_eq!(answer, expected, "{needed}");
    }
}

#[test]
fn an_answer_that_no_class_holds_is_our_fault() {
    let mut gateway = Gateway::new(25);
    let (body, _) = gateway.produce(&UPLOAD, NOON);
    let content = vec![2; 64 * 1024 * 1024];
    assert!(gateway.respond(&body, &success(&content)).is_err());
}

/// From outside, an accepted upload and every refusal look the same.
#[test]
fn success_and_every_failure_inside_have_one_length() {
    let mut gateway = Gateway::new(26);
    let mut lengths = Vec::new();
    let (body, _) = gateway.produce(&UPLOAD, NOON);
    lengths.push(gateway.answer(&body, b"", NOON).len());
    lengths.push(gateway.answer(&body, b"", NOON).len()); // received before
    let (late, _) = gateway.produce(&UPLOAD, Moment(NOON.0 - 100_000));
    lengths.push(gateway.answer(&late, b"", NOON).len());
    let (no_request, _) = gateway.sealed(b"?");
    lengths.push(gateway.answer(&no_request, b"", NOON).len());
    let mut full = Gateway::remembering(0, 27);
    let (body, _) = full.produce(&UPLOAD, NOON);
    lengths.push(full.answer(&body, b"", NOON).len());
    for status in [404, 421, 500] {
        let (body, _) = gateway.produce(&UPLOAD, NOON);
        let why = "Why. ".repeat(100);
        let answer = problem(status, why.as_bytes());
        lengths.push(gateway.respond(&body, &answer).unwrap().len());
    }
    assert_eq!(lengths, [SMALLEST; 8]);
}
