//! The sizes that a request to an oblivious gateway, and the response to it, may have.
//!
//! A relay sees the length of the bodies that it forwards. With few sizes, the same for everyone,
//! it learns little from them: one recipe shares its size with others, and a rejection looks like a
//! success. The class depends only on the length, never on the recipe, because its author would
//! choose one that nobody else uses.

/// One of the sizes: 4, 8 and 16 KiB, then each four times the one before, up to 64 MiB, and 8 MiB.
///
/// 8 KiB is the size of most reports: what would take up to 4 KiB with X25519 alone takes 3,264
/// bytes more with three encapsulated keys of X-Wing. 8 MiB is the size of the longest reports: a
/// vector of a million elements takes 8.05 MB, which a device should not have to send twice over.
///
/// ```
/// use sotto_wire::size_class::SizeClass;
///
/// let class = SizeClass::holding(9_000).unwrap();
/// assert_eq!(class.bytes(), 16 * 1024);
/// assert_eq!(SizeClass::of_exact(16 * 1024), Some(class));
/// assert_eq!(SizeClass::of_exact(9_000), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeClass(u8);

/// The sizes in KiB. A rejection, a response to an upload, a request for a file of a log and most of
/// these files fit into the smallest.
const KIB: [usize; 10] = [4, 8, 16, 64, 256, 1024, 4096, 8192, 16_384, 65_536];

impl SizeClass {
    /// How many sizes there are.
    pub const COUNT: u8 = KIB.len() as u8;

    /// The largest size of a request, 16 MiB: the largest upload fits. Responses may be larger,
    /// because a bundle of the longest log entries is.
    pub const MAX_REQUEST: Self = Self(8);

    /// The largest size of a response.
    pub const MAX_RESPONSE: Self = Self(Self::COUNT - 1);

    /// The smallest size that holds `len` bytes.
    pub fn holding(len: usize) -> Option<Self> {
        Self::all().find(|class| class.bytes() >= len)
    }

    /// The size of exactly `len` bytes.
    pub fn of_exact(len: usize) -> Option<Self> {
        Self::all().find(|class| class.bytes() == len)
    }

    /// The size in bytes.
    pub fn bytes(self) -> usize {
        KIB[usize::from(self.0)] * 1024
    }

    /// The index of the size; the smallest is 0.
    pub fn index(self) -> u8 {
        self.0
    }

    fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{MAX_ENTRY_BUNDLE_LEN, MAX_UPLOAD_REQUEST_LEN};

    #[test]
    fn the_sizes() {
        let sizes: Vec<_> = SizeClass::all().map(SizeClass::bytes).collect();
        let kib = [4, 8, 16, 64, 256, 1024, 4096, 8192, 16_384, 65_536];
        assert_eq!(sizes, kib.map(|size| size * 1024));
        assert_eq!(SizeClass::MAX_REQUEST.bytes(), 16 * 1024 * 1024);
    }

    #[test]
    fn the_smallest_that_fits() {
        assert_eq!(SizeClass::holding(0), Some(SizeClass(0)));
        for class in SizeClass::all() {
            assert_eq!(SizeClass::holding(class.bytes()), Some(class));
            assert_eq!(SizeClass::of_exact(class.bytes()), Some(class));
            assert_eq!(SizeClass::of_exact(class.bytes() - 1), None);
            let next = (class.index() + 1 < SizeClass::COUNT).then(|| SizeClass(class.0 + 1));
            assert_eq!(SizeClass::holding(class.bytes() + 1), next);
        }
        assert_eq!(SizeClass::holding(usize::MAX), None);
    }

    #[test]
    fn what_travels_fits() {
        let head = 4 * 1024;
        // The leader's share of a vector of a million elements, its proof, and the helper's share.
        let longest = 8_044_384 + 96 + head;
        assert_eq!(SizeClass::holding(longest + head).map(SizeClass::bytes), Some(8 << 20));
        assert!(SizeClass::MAX_REQUEST.bytes() >= MAX_UPLOAD_REQUEST_LEN + head);
        assert!(SizeClass::holding(MAX_ENTRY_BUNDLE_LEN + head).is_some());
    }
}
