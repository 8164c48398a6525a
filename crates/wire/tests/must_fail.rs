//! What must not decode or be constructed.

use sotto_testing::decoders::{DECODERS, decoder};
use sotto_wire::{
    AggregateShareReq, AggregationJobContinueReq, AggregationJobExtension,
    AggregationJobExtensions, AggregationJobInitReq, AggregationJobResp, BatchSelector,
    BoundsError, CollectionJobReq, Decode, DecodeError, Encode, Extension, Extensions,
    HpkeCiphertext, HpkeConfig, HpkeConfigId, HpkeConfigList, HpkeKemId, PlaintextInputShare,
    Query, Report, ReportError, ReportMetadata, TaskConfiguration, TaskExtension, TaskExtensions,
    UploadErrors, UploadRequest, Url, VerifyInit, VerifyResp,
};

/// Bodies that extend to the end of the input: one that is cut between two elements is still valid.
const TO_END: [&str; 5] = [
    "upload_request",
    "upload_errors",
    "aggregation_job_init_req",
    "aggregation_job_resp",
    "aggregation_job_continue_req",
];

/// Text whose end is not marked, that may be cut inside its parameters, or between two signatures.
const TEXT: [&str; 4] = ["media_type", "taskprov_header", "entry", "tile_path"];

/// Text that may be cut at the end of a line.
const LINES: [&str; 4] = ["note", "checkpoint", "add_checkpoint", "tlog_policy"];

/// Messages whose end is not marked. `bhttp.rs` and `ohttp.rs` say where they may be cut; the name
/// in an attestation's evidence may be cut anywhere.
const OPEN_END: [&str; 4] =
    ["bhttp_request", "bhttp_response", "ohttp_request", "attestation_evidence"];

/// The position of the batch mode in the first example of a task configuration: after task info,
/// two URLs, precision and minimum batch size.
const BATCH_MODE_AT: usize = 5 + 2 * 25 + 16;

fn seed(name: &str, index: usize) -> Vec<u8> {
    (decoder(name).unwrap().seeds)()[index].clone()
}

fn unknown_value(field: &'static str, value: u8) -> DecodeError {
    DecodeError::UnknownValue { field, value }
}

#[test]
fn seeds_decode() {
    for decoder in DECODERS {
        let seeds = (decoder.seeds)();
        assert!(!seeds.is_empty(), "{} has no seeds", decoder.name);
        for seed in seeds {
            assert!((decoder.decode)(&seed), "{}: {}", decoder.name, hex::encode(seed));
        }
    }
}

#[test]
fn truncated_at_every_byte() {
    for decoder in DECODERS.iter().filter(|decoder| !TO_END.contains(&decoder.name)) {
        // `token.rs` says where the batches may be cut.
        let lists = ["entry_bundle", "ohttp_keys", "token_request_batch", "issuer_answer_batch"];
        if [&TEXT[..], &LINES, &OPEN_END, &lists].concat().contains(&decoder.name) {
            continue;
        }
        for seed in (decoder.seeds)() {
            for len in 0..seed.len() {
                assert!(!(decoder.decode)(&seed[..len]), "{} cut to {len} bytes", decoder.name);
            }
        }
    }
}

#[test]
fn lines_truncated_inside() {
    for name in LINES {
        let decoder = decoder(name).unwrap();
        let mut accepted = 0;
        for seed in (decoder.seeds)() {
            for len in (0..seed.len()).filter(|len| (decoder.decode)(&seed[..*len])) {
                assert_eq!(seed[len - 1], b'\n', "{name} cut to {len} bytes");
                accepted += 1;
            }
        }
        assert!(accepted > 0, "{name} is not one of these");
    }
}

#[test]
fn bundles_truncated_inside_an_entry() {
    let decoder = decoder("entry_bundle").unwrap();
    let seed = seed("entry_bundle", 1);
    let accepted: Vec<_> = (0..=seed.len()).filter(|len| (decoder.decode)(&seed[..*len])).collect();
    assert_eq!(accepted, [5, 7, 14]);
}

#[test]
fn bodies_truncated_inside_an_element() {
    for name in TO_END {
        let decoder = decoder(name).unwrap();
        let seed = (decoder.seeds)().pop().unwrap();
        let accepted: Vec<_> =
            (0..=seed.len()).filter(|len| (decoder.decode)(&seed[..*len])).collect();
        assert_eq!(accepted, boundaries(name, &seed), "{name}");
    }
}

