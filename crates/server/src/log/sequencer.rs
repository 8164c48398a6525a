//! The one writer of a log: gathers entries, stages them, has the tree witnessed, publishes.
//!
//! Nothing new is staged while a signed tree waits for its witnesses: submitters are asked to retry
//! later. Nor is anything staged before a quorum has confirmed, since the start, that it has seen
//! nothing newer than this folder: a log that was set back to an old copy must learn of it before
//! it signs a second tree of a size that it has already signed. If any witness ever shows a
//! checkpoint that this log's key signed and that this folder does not know, the log stops for
//! good. While a witness claims to have seen such a tree but does not show it, nothing new is
//! staged either. What is already signed is still finished and renewed, because that cannot create
//! a fork.
//!
//! At the start there is always a checkpoint to show, if only that of the empty tree, so that a log
//! whose folder was lost also learns of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sotto_protocol::log::witnessing::{Claim, Cosigned, Dispute, Halt, Next};
use sotto_store::{LogDir, LogDirError, Placed, Staged};
use sotto_wire::{Entry, Note, NoteSignature, TlogPolicy};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::config::LogConfig;
use super::folder::Folder;
use super::metrics::LogMetrics;
use super::witnesses::{Heard, Shown, WitnessPool};
use crate::backoff::Backoff;
use crate::environment::{Environment, Instant, instant, sleep_until, timeout_at};
use crate::health::{Concern, Health, StoreWork};
use crate::service::Server;
use crate::shutdown::Shutdown;

/// When to retry at a log that has stopped for good.
const HALTED_PAUSE: Duration = Duration::from_secs(3600);

/// An entry that is well-formed and signed, and the channel to whoever waits for its proof.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) entry: Entry,
    /// Takes the encoded proof bundle.
    pub(super) answer: Answer,
}

type Answer = oneshot::Sender<Result<Vec<u8>, NotPublished>>;

/// Why a submission gets no proof.
#[derive(Clone, Debug)]
pub(super) enum NotPublished {
    /// The name is taken, or the sequence number is not new.
    Outdated,
    /// Too few witnesses answer; when to retry.
    NoQuorum(Duration),
    /// A witness says that it has seen another tree: which witness and tree, and when to retry.
    Disputed(String, Duration),
    /// The log has stopped for good: why, and when to retry.
    Halted(String, Duration),
    /// The disk failed.
    Failed,
}

/// A signed tree that is to be published.
#[derive(Debug)]
struct Round {
    shown: Shown,
    /// Whether it is already published and only gets newer cosignatures.
    is_renewal: bool,
    /// The cosignatures of this round, by the index of the witness.
    fresh: BTreeMap<usize, NoteSignature>,
}

impl Round {
    fn new(staged: Staged, is_renewal: bool) -> Self {
        let Staged { note, from, size, .. } = staged;
        Self { shown: Shown { note, from, size }, is_renewal, fresh: BTreeMap::new() }
    }
}

/// The note under which a round was published.
type Outcome = Result<Note, NotPublished>;

pub(super) struct Sequencer {
    environment: Environment,
    folder: Folder,
    policy: TlogPolicy,
    witnesses: WitnessPool,
    inbox: mpsc::Receiver<Submission>,
    signed_size: Arc<AtomicU64>,
    metrics: Arc<LogMetrics>,
    health: Arc<Health>,
    batch_delay: Duration,
    max_batch: usize,
    refresh: Duration,
    backoff: Backoff,
    /// The signed tree that has not been published yet.
    open: Option<Round>,
    /// Whether a quorum has confirmed since the start that it knows of nothing newer.
    confirmed: bool,
    halted: Option<String>,
    published: Option<Note>,
    /// Witnesses that had not answered by the time their cosignatures were no longer needed.
    stragglers: JoinSet<Heard>,
    /// Their cosignatures under the published note, for when it is renewed.
    late: BTreeMap<usize, NoteSignature>,
    /// When to retry the open round, or to renew the published checkpoint.
    due: Instant,
}

impl Sequencer {
    pub(super) fn new(
        config: LogConfig,
        dir: LogDir,
        witnesses: WitnessPool,
        inbox: mpsc::Receiver<Submission>,
        signed_size: Arc<AtomicU64>,
        metrics: Arc<LogMetrics>,
        server: &Server,
    ) -> Self {
        Self {
            environment: server.environment.clone(),
            witnesses,
            inbox,
            signed_size,
            metrics,
            health: Arc::clone(&server.health),
            batch_delay: config.batch_delay,
            max_batch: config.max_batch.clamp(1, sotto_store::MAX_BATCH),
            refresh: config.refresh.max(Duration::from_secs(1)),
            backoff: Backoff::new(config.min_backoff, config.max_backoff),
            policy: config.policy,
            open: None,
            confirmed: false,
            halted: None,
            published: dir.published().cloned(),
            stragglers: JoinSet::new(),
            late: BTreeMap::new(),
            due: instant(),
            folder: Folder::new(dir),
        }
    }

