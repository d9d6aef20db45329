//! A folder for each session: where its program works, what it keeps, and who is at work there. Named by a digest, so
//! that it is found again and tells nothing.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::super::{Case, Trouble, code};
use super::leftovers::{self, Started};
use super::sessions::Owner;
use super::transcript::BYTES_MAX;

/// Beyond this the agent shortens the names of its folders in a way of its own.
const NAME_CHARS_MAX: usize = 180;
/// How long whoever was at work here may take to notice that it is over.
const LOCK_WITHIN: Duration = Duration::from_secs(5);
const LOCK_LOOK: Duration = Duration::from_millis(50);

#[derive(Clone)]
pub(super) struct Folder {
    root: PathBuf,
    owner: Owner,
}

/// The right to have a program in the folder.
pub(super) struct Held {
    _lock: File,
}

/// What is remembered of a folder: which program was started here, and how new its conversation is.
#[derive(Default, Serialize, Deserialize)]
struct Note {
    #[serde(default)]
    started: Option<Started>,
    #[serde(default)]
    turn: u64,
}

impl Folder {
    pub(super) fn of(all: &Path, case: &Case) -> Self {
        let owner = Owner::of(case);
        let mut name = Sha256::new();
        for part in [case.tenant(), case.state_key(), case.run(), case.slot()] {
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

    /// Where the program works.
    pub(super) fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    pub(super) fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// Where the program puts what it needs for a moment. Elsewhere it would leave names of sessions behind.
    pub(super) fn scratch(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// Where the program keeps what is its own.
    pub(super) fn config(&self) -> PathBuf {
        self.root.join("config")
    }

    /// Makes it if need be, with names that the program will see too, and keeps others out. Whatever ran here before is
    /// killed: who asks has the handle's lock.
    pub(super) fn hold(&mut self) -> io::Result<Option<Held>> {
        for folder in [&self.root, &self.work(), &self.home(), &self.config(), &self.scratch()] {
            private(folder)?;
        }
        self.root = self.root.canonicalize()?;
        self.owner.put(&self.root)?;
        let lock = File::options().create(true).truncate(false).write(true).open(self.root.join("lock"))?;
        let until = Instant::now() + LOCK_WITHIN;
        while let Err(error) = lock.try_lock() {
            match error {
                TryLockError::Error(error) => return Err(error),
                TryLockError::WouldBlock if Instant::now() >= until => return Ok(None),
                TryLockError::WouldBlock => {
                    self.stop();
                    std::thread::sleep(LOCK_LOOK);
                }
            }
        }
        self.stop();
        Ok(Some(Held { _lock: lock }))
    }

    /// Kills what still runs here.
    pub(super) fn stop(&self) {
        if let Some(started) = self.note().started {
            leftovers::kill(&started);
        }
        leftovers::sweep(&self.root);
    }

    /// Kills what still runs here, if anything ever did.
    pub(super) fn stop_if_there(&self) {
        // Programs know the folder by its full name.
        if let Ok(root) = self.root.canonicalize() {
            Self { root, owner: self.owner.clone() }.stop();
        }
    }

    pub(super) fn delete(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn note_started(&self, pid: u32) -> io::Result<()> {
        let started = Started::of(pid);
        self.write_note(&Note { started, ..self.note() })
    }

    /// How new the conversation here is.
    pub(super) fn turn(&self) -> u64 {
        self.note().turn
    }

    pub(super) fn note_turn(&self, turn: u64) -> io::Result<()> {
        self.write_note(&Note { turn, ..self.note() })
    }

    fn note(&self) -> Note {
        let text = fs::read(self.root.join("note.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn write_note(&self, note: &Note) -> io::Result<()> {
        self.put("note.json", &serde_json::to_vec(note)?).map(drop)
    }

    /// A file that nobody else may read, whole or not at all.
    pub(super) fn put(&self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.root.join(name);
        write_whole(&path, content)?;
        Ok(path)
    }

    /// The conversation as it is here.
    pub(super) fn conversation(&self, session: &str) -> Result<Option<Vec<u8>>, Trouble> {
        let Some(path) = self.find(session) else { return Ok(None) };
        let mut content = Vec::new();
        let most = u64::try_from(BYTES_MAX).unwrap_or(u64::MAX);
        let read = File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut content));
        read.map_err(|error| unusable(&error))?;
        if content.len() > BYTES_MAX {
            let message = format!("the conversation has grown beyond {BYTES_MAX} bytes and cannot be kept");
            return Err(Trouble::lasting(code::GRAPH, message));
        }
        Ok(Some(content))
    }

    /// Puts a conversation where the program will look for it.
    pub(super) fn restore(&self, session: &str, content: &[u8]) -> Result<(), Trouble> {
        // One that was left by another working folder would be found first.
        if let Some(old) = self.find(session) {
            fs::remove_file(old).map_err(|error| unusable(&error))?;
        }
        let folder = self.projects().join(self.project()?);
        private(&folder).map_err(|error| unusable(&error))?;
        write_whole(&folder.join(file_name(session)), content).map_err(|error| unusable(&error))
    }

    fn projects(&self) -> PathBuf {
        self.config().join("projects")
    }

    /// The agent's name for the working folder: everything but letters and digits is a dash.
    fn project(&self) -> Result<String, Trouble> {
        let work = self.work();
        let name = project_name(&work.to_string_lossy());
        if name.len() > NAME_CHARS_MAX {
            let message = "the folder of providers lies too deep: its path must be shorter";
            return Err(Trouble::lasting(code::MISCONFIGURED, message));
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
    // The agent counts in UTF-16.
    let dashes = |c: char| if c.is_ascii_alphanumeric() { c.to_string() } else { "-".repeat(c.len_utf16()) };
    path.chars().map(dashes).collect()
}

pub(super) fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
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

/// A folder that nobody else may enter.
fn private(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Where it is, is nobody's business but the operator's.
pub(super) fn unusable(error: &io::Error) -> Trouble {
    tracing::warn!(kind = ?error.kind(), "a folder of the agent cannot be used");
    Trouble::passing(code::UNREACHABLE, format!("the agent's folder cannot be used: {}", error.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_as_the_agent_names_them() {
        assert_eq!(project_name("/tmp/a_b/w.x"), "-tmp-a-b-w-x");
        assert_eq!(project_name("/é/😀"), "-----");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_that_outlived_its_node_is_killed_by_the_next_one() {
        use std::os::unix::process::CommandExt;
        let place = tempfile::tempdir().unwrap();
        let mut folder = Folder { root: place.path().join("x"), owner: Owner::default() };
        drop(folder.hold().unwrap());
        let mut left = std::process::Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        folder.note_started(left.id()).unwrap();
        drop(folder.hold().unwrap());
        assert!(!left.wait().unwrap().success());
    }

    #[test]
    fn a_conversation_is_found_where_it_was_put() {
        let place = tempfile::tempdir().unwrap();
        let mut folder = Folder { root: place.path().join("x"), owner: Owner::default() };
        let held = folder.hold().unwrap();
        assert!(held.is_some());
        folder.restore("s1", b"old").unwrap();
        folder.restore("s1", b"new").unwrap();
        assert_eq!(folder.conversation("s1").unwrap(), Some(b"new".to_vec()));
        assert_eq!(folder.conversation("s2").unwrap(), None);
        folder.note_turn(3).unwrap();
        assert_eq!(folder.turn(), 3);
        folder.delete().unwrap();
        folder.delete().unwrap();
        assert!(!folder.root().exists());
    }
}
