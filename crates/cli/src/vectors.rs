//! `sotto vectors check`: runs VDAF test-vector files.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;
use sotto_vdaf::vectors;

use crate::output::{Outcome, Output};

/// Checks VDAF test vectors.
#[derive(Debug, Args)]
pub(crate) struct VectorsArgs {
    #[command(subcommand)]
    command: VectorsCommand,
}

#[derive(Debug, Subcommand)]
enum VectorsCommand {
    /// Run test-vector files in the JSON schema of the VDAF specification.
    ///
    /// Prints one line per file, with the first difference if it does not pass. Exit code 1 if any
    /// does not pass.
    Check {
        /// The files.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

/// What became of one file.
#[derive(Debug, Serialize)]
struct Verdict {
    file: PathBuf,
    pass: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    vdaf: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shares: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reports: Option<usize>,
    /// Operations that succeeded as they should.
    #[serde(skip_serializing_if = "Option::is_none")]
    succeeded: Option<usize>,
    /// Operations that failed as they should.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<usize>,
    /// The first difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<String>,
}

impl VectorsArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        let VectorsCommand::Check { files } = self.command;
        let mut verdicts = Vec::with_capacity(files.len());
        for file in files {
            let verdict = check(&file);
            if !output.json() {
                output.line(verdict.line())?;
            }
            verdicts.push(verdict);
        }
        let passed = verdicts.iter().filter(|verdict| verdict.pass).count();
        let failed = verdicts.len() - passed;
        if output.json() {
            output.value(&json!({ "passed": passed, "failed": failed, "files": verdicts }))?;
        } else {
            output.remark(format!("{passed} passed, {failed} failed"));
        }
        Ok(if failed == 0 { Outcome::Yes } else { Outcome::No })
    }
}

impl Verdict {
    fn line(&self) -> String {
        let file = self.file.display();
        match &self.difference {
            Some(difference) => format!("FAIL {file}: {difference}"),
            None => {
                let vdaf = self.vdaf.as_deref().unwrap_or_default();
                let [shares, reports, equal, refused] =
                    [self.shares.map(usize::from), self.reports, self.succeeded, self.failed]
                        .map(Option::unwrap_or_default);
                format!(
                    "pass {file}: {vdaf}, shares {shares}, reports {reports}, operations {equal} \
                     equal and {refused} refused, as they should"
                )
            }
        }
    }
}

/// A file that cannot be read does not pass.
fn check(file: &Path) -> Verdict {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let result = std::fs::read_to_string(file)
        .map_err(|error| format!("cannot be read: {error}"))
        .and_then(|text| vectors::check(&text, &name).map_err(|failure| failure.to_string()));
    let file = file.to_owned();
    match result {
        Ok(report) => Verdict {
            file,
            pass: true,
            vdaf: Some(report.vdaf),
            shares: Some(report.shares),
            reports: Some(report.reports),
            succeeded: Some(report.succeeded),
            failed: Some(report.failed),
            difference: None,
        },
        Err(difference) => Verdict {
            file,
            pass: false,
            vdaf: None,
            shares: None,
            reports: None,
            succeeded: None,
            failed: None,
            difference: Some(difference),
        },
    }
}
