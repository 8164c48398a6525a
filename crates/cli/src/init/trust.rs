//! The policy of the log, and the trust file of devices, authors and aggregators.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use sotto_protocol::trust::{Trust, TrustFile};
use sotto_wire::KeySet;

use super::Plan;
use super::files::Files;
use super::parties::{Party, WITNESSES};
use crate::toml_text;

/// What the trust file of a trial has in addition.
const TRIAL: &str = r"
# 200 devices are no crowd. The defaults are 500 dishonest devices (so a minimum batch of 1,000), a
# population of 10,000, and epsilon 2.
[floors]
dishonest_devices = 25
min_population = 100

[budget]
epsilon = 4.0
";

/// Adds the policy, and the trust file for everybody who needs it. Fails if devices would refuse it.
pub(super) fn add(plan: &Plan, files: &mut Files) -> Result<()> {
    let text = trust(plan);
    let file: TrustFile = toml_text::parse(&text).context("the trust file")?;
    Trust::try_from(file).context("devices would refuse these parties")?;
    files.public("policy", policy(plan));
    files.public("trust.toml", text.clone());
    // For those who publish key sets, or check recipes.
    for party in plan.parties.publishers() {
        let operator = plan.parties.name(party);
        files.public(format!("{operator}/server/trust.toml"), text.clone());
    }
    Ok(())
}

/// Log, witnesses and quorum, in the form of C2SP tlog-policy.
pub(super) fn policy(plan: &Plan) -> String {
    let url = plan.parties.log().url;
    let mut text = format!("log {} {url}\n", plan.keys.log.verifier());
    for ((party, name), key) in WITNESSES.iter().zip(&plan.keys.witnesses) {
        let url = plan.parties.site_of("witness", *party).url;
        let _ = writeln!(text, "witness {name} {} {url}", key.cosigner());
    }
    let names = WITNESSES.map(|(_, name)| name).join(" ");
    let _ = write!(text, "group most 2 {names}\nquorum most\n");
    text
}

fn trust(plan: &Plan) -> String {
    let Plan { parties, keys, .. } = plan;
    let name = |party| parties.name(party);
    let mut text = format!(
        "# What devices take on trust. Everything else is proved to them. Nothing in it is secret.\n\
         policy = \"\"\"\n{}\"\"\"\n",
        policy(plan)
    );
    if parties.is_local() {
        text += "\n# For a trial only. Devices wait a day before they believe the log, and up to four \
                 weeks before\n# they answer at all.\ninsecure_no_min_age = true\n\
                 insecure_fresh_start = true\n";
    }
    for key in keys.operators() {
        let _ = write!(text, "\n[[operators]]\nkey = \"{}\"\n", key.verifier());
    }
    let relay = parties.site_of("relay", Party::Relay);
    let _ = write!(
        text,
        "\n[[relays]]\noperator = \"{}\"\nurl = \"{}\"\n\n\
         # With this key a device begins to read the log. Later ones are in the log itself.\n\
         [log_gateway]\noperator = \"{}\"\nhpke_configs = [\"{}\"]\n",
        relay.operator,
        relay.url,
        name(parties.keeper()),
        KeySet::config_text(keys.log_gateway.config()),
    );
    if parties.is_local() {
        text += "\n# Devices ask for tokens at a random time, and use them at another; here, at once.\n\
                 [tokens]\nspread_s = 0\n";
    }
    for (role, issuer, attester) in
        [("leader", Party::IssuerA, Party::AttesterA), ("helper", Party::IssuerB, Party::AttesterB)]
    {
        let attester = parties.site_of("attester", attester);
        let _ = write!(
            text,
            "\n[tokens.{role}]\nissuer = \"{}\"\nattester = {{ operator = \"{}\", url = \"{}\" }}\n",
            name(issuer),
            attester.operator,
            attester.url,
        );
    }
    text + if parties.is_local() { TRIAL } else { "" }
}
