//! Models as files: written by an author, read through relay and gateway, and trained.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;
use rand_core::{CryptoRng, Rng as _};
use sotto_client::{
    Classifier, DeviceLearner, HttpRequest, HttpResponse, Log, ModelFileError, Models, OwnModel,
    PIECE_LEN, Participant, PassReport, Trainer, Transport, TransportError, classifying,
    evaluation_scale, fetch_model, local_training, plan, remove_model, write_model,
};
use sotto_dp::mechanism::{Encoding, vector};
use sotto_learn::coins::Coins;
use sotto_learn::data::{Preparation, digits};
use sotto_learn::discovery::{Bits, Candidates};
use sotto_learn::evaluation::{Answer, Scale};
use sotto_learn::model::{Labelled, Mlp, Softmax, from_bytes, to_bytes};
use sotto_learn::optimizer::Optimizer;
use sotto_learn::plan::Plan as TrainingPlan;
use sotto_protocol::Moment;
use sotto_protocol::device::Learner;
use sotto_protocol::expression::{Attributes, Value};
use sotto_testing::keys::gateway_key;
use sotto_testing::log::{Batch, at};
use sotto_testing::recipe::{DAY, NOW, recipe, recipe_entry, reclaim, set_query};
use sotto_testing::world::{Plan, World};
use sotto_wire::EntryId;
use sotto_wire::limits::MAX_DIMENSION;
use sotto_wire::recipe::{
    AttributeType, Discovery, EVALUATION, Model, Noise, Participation, Privacy, Query, Randomizer,
    Recipe, Round, Series, Training, UPDATE, VectorQuery,
};

use crate::device::behind_relay::{BehindRelay, Inner, answer, host, random, through};

const MODELS: &str = "https://models.example/of/author";

fn numbers(count: usize) -> Vec<u8> {
    let numbers: Vec<f64> = (0..count).map(|place| (place as f64 * 0.37).sin()).collect();
    to_bytes(&numbers)
}

/// A web server for the folder of models, behind relay and gateway.
fn served(folder: &Path) -> Arc<BehindRelay> {
    let folder = folder.to_owned();
    BehindRelay::new(&[gateway_key(1)], move |inner: &Inner| {
        let path = inner.url.strip_prefix(MODELS).unwrap().trim_start_matches('/');
        let headers = [("content-type", "application/octet-stream"), ("retry-after", "10")];
        fs::read(folder.join(path))
            .map_or(answer(404, &[], b""), |file| answer(200, &headers, &file))
    })
}

fn noon() -> Moment {
    Moment(NOW)
}

fn fetch(
    transport: &dyn Transport,
    digest: &EntryId,
    numbers: u64,
) -> Result<Vec<u8>, ModelFileError> {
    fetch_model(transport, MODELS, digest, numbers, &noon)
}

/// Answers by a function of the piece, and counts the requests.
struct Pieces<F> {
    reply: F,
    asked: Mutex<Vec<String>>,
}

impl<F: Fn(usize) -> Result<HttpResponse, TransportError> + Send + Sync> Transport for Pieces<F> {
    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
        self.asked.lock().unwrap().push(request.url.clone());
        assert_eq!((request.response_limit, request.body.len()), (PIECE_LEN, 0));
        (self.reply)(request.url.rsplit('/').next().unwrap().parse().unwrap())
    }
}

fn pieces<F: Fn(usize) -> Result<HttpResponse, TransportError> + Send + Sync>(
    reply: F,
) -> Pieces<F> {
    Pieces { reply, asked: Mutex::default() }
}

fn piece(file: &[u8], index: usize) -> Vec<u8> {
    let mut piece = file[index * PIECE_LEN..].to_vec();
    piece.resize(PIECE_LEN, 0);
    piece
}

