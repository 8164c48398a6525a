//! DAP messages, recipes, the formats of the log and of Oblivious HTTP, identifiers and limits for
//! Sotto.
//!
//! Every message of DAP and taskprov is a type that can hold only what the wire can carry. Large
//! messages borrow from the received buffer. Nothing here does I/O, reads the clock or uses
//! randomness. The layers above interpret the messages.
//!
//! ```
//! use sotto_wire::{CollectionJobReq, Decode, Encode, Query};
//!
//! let request = CollectionJobReq::new(Query::LeaderSelected);
//! let bytes = request.to_bytes();
//! assert_eq!(bytes, [2, 0, 0, 0, 0, 0, 0, 0, 0]);
//! assert_eq!(CollectionJobReq::from_bytes(&bytes)?, request);
//! # Ok::<(), sotto_wire::DecodeError>(())
//! ```

mod aggregation;
pub mod bhttp;
mod byte_sequence;
mod checksum;
mod codec;
mod collection;
mod entry;
mod extensions;
mod format;
mod hpke;
mod ids;
pub mod labels;
pub mod limits;
mod listing;
mod media;
mod note;
pub mod ohttp;
mod opaque;
mod problem;
pub mod recipe;
mod report;
pub mod size_class;
mod task;
pub mod taskprov;
mod time;
pub mod tlog;
pub mod token;
mod url;
pub mod utc;

pub use aggregation::{
    AggregationJobContinueReq, AggregationJobExtension, AggregationJobExtensions,
    AggregationJobInitReq, AggregationJobResp, ReportShare, VerifyContinue, VerifyInit, VerifyResp,
    VerifyRespKind,
};
pub use checksum::ReportIdChecksum;
pub use codec::{BoundsError, Decode, DecodeError, Encode, Reader, Sink};
pub use collection::{
    AggregateShare, AggregateShareAad, AggregateShareReq, BatchSelector, CollectionJobExtension,
    CollectionJobExtensions, CollectionJobReq, CollectionJobResp, Query,
};
pub use entry::{Entry, EntryContent, EntryId, EntryKind};
pub use extensions::{Extension, ExtensionIter, ExtensionKind, ExtensionList, Extensions};
pub use format::FormatError;
pub use hpke::{
    HpkeAeadId, HpkeCiphertext, HpkeConfig, HpkeConfigId, HpkeConfigList, HpkeKdfId, HpkeKemId,
};
pub use ids::{
    AggregateShareId, AggregationJobId, BatchId, CollectionJobId, ParseIdError, ReportId, TaskId,
};
pub use labels::DAP_TAG;
pub use listing::{CollectionJobList, JobState, ListedInterval, ListedJob};
pub use media::MediaType;
pub use note::{KeyName, KeyType, Note, NoteSignature, VerifierKey};
pub use opaque::{AggParam, Opaque, Payload, PublicShare};
pub use problem::{PROBLEM_MEDIA_TYPE, ProblemType, URN_PREFIX};
pub use recipe::{
    AttributeName, AttributeType, KeySet, PopulationResult, Probability, PublicKey, Receipt,
    Recipe, Signer,
};
#[cfg(feature = "authoring")]
pub use recipe::{AuthoringError, RecipeDraft};
pub use report::{
    InputShareAad, PlaintextInputShare, Report, ReportError, ReportMetadata, ReportUploadStatus,
    UploadErrors, UploadRequest,
};
pub use task::{
    BatchMode, Role, TaskConfiguration, TaskExtension, TaskExtensions, TaskParameters, Url,
    VdafType,
};
pub use time::{Duration, Interval, Time, TimePrecision};
pub use tlog::{
    AddCheckpoint, BundlePath, Checkpoint, EntryBundle, TilePath, TlogPolicy, TlogProof, TreeHash,
};
pub use url::{HttpUrl, UrlError, normal_authority};
