//! `sotto upload`: makes reports from measurements and sends them, as devices do.

mod prepared;
mod source;
mod unsent;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::slice;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use indicatif::ProgressBar;
use rand_core::CryptoRng;
use serde_json::json;
use sotto_client::{PreparedReport, UploadError, UploadOutcome, Uploader};
use sotto_protocol::{Moment, Task};
use sotto_vdaf::Measurement;
use sotto_wire::ReportError;

use self::prepared::{PreparedReader, PreparedWriter};
use self::source::Source;
use self::unsent::Unsent;
use crate::connection::{ConnectionArgs, retry};
use crate::output::{Outcome, Output, WithHint};
use crate::patience::{Limit, Over, Patience};
use crate::random;
use crate::task_file::TaskFile;
use crate::time_text::{now, parse_moment, parse_seconds};
use crate::workers::{lock, work};

/// Uploads measurements.
#[derive(Debug, Args)]
#[command(
    after_help = "A measurement is a number (sum, histogram), true or false (count), or a JSON list \
    (vectors), by the task's VDAF.\n\nExamples:\n  \
    sotto upload --task client.toml --measurement 3 --measurement 5\n  \
    seq 0 15 | sotto upload --task client.toml --file -\n\nReports that cannot be sent are kept beside \
    the task file (client.unsent), sealed; --resume sends them.\n\nExit code 1: some reports were \
    refused."
)]
pub(crate) struct UploadArgs {
    /// A task file; the client's is enough.
    #[arg(long, value_name = "FILE")]
    task: PathBuf,
    /// A measurement; may be given several times.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    measurement: Vec<String>,
    /// A file with one measurement per line; - for stdin.
    #[arg(long, value_name = "FILE", conflicts_with = "measurement")]
    file: Option<PathBuf>,
    /// The time of the measurements: POSIX seconds or 2026-11-15T08:00:00Z.
    #[arg(long, value_name = "TIME", default_value = "now")]
    time: String,
    /// Reports in flight at once, each on its own connection.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    concurrency: u16,
    /// How many times each request is tried.
    #[arg(long, value_name = "N", default_value_t = 8)]
    attempts: u32,
    /// Only make the reports, and write them to --out: for each, its length in 4 bytes, big-endian,
    /// then its bytes.
    #[arg(long, requires = "out")]
    prepare_only: bool,
    /// The file for --prepare-only.
    #[arg(long, value_name = "FILE", requires = "prepare_only")]
    out: Option<PathBuf>,
    /// Upload the reports from a file that --prepare-only wrote.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["measurement", "file", "prepare_only"])]
    prepared: Option<PathBuf>,
    /// Upload the reports that an earlier upload of this task could not send.
    #[arg(long, conflicts_with_all = ["measurement", "file", "prepared", "prepare_only"])]
    resume: bool,
    /// Give up when a report has not been answered for this long, with all attempts: seconds, or
    /// like 10m. Reports that could not be sent are kept.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "1m")]
    deadline: u64,
    /// Announce the task in every request (taskprov).
    #[arg(long)]
    taskprov: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// The leader no longer has the key that the report is sealed to.
const OUTDATED: UploadOutcome = UploadOutcome::Rejected(ReportError::OutdatedConfig);
/// The leader has the report already.
const REPLAYED: UploadOutcome = UploadOutcome::Rejected(ReportError::ReportReplayed);

/// The outcome of the reports so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) accepted: u64,
    pub(crate) rejected: BTreeMap<String, u64>,
    pub(crate) bytes: u64,
}

