//! The errors of HPKE.
//!
//! Opening fails with the same error whatever the cause (a bad point, a bad tag, a payload that is
//! too short), so the sender of the ciphertext learns nothing from it.

/// Why sealing or opening failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HpkeError {
    /// The configuration names a KEM, KDF or AEAD that is not supported, or a key of another length.
    #[error("the HPKE configuration names an unsupported suite")]
    UnsupportedSuite,
    /// A key has the wrong length, is a point of low order, or does not match its other half.
    #[error("the HPKE key is invalid")]
    InvalidKey,
    /// The ciphertext names a different HPKE configuration from that of the key.
    #[error("the ciphertext was sealed to another HPKE configuration")]
    WrongConfigId,
    /// The ciphertext does not open with this key, `info` and associated data.
    #[error("the HPKE ciphertext does not open")]
    Decrypt,
    /// The plaintext could not be sealed.
    #[error("the HPKE plaintext could not be sealed")]
    Encrypt,
    /// More bytes were requested from the exporter than HKDF can produce.
    #[error("the HPKE export is too long")]
    ExportTooLong,
    /// `info` is longer than [`crate::hpke::MAX_INFO_LEN`].
    #[error("the HPKE info string is too long")]
    InfoTooLong,
}
