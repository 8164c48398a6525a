//! The public files, exactly as they are on disk.
//!
//! A path is accepted only in the canonical form that its parser produces, so only the log's own
//! files can be named. Tiles are served only as far as the log has committed to them by a
//! signature: what an append wrote but did not sign before a crash is dropped again, and must not
//! stay in anybody's cache.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::extract::State;
use axum::http::Uri;
use axum::http::header::{CACHE_CONTROL, HeaderValue};
use axum::response::{IntoResponse, Response};
use sotto_protocol::Fault;
use sotto_protocol::log::CHECKPOINT_PATH;
use sotto_wire::tlog::tile::{BundlePath, TILE_WIDTH, TilePath, parse_index_path};

use super::LogState;
use crate::file_body;
use crate::http::{NOTE_MEDIA_TYPE, content};
use crate::problem::Failure;

/// For files whose bytes never change.
const FOREVER: &str = "public, max-age=31536000, immutable";
/// For files that grow or are replaced.
const SHORTLY: &str = "public, max-age=5";

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PublicFile {
    Checkpoint,
    /// A tile or bundle, with the size of the smallest tree that has it.
    Tile(u128),
    /// An index file, or a first checkpoint.
    Derived,
}

impl PublicFile {
    /// What a path below the log's URL names; `None` if no log has such a file.
    fn parse(path: &str) -> Option<Self> {
        if path == CHECKPOINT_PATH {
            return Some(Self::Checkpoint);
        }
        let size = |level: u8, index: u64, width: u16| {
            (u128::from(index) * u128::from(TILE_WIDTH) + u128::from(width))
                << (8 * u32::from(level))
        };
        if let Ok(tile) = TilePath::parse(path) {
            return Some(Self::Tile(size(tile.level(), tile.index(), tile.width())));
        }
        if let Ok(bundle) = BundlePath::parse(path) {
            return Some(Self::Tile(size(0, bundle.index(), bundle.width())));
        }
        let is_bucket = |name: &str| {
            name.len() == 4 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let is_derived = match path.split_once('/') {
            Some(("by-id", name)) => is_bucket(name),
            Some(("first", name)) => parse_index_path(name).is_ok(),
            _ => false,
        };
        is_derived.then_some(Self::Derived)
    }

    /// `Content-Type` and `Cache-Control`.
    fn headers(self) -> (&'static str, &'static str) {
        match self {
            Self::Checkpoint => (NOTE_MEDIA_TYPE, SHORTLY),
            Self::Tile(_) => ("application/octet-stream", FOREVER),
            Self::Derived => ("application/octet-stream", SHORTLY),
        }
    }
}

/// `GET` and `HEAD` of a file.
pub(super) async fn get(State(state): State<Arc<LogState>>, uri: Uri) -> Response {
    let mut response = serve(&state, uri.path()).await.into_response();
    if !response.status().is_success() {
        // The file may appear a moment later.
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

async fn serve(state: &LogState, path: &str) -> Result<Response, Failure> {
    let path = path.strip_prefix(&state.base_path).and_then(|path| path.strip_prefix('/'));
    let path = path.ok_or(Failure::NotFound)?;
    let file = PublicFile::parse(path).ok_or(Failure::NotFound)?;
    if let PublicFile::Tile(size) = file
        && size > u128::from(state.signed_size.load(Ordering::Acquire))
    {
        return Err(Failure::NotFound);
    }
    let body = file_body::open(state.public.join(path)).await;
    let body = body.map_err(|error| Fault(format!("a public file: {error}")))?;
    let (media_type, cache_control) = file.headers();
    let mut response = content(media_type, Body::new(body.ok_or(Failure::NotFound)?));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(cache_control));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_files_of_a_log_have_names() {
        for (path, file) in [
            ("checkpoint", PublicFile::Checkpoint),
            ("tile/0/000", PublicFile::Tile(256)),
            ("tile/0/001.p/3", PublicFile::Tile(259)),
            ("tile/1/000.p/2", PublicFile::Tile(512)),
            ("tile/entries/x001/000.p/1", PublicFile::Tile(256_001)),
            ("by-id/00af", PublicFile::Derived),
            ("first/x001/002", PublicFile::Derived),
        ] {
            assert_eq!(PublicFile::parse(path), Some(file), "{path}");
        }
        for path in [
            "",
            "/",
            ".",
            "..",
            "checkpoint/",
            "Checkpoint",
            "tile",
            "tile/",
            "tile/0",
            "tile/0/0",
            "tile/8/000",
            "tile/0/x000/000",
            "tile/0/000.p/0",
            "tile/0/000.p/256",
            "tile/0/000.p/03",
            "tile/0/../../../state/pending",
            "tile/0/000/../000",
            "tile//0/000",
            "tile/%30/000",
            "tile/entries/",
            "by-id/",
            "by-id/00AF",
            "by-id/00afa",
            "by-id/..af",
            "by-id/../x",
            "first/",
            "first/1",
            "first/../000",
            "../state/pending",
            "state/pending",
            "log.lock",
        ] {
            assert_eq!(PublicFile::parse(path), None, "{path}");
        }
    }
}