impl UploadArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        let task = TaskFile::read_task(&self.task)?;
        let kept = self.task.with_extension("unsent");
        let stored = match &self.prepared {
            None if self.resume => Some(&kept),
            other => other.as_ref(),
        };
        if self.resume && !kept.exists() {
            output.remark("nothing to resume: no report is waiting");
            return Tally::default().print(output, 0.0);
        }
        if let Some(path) = stored {
            let reader = PreparedReader::open(path)?;
            let length = reader.expected();
            return self.upload(output, task, length, reader, |_, report, _| {
                PreparedReport::from_bytes(report.clone()).context("a damaged report")
            });
        }
        if kept.exists() {
            let kept = kept.display();
            output.remark(format!("{kept} has reports of an earlier upload: --resume sends them"));
        }
        let moment = parse_moment(&self.time)?;
        let source = self.source(&task)?;
        let length = source.expected();
        let prepare = |device: &Uploader, measurement: &Measurement, rng: &mut dyn CryptoRng| {
            device.prepare(measurement, self.moment(moment)?, rng).or_else(explain)
        };
        match &self.out {
            Some(path) => {
                let writer = Mutex::new(PreparedWriter::create(path)?);
                self.prepare(output, task, source, &writer, prepare)
            }
            None => self.upload(output, task, length, source, prepare),
        }
    }

    /// The device, and how long it waits.
    fn device(
        &self,
        task: Task,
        bar: &ProgressBar,
        output: &Output,
    ) -> Result<(Uploader, Patience)> {
        let (shown, told) = (bar.clone(), output.clone());
        let tell = move |line: &str| shown.suspend(|| told.remark(line));
        let patience = Patience::new(Limit::Exchange(Duration::from_secs(self.deadline)), tell)?;
        patience.name_servers(&task);
        let transport = patience.watch(self.connection.transport(self.concurrency.into())?);
        let device =
            Uploader::new(task, transport).with_retry(patience.retry(retry(self.attempts)));
        Ok((if self.taskprov { device.with_taskprov() } else { device }, patience))
    }

    /// `now` is the time at which each report is made; any other time is the same for all reports.
    fn moment(&self, fixed: Moment) -> Result<Moment> {
        if self.time == "now" { now() } else { Ok(fixed) }
    }

    fn source(&self, task: &Task) -> Result<Source> {
        let config = task.vdaf().config().clone();
        match &self.file {
            Some(path) => Source::lines(config, path),
            None if self.measurement.is_empty() => Err(anyhow!("nothing to upload"))
                .hint("give --measurement VALUE or --file FILE, or --resume an upload"),
            None => Ok(Source::values(config, self.measurement.clone())),
        }
    }

    fn upload<T: Send>(
        &self,
        output: &Output,
        task: Task,
        length: Option<u64>,
        mut source: impl Iterator<Item = Result<T>> + Send,
        prepare: impl Fn(&Uploader, &T, &mut dyn CryptoRng) -> Result<PreparedReport> + Sync,
    ) -> Result<Outcome> {
        let started = Instant::now();
        let (tally, unsent) = (Mutex::new(Tally::default()), Mutex::new(self.unsent()));
        let bar = bar(output, "uploading", length);
        let (device, patience) = self.device(task, &bar, output)?;
        let worked = work(source.by_ref(), self.concurrency.into(), &bar, |item, rng| {
            let mut report = prepare(&device, &item, rng)?;
            let mut sent = device.upload(slice::from_ref(&report), rng);
            // The keys have changed. A prepared report with the old keys is not made again.
            if self.prepared.is_none() && !self.resume && matches!(&sent, Ok(o) if *o == [OUTDATED])
            {
                report = prepare(&device, &item, rng)?;
                sent = device.upload(slice::from_ref(&report), rng);
            }
            match sent {
                Ok(outcomes) => lock(&tally).add(&report, self.judged(outcomes)),
                Err(error) => {
                    lock(&unsent).keep(report.as_bytes())?;
                    return Err(error.into());
                }
            }
            Ok(())
        });
        bar.finish_and_clear();
        let tally = tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut unsent = unsent.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Err(error) = worked else {
            unsent.finish(true)?;
            return tally.print(output, started.elapsed().as_secs_f64());
        };
        let error = match (patience.over(), patience.silent()) {
            (Some(Over::Signal), _) => anyhow!("stopped by a signal"),
            (_, Some(silent)) => anyhow!("{silent}"),
            (_, None) => error,
        };
        let error = error.context(format!("stopped after {} accepted reports", tally.accepted));
        // The rest is made and kept too, as far as the keys are known: nobody is asked any more.
        patience.limit(Limit::Total(Duration::ZERO));
        let mut rng = random::system();
        let mut rest = source.map(|item| prepare(&device, &item?, &mut rng));
        let lost = loop {
            match rest.next() {
                Some(Ok(report)) => unsent.keep(report.as_bytes())?,
                other => break other.is_some(),
            }
        };
        // A file that cannot be read to its end stays as it is.
        let kept = unsent.finish(!lost)?;
        if kept == 0 {
            return Err(error).hint("nothing was kept: run the same command again");
        }
        let (path, task) = (unsent.path.display(), self.task.display());
        let lost = if lost { "; give the other measurements again" } else { "" };
        Err(error).hint(format!(
            "{kept} reports are kept in {path}: `sotto upload --task {task} --resume` sends them{lost}"
        ))
    }

    /// Where reports are kept that could not be sent.
    fn unsent(&self) -> Unsent {
        Unsent::new(self.task.with_extension("unsent"), self.resume)
    }

    /// A report that was kept may have arrived, and only its answer was lost.
    fn judged(&self, outcomes: Vec<UploadOutcome>) -> Vec<UploadOutcome> {
        let arrived = |outcome| match outcome {
            REPLAYED if self.resume => UploadOutcome::Accepted,
            other => other,
        };
        outcomes.into_iter().map(arrived).collect()
    }

    fn prepare(
        &self,
        output: &Output,
        task: Task,
        source: Source,
        writer: &Mutex<PreparedWriter>,
        prepare: impl Fn(&Uploader, &Measurement, &mut dyn CryptoRng) -> Result<PreparedReport> + Sync,
    ) -> Result<Outcome> {
        let bar = bar(output, "preparing", source.expected());
        let (device, _) = self.device(task, &bar, output)?;
        work(source, self.concurrency.into(), &bar, |measurement, rng| {
            let report = prepare(&device, &measurement, rng)?;
            lock(writer).write(report.as_bytes())
        })?;
        bar.finish_and_clear();
        let (reports, bytes) = lock(writer).finish()?;
        if output.json() {
            output.value(&json!({ "prepared": reports, "bytes": bytes }))?;
        } else {
            output.line(format!("prepared {reports} reports, {bytes} bytes"))?;
        }
        Ok(Outcome::Yes)
    }
}

