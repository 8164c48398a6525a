//! One run of a test-vector file over one VDAF.

use std::collections::HashMap;

use super::VectorFailure;
use super::file::{Hex, Operation, OperationKind, ReportVector, VectorFile};
use crate::{AggregateResult, AggregateShare};

/// A VDAF for any number of aggregators, over bytes. An error says why an operation failed, which
/// a file may expect.
pub(super) trait Subject {
    /// What an aggregator keeps between its two steps.
    type State;

    /// The public share and the input shares.
    fn shard(
        &self,
        ctx: &[u8],
        measurement: &serde_json::Value,
        nonce: &[u8; 16],
        rand: &[u8],
    ) -> Result<(Vec<u8>, Vec<Vec<u8>>), String>;

    /// The state and the verifier share.
    fn verify_init(
        &self,
        verify_key: &[u8; 32],
        ctx: &[u8],
        agg_id: u8,
        report: (&[u8; 16], &[u8], &[u8]),
    ) -> Result<(Self::State, Vec<u8>), String>;

    /// The verifier message.
    fn verifier_shares_to_message(
        &self,
        ctx: &[u8],
        state: &Self::State,
        shares: &[&[u8]],
    ) -> Result<Vec<u8>, String>;

    /// The output share.
    fn verify_next(
        &self,
        ctx: &[u8],
        state: &Self::State,
        message: &[u8],
    ) -> Result<Vec<u8>, String>;

    fn zero_share(&self) -> AggregateShare;

    fn decode_aggregate_share(&self, bytes: &[u8]) -> Result<AggregateShare, String>;

    fn unshard(&self, shares: &[AggregateShare], count: usize) -> Result<AggregateResult, String>;

    /// The file's `agg_result`, if it has that form.
    fn expected_result(&self, value: &serde_json::Value) -> Option<Vec<i128>>;
}

pub(super) struct Run<'a, S: Subject> {
    subject: S,
    file: &'a VectorFile,
    /// After `verify_init`, by report and aggregator.
    states: HashMap<(usize, usize), S::State>,
}

/// The outcome of an operation that could be run.
enum Outcome {
    /// It succeeded: actual and expected outputs, in pairs.
    Success(Vec<Comparison>),
    /// It succeeded with a different aggregate result.
    OtherResult(String),
    /// It failed, for this reason.
    Failure(String),
}

struct Comparison {
    what: String,
    expected: Vec<u8>,
    actual: Vec<u8>,
}

/// An error means that the operation cannot be run: the file lacks something.
type Attempt<T = Outcome> = Result<T, String>;

impl<'a, S: Subject> Run<'a, S> {
    pub(super) fn new(subject: S, file: &'a VectorFile) -> Self {
        Self { subject, file, states: HashMap::new() }
    }

    /// Runs all operations. Returns how many succeeded and failed, each as expected.
    pub(super) fn all(mut self) -> Result<(usize, usize), VectorFailure> {
        let (mut succeeded, mut failed) = (0, 0);
        for (index, operation) in self.file.operations.iter().enumerate() {
            let outcome = self.one(operation);
            match judge(operation.success, outcome) {
                Err(difference) => {
                    let operation = describe(index, operation);
                    return Err(VectorFailure::Difference { operation, difference });
                }
                Ok(()) if operation.success => succeeded += 1,
                Ok(()) => failed += 1,
            }
        }
        Ok((succeeded, failed))
    }

    fn one(&mut self, operation: &Operation) -> Attempt {
        match operation.operation {
            OperationKind::Shard => self.shard(operation),
            OperationKind::VerifyInit => self.verify_init(operation),
            OperationKind::VerifierSharesToMessage => self.verifier_shares_to_message(operation),
            OperationKind::VerifyNext => self.verify_next(operation),
            OperationKind::Aggregate => self.aggregate(operation),
            OperationKind::Unshard => self.unshard(),
        }
    }

