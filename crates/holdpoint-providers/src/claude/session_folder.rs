//! The folder of a session: the working folder of the program, its configuration and its conversation. The name of the
//! folder is a digest of the owner.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::super::{LockedHandle, ProviderError, code};
use super::orphaned_processes::{self, ProcessIdentity};
use super::sessions::FolderOwner;
use super::transcript::BYTES_MAX;

/// The longest name of the conversation folder. The program shortens longer names in an undocumented way.
const NAME_CHARS_MAX: usize = 180;
/// The time limit for the previous holder to release the lock after its program was killed.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Clone)]
pub(super) struct SessionFolder {
    root: PathBuf,
    owner: FolderOwner,
}

/// The file lock of a session folder. Its holder may run a program there.
pub(super) struct FolderLock {
    _lock: File,
}

/// The record in the folder: the last program that was started, and the turn of the conversation.
#[derive(Default, Serialize, Deserialize)]
struct FolderNote {
    #[serde(default)]
    started: Option<ProcessIdentity>,
    #[serde(default)]
    turn: u64,
}

impl SessionFolder {
    pub(super) fn of(all: &Path, handle: &LockedHandle) -> Self {
        let owner = FolderOwner::of(handle);
        let mut name = Sha256::new();
        for part in [handle.tenant(), handle.state_key(), handle.run(), handle.slot()] {
            name.update(part.len().to_be_bytes());
            name.update(part.as_bytes());
        }
        let digest = name.finalize();
        let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Self { root: all.join(hex), owner }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the working folder of the program.
    pub(super) fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    pub(super) fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Returns the folder for temporary files. In a shared folder the program would leave session ids behind.
    pub(super) fn temp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// Returns the configuration folder of the program.
    pub(super) fn config(&self) -> PathBuf {
        self.root.join("config")
    }

    /// Creates the folder if it is missing, and locks it. Kills programs of earlier turns, which is safe because the
    /// caller has the lock of the handle. Returns None if another process keeps the lock of the folder.
    pub(super) fn lock(&mut self) -> io::Result<Option<FolderLock>> {
        for folder in [&self.root, &self.work(), &self.home(), &self.config(), &self.temp()] {
            create_private(folder)?;
        }
        self.root = self.root.canonicalize()?;
        self.owner.write(&self.root)?;
        let lock = File::options().create(true).truncate(false).write(true).open(self.root.join("lock"))?;
        let until = Instant::now() + LOCK_TIMEOUT;
        while let Err(error) = lock.try_lock() {
            match error {
                TryLockError::Error(error) => return Err(error),
                TryLockError::WouldBlock if Instant::now() >= until => return Ok(None),
                TryLockError::WouldBlock => {
                    self.kill_processes();
                    std::thread::sleep(LOCK_POLL_INTERVAL);
                }
            }
        }
        self.kill_processes();
        Ok(Some(FolderLock { _lock: lock }))
    }

    /// Kills all processes that were started for this folder.
    pub(super) fn kill_processes(&self) {
        if let Some(started) = self.read_note().started {
            orphaned_processes::kill(&started);
        }
        orphaned_processes::sweep(&self.root);
    }

    /// Kills all processes that were started for this folder, if the folder exists.
    pub(super) fn kill_processes_if_exists(&self) {
        // The environment of the processes has the canonical path.
        if let Ok(root) = self.root.canonicalize() {
            Self { root, owner: self.owner.clone() }.kill_processes();
        }
    }

    pub(super) fn delete(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn record_process(&self, pid: u32) -> io::Result<()> {
        let started = ProcessIdentity::of(pid);
        self.write_note(&FolderNote { started, ..self.read_note() })
    }

    /// Returns the turn of the conversation in this folder.
    pub(super) fn turn(&self) -> u64 {
        self.read_note().turn
    }

    pub(super) fn record_turn(&self, turn: u64) -> io::Result<()> {
        self.write_note(&FolderNote { turn, ..self.read_note() })
    }

    fn read_note(&self) -> FolderNote {
        let text = fs::read(self.root.join("note.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn write_note(&self, note: &FolderNote) -> io::Result<()> {
        self.write_file("note.json", &serde_json::to_vec(note)?).map(drop)
    }

    /// Writes a file atomically, readable by its owner only.
    pub(super) fn write_file(&self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.root.join(name);
        write_atomically(&path, content)?;
        Ok(path)
    }

    /// Reads the conversation.
    pub(super) fn conversation(&self, session: &str) -> Result<Option<Vec<u8>>, ProviderError> {
        let Some(path) = self.find(session) else { return Ok(None) };
        let mut content = Vec::new();
        let most = u64::try_from(BYTES_MAX).unwrap_or(u64::MAX);
        let read = File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut content));
        read.map_err(|error| folder_error(&error))?;
        if content.len() > BYTES_MAX {
            let message = format!("the conversation exceeds {BYTES_MAX} bytes and cannot be stored");
            return Err(ProviderError::permanent(code::GRAPH, message));
        }
        Ok(Some(content))
    }

    /// Writes a conversation to the file where the program looks for it.
    pub(super) fn restore(&self, session: &str, content: &[u8]) -> Result<(), ProviderError> {
        // A file from an earlier working folder would be found first.
        if let Some(old) = self.find(session) {
            fs::remove_file(old).map_err(|error| folder_error(&error))?;
        }
        let folder = self.projects().join(self.project()?);
        create_private(&folder).map_err(|error| folder_error(&error))?;
        write_atomically(&folder.join(file_name(session)), content).map_err(|error| folder_error(&error))
    }

    fn projects(&self) -> PathBuf {
        self.config().join("projects")
    }

    /// Returns the program's name for the working folder: every character except letters and digits becomes a dash.
    fn project(&self) -> Result<String, ProviderError> {
        let work = self.work();
        let name = project_name(&work.to_string_lossy());
        if name.len() > NAME_CHARS_MAX {
            let message = "the path of the providers folder is too long; use a shorter data folder";
            return Err(ProviderError::permanent(code::MISCONFIGURED, message));
        }
        Ok(name)
    }

    fn find(&self, session: &str) -> Option<PathBuf> {
        let projects = fs::read_dir(self.projects()).ok()?;
        let files = projects.flatten().map(|project| project.path().join(file_name(session)));
        files.into_iter().find(|file| file.is_file())
    }
}

fn file_name(session: &str) -> String {
    format!("{session}.jsonl")
}

fn project_name(path: &str) -> String {
    // The program replaces each UTF-16 code unit.
    let dashes = |c: char| if c.is_ascii_alphanumeric() { c.to_string() } else { "-".repeat(c.len_utf16()) };
    path.chars().map(dashes).collect()
}

pub(super) fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut options = File::options();
    options.create(true).truncate(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&beside)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(beside, path)
}

/// Creates a folder that only its owner can enter.
fn create_private(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Returns the error without the path of the folder.
pub(super) fn folder_error(error: &io::Error) -> ProviderError {
    tracing::warn!(kind = ?error.kind(), "cannot use a session folder");
    ProviderError::transient(
        code::UNREACHABLE,
        format!("the session folder cannot be used: {}", error.kind()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_names_follow_the_rules_of_the_program() {
        assert_eq!(project_name("/tmp/a_b/w.x"), "-tmp-a-b-w-x");
        assert_eq!(project_name("/é/😀"), "-----");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_orphaned_program_is_killed_by_the_next_lock_holder() {
        use std::os::unix::process::CommandExt;
        let place = tempfile::tempdir().unwrap();
        let mut folder = SessionFolder { root: place.path().join("x"), owner: FolderOwner::default() };
        drop(folder.lock().unwrap());
        let mut left = std::process::Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        folder.record_process(left.id()).unwrap();
        drop(folder.lock().unwrap());
        assert!(!left.wait().unwrap().success());
    }

    #[test]
    fn a_restored_conversation_can_be_read() {
        let place = tempfile::tempdir().unwrap();
        let mut folder = SessionFolder { root: place.path().join("x"), owner: FolderOwner::default() };
        let held = folder.lock().unwrap();
        assert!(held.is_some());
        folder.restore("s1", b"old").unwrap();
        folder.restore("s1", b"new").unwrap();
        assert_eq!(folder.conversation("s1").unwrap(), Some(b"new".to_vec()));
        assert_eq!(folder.conversation("s2").unwrap(), None);
        folder.record_turn(3).unwrap();
        assert_eq!(folder.turn(), 3);
        folder.delete().unwrap();
        folder.delete().unwrap();
        assert!(!folder.root().exists());
    }
}
