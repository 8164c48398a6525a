//! The HPKE key files of a gateway or an issuer. They are reloaded when they change, so keys can
//! rotate while the server runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use sotto_crypto::HpkeKeypair;
use sotto_crypto::hpke::Suite;
use sotto_server::{Keyring, Rotating};

use super::config::toml_files;
use super::watch::{self, State};
use crate::{keys, private_file, random};

/// Key files and folders of key files.
#[derive(Clone, Debug)]
struct KeyFiles {
    paths: Vec<PathBuf>,
    /// The state of the files when they were read.
    seen: State,
}

impl KeyFiles {
    /// The listed files, or the folder `own`: a key of each suite is made if it is empty, and a
    /// hybrid one if there are only others.
    fn new(kind: &str, listed: Vec<PathBuf>, own: &Path) -> Result<Self> {
        if !listed.is_empty() {
            return Ok(Self { paths: listed, seen: State::new() });
        }
        private_file::make_folder(own)?;
        let held =
            toml_files(own)?.iter().map(|file| keys::read(file)).collect::<Result<Vec<_>>>()?;
        let is_hybrid = |key: &HpkeKeypair| Suite::of(key.config()) == Some(Suite::Hybrid);
        let mut ids: Vec<u8> = held.iter().map(|key| key.config().id().value()).collect();
        for (suite, name, needed) in [
            (Suite::X25519, "x25519", held.is_empty()),
            (Suite::Hybrid, "hybrid", !held.iter().any(is_hybrid)),
        ] {
            if !needed {
                continue;
            }
            let path = own.join(format!("{kind}-key-{name}.toml"));
            let [random] = random::bytes();
            let mut free = (0..=u8::MAX).map(|step| random.wrapping_add(step));
            let id = free.find(|id| !ids.contains(id)).context("all key ids are used")?;
            ids.push(id);
            keys::write(&path, &keys::generate_for(suite, id), false)?;
            tracing::info!(file = %path.display(), "made a key: publish it with `sotto keys publish --{kind}-key`");
        }
        Ok(Self { paths: vec![own.to_owned()], seen: State::new() })
    }

    fn read(&self) -> Result<Vec<HpkeKeypair>> {
        let files = self.files()?;
        let paths: Vec<_> = self.paths.iter().map(|path| path.display().to_string()).collect();
        ensure!(!files.is_empty(), "there is no key in {}", paths.join(", "));
        files.iter().map(|file| keys::read(file)).collect()
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

    fn state(&self) -> State {
        watch::state(self.files().unwrap_or_default())
    }
}

fn modified(file: &Path) -> Option<SystemTime> {
    std::fs::metadata(file).ok()?.modified().ok()
}

/// Loads keys of this kind, either the listed ones or those in the folder `own`. From then on,
/// watches the files.
pub(super) fn follow<R: Keyring + Send + Sync + 'static>(
    kind: &str,
    listed: Vec<PathBuf>,
    own: &Path,
) -> Result<Arc<Rotating<R>>> {
    let (files, keys) = load(kind, listed, own)?;
    let (seen, watched, holder) = (files.seen.clone(), files.clone(), Arc::clone(&keys));
    let reload = move || {
        let read = files.read()?;
        let count = read.len();
        holder.replace(read)?;
        Ok(Some(count))
    };
    tokio::spawn(watch::follow(format!("{kind} keys"), seen, move || watched.state(), reload));
    Ok(keys)
}

fn load<R: Keyring>(
    kind: &str,
    listed: Vec<PathBuf>,
    own: &Path,
) -> Result<(KeyFiles, Arc<Rotating<R>>)> {
    let named = || format!("{kind} keys");
    let mut files = KeyFiles::new(kind, listed, own).with_context(named)?;
    // Taken before the files are read, so that a change in the meantime is noticed later.
    files.seen = files.state();
    let keys = files.read().and_then(|keys| Ok(Rotating::new(keys)?)).with_context(named)?;
    Ok((files, Arc::new(keys)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sotto_protocol::gateway::GatewayKeyring;

    use super::*;

    #[test]
    fn a_key_of_each_suite_is_made_once_and_more_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("gateway-keys");
        let (files, _) = load::<GatewayKeyring>("gateway", Vec::new(), &own).unwrap();
        let first = files.read().unwrap();
        let suites: Vec<_> = first.iter().map(|key| Suite::of(key.config()).unwrap()).collect();
        assert_eq!(suites, [Suite::Hybrid, Suite::X25519]);
        let ids: Vec<_> = first.iter().map(|key| key.config().id().value()).collect();
        let id = (0..=u8::MAX).find(|id| !ids.contains(id)).unwrap();
        assert_eq!(files.state(), files.seen);
        let second = own.join("gateway-key-2.toml");
        keys::write(&second, &keys::generate(id), false).unwrap();
        let later = SystemTime::now() + Duration::from_secs(9);
        std::fs::File::options().write(true).open(&second).unwrap().set_modified(later).unwrap();
        assert_ne!(files.state(), files.seen);
        let (files, _) = load::<GatewayKeyring>("gateway", Vec::new(), &own).unwrap();
        let all = files.read().unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!(all[1].config(), first[0].config(), "the newest comes first");
    }

    /// A folder that an older version made.
    #[test]
    fn a_hybrid_key_is_added_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("gateway-key-1.toml");
        keys::write(&old, &keys::generate(7), false).unwrap();
        let (files, _) = load::<GatewayKeyring>("gateway", Vec::new(), folder.path()).unwrap();
        let keys = files.read().unwrap();
        let of = |suite| keys.iter().filter(move |key| Suite::of(key.config()) == Some(suite));
        assert_eq!((of(Suite::Hybrid).count(), of(Suite::X25519).count()), (1, 1));
        assert_eq!(keys::read(&old).unwrap().config().id().value(), 7);
    }

    #[test]
    fn mistakes_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let load = |name: &str| {
            let listed = vec![folder.path().join(name)];
            load::<GatewayKeyring>("gateway", listed, folder.path())
        };
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
