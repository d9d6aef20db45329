//! A read of a database file that changes no file.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

/// Returns the column `found` of a statement on a database file, without a lock and without creating or changing any
/// file. For a read before the file is opened. Returns None if the file or the table does not exist, or if the file
/// cannot be read in this way, for example because another process writes to it; the caller reads again after
/// opening.
pub(crate) fn peek(path: &Path, sql: &str) -> Option<String> {
    read_text(path, sql)
        .inspect_err(|error| tracing::debug!(%error, "cannot read the database before it is opened"))
        .ok()
}

fn read_text(path: &Path, sql: &str) -> rusqlite::Result<String> {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    let has_wal = std::fs::metadata(wal).is_ok_and(|file| file.len() > 0);
    // An immutable file is read without a WAL and its index. With a WAL, exclusive mode keeps the index in memory; it
    // would lock the file, which requires write access, so locks are turned off.
    let how = if has_wal { "vfs=unix-none" } else { "immutable=1" };
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri(path, how), flags)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    if has_wal {
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    }
    connection.query_row(sql, [], |row| row.get("found"))
}

fn uri(path: &Path, how: &str) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'_' | b'-' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            // Writing to a string cannot fail.
            byte => drop(write!(uri, "%{byte:02x}")),
        }
    }
    uri.push_str("?mode=ro&");
    uri.push_str(how);
    uri
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use holdpoint_core::hex;
    use sha2::{Digest, Sha256};

    const FIND: &str = "SELECT word AS found FROM words";

    fn files(folder: &Path) -> BTreeMap<String, String> {
        let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
        let content = |path| hex(&Sha256::digest(std::fs::read(path).unwrap()));
        entries.map(|file| (file.file_name().into_string().unwrap(), content(file.path()))).collect()
    }

    #[test]
    fn a_peek_reads_the_file_and_its_wal_and_changes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b?#%.db");
        assert_eq!(peek(&path, FIND), None);
        assert!(files(folder.path()).is_empty(), "no file is created");
        let writer = Connection::open(&path).unwrap();
        writer.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE other (a TEXT)").unwrap();
        assert_eq!(peek(&path, FIND), None, "no such table");
        writer.execute_batch("CREATE TABLE words (word TEXT); INSERT INTO words VALUES ('one')").unwrap();
        // A copy of the files is in the state after a crash.
        let left = tempfile::tempdir().unwrap();
        for name in files(folder.path()).keys().filter(|name| !name.ends_with("-shm")) {
            std::fs::copy(folder.path().join(name), left.path().join(name)).unwrap();
        }
        drop(writer);
        for folder in [left.path(), folder.path()] {
            let before = files(folder);
            assert_eq!(peek(&folder.join("a b?#%.db"), FIND).as_deref(), Some("one"), "{before:?}");
            assert_eq!(files(folder), before);
        }
        std::fs::write(&path, "no database").unwrap();
        assert_eq!(peek(&path, FIND), None);
    }
}
