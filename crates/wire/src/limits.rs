//! Size limits, each with its reason.
//!
//! The lengths that the types of the wire format itself impose (255, 2^16-1, 2^32-1 bytes) are checked by
//! those types. The limits here bound whole messages, before they are decoded: whoever reads a body from the
//! network stops at its limit.

/// Decoding a message of `n` bytes allocates at most `n` times this, plus [`DECODE_ALLOCATION_BASE`].
///
/// Large messages are decoded into borrowed slices, about three bytes of them per byte of input at worst; a
/// list of empty extensions is the worst case, with 32 bytes for each 4.
pub const DECODE_ALLOCATION_FACTOR: usize = 16;

/// What decoding may allocate whatever the length of the message.
pub const DECODE_ALLOCATION_BASE: usize = 4 * 1024;

/// The longest encoded task configuration.
///
/// The format allows about 320 KiB. The largest real ones are below 1 KiB, and the configuration also travels
/// in an HTTP header, which servers cap at 16 KiB or less.
pub const MAX_TASK_CONFIGURATION_LEN: usize = 8 * 1024;

/// The longest `DAP-Taskprov` header value: [`MAX_TASK_CONFIGURATION_LEN`] in base64, with room for
/// parameters.
pub const MAX_TASKPROV_HEADER_LEN: usize = MAX_TASK_CONFIGURATION_LEN.div_ceil(3) * 4 + 256;

/// The longest HPKE configuration list: what its 16-bit length allows.
pub const MAX_HPKE_CONFIG_LIST_LEN: usize = 2 + 0xffff;

/// The longest report: a leader's share of 2^18 encoded elements of 128 bits (4 MiB) fits with its proof.
pub const MAX_REPORT_LEN: usize = 8 * 1024 * 1024;

/// The longest upload body: one largest report, or thousands of small ones.
pub const MAX_UPLOAD_REQUEST_LEN: usize = MAX_REPORT_LEN;

/// The longest answer to an upload: 17 bytes for each report that could fit into the largest upload, which has
/// at least 48 bytes per report.
pub const MAX_UPLOAD_ERRORS_LEN: usize = MAX_UPLOAD_REQUEST_LEN / 48 * 17;

/// The longest request or answer of an aggregation job. The leader fills jobs up to this; it bounds what one
/// request costs the helper in memory.
pub const MAX_AGGREGATION_JOB_LEN: usize = 16 * 1024 * 1024;

/// The longest collection job request. The aggregation parameter of all Prio3 variants is empty.
pub const MAX_COLLECTION_JOB_REQ_LEN: usize = 64 * 1024;

/// The longest aggregate share request: a collection job request with a selector, count and checksum.
pub const MAX_AGGREGATE_SHARE_REQ_LEN: usize = MAX_COLLECTION_JOB_REQ_LEN + 128;

/// The longest sealed aggregate share: as many elements as the largest report has.
pub const MAX_AGGREGATE_SHARE_LEN: usize = MAX_REPORT_LEN;

/// The longest collection job answer: two aggregate shares.
pub const MAX_COLLECTION_JOB_RESP_LEN: usize = 2 * MAX_AGGREGATE_SHARE_LEN + 128;

/// The longest problem document that is read from a peer. It is only shown and matched by type.
pub const MAX_PROBLEM_DOCUMENT_LEN: usize = 16 * 1024;
