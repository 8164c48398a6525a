//! Tiles and entry bundles: the tree and its entries as static files (C2SP tlog-tiles).

use crate::format::FormatError;
use crate::tlog::parse_decimal;

/// How many hashes a full tile holds, and how many entries a full bundle holds.
pub const TILE_WIDTH: u16 = 256;

/// The highest level of tiles in a tree of fewer than 2^64 leaves.
pub const MAX_TILE_LEVEL: u8 = 7;

/// The path of a tile of hashes: `tile/<level>/<index>`, with `.p/<width>` if it is partial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TilePath {
    level: u8,
    index: u64,
    width: u16,
}

impl TilePath {
    /// The tile `index` of `level` with `width` hashes. `None` unless a tree of fewer than 2^64
    /// leaves can have it: the level is at most [`MAX_TILE_LEVEL`] and the width 1 to
    /// [`TILE_WIDTH`].
    pub fn new(level: u8, index: u64, width: u16) -> Option<Self> {
        let leaves_log = 8 * (u32::from(level) + 1);
        let exists =
            level <= MAX_TILE_LEVEL && index <= u64::MAX.checked_shr(leaves_log).unwrap_or(0);
        (exists && is_width(width)).then_some(Self { level, index, width })
    }

    /// The level: a hash in it covers 256^level leaves.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// The index of the tile in its level.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// How many hashes it holds.
    pub fn width(&self) -> u16 {
        self.width
    }

    /// Whether it holds fewer than [`TILE_WIDTH`] hashes.
    pub fn is_partial(&self) -> bool {
        self.width < TILE_WIDTH
    }

    /// The path below the log's prefix, such as `tile/0/x001/067.p/12`.
    pub fn to_path(&self) -> String {
        format!("tile/{}/{}", self.level, index_and_width(self.index, self.width))
    }

    /// Parses such a path. Only the form that [`to_path`](Self::to_path) gives is accepted.
    pub fn parse(path: &str) -> Result<Self, FormatError> {
        let error = || FormatError::new("not the path of a tile");
        let rest = path.strip_prefix("tile/").ok_or_else(error)?;
        let (level, rest) = rest.split_once('/').ok_or_else(error)?;
        let level = u8::try_from(parse_decimal(level)?).map_err(|_| error())?;
        let (index, width) = parse_index_and_width(rest)?;
        Self::new(level, index, width).ok_or_else(error)
    }
}

/// The path of a bundle of entries: `tile/entries/<index>`, with `.p/<width>` if it is partial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundlePath {
    index: u64,
    width: u16,
}

impl BundlePath {
    /// The bundle `index` with `width` entries. `None` unless a tree of fewer than 2^64 leaves can
    /// have it and the width is 1 to [`TILE_WIDTH`].
    pub fn new(index: u64, width: u16) -> Option<Self> {
        (index <= u64::MAX >> 8 && is_width(width)).then_some(Self { index, width })
    }

    /// The index of the bundle: its first entry has 256 times this index.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// How many entries it holds.
    pub fn width(&self) -> u16 {
        self.width
    }

    /// The path below the log's prefix, such as `tile/entries/x001/067.p/12`.
    pub fn to_path(&self) -> String {
        format!("tile/entries/{}", index_and_width(self.index, self.width))
    }

    /// Parses such a path. Only the form that [`to_path`](Self::to_path) gives is accepted.
    pub fn parse(path: &str) -> Result<Self, FormatError> {
        let error = || FormatError::new("not the path of an entry bundle");
        let rest = path.strip_prefix("tile/entries/").ok_or_else(error)?;
        let (index, width) = parse_index_and_width(rest)?;
        Self::new(index, width).ok_or_else(error)
    }
}

/// The path of an index: groups of three digits, all but the last prefixed with `x`. 1234067 is
/// `x001/x234/067`. Other static files of a log are named in the same way.
pub fn index_path(index: u64) -> String {
    let mut path = format!("{:03}", index % 1000);
    let mut rest = index / 1000;
    while rest > 0 {
        path = format!("x{:03}/{path}", rest % 1000);
        rest /= 1000;
    }
    path
}

