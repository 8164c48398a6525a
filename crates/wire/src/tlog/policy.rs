//! Trust policies: the known logs, and the witnesses that must have cosigned (C2SP tlog-policy).

mod parse;

use std::fmt;

use crate::format::FormatError;
use crate::note::VerifierKey;

/// The maximum number of logs, of witnesses and of groups in a policy. The specification asks for
/// 32.
pub const MAX_POLICY_ITEMS: usize = 64;

/// A policy: decides when a checkpoint is trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlogPolicy {
    logs: Vec<PolicyLog>,
    witnesses: Vec<PolicyWitness>,
    groups: Vec<Group>,
    quorum: Option<Member>,
}

/// A log that the policy knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyLog {
    /// Its key. The name is also the origin of its checkpoints.
    pub key: VerifierKey,
    /// Its URL.
    pub url: Option<String>,
}

/// A witness that the policy knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyWitness {
    /// Its name in the policy, which has no meaning elsewhere.
    pub name: String,
    /// Its key.
    pub key: VerifierKey,
    /// Its URL.
    pub url: Option<String>,
}

/// At least `threshold` of the members.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    name: String,
    threshold: usize,
    members: Vec<Member>,
}

/// A witness or a group, by its index in the policy. A group's members come before it, so there are
/// no cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Witness(usize),
    Group(usize),
}

impl TlogPolicy {
    /// Parses a policy. It may have comments and free spacing; text beyond ASCII must be UTF-8.
    ///
    /// Log keys must have the type for notes, witness keys the type for cosignatures. Names are
    /// unique, each is a member of at most one group, and no two logs or two witnesses share a
    /// public key: otherwise one key could count twice.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        parse::parse(text)
    }

    /// The known logs.
    pub fn logs(&self) -> &[PolicyLog] {
        &self.logs
    }

    /// The known witnesses, whether or not the quorum counts them.
    pub fn witnesses(&self) -> &[PolicyWitness] {
        &self.witnesses
    }

    /// The log keys with this origin. Usually one; two while a log changes its key.
    pub fn log_keys<'a>(&'a self, origin: &'a str) -> impl Iterator<Item = &'a VerifierKey> {
        self.logs.iter().map(|log| &log.key).filter(move |key| key.name().as_str() == origin)
    }

    /// Whether a checkpoint needs any cosignature. It does not under `quorum none`.
    pub fn requires_witnesses(&self) -> bool {
        self.quorum.is_some()
    }

    /// Whether the witnesses for which `is_signed` is true meet the quorum.
    pub fn quorum_met(&self, is_signed: &dyn Fn(&str) -> bool) -> bool {
        let time = |name: &str| is_signed(name).then_some(0);
        !self.requires_witnesses() || self.quorum_time(&time).is_some()
    }

    /// The smallest time `t` such that the witnesses whose time is at most `t` meet the quorum.
    /// `None` if all of them together do not meet it, and under `quorum none`, which proves no
    /// time.
    pub fn quorum_time(&self, times: &dyn Fn(&str) -> Option<u64>) -> Option<u64> {
        self.evaluate(times, |times| times.sort_unstable())
    }

    /// The largest time `t` such that the witnesses whose time is at least `t` meet the quorum.
    /// `None` where [`quorum_time`](Self::quorum_time) returns `None`.
    pub fn quorum_freshness(&self, times: &dyn Fn(&str) -> Option<u64>) -> Option<u64> {
        self.evaluate(times, |times| times.sort_unstable_by(|a, b| b.cmp(a)))
    }

    /// A group is met as soon as its `threshold`-th member is, with members taken in the given
    /// order. As each name is in at most one group, members are met independently, and this holds
    /// at every depth.
    fn evaluate(
        &self,
        times: &dyn Fn(&str) -> Option<u64>,
        sort: impl Fn(&mut Vec<u64>),
    ) -> Option<u64> {
        let witnesses: Vec<_> = self.witnesses.iter().map(|witness| times(&witness.name)).collect();
        let mut groups: Vec<Option<u64>> = Vec::with_capacity(self.groups.len());
        let time_of = |member: &Member, groups: &[Option<u64>]| match *member {
            Member::Witness(index) => witnesses.get(index).copied().flatten(),
            Member::Group(index) => groups.get(index).copied().flatten(),
        };
        for group in &self.groups {
            let mut met: Vec<u64> =
                group.members.iter().filter_map(|member| time_of(member, &groups)).collect();
            sort(&mut met);
            groups.push(group.threshold.checked_sub(1).and_then(|last| met.get(last).copied()));
        }
        self.quorum.as_ref().and_then(|quorum| time_of(quorum, &groups))
    }

    fn name_of(&self, member: &Member) -> &str {
        match *member {
            Member::Witness(index) => self.witnesses.get(index).map(|item| item.name.as_str()),
            Member::Group(index) => self.groups.get(index).map(|item| item.name.as_str()),
        }
        .unwrap_or_default()
    }
}

impl fmt::Display for TlogPolicy {
    /// The policy in its simplest form: logs, witnesses, groups, quorum.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url =
            |url: &Option<String>| url.as_ref().map(|url| format!(" {url}")).unwrap_or_default();
        for log in &self.logs {
            writeln!(f, "log {}{}", log.key, url(&log.url))?;
        }
        for witness in &self.witnesses {
            writeln!(f, "witness {} {}{}", witness.name, witness.key, url(&witness.url))?;
        }
        for group in &self.groups {
            write!(f, "group {} {}", group.name, group.threshold)?;
            group.members.iter().try_for_each(|member| write!(f, " {}", self.name_of(member)))?;
            writeln!(f)?;
        }
        let quorum = self.quorum.as_ref().map_or("none", |member| self.name_of(member));
        writeln!(f, "quorum {quorum}")
    }
}

#[cfg(test)]
mod tests;