    /// Works until nobody can submit any more. Once the shutdown has begun, it only answers those
    /// who wait.
    pub(super) async fn run(mut self, mut shutdown: Shutdown) {
        self.look_for_halt().await;
        loop {
            let (due, may_act) = (self.due, self.halted.is_none() && !shutdown.has_begun());
            // With the timer alone, submissions could get ahead of work that is due: it may fire a
            // little late.
            if may_act && due <= instant() {
                // Nobody waits for it, so it may be dropped. The next start does the same.
                shutdown.or(self.act()).await;
                continue;
            }
            tokio::select! {
                biased;
                Some(heard) = self.stragglers.join_next() => {
                    if let Ok(heard) = heard {
                        self.hear_late(heard).await;
                    }
                }
                () = sleep_until(due), if may_act => {}
                submission = self.inbox.recv() => match submission {
                    Some(first) => self.take(first).await,
                    None => break,
                },
            }
        }
        // Whoever opens the folder next finds it free.
        self.stragglers.shutdown().await;
        self.folder.released().await;
    }

    async fn look_for_halt(&mut self) {
        let halted = self.folder.with(|dir| Ok(dir.halted().map(str::to_owned))).await;
        if let Some(reason) = halted.ok().flatten() {
            self.raise_halt(reason);
        }
    }

    /// The work to do without a submission: finish the open round, or else renew the published
    /// checkpoint.
    async fn act(&mut self) {
        let round = match self.open.take() {
            Some(round) => Ok(round),
            None => self.folder.with(prepare).await,
        };
        match round {
            Ok(round) => {
                self.signed_size.fetch_max(round.shown.size, Ordering::AcqRel);
                if self.witness(round).await.is_ok() {
                    self.write_index().await;
                }
            }
            Err(error) => self.failed(&error),
        }
    }

    /// Handles a submission, together with those that arrive within the delay.
    async fn take(&mut self, first: Submission) {
        if let Some(obstacle) = self.obstacle() {
            let _ = first.answer.send(Err(obstacle));
            return;
        }
        let deadline = instant() + self.batch_delay;
        let mut batch = vec![first];
        while batch.len() < self.max_batch {
            match timeout_at(deadline, self.inbox.recv()).await {
                Ok(Some(submission)) => batch.push(submission),
                Ok(None) | Err(_) => break,
            }
        }
        self.append(batch).await;
    }

    /// Why nothing can be appended now.
    fn obstacle(&self) -> Option<NotPublished> {
        if let Some(reason) = &self.halted {
            return Some(NotPublished::Halted(reason.clone(), HALTED_PAUSE));
        }
        match self.witnesses.disputing() {
            Some(reason) => Some(NotPublished::Disputed(reason, self.pause())),
            None if self.open.is_some() || !self.confirmed => {
                Some(NotPublished::NoQuorum(self.pause()))
            }
            None => None,
        }
    }

    /// How long until the witnesses are asked again.
    fn pause(&self) -> Duration {
        self.due.saturating_duration_since(instant())
    }

    async fn append(&mut self, batch: Vec<Submission>) {
        let (entries, answers): (Vec<Entry>, Vec<Answer>) =
            batch.into_iter().map(|submission| (submission.entry, submission.answer)).unzip();
        let staged = match self.folder.with(move |dir| dir.stage(&entries)).await {
            Ok(staged) => staged,
            // An earlier step failed after the tree was signed: that tree comes first.
            Err(LogDirError::Unpublished) => {
                self.confirmed = false;
                self.due = instant();
                return refuse(answers, &NotPublished::NoQuorum(self.pause()));
            }
            Err(LogDirError::Halted(reason)) => {
                self.raise_halt(reason.clone());
                return refuse(answers, &NotPublished::Halted(reason, HALTED_PAUSE));
            }
            Err(error) => {
                self.failed(&error);
                return refuse(answers, &NotPublished::Failed);
            }
        };
        self.signed_size.fetch_max(staged.size, Ordering::AcqRel);
        let mut waiting = Vec::new();
        let mut new = 0;
        for (placed, answer) in staged.placed.iter().zip(answers) {
            match placed {
                Placed::New(index) => {
                    new += 1;
                    waiting.push((*index, answer));
                }
                Placed::Known(index) => {
                    self.metrics.known.increment(1);
                    waiting.push((*index, answer));
                }
                Placed::Outdated => {
                    let _ = answer.send(Err(NotPublished::Outdated));
                }
            }
        }
        let published = match (new, &self.published) {
            (0, Some(note)) => Ok(note.clone()),
            _ => self.witness(Round::new(staged.clone(), false)).await,
        };
        match published {
            Ok(note) => {
                self.metrics.appended.increment(new);
                // If nothing is new, the whole tree is old.
                let first_new = if new == 0 { staged.size } else { staged.from };
                self.answer(waiting, first_new, note).await;
                self.write_index().await;
            }
            Err(reason) => {
                refuse(waiting.into_iter().map(|(_, answer)| answer), &reason);
            }
        }
    }

