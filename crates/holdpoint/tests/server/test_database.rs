//! The database of one test: a SQLite file, or a schema in the PostgreSQL cluster that `HOLDPOINT_TEST_POSTGRES` names.
//! [`on_both`] runs a test on each.

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::harness::{PROGRAM, Server};

/// An empty database for one test, with the folder of the servers that use it. Dropping it removes both.
pub(crate) struct TestDatabase {
    folder: TempDir,
    schema: Option<Schema>,
}

/// Generates a SQLite test and a PostgreSQL test from each function that takes a `&TestDatabase`.
macro_rules! on_both {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test]
            fn $test() {
                super::$test(&crate::test_database::TestDatabase::sqlite());
            })+
        }
        mod postgres {
            $(#[test]
            fn $test() {
                super::$test(&crate::test_database::TestDatabase::postgres());
            })+
        }
    };
}
pub(crate) use on_both;

impl TestDatabase {
    pub(crate) fn sqlite() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), schema: None }
    }

    pub(crate) fn postgres() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), schema: Some(Schema::create()) }
    }

    /// Starts a server on this database: the first one, or the successor of one that was killed.
    pub(crate) fn start(&self, more: &[&str]) -> Server {
        self.launch(more, |command| command.stderr(Stdio::null()))
    }

    /// Starts one of several servers on this database. Each has its own name and folder; all share one seal key.
    /// Requires PostgreSQL.
    pub(crate) fn start_node(&self, name: &str, more: &[&str]) -> Server {
        self.launch_node(name, more, |command| command.stderr(Stdio::null()))
    }

    /// Does the same as `start_node`. `finish` can change the command before it is executed.
    pub(crate) fn launch_node(
        &self,
        name: &str,
        more: &[&str],
        finish: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Server {
        self.launch_program(Path::new(PROGRAM), name, more, finish)
    }

    /// Starts another program than the published one as a node.
    pub(crate) fn launch_program(
        &self,
        program: &Path,
        name: &str,
        more: &[&str],
        finish: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Server {
        let seal = self.folder.path().join("seal.key");
        let flags = [&["--seal-key-file", seal.to_str().unwrap()], more].concat();
        self.launch_in(program, name, &flags, finish)
    }

    /// Starts a server on this database. `finish` can change the command before it is executed.
    pub(crate) fn launch(&self, more: &[&str], finish: impl FnOnce(&mut Command) -> &mut Command) -> Server {
        self.launch_in(Path::new(PROGRAM), "data", more, finish)
    }

    fn launch_in(
        &self,
        program: &Path,
        folder: &str,
        more: &[&str],
        finish: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Server {
        let data = self.folder.path().join(folder);
        let address = self.schema.as_ref().map(Schema::address);
        let database = address.iter().flat_map(|address| ["--database", address]);
        let more: Vec<_> = database.chain(more.iter().copied()).collect();
        Server::spawn(Command::new(program), "127.0.0.1:0", &data, &more, finish)
    }

    /// Kills a server with -9 and starts another one on the same data.
    pub(crate) fn kill_and_restart(&self, mut server: Server) -> Server {
        server.kill();
        self.start(&[])
    }

    pub(crate) fn engine(&self) -> &'static str {
        if self.schema.is_some() { "PostgreSQL" } else { "SQLite" }
    }
}

/// The schema of one test. Dropping it removes the schema from the cluster.
struct Schema {
    cluster: String,
    name: String,
}

impl Schema {
    fn create() -> Self {
        let cluster = std::env::var("HOLDPOINT_TEST_POSTGRES").expect(
            "HOLDPOINT_TEST_POSTGRES must name a PostgreSQL cluster: run scripts/check, \
             or `eval \"$(scripts/postgres start)\"`",
        );
        let mut bytes = [0; 12];
        getrandom::fill(&mut bytes).unwrap();
        let name = bytes.iter().fold("t_".to_owned(), |name, byte| format!("{name}{byte:02x}"));
        let schema = Self { cluster, name };
        assert!(schema.execute(&format!("CREATE SCHEMA {}", schema.name)), "psql creates the schema");
        schema
    }

    fn address(&self) -> String {
        let joint = if self.cluster.contains('?') { '&' } else { '?' };
        format!("{}{joint}schema={}", self.cluster, self.name)
    }

    fn execute(&self, sql: &str) -> bool {
        let mut psql = Command::new("psql");
        psql.args(["-X", "-q", "-d", &self.cluster, "-c", "SET lock_timeout = '5s'", "-c", sql]);
        psql.stderr(Stdio::null()).status().expect("psql, which comes with PostgreSQL").success()
    }
}

impl Drop for Schema {
    // Connections of a killed server may still hold locks. The test must not fail then: the schema stays.
    fn drop(&mut self) {
        if !self.execute(&format!("DROP SCHEMA {} CASCADE", self.name)) {
            eprintln!("the schema {} was not removed", self.name);
        }
    }
}