impl Tally {
    /// Adds a report that was uploaded.
    pub(crate) fn add(&mut self, report: &PreparedReport, outcomes: Vec<UploadOutcome>) {
        self.bytes += report.as_bytes().len() as u64;
        for outcome in outcomes {
            match outcome {
                UploadOutcome::Accepted => self.accepted += 1,
                UploadOutcome::Rejected(error) => {
                    *self.rejected.entry(error.name().to_owned()).or_default() += 1;
                }
            }
        }
    }

    fn print(&self, output: &Output, elapsed_s: f64) -> Result<Outcome> {
        let refused: u64 = self.rejected.values().sum();
        if output.json() {
            output.value(&json!({
                "accepted": self.accepted,
                "rejected": self.rejected,
                "bytes": self.bytes,
                "elapsed_s": elapsed_s,
            }))?;
        } else {
            output.line(format!("{} accepted, {refused} rejected", self.accepted))?;
            for (reason, count) in &self.rejected {
                output.line(format!("  {reason} {count}"))?;
            }
            output.remark(format!("{} bytes in {elapsed_s:.1} s", self.bytes));
        }
        Ok(if refused == 0 { Outcome::Yes } else { Outcome::No })
    }
}

/// Adds hints to failures that devices see.
fn explain<T>(error: UploadError) -> Result<T> {
    match error {
        UploadError::FetchKeys { .. } => Err(error).hint(
            "HPKE keys come from the aggregators: are both running, at the URLs of the task?",
        ),
        _ => Err(error.into()),
    }
}

fn bar(output: &Output, name: &'static str, length: Option<u64>) -> ProgressBar {
    match length {
        Some(length) => output.bar(name, length),
        None => output.spinner(name),
    }
}
