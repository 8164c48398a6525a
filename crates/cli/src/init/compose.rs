//! `compose.yaml`: every server as a container.
//!
//! A trial uses the network of the machine, so that the same files serve with and without
//! containers. Otherwise each operator runs the services of its own profile on its own machine.

use std::fmt::Write as _;

use super::Plan;
use super::configs::is_replicated;
use super::files::Files;
use super::parties::Site;

const HEAD: &str = "\
# All servers as containers, from the image of packaging/Containerfile. SOTTO_SOURCE is the folder of
# the source code, SOTTO_USER the owner of these files as uid:gid.
";

/// What all containers of Sotto have in common.
const SERVER: &str = r#"
x-server: &server
  image: sotto
  build:
    context: "${SOTTO_SOURCE:-.}"
    dockerfile: packaging/Containerfile
  user: "${SOTTO_USER:?the owner of these files as uid:gid}"
  read_only: true
  cap_drop: ["ALL"]
  security_opt: ["no-new-privileges:true"]
  restart: on-failure
  stop_grace_period: 30s

services:
"#;

/// What containers of others have in common.
const FOREIGN: &str = "    restart: on-failure\n    security_opt: [\"no-new-privileges:true\"]\n";

/// Adds the compose file, and the files of proxies.
pub(super) fn add(plan: &Plan, files: &mut Files) {
    let mut text = HEAD.to_owned();
    text += match plan.parties.is_local() {
        true => "# They listen on loopback, in the network of this machine.\n",
        false => {
            "# Each operator runs its own, on its own machine:\n\
                  #   docker compose --profile leader.example up --detach\n"
        }
    };
    text += SERVER;
    for site in plan.parties.sites() {
        match is_replicated(plan, &site) {
            true => {
                text += &replicated(plan, &site);
                let path = format!("{}/haproxy.cfg", site.operator);
                files.public(path, proxy_config(plan, &site));
            }
            false => text += &server(plan, &site, &site.name, None),
        }
    }
    if plan.postgres.is_some() {
        text += "volumes:\n  leader-database:\n  leader-socket:\n  helper-database:\n  \
                 helper-socket:\n";
    }
    files.public("compose.yaml", text);
}

/// One process: by itself, or the numbered one of several.
fn server(plan: &Plan, site: &Site, name: &str, replica: Option<usize>) -> String {
    let Site { role, operator, .. } = site;
    let mut text = format!(
        "  {name}:\n    <<: *server\n    command: [\"serve\", \"{role}\", \"--config\", \
         \"/etc/sotto/{role}.toml\"]\n"
    );
    let data = match replica {
        Some(1) => format!("{role}-2"),
        _ => (*role).to_owned(),
    };
    text += &placed(plan, site);
    let _ = write!(
        text,
        "    volumes:\n      - ./{operator}/server:/etc/sotto:ro\n      \
         - ./{operator}/data/{data}:/var/lib/sotto\n"
    );
    if let Some(number) = replica {
        let (listen, admin_listen) = &plan.parties.replicas(site)[number];
        let _ = write!(
            text,
            "      - {role}-socket:/run/postgresql\n    environment:\n      \
             SOTTO_LISTEN: \"{listen}\"\n      SOTTO_ADMIN_LISTEN: \"{admin_listen}\"\n    \
             depends_on: [\"{role}-database\"]\n"
        );
    } else if !plan.parties.is_local() {
        let _ = write!(
            text,
            "    environment:\n      SOTTO_LISTEN: \"0.0.0.0:8443\"\n    \
             ports: [\"{}:8443\"]\n",
            site.port
        );
    }
    text + "\n"
}

/// The network of a trial, or the profile of the operator.
fn placed(plan: &Plan, site: &Site) -> String {
    match plan.parties.is_local() {
        true => "    network_mode: host\n".to_owned(),
        false => format!("    profiles: [\"{}\"]\n", site.operator),
    }
}

/// Two processes, their database, the command that makes its tables, and a proxy with the address
/// of both.
fn replicated(plan: &Plan, site: &Site) -> String {
    let Site { role, operator, .. } = site;
    let placed = placed(plan, site);
    // The command that makes the tables needs it, too.
    let profiles = placed.replace("\"]", "\", \"migrate\"]");
    let database = format!(
        "  {role}-database:\n    image: docker.io/library/postgres:17\n{FOREIGN}{profiles}    \
         command: [\"-c\", \"listen_addresses=\"]\n    environment:\n      POSTGRES_USER: sotto\n      \
         POSTGRES_DB: {role}\n      # Who reaches the socket may use the database; nobody else does.\n      \
         POSTGRES_HOST_AUTH_METHOD: trust\n    volumes:\n      \
         - {role}-database:/var/lib/postgresql/data\n      - {role}-socket:/run/postgresql\n\n"
    );
    let migrate = format!(
        "  # docker compose run --rm {role}-migrate\n  {role}-migrate:\n    <<: *server\n    \
         profiles: [\"migrate\"]\n    restart: \"no\"\n    \
         command: [\"db\", \"migrate\", \"--config\", \"/etc/sotto/{role}.toml\"]\n    volumes:\n      \
         - ./{operator}/server:/etc/sotto:ro\n      - {role}-socket:/run/postgresql\n    \
         depends_on: [\"{role}-database\"]\n\n"
    );
    let [one, two] =
        [0, 1].map(|number| server(plan, site, &format!("{role}-{}", number + 1), Some(number)));
    let ports = match plan.parties.is_local() {
        true => String::new(),
        false => format!("    ports: [\"{}:8443\"]\n", site.port),
    };
    let proxy = format!(
        "  {role}-proxy:\n    image: docker.io/library/haproxy:3.0\n    \
         user: \"${{SOTTO_USER:?the owner of these files as uid:gid}}\"\n{FOREIGN}{placed}{ports}    \
         volumes:\n      - ./{operator}/haproxy.cfg:/usr/local/etc/haproxy/haproxy.cfg:ro\n    \
         depends_on: [\"{role}-1\", \"{role}-2\"]\n\n"
    );
    [database, migrate, one, two, proxy].concat()
}

/// A proxy that passes bytes on: the certificate stays with the servers, and it writes down nobody's
/// address.
fn proxy_config(plan: &Plan, site: &Site) -> String {
    let role = site.role;
    let (bind, resolvers) = match plan.parties.is_local() {
        true => (site.listen.as_str(), ""),
        false => (":8443", "resolvers containers\n  parse-resolv-conf\n\n"),
    };
    let mut text = format!(
        "# Passes connections on to both processes of the {role}. Without `log`, it writes down no \
         address.\n\
         {resolvers}defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 180s\n  timeout server 180s\n  \
         # A connection that cannot be made is tried at the other process.\n  retries 3\n  \
         option redispatch 1\n\n\
         listen {role}\n  bind {bind}\n  balance leastconn\n"
    );
    for (number, (listen, _)) in (1..).zip(plan.parties.replicas(site)) {
        let (address, resolved) = match plan.parties.is_local() {
            true => (listen, ""),
            false => {
                (format!("{role}-{number}:8443"), " resolvers containers init-addr last,libc,none")
            }
        };
        let _ = writeln!(text, "  server {role}-{number} {address} check inter 2s{resolved}");
    }
    text
}
