//! Every decoder of `sotto-wire` in one table, for the fuzz targets and the mutation campaign.
//!
//! Each entry decodes and, if that succeeds, encodes again: if one value had two encodings, two
//! parties that compare digests could disagree about one message. If a format has several
//! encodings, the decoded value must survive a round trip through ours.

mod examples;
mod ohttp;
mod tlog;

use sotto_wire::limits::{DECODE_ALLOCATION_FACTOR, JSON_ALLOCATION_FACTOR};
use sotto_wire::recipe::TokenKeyRequest;
use sotto_wire::token::evidence::AttestationEvidence;
use sotto_wire::token::{
    self, EncapsulationKey, InnerTokenRequest, IssuerAnswerBatch, Token, TokenChallenge,
    TokenRequest, TokenRequestBatch,
};
use sotto_wire::{
    AggregateShare, AggregateShareId, AggregateShareReq, AggregationJobContinueReq,
    AggregationJobId, AggregationJobInitReq, AggregationJobResp, BatchId, BatchMode, BatchSelector,
    CollectionJobId, CollectionJobReq, CollectionJobResp, Decode, Encode, Entry, EntryId,
    Extensions, HpkeCiphertext, HpkeConfig, HpkeConfigList, Interval, KeySet, MediaType,
    PlaintextInputShare, PopulationResult, ProblemType, Query, Receipt, Recipe, Report,
    ReportError, ReportId, ReportMetadata, ReportShare, ReportUploadStatus, TaskConfiguration,
    TaskId, TlogPolicy, UploadErrors, UploadRequest, Url, VerifyContinue, VerifyInit, VerifyResp,
    taskprov,
};

/// One decoder.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    /// The name, which is also that of the fuzz target.
    pub name: &'static str,
    /// Whether the bytes decode. Panics if the decoded value does not encode to the same bytes, or
    /// does not survive the round trip.
    pub decode: fn(&[u8]) -> bool,
    /// Valid encodings to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Decoding `n` bytes allocates at most `n` times this, plus a constant.
    pub allocation_factor: usize,
}

/// The decoder with this name.
pub fn decoder(name: &str) -> Option<&'static Decoder> {
    DECODERS.iter().find(|decoder| decoder.name == name)
}

/// An entry for a type with [`Decode`] and [`Encode`].
macro_rules! message {
    ($name:literal, $type:ty) => {
        Decoder {
            name: $name,
            decode: |bytes| {
                <$type>::from_bytes(bytes).is_ok_and(|value| {
                    assert!(value.to_bytes() == bytes, concat!($name, " is not canonical"));
                    assert!(
                        value.encoded_len() == bytes.len(),
                        concat!($name, " has another length")
                    );
                    true
                })
            },
            seeds: || examples::seeds($name),
            allocation_factor: DECODE_ALLOCATION_FACTOR,
        }
    };
}

/// An entry for text: `$parse` gives an `Option` of a value that `$show` turns back into text.
macro_rules! text {
    ($name:literal, $parse:expr, $show:expr) => {
        Decoder {
            name: $name,
            decode: |bytes| {
                std::str::from_utf8(bytes).ok().and_then($parse).is_some_and(|value| {
                    let shown = $show(&value);
                    assert!(
                        $parse(&shown).as_ref() == Some(&value),
                        concat!($name, " is not stable")
                    );
                    true
                })
            },
            seeds: || examples::seeds($name),
            allocation_factor: DECODE_ALLOCATION_FACTOR,
        }
    };
}

/// An entry for a format in canonical JSON.
macro_rules! json {
    ($name:literal, $type:ty) => {
        Decoder {
            name: $name,
            decode: |bytes| {
                <$type>::parse(bytes).is_ok_and(|value| {
                    assert!(value.to_json() == bytes, concat!($name, " is not canonical"));
                    true
                })
            },
            seeds: || examples::seeds($name),
            allocation_factor: JSON_ALLOCATION_FACTOR,
        }
    };
}

