//! Size limits, each with its reason.
//!
//! The wire types themselves check the lengths that their encoding imposes (255, 2^16-1, 2^32-1
//! bytes). The limits here bound whole messages before they are decoded: code that reads a body
//! from the network stops at its limit.

/// Decoding a message of `n` bytes allocates at most `n` times this, plus
/// [`DECODE_ALLOCATION_BASE`].
///
/// Large messages are decoded into borrowed slices, which take at worst about three bytes per byte
/// of input. The worst case is a list of empty extensions, with 32 bytes for every 4.
pub const DECODE_ALLOCATION_FACTOR: usize = 16;

/// What decoding may allocate regardless of the length of the message.
pub const DECODE_ALLOCATION_BASE: usize = 4 * 1024;

/// The factor for canonical JSON, instead of [`DECODE_ALLOCATION_FACTOR`].
///
/// Groups with a `kind` are held as a tree until their kind is known: 128 bytes for the two of a
/// list in a list. Then everything is encoded again for comparison, with a buffer for each field.
/// All allocations together, over time, stay below 6 MiB, because no entry is longer than
/// [`MAX_ENTRY_LEN`].
pub const JSON_ALLOCATION_FACTOR: usize = 96;

/// The longest encoded task configuration.
///
/// The format allows about 320 KiB. The largest real ones are below 1 KiB, and the configuration is
/// also sent in an HTTP header, which servers limit to 16 KiB or less.
pub const MAX_TASK_CONFIGURATION_LEN: usize = 8 * 1024;

/// The longest `DAP-Taskprov` header value: [`MAX_TASK_CONFIGURATION_LEN`] in base64, with room for
/// parameters.
pub const MAX_TASKPROV_HEADER_LEN: usize = MAX_TASK_CONFIGURATION_LEN.div_ceil(3) * 4 + 256;

/// The longest HPKE configuration list: the most that its 16-bit length allows.
pub const MAX_HPKE_CONFIG_LIST_LEN: usize = 2 + 0xffff;

/// The longest report: a leader's share of a vector of 2^20 64-bit elements (8 MiB) fits with its
/// proof. One of a million elements, 8.05 MB, fits into a size class of 8 MiB.
pub const MAX_REPORT_LEN: usize = 8 * 1024 * 1024 + 512 * 1024;

/// The longest upload body: one report of the largest size, or thousands of small ones.
pub const MAX_UPLOAD_REQUEST_LEN: usize = MAX_REPORT_LEN;

/// The longest response to an upload: 17 bytes for each report that could fit into the largest
/// upload, where a report has at least 48 bytes.
pub const MAX_UPLOAD_ERRORS_LEN: usize = MAX_UPLOAD_REQUEST_LEN / 48 * 17;

/// The longest request or response of an aggregation job. The leader fills jobs up to this. It
/// bounds how much memory one request costs the helper.
pub const MAX_AGGREGATION_JOB_LEN: usize = 16 * 1024 * 1024;

/// The longest collection job request. The aggregation parameter of all Prio3 variants is empty.
pub const MAX_COLLECTION_JOB_REQ_LEN: usize = 64 * 1024;

/// The longest aggregate share request: a collection job request with a selector, count and
/// checksum.
pub const MAX_AGGREGATE_SHARE_REQ_LEN: usize = MAX_COLLECTION_JOB_REQ_LEN + 128;

/// The longest sealed aggregate share: as many elements as the largest report has.
pub const MAX_AGGREGATE_SHARE_LEN: usize = MAX_REPORT_LEN;

/// The longest collection job response: two aggregate shares.
pub const MAX_COLLECTION_JOB_RESP_LEN: usize = 2 * MAX_AGGREGATE_SHARE_LEN + 128;

/// The longest problem document that is read from a peer. It is only displayed and matched by type.
pub const MAX_PROBLEM_DOCUMENT_LEN: usize = 16 * 1024;

/// The longest name of a key that signs notes: the most that newer cosignatures can hold.
pub const MAX_KEY_NAME_LEN: usize = 255;

/// The most signatures on a note. The format asks for 16; each signature by a known key costs a
/// verification.
pub const MAX_NOTE_SIGNATURES: usize = 64;

/// The longest note: the largest log entry, with room for sixteen of the large post-quantum
/// signatures. A checkpoint with Ed25519 signatures is below 10 KiB.
pub const MAX_NOTE_LEN: usize = 128 * 1024;

/// The longest proof of an entry in a log: a note, the hashes and some extra data.
pub const MAX_TLOG_PROOF_LEN: usize = MAX_NOTE_LEN + 64 * 1024;

/// The longest request to a witness: a note and the hashes.
pub const MAX_ADD_CHECKPOINT_LEN: usize = MAX_NOTE_LEN + 4 * 1024;

/// The longest trust policy: the most logs, witnesses and groups that it may have, with comments.
pub const MAX_TLOG_POLICY_LEN: usize = 64 * 1024;

/// The longest entry of a log: the most that its length in a bundle can express.
pub const MAX_LOG_ENTRY_LEN: usize = 0xffff;

/// The longest bundle: 256 of the longest entries.
pub const MAX_ENTRY_BUNDLE_LEN: usize = 256 * (2 + MAX_LOG_ENTRY_LEN);

/// The longest entry of a log: entry bundles give each entry a 16-bit length.
pub const MAX_ENTRY_LEN: usize = 0xffff;

/// The longest canonical JSON in an entry. The rest of [`MAX_ENTRY_LEN`] is for the first line and
/// two signatures with the longest names.
pub const MAX_ENTRY_JSON_LEN: usize = MAX_ENTRY_LEN - 1024;