    /// Sends all submitters the proof of their entry.
    async fn answer(&mut self, waiting: Vec<(u64, Answer)>, first_new: u64, published: Note) {
        let indices = waiting.iter().map(|(index, _)| *index).collect();
        match self.folder.proofs(indices, first_new, published).await {
            Ok(proofs) => {
                for ((_, answer), proof) in waiting.into_iter().zip(proofs) {
                    let _ = answer.send(Ok(proof));
                }
            }
            Err(error) => {
                self.failed(&error);
                let answers = waiting.into_iter().map(|(_, answer)| answer);
                refuse(answers, &NotPublished::Failed);
            }
        }
    }

    /// Shows a tree to the witnesses and publishes it once a quorum has cosigned.
    async fn witness(&mut self, mut round: Round) -> Outcome {
        // They are asked again. Their answers to an old request are of no use.
        self.stragglers = JoinSet::new();
        let mut asked = self.witnesses.ask_all(&round.shown, &self.folder);
        loop {
            // At the start, wait for all witnesses, not just for a quorum: the one that has seen
            // more may be slow. So may be the one that withdraws its claim.
            let hear_all = !self.confirmed || self.witnesses.disputing().is_some();
            if !hear_all && self.has_quorum(&round) {
                break;
            }
            let Some(heard) = asked.join_next().await else { break };
            let Ok(heard) = heard else { continue };
            if let Some(halt) = self.hear(&heard, round.shown.size) {
                return self.halt(halt).await;
            }
            if let Next::Cosigned(signature) = heard.next {
                round.fresh.insert(heard.witness, signature);
            }
        }
        self.stragglers = asked;
        if !self.has_quorum(&round) {
            return self.fall_short(round);
        }
        self.publish(round).await
    }

    fn has_quorum(&self, round: &Round) -> bool {
        let signed = |name: &str| {
            let mut numbers = round.fresh.keys();
            numbers.any(|number| self.witnesses.name(*number) == Some(name))
        };
        self.policy.quorum_met(&signed)
    }

    /// Records what a witness said. A halt is returned only if it applies to the current state of
    /// the log.
    fn hear(&mut self, heard: &Heard, size: u64) -> Option<Halt> {
        match heard.next {
            Next::Cosigned(_) => self.metrics.cosigned.increment(1),
            _ => self.metrics.without.increment(1),
        }
        match heard.next {
            // An old request may be answered after a newer one.
            Next::Halt(Halt::SetBack { seen, .. })
            | Next::Disputed(Dispute { claim: Claim::Larger { seen, .. }, .. })
                if seen <= self.signed_size.load(Ordering::Acquire) =>
            {
                return None;
            }
            _ => self.witnesses.note(heard, size),
        }
        self.show_disputes();
        match heard.next {
            Next::Halt(halt) => Some(halt),
            _ => None,
        }
    }

    async fn hear_late(&mut self, heard: Heard) {
        let text = self.published.as_ref().map(Note::text);
        let is_current = text == Some(heard.text.as_str());
        let size = self.signed_size.load(Ordering::Acquire);
        if let Some(halt) = self.hear(&heard, size) {
            let _ = self.halt(halt).await;
            return;
        }
        if let Next::Cosigned(signature) = heard.next
            && is_current
        {
            self.late.insert(heard.witness, signature);
        }
        if self.witnesses.disputing().is_some() {
            self.due = self.due.min(instant() + self.backoff.next());
        }
        self.show_witnesses();
    }

    /// Keeps a tree that has not been published for the next attempt.
    fn fall_short(&mut self, round: Round) -> Outcome {
        let pause = self.backoff.next();
        self.due = instant() + pause;
        let failing = self.witnesses.failing().unwrap_or_default();
        let detail = format!("no quorum of witnesses; {failing}");
        if self.health.raise(Concern::Witnesses, detail) {
            tracing::error!("too few witnesses cosign: nothing is published until they do");
        }
        if !round.is_renewal {
            self.open = Some(round);
        }
        Err(NotPublished::NoQuorum(pause))
    }

