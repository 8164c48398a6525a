//! Why a server does not start, or why it stopped.

use std::io;
use std::net::SocketAddr;

use sotto_protocol::{Fault, TaskError};
use sotto_store::StoreError;
use sotto_wire::TaskId;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// An invalid setting.
    #[error("{0}")]
    Config(String),
    /// Plain HTTP would be exposed to the network.
    #[error(
        "plain HTTP at {address} would be readable by others: configure certificates, listen on \
         loopback, or start with --insecure-http"
    )]
    PlainHttp {
        /// Where it should listen.
        address: SocketAddr,
    },
    /// The operator's listener, which has no TLS, would be exposed to the network.
    #[error(
        "admin_listen {address} speaks plain HTTP that would be readable by others: listen on \
         loopback, or start with --insecure-http"
    )]
    PlainAdmin {
        /// Where it should listen.
        address: SocketAddr,
    },
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where it should listen.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The certificate or its key.
    #[error("the TLS certificate or key cannot be used: {0}")]
    Certificate(String),
    /// A task that this server does not serve.
    #[error(transparent)]
    Task(#[from] TaskRefused),
    /// A task that is both listed under forget_tasks and configured.
    #[error("task {0} is listed under forget_tasks and configured: forgetting deletes its data")]
    ForgetServed(TaskId),
    /// Stored reports name keys that are not configured: they could never be opened.
    #[error(
        "stored reports need the HPKE keys with ids {0:?}, which are not configured: keep old keys \
         until their reports are aggregated"
    )]
    MissingKeys(Vec<u8>),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A key or a thread cannot be used.
    #[error("{0}")]
    Fault(#[from] Fault),
}

/// Why a task is not served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskRefused {
    /// It has no recipe.
    #[error(
        "task {0} is a plain DAP task: devices cannot check what they take part in. \
         Set insecure_plain_tasks to serve it all the same"
    )]
    Plain(TaskId),
    /// It is configured for the other aggregator.
    #[error("task {0} is configured for the other role")]
    OtherRole(TaskId),
    /// Its data was deleted.
    #[error("task {0} was forgotten: its reports could count twice")]
    Forgotten(TaskId),
    /// Which tokens were spent in its series was deleted.
    #[error(
        "task {task_id} is a round of series {series}, which was forgotten: its tokens could count \
         twice. List the task under forget_tasks, too"
    )]
    SeriesForgotten {
        /// The task.
        task_id: TaskId,
        /// The series, as the task that holds its spent tokens.
        series: TaskId,
    },
    /// A task of this id is served already.
    #[error("task {0} is served already")]
    Exists(TaskId),
    /// The helper's URL cannot be used.
    #[error("task {task_id} names a helper that cannot be asked: {reason}")]
    HelperUrl {
        /// The task.
        task_id: TaskId,
        /// Why.
        reason: String,
    },
    /// The leader needs a token for collectors.
    #[error("task {0} has no token for its collector")]
    NoCollectorToken(TaskId),
    /// Its stored configuration can no longer be used.
    #[error("the stored task {task_id} cannot be served: {error}")]
    Stored {
        /// The task.
        task_id: TaskId,
        /// Why.
        error: TaskError,
    },
    /// It was announced in band, but it is the task of a recipe.
    #[error(
        "the stored task {0} was announced in band and carries the id of a recipe: it would be served \
         without the recipe's tokens. List it under forget_tasks to give it up with its reports"
    )]
    RecipeInBand(TaskId),
}

/// Why a running server stopped by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A loop that must never end has panicked.
    #[error("a loop of the server has panicked")]
    Panicked,
    /// A loop that must never end has ended.
    #[error("the {0} loop has ended")]
    Ended(&'static str),
}