/// Where each element of a body ends, and where the first one starts.
fn boundaries(name: &str, body: &[u8]) -> Vec<usize> {
    fn ends<T: Encode>(start: usize, elements: impl IntoIterator<Item = T>) -> Vec<usize> {
        let lens = elements.into_iter().scan(start, |end, element| {
            *end += element.encoded_len();
            Some(*end)
        });
        std::iter::once(start).chain(lens).collect()
    }
    match name {
        "upload_request" => ends(0, UploadRequest::new(body).map(|item| item.unwrap().0)),
        "upload_errors" => ends(0, UploadErrors::from_bytes(body).unwrap().status),
        "aggregation_job_init_req" => {
            let mut request = AggregationJobInitReq::from_bytes(body).unwrap();
            let verify_inits = std::mem::take(&mut request.verify_inits);
            ends(request.encoded_len(), verify_inits)
        }
        "aggregation_job_resp" => {
            ends(0, AggregationJobResp::from_bytes(body).unwrap().verify_resps)
        }
        "aggregation_job_continue_req" => {
            ends(2, AggregationJobContinueReq::from_bytes(body).unwrap().verify_continues)
        }
        other => unreachable!("{other}"),
    }
}

#[test]
fn trailing_bytes() {
    for decoder in DECODERS {
        if TEXT.contains(&decoder.name) || OPEN_END.contains(&decoder.name) {
            continue;
        }
        for mut seed in (decoder.seeds)() {
            seed.push(0);
            assert!(!(decoder.decode)(&seed), "{}", decoder.name);
        }
    }
    let mut bytes = seed("report", 0);
    bytes.push(0);
    assert_eq!(Report::from_bytes(&bytes), Err(DecodeError::TrailingBytes));
}

#[test]
fn an_upload_stops_at_the_first_bad_report() {
    let good = seed("report", 0);
    let body = [&good[..], &good[..good.len() - 1]].concat();
    let mut reports = UploadRequest::new(&body);
    assert_eq!(reports.next().unwrap().unwrap().1, good);
    assert_eq!(reports.next(), Some(Err(DecodeError::UnexpectedEnd)));
    assert_eq!(reports.next(), None);
}

