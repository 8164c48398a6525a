//! Results in files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use sotto_client::QueryResult;
use sotto_client::query_result::ReadError;

use super::parquet;
use crate::npy;
use crate::output::{Output, Place, WithHint, hinted, pointed};
use crate::private_file::read_bytes;

/// Where a result is written.
#[derive(Debug, Default, Args)]
pub(crate) struct OutArgs {
    /// Write the result to a file, in the format of its ending: .json (to keep it), .csv, .parquet,
    /// .npy (the estimates alone) or .svg (a chart). May be repeated.
    #[arg(long, value_name = "FILE", value_parser = OutFile::parse)]
    out: Vec<OutFile>,
    /// Add consistent estimates beside the unbiased ones: not negative, and with the right sum.
    #[arg(long)]
    consistent: bool,
}

/// A file and its format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutFile {
    path: PathBuf,
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    Csv,
    Parquet,
    Npy,
    Svg,
}

impl OutFile {
    fn parse(text: &str) -> Result<Self, String> {
        let path = PathBuf::from(text);
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        let format = match ending.as_deref() {
            Some("json") => Format::Json,
            Some("csv") => Format::Csv,
            Some("parquet") => Format::Parquet,
            Some("npy") => Format::Npy,
            Some("svg") => Format::Svg,
            _ => return Err("the file must end in .json, .csv, .parquet, .npy or .svg".to_owned()),
        };
        Ok(Self { path, format })
    }

    /// The file gets its name only when it is complete.
    fn write(&self, result: &QueryResult) -> Result<()> {
        let bytes = match self.format {
            Format::Json => result.to_json().into_bytes(),
            Format::Csv => result.to_csv().into_bytes(),
            Format::Parquet => parquet::encoded(result)?,
            Format::Npy => npy::encoded(&result.estimates()),
            Format::Svg => result.to_svg().into_bytes(),
        };
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let unfinished = self.path.with_file_name(name);
        fs::write(&unfinished, bytes)
            .and_then(|()| fs::rename(&unfinished, &self.path))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl OutArgs {
    /// Fails before anything is done, if a file could not be written because there is no folder for
    /// it.
    pub(crate) fn check(&self) -> Result<()> {
        for OutFile { path, .. } in &self.out {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
                return Err(anyhow!("there is no folder {}", folder.display()))
                    .hint("make it first, or write to another place");
            }
        }
        Ok(())
    }

    /// What is shown and written.
    pub(crate) fn prepared(&self, mut result: QueryResult) -> QueryResult {
        if self.consistent {
            result.add_consistent();
        }
        result
    }

    /// Writes all files.
    pub(crate) fn write(&self, result: &QueryResult, output: &Output) -> Result<()> {
        for file in &self.out {
            file.write(result)?;
            output.remark(format!("wrote {}", file.path.display()));
        }
        Ok(())
    }
}

/// Reads a result that was kept.
pub(super) fn read(path: &Path) -> Result<QueryResult> {
    let bytes = read_bytes(path)?;
    QueryResult::from_json(&bytes).map_err(|error| {
        let hint = match &error {
            ReadError::NoResult => "collect again, with --out FILE.json: it writes only results",
            ReadError::Command { command } if command == "demo" => {
                "`sotto demo --out FILE.json` writes a result"
            }
            _ => "a result is written by `sotto collect --out FILE.json`",
        };
        let place = match &error {
            ReadError::Json(error) => {
                let text = String::from_utf8_lossy(&bytes);
                Place::new(&text, error.line(), error.column())
            }
            _ => None,
        };
        let error = anyhow!("{} is not a result: {error}", path.display());
        hinted(pointed(error, place), hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_decides() {
        let format = |name| OutFile::parse(name).map(|file| file.format);
        assert_eq!(format("a.json"), Ok(Format::Json));
        assert_eq!(format("b/a.b.CSV"), Ok(Format::Csv));
        assert_eq!(format("a.parquet"), Ok(Format::Parquet));
        assert_eq!(format("a.npy"), Ok(Format::Npy));
        assert_eq!(format("a.svg"), Ok(Format::Svg));
        for name in ["a", "a.txt", ".json", "json", ""] {
            assert!(format(name).is_err(), "{name}");
        }
    }
}
