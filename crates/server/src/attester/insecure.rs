//! Attestation that accepts everybody. For development and tests.

use aws_lc_rs::digest::{Context, SHA256};
use sotto_protocol::Moment;
use sotto_protocol::attester::{Attestation, AttestationRefusal, DeviceIdentity};
use sotto_wire::Decode;
use sotto_wire::token::evidence::AttestationEvidence;

use super::x509::identity;

/// Accepts the name that a device gives itself. Anybody can pretend to be any number of devices, so
/// the limit of one token per device has no effect.
#[derive(Clone, Copy, Debug)]
pub struct InsecureAttestation;

impl Attestation for InsecureAttestation {
    fn identify(
        &self,
        evidence: &[u8],
        _message: &[u8],
        _now: Moment,
    ) -> Result<DeviceIdentity, AttestationRefusal> {
        match AttestationEvidence::from_bytes(evidence) {
            Ok(AttestationEvidence::Insecure(name)) => {
                let mut hash = Context::new(&SHA256);
                hash.update(b"sotto insecure device v1\0");
                hash.update(name.as_bytes());
                Ok(identity(hash))
            }
            Ok(AttestationEvidence::X509(_)) => Err(AttestationRefusal::Kind),
            Err(_) => Err(AttestationRefusal::Malformed),
        }
    }
}