/// Parses the path of an index. Only the form that [`index_path`] gives is accepted.
pub fn parse_index_path(path: &str) -> Result<u64, FormatError> {
    let error = || FormatError::new("not an index in groups of three digits");
    let mut index = 0u64;
    let mut groups = path.split('/').peekable();
    while let Some(group) = groups.next() {
        let is_last = groups.peek().is_none();
        let digits = if is_last { Some(group) } else { group.strip_prefix('x') };
        let digits = digits.filter(|text| text.len() == 3).ok_or_else(error)?;
        let number = digits.bytes().try_fold(0, |number, byte| {
            byte.is_ascii_digit().then(|| 10 * number + u64::from(byte - b'0'))
        });
        let number = number.ok_or_else(error)?;
        // A leading group of zeroes would give one index two paths.
        if index == 0 && number == 0 && !is_last {
            return Err(error());
        }
        index = index.checked_mul(1000).and_then(|n| n.checked_add(number)).ok_or_else(error)?;
    }
    Ok(index)
}

/// A bundle of entries, each preceded by its length in two bytes.
#[derive(Clone, Copy, Debug)]
pub struct EntryBundle;

impl EntryBundle {
    /// Splits a bundle into its entries: 1 to [`TILE_WIDTH`] of them, none truncated.
    pub fn parse(bytes: &[u8]) -> Result<Vec<&[u8]>, FormatError> {
        let mut entries = Vec::new();
        let mut rest = bytes;
        while let Some((len, after)) = rest.split_first_chunk::<2>() {
            if entries.len() == usize::from(TILE_WIDTH) {
                return Err(FormatError::new("there are too many entries"));
            }
            let (entry, after) = after
                .split_at_checked(usize::from(u16::from_be_bytes(*len)))
                .ok_or(FormatError::new("the last entry is cut off"))?;
            entries.push(entry);
            rest = after;
        }
        match rest.is_empty() && !entries.is_empty() {
            true => Ok(entries),
            false => Err(FormatError::new("the bundle is empty or cut off")),
        }
    }

    /// Joins entries into a bundle. Fails if one is longer than 65,535 bytes, or if there are none
    /// or more than [`TILE_WIDTH`].
    pub fn encode<E: AsRef<[u8]>>(entries: &[E]) -> Result<Vec<u8>, FormatError> {
        if entries.is_empty() || entries.len() > usize::from(TILE_WIDTH) {
            return Err(FormatError::new("a bundle has 1 to 256 entries"));
        }
        let total = entries.iter().map(|entry| 2 + entry.as_ref().len()).sum();
        let mut out = Vec::with_capacity(total);
        for entry in entries {
            let len = u16::try_from(entry.as_ref().len())
                .map_err(|_| FormatError::new("an entry is longer than 65,535 bytes"))?;
            out.extend_from_slice(&len.to_be_bytes());
            out.extend_from_slice(entry.as_ref());
        }
        Ok(out)
    }
}

fn is_width(width: u16) -> bool {
    (1..=TILE_WIDTH).contains(&width)
}

fn index_and_width(index: u64, width: u16) -> String {
    match width < TILE_WIDTH {
        true => format!("{}.p/{width}", index_path(index)),
        false => index_path(index),
    }
}

