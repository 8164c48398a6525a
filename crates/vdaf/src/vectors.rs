//! Runs VDAF test-vector files, in the JSON schema of the VDAF specification.
//!
//! A file lists operations, with inputs and expected outputs. An operation marked unsuccessful must
//! fail, and no other may. Any number of shares and any chunk length are accepted: these files
//! check the mathematics, not whether a task would be sensible. Helper shares are expanded by the
//! same code that tasks use.
//!
//! Besides the VDAFs of tasks, this supports two that only test vectors use:
//! `Prio3SumVecWithMultiproof` and `Prio3HigherDegree`.

mod file;
mod higher_degree;
mod pine;
mod prio3;
mod run;

use prio::field::Field64;
use prio::flp::gadgets::{Mul, ParallelSum};
use prio::flp::types::SumVec;
use serde_json::{Map, Value};

use self::file::VectorFile;
use self::higher_degree::HigherDegree;
use self::prio3::Prio3Subject;
use self::run::Run;
use crate::config::UseCircuit;
use crate::prio3::Circuit;
use crate::{ConfigError, VdafConfig};

/// What a file that passed contained.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VectorReport {
    /// Name of the VDAF.
    pub vdaf: String,
    /// Number of aggregators.
    pub shares: u8,
    /// Number of reports.
    pub reports: usize,
    /// Operations that succeeded as expected.
    pub succeeded: usize,
    /// Operations that failed as expected.
    pub failed: usize,
}

/// Why a file did not pass.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorFailure {
    /// Not a test vector at all.
    #[error("not a VDAF test vector: {0}")]
    Json(#[from] serde_json::Error),
    /// Neither a field, nor the file name, nor the parameters name a VDAF known here.
    #[error("unknown VDAF{}", .0.as_deref().map(|name| format!(" {name}")).unwrap_or_default())]
    UnknownVdaf(Option<String>),
    /// Parameters that the VDAF does not have, or rejects.
    #[error("{vdaf}: {error}")]
    Parameters {
        /// Name of the VDAF.
        vdaf: String,
        /// What is wrong.
        error: String,
    },
    /// The first operation whose outcome is not the expected one.
    #[error("{operation}: {difference}")]
    Difference {
        /// Which operation: number, kind, report, aggregator.
        operation: String,
        /// Expected and actual outcome.
        difference: String,
    },
    /// A file that checks nothing.
    #[error("the file lists no operations")]
    NoOperations,
}

/// Runs all operations of a test-vector file, up to the first difference.
///
/// The VDAF is named by a field `type` or `vdaf`; otherwise by the file name, up to its first `_`
/// or `.`, if that begins with `Prio3` or `Pine`; otherwise it is the VDAF that has exactly the given
/// parameters.
pub fn check(json_text: &str, file_name: &str) -> Result<VectorReport, VectorFailure> {
    let mut file: VectorFile = serde_json::from_str(json_text)?;
    if file.operations.is_empty() {
        return Err(VectorFailure::NoOperations);
    }
    let vdaf = vdaf_name(&mut file.parameters, file_name)?;
    let parameters_error = |error: String| VectorFailure::Parameters { vdaf: vdaf.clone(), error };

    let (succeeded, failed) = match vdaf.as_str() {
        HIGHER_DEGREE => {
            let config = VdafConfig::sum(2);
            Runner { config: &config, algorithm_id: PRIVATE_ID, proofs: 1, file: &file }
                .use_circuit(HigherDegree)?
        }
        MULTIPROOF => {
            let config = config("Prio3SumVec", &file.parameters).map_err(parameters_error)?;
            let circuit =
                multiproof_circuit(&config).map_err(|e| parameters_error(e.to_string()))?;
            Runner { config: &config, algorithm_id: PRIVATE_ID, proofs: 3, file: &file }
                .use_circuit(circuit)?
        }
        PINE64 | PINE128 => pine::run(&vdaf, &file)?,
        name => {
            let config = config(name, &file.parameters).map_err(parameters_error)?;
            let algorithm_id = config.vdaf_type();
            config
                .with_circuit(Runner { config: &config, algorithm_id, proofs: 1, file: &file })
                .map_err(|e| parameters_error(e.to_string()))??
        }
    };
    Ok(VectorReport { vdaf, shares: file.shares, reports: file.reports.len(), succeeded, failed })
}

