//! `sotto vectors check`: runs files of VDAF and token test vectors.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;
use sotto_vdaf::vectors::{self, VectorFailure};

use crate::output::{Outcome, Output};

/// Checks VDAF and token test vectors.
#[derive(Debug, Args)]
pub(crate) struct VectorsArgs {
    #[command(subcommand)]
    command: VectorsCommand,
}

#[derive(Debug, Subcommand)]
enum VectorsCommand {
    /// Run files of test vectors.
    ///
    /// VDAF vectors are in the JSON schema of the VDAF specification. Token vectors are transcripts
    /// of rate-limited issuance (sotto-tokens0004-v1) and the published ones of signature key
    /// blinding, of RFC 9578 type 0x0002 and of rate-limited issuance: every value is recomputed,
    /// and the verdict of every party is checked. Of the published vectors of PINE only a part is
    /// compared, or nothing if their field or hash is not implemented; the line says so.
    ///
    /// Prints one line per file, with the first difference if the file fails. Exit code 1 if any
    /// file fails.
    Check {
        /// The files.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

/// The outcome of one file.
#[derive(Debug, Default, Serialize)]
struct Verdict {
    file: PathBuf,
    pass: bool,
    /// The VDAF, or what the file of token vectors is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shares: Option<u8>,
    #[serde(rename = "count", skip_serializing_if = "Option::is_none")]
    reports: Option<usize>,
    /// Operations that succeeded, as expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    succeeded: Option<usize>,
    /// Operations that failed, as expected.
    #[serde(rename = "refused", skip_serializing_if = "Option::is_none")]
    failed: Option<usize>,
    /// Values of token vectors that are equal, as expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<usize>,
    /// The first difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<String>,
    /// Why not all was compared, or nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip)]
    unsupported: bool,
}

impl VectorsArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        let VectorsCommand::Check { files } = self.command;
        let mut verdicts = Vec::with_capacity(files.len());
        for file in files {
            let verdict = check(&file);
            if !output.json() {
                output.prose(verdict.line())?;
            }
            verdicts.push(verdict);
        }
        let passed = verdicts.iter().filter(|verdict| verdict.pass).count();
        let unsupported = verdicts.iter().filter(|verdict| verdict.unsupported).count();
        let failed = verdicts.len() - passed - unsupported;
        if output.json() {
            output.value(&json!({
                "passed": passed,
                "failed": failed,
                "unsupported": unsupported,
                "verdicts": verdicts,
            }))?;
        } else {
            let rest = match unsupported {
                0 => String::new(),
                count => format!(", {count} not checked"),
            };
            output.remark(format!("{passed} passed, {failed} failed{rest}"));
        }
        Ok(if failed == 0 { Outcome::Yes } else { Outcome::No })
    }
}

impl Verdict {
    fn line(&self) -> String {
        let file = self.file.display();
        match (&self.difference, &self.reason) {
            (Some(difference), _) => format!("FAIL {file}: {difference}"),
            (None, Some(reason)) if self.unsupported => format!("skip {file}: {reason}"),
            (None, Some(reason)) => format!("pass {file}: {} ({reason})", self.passed()),
            (None, None) => format!("pass {file}: {}", self.passed()),
        }
    }

    fn passed(&self) -> String {
        let subject = self.subject.as_deref().unwrap_or_default();
        let [equal, refused] = [self.succeeded, self.failed].map(Option::unwrap_or_default);
        if let Some(values) = self.values {
            return format!(
                "{subject}, {values} values equal, {equal} accepted and {refused} refused, as expected"
            );
        }
        let [shares, reports] =
            [self.shares.map(usize::from), self.reports].map(Option::unwrap_or_default);
        format!(
            "{subject}, shares {shares}, reports {reports}, operations {equal} equal and {refused} refused, \
             as expected"
        )
    }
}

/// Checks one file. A file that cannot be read does not pass.
fn check(file: &Path) -> Verdict {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let result = std::fs::read_to_string(file)
        .map_err(|error| format!("cannot be read: {error}"))
        .and_then(|text| match sotto_testing::vectors::check(&text) {
            Some(Ok(checked)) => Ok(Verdict {
                pass: true,
                subject: Some(checked.about.to_owned()),
                values: Some(checked.values),
                succeeded: Some(checked.accepted),
                failed: Some(checked.refused),
                ..Verdict::default()
            }),
            Some(Err(difference)) => Err(difference.to_string()),
            None => vdaf(&text, &name),
        });
    let verdict = result.unwrap_or_else(|difference| Verdict {
        difference: Some(difference),
        ..Verdict::default()
    });
    Verdict { file: file.to_owned(), ..verdict }
}

fn vdaf(text: &str, name: &str) -> std::result::Result<Verdict, String> {
    let report = match vectors::check(text, name) {
        Ok(report) => report,
        Err(failure @ VectorFailure::NotImplemented { .. }) => {
            let reason = Some(failure.to_string());
            return Ok(Verdict { unsupported: true, reason, ..Verdict::default() });
        }
        Err(VectorFailure::Json(error)) => {
            return Err(format!("not a VDAF or token test vector: {}", no_vector(text, &error)));
        }
        Err(other) => return Err(other.to_string()),
    };
    Ok(Verdict {
        pass: true,
        subject: Some(report.vdaf),
        shares: Some(report.shares),
        reports: Some(report.reports),
        succeeded: Some(report.succeeded),
        failed: Some(report.failed),
        reason: report.partial.map(str::to_owned),
        ..Verdict::default()
    })
}

/// Why a text is not a test vector, without the names of types in our code.
fn no_vector(text: &str, error: &serde_json::Error) -> String {
    match serde_json::from_str::<serde_json::Value>(text) {
        Err(error) => format!("it is not JSON: {error}"),
        Ok(file) if !file.is_object() => "it is not a JSON object".to_owned(),
        Ok(_) => {
            let message = error.to_string();
            match message.split_once(", expected struct ") {
                None => message,
                Some((before, after)) => {
                    let place = after.split_once(" at ").map(|(_, place)| format!(" at {place}"));
                    format!("{before}, expected an object{}", place.unwrap_or_default())
                }
            }
        }
    }
}
