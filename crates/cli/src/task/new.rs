//! `sotto task new`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::{Args, ValueEnum};
use serde_json::json;
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::Task;
use sotto_vdaf::VdafConfig;
use sotto_wire::{Encode, HttpUrl, Role, TaskConfiguration, taskprov};
use zeroize::Zeroizing;

use crate::output::{Outcome, Output, WithHint};
use crate::task_file::{
    AggregatorPart, BatchModeName, CollectorPart, TaskFields, aggregator_text, client_text,
    collector_text,
};
use crate::time_text::{parse_moment, parse_seconds};
use crate::{keys, private_file, random};

#[derive(Debug, Args)]
#[command(
    override_usage = "sotto task new [OPTIONS] --out <DIR> --vdaf <VDAF>\n         \
    --leader <URL> --helper <URL>",
    after_help = "Example:\n  sotto task new --out commute --vdaf histogram --length 16 \\\n    \
    --leader https://leader.example/ --helper https://helper.example/\n\nGive each party its file over a \
    secure channel. client.toml is public, the others are secret."
)]
pub(crate) struct NewArgs {
    /// The folder for the four files; created if missing.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// What is computed.
    #[arg(long, value_enum)]
    vdaf: VdafName,
    /// Buckets of a histogram, or elements of a vector.
    #[arg(long, value_name = "N")]
    length: Option<u32>,
    /// Largest measurement (sum) or element (sum-vec).
    #[arg(long, value_name = "N")]
    max_measurement: Option<u64>,
    /// Largest number of true elements (multihot-count-vec).
    #[arg(long, value_name = "N")]
    max_weight: Option<u64>,
    /// Largest sum of a vector's elements (l1-bound-sum).
    #[arg(long, value_name = "N")]
    max_value: Option<u64>,
    /// Largest L2 norm of a vector (pine).
    #[arg(long, value_name = "N")]
    norm_bound: Option<u64>,
    /// The leader's base URL. All parties use exactly this spelling.
    #[arg(long, value_name = "URL")]
    leader: String,
    /// The helper's base URL.
    #[arg(long, value_name = "URL")]
    helper: String,
    /// Release no result over fewer reports than this.
    #[arg(long, value_name = "N", default_value_t = 100)]
    min_batch_size: u64,
    /// Report times are rounded down to multiples of this: seconds, or like 1h.
    #[arg(long, value_name = "SECONDS", default_value = "1h", value_parser = parse_seconds)]
    time_precision: u64,
    /// How reports are grouped into batches.
    #[arg(long, value_enum, default_value_t = BatchModeName::TimeInterval)]
    batch_mode: BatchModeName,
    /// Refuse reports before this time: POSIX seconds or 2026-11-15T08:00:00Z.
    #[arg(long, value_name = "TIME", requires = "task_end")]
    task_start: Option<String>,
    /// Refuse reports at or after this time.
    #[arg(long, value_name = "TIME", requires = "task_start")]
    task_end: Option<String>,
    /// Replace existing files.
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum VdafName {
    /// How many measurements are true.
    Count,
    /// The sum of integers.
    Sum,
    /// The sum of vectors of integers.
    SumVec,
    /// How many measurements fall into each bucket.
    Histogram,
    /// The sum of vectors of booleans, each with a bounded number of true elements.
    MultihotCountVec,
    /// The sum of vectors of integers, each with a bounded sum.
    L1BoundSum,
    /// The sum of vectors of signed integers, each with a bounded L2 norm.
    Pine,
}

/// A new task with the secrets of all parties.
#[derive(Debug)]
pub(crate) struct NewTask {
    pub(crate) leader: AggregatorPart,
    pub(crate) helper: AggregatorPart,
    pub(crate) collector: CollectorPart,
}

/// Makes the secrets of a task. Its id is derived from the configuration, so that a peer that gets
/// the configuration in band (taskprov) derives the same id.
pub(crate) fn new_task(configuration: TaskConfiguration) -> Result<NewTask> {
    let task = Task::new(taskprov::task_id(&configuration.to_bytes()), configuration)?;
    let verify_key: Zeroizing<[u8; 32]> = Zeroizing::new(random::bytes());
    let (leader_token, collector_token) = (random::text::<32>(), random::text::<32>());
    let key: HpkeKeypair = keys::generate(1);
    let aggregator = |role, collector_token: Option<&Zeroizing<String>>| AggregatorPart {
        task: task.clone(),
        role,
        verify_key: Secret::new(*verify_key),
        leader_token: Secret::new(leader_token.to_string()),
        collector_token: collector_token.map(|token| Secret::new(token.to_string())),
        collector_hpke_config: key.config().clone(),
    };
    Ok(NewTask {
        leader: aggregator(Role::Leader, Some(&collector_token)),
        helper: aggregator(Role::Helper, None),
        collector: CollectorPart {
            task: task.clone(),
            token: Secret::new(collector_token.to_string()),
            key,
        },
    })
}

impl NewArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let configuration = self.fields()?.configuration()?;
        let task = new_task(configuration)?;
        let files = self.write(&task)?;
        let id = task.leader.task.id().to_string();
        if output.json() {
            let files = files.iter().map(|(name, path)| json!({ "party": name, "file": path }));
            output.value(&json!({ "task_id": id, "files": files.collect::<Vec<_>>() }))?;
            return Ok(Outcome::Yes);
        }
        output.line(&id)?;
        for (name, path) in &files {
            let secrecy = if *name == "client" { "public" } else { "secret" };
            output.remark(format!("  {name:<9} {} ({secrecy})", path.display()));
        }
        // A task that is collected by time needs an interval.
        let which = match self.batch_mode {
            BatchModeName::TimeInterval => " --current",
            BatchModeName::LeaderSelected => "",
        };
        output.remark("give each party its file, and start leader and helper with theirs");
        let out = self.out.display();
        output.next(&[
            format!("sotto upload --task {out}/client.toml --measurement VALUE"),
            format!("sotto collect --task {out}/collector.toml{which}"),
        ]);
        Ok(Outcome::Yes)
    }

    fn fields(&self) -> Result<TaskFields> {
        for (name, url) in [("--leader", &self.leader), ("--helper", &self.helper)] {
            check_url(url).with_context(|| format!("{name} {url}"))?;
        }
        if same_server(&self.leader, &self.helper) {
            return Err(anyhow!("--leader and --helper are at the same address")).hint(
                "two operators that do not collude run them: whoever runs both sees every answer",
            );
        }
        let seconds = |text: &Option<String>| -> Result<Option<u64>> {
            Ok(text.as_deref().map(parse_moment).transpose()?.map(|moment| moment.0))
        };
        let vdaf = self.vdaf_config()?;
        vdaf.build()?;
        Ok(TaskFields {
            leader: self.leader.clone(),
            helper: self.helper.clone(),
            vdaf,
            batch_mode: self.batch_mode,
            min_batch_size: self.min_batch_size,
            time_precision: self.time_precision,
            task_start: seconds(&self.task_start)?,
            task_end: seconds(&self.task_end)?,
            // Enough entropy that nobody can guess the id of an unknown task.
            task_info: random::text::<16>().to_string(),
            encoded: String::new(),
        })
    }

    /// The VDAF. Requires exactly the options that it has.
    fn vdaf_config(&self) -> Result<VdafConfig> {
        let name =
            self.vdaf.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default();
        let mut given = [
            ("--length", self.length.map(u64::from)),
            ("--max-measurement", self.max_measurement),
            ("--max-weight", self.max_weight),
            ("--max-value", self.max_value),
            ("--norm-bound", self.norm_bound),
        ];
        let mut take = |option: &str| -> Result<u64> {
            let slot = given.iter_mut().find(|(name, _)| *name == option);
            slot.and_then(|(_, value)| value.take())
                .ok_or_else(|| anyhow!("--vdaf {name} needs {option}"))
        };
        let length = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let config = match self.vdaf {
            VdafName::Count => VdafConfig::count(),
            VdafName::Sum => VdafConfig::sum(take("--max-measurement")?),
            VdafName::SumVec => {
                VdafConfig::sum_vec(length(take("--length")?), take("--max-measurement")?)
            }
            VdafName::Histogram => VdafConfig::histogram(length(take("--length")?)),
            VdafName::MultihotCountVec => {
                VdafConfig::multihot_count_vec(length(take("--length")?), take("--max-weight")?)
            }
            VdafName::L1BoundSum => {
                VdafConfig::l1_bound_sum(length(take("--length")?), take("--max-value")?)
            }
            VdafName::Pine => VdafConfig::pine64(length(take("--length")?), take("--norm-bound")?),
        };
        match given.iter().find(|(_, value)| value.is_some()) {
            Some((option, _)) => Err(anyhow!("--vdaf {name} has no {option}")),
            None => Ok(config),
        }
    }

    /// Writes all four files, or none if one of them exists.
    fn write(&self, task: &NewTask) -> Result<Vec<(&'static str, PathBuf)>> {
        let texts = [
            ("leader", aggregator_text(&task.leader)?),
            ("helper", aggregator_text(&task.helper)?),
            ("client", Zeroizing::new(client_text(&task.leader.task)?)),
            ("collector", collector_text(&task.collector)?),
        ];
        let path = |name: &str| self.out.join(format!("{name}.toml"));
        std::fs::create_dir_all(&self.out)
            .with_context(|| format!("cannot make {}", self.out.display()))?;
        if !self.force
            && let Some((name, _)) = texts.iter().find(|(name, _)| exists(&path(name)))
        {
            return Err(anyhow!("{} already exists", path(name).display()))
                .hint("choose another --out, or give --force to replace the task");
        }
        for (name, text) in &texts {
            private_file::write(&path(name), text, self.force)?;
        }
        Ok(texts.iter().map(|(name, _)| (*name, path(name))).collect())
    }
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Whether two URLs lead to one server, whatever their paths are.
pub(crate) fn same_server(one: &str, other: &str) -> bool {
    let authority = |url: &str| HttpUrl::parse(url).map(|url| url.origin_authority()).ok();
    authority(one).is_some_and(|one| Some(one) == authority(other))
}

