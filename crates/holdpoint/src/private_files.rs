//! Restricts access to the files of the server to the user that runs it, independent of the umask.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use holdpoint_engine::Location;
use rustix::fs::Mode;

/// Permissions of the group and of others.
const OPEN_TO_OTHERS: u32 = 0o077;
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// The sticky bit. In a folder that has it, such as /tmp, every user may create files.
const STICKY: u32 = 0o1000;

/// Creates the data folder, and removes the permissions of the group and of others from it, from the files in it and from
/// those of the database. Files that the process creates later have no such permissions either.
pub(crate) fn protect(data: &Path, location: &Location) -> anyhow::Result<()> {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data)
        .with_context(|| format!("cannot create the data folder {}", data.display()))?;
    protect_folder(data)?;
    let mut files = ["seal.key", "client.json", "client.json.new"].map(|name| data.join(name)).to_vec();
    if let Location::Sqlite(path) = location {
        files.extend(["", "-wal", "-shm", ".lock"].map(|ending| with_ending(path, ending)));
        files.push(path.with_extension("key"));
    }
    files.iter().for_each(|path| restrict(path, 0o600));
    restrict(&data.join("providers"), 0o700);
    Ok(())
}

fn protect_folder(data: &Path) -> anyhow::Result<()> {
    let shown = data.display();
    let folder = fs::metadata(data).with_context(|| format!("cannot read the data folder {shown}"))?;
    let mode = folder.mode();
    if mode & OPEN_TO_OTHERS == 0 {
        return Ok(());
    }
    let advice =
        format!("choose a separate folder with --data, such as {}", data.join("holdpoint").display());
    if mode & STICKY != 0 {
        bail!("the data folder {shown} is shared with other users (mode {:o}); {advice}", mode & 0o7777);
    }
    if !may_change_mode(&folder) {
        bail!(
            "the data folder {shown} is open to other users (mode {:o}) and belongs to the user {}; {advice}, or have \
             its owner run: chmod 700 {shown}",
            mode & 0o7777,
            folder.uid()
        );
    }
    match foreign_entry(data)? {
        None => {
            fs::set_permissions(data, Permissions::from_mode(0o700))
                .with_context(|| format!("cannot run chmod 700 {shown}; {advice}"))?;
            tracing::warn!(folder = %shown, "the data folder was open to other users; its mode is now 700");
            Ok(())
        }
        Some(_) if data.join("holdpoint.db").exists() && mode & WRITABLE_BY_OTHERS == 0 => {
            tracing::warn!(folder = %shown, "other users can list the data folder; run: chmod 700 {shown}");
            Ok(())
        }
        Some(other) => bail!(
            "the data folder {shown} is open to other users (mode {:o}) and holds {other}, which is not a file of this \
             server; {advice}, or run: chmod 700 {shown}",
            mode & 0o7777
        ),
    }
}

/// Returns true if this process may change the mode: as the owner or as root.
fn may_change_mode(file: &Metadata) -> bool {
    let user = rustix::process::geteuid();
    user.is_root() || file.uid() == user.as_raw()
}

/// Returns the name of an entry that this server does not create. A folder with such an entry, such as /etc, keeps its
/// mode, because other programs may need it.
fn foreign_entry(data: &Path) -> anyhow::Result<Option<String>> {
    let own = |name: &str| {
        ["seal.key", "client.json", "holdpoint."].iter().any(|start| name.starts_with(start))
            || ["providers", "lost+found"].contains(&name)
    };
    let entries =
        fs::read_dir(data).with_context(|| format!("cannot read the data folder {}", data.display()))?;
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !own(&name) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Removes the permissions of the group and of others from a file, if it exists.
fn restrict(path: &Path, mode: u32) {
    let found = match fs::symlink_metadata(path) {
        // The target of a symbolic link may be shared on purpose.
        Ok(found) if !found.is_symlink() => found,
        Ok(_) => return,
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        Err(error) => {
            return tracing::warn!(path = %path.display(), %error, "cannot check the mode of a file");
        }
    };
    if found.mode() & OPEN_TO_OTHERS == 0 {
        return;
    }
    match fs::set_permissions(path, Permissions::from_mode(mode)) {
        Ok(()) => {
            tracing::warn!(path = %path.display(), "other users could open the file; its mode is now {mode:o}");
        }
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "other users can open the file; run: chmod {mode:o}");
        }
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn prepare(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let parent = tempfile::tempdir().unwrap();
        let data = parent.path().join("data");
        fs::create_dir(&data).unwrap();
        for name in files {
            fs::write(data.join(name), "x").unwrap();
            chmod(&data.join(name), 0o644);
        }
        chmod(&data, 0o755);
        (parent, data)
    }

    fn protect_sqlite(data: &Path) -> Result<(), String> {
        protect(data, &Location::Sqlite(data.join("holdpoint.db"))).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn an_open_data_folder_and_the_files_in_it_are_closed() {
        let names = ["holdpoint.db", "holdpoint.db-wal", "holdpoint.db-shm", "holdpoint.db.lock", "seal.key"];
        let (_parent, data) = prepare(&names);
        fs::create_dir(data.join("providers")).unwrap();
        chmod(&data.join("providers"), 0o755);
        protect_sqlite(&data).unwrap();
        assert_eq!((mode(&data), mode(&data.join("providers"))), (0o700, 0o700));
        for name in names {
            assert_eq!(mode(&data.join(name)), 0o600, "{name}");
        }
        fs::write(data.join("later"), "x").unwrap();
        assert_eq!(mode(&data.join("later")), 0o600, "the umask applies to files that are created later");
    }

    #[test]
    fn a_new_data_folder_is_closed() {
        let (_parent, data) = prepare(&[]);
        protect_sqlite(&data.join("new/folder")).unwrap();
        assert_eq!(mode(&data.join("new/folder")), 0o700);
        protect_sqlite(&data.join("new/folder")).unwrap();
    }

    #[test]
    fn a_shared_folder_is_rejected_and_not_changed() {
        let (_parent, data) = prepare(&[]);
        chmod(&data, 0o1777);
        let refused = protect_sqlite(&data).unwrap_err();
        assert!(refused.contains("1777") && refused.contains("--data"), "{refused}");
        assert_eq!(mode(&data), 0o1777);
    }

    #[test]
    fn a_folder_with_other_files_is_rejected_unless_it_has_a_database() {
        let (_parent, data) = prepare(&["passwd"]);
        let refused = protect_sqlite(&data).unwrap_err();
        assert!(refused.contains("passwd") && refused.contains("chmod 700"), "{refused}");
        assert_eq!(mode(&data), 0o755);
        let (_parent, data) = prepare(&["workflow.json", "holdpoint.db"]);
        protect_sqlite(&data).unwrap();
        assert_eq!((mode(&data), mode(&data.join("holdpoint.db"))), (0o755, 0o600));
        chmod(&data, 0o775);
        assert!(protect_sqlite(&data).is_err(), "others could replace the database");
    }

    #[test]
    fn a_folder_of_another_user_is_rejected() {
        // The root folder belongs to root, and every user can read it.
        if rustix::process::geteuid().is_root() || mode(Path::new("/")) & OPEN_TO_OTHERS == 0 {
            return;
        }
        assert!(protect_folder(Path::new("/")).unwrap_err().to_string().contains("belongs to the user 0"));
    }
}