#[test]
fn a_model_comes_back_bit_by_bit_in_pieces_that_look_alike() {
    /// Remembers how long sealed answers are.
    struct Measured(Arc<BehindRelay>, Mutex<Vec<usize>>);
    impl Transport for Measured {
        fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
            let answer = self.0.send(request)?;
            self.1.lock().unwrap().push(answer.body.len());
            Ok(answer)
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let full = PIECE_LEN / 4;
    assert_eq!(PIECE_LEN % 4, 0);
    for (count, wanted) in [(1, 1), (650, 1), (full, 1), (full + 1, 2), (3 * full - 1, 3)] {
        let file = numbers(count);
        let digest = write_model(folder.path(), &file).unwrap();
        assert_eq!(digest, EntryId::of(&file));
        let relay = served(folder.path());
        let measured = Arc::new(Measured(Arc::clone(&relay), Mutex::default()));
        let transport = sotto_client::RelayTransport::new(
            Arc::<Measured>::clone(&measured),
            vec!["https://relay.example/".to_owned()],
            "gateway.example".parse().unwrap(),
            vec![gateway_key(1).config().clone()],
            crate::device::behind_relay::clock(NOW),
            random(),
        );
        assert_eq!(fetch(&transport, &digest, count as u64).unwrap(), file);
        let urls: Vec<String> = relay.inner().into_iter().map(|inner| inner.url).collect();
        let expected: Vec<String> =
            (0..wanted).map(|index| format!("{MODELS}/{digest}/{index}")).collect();
        assert_eq!(urls, expected);
        // What a relay sees of each piece.
        assert!(relay.outer().iter().all(|outer| outer.body.len() == 4_096));
        assert_eq!(*measured.1.lock().unwrap(), vec![64 * 1024; wanted]);
        // A slash at the end of the URL is the same folder.
        let with_slash = format!("{MODELS}/");
        let again = fetch_model(&transport, &with_slash, &digest, count as u64, &noon);
        assert_eq!(again.unwrap(), file);
        // A recipe that says another length is refused, if nothing else then by the digest.
        assert!(fetch(&transport, &digest, count as u64 + 1).is_err());
        assert!(count == 1 || fetch(&transport, &digest, count as u64 - 1).is_err());
    }
}

#[test]
fn pieces_that_are_not_what_the_log_names_are_refused() {
    let file = numbers(2 * PIECE_LEN / 4 - 9);
    let digest = EntryId::of(&file);
    let count = file.len() as u64 / 4;
    let ok = |body: Vec<u8>| Ok(answer(200, &[], &body));
    let honest = pieces(|index| ok(piece(&file, index)));
    assert_eq!(fetch(&honest, &digest, count).unwrap(), file);

    type Reply<'a> = Box<dyn Fn(usize) -> Result<HttpResponse, TransportError> + Send + Sync + 'a>;
    let change = |at: usize, change: fn(&mut Vec<u8>)| -> Reply<'_> {
        let file = &file;
        Box::new(move |index| {
            let mut body = piece(file, index);
            if index == at {
                change(&mut body);
            }
            ok(body)
        })
    };
    let length = |piece, found| ModelFileError::Length { piece, found };
    let status = |piece, status| ModelFileError::Status { piece, status };
    let rows: Vec<(Reply<'_>, ModelFileError, usize)> = vec![
        (change(0, |body| body[100] ^= 1), ModelFileError::Digest, 2),
        (change(1, |body| body[100] ^= 1), ModelFileError::Digest, 2),
        (change(1, |body| body[PIECE_LEN - 1] = 1), ModelFileError::Padding, 2),
        (change(1, |body| body[PIECE_LEN - 36] = 1), ModelFileError::Padding, 2),
        (change(0, |body| body.truncate(10)), length(0, 10), 1),
        (change(0, Vec::clear), length(0, 0), 1),
        (change(1, |body| body.truncate(PIECE_LEN - 36)), length(1, PIECE_LEN - 36), 2),
        (change(0, |body| body.push(0)), length(0, PIECE_LEN + 1), 1),
        (Box::new(|index| ok(piece(&file, 1 - index))), ModelFileError::Padding, 2),
        (Box::new(|_| ok(vec![0; PIECE_LEN])), ModelFileError::Digest, 2),
        (Box::new(|_| Ok(answer(404, &[], b""))), status(0, 404), 1),
        (Box::new(|_| Ok(answer(206, &[], &piece(&file, 0)))), status(0, 206), 1),
        (Box::new(|_| Ok(answer(301, &[("location", "/elsewhere")], b""))), status(0, 301), 1),
        (
            Box::new(|index| match index {
                0 => ok(piece(&file, 0)),
                _ => Err(TransportError::Timeout),
            }),
            ModelFileError::Transport { piece: 1, error: TransportError::Timeout },
            2,
        ),
    ];
    for (row, (reply, expected, asked)) in rows.into_iter().enumerate() {
        let hostile = pieces(reply);
        let found = fetch(&hostile, &digest, count).unwrap_err();
        // Swapped, the last piece is not padded where the first one had numbers.
        assert_eq!(found, expected, "row {row}");
        assert_eq!(hostile.asked.lock().unwrap().len(), asked, "row {row}: nothing more is read");
    }
    let misdirected = status(3, 421).to_string();
    assert!(misdirected.contains("does not serve this origin"), "{misdirected}");
}

#[test]
fn a_model_is_bounded_in_size_and_time() {
    let never = pieces(|_| Ok(answer(500, &[], b"")));
    let digest = EntryId::of(b"");
    for bad in [0, MAX_DIMENSION + 1, 1 << 62, (1 << 62) + 1, u64::MAX / 4, u64::MAX] {
        assert_eq!(fetch(&never, &digest, bad), Err(ModelFileError::Size(bad.saturating_mul(4))));
    }
    assert_eq!(never.asked.lock().unwrap().len(), 0, "nothing was requested");
    // The largest.
    let zeros = pieces(|_| Ok(answer(200, &[], &vec![0; PIECE_LEN])));
    let largest = vec![0; 4 * MAX_DIMENSION as usize];
    assert_eq!(fetch(&zeros, &EntryId::of(&largest), MAX_DIMENSION).unwrap(), largest);
    assert_eq!(zeros.asked.lock().unwrap().len(), largest.len().div_ceil(PIECE_LEN));
    // A server that takes its time: 100 seconds for each of 69 pieces.
    let time = AtomicU64::new(NOW);
    let slow = pieces(|_| {
        time.fetch_add(100, Ordering::Relaxed);
        Ok(answer(200, &[], &vec![0; PIECE_LEN]))
    });
    let clock = || Moment(time.load(Ordering::Relaxed));
    let found = fetch_model(&slow, MODELS, &EntryId::of(&largest), MAX_DIMENSION, &clock);
    assert_eq!(found, Err(ModelFileError::Late));
    assert_eq!(slow.asked.lock().unwrap().len(), 7);
}