/// An entry for a format of notes and logs.
macro_rules! tlog {
    ($name:ident) => {
        Decoder {
            name: stringify!($name),
            decode: tlog::$name,
            seeds: || examples::seeds(stringify!($name)),
            allocation_factor: DECODE_ALLOCATION_FACTOR,
        }
    };
}

/// Every decoder.
pub const DECODERS: &[Decoder] = &[
    message!("batch_mode", BatchMode),
    message!("interval", Interval),
    message!("url", Url),
    message!("task_configuration", TaskConfiguration),
    message!("hpke_config", HpkeConfig),
    message!("hpke_config_list", HpkeConfigList),
    message!("hpke_ciphertext", HpkeCiphertext<'_>),
    Decoder {
        name: "extensions",
        decode: extensions,
        seeds: || examples::seeds("extensions"),
        allocation_factor: DECODE_ALLOCATION_FACTOR,
    },
    message!("report_error", ReportError),
    message!("report_metadata", ReportMetadata<'_>),
    message!("report", Report<'_>),
    Decoder {
        name: "upload_request",
        decode: upload_request,
        seeds: || examples::seeds("upload_request"),
        allocation_factor: DECODE_ALLOCATION_FACTOR,
    },
    message!("report_upload_status", ReportUploadStatus),
    message!("upload_errors", UploadErrors),
    message!("plaintext_input_share", PlaintextInputShare<'_>),
    message!("report_share", ReportShare<'_>),
    message!("verify_init", VerifyInit<'_>),
    message!("aggregation_job_init_req", AggregationJobInitReq<'_>),
    message!("verify_resp", VerifyResp<'_>),
    message!("aggregation_job_resp", AggregationJobResp<'_>),
    message!("verify_continue", VerifyContinue<'_>),
    message!("aggregation_job_continue_req", AggregationJobContinueReq<'_>),
    message!("query", Query),
    message!("collection_job_req", CollectionJobReq),
    message!("collection_job_resp", CollectionJobResp<'_>),
    message!("batch_selector", BatchSelector),
    message!("aggregate_share_req", AggregateShareReq),
    message!("aggregate_share", AggregateShare<'_>),
    text!("task_id_text", |text: &str| text.parse::<TaskId>().ok(), TaskId::to_string),
    text!("report_id_text", |text: &str| text.parse::<ReportId>().ok(), ReportId::to_string),
    text!("batch_id_text", |text: &str| text.parse::<BatchId>().ok(), BatchId::to_string),
    text!(
        "aggregation_job_id_text",
        |text: &str| text.parse::<AggregationJobId>().ok(),
        AggregationJobId::to_string
    ),
    text!(
        "collection_job_id_text",
        |text: &str| text.parse::<CollectionJobId>().ok(),
        CollectionJobId::to_string
    ),
    text!(
        "aggregate_share_id_text",
        |text: &str| text.parse::<AggregateShareId>().ok(),
        AggregateShareId::to_string
    ),
    text!("taskprov_header", |text: &str| taskprov::parse_header(text).ok(), |bytes: &Vec<u8>| {
        taskprov::header_value(bytes)
    }),
    text!("media_type", MediaType::parse, |media_type: &MediaType| media_type.as_str().to_owned()),
    text!("problem_type", ProblemType::from_urn, |problem: &ProblemType| problem.urn()),
    json!("recipe", Recipe),
    json!("key_set", KeySet),
    json!("population_result", PopulationResult),
    json!("receipt", Receipt),
    json!("token_key_request", TokenKeyRequest),
    Decoder {
        name: "entry",
        decode: entry,
        seeds: || examples::seeds("entry"),
        allocation_factor: JSON_ALLOCATION_FACTOR,
    },
    tlog!(note),
    tlog!(checkpoint),
    tlog!(tlog_proof),
    tlog!(add_checkpoint),
    tlog!(entry_bundle),
    tlog!(tile_path),
    Decoder {
        name: "bhttp_request",
        decode: ohttp::bhttp_request,
        seeds: || examples::seeds("bhttp_request"),
        // Also decodes what it encoded.
        allocation_factor: 2 * DECODE_ALLOCATION_FACTOR,
    },
    Decoder {
        name: "bhttp_response",
        decode: ohttp::bhttp_response,
        seeds: || examples::seeds("bhttp_response"),
        allocation_factor: 2 * DECODE_ALLOCATION_FACTOR,
    },
    Decoder {
        name: "ohttp_request",
        decode: ohttp::ohttp_request,
        seeds: || examples::seeds("ohttp_request"),
        allocation_factor: DECODE_ALLOCATION_FACTOR,
    },
    Decoder {
        name: "ohttp_keys",
        decode: ohttp::ohttp_keys,
        seeds: || examples::seeds("ohttp_keys"),
        allocation_factor: DECODE_ALLOCATION_FACTOR,
    },
    message!("token_challenge", TokenChallenge),
    message!("token", Token),
    message!("token_request", TokenRequest<'_>),
    Decoder {
        name: "inner_token_request",
        decode: inner_token_request,
        seeds: || examples::seeds("inner_token_request"),
        allocation_factor: DECODE_ALLOCATION_FACTOR,
    },
    message!("encapsulation_key", EncapsulationKey),
    message!("token_request_batch", TokenRequestBatch<'_>),
    Decoder {
        // A refusal takes 3 bytes and costs 64, but there are at most 256.
        allocation_factor: 2 * DECODE_ALLOCATION_FACTOR,
        ..message!("issuer_answer_batch", IssuerAnswerBatch)
    },
    message!("attestation_evidence", AttestationEvidence<'_>),
    text!("token_header", token::parse_byte_sequence, |bytes: &Vec<u8>| token::byte_sequence(
        bytes
    )),
    text!("tlog_policy", |text: &str| TlogPolicy::parse(text).ok(), TlogPolicy::to_string),
];

/// There is only one valid padding of the name.
fn inner_token_request(bytes: &[u8]) -> bool {
    let Ok(inner) = InnerTokenRequest::from_bytes(bytes) else { return false };
    assert!(inner.to_bytes() == bytes, "inner token request is not canonical");
    assert!(inner.encoded_len() == bytes.len(), "inner token request has another length");
    inner.origin_name().is_ok_and(|name| {
        let padded = InnerTokenRequest::pad_origin_name(&name);
        assert!(padded.as_ref() == Ok(&inner.padded_origin_name), "padding is not canonical");
        true
    })
}

fn entry(bytes: &[u8]) -> bool {
    let Ok(entry) = Entry::parse(bytes) else { return false };
    assert!(entry.to_bytes() == bytes, "entry is not canonical");
    assert!(Entry::text(entry.kind(), entry.json()) == entry.note().text(), "text is another");
    assert!(EntryId::of(entry.json().as_bytes()) == entry.id(), "id is another");
    true
}

/// The list itself decodes whatever it holds, so its elements are visited as well.
fn extensions(bytes: &[u8]) -> bool {
    let Ok(list) = Extensions::from_bytes(bytes) else { return false };
    assert!(list.to_bytes() == bytes, "extensions are not canonical");
    let mut rest = list.as_bytes();
    for extension in list.iter() {
        let Ok(extension) = extension else {
            assert!(list.check().is_err(), "check and iter disagree");
            return false;
        };
        let single = Extensions::new(&[extension]);
        let single = single.as_ref().map(Extensions::as_bytes).unwrap_or_default();
        assert!(!single.is_empty() && rest.starts_with(single), "extension is not canonical");
        rest = rest.strip_prefix(single).unwrap_or_default();
    }
    assert!(rest.is_empty() && list.check().is_ok(), "check and iter disagree");
    true
}

fn upload_request(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    for report in UploadRequest::new(bytes) {
        let Ok((report, raw)) = report else { return false };
        assert!(report.to_bytes() == raw, "report is not canonical");
        assert!(rest.starts_with(raw), "raw bytes are not those of the report");
        rest = rest.strip_prefix(raw).unwrap_or_default();
    }
    assert!(rest.is_empty(), "bytes were skipped");
    true
}
