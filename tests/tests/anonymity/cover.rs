//! What the relay gets from a gateway that answers cover, and one that answers a report: the same
//! bytes, after the same time.
//!
//! Reports and something else go over one connection, one after the other, in a random order. So a
//! busy machine, a slow disk or a job of the leader hits both alike: if they are answered alike, any
//! other order would have given the same times. (In pairs they would not be alike: one of the two
//! would come after a report, which the leader still works on, more often than the other.) The order
//! comes from a fixed seed.
//!
//! The times are compared by the rank test of Mann and Whitney. Over all orders its statistic is
//! normal to a good approximation, as both samples are large, whatever the noise is: if they are
//! answered alike, it exceeds [`MOST`] with probability below 1e-8. That leaves room for the few
//! microseconds that it takes to decode a report. A leader that wrote a short record for cover, which
//! was on the disk some 50 us sooner, was noticed each time: 7 to 11 standard deviations.

use std::sync::Arc;
use std::time::Instant;

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sotto_client::{HttpOptions, HttpTransport};
use sotto_protocol::admission::Admitted;
use sotto_protocol::client::{produce_cover, produce_report};
use sotto_protocol::device::Pending;
use sotto_protocol::oblivious::{Awaited, InnerResponse};
use sotto_protocol::{Task, shuffle};
use sotto_tests::http::{Connection, Response};
use sotto_tests::phone::{Phone, now, trust};
use sotto_tests::world::World;
use sotto_vdaf::Measurement;
use sotto_wire::HpkeConfig;

use super::{ACCEPTED, Door, public_half, seal_upload};

/// How many reports, and how many others.
const EACH: usize = 1_000;
/// Enough to notice what was planted.
const FEW: usize = 300;
/// Standard deviations.
const MOST: f64 = 6.0;

/// What a device uploads.
#[derive(Clone, Copy, Debug)]
enum Upload {
    Report,
    Cover,
    /// As long as a report, and refused before anything is written: what cover would be to a leader
    /// that drops it at once.
    Junk,
}

/// An answer as the relay sees it, apart from the date and what is sealed; and what is sealed, which
/// only the device sees.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    fields: Vec<(String, String)>,
    length: usize,
    inner: InnerResponse,
}

impl Answer {
    fn open(answer: Response, awaited: Awaited) -> Self {
        let Response { status, headers, body } = answer;
        let fields = headers.into_iter().filter(|(name, _)| name != "date").collect();
        let inner = awaited.consume_response(&body).unwrap();
        Self { status, fields, length: body.len(), inner }
    }
}

struct Uploads {
    world: World,
    admitted: Arc<Admitted>,
    /// Of the leader's gateway.
    key: HpkeConfig,
    rng: ChaCha20Rng,
}

impl Uploads {
    fn new() -> Self {
        let mut world = World::new().unwrap();
        world.start_with_keys().unwrap();
        world.publish_recipe("commute", 2).unwrap();
        let transport = HttpTransport::new(HttpOptions::default()).unwrap();
        let trust = trust(&world).unwrap();
        let mut phone = Phone::new(&world, &trust, Arc::new(transport), 1).unwrap();
        // The leader knows the recipe from then on.
        phone.answer(10).unwrap();
        let admitted = phone.admitted("commute").unwrap();
        let key = public_half(&world, "leader-gateway.toml");
        Self { world, admitted, key, rng: ChaCha20Rng::seed_from_u64(15) }
    }

    fn task(&self) -> &Task {
        self.admitted.assessment.task()
    }

    fn content(&mut self, upload: Upload) -> Vec<u8> {
        let task = self.admitted.assessment.task();
        let (leader, helper) = (self.admitted.leader_config(), self.admitted.helper_config());
        let measurement = Measurement::Histogram(1);
        let time = task.time(now());
        match upload {
            Upload::Cover => produce_cover(task, leader, helper, None).unwrap(),
            Upload::Report | Upload::Junk => {
                let rng = &mut self.rng;
                let mut report =
                    produce_report(task, leader, helper, &measurement, time, None, rng).unwrap();
                if let Upload::Junk = upload {
                    // The lengths inside are wrong.
                    report.iter_mut().for_each(|byte| *byte ^= 0xff);
                }
                report
            }
        }
    }