#[test]
fn an_author_writes_all_of_a_model_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models");
    let file = numbers(PIECE_LEN / 4 + 5);
    let digest = EntryId::of(&file);
    // A crash left a part.
    let part = models.join(format!(".{digest}.new"));
    fs::create_dir_all(&part).unwrap();
    fs::write(part.join("0"), b"half").unwrap();
    assert_eq!(write_model(&models, &file).unwrap(), digest);
    let names = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&models), [digest.to_string()]);
    let written = models.join(digest.to_string());
    assert_eq!(names(&written), ["0", "1"]);
    for index in [0, 1] {
        assert_eq!(fs::read(written.join(index.to_string())).unwrap(), piece(&file, index));
    }
    // Again is the same, and another is beside it.
    assert_eq!(write_model(&models, &file).unwrap(), digest);
    let other = write_model(&models, &numbers(3)).unwrap();
    assert_eq!(names(&models).len(), 2);
    // What is there and is something else is an error.
    fs::write(models.join(other.to_string()).join("0"), b"else").unwrap();
    assert!(write_model(&models, &numbers(3)).unwrap_err().to_string().contains("damaged"));
    fs::write(written.join("2"), b"else").unwrap();
    assert!(write_model(&models, &file).unwrap_err().to_string().contains("too many files"));
    for bad in [Vec::new(), vec![0; 4 * MAX_DIMENSION as usize + 1]] {
        assert!(write_model(&models, &bad).is_err());
    }
    assert_eq!(names(&models).len(), 2);
    // Removing is finished after a crash, and may be repeated.
    fs::create_dir_all(&part).unwrap();
    for _ in 0..2 {
        remove_model(&models, &digest).unwrap();
        assert_eq!(names(&models), [other.to_string()]);
    }
}

/// The header of a training of this model.
fn header(model: Model, vote_weight_micro: Option<u64>) -> Recipe {
    let mut recipe = recipe("train-digits");
    let training = Training {
        model,
        models: MODELS.to_owned(),
        steps: 3,
        batch: Some(2),
        learning_rate_micro: 700_000,
        vote_weight_micro,
        largest_loss_micro: None,
    };
    let dimension = u32::try_from(training.answer_numbers()).unwrap();
    recipe.series = Some(Series {
        rounds: 30,
        participation: Participation::EachRound {},
        length_s: None,
        training: Some(training),
        discovery: None,
        round: None,
    });
    if let Privacy::Claim { rounds, .. } = &mut recipe.privacy {
        *rounds = 30;
    }
    recipe.attributes.insert(UPDATE.parse().unwrap(), AttributeType::Vector(dimension));
    recipe.randomizer = Randomizer::Gaussian { sigma_micro: 40_000_000 };
    let mapping = UPDATE.to_owned();
    let vectors = VectorQuery {
        dimension,
        clip_micro: 500_000,
        fraction_bits: 18,
        mapping,
        compression: None,
    };
    set_query(&mut recipe, Query::VectorSum(vectors));
    recipe.check().unwrap();
    recipe
}

const SOFTMAX: Model = Model::Softmax { features: 65, classes: 10 };
const MLP: Model = Model::Mlp { features: 65, hidden: 4, classes: 10 };

fn round(header: &Recipe, index: u64, model: EntryId) -> Recipe {
    header.with_round(Round { index, model: Some(model) }).unwrap()
}

fn examples() -> Vec<Labelled> {
    let digits = digits().unwrap();
    Preparation::new(&digits, Some(0.3)).apply(&digits).unwrap()[..5].to_vec()
}

/// What the server of this series does.
fn planned(header: &Recipe, quantile: Option<(f64, f64)>) -> TrainingPlan {
    plan(header, 100.0, Optimizer::Sgd { rate: 1.0 }, quantile).unwrap()
}

