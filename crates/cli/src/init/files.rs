//! The files and folders to write.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::private_file;

/// What is written, with paths below the folder. Only the owner can read any of it.
#[derive(Default)]
pub(super) struct Files {
    files: Vec<File>,
    folders: Vec<String>,
}

struct File {
    path: String,
    text: Zeroizing<String>,
    is_secret: bool,
}

impl Files {
    /// A file that anybody may see.
    pub(super) fn public(&mut self, path: impl Into<String>, text: impl Into<String>) {
        let text = Zeroizing::new(text.into());
        self.files.push(File { path: path.into(), text, is_secret: false });
    }

    /// A file that nobody but the operator may see.
    pub(super) fn secret(&mut self, path: impl Into<String>, text: Zeroizing<String>) {
        self.files.push(File { path: path.into(), text, is_secret: true });
    }

    /// An empty folder.
    pub(super) fn folder(&mut self, path: impl Into<String>) {
        self.folders.push(path.into());
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// The files, for programs.
    pub(super) fn listed(&self) -> Vec<Value> {
        let listed = |file: &File| json!({ "file": file.path, "is_secret": file.is_secret });
        self.files.iter().map(listed).collect()
    }

    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        for path in &self.folders {
            private_file::make_folder(&folder.join(path))?;
        }
        for file in &self.files {
            let path = folder.join(&file.path);
            let parent = path.parent().context("a file has a folder")?;
            private_file::make_folder(parent)?;
            private_file::write(&path, &file.text, false)?;
        }
        Ok(())
    }
}
