//! Valid recipes, key sets, results, receipts and entries of the log.

use sotto_wire::{Entry, EntryKind, Note, NoteSignature};

/// About numbers, vectors (in a round of a series) and buckets.
const RECIPES: [&str; 4] = [
    r#"{"aggregation":{"batch_mode":"leader_selected","min_batch":1,"vdaf":{"type":"Prio3Count"}},"attributes":{},"author":{"key":"BQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU","name":"a.example"},"name":"emoji-1","parties":{"collector_hpke_config":"AQAgAAEAAQAgAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI","helper":{"operator":"h.example","url":"http://h.example:8080/dap"},"leader":{"operator":"l.example","url":"https://l.example/"},"log":"log.example","tokens":{"kind":"insecure_none"}},"privacy":{"kind":"insecure_unbounded"},"purpose":"Which emoji people use.","query":{"fallback":false,"kind":"count","mapping":"true"},"randomizer":{"kind":"none"},"sampling":{"rate":[1,50]},"version":1,"when":{"closes":10800,"max_window_s":3600,"opens":7200,"window_s":3600},"who":{"population":1}}"#,
    r#"{"aggregation":{"batch_mode":"time_interval","min_batch":100,"vdaf":{"max_measurement":120,"type":"Prio3Sum"}},"attributes":{"age":"int","ok":"bool"},"author":{"key":"BQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU","name":"a.example"},"name":"emoji-1","parties":{"collector_hpke_config":"AQAgAAEAAQAgAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI","helper":{"operator":"h.example","url":"http://h.example:8080/dap"},"leader":{"operator":"l.example","url":"https://l.example/"},"log":"log.example","tokens":{"helper":{"endorsement":"CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICA","expires":10800,"issuer":"j.example","public_key":"CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI"},"kind":"rate_limited","leader":{"endorsement":"CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQ","expires":10800,"issuer":"i.example","public_key":"CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJ"}}},"privacy":{"kind":"insecure_unbounded"},"purpose":"Which emoji people use.","query":{"fallback":0,"kind":"sum","mapping":"age","max":120},"randomizer":{"kind":"none"},"sampling":{"rate":[1,50]},"version":1,"when":{"closes":10800,"max_window_s":3600,"opens":7200,"window_s":3600},"who":{"population":1000000,"targeting":{"certified":"5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a","predicate":"ok && age > 17"}}}"#,
    r#"{"aggregation":{"batch_mode":"leader_selected","min_batch":1,"vdaf":{"chunk_length":4,"chunk_length_norm_equality":4,"dimension":13,"norm_bound":32768,"type":"Pine64"}},"attributes":{"update":"vector(13)"},"author":{"key":"BQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU","name":"a.example"},"name":"emoji-1","parties":{"collector_hpke_config":"AQAgAAEAAQAgAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI","helper":{"operator":"h.example","url":"http://h.example:8080/dap"},"leader":{"operator":"l.example","url":"https://l.example/"},"log":"log.example","tokens":{"kind":"insecure_none"}},"privacy":{"kind":"insecure_unbounded"},"purpose":"Which emoji people use.","query":{"clip_micro":1000000,"dimension":13,"fraction_bits":15,"kind":"vector_sum","mapping":"update"},"randomizer":{"kind":"gaussian","sigma_micro":2000000},"sampling":{"rate":[1,50]},"series":{"participation":{"kind":"each_round"},"round":{"index":3,"model":"5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"},"rounds":30,"training":{"batch":32,"learning_rate_micro":500000,"model":{"classes":2,"features":2,"hidden":2,"kind":"mlp"},"models":"https://m.example/","steps":3,"vote_weight_micro":100000}},"version":1,"when":{"closes":10800,"max_window_s":3600,"opens":7200,"window_s":3600},"who":{"population":1}}"#,
    r#"{"aggregation":{"batch_mode":"time_interval","min_batch":10000,"vdaf":{"chunk_length":2,"length":3,"type":"Prio3Histogram"}},"attributes":{"emoji":"string"},"author":{"key":"BQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU","name":"a.example"},"name":"emoji-1","parties":{"collector_hpke_config":"AQAgAAEAAQAgAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI","helper":{"operator":"h.example","url":"http://h.example:8080/dap"},"leader":{"operator":"l.example","url":"https://l.example/"},"log":"log.example","tokens":{"kind":"insecure_none"}},"privacy":{"accountant":"best","adjacency":"replace","delta":[1,1000000000],"epsilon_micro":50000,"kind":"claim","rounds":1},"purpose":"Which emoji people use.","query":{"buckets":3,"fallback":2,"kind":"histogram","labels":["none","😀","other"],"mapping":"emoji == '' ? 0 :\nemoji in ['a', \"b\"] ? 1 : 2"},"randomizer":{"epsilon_micro":4000000,"kind":"randomized_response"},"sampling":{"rate":[1,50]},"version":1,"when":{"closes":10800,"max_window_s":3600,"opens":7200,"window_s":3600},"who":{"population":1000000}}"#,
];

