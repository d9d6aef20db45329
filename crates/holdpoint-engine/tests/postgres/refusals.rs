//! A database that cannot be used is refused when it is opened, with the words that help.

use std::net::TcpListener;

use holdpoint_engine::{Engine, Location, Options, StoreError};
use tokio_postgres::NoTls;

use crate::cluster::Cluster;
use crate::place::Place;
use crate::server::{address, begin, needs_change, open, refused, unavailable, whole_run};

const SECRET: &str = "open-sesame";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_not_available() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("postgres://keeper:{SECRET}@127.0.0.1:{closed}/holdpoint");
    let said = unavailable(&url, &format!("cannot reach PostgreSQL at 127.0.0.1:{closed}/holdpoint")).await;
    assert!(said.contains("is it running, and is the address right?"), "{said}");
    assert!(!said.contains(SECRET), "{said}");

    let nowhere = format!("postgres://keeper:{SECRET}@nowhere.invalid/holdpoint");
    let said = unavailable(&nowhere, "cannot reach PostgreSQL at nowhere.invalid:5432/holdpoint").await;
    assert!(!said.contains(SECRET), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_in_a_server_is_named() {
    let place = Place::postgres().await;
    needs_change(
        &address(&place, "dbname=no_such_database"),
        "there is no database no_such_database; make it: createdb no_such_database",
    )
    .await;
    needs_change(
        &address(&place, "schema=no_such_schema"),
        "the schema no_such_schema does not exist; make it: CREATE SCHEMA \"no_such_schema\"",
    )
    .await;
    needs_change(&address(&place, "sslmode=require"), "it offers no TLS, but the address requires it").await;
    needs_change(&address(&place, "user=no_such_user"), "check that the user exists").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_cannot_be_meant_is_refused_without_its_password() {
    let base = format!("postgres://keeper:{SECRET}@127.0.0.1:1/holdpoint");
    for (url, words) in [
        (format!("{base}?colour=red"), "the parameter `colour` is unknown"),
        (
            format!("{base}?sslmode=maybe"),
            "`sslmode` is one of disable, prefer, require, verify-ca, verify-full",
        ),
        (format!("{base}?connections=3"), "`connections` is a number from 4 to 200"),
        (format!("mysql://keeper:{SECRET}@127.0.0.1/holdpoint"), "it must begin with postgres://"),
        (format!("postgres://keeper:{SECRET}@more@127.0.0.1/holdpoint"), "more than one `@`"),
        (format!("{base}?sslmode=verify-ca&sslrootcert=/nowhere.pem"), "cannot read /nowhere.pem"),
    ] {
        let options = Options::new(Location::Postgres(url.clone()));
        assert!(!format!("{options:?}").contains(SECRET), "{options:?}");
        let error = refused(&url).await;
        let StoreError::Address(message) = &error else { panic!("{error:?}") };
        assert!(message.contains(words), "{message}");
        let shown = format!("{error} {error:?} {:?}", Engine::open(options).await.unwrap_err());
        assert!(!shown.contains(SECRET), "{shown}");
    }
}

/// Five connections are left for users that are no administrators.
const SMALL: &str = "max_connections = 8\nsuperuser_reserved_connections = 3";
const USERS: &str = "CREATE ROLE keeper LOGIN PASSWORD 'open-sesame'; GRANT CREATE ON SCHEMA public TO keeper; \
                     CREATE ROLE guest LOGIN PASSWORD 'open-sesame'; CREATE ROLE reader LOGIN PASSWORD 'open-sesame'; \
                     ALTER ROLE reader SET default_transaction_read_only = on";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_gives_too_little_says_what_is_missing() {
    let cluster = Cluster::start();
    cluster.configure(SMALL, "host all all 127.0.0.1/32 scram-sha-256");
    cluster.execute(USERS).await;
    cluster.execute("CREATE DATABASE closed").await;
    cluster.execute("REVOKE CONNECT ON DATABASE closed FROM PUBLIC").await;
    let as_user = |user: &str, parameters: &str| {
        format!("postgres://{user}:{SECRET}@127.0.0.1:{}/postgres?{parameters}", cluster.port)
    };

    let wrong = format!("postgres://keeper:wrong-guess@127.0.0.1:{}/postgres", cluster.port);
    let said = needs_change(&wrong, "check the user and the password in the address").await;
    assert!(!said.contains("wrong-guess"), "{said}");
    let said = needs_change(&as_user("reader", "connections=4"), "it takes no writes").await;
    assert!(said.contains("turn off default_transaction_read_only") && !said.contains(SECRET), "{said}");
    let said = needs_change(&as_user("guest", "connections=4"), "GRANT CREATE, USAGE ON SCHEMA").await;
    assert!(!said.contains(SECRET), "{said}");
    needs_change(&as_user("keeper", "dbname=closed"), "GRANT CONNECT ON DATABASE").await;
    needs_change(
        &as_user("keeper", ""),
        "this node wants 10 connections, but max_connections leaves 5 in all",
    )
    .await;
    let engine = open(&as_user("keeper", "connections=5&notify=off")).await;
    whole_run(&engine).await;
    let theirs = format!("postgres://keeper:{SECRET}@127.0.0.1:{}/postgres", cluster.port);
    a_full_server_is_waited_for(&cluster, &engine, &as_user("keeper", "connections=4"), &theirs).await;

    cluster.execute("ALTER SYSTEM SET default_transaction_read_only = on").await;
    cluster.restart();
    needs_change(&as_user("keeper", "connections=4"), "it takes no writes").await;
}

/// Others take every connection that there is. Whoever wants to open an engine is told so; one that is open waits, and
/// goes on when they have left.
async fn a_full_server_is_waited_for(cluster: &Cluster, engine: &Engine, ours: &str, theirs: &str) {
    cluster
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holdpoint'",
        )
        .await;
    let mut guests = Vec::new();
    let full = loop {
        match tokio_postgres::connect(theirs, NoTls).await {
            Ok((client, connection)) => guests.push((client, tokio::spawn(connection))),
            Err(error) if guests.len() == 5 => break error,
            // What the engine had is on its way out.
            Err(_) => tokio::task::yield_now().await,
        }
    };
    assert_eq!(full.code(), Some(&tokio_postgres::error::SqlState::TOO_MANY_CONNECTIONS), "{full}");
    let engine = engine.clone();
    let waiting = tokio::spawn(async move { begin(&engine).await });
    let said = unavailable(ours, "this node wants 4 connections; raise max_connections, or lower").await;
    assert!(!said.contains(SECRET), "{said}");
    for (client, connection) in guests {
        drop(client);
        connection.await.unwrap().unwrap();
    }
    waiting.await.unwrap();
}
