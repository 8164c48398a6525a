//! The format of a segment.
//!
//! ```text
//! segment = header frame*
//! header  = "sottoseg" version:u32 number:u64 store id:16 crc:u32
//! frame   = length:u32 crc:u32 payload          (crc over length and payload)
//! payload = 0 hpke config id:u8 task id:32 report         a report
//!         | 1 store id:16 offset:u64                      a mark
//!         | 2 hpke config ids:32                          the seal, last in the segment
//! ```
//! Integers are little-endian. A **mark** precedes each group of reports written at once, so its
//! presence proves that everything before it was synced. A bad frame with a mark after it is
//! damage; one without is the torn tail of a write that was never acknowledged. The store id keeps
//! out segments of another store and, because clients do not know it, forged marks. The **seal**
//! says that the segment is complete and which HPKE keys its reports name, so that opening a store
//! reads only the ends of its segments.

use sotto_wire::{HpkeConfigId, TaskId};

/// Binds segments to one database. Random, chosen when the store is created.
pub(super) type StoreId = [u8; 16];

pub(super) const HEADER_LEN: usize = 40;
const MAGIC: &[u8; 8] = b"sottoseg";
const VERSION: u32 = 1;

/// The length and CRC before each payload.
pub(super) const FRAME_HEAD_LEN: usize = 8;
const KIND_REPORT: u8 = 0;
const KIND_MARK: u8 = 1;
const KIND_SEAL: u8 = 2;
const REPORT_HEAD_LEN: usize = 1 + 1 + TaskId::LEN;
pub(super) const MARK_LEN: usize = FRAME_HEAD_LEN + 1 + 16 + 8;
pub(super) const SEAL_LEN: usize = FRAME_HEAD_LEN + 1 + 32;

/// The longest report that is stored; far above what the upload route accepts.
pub(super) const MAX_REPORT_LEN: usize = 64 << 20;
const MAX_PAYLOAD_LEN: usize = REPORT_HEAD_LEN + MAX_REPORT_LEN;

/// The contents of one frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    Report { hpke_config_id: HpkeConfigId, task_id: TaskId, report: &'a [u8] },
    Mark { store_id: StoreId, offset: u64 },
    Seal { configs: ConfigSet },
}

/// What some bytes begin with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed<'a> {
    /// A complete frame, and its length in bytes.
    Frame(Frame<'a>, usize),
    /// The beginning of a frame of this length, or (if shorter than a frame's head) of any frame.
    Short(usize),
    /// Not a frame.
    Bad,
}

/// The bytes that a report takes in a segment.
pub(super) fn report_frame_len(report: &[u8]) -> usize {
    FRAME_HEAD_LEN + REPORT_HEAD_LEN + report.len()
}

pub(super) fn put_report(
    out: &mut Vec<u8>,
    hpke_config_id: HpkeConfigId,
    task_id: &TaskId,
    report: &[u8],
) {
    put_frame(out, |out| {
        out.push(KIND_REPORT);
        out.push(hpke_config_id.value());
        out.extend_from_slice(task_id.as_bytes());
        out.extend_from_slice(report);
    });
}

pub(super) fn mark(store_id: &StoreId, offset: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(MARK_LEN);
    put_frame(&mut out, |out| {
        out.extend_from_slice(&mark_prefix(store_id));
        out.extend_from_slice(&offset.to_le_bytes());
    });
    out
}

pub(super) fn seal(configs: &ConfigSet) -> Vec<u8> {
    let mut out = Vec::with_capacity(SEAL_LEN);
    put_frame(&mut out, |out| {
        out.push(KIND_SEAL);
        for word in configs.0 {
            out.extend_from_slice(&word.to_le_bytes());
        }
    });
    out
}