/// Catches typing mistakes. Otherwise the spelling is up to the parties.
fn check_url(url: &str) -> Result<()> {
    match HttpUrl::parse(url) {
        Ok(url) if url.query().is_none() => Ok(()),
        _ => Err(anyhow!("not a base URL")).hint("write it like https://leader.example/"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: NewArgs,
    }

    fn parse(options: &str) -> NewArgs {
        let fixed = "new --out x --leader https://l.example/ --helper https://h.example/";
        Line::try_parse_from(fixed.split(' ').chain(options.split(' '))).unwrap().args
    }

    #[test]
    fn each_vdaf_takes_its_own_parameters() {
        for (options, config) in [
            ("--vdaf count", VdafConfig::count()),
            ("--vdaf sum --max-measurement 9", VdafConfig::sum(9)),
            ("--vdaf sum-vec --length 4 --max-measurement 1", VdafConfig::sum_vec(4, 1)),
            ("--vdaf histogram --length 16", VdafConfig::histogram(16)),
            (
                "--vdaf multihot-count-vec --length 5 --max-weight 2",
                VdafConfig::multihot_count_vec(5, 2),
            ),
            ("--vdaf l1-bound-sum --length 5 --max-value 7", VdafConfig::l1_bound_sum(5, 7)),
            ("--vdaf pine --length 9 --norm-bound 6", VdafConfig::pine64(9, 6)),
        ] {
            assert_eq!(parse(options).vdaf_config().unwrap(), config, "{options}");
        }
        for (options, message) in [
            ("--vdaf histogram", "--vdaf histogram needs --length"),
            ("--vdaf count --length 3", "--vdaf count has no --length"),
            ("--vdaf sum --max-value 3", "--vdaf sum needs --max-measurement"),
        ] {
            assert_eq!(parse(options).vdaf_config().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn urls_are_looked_at() {
        for good in ["https://a.example", "http://127.0.0.1:8080/x/"] {
            assert!(check_url(good).is_ok(), "{good}");
        }
        for bad in
            ["", "a.example", "https://", "https:///x", "ftp://a", "https://a/?b", "http://a b"]
        {
            assert!(check_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn one_server_is_not_two_operators() {
        let fields = |helper: &str| {
            NewArgs { helper: helper.to_owned(), ..parse("--vdaf count") }.fields().map(drop)
        };
        for same in ["https://l.example/", "https://L.example:443", "https://l.example/helper/"] {
            let error = fields(same).unwrap_err().to_string();
            assert!(error.contains("the same address"), "{error}");
        }
        fields("https://l.example:8443/").unwrap();
    }

    #[test]
    fn ids_are_derived_and_never_the_same() {
        let configuration = || parse("--vdaf count").fields().unwrap().configuration().unwrap();
        let (a, b) = (new_task(configuration()).unwrap(), new_task(configuration()).unwrap());
        assert_ne!(a.leader.task.id(), b.leader.task.id());
        let derived = taskprov::task_id(a.leader.task.encoded_configuration());
        assert_eq!(*a.leader.task.id(), derived);
        assert_eq!(a.leader.verify_key, a.helper.verify_key);
        assert_eq!(a.leader.leader_token, a.helper.leader_token);
        assert_eq!(a.leader.collector_token.as_ref(), Some(&a.collector.token));
        assert_ne!(a.leader.leader_token, a.collector.token);
        assert_ne!(a.leader.verify_key, b.leader.verify_key);
    }
}
