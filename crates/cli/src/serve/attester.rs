//! `sotto serve attester`: loads everything that its configuration names.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use sotto_protocol::attester::Attestation;
use sotto_server::{
    Attester, AttesterConfig, AttesterFile, HttpFile, InsecureAttestation, IssuerPeer,
    IssuerPeerTable, Manufacturer, ManufacturerTable, Purpose, X509Attestation, X509Config,
    X509Table,
};
use sotto_store::{AttesterDb, AttesterDbOptions};

use super::config::{
    Bound, RoleFile, Start, load_authorities, load_http, peer_token, same_operator,
};
use super::watch;
use crate::output::WithHint;
use crate::{private_file, random};

impl RoleFile for AttesterFile {
    const ROLE: &'static str = "attester";

    fn is_secret(&self) -> bool {
        true
    }

    fn http(&self) -> &HttpFile {
        &self.http
    }

    fn data_dir(&mut self) -> &mut PathBuf {
        &mut self.data_dir
    }

    async fn bind(self, start: Start) -> Result<Bound> {
        check(&self)?;
        let issuers = self.issuers.iter().map(issuer).collect::<Result<_>>()?;
        let issuer_certificates = load_authorities(&self.http)?;
        let http = load_http(self.http, start)?;
        let mut config = AttesterConfig { http, issuers, issuer_certificates, ..self.attester };
        if let Some(table) = self.x509 {
            // Taken before the lists are read, so that a change in the meantime is noticed later.
            let seen = watch::state(table.crls.clone());
            let attestation = Arc::new(x509(&table)?);
            config.attestations.push(Arc::clone(&attestation) as Arc<dyn Attestation>);
            let (crls, watched) = (table.crls.clone(), table.crls);
            let reload = move || {
                attestation.reload_crls(&read_all(&crls)?)?;
                Ok(None)
            };
            let state = move || watch::state(watched.clone());
            tokio::spawn(watch::follow("revocation lists".to_owned(), seen, state, reload));
        }
        if self.insecure_attestation {
            tracing::warn!("insecure_attestation: anyone can pretend to be any number of devices");
            config.attestations.push(Arc::new(InsecureAttestation) as Arc<dyn Attestation>);
        }
        private_file::make_folder(&self.data_dir)?;
        let options = AttesterDbOptions {
            window_s: self.window_s,
            max_aliases_per_device: self.max_aliases_per_device,
            ..AttesterDbOptions::default()
        };
        let db = AttesterDb::open(&self.data_dir, &options, &mut random::system())
            .with_context(|| format!("cannot open the database in {}", self.data_dir.display()))?;
        super::bound(Attester::bind(config, db).await)
    }
}

/// Checks that everything required is present, before anything is written.
fn check(file: &AttesterFile) -> Result<()> {
    let Some(operator) = &file.attester.operator else {
        return Err(anyhow!("no operator is configured"))
            .hint("operator = \"attester.example\": the name under which devices pin it");
    };
    if file.issuers.iter().any(|issuer| issuer.operator == operator.as_str()) {
        return Err(same_operator(operator.as_str()));
    }
    if file.issuers.is_empty() {
        return Err(anyhow!("no issuer is configured")).hint(
            "list where requests may go: [[issuers]] operator = \"issuer.example\", \
             url = \"...\", token = \"...\"",
        );
    }
    if file.x509.is_none() && !file.insecure_attestation {
        return Err(anyhow!("no way to identify devices is configured")).hint(
            "[[x509.manufacturers]] name = \"...\", roots = [\"root.pem\"], or, for development, \
             insecure_attestation = true",
        );
    }
    Ok(())
}

fn issuer(table: &IssuerPeerTable) -> Result<IssuerPeer> {
    let named = |what: &str| format!("the {what} of the issuer {:?}", table.operator);
    let name = table.operator.parse().map_err(|error| anyhow!("{}: {error}", named("operator")))?;
    let token = peer_token(&table.token).with_context(|| named("token"))?;
    let url = table.url.trim_end_matches('/').to_owned();
    Ok(IssuerPeer { name, url, token: Arc::new(token) })
}

