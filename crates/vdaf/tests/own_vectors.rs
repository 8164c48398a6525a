//! Makes the vectors in `vectors/vdaf_18_own` and compares them with the files, byte for byte.
//! With `SOTTO_BLESS=1` it writes the files instead.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use prio::codec::{Encode, ParameterizedDecode};
use prio::field::Field128;
use prio::flp::gadgets::{Mul, ParallelSum};
use prio::flp::types::L1BoundSum;
use prio::flp::{Flp, FlpError, Gadget, Type};
use prio::vdaf::prio3::{Prio3, Prio3InputShare, Prio3L1BoundSum};
use prio::vdaf::test_utils::TestVectorClient;
use prio::vdaf::xof::XofTurboShake128;
use prio::vdaf::{Aggregator, Collector, OutputShare, Vdaf, VerifyTransition};
use serde_json::{Value, json};

const CTX: &[u8] = b"some application";

/// 00 01 02 ...
fn counting<const N: usize>() -> [u8; N] {
    std::array::from_fn(|i| i as u8)
}

fn hex_of(value: &impl Encode) -> Value {
    hex::encode(value.get_encoded().unwrap()).into()
}

struct Generator {
    vdaf: Prio3L1BoundSum,
    operations: Vec<Value>,
    reports: Vec<Value>,
    /// By aggregator.
    out_shares: Vec<Vec<OutputShare<Field128>>>,
}

impl Generator {
    fn new(shares: u8, max_value: u128, length: usize, chunk_length: usize) -> Self {
        let vdaf = Prio3L1BoundSum::new_l1_bound_sum(shares, max_value, length, chunk_length);
        Self {
            vdaf: vdaf.unwrap(),
            operations: Vec::new(),
            reports: Vec::new(),
            out_shares: vec![Vec::new(); shares.into()],
        }
    }

    fn shares(&self) -> usize {
        self.vdaf.num_aggregators()
    }

    fn rand(&self) -> Vec<u8> {
        (0..=255).cycle().take(2 * 32 * self.shares()).collect()
    }

    fn operation(&mut self, name: &str, fields: &[(&str, usize)], success: bool) {
        let mut operation = json!({"operation": name, "success": success});
        for (field, value) in fields {
            operation[field] = (*value).into();
        }
        self.operations.push(operation);
    }

    /// Adds a valid report with all operations up to its output shares.
    fn valid_report(&mut self, measurement: &[u128]) {
        let index = self.reports.len();
        let (public_share, input_shares) = self
            .vdaf
            .shard_with_random(CTX, &measurement.to_vec(), &counting(), &self.rand())
            .unwrap();
        self.operation("shard", &[("report_index", index)], true);
        let (states, verifier_shares) = self.verify_init(index, &public_share, &input_shares);
        let message = self
            .vdaf
            .verifier_shares_to_message(CTX, &(), verifier_shares.iter().cloned())
            .unwrap();
        self.operation(
            "verifier_shares_to_message",
            &[("report_index", index), ("round", 0)],
            true,
        );
        let mut out_shares = Vec::new();
        for (id, state) in states.into_iter().enumerate() {
            let VerifyTransition::Finish(out_share) =
                self.vdaf.verify_next(CTX, state, message.clone()).unwrap()
            else {
                panic!("more than one round");
            };
            let fields = [("aggregator_id", id), ("report_index", index), ("round", 1)];
            self.operation("verify_next", &fields, true);
            out_shares.push(hex_of(&out_share));
            self.out_shares[id].push(out_share);
        }
        let values: Vec<u64> = measurement.iter().map(|v| u64::try_from(*v).unwrap()).collect();
        self.push_report(
            json!(values),
            &public_share,
            &input_shares,
            &verifier_shares,
            json!([hex_of(&message)]),
            out_shares.into(),
        );
    }

    /// Adds a report for which combining the verifier shares fails.
    fn bad_report(
        &mut self,
        public_share: &<Prio3L1BoundSum as Vdaf>::PublicShare,
        input_shares: &[Prio3InputShare<Field128, 32>],
    ) {
        let index = self.reports.len();
        let (_, verifier_shares) = self.verify_init(index, public_share, input_shares);
        self.vdaf
            .verifier_shares_to_message(CTX, &(), verifier_shares.iter().cloned())
            .unwrap_err();
        let fields = [("report_index", index), ("round", 0)];
        self.operation("verifier_shares_to_message", &fields, false);
        self.push_report(
            Value::Null,
            public_share,
            input_shares,
            &verifier_shares,
            json!([]),
            json!([]),
        );
    }

