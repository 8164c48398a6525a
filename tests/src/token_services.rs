//! The attesters and issuers of a [`World`](crate::world::World).

use std::path::Path;

use anyhow::Result;

use crate::service::Service;

/// The token that the attesters send to their issuers. A test secret: only who holds it matters.
pub const TOKEN: &str = "attesters-token-0123";

/// The operators of the attesters and issuers: of the leader's tokens, and of the helper's.
pub const ATTESTERS: [&str; 2] = ["attester-a.example", "attester-b.example"];
/// See [`ATTESTERS`].
pub const ISSUERS: [&str; 2] = ["issuer-a.example", "issuer-b.example"];

/// Both chains of tokens as processes of the binary.
#[derive(Debug)]
pub struct TokenServices {
    /// The attester and the issuer of the leader's tokens, and those of the helper's.
    pub chains: [Chain; 2],
    /// The length of a window of everybody, in seconds.
    pub window_s: u64,
    /// One attester and one issuer, those of the leader, for both aggregators
    /// (`insecure_single_attester`). The others run, and nobody asks them.
    pub single: bool,
}

/// An attester and its issuer.
#[derive(Debug)]
pub struct Chain {
    /// It accepts the names that devices give themselves, unless `attestation` says otherwise.
    pub attester: Service,
    /// The issuer.
    pub issuer: Service,
    /// How the attester identifies devices: lines of its configuration, tables at the end.
    pub attestation: String,
    /// The URL of the attester for devices, if something is in front of it.
    pub attester_url: String,
    /// The URL of the issuer for the attester.
    pub issuer_url: String,
}

impl Chain {
    fn new(folder: &Path, attester: &'static str, issuer: &'static str) -> Result<Self> {
        let attester = Service::new(folder, attester, "attester")?;
        let issuer = Service::new(folder, issuer, "issuer")?;
        Ok(Self {
            attester_url: attester.url(),
            issuer_url: issuer.url(),
            attester,
            issuer,
            attestation: "insecure_attestation = true\n".to_owned(),
        })
    }
}

impl TokenServices {
    /// All four, in this folder.
    pub fn new(folder: &Path) -> Result<Self> {
        let chains = [
            Chain::new(folder, "attester-a", "issuer-a")?,
            Chain::new(folder, "attester-b", "issuer-b")?,
        ];
        Ok(Self { chains, window_s: 30 * 86_400, single: false })
    }

    /// The chain of the leader's (0) or the helper's (1) tokens.
    pub fn used(&self, role: usize) -> usize {
        if self.single { 0 } else { role }
    }

    /// Writes all configurations. `author` may request token keys.
    pub(crate) fn write_configs(&self, author: &str) -> Result<()> {
        let (window_s, single) = (self.window_s, self.single);
        for (number, chain) in self.chains.iter().enumerate() {
            let (attester, issuer) = (ATTESTERS[number], ISSUERS[number]);
            let name = chain.issuer.name();
            chain.issuer.write_config(&format!(
                "key = \"{name}.key\"\nencapsulation_keys = [\"{name}-encapsulation.toml\"]\n\
                 window_s = {window_s}\ninsecure_both_roles = {single}\n\
                 authors = [\"{author}\"]\n[attester]\noperator = \"{attester}\"\ntoken = \"{TOKEN}\"\n"
            ))?;
            chain.attester.write_config(&format!(
                "operator = \"{attester}\"\nwindow_s = {window_s}\n{}\
                 [[issuers]]\noperator = \"{issuer}\"\nurl = \"{}\"\ntoken = \"{TOKEN}\"\n",
                chain.attestation, chain.issuer_url
            ))?;
        }
        Ok(())
    }

    /// The lines about them in the trust files of devices and aggregators.
    pub(crate) fn trust(&self) -> String {
        let mut text = "[tokens]\nspread_s = 0\n".to_owned();
        for (role, name) in ["leader", "helper"].into_iter().enumerate() {
            let chain = self.used(role);
            let (issuer, attester) = (ISSUERS[chain], ATTESTERS[chain]);
            let url = &self.chains[chain].attester_url;
            text += &format!(
                "[tokens.{name}]\nissuer = \"{issuer}\"\n\
                 attester = {{ operator = \"{attester}\", url = \"{url}\" }}\n"
            );
        }
        text
    }

    /// The issuers that a recipe names, and where the author finds them: each of the leader's
    /// tokens, and of the helper's.
    pub(crate) fn issuers(&self) -> [(&'static str, String); 2] {
        [0, 1].map(|role| {
            let chain = self.used(role);
            (ISSUERS[chain], self.chains[chain].issuer.url())
        })
    }

    /// Starts all of them.
    pub(crate) fn start(&mut self) -> Result<()> {
        for chain in &mut self.chains {
            chain.issuer.start()?;
            chain.attester.start()?;
        }
        Ok(())
    }
}