/// The device's path and fast mode's: the same whole numbers, in rounds whose clip has moved.
fn equal<M: sotto_learn::model::Model<Example = Labelled>>(
    model: &M,
    header: &Recipe,
    quantile: Option<(f64, f64)>,
    trainer: &dyn Trainer,
) {
    let plan = planned(header, quantile);
    let vectors = header.query.vectors().unwrap();
    let mechanism = sotto_protocol::recipe::mechanism(header).unwrap();
    assert_eq!(mechanism.clip(), Some(plan.norm_bound()), "the norm that is proved and accounted");
    let mut progress = plan.start(model.initial(&mut Coins::from_number(1).initial())).unwrap();
    let mut seen = Vec::new();
    for index in 0..3 {
        let mut models = Models::default();
        let digest = models.add(plan.model_file(&progress));
        let learner = DeviceLearner::new(&models, Some(trainer));
        let round = round(header, index, digest);
        assert!(learner.is_ready(&round));
        let coins = || Coins::from_number(7).training(index as u32, 3);
        let update = learner.update(&round, &mut coins()).unwrap();
        // As the protocol does with every vector.
        let sent = vectors.sent();
        let device = vector::clip(&update, sent, vectors.fraction_bits, plan.norm_bound());
        let clip = plan.clip(&progress);
        let fast = plan.contribution(model, progress.weights(), clip, &examples(), &mut coins());
        assert_eq!(device, fast);
        assert!(device.iter().any(|number| *number != 0));
        assert!(vector::is_within(&device, plan.norm_bound()));
        seen.push((clip, device.clone()));
        let sum: Vec<i64> = device.iter().map(|number| number * 100).collect();
        plan.advance(&mut progress, &sum).unwrap();
    }
    let moved = seen.iter().any(|(clip, _)| *clip != seen[0].0);
    assert_eq!(moved, quantile.is_some(), "the clip moves if devices vote");
    assert_ne!(seen[0].1, seen[2].1);
}

#[test]
fn a_device_contributes_what_fast_mode_computes_for_it() {
    let classifier = Classifier::new(examples);
    let softmax = Softmax::new(65, 10).unwrap();
    let mlp = Mlp::new(65, 4, 10).unwrap();
    for (weight, quantile) in [(None, None), (Some(150_000), Some((0.5, 0.3)))] {
        equal(&softmax, &header(SOFTMAX, weight), quantile, &classifier);
        equal(&mlp, &header(MLP, weight), quantile, &classifier);
        let own = Model::Custom { name: "digits".to_owned(), weights: 650 };
        let trainer = OwnModel::new("digits", softmax, examples);
        equal(&softmax, &header(own, weight), quantile, &trainer);
    }
    // Votes without a quantile to follow, and the other way round.
    let sgd = Optimizer::Sgd { rate: 1.0 };
    assert!(plan(&header(SOFTMAX, None), 1.0, sgd, Some((0.5, 0.3))).is_err());
    assert!(plan(&header(SOFTMAX, Some(1)), 1.0, sgd, None).is_err());
    assert!(plan(&recipe("no-training"), 1.0, sgd, None).is_err());
}

/// The header of evaluations of what this header trains.
fn evaluation(of: &Recipe) -> Recipe {
    let mut recipe = of.clone();
    recipe.name = "evaluate-digits".to_owned();
    let training = recipe.series.as_mut().unwrap().training.as_mut().unwrap();
    (training.steps, training.batch, training.learning_rate_micro) = (0, None, 0);
    training.largest_loss_micro = Some(1_500_000);
    recipe.attributes.remove(UPDATE);
    recipe.attributes.insert(EVALUATION.parse().unwrap(), AttributeType::Vector(2));
    recipe.randomizer = Randomizer::None;
    recipe.noise = Some(Noise::ServerGaussian { sigma_micro: 2_000_000 });
    let vectors = VectorQuery {
        dimension: 2,
        clip_micro: 700_000,
        fraction_bits: 15,
        mapping: EVALUATION.to_owned(),
        compression: None,
    };
    set_query(&mut recipe, Query::VectorSum(vectors));
    recipe.check().unwrap();
    recipe
}

#[test]
fn a_device_evaluates_the_model_of_the_training_and_no_answer_is_clipped() {
    let classifier = Classifier::new(examples);
    let own = OwnModel::new("digits", Softmax::new(65, 10).unwrap(), examples);
    let custom = Model::Custom { name: "digits".to_owned(), weights: 650 };
    let trainers: [(Model, &dyn Trainer); 3] =
        [(SOFTMAX, &classifier), (MLP, &classifier), (custom, &own)];
    for (votes, (kind, trainer)) in [None, Some(100_000)]
        .into_iter()
        .flat_map(|votes| trainers.clone().map(|trainer| (votes, trainer)))
    {
        let training = header(kind.clone(), votes);
        let header = evaluation(&training);
        assert!(plan(&header, 1.0, Optimizer::Sgd { rate: 1.0 }, None).is_err(), "no training");
        assert!(evaluation_scale(&training).is_err(), "no evaluation");
        let plan = planned(&training, votes.map(|_| (0.5, 0.3)));
        let model: Box<dyn sotto_learn::model::Model<Example = Labelled>> = match &kind {
            Model::Custom { .. } => Box::new(Softmax::new(65, 10).unwrap()),
            kind => classifying(kind).unwrap(),
        };
        let weights = model.initial(&mut Coins::from_number(2).initial());
        let weights: Vec<f64> = weights.iter().map(|weight| weight + 0.01).collect();
        let progress = plan.start(weights).unwrap();
        let mut models = Models::default();
        // The same file as in the training.
        let digest = models.add(plan.model_file(&progress));
        let learner = DeviceLearner::new(&models, Some(trainer));
        let round = round(&header, 0, digest);
        assert!(learner.is_ready(&round));
        let update = learner.update(&round, &mut Coins::from_number(1).initial()).unwrap();
        let mechanism = sotto_protocol::recipe::mechanism(&header).unwrap();
        let Encoding::Vector { norm_bound: bound, .. } = mechanism.encoding() else {
            panic!("vectors");
        };
        let scale = evaluation_scale(&header).unwrap();
        let answer = scale.answer(&*model, progress.weights(), &examples()).unwrap();
        assert!(answer.loss == scale.max, "above 1.5, so cut off");
        let sent = vector::clip(&update, 2, 15, bound);
        assert_eq!(sent, [answer.loss, answer.right].map(|number| number as i64));
        // As large as can be, and not clipped; one unit more would be.
        let largest = |max: u64| vector::is_within(&[max as i64; 2], bound);
        assert!(largest(scale.max) && !largest(scale.max + 1));
        let both = [scale.max as f64 / 32_768.0; 2];
        assert_eq!(vector::clip(&both, 2, 15, bound), [scale.max as i64; 2]);
        // Nothing to say.
        let empty = Classifier::new(Vec::new);
        let learner = DeviceLearner::new(&models, Some(&empty));
        assert_eq!(learner.update(&round, &mut Coins::from_number(1).initial()), None);
        // Weights of another model.
        assert_eq!(trainer.evaluate(&kind, &scale, &[0.1; 3]), None);
    }
}

