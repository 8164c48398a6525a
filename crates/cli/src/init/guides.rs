//! What people do with the files: units of systemd, a README for each operator, the script of a
//! trial, and what the author says about the parties.

use std::fmt::Write as _;
use std::path::Path;

use super::Plan;
use super::configs::is_replicated;
use super::files::Files;
use super::parties::{Party, Site};

const UNIT: &str = include_str!("../../../../packaging/sotto@.service");

/// Adds all of them.
pub(super) fn add(plan: &Plan, files: &mut Files) {
    let author = plan.parties.name(Party::Author);
    files.public(format!("{author}/parties"), named_parties(plan));
    if plan.parties.is_local() {
        files.public("run.sh", script(plan));
        return;
    }
    for site in plan.parties.sites() {
        let Site { role, operator, .. } = &site;
        files.public(format!("{operator}/sotto-{role}.service"), unit(&site));
    }
    for party in plan.parties.operators() {
        let operator = plan.parties.name(party);
        files.public(format!("{operator}/README.md"), readme(plan, party));
    }
}

/// The commands that come next.
pub(super) fn next(plan: &Plan, folder: &Path) -> Vec<String> {
    let folder = folder.display();
    if !plan.parties.is_local() {
        return vec![
            "# give each operator its folder: README.md in it says what to do".to_owned(),
            format!("# give {folder}/trust.toml to devices, authors and auditors"),
        ];
    }
    let mut next = Vec::new();
    if plan.postgres.is_some() {
        for party in [Party::Leader, Party::Helper] {
            let site = plan.parties.site_of(party_role(party), party);
            let (operator, role) = (&site.operator, site.role);
            next.push(format!("sotto db migrate --config {folder}/{operator}/server/{role}.toml"));
        }
    }
    next.push(format!("sh {folder}/run.sh start"));
    next
}

fn party_role(party: Party) -> &'static str {
    if party == Party::Leader { "leader" } else { "helper" }
}

/// The options with which `sotto recipe new` learns about all parties.
fn named_parties(plan: &Plan) -> String {
    let parties = &plan.parties;
    let name = |party| parties.name(party);
    let url = |party| parties.site_of(party_role(party), party).url;
    format!(
        "--leader-operator {} --leader-url {} --helper-operator {} --helper-url {} \
         --collector-key {}/collector-hpke.toml --log-origin {} --leader-issuer {} \
         --helper-issuer {}\n",
        name(Party::Leader),
        url(Party::Leader),
        name(Party::Helper),
        url(Party::Helper),
        name(Party::Author),
        name(Party::Log),
        name(Party::IssuerA),
        name(Party::IssuerB),
    )
}

/// The unit of packaging/, for one role.
fn unit(site: &Site) -> String {
    let settings = UNIT.find("[Unit]").map_or(UNIT, |start| &UNIT[start..]);
    let head = format!(
        "# The {role} of {operator}: `systemctl enable --now sotto-{role}`. See README.md.\n\n",
        role = site.role,
        operator = site.operator
    );
    head + &settings.replace("%i", site.role)
}

/// How an operator publishes its keys, from its folder. None if it has none to publish.
fn publish(plan: &Plan, party: Party) -> Option<String> {
    let mut keys = match party {
        Party::Leader | Party::Helper => {
            let url = plan.parties.site_of(party_role(party), party).url;
            format!("--signer operator.key --hpke-key server/hpke.toml --url {url}")
        }
        Party::Keeper => "--signer operator.key".to_owned(),
        Party::IssuerA | Party::IssuerB => {
            "--signer server/operator.key --encapsulation-key server/encapsulation.toml".to_owned()
        }
        _ => return None,
    };
    if party == Party::Leader {
        keys += " --gateway-key server/gateway.toml";
    } else if party == plan.parties.keeper() {
        keys += " --gateway-key server/log-gateway.toml";
    }
    Some(format!("sotto keys publish {keys} --trust server/trust.toml"))
}

