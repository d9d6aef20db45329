//! Where an engine keeps its data in a test: a SQLite file in a temporary folder, or a schema of its own in the
//! PostgreSQL cluster that `HOLDPOINT_TEST_POSTGRES` names. [`on_both`] runs a test on each.

// Several test targets share this file, and not each of them needs all of it.
#![allow(dead_code, unused_imports, unused_macros)]

use holdpoint_engine::Location;
use tempfile::TempDir;
use tokio_postgres::NoTls;

/// A database that is empty at first and gone at last.
pub(crate) enum Place {
    Sqlite(TempDir),
    Postgres(Schema),
}

/// What a test asks for as its argument, made in a place.
pub(crate) trait Subject {
    async fn at(place: Place) -> Self;
}

/// Names the tests of a file that run on both databases, as `sqlite::…` and `postgres::…`.
macro_rules! on_both {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                crate::place::run(super::$test, crate::place::Place::sqlite()).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                crate::place::run(super::$test, crate::place::Place::postgres().await).await;
            })+
        }
    };
}
pub(crate) use on_both;

pub(crate) async fn run<S: Subject, F: Future<Output = ()>>(test: impl FnOnce(S) -> F, place: Place) {
    test(S::at(place).await).await;
}

impl Subject for Place {
    async fn at(place: Place) -> Self {
        place
    }
}

impl Place {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) async fn postgres() -> Self {
        Self::Postgres(Schema::create().await)
    }

    /// A new place in the same kind of database.
    pub(crate) async fn another(&self) -> Self {
        match self {
            Self::Sqlite(_) => Self::sqlite(),
            Self::Postgres(_) => Self::postgres().await,
        }
    }

    pub(crate) fn location(&self) -> Location {
        match self {
            Self::Sqlite(folder) => Location::Sqlite(folder.path().join("holdpoint.db")),
            Self::Postgres(schema) => Location::Postgres(schema.url()),
        }
    }

    /// Runs SQL behind the engine's back. An error is what the database said.
    pub(crate) async fn execute(&self, sql: &str) -> Result<(), String> {
        match self.location() {
            Location::Sqlite(path) => {
                let db = rusqlite::Connection::open(path).unwrap();
                db.execute_batch(sql).map_err(|error| error.to_string())
            }
            Location::Postgres(_) => {
                let Self::Postgres(schema) = self else { unreachable!("a schema is in PostgreSQL") };
                execute(&schema.cluster, &format!("SET search_path TO {}; {sql}", schema.name)).await
            }
        }
    }

    /// Reads rows behind the engine's back.
    pub(crate) async fn read(&self, sql: &str) -> Vec<Texts> {
        match self {
            Self::Sqlite(folder) => {
                let db = rusqlite::Connection::open(folder.path().join("holdpoint.db")).unwrap();
                let mut statement = db.prepare(sql).unwrap();
                let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
                let value = |row: &rusqlite::Row<'_>, at| -> rusqlite::Result<Option<String>> {
                    match row.get_ref(at)? {
                        rusqlite::types::ValueRef::Null => Ok(None),
                        rusqlite::types::ValueRef::Integer(number) => Ok(Some(number.to_string())),
                        other => Ok(Some(other.as_str()?.to_owned())),
                    }
                };
                let texts = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Texts> {
                    names.iter().enumerate().map(|(at, name)| Ok((name.clone(), value(row, at)?))).collect()
                };
                statement.query_map([], texts).unwrap().collect::<Result<_, _>>().unwrap()
            }
            Self::Postgres(schema) => {
                read(&schema.cluster, &format!("SET search_path TO {}; {sql}", schema.name)).await
            }
        }
    }
}

/// A row as names of columns and what the database writes for their values.
pub(crate) type Texts = Vec<(String, Option<String>)>;

/// A schema of one test. Dropping it takes it out of the cluster.
pub(crate) struct Schema {
    cluster: String,
    name: String,
}

impl Schema {
    async fn create() -> Self {
        let cluster = std::env::var("HOLDPOINT_TEST_POSTGRES").expect(
            "HOLDPOINT_TEST_POSTGRES must name a PostgreSQL cluster: run scripts/check, \
             or `eval \"$(scripts/postgres start)\"`",
        );
        let name = format!("t_{}", uuid::Uuid::now_v7().simple());
        execute(&cluster, &format!("CREATE SCHEMA {name}")).await.unwrap();
        Self { cluster, name }
    }

    /// A session of the test's own in the schema.
    pub(crate) async fn session(&self) -> tokio_postgres::Client {
        let (client, connection) = tokio_postgres::connect(&self.cluster, NoTls).await.unwrap();
        // It ends with its client.
        tokio::spawn(connection);
        client.batch_execute(&format!("SET search_path TO {}", self.name)).await.unwrap();
        client
    }

    fn url(&self) -> String {
        let joint = if self.cluster.contains('?') { '&' } else { '?' };
        format!("{}{joint}schema={}", self.cluster, self.name)
    }
}

impl Drop for Schema {
    // On a thread of its own, because a runtime cannot be entered twice. A connection that an engine left behind in
    // a transaction must not hold up the test: then the schema stays, which harms nobody.
    fn drop(&mut self) {
        let sql = format!("SET lock_timeout = '2s'; DROP SCHEMA {} CASCADE", self.name);
        let cluster = self.cluster.clone();
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|error| error.to_string())?.block_on(execute(&cluster, &sql))
        });
        if let Ok(Err(error)) = dropping.join() {
            eprintln!("the schema {} stays behind: {error}", self.name);
        }
    }
}

fn texts(message: &tokio_postgres::SimpleQueryMessage) -> Option<Texts> {
    let tokio_postgres::SimpleQueryMessage::Row(row) = message else { return None };
    let column = |(at, column): (usize, &tokio_postgres::SimpleColumn)| {
        (column.name().to_owned(), row.get(at).map(str::to_owned))
    };
    Some(row.columns().iter().enumerate().map(column).collect())
}

/// The rows that a database returns.
pub(crate) async fn read(cluster: &str, sql: &str) -> Vec<Texts> {
    let (client, connection) = tokio_postgres::connect(cluster, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let messages = client.simple_query(sql).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
    messages.iter().filter_map(texts).collect()
}

pub(crate) async fn execute(cluster: &str, sql: &str) -> Result<(), String> {
    let words = |error: tokio_postgres::Error| match error.as_db_error() {
        Some(said) => said.to_string(),
        None => error.to_string(),
    };
    let (client, connection) = tokio_postgres::connect(cluster, NoTls).await.map_err(words)?;
    let connection = tokio::spawn(connection);
    let done = client.batch_execute(sql).await.map_err(words);
    drop(client);
    // What the connection itself has to say, the statement has said.
    let _ = connection.await;
    done
}
