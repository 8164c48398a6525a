//! Who a device is: what an attester learns from the evidence that comes with a request.

use crate::Moment;

/// A device, whatever keys and certificates it currently has. All requests of a device must have
/// the same identity for as long as tokens are counted, or the limit fails.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceIdentity([u8; 32]);

impl DeviceIdentity {
    /// An identity from a hash of what is stable about the device.
    pub fn new(identity: [u8; 32]) -> Self {
        Self(identity)
    }

    /// The bytes. They identify a device: never store or print them unhashed.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for DeviceIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DeviceIdentity([redacted])")
    }
}

/// A way to tell real devices from invented ones.
pub trait Attestation: std::fmt::Debug + Send + Sync {
    /// Checks that the evidence is a device's and that the device signed this message with it.
    /// Returns which device it is.
    ///
    /// `message` is `sotto_wire::token::attestation_message`. It binds attester, issuer, keys,
    /// alias, blind and request, so that evidence seen elsewhere is useless here.
    fn identify(
        &self,
        evidence: &[u8],
        message: &[u8],
        now: Moment,
    ) -> Result<DeviceIdentity, AttestationRefusal>;
}

/// Why evidence was not accepted. The device is told only that it was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AttestationRefusal {
    /// It does not decode.
    #[error("the evidence does not decode")]
    Malformed,
    /// It is of a kind that this attester does not accept.
    #[error("this kind of evidence is not accepted")]
    Kind,
    /// It does not chain to a root that this attester trusts.
    #[error("the evidence does not chain to a trusted root")]
    Untrusted,
    /// It is not valid yet, or has expired.
    #[error("the evidence is not valid at this time")]
    Expired,
    /// It was revoked.
    #[error("the evidence was revoked")]
    Revoked,
    /// Whether it was revoked is unknown, and the operator requires the check.
    #[error("the revocation status of the evidence is unknown")]
    UnknownRevocation,
    /// It does not identify a device.
    #[error("the evidence does not identify a device")]
    NoIdentity,
    /// The signature over the message is wrong.
    #[error("the signature of the evidence is wrong")]
    Signature,
}

impl AttestationRefusal {
    /// All refusals, for counters.
    pub const ALL: [Self; 8] = [
        Self::Malformed,
        Self::Kind,
        Self::Untrusted,
        Self::Expired,
        Self::Revoked,
        Self::UnknownRevocation,
        Self::NoIdentity,
        Self::Signature,
    ];

    /// The name used in counters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "attestation_malformed",
            Self::Kind => "attestation_kind",
            Self::Untrusted => "attestation_untrusted",
            Self::Expired => "attestation_expired",
            Self::Revoked => "attestation_revoked",
            Self::UnknownRevocation => "attestation_unknown_revocation",
            Self::NoIdentity => "attestation_no_identity",
            Self::Signature => "attestation_signature",
        }
    }
}