/// Starts and stops a trial.
fn script(plan: &Plan) -> String {
    let (mut before, mut after) = (String::new(), String::new());
    for site in plan.parties.sites() {
        let first = ["witness", "log"].contains(&site.role);
        let lines = if first { &mut before } else { &mut after };
        let _ = writeln!(lines, "  start {} {}", site.role, site.operator);
    }
    let mut publishing = String::new();
    for party in plan.parties.operators() {
        if let Some(command) = publish(plan, party) {
            let _ = writeln!(publishing, "    (cd {} && {command})", plan.parties.name(party));
        }
    }
    format!(
        r#"#!/bin/sh
# Runs all servers of the trial in the background: sh run.sh start, sh run.sh stop.
set -e
cd "$(dirname "$0")"

# A server, once it accepts connections.
start() {{
  name=$2/data/$1
  rm -f "$name.ready"
  sotto serve "$1" --config "$2/server/$1.toml" --ready-file "$name.ready" \
    > /dev/null 2>> "$name.log" &
  pid=$!
  echo "$pid" >> pids
  until test -e "$name.ready"; do
    kill -0 "$pid" 2> /dev/null || {{ echo "$name.log says why it did not start" >&2; exit 1; }}
    sleep 0.1
  done
}}

case "$1" in
start)
  if test -e pids; then echo "it was started before: sh run.sh stop" >&2; exit 1; fi
{before}  # Devices take all keys from the log, so the operators publish theirs, once.
  if ! test -e published; then
{publishing}    touch published
  fi
{after}  ;;
stop)
  kill $(cat pids) 2> /dev/null || true
  for pid in $(cat pids); do
    for wait in $(seq 100); do kill -0 "$pid" 2> /dev/null || break; sleep 0.1; done
  done
  rm pids
  ;;
*)
  echo "usage: sh run.sh start|stop" >&2
  exit 2
  ;;
esac
"#
    )
}

/// What an operator does with its folder.
fn readme(plan: &Plan, party: Party) -> String {
    let operator = plan.parties.name(party);
    let sites: Vec<Site> =
        plan.parties.sites().into_iter().filter(|site| site.operator == *operator).collect();
    let roles: Vec<&str> = sites.iter().map(|site| site.role).collect();
    let mut text = format!("# {operator}\n\nThis operator runs:\n\n");
    for site in &sites {
        let _ = writeln!(text, "- the {}, at <{}>, port {}", site.role, site.url, site.port);
    }
    text +=
        "\nEverything in `server/` belongs into `/etc/sotto` of the machine. It holds secrets.\n";
    if [Party::Leader, Party::Helper, Party::Keeper].contains(&party) {
        text += "`operator.key` signs your keys for the log. Keep it off the machine.\n";
    }
    text += "Whoever made this folder has seen the keys. If they must not know them, make your own \
             before\nanything is published (`sotto keys`), and tell the others the public halves.\n\n\
             1. Put the certificate and its key into `server/tls/fullchain.pem` and\n   \
             `server/tls/privkey.pem`.\n\
             2. Install the program and the files, with a user of its own:\n\n   ```sh\n   \
             useradd --system --home-dir /var/lib/sotto --shell /usr/sbin/nologin sotto\n   \
             cp -r server /etc/sotto && chown -R sotto: /etc/sotto && chmod 0700 /etc/sotto\n   \
             install -m 0644 sotto-*.service /etc/systemd/system/\n   ```\n\n";
    let mut step = 3;
    let mut add = |title: &str, commands: &[String]| {
        let _ = writeln!(text, "{step}. {title}\n\n   ```sh");
        step += 1;
        for command in commands {
            let _ = writeln!(text, "   {command}");
        }
        text += "   ```\n\n";
    };
    let config = |role: &str| format!("--config /etc/sotto/{role}.toml");
    if let Some(site) = sites.iter().find(|site| is_replicated(plan, site)) {
        let role = site.role;
        add(
            &format!("Make the database `{role}` and its tables. It is yours alone:"),
            &[
                "sudo -u postgres createuser sotto".to_owned(),
                format!("sudo -u postgres createdb --owner sotto {role}"),
                format!("sudo -u sotto sotto db migrate {}", config(role)),
            ],
        );
    }
    let check =
        |role: &&str| format!("sudo -u sotto sotto serve {role} {} --check-config", config(role));
    add("Check the configuration:", &roles.iter().map(check).collect::<Vec<_>>());
    if let Some(command) = publish(plan, party) {
        add("Publish your keys, once log and witnesses run. Run this in this folder:", &[command]);
    }
    let start = |role: &&str| format!("systemctl enable --now sotto-{role}");
    add("Start:", &roles.iter().map(start).collect::<Vec<_>>());
    let status =
        |role: &&str| format!("sudo -u sotto sotto serve {role} {} --status", config(role));
    add("Look:", &roles.iter().map(status).collect::<Vec<_>>());
    text + "`compose.yaml`, beside this folder, runs the same servers as containers.\n"
}