pub(super) fn header(store_id: &StoreId, number: u32) -> [u8; HEADER_LEN] {
    let mut out = [0; HEADER_LEN];
    out[..8].copy_from_slice(MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    out[12..20].copy_from_slice(&u64::from(number).to_le_bytes());
    out[20..36].copy_from_slice(store_id);
    let crc = crc32fast::hash(&out[..36]);
    out[36..].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Why bytes are not the expected header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderFault {
    /// Not a complete header.
    Torn,
    /// A header, but not of this segment of this store.
    Foreign(&'static str),
}

/// Whether these bytes begin with the header of this segment of this store.
pub(super) fn check_header(
    bytes: &[u8],
    store_id: &StoreId,
    number: u32,
) -> Result<(), HeaderFault> {
    let Some(bytes) = bytes.first_chunk::<HEADER_LEN>() else { return Err(HeaderFault::Torn) };
    if *bytes == header(store_id, number) {
        return Ok(());
    }
    let crc = crc32fast::hash(&bytes[..36]).to_le_bytes();
    if !bytes.starts_with(MAGIC) || bytes[36..] != crc {
        Err(HeaderFault::Torn)
    } else if bytes[8..12] != VERSION.to_le_bytes() {
        Err(HeaderFault::Foreign("was written by another version of this program"))
    } else {
        Err(HeaderFault::Foreign("belongs to another store or was renamed"))
    }
}

/// The length of the frame that begins with these bytes, as its head says; `None` if they are
/// shorter than a head or cannot be one.
pub(super) fn frame_len(bytes: &[u8]) -> Option<usize> {
    let payload_len = usize::try_from(u32::from_le_bytes(*bytes.first_chunk()?)).ok()?;
    let is_head = bytes.len() >= FRAME_HEAD_LEN && (1..=MAX_PAYLOAD_LEN).contains(&payload_len);
    is_head.then_some(FRAME_HEAD_LEN + payload_len)
}

pub(super) fn parse(bytes: &[u8]) -> Parsed<'_> {
    let Some((head, _)) = bytes.split_first_chunk::<FRAME_HEAD_LEN>() else {
        return Parsed::Short(FRAME_HEAD_LEN);
    };
    let [l0, l1, l2, l3, c0, c1, c2, c3] = *head;
    let Some(frame_len) = frame_len(bytes) else { return Parsed::Bad };
    let Some(payload) = bytes.get(FRAME_HEAD_LEN..frame_len) else {
        return Parsed::Short(frame_len);
    };
    let length = u32::from_le_bytes([l0, l1, l2, l3]);
    if crc(length, payload) != u32::from_le_bytes([c0, c1, c2, c3]) {
        return Parsed::Bad;
    }
    match parse_payload(payload) {
        Some(frame) => Parsed::Frame(frame, frame_len),
        None => Parsed::Bad,
    }
}

/// Whether `bytes`, which begin at `offset` of a segment, hold a valid mark of this store.
pub(super) fn holds_mark(bytes: &[u8], offset: u64, store_id: &StoreId) -> bool {
    let prefix = mark_prefix(store_id);
    let mut from = 0;
    while let Some(at) = find(bytes.get(from..).unwrap_or_default(), &prefix) {
        let at = from + at;
        if let Some(start) = at.checked_sub(FRAME_HEAD_LEN)
            && let Parsed::Frame(Frame::Mark { offset: said, .. }, _) = parse(&bytes[start..])
            && said == offset + start as u64
        {
            return true;
        }
        from = at + 1;
    }
    false
}

/// A set of HPKE config ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ConfigSet([u64; 4]);

impl ConfigSet {
    pub(super) fn insert(&mut self, id: HpkeConfigId) {
        self.0[usize::from(id.value() >> 6)] |= 1 << (id.value() & 63);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word |= other;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = HpkeConfigId> + '_ {
        (0..=u8::MAX)
            .filter(|id| self.0[usize::from(id >> 6)] & (1 << (id & 63)) != 0)
            .map(HpkeConfigId::new)
    }
}

fn mark_prefix(store_id: &StoreId) -> [u8; 17] {
    let mut prefix = [KIND_MARK; 17];
    prefix[1..].copy_from_slice(store_id);
    prefix
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn put_frame(out: &mut Vec<u8>, payload: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_HEAD_LEN]);
    payload(out);
    let body = start + FRAME_HEAD_LEN;
    // Reports are bounded by MAX_REPORT_LEN before they get here.
    let length = u32::try_from(out.len() - body).unwrap_or(u32::MAX);
    let crc = crc(length, &out[body..]);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 4..body].copy_from_slice(&crc.to_le_bytes());
}

