//! How `sotto device run` shows an attester which device it is.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use sotto_client::{DeviceCertificate, InsecureName};
use sotto_protocol::token::Attestor;

use crate::output::WithHint;
use crate::private_file;

/// Options that say which device this is.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct AttestationArgs {
    /// The manufacturer's certificate chain for this device, PEM: the device's certificate first,
    /// without the root.
    #[arg(long, value_name = "FILE", requires = "certificate_key", help_heading = "Attestation")]
    certificate: Option<PathBuf>,
    /// The key of the certificate: Ed25519, PKCS#8, PEM.
    #[arg(long, value_name = "FILE", requires = "certificate", help_heading = "Attestation")]
    certificate_key: Option<PathBuf>,
    /// A name instead of a certificate. For development: only attesters with `insecure_attestation`
    /// accept it.
    #[arg(long, value_name = "NAME", conflicts_with = "certificate", help_heading = "Attestation")]
    insecure_name: Option<String>,
}

impl AttestationArgs {
    /// The signer of token requests; `None` without these options.
    pub(super) fn attestor(&self) -> Result<Option<Box<dyn Attestor + Send>>> {
        if let Some(name) = &self.insecure_name {
            return Ok(Some(Box::new(InsecureName::new(name.as_str())?)));
        }
        let (Some(certificate), Some(key)) = (&self.certificate, &self.certificate_key) else {
            return Ok(None);
        };
        let pem = std::fs::read(certificate)
            .with_context(|| format!("cannot read {}", certificate.display()))?;
        let device = DeviceCertificate::from_pem(&pem, &private_file::read(key)?)
            .with_context(|| format!("{} with {}", certificate.display(), key.display()))
            .hint(
                "keys in hardware, and of other kinds, are for applications that embed the client",
            )?;
        Ok(Some(Box::new(device)))
    }
}
