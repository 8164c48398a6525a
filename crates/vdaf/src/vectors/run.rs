//! One run of a test-vector file over one circuit.

use std::collections::HashMap;

use prio::codec::Encode;

use super::VectorFailure;
use super::file::{Hex, Operation, OperationKind, ReportVector, VectorFile};
use crate::config::integer_from_json;
use crate::prio3::{Circuit, Instance, VerifyState};
use crate::{AggregateShare, Measurement, VdafConfig};

pub(super) struct Run<'a, T: Circuit> {
    config: &'a VdafConfig,
    instance: Instance<T>,
    file: &'a VectorFile,
    /// After `verify_init`, by report and aggregator.
    states: HashMap<(usize, usize), VerifyState<T>>,
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

impl<'a, T: Circuit> Run<'a, T> {
    pub(super) fn new(
        config: &'a VdafConfig,
        algorithm_id: u32,
        proofs: u8,
        circuit: T,
        file: &'a VectorFile,
    ) -> Result<Self, VectorFailure> {
        let parameters_error =
            |error: String| VectorFailure::Parameters { vdaf: config.name().to_owned(), error };
        if !Instance::<T>::is_valid_context(&file.ctx.0) {
            return Err(parameters_error("the context is too long".into()));
        }
        if !file.agg_param.0.is_empty() {
            return Err(parameters_error("the aggregation parameter must be empty".into()));
        }
        let instance = Instance::new(algorithm_id, file.shares, proofs, circuit)
            .map_err(|e| parameters_error(e.to_string()))?;
        Ok(Self { config, instance, file, states: HashMap::new() })
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
        let measurement = match Measurement::parse(self.config, &report.measurement) {
            Ok(measurement) => measurement,
            Err(e) => return Ok(Outcome::Failure(e.to_string())),
        };
        let measurement = T::measurement(&measurement).ok_or("not a measurement of this VDAF")?;
        let sharded =
            self.instance.shard(&self.file.ctx.0, &measurement, &nonce(report)?, &report.rand.0);
        let (public_share, input_shares) = match sharded {
            Ok(sharded) => sharded,
            Err(e) => return Ok(Outcome::Failure(e.to_string())),
        };
        if report.input_shares.len() != input_shares.len() {
            return Err(format!(
                "the report has {} input shares, expected {}",
                report.input_shares.len(),
                input_shares.len()
            ));
        }
        let mut comparisons =
            vec![Comparison::encoded("public share", &report.public_share, &public_share)?];
        for (id, (expected, actual)) in report.input_shares.iter().zip(&input_shares).enumerate() {
            let what = format!("input share of aggregator {id}");
            comparisons.push(Comparison::encoded(what, expected, actual)?);
        }
        Ok(Outcome::Success(comparisons))
    }

    fn verify_init(&mut self, operation: &Operation) -> Attempt {
        let (report_index, report) = self.report(operation)?;
        let id = self.aggregator(operation)?;
        let verify_key =
            self.file.verify_key.0.as_slice().try_into().map_err(|_| "verify_key of wrong size")?;
        let Some(public_share) = self.instance.decode_public_share(&report.public_share.0) else {
            return Ok(Outcome::Failure("malformed public share".into()));
        };
        let input_share = &at(&report.input_shares, id.into(), "input share")?.0;
        let ctx = &self.file.ctx.0;
        let Some(input_share) = self.instance.decode_input_share(ctx, id, input_share) else {
            return Ok(Outcome::Failure("malformed input share".into()));
        };
        let (state, verifier_share) = match self.instance.verify_init(
            verify_key,
            ctx,
            id,
            &nonce(report)?,
            &public_share,
            &input_share,
        ) {
            Ok(done) => done,
            Err(e) => return Ok(Outcome::Failure(e.to_string())),
        };
        self.states.insert((report_index, id.into()), state);
        if !operation.success {
            return Ok(Outcome::Success(Vec::new()));
        }
        let expected = at(&report.verifier_shares, 0, "verifier shares of round")?;
        let expected = at(expected, id.into(), "verifier share")?;
        Ok(Outcome::Success(vec![Comparison::encoded(
            "verifier share",
            expected,
            &verifier_share,
        )?]))
    }