const HIGHER_DEGREE: &str = "Prio3HigherDegree";
const MULTIPROOF: &str = "Prio3SumVecWithMultiproof";
const PINE64: &str = "Pine64";
const PINE128: &str = "Pine128";
/// The parameters in files of PINE.
const PINE_PARAMETERS: &[&str] = &[
    "alpha",
    "chunk_length",
    "chunk_length_norm_equality",
    "dimension",
    "field",
    "l2_norm_bound",
    "num_frac_bits",
    "num_wr_checks",
    "num_wr_successes",
    "proofs",
    "proofs_norm_equality",
];
/// The algorithm identifier of VDAFs that exist only for test vectors.
const PRIVATE_ID: u32 = 0xFFFF_FFFF;

/// The parameters of each VDAF, in the order that inference tries.
const KNOWN: [(&str, &[&str]); 10] = [
    ("Prio3Count", &[]),
    ("Prio3Sum", &["max_measurement"]),
    ("Prio3SumVec", &["chunk_length", "length", "max_measurement"]),
    ("Prio3Histogram", &["chunk_length", "length"]),
    ("Prio3MultihotCountVec", &["chunk_length", "length", "max_weight"]),
    ("Prio3L1BoundSum", &["chunk_length", "length", "max_value"]),
    (HIGHER_DEGREE, &[]),
    (MULTIPROOF, &["chunk_length", "length", "max_measurement"]),
    (PINE64, PINE_PARAMETERS),
    (PINE128, PINE_PARAMETERS),
];

/// Finds the name and removes it from the parameters.
fn vdaf_name(
    parameters: &mut Map<String, Value>,
    file_name: &str,
) -> Result<String, VectorFailure> {
    let field = parameters.remove("type").or_else(|| parameters.remove("vdaf"));
    let stem = file_name.rsplit(['/', '\\']).next().and_then(|name| name.split(['_', '.']).next());
    let named = match field {
        Some(Value::String(name)) => Some(name),
        Some(other) => Some(other.to_string()),
        None => stem
            .filter(|stem| stem.starts_with("Prio3") || stem.starts_with("Pine"))
            .map(str::to_owned),
    };
    match named {
        Some(name) if KNOWN.iter().any(|(known, _)| *known == name) => Ok(name),
        Some(name) => Err(VectorFailure::UnknownVdaf(Some(name))),
        None => {
            let mut keys: Vec<&str> = parameters.keys().map(String::as_str).collect();
            keys.sort_unstable();
            let inferred = KNOWN.iter().find(|(_, wanted)| *wanted == keys);
            inferred.map(|(name, _)| (*name).to_owned()).ok_or(VectorFailure::UnknownVdaf(None))
        }
    }
}

fn config(name: &str, parameters: &Map<String, Value>) -> Result<VdafConfig, String> {
    let mut readable = parameters.clone();
    readable.insert("type".into(), name.into());
    serde_json::from_value(readable.into()).map_err(|e| e.to_string())
}

/// The circuit of Prio3SumVecWithMultiproof: SumVec over the small field.
fn multiproof_circuit(
    config: &VdafConfig,
) -> Result<SumVec<Field64, ParallelSum<Field64, Mul>>, ConfigError> {
    let VdafConfig::Prio3SumVec { length, max_measurement, chunk_length } = *config else {
        return Err(ConfigError::Refused("multiproof is defined for SumVec only".into()));
    };
    config.check_parameters()?;
    SumVec::new(max_measurement, length as usize, chunk_length as usize)
        .map_err(|e| ConfigError::Refused(e.to_string()))
}

/// Runs a file once its circuit is known.
struct Runner<'a> {
    config: &'a VdafConfig,
    algorithm_id: u32,
    proofs: u8,
    file: &'a VectorFile,
}

impl UseCircuit for Runner<'_> {
    type Output = Result<(usize, usize), VectorFailure>;

    fn use_circuit<T: Circuit>(self, circuit: T) -> Self::Output {
        let subject =
            Prio3Subject::new(self.config, self.algorithm_id, self.proofs, circuit, self.file)?;
        Run::new(subject, self.file).all()
    }
}
