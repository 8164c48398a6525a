//! Reports that could not be sent, kept beside the task file until `--resume`.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::prepared::PreparedWriter;

/// The file of one task. It is made when the first report is kept.
pub(super) struct Unsent {
    pub(super) path: PathBuf,
    /// Where reports are written: while the file itself is being sent, beside it.
    target: PathBuf,
    writer: Option<PreparedWriter>,
}

impl Unsent {
    pub(super) fn new(path: PathBuf, resumed: bool) -> Self {
        let target = if resumed { path.with_extension("unsent.new") } else { path.clone() };
        Self { path, target, writer: None }
    }

    pub(super) fn keep(&mut self, report: &[u8]) -> Result<()> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            // What a killed run has written there is in the file as well.
            None if self.target != self.path => {
                self.writer.insert(PreparedWriter::create(&self.target)?)
            }
            None => self.writer.insert(PreparedWriter::append(&self.target)?),
        };
        writer.write(report)
    }

    /// Writes everything, and returns how many reports were kept. If the file itself was sent, they
    /// replace it.
    pub(super) fn finish(&mut self, resumed: bool) -> Result<u64> {
        let kept = self.writer.as_mut().map_or(Ok((0, 0)), PreparedWriter::finish)?.0;
        let replaced = match (resumed, kept) {
            (true, 0) => fs::remove_file(&self.path),
            (true, _) => fs::rename(&self.target, &self.path),
            (false, _) => Ok(()),
        };
        replaced.with_context(|| format!("cannot replace {}", self.path.display()))?;
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upload::prepared::PreparedReader;

    #[test]
    fn reports_are_kept_until_they_are_sent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.unsent");
        let read = || -> Vec<Vec<u8>> {
            PreparedReader::open(&path).unwrap().map(Result::unwrap).collect()
        };
        let keep = |reports: &[&[u8]], resumed| {
            let mut unsent = Unsent::new(path.clone(), resumed);
            reports.iter().for_each(|report| unsent.keep(report).unwrap());
            assert_eq!(unsent.finish(resumed).unwrap(), reports.len() as u64);
        };
        keep(&[], false);
        assert!(!path.exists());
        keep(&[b"a", b"b"], false);
        keep(&[b"c"], false);
        assert_eq!(read(), [b"a", b"b", b"c"]);
        // Only one was sent.
        keep(&[b"b", b"c"], true);
        assert_eq!(read(), [b"b", b"c"]);
        keep(&[], true);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
