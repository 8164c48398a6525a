//! Words as bits.
//!
//! The code is a prefix code of the bytes of a word and of its end, the same for everybody. Its
//! lengths are those of a Huffman code of the letters of English text, so that common letters take
//! few bits: a word of another language takes more rounds, and is found all the same. Every other
//! byte is a symbol of its own and eight bits. The code is complete: every string of bits is the beginning of
//! an encoded text.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The longest word, in bytes of UTF-8.
pub const MAX_WORD_LEN: usize = 32;

/// The most bits of a word.
pub const MAX_BITS: usize = MAX_WORD_LEN * 15 + END_LEN as usize;

/// What stands for the end of a word and for every byte that is no letter. Neither is a letter.
const END: u8 = 0;
const OTHER: u8 = 1;
const END_LEN: u8 = 3;

/// Symbols and the lengths of their codes, in the order of a canonical code.
const LENGTHS: [(u8, u8); 28] = [
    (END, END_LEN),
    (b'e', 3),
    (b'a', 4),
    (b'h', 4),
    (b'i', 4),
    (b'n', 4),
    (b'o', 4),
    (b'r', 4),
    (b's', 4),
    (b't', 4),
    (b'c', 5),
    (b'd', 5),
    (b'l', 5),
    (b'u', 5),
    (b'f', 6),
    (b'g', 6),
    (b'm', 6),
    (b'p', 6),
    (b'w', 6),
    (b'y', 6),
    (OTHER, 7),
    (b'b', 7),
    (b'v', 7),
    (b'k', 8),
    (b'j', 10),
    (b'q', 10),
    (b'x', 10),
    (b'z', 10),
];

/// A symbol, the length of its code, and the code.
type Code = (u8, u8, u16);

/// The codes: each is the one before plus one, with zeros behind where it is longer.
const CODES: [Code; 28] = {
    let mut codes = [(0, 0, 0); 28];
    let (mut next, mut before, mut place) = (0_u16, 0, 0);
    while place < LENGTHS.len() {
        let (symbol, length) = LENGTHS[place];
        next <<= length - before;
        codes[place] = (symbol, length, next);
        next += 1;
        before = length;
        place += 1;
    }
    codes
};

/// A string of bits, the beginning of encoded words. Its order is that of a dictionary, where a
/// prefix comes first.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bits(Vec<bool>);

/// What bits say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A word and its end.
    Word(String),
    /// The beginning of a word, and how many bits of the next letter are known.
    Beginning(String, usize),
    /// More bits after the end of a word, or a word that no device has.
    Nothing,
}

/// A word as devices compare it: in lower case, without spaces around it. `None` if nothing is left,
/// or more than [`MAX_WORD_LEN`] bytes.
pub fn normalised(word: &str) -> Option<String> {
    let word = word.trim().to_lowercase();
    (1..=MAX_WORD_LEN).contains(&word.len()).then_some(word)
}

impl Bits {
    /// A word, which must be [`normalised`].
    pub fn of(word: &str) -> Self {
        let mut bits = Self::default();
        for byte in word.bytes() {
            match CODES.iter().find(|(symbol, ..)| *symbol == byte && byte.is_ascii_lowercase()) {
                Some((_, length, code)) => bits.push(*code, *length),
                None => {
                    bits.push_symbol(OTHER);
                    bits.push(byte.into(), 8);
                }
            }
        }
        bits.push_symbol(END);
        bits
    }

    fn push_symbol(&mut self, symbol: u8) {
        let found = CODES.iter().find(|(one, ..)| *one == symbol);
        found.into_iter().for_each(|(_, length, code)| self.push(*code, *length));
    }

    fn push(&mut self, code: u16, length: u8) {
        self.0.extend((0..length).rev().map(|place| code >> place & 1 == 1));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the other one begins with these.
    pub fn is_prefix_of(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// These, and one more.
    pub fn then(&self, bit: bool) -> Self {
        let mut longer = self.clone();
        longer.0.push(bit);
        longer
    }

    /// What they say.
    pub fn read(&self) -> Reading {
        let (mut bytes, mut rest) = (Vec::new(), self.0.as_slice());
        loop {
            let Some((symbol, length)) = first(rest) else {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                return Reading::Beginning(text, rest.len());
            };
            let behind = rest.get(length..).unwrap_or_default();
            match symbol {
                END if behind.is_empty() => return word(bytes),
                END => return Reading::Nothing,
                OTHER if behind.len() < 8 => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    return Reading::Beginning(text, rest.len());
                }
                OTHER => {
                    let (byte, behind) = behind.split_at(8);
                    bytes.push(byte.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit)));
                    rest = behind;
                }
                letter => {
                    bytes.push(letter);
                    rest = behind;
                }
            }
        }
    }

    /// Packed into bytes, from the highest bit on, with zeros behind.
    pub fn to_bytes(&self) -> Vec<u8> {
        let byte = |eight: &[bool]| {
            let bits = eight.iter().enumerate();
            bits.fold(0, |byte, (place, bit)| byte | u8::from(*bit) << (7 - place))
        };
        self.0.chunks(8).map(byte).collect()
    }

    /// So many bits of packed ones; `None` if there are too few or others behind are not zero.
    pub fn from_bytes(bytes: &[u8], len: usize) -> Option<Self> {
        let all =
            bytes.iter().flat_map(|byte| (0..8).rev().map(move |place| byte >> place & 1 == 1));
        let bits = Self(all.take(len).collect());
        (bits.len() == len && bits.to_bytes() == bytes).then_some(bits)
    }
}

