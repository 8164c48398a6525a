//! What a device shows its attester: its identity, and a signature over this request.
//!
//! The first byte is the kind. The attester decides whether a chain leads to a manufacturer, and
//! what the signature is worth. What is signed is
//! [`attestation_message`](super::attestation_message).

use std::borrow::Cow;
use std::fmt;

use crate::codec::{BoundsError, Decode, DecodeError, Encode, Reader, Sink, put_opaque_u16};
use crate::limits::MAX_TOKEN_HEADER_LEN;

/// The longest evidence: the most that a header holds, in base64 between colons.
pub const MAX_EVIDENCE_LEN: usize = (MAX_TOKEN_HEADER_LEN - 2) / 4 * 3;

/// The longest chain: a device and a few intermediates, without the root.
pub const MAX_EVIDENCE_CERTIFICATES: usize = 8;

/// The longest name of an insecure attestation.
pub const MAX_INSECURE_NAME_LEN: usize = 64;

const KIND_X509: u8 = 1;
const KIND_INSECURE: u8 = 255;

/// The evidence sent with a token request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttestationEvidence<'a> {
    /// A device certificate under a manufacturer's root.
    X509(X509Evidence<'a>),
    /// A name that anyone may claim, for development.
    Insecure(InsecureName<'a>),
}

/// A chain of certificates, and a signature by the key of the first. `Debug` shows only sizes: a
/// certificate identifies the device.
#[derive(Clone, PartialEq, Eq)]
pub struct X509Evidence<'a> {
    chain: Vec<Cow<'a, [u8]>>,
    scheme: u16,
    signature: Cow<'a, [u8]>,
}

/// A name of 1 to 64 bytes. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct InsecureName<'a>(Cow<'a, [u8]>);

impl<'a> X509Evidence<'a> {
    /// Evidence from DER certificates, the device's first, and a signature made with a TLS
    /// signature scheme (RFC 8446, section "Signature Algorithms").
    pub fn new(
        chain: Vec<Cow<'a, [u8]>>,
        scheme: u16,
        signature: Cow<'a, [u8]>,
    ) -> Result<Self, BoundsError> {
        if chain.is_empty() || chain.len() > MAX_EVIDENCE_CERTIFICATES {
            return Err(BoundsError::Length("certificates"));
        }
        if chain.iter().any(|certificate| certificate.is_empty()) {
            return Err(BoundsError::Length("certificate"));
        }
        if signature.is_empty() {
            return Err(BoundsError::Length("signature"));
        }
        let evidence = Self { chain, scheme, signature };
        if 1 + evidence.len() > MAX_EVIDENCE_LEN {
            return Err(BoundsError::Length("evidence"));
        }
        Ok(evidence)
    }

    /// The certificates in DER, the device's first.
    pub fn chain(&self) -> &[Cow<'a, [u8]>] {
        &self.chain
    }

    /// The signature scheme, by its number in TLS.
    pub fn scheme(&self) -> u16 {
        self.scheme
    }

    /// The signature.
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }

    fn len(&self) -> usize {
        let chain: usize = self.chain.iter().map(|certificate| 3 + certificate.len()).sum();
        2 + chain + 2 + 2 + self.signature.len()
    }
}

impl<'a> InsecureName<'a> {
    /// Checks the length.
    pub fn new(name: impl Into<Cow<'a, [u8]>>) -> Result<Self, BoundsError> {
        let name = name.into();
        if name.is_empty() || name.len() > MAX_INSECURE_NAME_LEN {
            return Err(BoundsError::Length("name"));
        }
        Ok(Self(name))
    }

    /// The name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for X509Evidence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("X509Evidence")
            .field("certificates", &self.chain.len())
            .field("scheme", &self.scheme)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for InsecureName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InsecureName([redacted])")
    }
}

impl Encode for AttestationEvidence<'_> {
    fn encode(&self, out: &mut impl Sink) {
        match self {
            Self::X509(evidence) => {
                out.push(KIND_X509);
                // Constructors keep every length far below what the fields can hold.
                out.extend_from_slice(&(evidence.chain.len() as u16).to_be_bytes());
                for certificate in &evidence.chain {
                    let [_, len @ ..] = (certificate.len() as u32).to_be_bytes();
                    out.extend_from_slice(&len);
                    out.extend_from_slice(certificate);
                }
                out.extend_from_slice(&evidence.scheme.to_be_bytes());
                put_opaque_u16(out, &evidence.signature);
            }
            Self::Insecure(name) => {
                out.push(KIND_INSECURE);
                out.extend_from_slice(&name.0);
            }
        }
    }
}

impl<'a> Decode<'a> for AttestationEvidence<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match reader.u8()? {
            KIND_X509 => {
                let count = usize::from(reader.u16()?);
                if count > MAX_EVIDENCE_CERTIFICATES {
                    return Err(BoundsError::Length("certificates").into());
                }
                let chain =
                    (0..count).map(|_| certificate(reader)).collect::<Result<Vec<_>, _>>()?;
                let scheme = reader.u16()?;
                let signature = Cow::Borrowed(reader.opaque_u16()?);
                Ok(Self::X509(X509Evidence::new(chain, scheme, signature)?))
            }
            KIND_INSECURE => Ok(Self::Insecure(InsecureName::new(reader.rest())?)),
            value => Err(DecodeError::UnknownValue { field: "attestation kind", value }),
        }
    }
}

/// One `opaque<1..2^24-1>`.
fn certificate<'a>(reader: &mut Reader<'a>) -> Result<Cow<'a, [u8]>, DecodeError> {
    let [high, middle, low] = reader.array()?;
    let len = u32::from_be_bytes([0, high, middle, low]);
    let len = usize::try_from(len).map_err(|_| DecodeError::UnexpectedEnd)?;
    Ok(Cow::Borrowed(reader.bytes(len)?))
}
