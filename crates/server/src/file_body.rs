//! A file as a body, read in pieces: a public file of the log, or a request that waited on disk.
//!
//! Either may be up to 16 MiB. Because files are read in pieces, slow readers hold little memory.
//! If a public file is replaced meanwhile, the reader still gets the old one: files are renamed
//! into place, never changed.

use std::fs::File;
use std::future::Future;
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::HttpBody;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::task::JoinHandle;

use crate::environment::spawn_blocking;

/// The bytes that are read at once.
const PIECE: u64 = 64 * 1024;

/// A file that is being sent.
pub(crate) struct FileBody {
    /// What has been read but not sent yet.
    piece: Option<Bytes>,
    /// The file, unless it is at its end or is being read.
    file: Option<File>,
    reading: Option<JoinHandle<io::Result<(File, Bytes)>>>,
    /// Bytes that have not been sent yet.
    left: u64,
}

/// Opens a file and reads its beginning; `None` if there is no such file.
pub(crate) async fn open(path: PathBuf) -> io::Result<Option<FileBody>> {
    let opened = spawn_blocking(move || {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        // A folder: its name is an index, but also the beginning of longer ones.
        if !metadata.is_file() {
            return Ok(None);
        }
        let (file, piece) = read(file, metadata.len())?;
        let (piece, left) = (Some(piece), metadata.len());
        Ok(Some(FileBody { piece, file: Some(file), reading: None, left }))
    });
    opened.await.map_err(io::Error::other)?
}

fn read(mut file: File, left: u64) -> io::Result<(File, Bytes)> {
    let len = left.min(PIECE);
    let mut piece = Vec::with_capacity(len as usize);
    (&mut file).take(len).read_to_end(&mut piece)?;
    // The length has already been announced.
    if piece.len() as u64 != len {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok((file, piece.into()))
}

impl FileBody {
    /// The next `len` bytes of a file, from its current position.
    pub(crate) fn new(file: File, len: u64) -> Self {
        Self { piece: None, file: Some(file), reading: None, left: len }
    }

    fn send(&mut self, piece: Bytes) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.left -= piece.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}

impl HttpBody for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        if let Some(piece) = self.piece.take() {
            return self.send(piece);
        }
        if let Some(file) = self.file.take() {
            let left = self.left;
            self.reading = Some(spawn_blocking(move || read(file, left)));
        }
        let Some(reading) = &mut self.reading else { return Poll::Ready(None) };
        let done = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        match done.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok((file, piece)) => {
                self.file = Some(file);
                self.send(piece)
            }
            Err(error) => Poll::Ready(Some(Err(error))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn files_of_every_length_arrive_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for len in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7] {
            let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            std::fs::write(&path, &bytes).unwrap();
            let body = open(path.clone()).await.unwrap().unwrap();
            assert_eq!(body.size_hint().exact(), Some(len));
            // Replaced while it is being sent.
            std::fs::write(folder.path().join("new"), b"other").unwrap();
            std::fs::rename(folder.path().join("new"), &path).unwrap();
            assert!(body.collect().await.unwrap().to_bytes() == bytes, "{len}");
        }
        assert!(open(folder.path().join("none")).await.unwrap().is_none());
        assert!(open(folder.path().to_owned()).await.unwrap().is_none());
    }
}
