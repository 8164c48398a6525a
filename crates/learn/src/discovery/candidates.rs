//! The list that a round is about: what devices count themselves under, and what they leave out.

use rand_core::CryptoRng;
use sotto_dp::uniform::uniform_below;

use super::code::{Bits, MAX_BITS, MAX_WORD_LEN, normalised};
use crate::Error;

/// How a file begins.
const MAGIC: &[u8] = b"sotto-candidates/v1\n";

/// What a file must be.
const FORMAT: &str = "a list of candidates";

/// Candidates, none of which is a prefix of another, and denied words, both in order.
///
/// Bucket 0 counts the devices under no candidate, and bucket `i` those under candidate `i - 1`. So
/// a device with a denied word, with another word or with none answers like the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidates {
    prefixes: Vec<Bits>,
    denied: Vec<String>,
}

impl Candidates {
    /// A list for so many buckets. The order is made here; words are normalised.
    pub fn new(
        mut prefixes: Vec<Bits>,
        denied: impl IntoIterator<Item = String>,
        buckets: u32,
    ) -> Result<Self, Error> {
        prefixes.sort_unstable();
        let mut denied: Vec<String> =
            denied.into_iter().filter_map(|word| normalised(&word)).collect();
        denied.sort_unstable();
        denied.dedup();
        Self { prefixes, denied }.checked(buckets)
    }

    fn checked(self, buckets: u32) -> Result<Self, Error> {
        let refused = |reason| Err(Error::Malformed { format: FORMAT, reason });
        if self.prefixes.is_empty() {
            return refused("it has no candidate");
        }
        if self.prefixes.len() >= buckets as usize {
            return refused("it has more candidates than there are buckets for");
        }
        if self.prefixes.iter().any(|prefix| prefix.len() > MAX_BITS) {
            return refused("a candidate is longer than any word");
        }
        // In order, a prefix of a later one is one of its successor too.
        let apart = |pair: &[Bits]| pair[0] < pair[1] && !pair[0].is_prefix_of(&pair[1]);
        if !self.prefixes.windows(2).all(apart) {
            return refused("the candidates are not in order, or one is the prefix of another");
        }
        if !self.denied.windows(2).all(|pair| pair[0] < pair[1]) {
            return refused("the denied words are not in order, each once");
        }
        if self.denied.iter().any(|word| normalised(word).as_ref() != Some(word)) {
            return refused("a denied word is not in lower case, too long, or empty");
        }
        Ok(self)
    }

    /// The candidates.
    pub fn prefixes(&self) -> &[Bits] {
        &self.prefixes
    }

    /// The denied words.
    pub fn denied(&self) -> &[String] {
        &self.denied
    }

    /// Under which bucket a device with these words counts itself. If several words are not denied,
    /// it picks one at random.
    pub fn bucket<'w>(
        &self,
        words: impl IntoIterator<Item = &'w str>,
        rng: &mut dyn CryptoRng,
    ) -> u32 {
        let mut words: Vec<String> = words.into_iter().filter_map(normalised).collect();
        words.sort_unstable();
        words.dedup();
        words.retain(|word| self.denied.binary_search(word).is_err());
        let picked = match words.len() {
            0 | 1 => 0,
            several => uniform_below(several as u64, rng),
        };
        let word = usize::try_from(picked).ok().and_then(|picked| words.get(picked));
        word.map_or(0, |word| self.bucket_of(&Bits::of(word)))
    }

    /// The bucket of an encoded word.
    pub fn bucket_of(&self, word: &Bits) -> u32 {
        let after = self.prefixes.partition_point(|prefix| prefix <= word);
        let last = after.checked_sub(1).and_then(|place| self.prefixes.get(place));
        let holds = last.is_some_and(|prefix| prefix.is_prefix_of(word));
        // There are fewer candidates than buckets.
        if holds { u32::try_from(after).unwrap_or(0) } else { 0 }
    }

    /// As a file of so many bytes, with zeros at its end.
    pub fn to_bytes(&self, len: usize) -> Result<Vec<u8>, Error> {
        let mut file = MAGIC.to_vec();
        let count = |count: usize| (count as u32).to_be_bytes();
        file.extend(count(self.prefixes.len()));
        for prefix in &self.prefixes {
            file.extend((prefix.len() as u16).to_be_bytes());
            file.extend(prefix.to_bytes());
        }
        file.extend(count(self.denied.len()));
        for word in &self.denied {
            file.push(word.len() as u8);
            file.extend(word.as_bytes());
        }
        if file.len() > len {
            let (found, expected) = (file.len(), len);
            return Err(Error::Length { name: "bytes of a list of candidates", found, expected });
        }
        file.resize(len, 0);
        Ok(file)
    }

    /// From a file, for so many buckets.
    pub fn from_bytes(file: &[u8], buckets: u32) -> Result<Self, Error> {
        let reason = "it ends too early, or has too many candidates";
        let list = Reader(file).list(buckets).ok_or(Error::Malformed { format: FORMAT, reason })?;
        list.checked(buckets)
    }
}