    fn verifier_shares_to_message(&self, operation: &Operation) -> Attempt {
        let (report_index, report) = self.report(operation)?;
        let round = operation.round.ok_or("no round given")?;
        let state = self.state(report_index, 0)?;
        let mut shares = Vec::new();
        for bytes in at(&report.verifier_shares, round, "verifier shares of round")? {
            match Instance::<T>::decode_verifier_share(state, &bytes.0) {
                Some(share) => shares.push(share),
                None => return Ok(Outcome::Failure("malformed verifier share".into())),
            }
        }
        match self.instance.verifier_shares_to_message(&self.file.ctx.0, shares) {
            Err(e) => Ok(Outcome::Failure(e.to_string())),
            Ok(_) if !operation.success => Ok(Outcome::Success(Vec::new())),
            Ok(message) => {
                let expected = at(&report.verifier_messages, round, "verifier message of round")?;
                let comparison = Comparison::encoded("verifier message", expected, &message)?;
                Ok(Outcome::Success(vec![comparison]))
            }
        }
    }

    fn verify_next(&self, operation: &Operation) -> Attempt {
        let (report_index, report) = self.report(operation)?;
        let id = self.aggregator(operation)?;
        if operation.round != Some(1) {
            return Err("Prio3 has verify_next in round 1 only".into());
        }
        let state = self.state(report_index, id.into())?;
        let message = &at(&report.verifier_messages, 0, "verifier message of round")?.0;
        let Some(message) = Instance::<T>::decode_verifier_message(state, message) else {
            return Ok(Outcome::Failure("malformed verifier message".into()));
        };
        match self.instance.verify_next(&self.file.ctx.0, state.clone(), message) {
            Err(e) => Ok(Outcome::Failure(e.to_string())),
            Ok(_) if !operation.success => Ok(Outcome::Success(Vec::new())),
            Ok(output_share) => {
                let expected = at(&report.out_shares, id.into(), "output share")?;
                let comparison = Comparison::encoded("output share", expected, &output_share)?;
                Ok(Outcome::Success(vec![comparison]))
            }
        }
    }

    fn aggregate(&self, operation: &Operation) -> Attempt {
        let id = self.aggregator(operation)?;
        let mut sum = AggregateShare::zero::<T::Field>(self.instance.output_len());
        for report in &self.file.reports {
            let output_share = &at(&report.out_shares, id.into(), "output share")?.0;
            // An output share and the aggregate share of one report are the same bytes.
            match self
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
        Ok(Outcome::Success(vec![Comparison {
            what: "aggregate share".into(),
            expected: expected.0.clone(),
            actual: sum.encode(),
        }]))
    }

    fn unshard(&self) -> Attempt {
        if self.file.agg_shares.len() != usize::from(self.file.shares) {
            return Err("not one aggregate share per aggregator".into());
        }
        let mut shares = Vec::new();
        for bytes in &self.file.agg_shares {
            let share = match self.decode_aggregate_share(&bytes.0) {
                Ok(share) => share,
                Err(e) => return Ok(Outcome::Failure(e)),
            };
            let elements = share.elements::<T::Field>(self.instance.output_len());
            shares.push(elements.map_err(|e| e.to_string())?.to_vec());
        }
        let actual = match self.instance.unshard(shares, self.file.reports.len()) {
            // Results of vectors are small: none is negative.
            Ok(result) => T::result(result, |sum| sum as i128),
            Err(e) => return Ok(Outcome::Failure(e.to_string())),
        };
        let expected: Option<Vec<i128>> = match &self.file.agg_result {
            serde_json::Value::Array(values) => {
                values.iter().map(|v| integer_from_json(v).map(i128::from)).collect()
            }
            value => integer_from_json(value).map(|v| vec![v.into()]),
        };
        let expected = expected.ok_or("agg_result is not made of integers")?;
        match first_difference(&expected, actual.as_slice()) {
            None => Ok(Outcome::Success(Vec::new())),
            Some(index) => Ok(Outcome::OtherResult(format!(
                "aggregate result differs at element {index}: expected {}, got {}",
                show(expected.get(index)),
                show(actual.as_slice().get(index))
            ))),
        }
    }

    fn decode_aggregate_share(&self, bytes: &[u8]) -> Attempt<AggregateShare> {
        AggregateShare::decode::<T::Field>(bytes, self.instance.output_len())
            .map_err(|e| e.to_string())
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

    fn state(&self, report: usize, aggregator: usize) -> Attempt<&VerifyState<T>> {
        self.states.get(&(report, aggregator)).ok_or_else(|| "no verify_init before".into())
    }
}

impl Comparison {
    fn encoded(what: impl Into<String>, expected: &Hex, actual: &impl Encode) -> Attempt<Self> {
        let actual = actual.get_encoded().map_err(|e| e.to_string())?;
        Ok(Self { what: what.into(), expected: expected.0.clone(), actual })
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

fn first_difference<V: PartialEq>(a: &[V], b: &[V]) -> Option<usize> {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    (common < a.len() || common < b.len()).then_some(common)
}

fn show(value: Option<&i128>) -> String {
    value.map_or_else(|| "nothing".into(), i128::to_string)
}
