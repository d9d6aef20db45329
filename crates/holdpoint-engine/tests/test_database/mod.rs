//! The database of a test: a SQLite file in a temporary folder, or a new schema in the PostgreSQL cluster that
//! `HOLDPOINT_TEST_POSTGRES` names. [`on_both`] runs a test on each.

// Several test targets share this file and use different parts of it.
#![allow(dead_code, unused_imports, unused_macros)]

use holdpoint_engine::Location;
use tempfile::TempDir;
use tokio_postgres::NoTls;

/// The database of one test. It is empty at the start and is deleted on drop.
pub(crate) enum TestDatabase {
    Sqlite(TempDir),
    Postgres(Schema),
}

/// The argument type of a test, created from a database.
pub(crate) trait Subject {
    async fn at(database: TestDatabase) -> Self;
}

/// Names the tests of a file that run on both databases, as `sqlite::…` and `postgres::…`.
macro_rules! on_both {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                let database = crate::test_database::TestDatabase::sqlite();
                crate::test_database::run(super::$test, database).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                let database = crate::test_database::TestDatabase::postgres().await;
                crate::test_database::run(super::$test, database).await;
            })+
        }
    };
}
pub(crate) use on_both;

pub(crate) async fn run<S: Subject, F: Future<Output = ()>>(
    test: impl FnOnce(S) -> F,
    database: TestDatabase,
) {
    test(S::at(database).await).await;
}

impl Subject for TestDatabase {
    async fn at(database: TestDatabase) -> Self {
        database
    }
}

impl TestDatabase {
    pub(crate) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) async fn postgres() -> Self {
        Self::Postgres(Schema::create().await)
    }

    /// Creates an empty database of the same kind.
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

    /// Executes SQL on a separate connection, not through the engine. Returns the error message of the database.
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

    /// Reads rows on a separate connection, not through the engine.
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

/// A row: column names, each with its value as text.
pub(crate) type Texts = Vec<(String, Option<String>)>;

/// The PostgreSQL schema of one test. Drop removes it from the cluster.
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

    /// Opens a session in the schema for the test itself.
    pub(crate) async fn session(&self) -> tokio_postgres::Client {
        let (client, connection) = tokio_postgres::connect(&self.cluster, NoTls).await.unwrap();
        // The task ends when the client is dropped.
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
    // Runs on a separate thread because a runtime cannot be entered twice. The lock timeout keeps a connection that an
    // engine left in a transaction from blocking the test; the schema then stays in the cluster.
    fn drop(&mut self) {
        let sql = format!("SET lock_timeout = '2s'; DROP SCHEMA {} CASCADE", self.name);
        let cluster = self.cluster.clone();
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|error| error.to_string())?.block_on(execute(&cluster, &sql))
        });
        if let Ok(Err(error)) = dropping.join() {
            eprintln!("the schema {} is not removed: {error}", self.name);
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

/// Returns the rows of a query.
pub(crate) async fn read(cluster: &str, sql: &str) -> Vec<Texts> {
    let (client, connection) = tokio_postgres::connect(cluster, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let messages = client.simple_query(sql).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
    messages.iter().filter_map(texts).collect()
}

pub(crate) async fn execute(cluster: &str, sql: &str) -> Result<(), String> {
    let message = |error: tokio_postgres::Error| match error.as_db_error() {
        Some(database) => database.to_string(),
        None => error.to_string(),
    };
    let (client, connection) = tokio_postgres::connect(cluster, NoTls).await.map_err(message)?;
    let connection = tokio::spawn(connection);
    let done = client.batch_execute(sql).await.map_err(message);
    drop(client);
    // An error of the connection is already in the result of the statement.
    let _ = connection.await;
    done
}
