//! The attester and the issuer of a [`World`](crate::world::World).

use std::path::Path;

use anyhow::Result;

use crate::service::Service;

/// The token that the attester sends to the issuer. A test secret: only who holds it matters.
pub const TOKEN: &str = "attesters-token-0123";

/// Attester and issuer as processes of the binary.
#[derive(Debug)]
pub struct TokenServices {
    /// It accepts the names that devices give themselves, unless `attestation` says otherwise.
    pub attester: Service,
    /// The issuer.
    pub issuer: Service,
    /// How the attester identifies devices: lines of its configuration, tables at the end.
    pub attestation: String,
    /// The length of a window of both, in seconds.
    pub window_s: u64,
    /// The URL of the attester for devices, if something is in front of it.
    pub attester_url: String,
    /// The URL of the issuer for the attester.
    pub issuer_url: String,
}

impl TokenServices {
    /// Both, in this folder.
    pub fn new(folder: &Path) -> Result<Self> {
        let attester = Service::new(folder, "attester", "attester")?;
        let issuer = Service::new(folder, "issuer", "issuer")?;
        Ok(Self {
            attester_url: attester.url(),
            issuer_url: issuer.url(),
            attester,
            issuer,
            attestation: "insecure_attestation = true\n".to_owned(),
            window_s: 30 * 86_400,
        })
    }

    /// Writes both configurations. `author` may request token keys.
    pub(crate) fn write_configs(&self, author: &str) -> Result<()> {
        let window_s = self.window_s;
        self.issuer.write_config(&format!(
            "key = \"issuer.key\"\nencapsulation_keys = [\"issuer-encapsulation.toml\"]\nwindow_s = {window_s}\n\
             authors = [\"{author}\"]\n[attester]\noperator = \"attester.example\"\ntoken = \"{TOKEN}\"\n"
        ))?;
        self.attester.write_config(&format!(
            "operator = \"attester.example\"\nwindow_s = {window_s}\n{}\
             [[issuers]]\noperator = \"issuer.example\"\nurl = \"{}\"\ntoken = \"{TOKEN}\"\n",
            self.attestation, self.issuer_url
        ))
    }

    /// The lines about them in the trust files of devices and aggregators.
    pub(crate) fn trust(&self) -> String {
        format!(
            "[tokens]\nissuer = \"issuer.example\"\nspread_s = 0\n\
             attester = {{ operator = \"attester.example\", url = \"{}\" }}\n",
            self.attester_url
        )
    }

    /// Starts both.
    pub(crate) fn start(&mut self) -> Result<()> {
        self.issuer.start()?;
        self.attester.start()
    }
}
