//! The calls into AWS-LC. Every pointer is owned by a type that frees it.

use std::ffi::c_int;
use std::ptr::{self, NonNull};

use aws_lc_sys as sys;

use crate::MODULUS_LEN;

/// An owned reference to an `RSA` object that holds a checked private key of [`MODULUS_LEN`] bytes.
///
/// Invariants: the pointer is valid until drop, `RSA_size` is [`MODULUS_LEN`], and no function that
/// mutates the object is called after construction.
pub(crate) struct Rsa(NonNull<sys::RSA>);

// SAFETY: the object is not tied to a thread: its reference count is atomic, and the cache of
// blinding factors is protected by its own lock.
unsafe impl Send for Rsa {}

// SAFETY: `openssl/rsa.h` says that an RSA object may be used concurrently by non-mutating
// functions, and that the functions for signing and verification, including `RSA_sign_raw` and
// `RSA_verify_raw`, are non-mutating in this sense although they take a non-const pointer. The
// other functions used after construction take a const pointer, which makes them non-mutating by
// the same text.
unsafe impl Sync for Rsa {}

/// An owned reference to an `EVP_PKEY`.
struct Pkey(NonNull<sys::EVP_PKEY>);

impl Rsa {
    /// Parses PKCS#8. AWS-LC checks that the parts of the key are consistent (`RSA_check_key`).
    pub(crate) fn from_pkcs8(der: &[u8]) -> Option<Self> {
        let mut cbs = sys::CBS { data: ptr::null(), len: 0 };
        // SAFETY: `cbs` is a live local, and `der` is readable for its length and outlives the
        // parsing.
        unsafe { sys::CBS_init(&mut cbs, der.as_ptr(), der.len()) };
        // SAFETY: `cbs` was initialized over `der`, which is still borrowed. The result is null or
        // owned.
        let Some(pkey) = NonNull::new(unsafe { sys::EVP_parse_private_key(&mut cbs) }) else {
            clear_errors();
            return None;
        };
        let pkey = Pkey(pkey);
        // SAFETY: `cbs` is a live local, initialized above.
        if unsafe { sys::CBS_len(&cbs) } != 0 {
            return None;
        }
        // SAFETY: `pkey` is valid. The result is null, or a separate reference that outlives
        // `pkey`.
        let Some(rsa) = NonNull::new(unsafe { sys::EVP_PKEY_get1_RSA(pkey.0.as_ptr()) }) else {
            // A key of another kind.
            clear_errors();
            return None;
        };
        let rsa = Self(rsa);
        // SAFETY: `rsa` is valid.
        let size = unsafe { sys::RSA_size(rsa.0.as_ptr()) };
        (size as usize == MODULUS_LEN).then_some(rsa)
    }

    /// The modulus, big-endian.
    pub(crate) fn modulus(&self) -> Option<[u8; MODULUS_LEN]> {
        // SAFETY: the object is valid. The number is borrowed from it, and is used before `self`
        // can be dropped.
        let n = unsafe { sys::RSA_get0_n(self.0.as_ptr()) };
        if n.is_null() {
            return None;
        }
        let mut out = [0; MODULUS_LEN];
        // SAFETY: `n` is valid (above), and `out` is writable for the length that is passed.
        let done = unsafe { sys::BN_bn2bin_padded(out.as_mut_ptr(), out.len(), n) };
        (done == 1).then_some(out)
    }

    /// The public exponent, if it fits.
    pub(crate) fn public_exponent(&self) -> Option<u64> {
        // SAFETY: the object is valid. The number is borrowed from it, and is used before `self`
        // can be dropped.
        let e = unsafe { sys::RSA_get0_e(self.0.as_ptr()) };
        if e.is_null() {
            return None;
        }
        let mut out = 0;
        // SAFETY: `e` is valid (above), and `out` is a live local.
        (unsafe { sys::BN_get_u64(e, &mut out) } == 1).then_some(out)
    }

    /// `output = input^d mod n`, blinded and in constant time.
    pub(crate) fn sign_raw(
        &self,
        input: &[u8; MODULUS_LEN],
        output: &mut [u8; MODULUS_LEN],
    ) -> bool {
        let mut written = 0;
        // SAFETY: the object is valid and, as explained at `Sync`, may be in use by other threads.
        // `input` is readable and `output` writable for the lengths passed, and they do not
        // overlap: `output` is borrowed mutably.
        let done = unsafe {
            sys::RSA_sign_raw(
                self.0.as_ptr(),
                &mut written,
                output.as_mut_ptr(),
                output.len(),
                input.as_ptr(),
                input.len(),
                sys::RSA_NO_PADDING,
            )
        };
        succeeded(done, written)
    }

    /// `output = input^e mod n`.
    pub(crate) fn verify_raw(
        &self,
        input: &[u8; MODULUS_LEN],
        output: &mut [u8; MODULUS_LEN],
    ) -> bool {
        let mut written = 0;
        // SAFETY: as for `sign_raw`.
        let done = unsafe {
            sys::RSA_verify_raw(
                self.0.as_ptr(),
                &mut written,
                output.as_mut_ptr(),
                output.len(),
                input.as_ptr(),
                input.len(),
                sys::RSA_NO_PADDING,
            )
        };
        succeeded(done, written)
    }
}

impl Drop for Rsa {
    fn drop(&mut self) {
        // SAFETY: this is an owned reference, and the only one that this value holds.
        unsafe { sys::RSA_free(self.0.as_ptr()) };
    }
}

impl Drop for Pkey {
    fn drop(&mut self) {
        // SAFETY: this is an owned reference, and the only one that this value holds.
        unsafe { sys::EVP_PKEY_free(self.0.as_ptr()) };
    }
}

/// Whether a raw operation succeeded.
fn succeeded(done: c_int, written: usize) -> bool {
    let ok = done == 1 && written == MODULUS_LEN;
    if !ok {
        clear_errors();
    }
    ok
}

/// A failure leaves entries in the thread's error queue. Other users of AWS-LC on this thread would
/// take them for their own.
fn clear_errors() {
    // SAFETY: takes no arguments, and touches only the calling thread's queue.
    unsafe { sys::ERR_clear_error() };
}
