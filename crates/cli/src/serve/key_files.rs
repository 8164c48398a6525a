//! The HPKE key files of a gateway or an issuer. They are reloaded when they change, so keys can
//! rotate while the server runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use sotto_crypto::HpkeKeypair;
use sotto_protocol::Fault;
use sotto_server::GatewayKeys;

use super::config::toml_files;
use crate::{keys, private_file};

/// How often the files are checked for changes.
const CHECK_AGAIN: Duration = Duration::from_secs(1);

/// A holder of the keys in the files.
pub(super) trait KeyHolder: Sized {
    /// The name of this kind of key.
    const KIND: &'static str;
    /// The file name of the key that is made if the folder has none.
    const FIRST_KEY: &'static str;
    /// Makes a holder with these keys.
    fn new(keys: Vec<HpkeKeypair>) -> Result<Self, Fault>;
    /// Replaces the keys.
    fn replace(&self, keys: Vec<HpkeKeypair>) -> Result<(), Fault>;
}

impl KeyHolder for GatewayKeys {
    const KIND: &'static str = "gateway";
    const FIRST_KEY: &'static str = "gateway-key-1.toml";

    fn new(keys: Vec<HpkeKeypair>) -> Result<Self, Fault> {
        Self::new(keys)
    }

    fn replace(&self, keys: Vec<HpkeKeypair>) -> Result<(), Fault> {
        self.replace(keys)
    }
}

/// Key files and folders of key files.
#[derive(Clone, Debug)]
pub(super) struct KeyFiles {
    paths: Vec<PathBuf>,
    seen: Seen,
}

/// The state of a file when it was read.
type Seen = Vec<(Option<SystemTime>, PathBuf, u64)>;

impl KeyFiles {
    /// The listed files, or the folder `own`, in which a key is made at the first start.
    fn new<H: KeyHolder>(listed: Vec<PathBuf>, own: &Path) -> Result<Self> {
        if !listed.is_empty() {
            return Ok(Self { paths: listed, seen: Seen::new() });
        }
        private_file::make_folder(own)?;
        if toml_files(own)?.is_empty() {
            let path = own.join(H::FIRST_KEY);
            let [id] = crate::random::bytes();
            keys::write(&path, &keys::generate(id), false)?;
            let kind = H::KIND;
            tracing::info!(file = %path.display(), "made a key: publish it with `sotto keys publish --{kind}-key`");
        }
        Ok(Self { paths: vec![own.to_owned()], seen: Seen::new() })
    }

    /// Reads all keys.
    fn load<H: KeyHolder>(&mut self) -> Result<Arc<H>> {
        // Taken before the files are read, so that a change in the meantime is noticed later.
        self.seen = self.state();
        Ok(Arc::new(H::new(self.read()?)?))
    }

    /// Replaces the keys whenever the files change, forever. Files that cannot be used are ignored.
    async fn follow<H: KeyHolder>(mut self, keys: Arc<H>) {
        let kind = H::KIND;
        loop {
            tokio::time::sleep(CHECK_AGAIN).await;
            let now = self.state();
            if now == self.seen {
                continue;
            }
            self.seen = now;
            match self.read().and_then(|read| {
                let count = read.len();
                keys.replace(read)?;
                Ok(count)
            }) {
                Ok(count) => tracing::info!(keys = count, "the {kind} keys were reloaded"),
                Err(error) => tracing::error!(
                    error = format!("{error:#}"),
                    "the {kind} keys have changed and cannot be used: the old ones stay in use"
                ),
            }
        }
    }

    fn read(&self) -> Result<Vec<HpkeKeypair>> {
        let files = self.files()?;
        anyhow::ensure!(!files.is_empty(), "there is no key in {}", self.shown());
        files.iter().map(|file| keys::read(file)).collect()
    }

    fn shown(&self) -> String {
        let paths: Vec<_> = self.paths.iter().map(|path| path.display().to_string()).collect();
        paths.join(", ")
    }

    /// The files, the preferred one first: in the listed order, or in a folder from the newest to
    /// the oldest.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for path in &self.paths {
            if path.is_dir() {
                let mut found = toml_files(path)?;
                found.sort_by_key(|file| std::cmp::Reverse(modified(file)));
                files.extend(found);
            } else {
                files.push(path.clone());
            }
        }
        Ok(files)
    }

    fn state(&self) -> Seen {
        let file = |path: PathBuf| {
            let len = std::fs::metadata(&path).map_or(0, |data| data.len());
            (modified(&path), path, len)
        };
        self.files().unwrap_or_default().into_iter().map(file).collect()
    }
}

fn modified(file: &Path) -> Option<SystemTime> {
    std::fs::metadata(file).ok()?.modified().ok()
}

/// Loads the keys, either the listed ones or those in the folder `own`. From then on, watches the
/// files.
pub(super) fn follow<H: KeyHolder + Send + Sync + 'static>(
    listed: Vec<PathBuf>,
    own: &Path,
) -> Result<Arc<H>> {
    let (files, keys) = load(listed, own)?;
    tokio::spawn(files.follow(Arc::clone(&keys)));
    Ok(keys)
}

fn load<H: KeyHolder>(listed: Vec<PathBuf>, own: &Path) -> Result<(KeyFiles, Arc<H>)> {
    let named = || format!("{} keys", H::KIND);
    let mut files = KeyFiles::new::<H>(listed, own).with_context(named)?;
    let keys = files.load().with_context(named)?;
    Ok((files, keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_more_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("gateway-keys");
        let (files, _) = load::<GatewayKeys>(Vec::new(), &own).unwrap();
        let first = files.read().unwrap();
        assert_eq!(first.len(), 1);
        let id = first[0].config().id().value();
        assert_eq!(files.state(), files.seen);
        let second = own.join("gateway-key-2.toml");
        keys::write(&second, &keys::generate(id.wrapping_add(1)), false).unwrap();
        let later = SystemTime::now() + Duration::from_secs(9);
        std::fs::File::options().write(true).open(&second).unwrap().set_modified(later).unwrap();
        assert_ne!(files.state(), files.seen);
        let (files, _) = load::<GatewayKeys>(Vec::new(), &own).unwrap();
        let both = files.read().unwrap();
        assert_eq!(both.len(), 2);
        assert_eq!(both[1].config(), first[0].config(), "the newest comes first");
    }

    #[test]
    fn mistakes_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let load = |name: &str| load::<GatewayKeys>(vec![folder.path().join(name)], folder.path());
        let error = load("absent.toml").unwrap_err();
        assert!(format!("{error:#}").contains("absent.toml"), "{error:#}");
        std::fs::create_dir(folder.path().join("empty")).unwrap();
        let error = load("empty").unwrap_err();
        assert!(format!("{error:#}").contains("there is no key"), "{error:#}");
        for name in ["a.toml", "b.toml"] {
            keys::write(&folder.path().join("empty").join(name), &keys::generate(7), false)
                .unwrap();
        }
        assert!(load("empty").is_err());
    }
}
