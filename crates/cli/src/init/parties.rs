//! Who runs what, under which names, and where it listens.
//!
//! Devices demand that leader, helper, relay, both attesters and both issuers are seven operators,
//! and that neither the leader nor the relay runs the gateway of the log. So the helper's operator
//! runs the log, unless a keeper is named, and witnesses are run by operators of other parties.

use anyhow::{Result, ensure};
use clap::ValueEnum;
use sotto_wire::KeyName;

/// A party that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Party {
    Leader,
    Helper,
    Relay,
    AttesterA,
    AttesterB,
    IssuerA,
    IssuerB,
    /// Runs the log, if there is one.
    Keeper,
    /// The log itself: its origin.
    Log,
    Author,
}

impl Party {
    /// Those that always run servers.
    const OPERATORS: [Self; 7] = [
        Self::Leader,
        Self::Helper,
        Self::Relay,
        Self::AttesterA,
        Self::AttesterB,
        Self::IssuerA,
        Self::IssuerB,
    ];

    fn default_name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// The operators of the witnesses, with their names in the policy.
pub(super) const WITNESSES: [(Party, &str); 3] =
    [(Party::Relay, "relay"), (Party::AttesterA, "attester-a"), (Party::AttesterB, "attester-b")];

/// A server.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// The role, as `sotto serve` spells it.
    pub(super) role: &'static str,
    /// Its operator.
    pub(super) operator: KeyName,
    /// Its name among all servers.
    pub(super) name: String,
    pub(super) listen: String,
    pub(super) admin_listen: String,
    pub(super) url: String,
    /// The port that others connect to.
    pub(super) port: u16,
}

/// Where replicas listen on one machine: the first and the second leader, then the helpers.
const REPLICA_OFFSET: u16 = 11;
/// How much higher the operators' ports are.
const ADMIN_OFFSET: u16 = 20;

pub(super) struct Parties {
    names: Vec<(Party, KeyName)>,
    /// The first port of a trial on this machine.
    first_port: Option<u16>,
}

impl Parties {
    pub(super) fn new(
        domain: &str,
        chosen: &[(Party, KeyName)],
        first_port: Option<u16>,
    ) -> Result<Self> {
        let mut names = Vec::new();
        for party in Party::value_variants() {
            let mut of_party = chosen.iter().filter(|(other, _)| other == party);
            let name = match of_party.next() {
                Some((_, name)) => name.clone(),
                None if *party == Party::Keeper => continue,
                None => format!("{}.{domain}", party.default_name()).parse()?,
            };
            ensure!(of_party.next().is_none(), "{} has two names", party.default_name());
            check_name(&name)?;
            let other = names.iter().find(|(_, other)| *other == name);
            ensure!(other.is_none(), "two parties are called {name}: they are different operators");
            names.push((*party, name));
        }
        Ok(Self { names, first_port })
    }

    /// Whether all of it is a trial on this machine.
    pub(super) fn is_local(&self) -> bool {
        self.first_port.is_some()
    }

    pub(super) fn name(&self, party: Party) -> &KeyName {
        // Every party has one.
        let found = self.names.iter().find(|(other, _)| *other == party);
        found.map_or(&self.names[0].1, |(_, name)| name)
    }

    /// Who runs the log.
    pub(super) fn keeper(&self) -> Party {
        let is_named = self.names.iter().any(|(party, _)| *party == Party::Keeper);
        if is_named { Party::Keeper } else { Party::Helper }
    }

    /// Those that run servers.
    pub(super) fn operators(&self) -> Vec<Party> {
        let keeper = Some(self.keeper()).filter(|party| *party == Party::Keeper);
        Party::OPERATORS.into_iter().chain(keeper).collect()
    }

    /// Those that sign key sets.
    pub(super) fn publishers(&self) -> Vec<Party> {
        let publish = |party: &Party| {
            use Party::{Helper, IssuerA, IssuerB, Keeper, Leader};
            [Leader, Helper, Keeper, IssuerA, IssuerB].contains(party)
        };
        self.operators().into_iter().filter(publish).collect()
    }

    /// The log.
    pub(super) fn log(&self) -> Site {
        self.site_of("log", self.keeper())
    }

    /// All servers, in an order in which they can be started: each after those that it needs.
    pub(super) fn sites(&self) -> Vec<Site> {
        let witnesses = WITNESSES.iter().zip(1..).map(|((party, _), offset)| {
            self.site("witness", *party, offset, Some(8443), format!("witness-{offset}"))
        });
        let named = |role: &str, suffix: &str| format!("{role}{suffix}");
        let keeper = self.keeper();
        let log_port = (keeper == Party::Helper).then_some(8443);
        let rest = [
            ("log", keeper, 0, log_port, ""),
            ("relay", Party::Relay, 4, None, ""),
            ("issuer", Party::IssuerA, 8, None, "-a"),
            ("attester", Party::AttesterA, 7, None, "-a"),
            ("issuer", Party::IssuerB, 10, None, "-b"),
            ("attester", Party::AttesterB, 9, None, "-b"),
            ("helper", Party::Helper, 6, None, ""),
            ("leader", Party::Leader, 5, None, ""),
        ];
        let rest = rest.into_iter().map(|(role, party, offset, port, suffix)| {
            self.site(role, party, offset, port, named(role, suffix))
        });
        witnesses.chain(rest).collect()
    }