fn crc(length: u32, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

fn parse_payload(payload: &[u8]) -> Option<Frame<'_>> {
    let (kind, rest) = payload.split_first()?;
    match *kind {
        KIND_REPORT => {
            let (hpke_config_id, rest) = rest.split_first()?;
            let (task_id, report) = rest.split_first_chunk()?;
            Some(Frame::Report {
                hpke_config_id: HpkeConfigId::new(*hpke_config_id),
                task_id: TaskId::new(*task_id),
                report,
            })
        }
        KIND_MARK => {
            let (store_id, rest) = rest.split_first_chunk()?;
            let offset = u64::from_le_bytes(rest.try_into().ok()?);
            Some(Frame::Mark { store_id: *store_id, offset })
        }
        KIND_SEAL => {
            let bytes: &[u8; 32] = rest.try_into().ok()?;
            let mut configs = ConfigSet::default();
            for (word, bytes) in configs.0.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *word = u64::from_le_bytes(*bytes);
            }
            Some(Frame::Seal { configs })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = [7; 16];

    fn report_frame() -> Vec<u8> {
        let mut bytes = Vec::new();
        put_report(&mut bytes, HpkeConfigId::new(200), &TaskId::new([3; 32]), b"report");
        bytes
    }

    #[test]
    fn frames_come_back() {
        let bytes = report_frame();
        assert_eq!(bytes.len(), report_frame_len(b"report"));
        let frame = Frame::Report {
            hpke_config_id: HpkeConfigId::new(200),
            task_id: TaskId::new([3; 32]),
            report: b"report",
        };
        assert_eq!(parse(&bytes), Parsed::Frame(frame, bytes.len()));

        let bytes = mark(&STORE, 99);
        assert_eq!(bytes.len(), MARK_LEN);
        assert_eq!(
            parse(&bytes),
            Parsed::Frame(Frame::Mark { store_id: STORE, offset: 99 }, MARK_LEN)
        );

        let mut configs = ConfigSet::default();
        for id in [0, 63, 64, 255] {
            configs.insert(HpkeConfigId::new(id));
        }
        let bytes = seal(&configs);
        assert_eq!(parse(&bytes), Parsed::Frame(Frame::Seal { configs }, SEAL_LEN));
        assert_eq!(configs.iter().map(HpkeConfigId::value).collect::<Vec<_>>(), [0, 63, 64, 255]);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let good = report_frame();
        for cut in 0..good.len() {
            assert!(matches!(parse(&good[..cut]), Parsed::Short(_)), "cut at {cut}");
        }
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(parse(&bad), Parsed::Frame(..)), "bit {bit}");
        }
        assert_eq!(parse(&[0; 64]), Parsed::Bad);
    }

    #[test]
    fn a_mark_counts_only_in_its_place_and_store() {
        let mut bytes = b"garbage".to_vec();
        bytes.extend(mark(&STORE, 1007));
        bytes.extend(b"more");
        assert!(holds_mark(&bytes, 1000, &STORE));
        assert!(!holds_mark(&bytes, 1001, &STORE));
        assert!(!holds_mark(&bytes, 1000, &[8; 16]));
        assert!(!holds_mark(&bytes[..20], 1000, &STORE));
        assert!(!holds_mark(b"", 0, &STORE));
    }

    #[test]
    fn headers_name_store_and_segment() {
        let good = header(&STORE, 5);
        assert_eq!(check_header(&good, &STORE, 5), Ok(()));
        for (store_id, number) in [(&STORE, 6), (&[0; 16], 5)] {
            let fault = check_header(&good, store_id, number);
            assert!(matches!(fault, Err(HeaderFault::Foreign(why)) if why.contains("renamed")));
        }
        assert_eq!(check_header(&good[..39], &STORE, 5), Err(HeaderFault::Torn));
        let mut bad = good;
        bad[9] ^= 1;
        assert_eq!(check_header(&bad, &STORE, 5), Err(HeaderFault::Torn));
    }
}
