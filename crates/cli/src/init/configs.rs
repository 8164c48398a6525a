//! The configuration of every server.

use std::fmt::Write as _;

use zeroize::Zeroizing;

use super::files::Files;
use super::parties::{Party, Site};
use super::{Attestation, Plan, trust};

/// Adds the configurations, and the folders of the data for containers and trials.
pub(super) fn add(plan: &Plan, files: &mut Files) {
    for site in plan.parties.sites() {
        let Site { role, operator, .. } = &site;
        let text = Zeroizing::new(format!("{}{}", head(plan, &site), body(plan, &site)));
        files.secret(format!("{operator}/server/{role}.toml"), text);
        files.folder(format!("{operator}/data/{role}"));
        if is_replicated(plan, &site) {
            files.folder(format!("{operator}/data/{role}-2"));
        }
    }
    if let Attestation::X509 { roots, .. } = &plan.attestation {
        for party in [Party::AttesterA, Party::AttesterB] {
            let operator = plan.parties.name(party);
            files.public(format!("{operator}/server/device-roots.pem"), roots.clone());
        }
    }
}

/// Whether the compose file runs two processes of it.
pub(super) fn is_replicated(plan: &Plan, site: &Site) -> bool {
    plan.postgres.is_some() && ["leader", "helper"].contains(&site.role)
}

/// What all roles have: addresses and the folder of the data.
fn head(plan: &Plan, site: &Site) -> String {
    let Site { role, operator, .. } = site;
    let folder = if *role == "relay" { "spool_dir" } else { "data_dir" };
    let data = match plan.parties.is_local() {
        true => format!("../data/{role}"),
        false => format!("/var/lib/sotto/{role}"),
    };
    let mut text = format!(
        "# The {role} of {operator}: `sotto serve {role} --config {role}.toml`.\n\
         # `sotto serve {role} --print-config` prints every setting.\n\
         listen = \"{}\"\nadmin_listen = \"{}\"\n{folder} = \"{data}\"\n",
        site.listen, site.admin_listen
    );
    if ["leader", "helper"].contains(role) {
        let _ = writeln!(text, "public_url = \"{}\"\nhpke_keys = [\"hpke.toml\"]", site.url);
    }
    text
}

fn body(plan: &Plan, site: &Site) -> String {
    let own = match site.role {
        "leader" => aggregator(plan, Party::Leader) + &gateway("gateway.toml"),
        "helper" => aggregator(plan, Party::Helper),
        "log" => log(plan) + &gateway("log-gateway.toml"),
        "witness" => {
            format!("key = \"witness.key\"\nlogs = [\"{}\"]\n", plan.keys.log.verifier())
        }
        "relay" => relay(plan),
        "attester" => attester(plan, site),
        _ => issuer(plan, site),
    };
    let mut text = own;
    if is_replicated(plan, site) {
        text += "\n# Both processes are behind a proxy, so that all clients have its address.\n\
                 [limits]\nmax_connections_per_source = 0\n";
        text += &postgres(plan, site);
    }
    if !plan.parties.is_local() {
        text += "\n# The certificate of this host.\n\
                 [tls]\ncert = \"tls/fullchain.pem\"\nkey = \"tls/privkey.pem\"\n";
    }
    text
}

fn gateway(key: &str) -> String {
    format!("\n[gateway]\nkeys = [\"{key}\"]\n")
}

fn postgres(plan: &Plan, site: &Site) -> String {
    let server = plan.postgres.as_deref().unwrap_or_default();
    let url = toml::Value::String(format!("{server} dbname={}", site.role));
    format!("\n[postgres]\nurl = {url}\nkeys = [\"store.key\"]\n")
}

