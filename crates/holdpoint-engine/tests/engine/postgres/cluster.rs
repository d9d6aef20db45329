//! A PostgreSQL server for one test, created by `scripts/postgres` and removed on drop.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::test_database;

pub(crate) struct Cluster {
    folder: PathBuf,
    pub port: u16,
}

impl Cluster {
    pub(crate) fn start() -> Self {
        let output = script("start", Path::new(""));
        let value = |name: &str| {
            let line = output.lines().find_map(|line| line.strip_prefix(&format!("export {name}=")));
            line.unwrap_or_else(|| panic!("no {name} in {output}")).to_owned()
        };
        let folder = value("HOLDPOINT_TEST_POSTGRES_DIR").into();
        let address = value("HOLDPOINT_TEST_POSTGRES");
        let port = address.rsplit(':').next().and_then(|rest| rest.split('/').next()).unwrap();
        Self { folder, port: port.parse().unwrap() }
    }

    /// Appends settings to `postgresql.conf`, replaces the rules of `pg_hba.conf` and restarts the server. The user
    /// `postgres` can always connect through the socket.
    pub(crate) fn configure(&self, settings: &str, rules: &str) {
        let (conf, hba) = (self.data().join("postgresql.conf"), self.data().join("pg_hba.conf"));
        let before = std::fs::read_to_string(&conf).unwrap();
        std::fs::write(&conf, format!("{before}\n{settings}\n")).unwrap();
        std::fs::write(&hba, format!("local all postgres trust\n{rules}\n")).unwrap();
        self.restart();
    }

    /// Restarts the server. This closes all connections.
    pub(crate) fn restart(&self) {
        script("restart", &self.folder);
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap()
    }

    /// The address of the socket, for the test itself.
    pub(crate) fn socket(&self, database: &str) -> String {
        let folder = self.folder.display().to_string().replace('/', "%2F");
        format!("postgres://postgres@{folder}:{}/{database}", self.port)
    }

    pub(crate) async fn execute(&self, sql: &str) {
        test_database::execute(&self.socket("postgres"), sql).await.unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        script("stop", &self.folder);
    }
}

/// Returns the output of the script. Does not panic if a test already fails: a second panic would hide the first.
fn script(action: &str, folder: &Path) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres");
    let done = Command::new(path).arg(action).env("HOLDPOINT_TEST_POSTGRES_DIR", folder).output().unwrap();
    let failed = !done.status.success() && !std::thread::panicking();
    assert!(!failed, "scripts/postgres {action}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}
