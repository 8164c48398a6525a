//! `sotto log list`: the entries of a log, all or those that are searched for.

use std::path::PathBuf;

use anyhow::{Result, anyhow, ensure};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use sotto_protocol::Moment;

use super::about::About;
use crate::log_source::LogArgs;
use crate::output::{Outcome, Output, WithHint};
use crate::time_text::parse_moment;
use crate::trust_file;
use crate::vocabulary::Time;

#[derive(Debug, Args)]
#[command(
    after_help = "The time is since when an entry has been public, as the witnesses prove it: that \
    needs their keys (--trust or --policy). Without them, nobody vouches for what the log shows. \
    --json also prints ids."
)]
pub(super) struct ListArgs {
    /// Only entries whose author's or operator's name contains this text.
    #[arg(long, value_name = "TEXT")]
    author: Option<String>,
    /// Only recipes whose name contains this text, or key sets by number, or results by predicate, or
    /// receipts by the id of their recipe.
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Only entries of this kind.
    #[arg(long, value_parser = ["recipe", "key_set", "result", "receipt"])]
    kind: Option<String>,
    /// Only entries that became public at this time or later.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only entries that became public before this time.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Log, witnesses and quorum (C2SP tlog-policy).
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// A trust file: use its policy.
    #[arg(long, value_name = "FILE", conflicts_with = "policy")]
    trust: Option<PathBuf>,
    #[command(flatten)]
    log: LogArgs,
}

/// Since when an entry has been public.
const SINCE: &str = "public_since";

/// An entry of the list.
#[derive(Debug, Serialize)]
struct Line {
    kind: &'static str,
    #[serde(flatten)]
    about: About,
    #[serde(flatten)]
    public_since: Time,
}

impl ListArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let trust = self.trust.as_deref().map(trust_file::read).transpose()?;
        let policy = self.policy.as_deref().map(super::read_policy).transpose()?;
        let policy = policy.or_else(|| Some(trust.as_ref()?.policy().clone()));
        let moment = |text: &Option<String>| text.as_deref().map(parse_moment).transpose();
        let (since, until) = (moment(&self.since)?, moment(&self.until)?);
        let by_time = since.is_some() || until.is_some();
        if by_time && policy.is_none() {
            return Err(anyhow!("only the witnesses prove times"))
                .hint("give --trust or --policy: the keys of the log and its witnesses");
        }
        let listed = policy.iter().flat_map(|policy| policy.logs()).find_map(|log| log.url.clone());
        let log = LogArgs { log: self.log.log.clone().or(listed), ..self.log.clone() };
        let mut snapshot = log.required(trust.as_ref())?.snapshot(policy.as_ref())?;
        let entries = snapshot.entries()?;
        let (size, parsed) = (snapshot.tree().size, entries.len() as u64);
        let mut lines: Vec<Line> = entries
            .iter()
            .map(|(index, entry)| (entry.kind().as_str(), About::entry(*index, entry)))
            .filter(|(kind, about)| self.is_wanted(kind, about))
            .map(|(kind, about)| Line { kind, about, public_since: Time::new(SINCE, None) })
            .collect();
        let mut timeless = 0_usize;
        if let Some(policy) = &policy {
            let indexes = lines.iter().filter_map(|line| line.about.index).collect::<Vec<_>>();
            let times = snapshot.public_since(&indexes, policy);
            ensure!(times.len() == lines.len(), "every entry has an index");
            for (line, time) in lines.iter_mut().zip(times) {
                line.public_since = Time::new(SINCE, time.map(|time| time.0));
            }
            timeless = lines.iter().filter(|line| line.public_since.seconds.is_none()).count();
        }
        if by_time {
            let begins = since.unwrap_or(Moment(0)).0;
            let ends = until.map_or(u64::MAX, |until| until.0);
            let wanted = |time: u64| begins <= time && time < ends;
            lines.retain(|line| line.public_since.seconds.is_some_and(wanted));
        }
        if output.json() {
            let log = &snapshot.tree().origin;
            output.value(&json!({ "log": log, "size": size, "entries": lines }))?;
            return Ok(Outcome::Yes);
        }
        for Line { kind, about, public_since } in &lines {
            let index = about.index.unwrap_or_default();
            let since = public_since.text();
            let since = since.as_deref().unwrap_or("-");
            let author = about.author.as_deref().unwrap_or_default();
            let name = about.name.as_deref().unwrap_or_default();
            // An id is long: its beginning finds it again.
            let shown = if about.release.is_some() { name.get(..12).unwrap_or(name) } else { name };
            let head = format!("{index:>5}  {since:<20}  {kind:<7}  ");
            output.entry(head, format!("{shown}  by {author}"))?;
            if let Some(release) = &about.release {
                output.entry("       ", release.words())?;
            }
        }
        output.remark(format!("{} of {size} entries", lines.len()));
        if parsed < size {
            output.remark(format!("{} entries cannot be parsed", size - parsed));
        }
        if timeless > 0 {
            output.remark(format!("{timeless} entries have no proven time"));
        }
        if policy.is_none() {
            output.remark("Nobody vouches for this list: give --trust or --policy.");
        }
        Ok(Outcome::Yes)
    }

    /// Whether kind, author and name are those that are searched for.
    fn is_wanted(&self, kind: &str, about: &About) -> bool {
        let contains = |text: &Option<String>, part: &Option<String>| match part {
            None => true,
            Some(part) => {
                let text = text.as_deref().unwrap_or_default().to_lowercase();
                text.contains(&part.to_lowercase())
            }
        };
        self.kind.as_deref().is_none_or(|wanted| wanted == kind)
            && contains(&about.author, &self.author)
            && contains(&about.name, &self.name)
    }
}
