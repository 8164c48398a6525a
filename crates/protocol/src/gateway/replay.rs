//! Which requests a gateway has seen (RFC 9458 §6.5.1).

use std::collections::BTreeMap;
use std::fmt;

use sotto_wire::bhttp::Request;

use super::{InnerRefusal, Opened};
use crate::http_date::{DATE_STEP_S, parse_imf_fixdate};
use crate::keyed_hash::{HashKey, HashedSet, keyed_hash};
use crate::{MAX_CLOCK_SKEW_S, Moment};

/// The requests of a window of time, so that none is served twice.
///
/// A request is identified by its encapsulated key, which HPKE binds to every other byte: if one is
/// changed, the request no longer opens. Its `date` is one of those bytes, so a replay has the date
/// of the original and is only searched for among the requests of the same ten minutes. These are
/// forgotten together, once every date in them is too old to be admitted. Only requests that opened
/// are remembered, so garbage takes no space. Still, anyone who seals requests to the gateway can
/// fill the window. [`InnerRefusal::Full`] says so, after the date and the remembered requests have
/// been checked, and the host decides whether its targets tolerate replays in the meantime.
///
/// A restart forgets everything. During the first window after a restart, a repeated request
/// reaches its target again; for a DAP upload that is the same report id again.
pub struct ReplayWindow {
    window_s: u64,
    max: usize,
    key: HashKey,
    /// Keyed hashes of encapsulated keys, by the number of the date's ten minutes.
    slots: BTreeMap<u64, HashedSet>,
    count: usize,
    /// Slots below this were forgotten. If the clock went backwards, their requests would count as
    /// new.
    first_slot: u64,
}

impl ReplayWindow {
    /// How old a date may be, by default.
    pub const DEFAULT_WINDOW_S: u64 = 1_800;
    /// The smallest window: it must cover the rounding, a slow clock and the longest wait at a
    /// relay.
    pub const MIN_WINDOW_S: u64 = 1_200;
    /// How many requests are remembered, by default: at most about 80 MB.
    pub const DEFAULT_MAX: usize = 4_000_000;

    /// An empty window. `window_s` is raised to [`Self::MIN_WINDOW_S`]. At most `max` requests are
    /// remembered, hashed under `hash_key` so that the hashes are unpredictable.
    pub fn new(window_s: u64, max: usize, hash_key: [u8; 16]) -> Self {
        Self {
            window_s: window_s.max(Self::MIN_WINDOW_S),
            max,
            key: HashKey::new(hash_key),
            slots: BTreeMap::new(),
            count: 0,
            first_slot: 0,
        }
    }

    /// Remembers a request, if its `date` is in the window and it is new. `request` is what
    /// [`Opened::decode`] gave.
    pub fn admit(
        &mut self,
        opened: &Opened,
        request: &Request<'_>,
        now: Moment,
    ) -> Result<(), InnerRefusal> {
        let date = request.field("date").and_then(parse_imf_fixdate).ok_or(InnerRefusal::Date)?;
        self.remember(&opened.enc, date, now)
    }

    /// How many requests are remembered.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether no request is remembered.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn remember(&mut self, enc: &[u8], date: Moment, now: Moment) -> Result<(), InnerRefusal> {
        self.forget(now);
        let slot = date.0 / DATE_STEP_S;
        let early = date.0 > now.0.saturating_add(MAX_CLOCK_SKEW_S);
        let late = date.0.saturating_add(self.window_s) < now.0;
        if early || late || slot < self.first_slot {
            return Err(InnerRefusal::Date);
        }
        let hash = keyed_hash(&self.key, enc);
        let seen = self.slots.get(&slot).is_some_and(|slot| slot.contains(&hash));
        if seen {
            return Err(InnerRefusal::Replayed);
        }
        if self.count >= self.max {
            return Err(InnerRefusal::Full);
        }
        self.slots.entry(slot).or_default().insert(hash);
        self.count += 1;
        Ok(())
    }

    /// Drops the slots in which every date is too old.
    fn forget(&mut self, now: Moment) {
        while let Some(oldest) = self.slots.first_entry() {
            let slot = *oldest.key();
            let last_date = (slot + 1) * DATE_STEP_S - 1;
            if last_date.saturating_add(self.window_s) >= now.0 {
                return;
            }
            self.count -= oldest.remove().len();
            self.first_slot = slot + 1;
        }
    }
}

/// Shows neither the key nor a hash.
impl fmt::Debug for ReplayWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayWindow")
            .field("window_s", &self.window_s)
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is remembered of one request under this key.
    fn remembered(hash_key: [u8; 16]) -> Vec<u64> {
        let mut window = ReplayWindow::new(1_800, 10, hash_key);
        window.remember(&[7; 32], Moment(6_000), Moment(6_000)).unwrap();
        window.slots.values().flatten().copied().collect()
    }

    /// A copy of the memory does not reveal which requests were seen, and nobody can craft two that
    /// collide.
    #[test]
    fn requests_are_remembered_as_keyed_hashes() {
        assert_eq!(remembered([1; 16]), remembered([1; 16]));
        assert_ne!(remembered([1; 16]), remembered([2; 16]));
        assert_ne!(remembered([1; 16]), [u64::from_be_bytes([7; 8])]);
    }

    #[test]
    fn one_second_more_and_a_slot_is_gone() {
        let mut window = ReplayWindow::new(1_800, 10, [1; 16]);
        window.remember(&[7; 32], Moment(6_000), Moment(6_000)).unwrap();
        window.forget(Moment(6_599 + 1_800));
        assert_eq!(window.slots.len(), 1);
        window.forget(Moment(6_599 + 1_801));
        assert!(window.slots.is_empty() && window.is_empty());
    }
}
