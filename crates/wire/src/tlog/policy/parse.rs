//! Parses a policy line by line. A line refers only to names defined on earlier lines.

use std::collections::BTreeSet;

use crate::format::FormatError;
use crate::limits::MAX_TLOG_POLICY_LEN;
use crate::note::{KeyType, VerifierKey};
use crate::tlog::parse_decimal;
use crate::tlog::policy::{Group, MAX_POLICY_ITEMS, Member, PolicyLog, PolicyWitness, TlogPolicy};

/// The name of the quorum that is always met.
const NONE: &str = "none";

/// What the lines so far define.
#[derive(Default)]
struct Lines {
    logs: Vec<PolicyLog>,
    witnesses: Vec<PolicyWitness>,
    groups: Vec<Group>,
    /// The names that are already members of a group.
    used: BTreeSet<String>,
    /// The quorum line; the inner value is `None` for `quorum none`.
    quorum: Option<Option<Member>>,
}

pub(super) fn parse(text: &str) -> Result<TlogPolicy, FormatError> {
    if text.len() > MAX_TLOG_POLICY_LEN {
        return Err(FormatError::new("the policy is too long"));
    }
    // A file truncated within its last line could name another quorum.
    let text = text
        .strip_suffix('\n')
        .ok_or(FormatError::new("the policy does not end in a newline: it may be cut off"))?;
    let mut lines = Lines::default();
    for (index, line) in text.split('\n').enumerate() {
        lines.add(line).map_err(|error| error.at_line(index + 1))?;
    }
    let quorum = lines.quorum.ok_or(FormatError::new("there is no quorum line"))?;
    let Lines { logs, witnesses, groups, .. } = lines;
    Ok(TlogPolicy { logs, witnesses, groups, quorum })
}

impl Lines {
    fn add(&mut self, line: &str) -> Result<(), FormatError> {
        if line.bytes().any(|byte| (byte < 0x20 && byte != b'\t') || byte == 0x7f) {
            return Err(FormatError::new("there is a control character"));
        }
        // Other white space is part of names: the meaning must not depend on the Unicode version.
        let mut words = line.split([' ', '\t']).filter(|word| !word.is_empty());
        match words.next() {
            None => Ok(()),
            Some(word) if word.starts_with('#') => Ok(()),
            Some("log") => self.add_log(words),
            Some("witness") => self.add_witness(words),
            Some("group") => self.add_group(words),
            Some("quorum") => self.add_quorum(words),
            Some(_) => Err(FormatError::new("not a log, witness, group or quorum line")),
        }
    }

    fn add_log<'a>(&mut self, mut words: impl Iterator<Item = &'a str>) -> Result<(), FormatError> {
        let key = key(words.next(), KeyType::Ed25519)?;
        let url = words.next().map(str::to_owned);
        end(words)?;
        if self.logs.iter().any(|log| log.key.public_key() == key.public_key()) {
            return Err(FormatError::new("another log has the same key"));
        }
        push(&mut self.logs, PolicyLog { key, url })
    }

    fn add_witness<'a>(
        &mut self,
        mut words: impl Iterator<Item = &'a str>,
    ) -> Result<(), FormatError> {
        let name = self.new_name(words.next())?;
        let key = key(words.next(), KeyType::CosignatureV1)?;
        let url = words.next().map(str::to_owned);
        end(words)?;
        if self.witnesses.iter().any(|other| other.key.public_key() == key.public_key()) {
            return Err(FormatError::new("another witness has the same key"));
        }
        push(&mut self.witnesses, PolicyWitness { name, key, url })
    }

    fn add_group<'a>(
        &mut self,
        mut words: impl Iterator<Item = &'a str>,
    ) -> Result<(), FormatError> {
        let name = self.new_name(words.next())?;
        let threshold = words.next().ok_or(FormatError::new("the group has no threshold"))?;
        let mut members = Vec::new();
        for word in words {
            members.push(self.member(word)?);
            if !self.used.insert(word.to_owned()) {
                return Err(FormatError::new("a name is a member more than once"));
            }
        }
        let threshold = match threshold {
            "any" => 1,
            "all" => members.len(),
            number => usize::try_from(parse_decimal(number)?).unwrap_or(usize::MAX),
        };
        if !(1..=members.len()).contains(&threshold) {
            return Err(FormatError::new("the threshold is not from 1 to the number of members"));
        }
        push(&mut self.groups, Group { name, threshold, members })
    }

    fn add_quorum<'a>(
        &mut self,
        mut words: impl Iterator<Item = &'a str>,
    ) -> Result<(), FormatError> {
        let name = words.next().ok_or(FormatError::new("the quorum has no name"))?;
        end(words)?;
        let quorum = if name == NONE { None } else { Some(self.member(name)?) };
        match self.quorum.replace(quorum) {
            None => Ok(()),
            Some(_) => Err(FormatError::new("there is a second quorum line")),
        }
    }

    /// The witness or group with this name.
    fn member(&self, name: &str) -> Result<Member, FormatError> {
        let witness = self.witnesses.iter().position(|witness| witness.name == name);
        let group = || self.groups.iter().position(|group| group.name == name);
        witness
            .map(Member::Witness)
            .or_else(|| group().map(Member::Group))
            .ok_or(FormatError::new("no earlier line defines this name"))
    }

    /// A name that is not yet taken.
    fn new_name(&self, name: Option<&str>) -> Result<String, FormatError> {
        let name = name.ok_or(FormatError::new("the name is missing"))?;
        match name == NONE || self.member(name).is_ok() {
            true => Err(FormatError::new("the name is taken")),
            false => Ok(name.to_owned()),
        }
    }
}

fn key(word: Option<&str>, key_type: KeyType) -> Result<VerifierKey, FormatError> {
    let key: VerifierKey = word.ok_or(FormatError::new("the key is missing"))?.parse()?;
    match key.key_type() == key_type {
        true => Ok(key),
        false => Err(FormatError::new("the key is of the wrong type for this line")),
    }
}

fn push<T>(items: &mut Vec<T>, item: T) -> Result<(), FormatError> {
    if items.len() == MAX_POLICY_ITEMS {
        return Err(FormatError::new("there are too many lines of this kind"));
    }
    items.push(item);
    Ok(())
}

fn end<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<(), FormatError> {
    match words.next() {
        None => Ok(()),
        Some(_) => Err(FormatError::new("unexpected text at the end of the line")),
    }
}