/// The norm in units is that of the recipe whatever the clip: a product of whole numbers there, of
/// floating-point numbers here.
#[test]
fn the_norm_of_a_plan_is_that_of_its_recipe() {
    let mut header = header(Model::Softmax { features: 2, classes: 2 }, None);
    let mut rng = Coins::from_number(5).split();
    for _ in 0..300 {
        let Query::VectorSum(vectors) = &mut header.query else { panic!("vectors") };
        vectors.clip_micro = 1 + rng.next_u64() % (1 << (rng.next_u32() % 30));
        vectors.fraction_bits = rng.next_u32() % 21;
        let units = (u128::from(vectors.clip_micro) << vectors.fraction_bits) / 1_000_000;
        if units == 0 {
            continue;
        }
        assert_eq!(u128::from(planned(&header, None).norm_bound()), units);
    }
}

#[test]
fn a_device_is_ready_for_exactly_the_model_that_the_round_names() {
    let classifier = Classifier::new(examples);
    let header = header(SOFTMAX, Some(100_000));
    let mut good: Vec<f64> = vec![0.25; 650];
    good.push(0.5);
    let ready = |numbers: &[f64], header: &Recipe| {
        let mut models = Models::default();
        let digest = models.add(to_bytes(numbers));
        let learner = DeviceLearner::new(&models, Some(&classifier));
        let round = round(header, 0, digest);
        let update = learner.update(&round, &mut Coins::from_number(1).training(0, 0));
        assert_eq!(update.is_some(), learner.is_ready(&round));
        learner.is_ready(&round)
    };
    assert!(ready(&good, &header));
    for (place, bad) in
        [(0, f64::NAN), (3, f64::INFINITY), (650, 0.0), (650, -1.0), (650, f64::NAN)]
    {
        let mut numbers = good.clone();
        numbers[place] = bad;
        assert!(!ready(&numbers, &header), "{place} {bad}");
    }
    assert!(!ready(&good[..650], &header) && !ready(&[0.5; 652], &header) && !ready(&[], &header));
    let unknown = Model::Custom { name: "digits".to_owned(), weights: 650 };
    assert!(!ready(&good, &self::header(unknown, Some(100_000))));
    // A model that is not there, a header, a recipe without a training.
    let models = Models::default();
    let learner = DeviceLearner::new(&models, Some(&classifier));
    for recipe in [round(&header, 0, EntryId::of(b"")), header, recipe("no-training")] {
        assert!(!learner.is_ready(&recipe));
        assert_eq!(learner.update(&recipe, &mut Coins::from_number(1).initial()), None);
    }
    // The name counts, and the number of weights.
    let own = OwnModel::new("digits", Softmax::new(65, 10).unwrap(), examples);
    let custom = |name: &str, weights| Model::Custom { name: name.to_owned(), weights };
    assert!(own.knows(&custom("digits", 650)) && !own.knows(&SOFTMAX));
    assert!(!own.knows(&custom("digits", 651)) && !own.knows(&custom("other", 650)));
}

#[test]
fn examples_that_do_not_fit_the_model_are_left_out() {
    let mixed = || {
        let mut examples = examples();
        examples.push(Labelled { features: vec![1.0; 64], label: 0 });
        examples.push(Labelled { features: vec![1.0; 65], label: 10 });
        examples.push(Labelled { features: Vec::new(), label: usize::MAX });
        examples
    };
    let training = header(SOFTMAX, None).series.unwrap().training.unwrap();
    let update = |examples: fn() -> Vec<Labelled>| {
        let trainer = Classifier::new(examples);
        let mut rng = Coins::from_number(1).initial();
        trainer.update(&SOFTMAX, local_training(&training), &[0.1; 650], &mut rng)
    };
    assert_eq!(update(mixed), update(examples));
    assert_eq!(update(Vec::new), Some(vec![0.0; 650]));
    // Weights of another model: no update, and no panic.
    for model in [SOFTMAX, MLP] {
        let trainer = Classifier::new(examples);
        let mut rng = Coins::from_number(1).initial();
        assert_eq!(trainer.update(&model, local_training(&training), &[0.1; 3], &mut rng), None);
    }
}

