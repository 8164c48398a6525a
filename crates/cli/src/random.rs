//! The operating system's randomness, for the layers below that take an rng as an argument.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use getrandom::SysRng;
use rand_core::{Rng, UnwrapErr};
use zeroize::Zeroizing;

/// The operating system's generator.
///
/// It panics if the system has no randomness: there is no sensible way to continue, and the kernels
/// we run on do not fail once they have booted.
pub(crate) fn system() -> UnwrapErr<SysRng> {
    UnwrapErr(SysRng)
}

/// Fresh random bytes.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    system().fill_bytes(&mut bytes);
    bytes
}

/// `N` fresh random bytes as text, in base64url without padding.
pub(crate) fn text<const N: usize>() -> Zeroizing<String> {
    let bytes: Zeroizing<[u8; N]> = Zeroizing::new(bytes());
    Zeroizing::new(URL_SAFE_NO_PAD.encode(*bytes))
}
