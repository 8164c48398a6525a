//! Files with secrets, and files that decide whom to trust: only their owner can read those that we
//! write, they are not overwritten by accident, and what others can change is not used.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use zeroize::Zeroizing;

use crate::output::WithHint;

/// Writes a new file that only its owner can read (mode 0600). `force` replaces an existing file;
/// without it, an existing file is an error.
///
/// The file gets its name only when it is complete and durable: half a key file would look like a
/// lost key.
pub(crate) fn write(path: &Path, text: &str, force: bool) -> Result<()> {
    if !force && path.symlink_metadata().is_ok() {
        return Err(anyhow!("{} already exists", path.display()))
            .hint("choose another name, or give --force to replace it");
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let temporary = path.with_file_name(name);
    let failed = || format!("cannot write {}", path.display());
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(failed);
        }
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&temporary).with_context(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).with_context(failed)?;
    fs::rename(&temporary, path).and_then(|()| sync_folder(path)).with_context(failed)
}

/// Makes the name of a file as durable as its contents.
#[cfg(unix)]
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Only Unix can sync folders.
#[cfg(not(unix))]
fn sync_folder(_path: &Path) -> std::io::Result<()> {
    Ok(())
}

/// Creates a folder that only its owner can enter, and its parents. Leaves an existing folder
/// unchanged.
pub(crate) fn make_folder(path: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).with_context(|| format!("cannot create {}", path.display()))
}

/// Reads a file that may hold secrets; the text is wiped when it is dropped. Refuses a file that
/// others can change.
pub(crate) fn read(path: &Path) -> Result<Zeroizing<String>> {
    check_owner(path)?;
    let text = fs::read_to_string(path);
    text.map(Zeroizing::new).with_context(|| format!("cannot read {}", path.display()))
}

/// Reads a file.
pub(crate) fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Reads a private key. Refuses a file that others can change, and warns of one that they can read.
pub(crate) fn read_key(path: &Path) -> Result<Vec<u8>> {
    check_owner(path)?;
    warn_if_readable(path, "the private key");
    read_bytes(path)
}

/// Tells the operator that others can read a file with secrets.
pub(crate) fn warn_if_readable(path: &Path, what: &str) {
    if has_mode(path, 0o044) {
        tracing::warn!(file = %path.display(), "others can read {what}: chmod 600");
    }
}

/// Fails if anyone but its owner may change a file: they could replace keys and addresses in it.
fn check_owner(path: &Path) -> Result<()> {
    if has_mode(path, 0o022) {
        return Err(anyhow!("others can change {}", path.display()))
            .hint(format!("chmod go-w {}", path.display()));
    }
    Ok(())
}

/// Whether a file has any of these bits. Pipes and terminals are not files.
#[cfg(unix)]
fn has_mode(path: &Path, bits: u32) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & bits != 0)
}

/// Only Unix has modes.
#[cfg(not(unix))]
fn has_mode(_path: &Path, _bits: u32) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_private_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.toml");
        write(&path, "one", false).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            assert!(!has_mode(&path, 0o044));
            let open = folder.path().join("open.toml");
            fs::write(&open, "").unwrap();
            for (mode, is_readable, is_used) in [
                (0o600, false, true),
                (0o640, true, true),
                (0o604, true, true),
                (0o620, false, false),
                (0o602, false, false),
                (0o666, true, false),
            ] {
                fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
                assert_eq!(has_mode(&open, 0o044), is_readable, "{mode:o}");
                for outcome in [read(&open).map(drop), read_key(&open).map(drop)] {
                    assert_eq!(outcome.is_ok(), is_used, "{mode:o}");
                    let refused = outcome.err().map(|error| error.to_string());
                    assert!(refused.is_none_or(|text| text.contains("others can change")));
                }
            }
            fs::remove_file(&open).unwrap();
        }
        let error = write(&path, "two", false).unwrap_err();
        assert!(error.to_string().contains("already exists"));
        assert_eq!(read(&path).unwrap().as_str(), "one");
        write(&path, "two", true).unwrap();
        assert_eq!(read(&path).unwrap().as_str(), "two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