    #[allow(clippy::type_complexity)]
    fn verify_init(
        &mut self,
        index: usize,
        public_share: &<Prio3L1BoundSum as Vdaf>::PublicShare,
        input_shares: &[Prio3InputShare<Field128, 32>],
    ) -> (
        Vec<<Prio3L1BoundSum as Aggregator<32, 16>>::VerifyState>,
        Vec<<Prio3L1BoundSum as Aggregator<32, 16>>::VerifierShare>,
    ) {
        let mut done = Vec::new();
        for (id, input_share) in input_shares.iter().enumerate() {
            done.push(
                self.vdaf
                    .verify_init(&counting(), CTX, id, &(), &counting(), public_share, input_share)
                    .unwrap(),
            );
            let fields = [("aggregator_id", id), ("report_index", index)];
            self.operation("verify_init", &fields, true);
        }
        done.into_iter().unzip()
    }

    fn push_report(
        &mut self,
        measurement: Value,
        public_share: &impl Encode,
        input_shares: &[impl Encode],
        verifier_shares: &[impl Encode],
        verifier_messages: Value,
        out_shares: Value,
    ) {
        self.reports.push(json!({
            "measurement": measurement,
            "nonce": hex::encode(counting::<16>()),
            "rand": hex::encode(self.rand()),
            "public_share": hex_of(public_share),
            "input_shares": input_shares.iter().map(hex_of).collect::<Value>(),
            "verifier_shares": [verifier_shares.iter().map(hex_of).collect::<Value>()],
            "verifier_messages": verifier_messages,
            "out_shares": out_shares,
        }));
    }

    /// Adds aggregation, if any report was valid, and writes everything.
    fn finish(mut self, max_value: u64, length: usize, chunk_length: usize) -> String {
        let (mut agg_shares, mut agg_result) = (Vec::new(), Value::Null);
        let count = self.out_shares[0].len();
        if count > 0 {
            for id in 0..self.shares() {
                let out_shares = self.out_shares[id].clone();
                agg_shares.push(self.vdaf.aggregate(&(), out_shares).unwrap());
                self.operation("aggregate", &[("aggregator_id", id)], true);
            }
            let result = self.vdaf.unshard(&(), agg_shares.iter().cloned(), count).unwrap();
            self.operation("unshard", &[], true);
            agg_result = result.into_iter().map(|v| u64::try_from(v).unwrap()).collect();
        }
        let file = json!({
            "agg_param": "",
            "agg_result": agg_result,
            "agg_shares": agg_shares.iter().map(hex_of).collect::<Value>(),
            "chunk_length": chunk_length,
            "ctx": hex::encode(CTX),
            "length": length,
            "max_value": max_value,
            "operations": self.operations,
            "reports": self.reports,
            "shares": self.shares(),
            "verify_key": hex::encode(counting::<32>()),
        });
        serde_json::to_string_pretty(&file).unwrap() + "\n"
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/vdaf_18_own")
}

fn compare(name: &str, made: String) {
    let path = folder().join(name);
    if std::env::var_os("SOTTO_BLESS").is_some() {
        fs::write(path, made).unwrap();
    } else {
        assert!(fs::read_to_string(path).unwrap() == made, "{name} differs from what is made now");
    }
}

#[test]
fn two_shares() {
    let mut generator = Generator::new(2, 7, 4, 3);
    for measurement in [[0, 0, 0, 0], [7, 0, 0, 0], [1, 2, 3, 1], [0, 0, 5, 0]] {
        generator.valid_report(&measurement);
    }
    compare("Prio3L1BoundSum_0.json", generator.finish(7, 4, 3));
}

#[test]
fn three_shares_and_a_bound_that_is_no_power_of_two() {
    let mut generator = Generator::new(3, 1000, 3, 7);
    for measurement in [[1000, 0, 0], [333, 333, 334], [0, 1, 2]] {
        generator.valid_report(&measurement);
    }
    compare("Prio3L1BoundSum_1.json", generator.finish(1000, 3, 7));
}

/// The circuit of L1BoundSum with a client who claims another norm than the sum of the elements.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WrongNorm(L1BoundSum<Field128, ParallelSum<Field128, Mul>>);

impl Flp for WrongNorm {
    type Field = Field128;