/// A trainer whose update is too short.
struct Short;

impl Trainer for Short {
    fn knows(&self, _model: &Model) -> bool {
        true
    }

    fn update(
        &self,
        _model: &Model,
        _training: sotto_learn::local::LocalTraining,
        weights: &[f64],
        _rng: &mut dyn CryptoRng,
    ) -> Option<Vec<f64>> {
        Some(weights[1..].to_vec())
    }

    fn evaluate(&self, _model: &Model, _scale: &Scale, _weights: &[f64]) -> Option<Answer> {
        None
    }
}

#[test]
fn an_update_of_another_length_is_none() {
    let header = header(SOFTMAX, Some(100_000));
    let mut models = Models::default();
    let digest = models.add(to_bytes(&[0.5; 651]));
    let learner = DeviceLearner::new(&models, Some(&Short));
    let round = round(&header, 0, digest);
    assert!(learner.is_ready(&round));
    assert_eq!(learner.update(&round, &mut Coins::from_number(1).initial()), None);
}

/// A log with a series for each of these models, and its first round.
fn world(files: &[Vec<u8>]) -> World {
    let mut plan = Plan::new();
    plan.recipe = header(SOFTMAX, None);
    plan.trust.budget.epsilon = 20.0;
    reclaim(&mut plan.recipe);
    for (number, file) in (0..).zip(files) {
        let mut header = plan.recipe.clone();
        let mut entries = Vec::new();
        if number > 0 {
            header.name = format!("train-digits-{number}");
            entries.push(recipe_entry(&header));
        }
        entries.push(recipe_entry(&round(&header, 0, EntryId::of(file))));
        plan.later.push(Batch { entries, times: at(NOW - 2 * DAY + number) });
    }
    plan.build()
}

/// The log and the models behind one gateway.
fn both(world: &World, folder: &Path) -> Arc<BehindRelay> {
    let (log, folder): (BTreeMap<_, _>, _) = (world.log.files.clone(), folder.to_owned());
    BehindRelay::new(&[gateway_key(0)], move |inner: &Inner| {
        let found = match inner.url.strip_prefix("https://log.example/") {
            Some(path) => log.get(path).cloned(),
            None => {
                fs::read(folder.join(inner.url.strip_prefix(MODELS).unwrap().trim_matches('/')))
                    .ok()
            }
        };
        found.map_or_else(|| answer(404, &[], b""), |file| answer(200, &[], &file))
    })
}

#[test]
fn a_device_fetches_every_model_over_the_route_to_the_log_whatever_its_data() {
    let folder = tempfile::tempdir().unwrap();
    let file = numbers(650);
    let digest = write_model(folder.path(), &file).unwrap();
    let world = world(std::slice::from_ref(&file));
    let passes = |examples: fn() -> Vec<Labelled>, conditions: bool| {
        let relay = both(&world, folder.path());
        let mut host = host(&world, Arc::<BehindRelay>::clone(&relay));
        host.trainer = Some(Box::new(Classifier::new(examples)));
        host.conditions = Box::new(move || Ok(conditions));
        let log = Log::at("https://log.example", &host, &world.trust).unwrap();
        let mut store = world.device();
        let mut device = Participant::new(host, Arc::new(world.trust.clone()), &mut store, log);
        let missing = |pass: PassReport| pass.models_missing;
        assert_eq!(missing(device.pass().unwrap()), []);
        let first = relay.inner().len();
        assert_eq!(missing(device.pass().unwrap()), []);
        let urls = relay.inner().into_iter().map(|inner| inner.url);
        let model = |url: &(usize, String)| url.1.starts_with(MODELS);
        (first, urls.enumerate().filter(model).collect::<Vec<_>>(), relay)
    };
    let (first, urls, relay) = passes(examples, true);
    let [(place, url)] = &urls[..] else { panic!("one piece, once: {urls:?}") };
    assert!(*place < first, "in the first pass");
    assert_eq!(*url, format!("{MODELS}/{digest}/0"));
    let gateway = "https://relay.example/gateway.example";
    assert_eq!(relay.outer()[*place].url, gateway, "the route of the log");
    // Without examples it is the same, and without the host's conditions nothing is read.
    assert_eq!(passes(Vec::new, true).1, urls);
    assert_eq!(passes(examples, false).1, []);
}

