//! What a benchmark needs for a while: a folder that is removed again, a free port, a name that nobody else has.

use std::fs::DirBuilder;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use holdpoint_cli::failure::Failure;

/// A folder that is removed when it is no longer held.
pub(super) struct Folder {
    pub(super) path: PathBuf,
}

impl Folder {
    pub(super) fn create(scratch: &Path) -> Result<Self, Failure> {
        let path = scratch.join(format!("holdpoint-bench-{}", random_name()?));
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .create(&path)
            .map_err(|error| failed(&format!("cannot create {}", path.display()), &error))?;
        Ok(Self { path })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}

pub(super) fn free_address() -> Result<std::net::SocketAddr, Failure> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    bound.map_err(|error| failed("cannot find a free port", &error))
}

pub(super) fn random_name() -> Result<String, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Failure::broken(format!("no randomness: {error}")))?;
    Ok(holdpoint_core::hex(&bytes))
}

pub(super) fn failed(what: &str, error: &std::io::Error) -> Failure {
    Failure::broken(format!("{what}: {error}"))
        .hint("--scratch names another folder for what the benchmark starts itself")
}