    fn gadget(&self) -> Vec<Box<dyn Gadget<Field128>>> {
        self.0.gadget()
    }

    fn num_gadgets(&self) -> usize {
        self.0.num_gadgets()
    }

    fn valid(
        &self,
        gadgets: &mut Vec<Box<dyn Gadget<Field128>>>,
        input: &[Field128],
        joint_rand: &[Field128],
        num_shares: usize,
    ) -> Result<Vec<Field128>, FlpError> {
        self.0.valid(gadgets, input, joint_rand, num_shares)
    }

    fn input_len(&self) -> usize {
        self.0.input_len()
    }

    fn proof_len(&self) -> usize {
        self.0.proof_len()
    }

    fn verifier_len(&self) -> usize {
        self.0.verifier_len()
    }

    fn joint_rand_len(&self) -> usize {
        self.0.joint_rand_len()
    }

    fn eval_output_len(&self) -> usize {
        self.0.eval_output_len()
    }

    fn prove_rand_len(&self) -> usize {
        self.0.prove_rand_len()
    }
}

impl Type for WrongNorm {
    type Measurement = Vec<u128>;
    type AggregateResult = Vec<u128>;

    /// The elements of `measurement`, which claim to add up to its last, which is no element.
    fn encode_measurement(&self, measurement: &Vec<u128>) -> Result<Vec<Field128>, FlpError> {
        let bits = 3; // the largest value is 7
        let encoded = measurement.iter().flat_map(|v| (0..bits).map(move |i| (v >> i) & 1));
        Ok(encoded.map(Field128::from).collect())
    }

    fn truncate(&self, input: Vec<Field128>) -> Result<Vec<Field128>, FlpError> {
        self.0.truncate(input)
    }

    fn decode_result(&self, data: &[Field128], count: usize) -> Result<Vec<u128>, FlpError> {
        self.0.decode_result(data, count)
    }

    fn output_len(&self) -> usize {
        self.0.output_len()
    }
}

/// An honest proof, consistent joint randomness, every element and the claimed norm in range; but
/// the elements add up to 14, and the norm is claimed to be 7.
#[test]
fn bad_norm() {
    let mut generator = Generator::new(2, 7, 4, 3);
    let client = Prio3::<_, XofTurboShake128, 32>::new(
        2,
        1,
        7,
        WrongNorm(L1BoundSum::new(7, 4, 3).unwrap()),
    );
    let claim = vec![7, 7, 0, 0, 7];
    let (public_share, input_shares) =
        client.unwrap().shard_with_random(CTX, &claim, &counting(), &generator.rand()).unwrap();
    generator.bad_report(&public_share, &input_shares);
    compare("Prio3L1BoundSum_bad_norm.json", generator.finish(7, 4, 3));
}

/// The helper's seed was altered.
#[test]
fn bad_helper_seed() {
    let mut generator = Generator::new(2, 7, 4, 3);
    let (public_share, mut input_shares) = generator
        .vdaf
        .shard_with_random(CTX, &vec![1, 2, 3, 0], &counting(), &generator.rand())
        .unwrap();
    let mut bytes = input_shares[1].get_encoded().unwrap();
    bytes[0] ^= 1;
    input_shares[1] =
        Prio3InputShare::get_decoded_with_param(&(&generator.vdaf, 1), &bytes).unwrap();
    generator.bad_report(&public_share, &input_shares);
    compare("Prio3L1BoundSum_bad_helper_seed.json", generator.finish(7, 4, 3));
}

/// `check.py` is a second implementation, that shares no code with the one that made the vectors.
#[test]
fn a_second_implementation_agrees() {
    let files = ["0", "1", "bad_norm", "bad_helper_seed"]
        .map(|name| folder().join(format!("Prio3L1BoundSum_{name}.json")));
    match Command::new("python3").arg(folder().join("check.py")).args(files).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(text.lines().filter(|line| line.starts_with("pass ")).count(), 4, "{text}");
        }
        Err(error) => {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "python3: {error}");
            println!("skipped: python3 is missing ({error})");
        }
    }
}
