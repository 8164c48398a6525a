//! Reports made beforehand, in a file: for each, its length in four bytes, big-endian, then its
//! bytes (the format of `sotto upload --prepared`). They are made once for each set of parameters
//! and kept.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto_protocol::Task;
use sotto_protocol::client::produce_report;
use sotto_wire::{HpkeConfig, Time};

use crate::workload::Workload;

/// The number of reports that a thread makes before it writes them.
const CHUNK: u64 = 256;

/// A file of reports of one length.
#[derive(Debug)]
pub(crate) struct Prepared {
    file: File,
    report_len: usize,
    count: u64,
}

impl Prepared {
    /// Opens the file if it has `count` reports.
    pub(crate) fn open(path: &Path, count: u64) -> Result<Option<Self>> {
        let Ok(file) = File::open(path) else { return Ok(None) };
        let mut length = [0; 4];
        if file.read_exact_at(&mut length, 0).is_err() {
            return Ok(None);
        }
        let report_len = u32::from_be_bytes(length) as usize;
        let whole = file.metadata()?.len() == count * (report_len as u64 + 4);
        Ok(whole.then_some(Self { file, report_len, count }))
    }

    /// Makes `count` reports, on all cores, and writes them.
    pub(crate) fn make(
        path: &Path,
        count: u64,
        workload: Workload,
        task: &Task,
        keys: (&HpkeConfig, &HpkeConfig),
        time: Time,
    ) -> Result<Self> {
        let partial = path.with_extension("partial");
        let output = Mutex::new(BufWriter::new(File::create(&partial)?));
        let next = AtomicU64::new(0);
        let worker = || -> Result<()> {
            loop {
                let begin = next.fetch_add(CHUNK, Ordering::Relaxed);
                if begin >= count {
                    return Ok(());
                }
                let mut rng = ChaCha20Rng::seed_from_u64(begin);
                let mut bytes = Vec::new();
                for index in begin..count.min(begin + CHUNK) {
                    let measurement = workload.measurement(index);
                    let report =
                        produce_report(task, keys.0, keys.1, &measurement, time, None, &mut rng)?;
                    bytes.extend_from_slice(&u32::try_from(report.len())?.to_be_bytes());
                    bytes.extend_from_slice(&report);
                }
                output.lock().map_err(|_| anyhow!("a thread failed"))?.write_all(&bytes)?;
            }
        };
        thread::scope(|scope| {
            let threads = thread::available_parallelism().map_or(1, NonZero::get);
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().try_for_each(|worker| match worker.join() {
                Ok(result) => result,
                Err(_) => Err(anyhow!("a thread panicked")),
            })
        })?;
        output.into_inner().map_err(|_| anyhow!("a thread failed"))?.flush()?;
        fs::rename(&partial, path)?;
        Self::open(path, count)?.context("the file that was just written is incomplete")
    }

    /// The number of reports.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The length of each report in bytes.
    pub(crate) fn report_len(&self) -> usize {
        self.report_len
    }

    /// Reads report `index`.
    pub(crate) fn read(&self, index: u64, report: &mut Vec<u8>) -> Result<()> {
        ensure!(index < self.count, "no such report");
        report.resize(self.report_len, 0);
        let place = index * (self.report_len as u64 + 4) + 4;
        Ok(self.file.read_exact_at(report, place)?)
    }
}