/// A list as bytes: each extension with empty data.
fn list(types: &[u16]) -> Vec<u8> {
    let mut out = u16::try_from(types.len() * 4).unwrap().to_be_bytes().to_vec();
    for extension_type in types {
        out.extend_from_slice(&extension_type.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
    }
    out
}

#[test]
fn extensions_out_of_order() {
    for bad in [&[3, 2][..], &[2, 2], &[0, 0], &[0xffff, 0xffff], &[0xffff, 0], &[2, 5, 4]] {
        let list = list(bad);
        let error = DecodeError::ExtensionsOutOfOrder;
        assert_eq!(TaskExtensions::from_bytes(&list), Err(error), "{bad:?}");
        assert_eq!(AggregationJobExtensions::from_bytes(&list), Err(error), "{bad:?}");
        let request = [&[2, 0, 0, 0, 0, 0, 0][..], &list].concat();
        assert_eq!(CollectionJobReq::from_bytes(&request), Err(error), "{bad:?}");

        // In a report the list is kept, so that only this report is rejected.
        let metadata = [&[0; 24][..], &list].concat();
        let metadata = ReportMetadata::from_bytes(&metadata).unwrap();
        assert_eq!(metadata.public_extensions.check(), Err(error), "{bad:?}");
        let share = [&list[..], &[0, 0, 0, 1, 0]].concat();
        let share = PlaintextInputShare::from_bytes(&share).unwrap();
        assert_eq!(share.private_extensions.check(), Err(error), "{bad:?}");

        let items: Vec<_> = bad
            .iter()
            .map(|&extension_type| Extension { extension_type, extension_data: (&[]).into() })
            .collect();
        assert_eq!(Extensions::new(&items), Err(BoundsError::ExtensionsOutOfOrder), "{bad:?}");
        let items = bad
            .iter()
            .map(|&extension_type| TaskExtension::Unknown { extension_type, data: Vec::new() })
            .collect();
        assert_eq!(TaskExtensions::new(items), Err(BoundsError::ExtensionsOutOfOrder), "{bad:?}");
    }
    for good in [&[][..], &[0], &[0, 2, 0xffff]] {
        assert!(TaskExtensions::from_bytes(&list(good)).is_ok(), "{good:?}");
        assert!(Extensions::from_bytes(&list(good)).unwrap().check().is_ok(), "{good:?}");
    }
}

#[test]
fn extensions_cut_short() {
    // The list has all its bytes, but its last extension does not.
    let list = [0, 5, 0, 9, 0, 2, 1];
    let extensions = Extensions::from_bytes(&list).unwrap();
    assert_eq!(extensions.check(), Err(DecodeError::UnexpectedEnd));
    let mut iter = extensions.iter();
    assert!(iter.next().unwrap().is_err());
    assert_eq!(iter.next(), None);
    assert_eq!(TaskExtensions::from_bytes(&list), Err(DecodeError::UnexpectedEnd));
}

#[test]
fn extension_data_of_known_types() {
    let malformed = DecodeError::from(BoundsError::ExtensionData(1));
    for len in [0u16, 15, 17, 31, 33] {
        let mut list = (len + 4).to_be_bytes().to_vec();
        list.extend_from_slice(&[0, 1]);
        list.extend_from_slice(&len.to_be_bytes());
        list.resize(list.len() + usize::from(len), 0);
        assert_eq!(TaskExtensions::from_bytes(&list), Err(malformed), "{len}");
        let job = AggregationJobExtensions::from_bytes(&list);
        assert_eq!(job, Err(malformed), "{len}");
    }
    for len in [0u16, 7, 9] {
        let mut list = (len + 4).to_be_bytes().to_vec();
        list.extend_from_slice(&[0xff, 0x11]);
        list.extend_from_slice(&len.to_be_bytes());
        list.resize(list.len() + usize::from(len), 0);
        let malformed = DecodeError::from(BoundsError::ExtensionData(0xff11));
        assert_eq!(TaskExtensions::from_bytes(&list), Err(malformed), "{len}");
    }
    // A known type cannot be passed as an unknown one.
    let hidden = TaskExtension::Unknown { extension_type: 1, data: vec![0; 16] };
    assert_eq!(TaskExtensions::new(vec![hidden]), Err(BoundsError::ExtensionData(1)));
    let hidden = AggregationJobExtension::Unknown { extension_type: 1, data: vec![0; 3] };
    assert_eq!(AggregationJobExtensions::new(vec![hidden]), Err(BoundsError::ExtensionData(1)));
}

#[test]
fn extensions_too_long() {
    let data = |len| TaskExtension::Unknown { extension_type: 2, data: vec![0; len] };
    assert!(TaskExtensions::new(vec![data(0xffff - 4)]).is_ok());
    let length = BoundsError::Length("extensions");
    assert_eq!(TaskExtensions::new(vec![data(0xffff - 3)]), Err(length));
    assert_eq!(TaskExtensions::new(vec![data(1 << 20)]), Err(length));
    let data = |len| [Extension { extension_type: 2, extension_data: vec![0; len].into() }];
    assert!(Extensions::new(&data(0xffff - 4)).is_ok());
    assert_eq!(Extensions::new(&data(0xffff - 3)), Err(length));
    assert_eq!(Extensions::new(&data(1 << 16)), Err(BoundsError::Length("extension_data")));
}

#[test]
fn values_outside_an_enumeration() {
    for value in 0..=255 {
        let known = ReportError::from_bytes(&[value]);
        assert_eq!(
            known.map(|error| error.value()),
            match value {
                0..13 => Ok(value),
                _ => Err(unknown_value("ReportError", value)),
            }
        );
        if !(1..=2).contains(&value) {
            let mut bytes = seed("task_configuration", 0);
            let mode = BATCH_MODE_AT;
            bytes[mode] = value;
            let error = unknown_value("BatchMode", value);
            assert_eq!(TaskConfiguration::from_bytes(&bytes), Err(error));
            assert_eq!(Query::from_bytes(&[value, 0, 0]), Err(error));
            assert_eq!(BatchSelector::from_bytes(&[value, 0, 0]), Err(error));
        }
        if value > 2 {
            let mut bytes = seed("verify_resp", 1);
            bytes[16] = value;
            let error = unknown_value("VerifyRespType", value);
            assert_eq!(VerifyResp::from_bytes(&bytes), Err(error));
        }
    }
}

#[test]
fn batch_mode_configurations_of_the_wrong_length() {
    assert!(Query::from_bytes(&[2, 0, 1, 0]).is_err());
    assert!(Query::from_bytes(&[1, 0, 0]).is_err());
    for len in [0, 15, 17, 31, 33] {
        for mode in [1, 2] {
            let mut bytes = vec![mode, 0, len];
            bytes.resize(bytes.len() + usize::from(len), 0);
            assert!(BatchSelector::from_bytes(&bytes).is_err(), "{mode} {len}");
            if len > 0 {
                assert!(Query::from_bytes(&bytes).is_err(), "{mode} {len}");
            }
        }
    }
    let mut bytes = seed("task_configuration", 0);
    let mode = BATCH_MODE_AT;
    bytes[mode + 2] = 1;
    bytes.insert(mode + 3, 0);
    let error = BoundsError::Length("batch_config").into();
    assert_eq!(TaskConfiguration::from_bytes(&bytes), Err(error));
}

#[test]
fn intervals_that_overflow() {
    let overflow = DecodeError::from(BoundsError::IntervalOverflow);
    let interval = [[0xff; 8], [0, 0, 0, 0, 0, 0, 0, 1]].concat();
    let config = [&[1, 0, 16][..], &interval].concat();
    assert_eq!(Query::from_bytes(&config), Err(overflow));
    assert_eq!(BatchSelector::from_bytes(&config), Err(overflow));
    let task_interval = [&[0, 20, 0, 1, 0, 16][..], &interval].concat();
    assert_eq!(
        TaskExtensions::from_bytes(&task_interval),
        Err(BoundsError::ExtensionData(1).into())
    );
}

#[test]
fn empty_vectors_that_may_not_be() {
    let length = |field| Err(BoundsError::Length(field));
    let id = HpkeConfigId::new(0);
    assert_eq!(HpkeCiphertext::new(id, vec![], vec![1]), length("enc"));
    assert_eq!(HpkeCiphertext::new(id, vec![1], vec![]), length("payload"));
    assert!(HpkeCiphertext::from_bytes(&[0, 0, 0, 0, 0, 0, 1, 1]).is_err());
    assert!(HpkeCiphertext::from_bytes(&[0, 0, 1, 1, 0, 0, 0, 0]).is_err());
    assert!(HpkeConfig::from_bytes(&[0; 9]).is_err());
    assert!(HpkeConfigList::from_bytes(&[0, 0]).is_err());
    assert!(HpkeConfigList::new(vec![]).is_err());
    assert!(PlaintextInputShare::from_bytes(&[0; 6]).is_err());
    assert!(VerifyResp::from_bytes(&[0; 21]).is_err());
    assert!(Url::new("").is_err());
    assert!(Url::from_bytes(&[0, 0]).is_err());
    let mut bytes = seed("verify_init", 0);
    let payload = bytes.len() - 24;
    bytes.truncate(payload);
    bytes[payload - 1] = 0;
    assert!(VerifyInit::from_bytes(&bytes).is_err());
    let mut bytes = seed("task_configuration", 0);
    bytes.splice(..5, [0]);
    let error = BoundsError::Length("task_info").into();
    assert_eq!(TaskConfiguration::from_bytes(&bytes), Err(error));
}

#[test]
fn vectors_too_long() {
    let (id, long) = (HpkeConfigId::new(0), vec![0u8; 1 << 16]);
    assert!(HpkeCiphertext::new(id, long.clone(), vec![1]).is_err());
    assert!(HpkeCiphertext::new(id, &long[1..], vec![1]).is_ok());
    let config = HpkeConfig::from_bytes(&seed("hpke_config", 0)).unwrap();
    let config = |id, key: &[u8]| {
        let (kem, kdf, aead) = (config.kem_id(), config.kdf_id(), config.aead_id());
        assert_eq!(kem, HpkeKemId::X25519_HKDF_SHA256);
        HpkeConfig::new(HpkeConfigId::new(id), kem, kdf, aead, key.to_vec())
    };
    assert_eq!(config(0, &long), Err(BoundsError::Length("public_key")));
    let half = config(0, &long[..1 << 15]).unwrap();
    let other = config(1, &long[..1 << 15]).unwrap();
    assert!(HpkeConfigList::new(vec![half.clone()]).is_ok());
    assert!(HpkeConfigList::new(vec![half, other]).is_err());
    assert!(Url::new("a".repeat(1 << 16)).is_err());
    assert!(Url::new("a".repeat((1 << 16) - 1)).is_ok());
}

#[test]
fn other_values_that_are_refused() {
    let config = HpkeConfig::from_bytes(&seed("hpke_config", 0)).unwrap();
    let list = vec![config.clone(), config.clone()];
    assert_eq!(HpkeConfigList::new(list), Err(BoundsError::DuplicateHpkeConfigId));
    let config = config.to_bytes();
    let list = [&[0, 2 * config.len() as u8][..], &config, &config].concat();
    assert_eq!(HpkeConfigList::from_bytes(&list), Err(BoundsError::DuplicateHpkeConfigId.into()));

    for url in ["https://exämple/", "https://a b/", "https://a/\n", "https://a/\u{7f}"] {
        assert_eq!(Url::new(url), Err(BoundsError::UrlCharacter), "{url}");
    }
    assert_eq!(Url::from_bytes(&[0, 1, 0xff]), Err(BoundsError::UrlCharacter.into()));

    let mut bytes = seed("task_configuration", 0);
    bytes[BATCH_MODE_AT - 9] = 0;
    let error = BoundsError::ZeroTimePrecision.into();
    assert_eq!(TaskConfiguration::from_bytes(&bytes), Err(error));
    assert!(AggregateShareReq::from_bytes(&[]).is_err());
}