/// The rest of a file.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn count(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    /// Everything; nothing is reserved for what a count only says, and what cannot be right is not
    /// kept: in memory a short one takes far more than in the file.
    fn list(mut self, buckets: u32) -> Option<Candidates> {
        if self.take(MAGIC.len())? != MAGIC {
            return None;
        }
        let (mut prefixes, mut denied) = (Vec::new(), Vec::new());
        let candidates = self.count().filter(|count| *count < buckets)?;
        for _ in 0..candidates {
            let len = usize::from(u16::from_be_bytes(self.take(2)?.try_into().ok()?));
            prefixes.push(Bits::from_bytes(self.take(len.div_ceil(8))?, len)?);
        }
        for _ in 0..self.count()? {
            let len = usize::from(*self.take(1)?.first().filter(|len| **len > 0)?);
            let word = self.take(len.min(MAX_WORD_LEN + 1))?;
            denied.push(String::from_utf8(word.to_vec()).ok()?);
        }
        let is_padding = self.0.iter().all(|byte| *byte == 0);
        is_padding.then_some(Candidates { prefixes, denied })
    }
}

#[cfg(test)]
mod tests {
    use super::super::code::Reading;
    use super::*;
    use crate::coins::Coins;

    fn bits(text: &str) -> Bits {
        Bits::try_from(text.to_owned()).expect("bits")
    }

    fn list(prefixes: &[&str], denied: &[&str]) -> Result<Candidates, Error> {
        let prefixes = prefixes.iter().map(|text| bits(text)).collect();
        Candidates::new(prefixes, denied.iter().map(|word| (*word).to_owned()), 5)
    }

    #[test]
    fn a_device_counts_itself_under_the_prefix_of_its_word() {
        let the = Bits::of("the");
        let mut rng = Coins::from_number(1).initial();
        let candidates = Candidates::new(vec![bits("0"), bits("1011"), the.clone()], [], 5);
        assert!(candidates.is_err(), "1011 is a prefix of the");
        let candidates = Candidates::new(vec![bits("0"), bits("11"), the], [], 5).expect("a list");
        fn bucket(list: &Candidates, words: &[&str], rng: &mut dyn CryptoRng) -> u32 {
            list.bucket(words.iter().copied(), rng)
        }
        assert_eq!(bucket(&candidates, &["the"], &mut rng), 2);
        assert_eq!(bucket(&candidates, &[" THE "], &mut rng), 2);
        assert_eq!(bucket(&candidates, &["then"], &mut rng), 0);
        assert_eq!(bucket(&candidates, &["and"], &mut rng), 1);
        assert_eq!(bucket(&candidates, &["zoo"], &mut rng), 3);
        assert_eq!(bucket(&candidates, &[], &mut rng), 0);
        assert_eq!(bucket(&candidates, &["", &"x".repeat(99)], &mut rng), 0);
    }

    #[test]
    fn one_of_several_words_is_picked_and_no_denied_one() {
        let candidates = list(&["0", "1"], &["And", "the"]).expect("a list");
        assert_eq!(candidates.denied(), ["and", "the"]);
        let mut rng = Coins::from_number(1).initial();
        assert_eq!(candidates.bucket(["and"], &mut rng), 0);
        assert_eq!(candidates.bucket(["and", "zoo"], &mut rng), 2);
        let mut seen = [0_u32; 3];
        for _ in 0..3_000 {
            seen[candidates.bucket(["axe", "zoo", "zoo"], &mut rng) as usize] += 1;
        }
        // Six standard deviations of a fair coin: a false alarm once in 5e8 seeds.
        assert!(seen[0] == 0 && seen[1].abs_diff(1_500) < 165, "{seen:?}");
    }

    #[test]
    fn files_come_back() {
        let candidates = list(&["11", "0", "101", "100"], &["b", "a", "a"]).expect("a list");
        let file = candidates.to_bytes(64).expect("it fits");
        assert_eq!(file.len(), 64);
        assert_eq!(Candidates::from_bytes(&file, 5), Ok(candidates.clone()));
        assert!(Candidates::from_bytes(&file, 4).is_err(), "too many candidates");
        assert!(candidates.to_bytes(40).is_err());
        assert!(matches!(candidates.prefixes()[0].read(), Reading::Beginning(..)));
    }

    #[test]
    fn other_files_are_refused() {
        for wrong in
            [&[][..], &["0", "0"], &["1", "10"], &["", "1"], &["0", "100", "101", "110", "111"]]
        {
            assert!(list(wrong, &[]).is_err(), "{wrong:?}");
        }
        let file = list(&["0", "1"], &["a", "b"]).expect("a list").to_bytes(48).expect("it fits");
        for place in 0..36 {
            let mut other = file.clone();
            other[place] ^= 0x80;
            assert!(Candidates::from_bytes(&other, 5).is_err(), "byte {place}");
        }
        for len in 0..38 {
            assert!(Candidates::from_bytes(&file[..len], 5).is_err(), "{len} bytes");
        }
        let mut padded = file;
        padded[47] = 1;
        assert!(Candidates::from_bytes(&padded, 5).is_err());
    }
}
