//! A value that must not leak.
//!
//! [`Secret`] zeroizes on drop, prints as `[redacted]`, compares in constant time, and can be
//! neither cloned nor serialised. It cannot wipe the copies that a move leaves on the stack:
//! construct it where it will stay, and pass it by reference.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// A secret value of type `T`. See the module documentation.
///
/// ```
/// use sotto_crypto::Secret;
///
/// let token = Secret::new(String::from("correct horse"));
/// assert_eq!(format!("{token:?}"), "Secret([redacted])");
/// assert!(token.ct_eq(b"correct horse"));
/// assert_eq!(token.expose(), "correct horse");
/// ```
pub struct Secret<T: Zeroize>(T);

impl<T: Zeroize> Secret<T> {
    /// Takes ownership of `value`.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself. It can leak wherever this is called; the caller must wipe any copies.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Zeroize + AsRef<[u8]>> Secret<T> {
    /// Whether `other` holds the same bytes, in time that depends only on its length.
    pub fn ct_eq(&self, other: &[u8]) -> bool {
        self.0.as_ref().ct_eq(other).into()
    }
}

/// Equality in constant time, except for the length.
impl<T: Zeroize + AsRef<[u8]>> PartialEq for Secret<T> {
    fn eq(&self, other: &Self) -> bool {
        self.ct_eq(other.0.as_ref())
    }
}

impl<T: Zeroize + AsRef<[u8]>> Eq for Secret<T> {}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret([redacted])")
    }
}

impl<T: Zeroize> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn debug_shows_nothing() {
        let secret = Secret::new([0x41u8; 32]);
        assert_eq!(format!("{secret:?}"), "Secret([redacted])");
        assert_eq!(format!("{:#?}", Some(&secret)).matches("65").count(), 0);
    }

    #[test]
    fn equality_is_by_content() {
        let secret = Secret::new(vec![1u8, 2, 3]);
        assert!(secret.ct_eq(&[1, 2, 3]));
        assert!(!secret.ct_eq(&[1, 2, 4]));
        assert!(!secret.ct_eq(&[1, 2]));
        assert!(!secret.ct_eq(&[]));
        assert_eq!(secret, Secret::new(vec![1, 2, 3]));
        assert_ne!(secret, Secret::new(vec![1, 2, 3, 0]));
    }

    #[test]
    fn drop_zeroizes() {
        static WIPED: AtomicBool = AtomicBool::new(false);
        struct Probe;
        impl Zeroize for Probe {
            fn zeroize(&mut self) {
                WIPED.store(true, Ordering::SeqCst);
            }
        }
        drop(Secret::new(Probe));
        assert!(WIPED.load(Ordering::SeqCst));
    }
}
