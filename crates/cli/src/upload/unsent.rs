//! Reports that could not be sent, kept beside the task file until `--resume`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

use super::prepared::PreparedWriter;

/// The file of one task. It is written beside its place and moved there when it is complete, so
/// that whoever resumes meanwhile finds all of it or nothing.
pub(super) struct Unsent {
    pub(super) path: PathBuf,
    /// What the file was when an upload of its reports began.
    resumed: Option<Version>,
    kept: Option<(NamedTempFile, PreparedWriter)>,
}

/// A file is replaced, never changed.
type Version = (u64, Option<SystemTime>);

impl Unsent {
    /// If the file itself is being sent, what is kept replaces it. Otherwise it is added to it.
    pub(super) fn new(path: PathBuf, is_resumed: bool) -> Self {
        let resumed = is_resumed.then(|| version(&path)).flatten();
        Self { path, resumed, kept: None }
    }

    pub(super) fn keep(&mut self, report: &[u8]) -> Result<()> {
        if self.kept.is_none() {
            self.kept = Some(self.begin()?);
        }
        self.kept.as_mut().map_or(Ok(()), |(_, writer)| writer.write(report))
    }

    /// An empty file that only its owner can read, or a copy of what is there.
    fn begin(&self) -> Result<(NamedTempFile, PreparedWriter)> {
        let failed = || format!("cannot write {}", self.path.display());
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let temporary = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")));
        let temporary = temporary.with_context(failed)?;
        let mut file = temporary.reopen().with_context(failed)?;
        if self.resumed.is_none() && self.path.exists() {
            let before = File::open(&self.path);
            before.and_then(|mut before| io::copy(&mut before, &mut file)).with_context(failed)?;
        }
        Ok((temporary, PreparedWriter::over(&self.path, file)))
    }

    /// Puts the file into its place, and returns how many reports were kept. If all reports of the
    /// file itself were handled, it is replaced, or removed if nothing is left.
    pub(super) fn finish(&mut self, all_handled: bool) -> Result<u64> {
        let failed = || format!("cannot replace {}", self.path.display());
        // Another upload may have added reports meanwhile: with those of the old file, which are
        // counted once, however often they are sent.
        let is_ours = self.resumed.is_none() || self.resumed == version(&self.path);
        let may_replace = is_ours && (self.resumed.is_none() || all_handled);
        let Some((temporary, mut writer)) = self.kept.take() else {
            if self.resumed.is_some() && may_replace {
                fs::remove_file(&self.path).with_context(failed)?;
            }
            return Ok(0);
        };
        let kept = writer.finish()?.0;
        if may_replace {
            let synced = temporary.as_file().sync_all();
            synced.and_then(|()| Ok(temporary.persist(&self.path)?)).with_context(failed)?;
        }
        Ok(kept)
    }
}

fn version(path: &Path) -> Option<Version> {
    let file = fs::metadata(path).ok()?;
    Some((file.len(), file.modified().ok()))
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

    /// While an upload stops, its file is there as a whole or not at all, and nothing is lost if
    /// somebody resumes at the same time.
    #[test]
    fn a_resume_meanwhile_finds_everything_or_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.unsent");
        let read = || -> Vec<Vec<u8>> {
            PreparedReader::open(&path).unwrap().map(Result::unwrap).collect()
        };
        let mut stopping = Unsent::new(path.clone(), false);
        stopping.keep(b"first").unwrap();
        assert!(!path.exists(), "not complete yet");
        assert_eq!(stopping.finish(true).unwrap(), 1);
        assert_eq!(read(), [b"first"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }

        // Somebody resumes; another upload stops before that has ended.
        let mut resuming = Unsent::new(path.clone(), true);
        let mut stopping = Unsent::new(path.clone(), false);
        stopping.keep(b"second").unwrap();
        assert_eq!(read(), [b"first"], "the old file, until the new one is complete");
        stopping.finish(true).unwrap();
        assert_eq!(resuming.finish(true).unwrap(), 0);
        assert_eq!(read(), [&b"first"[..], b"second"], "what came meanwhile is not removed");

        // A resumed file that could not be read to its end stays.
        let mut resuming = Unsent::new(path.clone(), true);
        resuming.keep(b"second").unwrap();
        resuming.finish(false).unwrap();
        assert_eq!(read(), [&b"first"[..], b"second"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