fn aggregator(plan: &Plan, party: Party) -> String {
    let Plan { parties, keys, .. } = plan;
    let is_leader = party == Party::Leader;
    let peer = match is_leader {
        true => parties.site_of("helper", Party::Helper),
        false => parties.site_of("leader", Party::Leader),
    };
    let trial = match parties.is_local() {
        true => {
            "poll_s = 5\n# For a trial only. Otherwise a batch is released half a day after its \
                 end.\ninsecure_early_release = true\n"
        }
        false => "",
    };
    let mut text = format!(
        "\n[recipes]\ntrust = \"trust.toml\"\noperator = \"{}\"\n{trial}\n\
         [[recipes.peers]]\noperator = \"{}\"\nurl = \"{}\"\nauthentication_token = \"{}\"\n\
         verify_key_init = \"{}\"\n",
        parties.name(party),
        peer.operator,
        peer.url,
        *keys.leader_token,
        *keys.verify_key_init,
    );
    if parties.is_local() {
        text += "# For a trial only. Otherwise the leader connects to public addresses only.\n\
                 private_addresses = true\n";
    }
    let _ = write!(text, "\n[[recipes.authors]]\nkey = \"{}\"\n", keys.author.verifier());
    if is_leader {
        let token = keys.collector_token.as_str();
        let _ = writeln!(text, "collector_authentication_token = \"{token}\"");
    }
    text
}

fn log(plan: &Plan) -> String {
    let keys = &plan.keys;
    let mut text = "key = \"log.key\"\nsubmitters = [\n".to_owned();
    for key in std::iter::once(&keys.author).chain(keys.operators()) {
        let _ = writeln!(text, "  \"{}\",", key.verifier());
    }
    text + &format!("]\npolicy = \"\"\"\n{}\"\"\"\n", trust::policy(plan))
}

fn relay(plan: &Plan) -> String {
    let mut text = match plan.parties.is_local() {
        true => {
            "\n# Ten seconds, and sixteen requests, are the default. In a trial devices come one \
                 after the other.\n[pool]\nmin = 2\nwait_ms = 20\n\n\
                 # All devices of a trial have one address.\n[sources]\nmax = 0\n"
                .to_owned()
        }
        false => String::new(),
    };
    for site in [plan.parties.site_of("leader", Party::Leader), plan.parties.log()] {
        let _ = write!(
            text,
            "\n[[gateways]]\noperator = \"{}\"\nurl = \"{}gateway\"\n",
            site.operator, site.url
        );
    }
    text
}

/// The two chains of tokens.
fn chain(plan: &Plan, site: &Site) -> (Party, Party, usize) {
    let first = [Party::AttesterA, Party::IssuerA].map(|party| plan.parties.name(party));
    match first.contains(&&site.operator) {
        true => (Party::AttesterA, Party::IssuerA, 0),
        false => (Party::AttesterB, Party::IssuerB, 1),
    }
}

fn attester(plan: &Plan, site: &Site) -> String {
    let (_, issuer, number) = chain(plan, site);
    let issuer = plan.parties.site_of("issuer", issuer);
    let mut text = format!("operator = \"{}\"\n", site.operator);
    text += &match &plan.attestation {
        Attestation::Insecure => "\n# For tests only. Devices say who they are; real ones show a \
                                  certificate ([x509]).\ninsecure_attestation = true\n"
            .to_owned(),
        Attestation::X509 { manufacturer, usage, .. } => format!(
            "\n[[x509.manufacturers]]\nname = {}\nroots = [\"device-roots.pem\"]\n\
             extended_key_usage = {}\n",
            toml::Value::String(manufacturer.clone()),
            toml::Value::String(usage.clone()),
        ),
    };
    let token = plan.keys.attester_tokens[number].as_str();
    text + &format!(
        "\n[[issuers]]\noperator = \"{}\"\nurl = \"{}\"\ntoken = \"{token}\"\n",
        issuer.operator, issuer.url
    )
}

fn issuer(plan: &Plan, site: &Site) -> String {
    let (attester, _, number) = chain(plan, site);
    let token = plan.keys.attester_tokens[number].as_str();
    format!(
        "key = \"operator.key\"\nencapsulation_keys = [\"encapsulation.toml\"]\nauthors = [\"{}\"]\n\n\
         [attester]\noperator = \"{}\"\ntoken = \"{token}\"\n",
        plan.keys.author.verifier(),
        plan.parties.name(attester),
    )
}
