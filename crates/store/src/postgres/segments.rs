//! Bodies of segments: the reports of one commit.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use deadpool_postgres::Client;
use tokio_postgres::Row;

use super::connect::Failure;
use super::pipeline::{Pipeline, params};
use super::seal::{BodyKey, open_body};
use super::{Inner, Verdict, lock};

/// How many tables of bodies there are.
pub(super) const PLACES: usize = 4;

/// After how many segments the next table is used.
const PLACE_SEGMENTS: i64 = 256;

/// How long a part of a body is at most: its row fills a page of 8 KiB.
pub(super) const PART_BYTES: usize = 8_112;

/// The table that a segment's body goes to.
pub(super) fn place_of(segment: i64) -> usize {
    (segment / PLACE_SEGMENTS).rem_euclid(PLACES as i64) as usize
}

/// One statement for each table of bodies.
macro_rules! in_each_place {
    ($before:literal, $after:literal) => {
        [
            concat!($before, "bodies_0", $after),
            concat!($before, "bodies_1", $after),
            concat!($before, "bodies_2", $after),
            concat!($before, "bodies_3", $after),
        ]
    };
}
pub(super) use in_each_place;

const READ: [&str; PLACES] =
    in_each_place!("SELECT segment, body FROM ", " WHERE segment = ANY($1) ORDER BY segment, part");

/// A record of a body.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// The number of its task.
    pub(super) task: i64,
    pub(super) report: Bytes,
}

/// The records of a segment.
pub(super) type Body = Arc<Vec<Record>>;

/// How long a record is in a body.
pub(super) fn encoded_len(report: &[u8]) -> usize {
    8 + 4 + report.len()
}

pub(super) fn encode(records: &[Record], extra: usize) -> Vec<u8> {
    let length: usize = records.iter().map(|record| encoded_len(&record.report)).sum();
    let mut body = Vec::with_capacity(length + extra);
    for record in records {
        body.extend_from_slice(&record.task.to_le_bytes());
        body.extend_from_slice(&(record.report.len() as u32).to_le_bytes());
        body.extend_from_slice(&record.report);
    }
    body
}

