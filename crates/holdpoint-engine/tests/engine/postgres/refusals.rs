//! Opening an engine on an unusable database fails with a message that says what to change.

use std::net::TcpListener;

use holdpoint_engine::{Engine, Location, Options, StoreError};
use tokio_postgres::NoTls;

use crate::postgres::cluster::Cluster;
use crate::postgres::server::{address, begin, needs_change, open, open_error, unavailable, whole_run};
use crate::test_database::TestDatabase;

const SECRET: &str = "open-sesame";

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_server_is_reported_as_unavailable() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("postgres://keeper:{SECRET}@127.0.0.1:{closed}/holdpoint");
    let message =
        unavailable(&url, &format!("cannot reach PostgreSQL at 127.0.0.1:{closed}/holdpoint")).await;
    assert!(message.contains("check that it runs and that the address is right"), "{message}");
    assert!(!message.contains(SECRET), "{message}");

    let nowhere = format!("postgres://keeper:{SECRET}@nowhere.invalid/holdpoint");
    let message = unavailable(&nowhere, "cannot reach PostgreSQL at nowhere.invalid:5432/holdpoint").await;
    assert!(!message.contains(SECRET), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_database_schema_user_or_tls_is_named_in_the_error() {
    let database = TestDatabase::postgres().await;
    needs_change(
        &address(&database, "dbname=no_such_database"),
        "database no_such_database does not exist; create it: createdb no_such_database",
    )
    .await;
    needs_change(
        &address(&database, "schema=no_such_schema"),
        "the schema no_such_schema does not exist; create it: CREATE SCHEMA \"no_such_schema\"",
    )
    .await;
    needs_change(
        &address(&database, "sslmode=require"),
        "the server offers no TLS, but the address requires it",
    )
    .await;
    needs_change(&address(&database, "user=no_such_user"), "check that the user exists").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_address_is_rejected_and_its_password_is_not_shown() {
    let base = format!("postgres://keeper:{SECRET}@127.0.0.1:1/holdpoint");
    for (url, words) in [
        (format!("{base}?colour=red"), "unknown parameter `colour`"),
        (
            format!("{base}?sslmode=maybe"),
            "`sslmode` must be one of disable, prefer, require, verify-ca, verify-full",
        ),
        (format!("{base}?connections=3"), "`connections` must be a number from 4 to 200"),
        (format!("mysql://keeper:{SECRET}@127.0.0.1/holdpoint"), "must start with postgres://"),
        (format!("postgres://keeper:{SECRET}@more@127.0.0.1/holdpoint"), "more than one `@`"),
        (format!("{base}?sslmode=verify-ca&sslrootcert=/nowhere.pem"), "cannot read /nowhere.pem"),
    ] {
        let options = Options::new(Location::Postgres(url.clone())).manual_worker();
        assert!(!format!("{options:?}").contains(SECRET), "{options:?}");
        let error = open_error(&url).await;
        let StoreError::Address(message) = &error else { panic!("{error:?}") };
        assert!(message.contains(words), "{message}");
        let shown = format!("{error} {error:?} {:?}", Engine::open(options).await.unwrap_err());
        assert!(!shown.contains(SECRET), "{shown}");
    }
}

/// Leaves five connections for users that are not superusers.
const SMALL: &str = "max_connections = 8\nsuperuser_reserved_connections = 3";
const USERS: &str = "CREATE ROLE keeper LOGIN PASSWORD 'open-sesame'; GRANT CREATE ON SCHEMA public TO keeper; \
                     CREATE ROLE guest LOGIN PASSWORD 'open-sesame'; CREATE ROLE reader LOGIN PASSWORD 'open-sesame'; \
                     ALTER ROLE reader SET default_transaction_read_only = on";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_too_few_rights_or_connections_is_rejected_with_the_reason() {
    let cluster = Cluster::start();
    cluster.configure(SMALL, "host all all 127.0.0.1/32 scram-sha-256");
    cluster.execute(USERS).await;
    cluster.execute("CREATE DATABASE closed").await;
    cluster.execute("REVOKE CONNECT ON DATABASE closed FROM PUBLIC").await;
    let as_user = |user: &str, parameters: &str| {
        format!("postgres://{user}:{SECRET}@127.0.0.1:{}/postgres?{parameters}", cluster.port)
    };

    let wrong = format!("postgres://keeper:wrong-guess@127.0.0.1:{}/postgres", cluster.port);
    let message = needs_change(&wrong, "check the user and the password in the address").await;
    assert!(!message.contains("wrong-guess"), "{message}");
    let message = needs_change(&as_user("reader", "connections=4"), "the server is read-only").await;
    assert!(
        message.contains("turn off default_transaction_read_only") && !message.contains(SECRET),
        "{message}"
    );
    let message = needs_change(&as_user("guest", "connections=4"), "GRANT CREATE, USAGE ON SCHEMA").await;
    assert!(!message.contains(SECRET), "{message}");
    needs_change(&as_user("keeper", "dbname=closed"), "GRANT CONNECT ON DATABASE").await;
    needs_change(
        &as_user("keeper", ""),
        "this process needs 10 connections, but max_connections leaves 5 in all",
    )
    .await;
    let engine = open(&as_user("keeper", "connections=5&notify=off")).await;
    whole_run(&engine).await;
    let theirs = format!("postgres://keeper:{SECRET}@127.0.0.1:{}/postgres", cluster.port);
    an_open_engine_waits_for_a_free_connection(
        &cluster,
        &engine,
        &as_user("keeper", "connections=4"),
        &theirs,
    )
    .await;

    cluster.execute("ALTER SYSTEM SET default_transaction_read_only = on").await;
    cluster.restart();
    needs_change(&as_user("keeper", "connections=4"), "the server is read-only").await;
}

/// Takes all connections of the server. Opening an engine fails; an engine that is already open waits and continues
/// when connections are free again.
async fn an_open_engine_waits_for_a_free_connection(
    cluster: &Cluster,
    engine: &Engine,
    ours: &str,
    theirs: &str,
) {
    cluster
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdpoint'",
        )
        .await;
    let mut clients = Vec::new();
    let full = loop {
        match tokio_postgres::connect(theirs, NoTls).await {
            Ok((client, connection)) => clients.push((client, tokio::spawn(connection))),
            Err(error) if clients.len() == 5 => break error,
            // The terminated connections of the engine are still closing.
            Err(_) => tokio::task::yield_now().await,
        }
    };
    assert_eq!(full.code(), Some(&tokio_postgres::error::SqlState::TOO_MANY_CONNECTIONS), "{full}");
    let engine = engine.clone();
    let waiting = tokio::spawn(async move { begin(&engine).await });
    let message =
        unavailable(ours, "this process needs 4 connections; raise max_connections, or lower").await;
    assert!(!message.contains(SECRET), "{message}");
    for (client, connection) in clients {
        drop(client);
        connection.await.unwrap().unwrap();
    }
    waiting.await.unwrap();
}