/// With one key, with several and a URL, with gateway keys too and a receipt key, and with gateway
/// keys alone.
const KEY_SETS: [&str; 4] = [
    r#"{"hpke_configs":["AQAgAAEAAQAgAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI"],"not_after":86400,"not_before":0,"operator":{"key":"BQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU","name":"l.example"},"seq":1,"version":1}"#,
    r#"{"hpke_configs":["CQAgAAEAAQAgAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI","AQAgAAEAAQAgAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI","yAAgAAEAAQAgAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI"],"not_after":86400,"not_before":0,"operator":{"key":"BQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU","name":"l.example"},"seq":3,"url":"https://l.example/dap","version":1}"#,
    r#"{"gateway_configs":["CQAgAAEAAQAgAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI","AQAgAAEAAQAgAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI"],"hpke_configs":["AQAgAAEAAQAgAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI"],"not_after":86400,"not_before":0,"operator":{"key":"BQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU","name":"l.example"},"receipt_key":"BgYGBgYGBgYGBgYGBgYGBgYGBgYGBgYGBgYGBgYGBgY","seq":1,"version":1}"#,
    r#"{"gateway_configs":["AQAgAAEAAQAgAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI"],"hpke_configs":[],"not_after":86400,"not_before":0,"operator":{"key":"BQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU","name":"l.example"},"seq":2,"version":1}"#,
];

/// A certified population.
const RESULTS: [&str; 1] = [
    r#"{"attributes":{"age":"int","ok":"bool"},"helper":{"key":"BgYGBgYGBgYGBgYGBgYGBgYGBgYGBgYGBgYGBgYGBgY","name":"h.example"},"leader":{"key":"BQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU","name":"l.example"},"measured_at":1795132800,"population":5000,"predicate":"ok && age > 17","recipe":"5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a","version":1}"#,
];

/// Of a leader about an interval, and of a helper about a batch that the leader selected.
const RECEIPTS: [&str; 2] = [
    r#"{"count":4096,"end":10800,"operator":{"key":"BQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU","name":"l.example"},"recipe":"5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a","role":"leader","seq":1,"start":7200,"version":1}"#,
    r#"{"batch":"CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg","count":1,"end":10800,"operator":{"key":"BgYGBgYGBgYGBgYGBgYGBgYGBgYGBgYGBgYGBgYGBgY","name":"h.example"},"recipe":"5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a","role":"helper","seq":10000,"start":7200,"version":1}"#,
];

/// Requests for token keys, for the leader and for the helper.
const TOKEN_KEY_REQUESTS: [&str; 2] = [
    r#"{"author":{"key":"BQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU","name":"a.example"},"expires":10800,"helper":"h.example","leader":"l.example","nonce":"0123456789abcdefghijkl","role":"leader"}"#,
    r#"{"author":{"key":"BQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU","name":"a.example"},"expires":10800,"helper":"h.example","leader":"l.example","nonce":"ABCDEF-_GHIJKLMNOPQRST","role":"helper"}"#,
];

/// Valid encodings for the decoder `name`, if it is one of these formats.
pub(super) fn seeds(name: &str) -> Option<Vec<Vec<u8>>> {
    let texts = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    match name {
        "recipe" => Some(texts(&RECIPES)),
        "key_set" => Some(texts(&KEY_SETS)),
        "population_result" => Some(texts(&RESULTS)),
        "receipt" => Some(texts(&RECEIPTS)),
        "token_key_request" => Some(texts(&TOKEN_KEY_REQUESTS)),
        "entry" => Some(entries()),
        _ => None,
    }
}

fn entries() -> Vec<Vec<u8>> {
    let recipes = RECIPES.map(|json| (EntryKind::Recipe, json, 1));
    let key_sets = KEY_SETS.map(|json| (EntryKind::KeySet, json, 1));
    let results = RESULTS.map(|json| (EntryKind::Result, json, 2));
    let receipts = RECEIPTS.map(|json| (EntryKind::Receipt, json, 1));
    [&recipes[..], &key_sets, &results, &receipts]
        .concat()
        .into_iter()
        .filter_map(|(kind, json, signatures)| entry(kind, json, signatures))
        .collect()
}

fn entry(kind: EntryKind, json: &str, signatures: u8) -> Option<Vec<u8>> {
    let mut note = Note::new(Entry::text(kind, json)).ok()?;
    for index in 0..signatures {
        let name = ["l.example", "h.example"].get(usize::from(index))?.parse().ok()?;
        note = note.with_signature(NoteSignature {
            name,
            key_id: [index; 4],
            signature: vec![index; 64],
        });
    }
    Some(note.to_bytes())
}