fn x509(table: &X509Table) -> Result<X509Attestation> {
    let manufacturer = |table: &ManufacturerTable| {
        let roots =
            read_all(&table.roots).with_context(|| format!("the roots of {:?}", table.name))?;
        let purposes =
            purposes(table).with_context(|| format!("the purpose of {:?}", table.name))?;
        anyhow::Ok(Manufacturer { name: table.name.clone(), roots, purposes })
    };
    let config = X509Config {
        manufacturers: table.manufacturers.iter().map(manufacturer).collect::<Result<_>>()?,
        crls: read_all(&table.crls).context("[x509] crls")?,
        require_crl: table.require_crl,
    };
    X509Attestation::new(&config).map_err(|error| anyhow!("[x509]: {error}"))
}

/// What certificates of devices are for.
fn purposes(table: &ManufacturerTable) -> Result<Vec<Purpose>> {
    let usage = table.extended_key_usage.as_deref().map(Purpose::usage);
    let policy = table.policy.as_deref().map(Purpose::policy);
    let mut stated: Vec<_> = usage.into_iter().chain(policy).collect::<Result<_, _>>()?;
    if table.insecure_any_purpose {
        if !stated.is_empty() {
            return Err(anyhow!("insecure_any_purpose contradicts extended_key_usage and policy"));
        }
        tracing::warn!(
            "insecure_any_purpose: whatever {:?} certifies counts as devices",
            table.name
        );
        stated.push(Purpose::InsecureAny);
    }
    if stated.is_empty() {
        return Err(anyhow!("what its certificates of devices are for is not configured")).hint(
            "extended_key_usage = \"1.3.6...\" or policy = \"1.3.6...\": ask the manufacturer; or, if it \
             states none, insecure_any_purpose = true",
        );
    }
    Ok(stated)
}

/// The contents of the files, concatenated.
fn read_all(paths: &[PathBuf]) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    for path in paths {
        all.extend(private_file::read_bytes(path)?);
        all.push(b'\n');
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toml_text;

    fn issuers(text: &str) -> Result<Vec<IssuerPeer>> {
        let file: AttesterFile = toml_text::parse(text)?;
        check(&file)?;
        file.issuers.iter().map(issuer).collect()
    }

    const ISSUER: &str = "[[issuers]]\noperator = \"issuer.example\"\nurl = \"https://issuer.example/\"\ntoken = \"t\"\n";

    #[test]
    fn mistakes_are_named() {
        let named = "operator = \"attester.example\"\n";
        for (text, message) in [
            (String::new(), "no operator"),
            ("operator = \"a b\"".to_owned(), "operator: \"a b\" is not the name"),
            (named.to_owned(), "no issuer"),
            (format!("{named}{ISSUER}"), "no way to identify devices"),
            (
                format!(
                    "{named}insecure_attestation = true\n{}",
                    ISSUER.replace("issuer.", "is suer.")
                ),
                "the operator of the issuer",
            ),
            (
                format!(
                    "{named}insecure_attestation = true\n{}",
                    ISSUER.replace("\"t\"", "\"...\"")
                ),
                "placeholder",
            ),
            (
                format!("operator = \"issuer.example\"\ninsecure_attestation = true\n{ISSUER}"),
                "must be two operators",
            ),
        ] {
            let error = issuers(&text).unwrap_err();
            assert!(format!("{error:#}").contains(message), "{text}: {error:#}");
        }
        let issuers = issuers(&format!("{named}insecure_attestation = true\n{ISSUER}")).unwrap();
        assert_eq!(issuers[0].url, "https://issuer.example");
    }

    #[test]
    fn a_manufacturer_states_what_its_certificates_are_for() {
        let stated = |lines: &str| {
            let table = format!("name = \"m\"\nroots = [\"root.pem\"]\n{lines}");
            let table: ManufacturerTable = toml_text::parse(&table).unwrap();
            purposes(&table).map(|stated| stated.len()).map_err(|error| format!("{error:#}"))
        };
        let (usage, policy) = ("extended_key_usage = \"1.3.6.1\"\n", "policy = \"1.3.6.2\"\n");
        assert_eq!(stated(usage), Ok(1));
        assert_eq!(stated(policy), Ok(1));
        assert_eq!(stated(&format!("{usage}{policy}")), Ok(2));
        assert_eq!(stated("insecure_any_purpose = true\n"), Ok(1));
        for (lines, reason) in [
            (String::new(), "is not configured"),
            ("insecure_any_purpose = false\n".to_owned(), "is not configured"),
            (format!("{usage}insecure_any_purpose = true\n"), "contradicts"),
            ("policy = \"devices\"\n".to_owned(), "not an object identifier"),
        ] {
            let error = stated(&lines).unwrap_err();
            assert!(error.contains(reason), "{lines}: {error}");
        }
    }
}