#[test]
fn a_model_that_is_missing_or_wrong_is_asked_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = numbers(650);
    let digest = write_model(folder.path(), &file).unwrap();
    let first = folder.path().join(digest.to_string()).join("0");
    let world = world(std::slice::from_ref(&file));
    let relay = both(&world, folder.path());
    let mut host = host(&world, Arc::<BehindRelay>::clone(&relay));
    host.trainer = Some(Box::new(Classifier::new(examples)));
    let log = Log::at("https://log.example", &host, &world.trust).unwrap();
    let mut store = world.device();
    let mut device = Participant::new(host, Arc::new(world.trust.clone()), &mut store, log);
    let honest = fs::read(&first).unwrap();
    let mut pass = || {
        let missing = device.pass().unwrap().models_missing;
        missing.into_iter().map(|(_, error)| error).collect::<Vec<_>>()
    };
    fs::remove_file(&first).unwrap();
    assert_eq!(pass(), [ModelFileError::Status { piece: 0, status: 404 }]);
    let mut wrong = honest.clone();
    wrong[5] ^= 1;
    fs::write(&first, &wrong).unwrap();
    assert_eq!(pass(), [ModelFileError::Digest]);
    fs::write(&first, &honest).unwrap();
    assert_eq!(pass(), []);
    // It is held now.
    fs::remove_file(&first).unwrap();
    assert_eq!(pass(), []);
}

/// Two trainings, and a server that takes 700 seconds for a piece: one of them, which is random, waits
/// for another pass. (Always the same one in 40 devices: 4e-12 for random seeds.)
#[test]
fn a_slow_server_delays_a_pass_once_and_not_always_by_the_same_model() {
    let folder = tempfile::tempdir().unwrap();
    let files = [numbers(650), to_bytes(&[0.5; 650])];
    let digests = files.each_ref().map(|file| write_model(folder.path(), file).unwrap());
    let world = world(&files);
    let mut asked = Vec::new();
    for device in 0..40 {
        let time = Arc::new(AtomicU64::new(NOW));
        let (files, slow) = (both(&world, folder.path()), Arc::clone(&time));
        let mut host = host(&world, Arc::new(SlowModels { files: Arc::clone(&files), slow }));
        let seeds = AtomicU64::new(1_000 * device);
        host.random = Arc::new(move || {
            let seed = seeds.fetch_add(1, Ordering::Relaxed);
            Box::new(ChaCha20Rng::seed_from_u64(seed))
        });
        host.trainer = Some(Box::new(Classifier::new(examples)));
        let log = Log::at("https://log.example", &host, &world.trust).unwrap();
        // The gateway's clock stands still.
        let passed = Arc::clone(&time);
        host.clock = Arc::new(move || Moment(passed.load(Ordering::Relaxed)));
        let mut store = world.device();
        let mut device = Participant::new(host, Arc::new(world.trust.clone()), &mut store, log);
        let missing = device.pass().unwrap().models_missing;
        assert!(matches!(missing[..], [(_, ModelFileError::Late)]), "{missing:?}");
        let urls: Vec<String> = files.inner().into_iter().map(|inner| inner.url).collect();
        let models: Vec<&String> = urls.iter().filter(|url| url.starts_with(MODELS)).collect();
        let [model] = models[..] else { panic!("{models:?}") };
        asked.push(model.contains(&digests[0].to_string()));
        assert!(device.pass().unwrap().models_missing.is_empty(), "the other one");
    }
    assert!(asked.contains(&true) && asked.contains(&false));
}

/// Lets time pass with each answer of 64 KiB.
struct SlowModels {
    files: Arc<BehindRelay>,
    slow: Arc<AtomicU64>,
}

impl Transport for SlowModels {
    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
        let answer = self.files.send(request)?;
        if answer.body.len() == 64 * 1024 {
            self.slow.fetch_add(700, Ordering::Relaxed);
        }
        Ok(answer)
    }
}

#[test]
fn a_file_with_the_right_digest_that_is_no_model_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut bad = vec![0.0; 650];
    bad[7] = f64::NAN;
    let file = to_bytes(&bad);
    write_model(folder.path(), &file).unwrap();
    let world = world(&[file]);
    let mut host = host(&world, both(&world, folder.path()));
    host.trainer = Some(Box::new(Classifier::new(examples)));
    let log = Log::at("https://log.example", &host, &world.trust).unwrap();
    let mut store = world.device();
    let mut device = Participant::new(host, Arc::new(world.trust.clone()), &mut store, log);
    let missing = device.pass().unwrap().models_missing;
    assert!(matches!(missing[..], [(_, ModelFileError::Numbers(_))]), "{missing:?}");
}

/// The header of a discovery, and a list of two candidates.
fn words() -> (Recipe, Vec<u8>) {
    let mut recipe = recipe("new-words");
    recipe.attributes.insert("said".parse().unwrap(), AttributeType::Strings);
    recipe.series = Some(Series {
        rounds: 30,
        participation: Participation::EachRound {},
        length_s: None,
        training: None,
        discovery: Some(Discovery { lists: MODELS.to_owned(), list_len: 100_000 }),
        round: None,
    });
    if let Privacy::Claim { rounds, .. } = &mut recipe.privacy {
        *rounds = 30;
    }
    recipe.randomizer = Randomizer::None;
    recipe.noise = Some(Noise::ServerGaussian { sigma_micro: 400_000_000 });
    let mapping = "said".to_owned();
    set_query(&mut recipe, Query::Histogram { buckets: 4, labels: None, mapping, fallback: 0 });
    recipe.check().unwrap();
    let prefixes = ["000", "10"].map(|bits| Bits::try_from(bits.to_owned()).unwrap());
    let list = Candidates::new(prefixes.to_vec(), ["old".to_owned()], 4).unwrap();
    (recipe, list.to_bytes(100_000).unwrap())
}

