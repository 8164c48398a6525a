//! Files of prepared reports: for each, its length in four bytes, big-endian, then its bytes.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use sotto_wire::limits::MAX_REPORT_LEN;

/// Writes reports.
#[derive(Debug)]
pub(crate) struct PreparedWriter {
    path: PathBuf,
    file: BufWriter<File>,
    reports: u64,
    bytes: u64,
}

impl PreparedWriter {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self::over(path, file))
    }

    /// Writes after what is there. The path is for errors.
    pub(crate) fn over(path: &Path, file: File) -> Self {
        Self { path: path.to_owned(), file: BufWriter::new(file), reports: 0, bytes: 0 }
    }

    pub(crate) fn write(&mut self, report: &[u8]) -> Result<()> {
        let length = u32::try_from(report.len()).context("the report is too long")?;
        self.file
            .write_all(&length.to_be_bytes())
            .and_then(|()| self.file.write_all(report))
            .with_context(|| format!("cannot write {}", self.path.display()))?;
        self.reports += 1;
        self.bytes += u64::from(length);
        Ok(())
    }

    /// The number of reports and the number of their bytes.
    pub(crate) fn finish(&mut self) -> Result<(u64, u64)> {
        self.file.flush().with_context(|| format!("cannot write {}", self.path.display()))?;
        Ok((self.reports, self.bytes))
    }
}

/// Reads reports one after the other.
#[derive(Debug)]
pub(crate) struct PreparedReader {
    path: PathBuf,
    file: BufReader<File>,
    count: Option<u64>,
}

impl PreparedReader {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let size = file.metadata().map(|metadata| metadata.len()).unwrap_or_default();
        let file = BufReader::with_capacity(256 * 1024, file);
        let mut reader = Self { path: path.to_owned(), file, count: None };
        // Reports of one task have one size.
        let first = reader.length().ok().flatten();
        reader.count = first.map(|length| size / (4 + u64::from(length)));
        reader.file.rewind().with_context(|| format!("cannot read {}", path.display()))?;
        Ok(reader)
    }

    /// The approximate number of reports.
    pub(crate) fn expected(&self) -> Option<u64> {
        self.count
    }

    fn length(&mut self) -> Result<Option<u32>> {
        if self.file.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let mut length = [0; 4];
        self.file.read_exact(&mut length).context("the file ends in the middle of a report")?;
        Ok(Some(u32::from_be_bytes(length)))
    }

    fn read(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(length) = self.length()? else { return Ok(None) };
        let length = length as usize;
        ensure!(length <= MAX_REPORT_LEN, "a report of {length} bytes is too long");
        let mut report = vec![0; length];
        self.file.read_exact(&mut report).context("the file ends in the middle of a report")?;
        Ok(Some(report))
    }
}

impl Iterator for PreparedReader {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read().with_context(|| format!("cannot read {}", self.path.display()));
        read.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_come_back_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reports");
        let mut writer = PreparedWriter::create(&path).unwrap();
        for report in [b"aaa", b"bbb", b"ccc"] {
            writer.write(report).unwrap();
        }
        assert_eq!(writer.finish().unwrap(), (3, 9));
        let reader = PreparedReader::open(&path).unwrap();
        assert_eq!(reader.expected(), Some(3));
        let reports: Vec<_> = reader.map(Result::unwrap).collect();
        assert_eq!(reports, [b"aaa", b"bbb", b"ccc"]);
    }

    #[test]
    fn a_cut_file_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reports");
        for cut in [&[0u8, 0][..], &[0, 0, 0, 5, 1, 2], &[0xff, 0xff, 0xff, 0xff, 0]] {
            std::fs::write(&path, cut).unwrap();
            assert!(PreparedReader::open(&path).unwrap().next().unwrap().is_err(), "{cut:?}");
        }
        std::fs::write(&path, b"").unwrap();
        assert!(PreparedReader::open(&path).unwrap().next().is_none());
    }
}
