//! Statements that are sent one behind the other, without waiting for answers between them.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use deadpool_postgres::Client;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::Verdict;

/// A value for a statement.
pub(super) type Param = Box<dyn ToSql + Send + Sync>;

/// The values of a statement, in order.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        vec![$(Box::new($value) as $crate::postgres::pipeline::Param),*]
    };
}
pub(super) use params;

type Answer = Result<Vec<Row>, tokio_postgres::Error>;

/// Statements on one connection.
pub(super) struct Pipeline<'a> {
    client: &'a Client,
    statements: Vec<Pin<Box<dyn Future<Output = Answer> + Send + 'a>>>,
}

impl<'a> Pipeline<'a> {
    pub(super) fn new(client: &'a Client) -> Self {
        Self { client, statements: Vec::new() }
    }

    /// As [`Self::new`], in a transaction.
    pub(super) fn begin(client: &'a Client) -> Self {
        let mut pipeline = Self::new(client);
        pipeline.plain("BEGIN");
        pipeline
    }

    /// Adds a statement; it is not sent yet. Returns its index among the answers.
    pub(super) async fn add(&mut self, sql: &str, values: Vec<Param>) -> Verdict<usize> {
        let (client, statement) = (self.client, self.client.prepare_cached(sql).await?);
        self.statements.push(Box::pin(async move {
            let values: Vec<&(dyn ToSql + Sync)> =
                values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
            client.query(&statement, &values).await
        }));
        Ok(self.statements.len() - 1)
    }

    fn plain(&mut self, sql: &'static str) {
        let client = self.client;
        self.statements.push(Box::pin(async move {
            client.batch_execute(sql).await?;
            Ok(Vec::new())
        }));
    }

    /// Sends everything, and waits for all answers.
    pub(super) async fn run(self) -> Verdict<Answers> {
        let mut waiting: Vec<_> = self.statements.into_iter().map(|one| (one, None)).collect();
        let answers = poll_fn(|context| {
            // The first poll of a statement sends it: in order.
            for (statement, answer) in waiting.iter_mut().filter(|(_, answer)| answer.is_none()) {
                if let Poll::Ready(ready) = statement.as_mut().poll(context) {
                    *answer = Some(ready);
                }
            }
            match waiting.iter().all(|(_, answer)| answer.is_some()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        answers.await;
        // The first error is the cause of the others.
        let answers = waiting.into_iter().filter_map(|(_, answer)| answer);
        Ok(Answers(answers.collect::<Result<_, _>>()?))
    }

    /// As [`Self::run`], and commits.
    pub(super) async fn commit(mut self) -> Verdict<Answers> {
        self.plain("COMMIT");
        self.run().await
    }
}

/// The rows that each statement returned.
pub(super) struct Answers(Vec<Vec<Row>>);

impl Answers {
    pub(super) fn of(&self, statement: usize) -> &[Row] {
        self.0.get(statement).map_or(&[], Vec::as_slice)
    }
}