    /// The server of this role that an operator runs.
    pub(super) fn site_of(&self, role: &str, party: Party) -> Site {
        let operator = self.name(party);
        let found =
            self.sites().into_iter().find(|site| site.role == role && site.operator == *operator);
        found.unwrap_or_else(|| self.site("leader", party, 0, None, String::new()))
    }

    /// A server. The second one of an operator has another port (`other_port`) than that of https.
    fn site(
        &self,
        role: &'static str,
        party: Party,
        offset: u16,
        other_port: Option<u16>,
        name: String,
    ) -> Site {
        let operator = self.name(party).clone();
        let (port, admin, host, url) = match self.first_port {
            Some(first) => {
                let port = first + offset;
                (port, port + ADMIN_OFFSET, "127.0.0.1", format!("http://127.0.0.1:{port}/"))
            }
            None => {
                let port = other_port.unwrap_or(443);
                let shown = other_port.map(|port| format!(":{port}")).unwrap_or_default();
                let admin = if other_port.is_some() { 9081 } else { 9080 };
                (port, admin, "0.0.0.0", format!("https://{operator}{shown}/"))
            }
        };
        Site {
            role,
            operator,
            name,
            listen: format!("{host}:{port}"),
            admin_listen: format!("127.0.0.1:{admin}"),
            url,
            port,
        }
    }

    /// Where the two processes of a leader or a helper listen in containers, for requests and for
    /// the operator.
    pub(super) fn replicas(&self, site: &Site) -> [(String, String); 2] {
        [0, 1].map(|number| match self.first_port {
            Some(first) => {
                let pair = if site.role == "leader" { 0 } else { 2 };
                let port = first + REPLICA_OFFSET + pair + number;
                (format!("127.0.0.1:{port}"), format!("127.0.0.1:{}", port + ADMIN_OFFSET))
            }
            None => ("0.0.0.0:8443".to_owned(), "127.0.0.1:9080".to_owned()),
        })
    }

    /// The servers of an operator, in words.
    pub(super) fn duties(&self, operator: &KeyName) -> Vec<&'static str> {
        let sites = self.sites().into_iter().rev();
        sites.filter(|site| site.operator == *operator).map(|site| site.role).collect()
    }
}

/// A name is a folder, and the name of a host.
fn check_name(name: &KeyName) -> Result<()> {
    let text = name.as_str();
    let good = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    ensure!(
        text.starts_with(good) && text.chars().all(|letter| good(letter) || "-.".contains(letter)),
        "{text:?} is not the name of a host: use a-z, 0-9, hyphen and dot"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_servers_of_a_machine_share_a_port() {
        for first in [None, Some(7000)] {
            let parties = Parties::new("example", &[], first).unwrap();
            let sites = parties.sites();
            assert_eq!(sites.len(), 11);
            let mut seen = std::collections::BTreeSet::new();
            for site in &sites {
                // Without --local each operator has a machine.
                let machine = first.map_or(site.operator.as_str(), |_| "").to_owned();
                for address in [&site.listen, &site.admin_listen] {
                    let port = address.rsplit(':').next().unwrap().to_owned();
                    assert!(seen.insert((machine.clone(), port)), "{site:?}");
                }
            }
            for site in sites.iter().filter(|site| ["leader", "helper"].contains(&site.role)) {
                for address in parties.replicas(site).iter().flat_map(|(one, two)| [one, two]) {
                    let port = address.rsplit(':').next().unwrap().to_owned();
                    assert!(first.is_none() || seen.insert((String::new(), port)), "{address}");
                }
            }
        }
    }

    #[test]
    fn operators_have_names_of_their_own() {
        let named = |party, name: &str| vec![(party, name.parse().unwrap())];
        let good = Parties::new("example", &named(Party::Leader, "a.test"), None).unwrap();
        assert_eq!(good.site_of("leader", Party::Leader).url, "https://a.test/");
        assert_eq!(good.log().url, "https://helper.example:8443/");
        assert_eq!(good.operators().len(), 7);
        let eight = Parties::new("example", &named(Party::Keeper, "k.test"), None).unwrap();
        assert_eq!((eight.log().url.as_str(), eight.operators().len()), ("https://k.test/", 8));
        for bad in ["helper.example", "../a", "A.example", ".a"] {
            assert!(Parties::new("example", &named(Party::Leader, bad), None).is_err(), "{bad}");
        }
    }
}