fn parse_index_and_width(rest: &str) -> Result<(u64, u16), FormatError> {
    let Some((index, width)) = rest.split_once(".p/") else {
        return Ok((parse_index_path(rest)?, TILE_WIDTH));
    };
    let width = parse_decimal(width)?;
    match u16::try_from(width) {
        // A full tile has no suffix.
        Ok(width) if (1..TILE_WIDTH).contains(&width) => Ok((parse_index_path(index)?, width)),
        _ => Err(FormatError::new("the width of a partial tile is not 1 to 255")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices() {
        for (index, path) in [
            (0, "000"),
            (67, "067"),
            (999, "999"),
            (1000, "x001/000"),
            (1_234_067, "x001/x234/067"),
            (1_000_000_000, "x001/x000/x000/000"),
            (u64::MAX, "x018/x446/x744/x073/x709/x551/615"),
        ] {
            assert_eq!(index_path(index), path);
            assert_eq!(parse_index_path(path), Ok(index));
        }
        for path in [
            "",
            "0",
            "67",
            "0067",
            "x067",
            "x001",
            "001/067",
            "x000/067",
            "x000/x001/067",
            "x001/x234/67",
            "x001//067",
            "/067",
            "067/",
            "x1/067",
            "X001/067",
            "+67",
            "0 7",
            "-01",
            "x018/x446/x744/x073/x709/x551/616",
            "x001/x000/x000/x000/x000/x000/x000/000",
        ] {
            assert!(parse_index_path(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn tiles() {
        for (level, index, width, path) in [
            (0, 0, 256, "tile/0/000"),
            (0, 1067, 12, "tile/0/x001/067.p/12"),
            (1, 1_234_067, 255, "tile/1/x001/x234/067.p/255"),
            (7, 0, 1, "tile/7/000.p/1"),
            (0, u64::MAX >> 8, 256, "tile/0/x072/x057/x594/x037/x927/935"),
        ] {
            let tile = TilePath::new(level, index, width).unwrap();
            assert_eq!((tile.level(), tile.index(), tile.width()), (level, index, width));
            assert_eq!(tile.is_partial(), path.contains(".p/"));
            assert_eq!(tile.to_path(), path);
            assert_eq!(TilePath::parse(path), Ok(tile));
        }
        for path in [
            "",
            "tile",
            "tile/0",
            "tile/0/",
            "/tile/0/000",
            "tile/00/000",
            "tile/8/000",
            "tile/63/000",
            "tile/7/001",
            "tile/0/000.p/0",
            "tile/0/000.p/256",
            "tile/0/000.p/01",
            "tile/0/000.p/",
            "tile/0/000.p",
            "tile/0/000.p/1/",
            "tile/0/000.p/1.p/1",
            "tile/0/0",
            "tile/-1/000",
            "tile/entries/000",
            "tile/0/../000",
            "tile/0/x072/x057/x594/x037/x927/936",
        ] {
            assert!(TilePath::parse(path).is_err(), "{path:?}");
        }
        assert!(TilePath::new(0, 0, 0).is_none() && TilePath::new(0, 0, 257).is_none());
        assert!(TilePath::new(8, 0, 1).is_none() && TilePath::new(255, 0, 1).is_none());
    }

    #[test]
    fn bundle_paths() {
        for (index, width, path) in
            [(0, 256, "tile/entries/000"), (1067, 12, "tile/entries/x001/067.p/12")]
        {
            let bundle = BundlePath::new(index, width).unwrap();
            assert_eq!((bundle.index(), bundle.width()), (index, width));
            assert_eq!(bundle.to_path(), path);
            assert_eq!(BundlePath::parse(path), Ok(bundle));
        }
        for path in ["tile/0/000", "tile/entries/", "tile/entries/0", "tile/entries/000.p/256"] {
            assert!(BundlePath::parse(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn bundles() {
        let entries = [&b"one"[..], b"", &[7; 65_535]];
        let bytes = EntryBundle::encode(&entries).unwrap();
        assert_eq!(bytes[..7], [0, 3, b'o', b'n', b'e', 0, 0]);
        assert_eq!(EntryBundle::parse(&bytes).unwrap(), entries);

        for cut in [0, 1, 2, 4, 6, 8, 100, bytes.len() - 1] {
            assert!(EntryBundle::parse(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(EntryBundle::encode(&[vec![0; 65_536]]).is_err());
        assert!(EntryBundle::encode::<&[u8]>(&[]).is_err());
        assert!(EntryBundle::parse(&EntryBundle::encode(&[[1]; 256]).unwrap()).is_ok());
        assert!(EntryBundle::encode(&[[1]; 257]).is_err());
        assert!(EntryBundle::parse(&[0, 1, 1].repeat(257)).is_err());
    }
}
