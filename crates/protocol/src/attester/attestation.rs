//! Who a device is: what an attester wants to know of the evidence that comes with a request.

use crate::Moment;

/// A device, whatever keys and certificates it has at the moment. Two requests of one device have one
/// identity for as long as tokens are counted, or the limit falls.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceIdentity([u8; 32]);

impl DeviceIdentity {
    /// A hash of what is stable about the device.
    pub fn new(identity: [u8; 32]) -> Self {
        Self(identity)
    }

    /// The bytes. They identify a device: none of them may be written down as they are.
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
    /// Checks that the evidence is a device's and that the device vouches with it for this message, and
    /// says which device it is.
    ///
    /// `message` is `sotto_wire::token::attestation_message`: it binds attester, issuer, keys, alias,
    /// blind and request, so that evidence seen elsewhere is good for nothing here.
    fn identify(
        &self,
        evidence: &[u8],
        message: &[u8],
        now: Moment,
    ) -> Result<DeviceIdentity, AttestationRefusal>;
}

/// Why evidence was not believed. The device is told only that it was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AttestationRefusal {
    /// It does not decode.
    #[error("the evidence does not decode")]
    Malformed,
    /// It is of a kind that this attester does not take.
    #[error("the evidence is of a kind that is not taken")]
    Kind,
    /// It does not lead to a root that this attester trusts.
    #[error("the evidence leads to no trusted root")]
    Untrusted,
    /// It is not valid yet, or not any more.
    #[error("the evidence is outside its time")]
    Expired,
    /// It was revoked.
    #[error("the evidence was revoked")]
    Revoked,
    /// It cannot be told whether it was revoked, and the operator wants to know.
    #[error("the revocation state of the evidence is not known")]
    UnknownRevocation,
    /// It does not say which device it is about.
    #[error("the evidence names no device")]
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