#[test]
fn words_are_counted_under_the_candidates_of_the_round() {
    let (header, list) = words();
    let mut models = Models::default();
    let digest = models.add(list.clone());
    let learner = DeviceLearner::new(&models, None);
    let rng = &mut Coins::from_number(1).initial();
    let first = round(&header, 0, digest);
    assert!(learner.is_ready(&first));
    assert_eq!(learner.update(&first, rng), None);
    let mut bucket = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        learner.bucket(&first, &words, rng)
    };
    // `o` begins with 1000, `e` with 001. A denied word is never picked.
    assert_eq!(bucket(&["Obviously"]), Some(2));
    assert_eq!((bucket(&["else"]), bucket(&["old"]), bucket(&[])), (Some(0), Some(0), Some(0)));
    assert_eq!(bucket(&["old", "our"]), Some(2));
    // Neither a round whose list is not held, nor one with fewer buckets than the list is for.
    assert!(!learner.is_ready(&round(&header, 1, EntryId::of(b"another list"))));
    let mut few = header;
    let mapping = "said".to_owned();
    few.query = Query::Histogram { buckets: 3, labels: None, mapping, fallback: 0 };
    assert!(learner.is_ready(&round(&few, 0, digest)));
    let mut wrong = list;
    wrong[30] ^= 1;
    let wrong = models.add(wrong);
    let learner = DeviceLearner::new(&models, None);
    assert!(!learner.is_ready(&round(&few, 0, wrong)));
    assert_eq!(learner.bucket(&round(&few, 0, wrong), &[], rng), None);
}

/// Without a trainer, whatever the words are, and whether there are any.
#[test]
fn every_device_fetches_the_list_of_a_discovery() {
    let folder = tempfile::tempdir().unwrap();
    let (mut header, list) = words();
    let digest = write_model(folder.path(), &list).unwrap();
    let mut plan = Plan::new();
    plan.trust.budget.epsilon = 20.0;
    reclaim(&mut header);
    plan.recipe = header.clone();
    let entries = vec![recipe_entry(&round(&header, 0, digest))];
    plan.later.push(Batch { entries, times: at(NOW - 2 * DAY) });
    let world = plan.build();
    let pass = |said: &[&str]| {
        let relay = both(&world, folder.path());
        let mut host = host(&world, Arc::<BehindRelay>::clone(&relay));
        let said = said.iter().map(|word| Value::String((*word).to_owned())).collect::<Vec<_>>();
        host.attributes = Box::new(move || {
            let mut attributes = Attributes::new();
            attributes.insert("said".parse()?, Value::List(said.clone()));
            Ok(attributes)
        });
        let log = Log::at("https://log.example", &host, &world.trust).unwrap();
        let mut store = world.device();
        let mut device = Participant::new(host, Arc::new(world.trust.clone()), &mut store, log);
        assert_eq!(device.pass().unwrap().models_missing, []);
        let urls = relay.inner().into_iter().map(|inner| inner.url);
        urls.filter(|url| url.starts_with(MODELS)).collect::<Vec<_>>()
    };
    let pieces = [0, 1].map(|piece| format!("{MODELS}/{digest}/{piece}"));
    assert_eq!(pass(&["our", "old"]), pieces);
    assert_eq!(pass(&[]), pieces);
}

#[test]
fn a_file_with_the_right_digest_that_is_no_list_means_silence() {
    let folder = tempfile::tempdir().unwrap();
    let (mut header, mut list) = words();
    list[99_999] = 1;
    let digest = write_model(folder.path(), &list).unwrap();
    let mut plan = Plan::new();
    plan.trust.budget.epsilon = 20.0;
    reclaim(&mut header);
    plan.recipe = header.clone();
    let entries = vec![recipe_entry(&round(&header, 0, digest))];
    plan.later.push(Batch { entries, times: at(NOW - 2 * DAY) });
    let world = plan.build();
    let host = host(&world, both(&world, folder.path()));
    let log = Log::at("https://log.example", &host, &world.trust).unwrap();
    let mut store = world.device();
    let mut device = Participant::new(host, Arc::new(world.trust.clone()), &mut store, log);
    let done = device.pass().unwrap();
    assert!(matches!(done.models_missing[..], [(_, ModelFileError::Numbers(_))]), "{done:?}");
    assert_eq!(done.considered, []);
}

#[test]
fn published_numbers_come_back() {
    let file = numbers(1_000);
    assert_eq!(to_bytes(&from_bytes(&file, 1_000).unwrap()), file);
    let folder = tempfile::tempdir().unwrap();
    let digest = write_model(folder.path(), &file).unwrap();
    let relay = served(folder.path());
    let read = fetch(&through(&relay, &gateway_key(1)), &digest, 1_000).unwrap();
    assert_eq!(read, file);
}
