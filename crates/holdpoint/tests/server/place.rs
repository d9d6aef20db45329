//! Where a server keeps its runs: a SQLite database of its own, or a schema of its own in the PostgreSQL cluster that
//! `HOLDPOINT_TEST_POSTGRES` names. [`on_both`] runs a test on each.

use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::harness::Server;

/// A database that is empty at first and gone at last, and the folder of the servers on it.
pub(crate) struct Place {
    folder: TempDir,
    schema: Option<Schema>,
}

/// One test for each engine out of a story that is told in a place.
macro_rules! on_both {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test]
            fn $test() {
                super::$test(&crate::place::Place::sqlite());
            })+
        }
        mod postgres {
            $(#[test]
            fn $test() {
                super::$test(&crate::place::Place::postgres());
            })+
        }
    };
}
pub(crate) use on_both;

impl Place {
    pub(crate) fn sqlite() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), schema: None }
    }

    pub(crate) fn postgres() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), schema: Some(Schema::create()) }
    }

    /// Starts a server here: the first one, or the next after one that is dead.
    pub(crate) fn start(&self, more: &[&str]) -> Server {
        self.launch(more, |command| command.stderr(Stdio::null()))
    }

    /// Starts one of several servers here, each with a name and a folder of its own, and all with one key. It takes
    /// PostgreSQL.
    pub(crate) fn start_node(&self, name: &str, more: &[&str]) -> Server {
        self.launch_node(name, more, |command| command.stderr(Stdio::null()))
    }

    /// The same, as the caller finishes the command.
    pub(crate) fn launch_node(
        &self,
        name: &str,
        more: &[&str],
        finish: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Server {
        let seal = self.folder.path().join("seal.key");
        self.launch_in(name, &[&["--seal-key-file", seal.to_str().unwrap()], more].concat(), finish)
    }

    /// Starts a server here, as the caller finishes the command.
    pub(crate) fn launch(&self, more: &[&str], finish: impl FnOnce(&mut Command) -> &mut Command) -> Server {
        self.launch_in("data", more, finish)
    }

    fn launch_in(
        &self,
        folder: &str,
        more: &[&str],
        finish: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Server {
        let data = self.folder.path().join(folder);
        let address = self.schema.as_ref().map(Schema::address);
        let database = address.iter().flat_map(|address| ["--database", address]);
        Server::launch(&data, &database.chain(more.iter().copied()).collect::<Vec<_>>(), finish)
    }

    /// Kills a server with -9 and starts another on the same data.
    pub(crate) fn kill_and_restart(&self, mut server: Server) -> Server {
        server.kill();
        self.start(&[])
    }

    pub(crate) fn engine(&self) -> &'static str {
        if self.schema.is_some() { "PostgreSQL" } else { "SQLite" }
    }
}

/// A schema of one test. Dropping it takes it out of the cluster.
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
        assert!(schema.execute(&format!("CREATE SCHEMA {}", schema.name)), "psql makes a schema");
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
    // What the connections of a killed server still hold must not fail a test: then the schema stays, which harms nobody.
    fn drop(&mut self) {
        if !self.execute(&format!("DROP SCHEMA {} CASCADE", self.name)) {
            eprintln!("the schema {} stays behind", self.name);
        }
    }
}