fn decode(segment: i64, body: &Bytes) -> Verdict<Vec<Record>> {
    let damaged = || Failure::broken(format!("the body of segment {segment} is damaged"));
    let (mut records, mut at) = (Vec::new(), 0);
    while let Some(rest) = body.get(at..).filter(|rest| !rest.is_empty()) {
        let (task, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
        let (length, _) = rest.split_first_chunk().ok_or_else(damaged)?;
        let (start, length) = (at + 12, u32::from_le_bytes(*length) as usize);
        if body.len() < start + length {
            return Err(damaged());
        }
        let report = body.slice(start..start + length);
        records.push(Record { task: i64::from_le_bytes(*task), report });
        at = start + length;
    }
    Ok(records)
}

/// Where a body is, and the key that opens it.
#[derive(Clone, Debug)]
pub(super) struct Sealed {
    pub(super) segment: i64,
    place: i16,
    key: Vec<u8>,
}

impl Sealed {
    /// From the columns `segment`, `place` and `key`.
    pub(super) fn of(row: &Row) -> Verdict<Self> {
        Ok(Self {
            segment: row.try_get("segment")?,
            place: row.try_get("place")?,
            key: row.try_get("key")?,
        })
    }
}

impl Inner {
    /// Finds bodies by the numbers of their segments. One that is gone is left out.
    pub(super) async fn bodies(
        &self,
        client: &Client,
        segments: &HashSet<i64>,
    ) -> Verdict<HashMap<i64, Body>> {
        let mut found = lock(&self.cache).all(segments);
        let missing: Vec<i64> =
            segments.iter().filter(|number| !found.contains_key(number)).copied().collect();
        if !missing.is_empty() {
            let mut pipeline = Pipeline::new(client);
            let sql = "SELECT segment, place, key FROM segments WHERE segment = ANY($1)";
            let sealed = pipeline.add(sql, params![missing]).await?;
            let answers = pipeline.run().await?;
            let sealed: Vec<Sealed> =
                answers.of(sealed).iter().map(Sealed::of).collect::<Verdict<_>>()?;
            found.extend(self.read(client, &sealed).await?);
        }
        Ok(found)
    }

    /// Reads bodies that may be in memory. One that is gone is left out.
    pub(super) async fn read(
        &self,
        client: &Client,
        sealed: &[Sealed],
    ) -> Verdict<HashMap<i64, Body>> {
        let numbers: HashSet<i64> = sealed.iter().map(|sealed| sealed.segment).collect();
        let mut found = lock(&self.cache).all(&numbers);
        let missing: Vec<&Sealed> =
            sealed.iter().filter(|sealed| !found.contains_key(&sealed.segment)).collect();
        let mut pipeline = Pipeline::new(client);
        let mut sent = Vec::new();
        for (place, sql) in READ.iter().enumerate() {
            let here = missing.iter().filter(|sealed| usize::try_from(sealed.place) == Ok(place));
            let here: Vec<i64> = here.map(|sealed| sealed.segment).collect();
            if !here.is_empty() {
                sent.push(pipeline.add(sql, params![here]).await?);
            }
        }
        if sent.is_empty() {
            return Ok(found);
        }
        let answers = pipeline.run().await?;
        let mut bodies: HashMap<i64, Vec<u8>> = HashMap::new();
        for row in sent.iter().flat_map(|sent| answers.of(*sent)) {
            bodies.entry(row.try_get(0)?).or_default().extend_from_slice(row.try_get(1)?);
        }
        for sealed in missing {
            let Some(mut body) = bodies.remove(&sealed.segment) else { continue };
            let key = self.open(&sealed.segment.to_be_bytes(), &sealed.key)?;
            let key: [u8; 16] = super::values::array(&key)?;
            open_body(&BodyKey::new(key), sealed.segment, &mut body)?;
            let body: Body = Arc::new(decode(sealed.segment, &body.into())?);
            lock(&self.cache).put(sealed.segment, &body);
            found.insert(sealed.segment, body);
        }
        Ok(found)
    }
}

/// Bodies that this process wrote or read lately. The oldest go first.
pub(super) struct Cache {
    bodies: HashMap<i64, Body>,
    order: VecDeque<i64>,
    bytes: usize,
    max_bytes: usize,
}

impl Cache {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { bodies: HashMap::new(), order: VecDeque::new(), bytes: 0, max_bytes }
    }

    fn all(&self, segments: &HashSet<i64>) -> HashMap<i64, Body> {
        let found =
            segments.iter().filter_map(|segment| Some((*segment, self.bodies.get(segment)?)));
        found.map(|(segment, body)| (segment, Arc::clone(body))).collect()
    }

    pub(super) fn put(&mut self, segment: i64, body: &Body) {
        if self.bodies.insert(segment, Arc::clone(body)).is_none() {
            self.order.push_back(segment);
            self.bytes += length(body);
        }
        while self.bytes > self.max_bytes
            && let Some(oldest) = self.order.front().copied()
        {
            self.remove(oldest);
        }
    }

    /// Forgets a segment that is dead.
    pub(super) fn remove(&mut self, segment: i64) {
        if let Some(body) = self.bodies.remove(&segment) {
            self.bytes -= length(&body);
            self.order.retain(|other| *other != segment);
        }
    }
}

fn length(body: &Body) -> usize {
    body.iter().map(|record| encoded_len(&record.report)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(task: i64, report: &[u8]) -> Record {
        Record { task, report: Bytes::copy_from_slice(report) }
    }

    #[test]
    fn records_come_back_and_damage_is_seen() {
        let records = [record(7, b"abc"), record(-1, b""), record(i64::MAX, &[9; 300])];
        let body = Bytes::from(encode(&records, 16));
        let decoded = decode(1, &body).unwrap();
        assert_eq!(format!("{decoded:?}"), format!("{records:?}"));
        assert!(
            (1..body.len())
                .filter(|end| ![15, 27].contains(end))
                .all(|end| { decode(1, &body.slice(..end)).is_err() })
        );
    }

    #[test]
    fn the_oldest_bodies_leave_the_cache() {
        let mut cache = Cache::new(300);
        for segment in 0..5 {
            cache.put(segment, &Arc::new(vec![record(1, &[0; 88])]));
        }
        let kept = |cache: &Cache| {
            let mut kept: Vec<i64> = cache.all(&(0..5).collect()).into_keys().collect();
            kept.sort_unstable();
            kept
        };
        assert_eq!((kept(&cache), cache.bytes), (vec![2, 3, 4], 300));
        cache.remove(3);
        cache.put(9, &Arc::new(vec![record(1, &[0; 500])]));
        assert_eq!((kept(&cache), cache.bytes), (vec![], 0));
    }

    #[test]
    fn the_tables_of_bodies_take_turns() {
        let places: Vec<usize> = (0..5).map(|turn| place_of(turn * PLACE_SEGMENTS + 3)).collect();
        assert_eq!(places, [0, 1, 2, 3, 0]);
    }
}
