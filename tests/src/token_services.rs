//! The attester and the issuer of a [`World`](crate::world::World).

use std::path::Path;

use anyhow::Result;

use crate::service::Service;

/// What the attester shows the issuer. A secret of a test: only who holds it matters.
pub const TOKEN: &str = "attesters-token-0123";

/// Attester and issuer as processes of the binary.
#[derive(Debug)]
pub struct TokenServices {
    /// It believes the names that devices give themselves, unless `attestation` says otherwise.
    pub attester: Service,
    /// The issuer.
    pub issuer: Service,
    /// How the attester tells devices: lines of its configuration, tables at the end.
    pub attestation: String,
    /// The length of a window of both, in seconds.
    pub window_s: u64,
    /// Where devices find the attester, if something stands before it.
    pub attester_url: String,
    /// Where the attester finds the issuer.
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

    /// Writes both configurations. `author` may ask for token keys.
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

    /// What devices and aggregators take on trust about them.
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