/// A word that devices can have.
fn word(bytes: Vec<u8>) -> Reading {
    match String::from_utf8(bytes) {
        Ok(word) if normalised(&word).as_ref() == Some(&word) => Reading::Word(word),
        _ => Reading::Nothing,
    }
}

/// The first symbol, and the length of its code.
fn first(bits: &[bool]) -> Option<(u8, usize)> {
    let matches = |(_, length, code): &&Code| {
        let bits = bits.get(..usize::from(*length));
        bits.is_some_and(|bits| bits.iter().fold(0, |all, bit| all << 1 | u16::from(*bit)) == *code)
    };
    CODES.iter().find(matches).map(|(symbol, length, _)| (*symbol, usize::from(*length)))
}

/// The letters that are known, and an ellipsis unless the word is whole.
impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.read() {
            Reading::Word(word) => write!(f, "{word}"),
            Reading::Beginning(text, 0) => write!(f, "{text}..."),
            Reading::Beginning(text, more) => write!(f, "{text}... (and {more} bits)"),
            Reading::Nothing => write!(f, "(no word)"),
        }
    }
}

impl From<Bits> for String {
    fn from(bits: Bits) -> Self {
        bits.0.iter().map(|bit| if *bit { '1' } else { '0' }).collect()
    }
}

impl TryFrom<String> for Bits {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bit = |letter| match letter {
            '0' => Ok(false),
            '1' => Ok(true),
            _ => Err("bits are 0 and 1"),
        };
        text.chars().map(bit).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_complete() {
        let sum: u32 = LENGTHS.iter().map(|(_, length)| 1 << (10 - length)).sum();
        assert_eq!(sum, 1 << 10);
        assert_eq!(CODES.last(), Some(&(b'z', 10, 0b11_1111_1111)));
    }

    #[test]
    fn words_come_back() {
        for word in ["a", "congratulations", "don't", "straße", "日本", "zz-9", "\u{1}\u{0}"] {
            let bits = Bits::of(word);
            assert_eq!(bits.read(), Reading::Word(word.to_owned()));
            assert_eq!(Bits::from_bytes(&bits.to_bytes(), bits.len()), Some(bits.clone()));
            assert_eq!(Bits::try_from(String::from(bits.clone())), Ok(bits));
        }
        assert!(Bits::of(&"\u{0}".repeat(MAX_WORD_LEN)).len() <= MAX_BITS);
    }

    #[test]
    fn the_longest_code_is_the_bound() {
        assert_eq!(Bits::of(&"é".repeat(MAX_WORD_LEN / 2)).len(), MAX_BITS);
    }

    #[test]
    fn beginnings_show_their_letters() {
        let bits = Bits::of("the");
        let mut beginning = Bits::default();
        for (place, bit) in bits.0.iter().enumerate() {
            assert!(beginning.is_prefix_of(&bits) && beginning < bits);
            assert!(matches!(beginning.read(), Reading::Beginning(..)), "{place}");
            beginning = beginning.then(*bit);
        }
        assert_eq!(beginning.read(), Reading::Word("the".to_owned()));
        assert_eq!(beginning.then(true).read(), Reading::Nothing);
        assert_eq!(Bits(bits.0[..8].to_vec()).to_string(), "th...");
        assert_eq!(Bits(bits.0[..9].to_vec()).to_string(), "th... (and 1 bits)");
    }

    #[test]
    fn words_that_no_device_has_are_none() {
        // An upper-case letter, bytes that are no text, and nothing.
        for bytes in [&b"A"[..], &[0xff], &[]] {
            let mut bits = Bits::default();
            for byte in bytes {
                bits.push_symbol(OTHER);
                bits.push((*byte).into(), 8);
            }
            bits.push_symbol(END);
            assert_eq!(bits.read(), Reading::Nothing);
        }
    }

    #[test]
    fn packed_bits_have_one_form() {
        assert_eq!(Bits::from_bytes(&[0b1010_0001], 4), None);
        assert_eq!(Bits::from_bytes(&[0b1010_0000, 0], 4), None);
        assert_eq!(Bits::from_bytes(&[0b1010_0000], 9), None);
        assert!(Bits::from_bytes(&[0b1010_0000], 4).is_some());
    }

    #[test]
    fn words_are_normalised() {
        assert_eq!(normalised("  Straße "), Some("straße".to_owned()));
        assert_eq!(normalised(" \n"), None);
        assert_eq!(normalised(&"a".repeat(MAX_WORD_LEN + 1)), None);
    }
}