    async fn publish(&mut self, round: Round) -> Outcome {
        let note = self.cosigned_note(&round);
        let cosigned = match Cosigned::new(note, &self.policy) {
            Ok(cosigned) => cosigned,
            Err(error) => {
                tracing::error!(%error, "the cosigned checkpoint does not satisfy the policy");
                return self.fall_short(round);
            }
        };
        let note = cosigned.note().clone();
        let size = round.shown.size;
        match self.folder.with(move |dir| dir.publish(&cosigned)).await {
            Ok(()) => {}
            Err(LogDirError::Halted(reason)) => {
                self.raise_halt(reason.clone());
                return Err(NotPublished::Halted(reason, HALTED_PAUSE));
            }
            Err(error) => {
                self.failed(&error);
                if !round.is_renewal {
                    self.open = Some(round);
                }
                return Err(NotPublished::Failed);
            }
        }
        self.health.store_worked(StoreWork::Commit);
        self.metrics.published.increment(1);
        self.metrics.size.set(size as f64);
        self.metrics.published_time.set(self.environment.now().0 as f64);
        self.published = Some(note.clone());
        self.late.clear();
        self.open = None;
        self.confirmed = true;
        // A witness that disputes the tree is asked again soon, by showing the same tree to all
        // witnesses.
        let pause = match self.witnesses.disputing() {
            Some(_) => self.backoff.next(),
            None => {
                self.backoff.reset();
                self.refresh
            }
        };
        self.due = instant() + pause;
        self.show_witnesses();
        Ok(note)
    }

    /// The tree's note with the cosignatures of the round. Witnesses without one in this round
    /// contribute the cosignature that they gave to the same tree before.
    fn cosigned_note(&self, round: &Round) -> Note {
        let bare = &round.shown.note;
        let before = self.published.as_ref().filter(|note| note.text() == bare.text());
        let before = before.map(Note::signatures).unwrap_or_default();
        let mut note = bare.clone();
        for (number, key) in self.witnesses.keys() {
            let fresh = round.fresh.get(&number);
            let late = self.late.get(&number).filter(|_| !before.is_empty());
            let old = before.iter().find(|signature| signature.is_by(key));
            if let Some(signature) = fresh.or(late).or(old) {
                note = note.with_signature(signature.clone());
            }
        }
        note
    }

    /// Writes the index of the new entries, after those who wait have been answered.
    async fn write_index(&mut self) {
        if let Err(error) = self.folder.with(LogDir::write_index).await {
            self.failed(&error);
        }
    }

    async fn halt(&mut self, halt: Halt) -> Outcome {
        let reason = halt.to_string();
        self.raise_halt(reason.clone());
        if let Err(error) = self.folder.with(move |dir| dir.halt(&halt)).await {
            self.failed(&error);
        }
        Err(NotPublished::Halted(reason, HALTED_PAUSE))
    }

    fn raise_halt(&mut self, reason: String) {
        tracing::error!(reason, "THE LOG HAS STOPPED FOR GOOD; what is public is still served");
        self.health.raise(Concern::LogHalted, reason.clone());
        self.halted = Some(reason);
        self.stragglers = JoinSet::new();
    }

    fn show_witnesses(&self) {
        self.health.set(Concern::Witnesses, self.witnesses.failing());
    }

    fn show_disputes(&self) {
        let disputing = self.witnesses.disputing();
        if self.health.set(Concern::LogDisputed, disputing.as_deref()) {
            tracing::error!(
                disputing,
                "a witness says that it has seen another tree of this log: nothing is appended until it \
                 cosigns, shows it, or is taken out of the policy"
            );
        }
    }

    /// The disk failed. The log will retry.
    fn failed(&mut self, error: &LogDirError) {
        tracing::error!(%error, "the log's files failed");
        self.health.store_failed(StoreWork::Commit);
        self.due = instant() + self.backoff.next();
    }
}

/// The checkpoint to show: the one that is waiting, or else the last one. The very first is that of
/// the empty tree.
fn prepare(dir: &mut LogDir) -> Result<Round, LogDirError> {
    if let Some(staged) = dir.pending() {
        return Ok(Round::new(staged, false));
    }
    let staged = dir.stage(&[])?;
    let is_renewal = dir.pending().is_none();
    Ok(Round::new(staged, is_renewal))
}

fn refuse(answers: impl IntoIterator<Item = Answer>, reason: &NotPublished) {
    for answer in answers {
        let _ = answer.send(Err(reason.clone()));
    }
}
