//! The folder of the log, for tasks that must not block on the disk.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::environment::{sleep, spawn_blocking};
use sotto_protocol::log::{Reader, ReaderError};
use sotto_store::{FolderFetch, LogDir, LogDirError};
use sotto_wire::{Note, TlogProof, TreeHash};

/// The folder. One operation at a time, each on a thread that may block.
#[derive(Clone, Debug)]
pub(super) struct Folder(Arc<Mutex<LogDir>>);

impl Folder {
    pub(super) fn new(dir: LogDir) -> Self {
        Self(Arc::new(Mutex::new(dir)))
    }

    /// Runs an operation.
    pub(super) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut LogDir) -> Result<T, LogDirError> + Send + 'static,
    ) -> Result<T, LogDirError> {
        let dir = Arc::clone(&self.0);
        let done = spawn_blocking(move || {
            // The folder itself knows if a step was not finished, and then reads its files again.
            let mut dir = dir.lock().unwrap_or_else(PoisonError::into_inner);
            work(&mut dir)
        });
        done.await.unwrap_or_else(|error| Err(io::Error::other(error).into()))
    }

    /// Resolves once no other task or thread uses the folder.
    pub(super) async fn released(&self) {
        while Arc::strong_count(&self.0) > 1 {
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// The root of the signed tree at a size.
    pub(super) async fn root(&self, size: u64) -> Result<TreeHash, LogDirError> {
        self.with(move |dir| {
            let mut reader = Reader::new(FolderFetch::new(dir.public()));
            Ok(reader.root_of_prefix(size, dir.signed_size())?)
        })
        .await
    }

    /// Encoded proof bundles of published entries. Entries from `new` on are proved under
    /// `published`, others under the checkpoint that first covered them, which proves their age.
    pub(super) async fn proofs(
        &self,
        indices: Vec<u64>,
        new: u64,
        published: Note,
    ) -> Result<Vec<Vec<u8>>, LogDirError> {
        self.with(move |dir| {
            let mut reader = Reader::new(FolderFetch::new(dir.public()));
            let proof = |index: u64| {
                let proof = match index >= new {
                    true => reader.proof(index, &published),
                    false => first_proof(&mut reader, index),
                };
                Ok(proof?.to_bytes())
            };
            indices.into_iter().map(proof).collect()
        })
        .await
    }
}

/// The proof of an entry under the checkpoint that first covered it.
pub(super) fn first_proof(
    reader: &mut Reader<FolderFetch>,
    index: u64,
) -> Result<TlogProof, ReaderError> {
    let checkpoint = reader.first_checkpoint(index)?;
    reader.proof(index, &checkpoint)
}
