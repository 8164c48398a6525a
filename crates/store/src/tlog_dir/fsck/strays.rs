//! Files in a log's folder that do not belong there.

use std::fs;
use std::io;
use std::path::Path;

use sotto_crypto::merkle::tile_path;
use sotto_protocol::log::CHECKPOINT_PATH;
use sotto_wire::tlog::tile::{BundlePath, TILE_WIDTH, TilePath, parse_index_path};

use super::Fsck;

/// Reports every file that a log of this size does not have, and every incomplete tile of an older
/// size that the newer tile does not begin with.
pub(super) fn check(public: &Path, size: u64, found: &mut Fsck) -> io::Result<()> {
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for file in fs::read_dir(public.join(&folder))? {
            let file = file?;
            let name = file.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if file.file_type()?.is_dir() {
                folders.push(path);
                continue;
            }
            match place(&path, size) {
                Place::Current => {}
                Place::Older(newer) => older(public, &path, &newer, found)?,
                Place::Stray => {
                    found.report(format!("{path}: a log of {size} entries has no such file"));
                }
            }
        }
    }
    Ok(())
}

enum Place {
    /// It belongs to the checkpoint and has been checked.
    Current,
    /// It belongs to an older checkpoint. The first of these files that exists must begin with its
    /// bytes.
    Older([String; 2]),
    Stray,
}

fn place(path: &str, size: u64) -> Place {
    let bundles = size.div_ceil(u64::from(TILE_WIDTH));
    let belongs = match path.split_once('/') {
        None => path == CHECKPOINT_PATH,
        Some(("by-id", name)) => {
            name.len() == 4 && name.bytes().all(|digit| b"0123456789abcdef".contains(&digit))
        }
        Some(("first", name)) => parse_index_path(name).is_ok_and(|bundle| bundle < bundles),
        Some(_) => return tile_place(path, size),
    };
    if belongs { Place::Current } else { Place::Stray }
}

fn tile_place(path: &str, size: u64) -> Place {
    if let Ok(tile) = TilePath::parse(path)
        && let Some(current) = tile_path(tile.level(), tile.index(), size)
    {
        let full = TilePath::new(tile.level(), tile.index(), TILE_WIDTH);
        let full = full.map(|full| full.to_path()).unwrap_or_default();
        return by_width(tile.width(), current.width(), [full, current.to_path()]);
    }
    if let Ok(bundle) = BundlePath::parse(path)
        && let Some(current) = tile_path(0, bundle.index(), size)
    {
        let newer = |width| BundlePath::new(bundle.index(), width).map(|path| path.to_path());
        let newer = [TILE_WIDTH, current.width()].map(|width| newer(width).unwrap_or_default());
        return by_width(bundle.width(), current.width(), newer);
    }
    Place::Stray
}

fn by_width(width: u16, current: u16, newer: [String; 2]) -> Place {
    match width.cmp(&current) {
        std::cmp::Ordering::Less => Place::Older(newer),
        std::cmp::Ordering::Equal => Place::Current,
        std::cmp::Ordering::Greater => Place::Stray,
    }
}

fn older(public: &Path, path: &str, newer: &[String; 2], found: &mut Fsck) -> io::Result<()> {
    let bytes = fs::read(public.join(path))?;
    let current = newer.iter().find_map(|newer| fs::read(public.join(newer)).ok());
    if current.is_some_and(|current| !current.starts_with(&bytes)) {
        found.report(format!("{path}: it is not the beginning of the newer tile"));
    }
    Ok(())
}
