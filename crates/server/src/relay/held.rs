//! Bodies that wait in the relay, both requests and answers: small ones in memory, larger ones in
//! unnamed files.
//!
//! Bodies are counted as they arrive and bounded together, so they never use more than what was set
//! aside for them. The name of a file is removed before its first byte is written: nothing is left
//! to find or to clean up, however the relay ends.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use sotto_wire::size_class::SizeClass;

use super::config::RelayConfig;
use crate::environment::{Instant, instant, spawn_blocking};
use crate::error::BindError;
use crate::file_body::FileBody;
use crate::http::{BodyReader, Budget, ReadBody, Share};
use crate::problem::Failure;

/// The bytes collected for one write to a file.
const WRITE_SIZE: usize = 64 * 1024;

/// Receives bodies.
pub(super) struct Intake {
    bodies: BodyReader,
    /// Longer bodies are refused.
    max: usize,
    /// Longer bodies go to files.
    memory_max: usize,
    folder: PathBuf,
    files: Budget,
}

impl Intake {
    /// For bodies of up to `max` bytes, which must arrive within `timeout`. Small ones, and pieces of
    /// others, share `memory`.
    pub(super) fn new(
        config: &RelayConfig,
        memory: Budget,
        max: SizeClass,
        timeout: Duration,
    ) -> Result<Self, BindError> {
        let folder = &config.spool_dir;
        tempfile::tempfile_in(folder).map_err(|error| {
            BindError::Config(format!(
                "cannot create a file in spool_dir {}: {error}",
                folder.display()
            ))
        })?;
        Ok(Self {
            bodies: BodyReader::new(memory, timeout),
            max: max.bytes(),
            memory_max: config.memory_body_max,
            folder: folder.clone(),
            files: Budget::new(config.max_spool_bytes),
        })
    }

    /// Waits for the whole body.
    pub(super) async fn receive(&self, mut body: Body) -> Result<HeldBody, Failure> {
        let announced = body.size_hint().lower();
        if announced > self.max as u64 {
            return Err(Failure::TooLong(self.max));
        }
        let start = instant();
        let in_memory = if announced > self.memory_max as u64 { 0 } else { self.memory_max };
        match self.bodies.read_up_to(&mut body, in_memory, start).await? {
            (read, None) => Ok(HeldBody::Memory(Some(read))),
            (read, Some(piece)) => self.spool(read, piece, body, start).await,
        }
    }

    /// Writes what was read, the next piece and the rest of the body to a file.
    async fn spool(
        &self,
        read: ReadBody,
        piece: Bytes,
        mut body: Body,
        start: Instant,
    ) -> Result<HeldBody, Failure> {
        let (mut in_memory, mut on_disk) = (Share::default(), Share::default());
        let mut file = None;
        let mut gathered = read.bytes().to_vec();
        let mut len = gathered.len();
        drop(read);
        let mut next = Some(piece);
        while let Some(piece) = next {
            len += piece.len();
            if len > self.max {
                return Err(Failure::TooLong(self.max));
            }
            on_disk.grow(&self.files, len)?;
            if gathered.len() + piece.len() > WRITE_SIZE {
                file = Some(self.write(file, std::mem::take(&mut gathered)).await?);
                in_memory = Share::default();
            }
            gathered.extend_from_slice(&piece);
            self.bodies.grow(&mut in_memory, gathered.capacity())?;
            next = self.bodies.piece(&mut body, start, len).await?;
        }
        let file = self.write(file, gathered).await?;
        Ok(HeldBody::Spooled { file: FileBody::new(file, len as u64), _share: on_disk })
    }

    /// Appends to a file, or to a new one, and rewinds it to its beginning.
    async fn write(&self, file: Option<File>, bytes: Vec<u8>) -> Result<File, Failure> {
        let folder = file.is_none().then(|| self.folder.clone());
        let written = spawn_blocking(move || {
            let mut file = match (file, folder) {
                (Some(file), _) => file,
                (None, folder) => tempfile::tempfile_in(folder.unwrap_or_default())?,
            };
            file.seek(io::SeekFrom::End(0))?;
            file.write_all(&bytes)?;
            file.rewind()?;
            Ok(file)
        });
        let written: io::Result<File> =
            written.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        written.map_err(|error| {
            tracing::error!(error = %error.kind(), "a body could not be written to spool_dir");
            Failure::unavailable("The relay cannot hold large bodies now.")
        })
    }
}

/// A body that has arrived and will be forwarded.
pub(super) enum HeldBody {
    /// `None` once it has been sent.
    Memory(Option<ReadBody>),
    Spooled {
        file: FileBody,
        _share: Share,
    },
}

impl HeldBody {
    pub(super) fn is_spooled(&self) -> bool {
        matches!(self, Self::Spooled { .. })
    }

    /// The size class that it fills exactly, if there is one.
    pub(super) fn class(&self) -> Option<SizeClass> {
        usize::try_from(self.len()).ok().and_then(SizeClass::of_exact)
    }

    /// The bytes left to send.
    fn len(&self) -> u64 {
        match self {
            Self::Memory(read) => read.as_ref().map_or(0, |read| read.bytes().len() as u64),
            Self::Spooled { file, .. } => file.size_hint().lower(),
        }
    }
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut *self {
            Self::Memory(read) => {
                Poll::Ready(read.take().map(|read| Ok(Frame::data(read.into_bytes()))))
            }
            Self::Spooled { file, .. } => Pin::new(file).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            // An empty one is not at its end until it has been sent, or its length would not be
            // announced.
            Self::Memory(read) => read.is_none(),
            Self::Spooled { file, .. } => file.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len())
    }
}