    fn shard(&self, operation: &Operation) -> Attempt {
        let (_, report) = self.report(operation)?;
        let (ctx, nonce) = (&self.file.ctx.0, nonce(report)?);
        let sharded = self.subject.shard(ctx, &report.measurement, &nonce, &report.rand.0);
        let (public_share, input_shares) = match sharded {
            Ok(sharded) => sharded,
            Err(reason) => return Ok(Outcome::Failure(reason)),
        };
        if report.input_shares.len() != input_shares.len() {
            return Err(format!(
                "the report has {} input shares, expected {}",
                report.input_shares.len(),
                input_shares.len()
            ));
        }
        let mut comparisons =
            vec![Comparison::new("public share", &report.public_share, public_share)];
        for (id, (expected, actual)) in report.input_shares.iter().zip(input_shares).enumerate() {
            let what = format!("input share of aggregator {id}");
            comparisons.push(Comparison::new(what, expected, actual));
        }
        Ok(Outcome::Success(comparisons))
    }

    fn verify_init(&mut self, operation: &Operation) -> Attempt {
        let (report_index, report) = self.report(operation)?;
        let id = self.aggregator(operation)?;
        let verify_key =
            self.file.verify_key.0.as_slice().try_into().map_err(|_| "verify_key of wrong size")?;
        let input_share = &at(&report.input_shares, id.into(), "input share")?.0;
        let nonce = nonce(report)?;
        let report_parts = (&nonce, report.public_share.0.as_slice(), input_share.as_slice());
        let done = self.subject.verify_init(verify_key, &self.file.ctx.0, id, report_parts);
        let (state, verifier_share) = match done {
            Ok(done) => done,
            Err(reason) => return Ok(Outcome::Failure(reason)),
        };
        self.states.insert((report_index, id.into()), state);
        if !operation.success {
            return Ok(Outcome::Success(Vec::new()));
        }
        let expected = at(&report.verifier_shares, 0, "verifier shares of round")?;
        let expected = at(expected, id.into(), "verifier share")?;
        Ok(Outcome::one("verifier share", expected, verifier_share))
    }

    fn verifier_shares_to_message(&self, operation: &Operation) -> Attempt {
        let (report_index, report) = self.report(operation)?;
        let round = operation.round.ok_or("no round given")?;
        let state = self.state(report_index, 0)?;
        let shares = at(&report.verifier_shares, round, "verifier shares of round")?;
        let shares: Vec<_> = shares.iter().map(|share| share.0.as_slice()).collect();
        match self.subject.verifier_shares_to_message(&self.file.ctx.0, state, &shares) {
            Err(reason) => Ok(Outcome::Failure(reason)),
            Ok(_) if !operation.success => Ok(Outcome::Success(Vec::new())),
            Ok(message) => {
                let expected = at(&report.verifier_messages, round, "verifier message of round")?;
                Ok(Outcome::one("verifier message", expected, message))
            }
        }
    }

    fn verify_next(&self, operation: &Operation) -> Attempt {
        let (report_index, report) = self.report(operation)?;
        let id = self.aggregator(operation)?;
        if operation.round != Some(1) {
            return Err("there is verify_next in round 1 only".into());
        }
        let state = self.state(report_index, id.into())?;
        let message = &at(&report.verifier_messages, 0, "verifier message of round")?.0;
        match self.subject.verify_next(&self.file.ctx.0, state, message) {
            Err(reason) => Ok(Outcome::Failure(reason)),
            Ok(_) if !operation.success => Ok(Outcome::Success(Vec::new())),
            Ok(output_share) => {
                let expected = at(&report.out_shares, id.into(), "output share")?;
                Ok(Outcome::one("output share", expected, output_share))
            }
        }
    }

    fn aggregate(&self, operation: &Operation) -> Attempt {
        let id = self.aggregator(operation)?;
        let mut sum = self.subject.zero_share();
        for report in &self.file.reports {
            let output_share = &at(&report.out_shares, id.into(), "output share")?.0;
            // An output share and the aggregate share of one report are the same bytes.
            match self
                .subject
                .decode_aggregate_share(output_share)
                .and_then(|share| sum.merge(&share).map_err(|e| e.to_string()))
            {
                Ok(()) => {}
                Err(e) => return Ok(Outcome::Failure(e)),
            }
        }
        if !operation.success {
            return Ok(Outcome::Success(Vec::new()));
        }
        let expected = at(&self.file.agg_shares, id.into(), "aggregate share")?;
        Ok(Outcome::one("aggregate share", expected, sum.encode()))
    }