    /// A sealed request.
    fn seal(&mut self, upload: Upload) -> (Vec<u8>, Awaited) {
        let report = self.content(upload);
        let task_configuration = self.task().encoded_configuration().to_vec();
        let pending = Pending { report, task_configuration, from: 0, sends: 0, route: None };
        let seed = self.rng.next_u64();
        seal_upload(&self.world, &pending, &self.key, now(), seed)
    }

    /// One upload. Returns the answer.
    fn send(&mut self, door: Door, upload: Upload) -> Answer {
        let (body, awaited) = self.seal(upload);
        Answer::open(door.post(&self.world, &body), awaited)
    }

    /// Sends reports and others. Returns the statistic of the rank test, positive if reports take
    /// longer. Each answer is checked.
    fn compare(&mut self, each: usize, other: Upload, check: impl Fn(Upload, &Answer)) -> f64 {
        let mut order = [vec![Upload::Report; each], vec![other; each]].concat();
        shuffle(&mut order, &mut self.rng);
        // All are made beforehand: a report takes longer to make, and the server would have more
        // time to rest before it.
        let sealed: Vec<_> = order.iter().map(|upload| self.seal(*upload)).collect();
        let mut to = Connection::open(Door::Gateway.address(&self.world)).unwrap();
        let mut answers = Vec::new();
        for (body, awaited) in sealed {
            let head = Door::Gateway.head(body.len());
            let start = Instant::now();
            let answer = to.exchange(&head, &body).unwrap();
            answers.push((answer, awaited, start.elapsed().as_secs_f64()));
        }
        let (mut reports, mut others) = (Vec::new(), Vec::new());
        for (upload, (answer, awaited, seconds)) in order.into_iter().zip(answers) {
            check(upload, &Answer::open(answer, awaited));
            match upload {
                Upload::Report => reports.push(seconds),
                _ => others.push(seconds),
            }
        }
        rank_statistic(&reports, &others)
    }
}

/// How many standard deviations the sum of ranks is from what it should be.
fn rank_statistic(one: &[f64], other: &[f64]) -> f64 {
    let wins = |x: &f64| {
        other
            .iter()
            .map(|y| if x > y { 1.0 } else { f64::from(u8::from(x == y)) / 2.0 })
            .sum::<f64>()
    };
    let (n, m) = (one.len() as f64, other.len() as f64);
    let all = one.iter().map(wins).sum::<f64>();
    (all - n * m / 2.0) / (n * m * (n + m + 1.0) / 12.0).sqrt()
}

#[test]
fn cover_and_reports_get_the_same_answer_after_the_same_time() {
    let mut uploads = Uploads::new();
    let expected = uploads.send(Door::Gateway, Upload::Report);
    assert_eq!((expected.status, expected.inner.status), (200, 200));
    let found = uploads.compare(EACH, Upload::Cover, |_, answer| assert_eq!(*answer, expected));
    assert!(found.abs() < MOST, "{found} standard deviations");
    // The first device's, the expected one and those of the comparison.
    let accepted = uploads.world.pair.leader.metric(ACCEPTED).unwrap();
    assert_eq!(accepted, (EACH + 2) as f64);
    let dropped = uploads.world.pair.leader.metric("sotto_cover_dropped_total").unwrap();
    assert_eq!(dropped, EACH as f64);

    // Through the relay the device sees no difference either.
    let [report, cover] =
        [Upload::Report, Upload::Cover].map(|upload| uploads.send(Door::Relay, upload));
    assert_eq!(report, cover);

    // The same test notices a leader that does not wait for the disk.
    let seen = |answer: &Answer| (answer.status, answer.fields.clone(), answer.length);
    let found = uploads.compare(FEW, Upload::Junk, |upload, answer| {
        assert_eq!(seen(answer), seen(&expected));
        assert_eq!(answer.inner == expected.inner, matches!(upload, Upload::Report));
    });
    assert!(found > MOST, "{found} standard deviations");
}