/// The largest integer in JSON: above it, parsers that store numbers as doubles disagree (RFC 8785,
/// RFC 7493).
pub const MAX_INTEGER: u64 = (1 << 53) - 1;

/// The longest name of a recipe, so that it fits on one line of a list.
pub const MAX_RECIPE_NAME_LEN: usize = 64;

/// The longest purpose, in characters: one sentence for a person to read.
pub const MAX_PURPOSE_CHARS: usize = 280;

/// The most attributes of a recipe. A person should be able to review them.
pub const MAX_ATTRIBUTES: usize = 64;

/// The longest name of an attribute.
pub const MAX_ATTRIBUTE_NAME_LEN: usize = 64;

/// The longest expression. It bounds the cost of compiling and evaluating it on a device.
pub const MAX_EXPRESSION_LEN: usize = 4_096;

/// The longest label of a bucket, so that it fits into a column of a table.
pub const MAX_LABEL_LEN: usize = 64;

/// The fewest buckets of a histogram. One bucket would measure nothing.
pub const MIN_BUCKETS: u64 = 2;

/// The most buckets of a histogram: the leader's share stays below 2 MiB.
pub const MAX_BUCKETS: u64 = 100_000;

/// The fewest coordinates of a vector. One is a number.
pub const MIN_DIMENSION: u64 = 2;

/// The most coordinates of a vector: a report of 8 MiB.
pub const MAX_DIMENSION: u64 = 1 << 20;

/// The most fraction bits of a coordinate: the norm of a vector is at most 2^26 units.
pub const MAX_FRACTION_BITS: u64 = 30;

/// The most quantiles that a query asks for: every percent, and one more.
pub const MAX_QUANTILES: u64 = 100;

/// The smallest sigma of an aggregator's noise, in millionths. Below it nearly every draw is 0.
pub const MIN_SIGMA_MICRO: u64 = 500_000;

/// The largest sigma of an aggregator's noise, in millionths.
pub const MAX_SIGMA_MICRO: u64 = 1_000_000_000_000_000;

/// The longest unit of time of a recipe: 31 days, a month.
pub const MAX_WINDOW_S: u64 = 31 * 86_400;

/// The most rounds of a series in which a device takes part once.
pub const MAX_ROUNDS: u64 = 10_000;

/// The most steps of gradient descent that a device makes in a round.
pub const MAX_TRAINING_STEPS: u64 = 1_000;

/// The shortest list of candidates: a file with the longest candidate and an empty deny list.
pub const MIN_LIST_LEN: u64 = 256;

/// The longest list of candidates: as long as the longest model.
pub const MAX_LIST_LEN: u64 = 4 * MAX_DIMENSION;

/// The most rounds of a series in each of which a device may take part: it requests a token for each
/// from each of two issuers.
pub const MAX_PARTICIPATIONS: u64 = 256;

/// The longest time from a recipe's opening to its close: a leap year. Devices remember a recipe at
/// least that long.
pub const MAX_RECIPE_LIFE_S: u64 = 366 * 86_400;

/// The longest URL of an aggregator: two of them leave room in [`MAX_TASK_CONFIGURATION_LEN`].
pub const MAX_ENDPOINT_LEN: usize = 2_048;

/// The most HPKE keys in a key set: the current one, the next one, and those that stored reports
/// still name.
pub const MAX_KEY_SET_CONFIGS: usize = 16;

/// The most receipts of one operator for one recipe: a release every hour of the longest life, and
/// some more. Every device reads the whole log, so nobody may fill it.
pub const MAX_RECEIPTS: u64 = 10_000;

/// The shortest SubjectPublicKeyInfo of a token key: a 2,048-bit RSA modulus alone takes 256 bytes.
pub const MIN_TOKEN_KEY_LEN: usize = 256;

/// The longest SubjectPublicKeyInfo of a token key. Those of RFC 9578 take 342 bytes.
pub const MAX_TOKEN_KEY_LEN: usize = 1_024;

/// The shortest nonce of a request for token keys: 16 random bytes in base64url.
pub const MIN_TOKEN_NONCE_LEN: usize = 22;

/// The longest nonce of a request for token keys.
pub const MAX_TOKEN_NONCE_LEN: usize = 64;

/// The most fields of a binary HTTP message, in all its sections together. A field takes three
/// bytes and costs 32 in memory; an HTTP server accepts about a hundred.
pub const MAX_BHTTP_FIELDS: usize = 128;

/// The most informational responses before a binary HTTP response. In practice there are two.
pub const MAX_BHTTP_INFORMATIONAL: usize = 16;

/// The most suites of one key of an oblivious gateway: the most that their 16-bit length can
/// express.
pub const MAX_OHTTP_SUITES: usize = 0xffff / 4;

/// The longest header of a token request: a device's evidence is a chain of certificates.
pub const MAX_TOKEN_HEADER_LEN: usize = 16 * 1024;

/// The most token requests in one message from an attester to an issuer. It bounds the cost of one
/// response: each request takes an RSA private-key operation.
pub const MAX_TOKEN_BATCH: usize = 256;

/// The longest token request that is read. A request that names a token key takes 1,591 bytes, or
/// 503 if it is sealed with X25519 alone.
pub const MAX_TOKEN_REQUEST_LEN: usize = 2048;

/// The longest batch of token requests, each with its length.
pub const MAX_TOKEN_REQUEST_BATCH_LEN: usize = MAX_TOKEN_BATCH * (2 + MAX_TOKEN_REQUEST_LEN);
