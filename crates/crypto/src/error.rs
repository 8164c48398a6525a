//! What can go wrong in HPKE.
//!
//! Opening fails with one error whatever the cause (a bad point, a bad tag, a payload that is too short):
//! whoever sent the ciphertext learns nothing from the difference.

/// Why sealing or opening failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HpkeError {
    /// The configuration names a KEM, KDF or AEAD other than the mandatory ones.
    #[error("the HPKE configuration names an unsupported suite")]
    UnsupportedSuite,
    /// A key has the wrong length, is a point of low order, or does not belong to its other half.
    #[error("the HPKE key is invalid")]
    InvalidKey,
    /// The ciphertext names another HPKE configuration than the key that was to open it.
    #[error("the ciphertext was sealed to another HPKE configuration")]
    WrongConfigId,
    /// The ciphertext is not one that the holder of this key, `info` and associated data can open.
    #[error("the HPKE ciphertext does not open")]
    Decrypt,
    /// The plaintext could not be sealed.
    #[error("the HPKE plaintext could not be sealed")]
    Encrypt,
    /// More bytes were asked of the exporter than HKDF can give.
    #[error("the HPKE export is too long")]
    ExportTooLong,
    /// `info` is longer than [`crate::hpke::MAX_INFO_LEN`].
    #[error("the HPKE info string is too long")]
    InfoTooLong,
}