    fn unshard(&self) -> Attempt {
        if self.file.agg_shares.len() != usize::from(self.file.shares) {
            return Err("not one aggregate share per aggregator".into());
        }
        let shares: Result<Vec<_>, _> = self
            .file
            .agg_shares
            .iter()
            .map(|bytes| self.subject.decode_aggregate_share(&bytes.0))
            .collect();
        let actual = match shares
            .and_then(|shares| self.subject.unshard(&shares, self.file.reports.len()))
        {
            Ok(result) => result,
            Err(reason) => return Ok(Outcome::Failure(reason)),
        };
        let expected = self
            .subject
            .expected_result(&self.file.agg_result)
            .ok_or("agg_result is not made of integers")?;
        match first_difference(&expected, actual.as_slice()) {
            None => Ok(Outcome::Success(Vec::new())),
            Some(index) => Ok(Outcome::OtherResult(format!(
                "aggregate result differs at element {index}: expected {}, got {}",
                show(expected.get(index)),
                show(actual.as_slice().get(index))
            ))),
        }
    }

    fn report(&self, operation: &Operation) -> Attempt<(usize, &'a ReportVector)> {
        let index = operation.report_index.ok_or("no report_index given")?;
        Ok((index, at(&self.file.reports, index, "report")?))
    }

    fn aggregator(&self, operation: &Operation) -> Attempt<u8> {
        operation
            .aggregator_id
            .and_then(|id| u8::try_from(id).ok())
            .filter(|id| *id < self.file.shares)
            .ok_or_else(|| "no valid aggregator_id given".into())
    }

    fn state(&self, report: usize, aggregator: usize) -> Attempt<&S::State> {
        self.states.get(&(report, aggregator)).ok_or_else(|| "no verify_init before".into())
    }
}

impl Outcome {
    fn one(what: &str, expected: &Hex, actual: Vec<u8>) -> Self {
        Self::Success(vec![Comparison::new(what, expected, actual)])
    }
}

impl Comparison {
    fn new(what: impl Into<String>, expected: &Hex, actual: Vec<u8>) -> Self {
        Self { what: what.into(), expected: expected.0.clone(), actual }
    }

    /// Describes the first difference.
    fn difference(&self) -> Option<String> {
        let at = first_difference(&self.expected, &self.actual)?;
        let (expected, actual) = (self.expected.len(), self.actual.len());
        let from =
            |bytes: &[u8]| hex::encode(bytes.iter().copied().skip(at).take(8).collect::<Vec<_>>());
        Some(format!(
            "{} differs at byte {at}: expected {}.. ({expected} bytes), got {}.. ({actual} bytes)",
            self.what,
            from(&self.expected),
            from(&self.actual)
        ))
    }
}

fn judge(success: bool, outcome: Attempt) -> Result<(), String> {
    match (success, outcome?) {
        (true, Outcome::Success(comparisons)) => {
            comparisons.iter().find_map(Comparison::difference).map_or(Ok(()), Err)
        }
        (true, Outcome::OtherResult(difference)) => Err(difference),
        (false, Outcome::Failure(_)) => Ok(()),
        (true, Outcome::Failure(reason)) => Err(format!("should succeed, but failed: {reason}")),
        (false, Outcome::Success(_) | Outcome::OtherResult(_)) => {
            Err("should fail, but succeeded".into())
        }
    }
}

fn describe(index: usize, operation: &Operation) -> String {
    let mut text = format!("operation {index} ({}", operation.operation);
    for (name, value) in [
        ("report", operation.report_index),
        ("aggregator", operation.aggregator_id),
        ("round", operation.round),
    ] {
        if let Some(value) = value {
            text += &format!(", {name} {value}");
        }
    }
    text + ")"
}

fn at<'v, V>(values: &'v [V], index: usize, what: &str) -> Attempt<&'v V> {
    values.get(index).ok_or_else(|| format!("the file has no {what} {index}"))
}

fn nonce(report: &ReportVector) -> Attempt<[u8; 16]> {
    report.nonce.0.as_slice().try_into().map_err(|_| "nonce of wrong size".into())
}

pub(super) fn first_difference<V: PartialEq>(a: &[V], b: &[V]) -> Option<usize> {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    (common < a.len() || common < b.len()).then_some(common)
}

fn show(value: Option<&i128>) -> String {
    value.map_or_else(|| "nothing".into(), i128::to_string)
}
