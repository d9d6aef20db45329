//! Tests of error messages. A fake server responds with each error in the protocol of PostgreSQL, so that no real
//! server must be brought into these states.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::store::Error;
use crate::store::postgres::address::PostgresSettings;
use crate::store::postgres::{connect, errors};

#[tokio::test]
async fn the_message_of_a_rejected_connection_says_what_to_do() {
    for (code, advice) in [
        ("28P01", "check the user and the password"),
        ("28000", "pg_hba.conf"),
        ("3D000", "database flows does not exist; create it: createdb flows"),
        ("42501", "GRANT CONNECT"),
        ("25006", "target_session_attrs=read-write"),
        ("42704", "a translated message (code 42704)"),
    ] {
        let error = connecting(&error_response(code)).await;
        let Error::Connect { place, message } = &error else { panic!("{code}: {error:?}") };
        assert!(message.contains(advice), "{code}: {error}");
        assert!(place.starts_with("127.0.0.1:") && place.ends_with("/flows"), "{error}");
    }
}

#[tokio::test]
async fn a_transient_rejection_is_reported_as_unavailable() {
    for (code, advice) in [
        ("53300", "this process needs 10 connections; raise max_connections"),
        ("57P03", "is starting or stopping"),
        ("57P01", "a translated message"),
        ("08P01", "a translated message"),
    ] {
        let error = connecting(&error_response(code)).await;
        assert!(
            matches!(&error, Error::Unavailable(message) if message.contains(advice)),
            "{code}: {error:?}"
        );
    }
}

#[tokio::test]
async fn an_unreachable_server_is_unavailable() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = connect_to(&format!("postgres://ann@{gone}/flows")).await;
    let expected = format!("cannot reach PostgreSQL at {gone}/flows: ");
    assert!(matches!(&error, Error::Unavailable(message) if message.starts_with(&expected)), "{error:?}");
    assert!(error.to_string().contains("check that it runs and that the address is right"), "{error}");
}

#[tokio::test]
async fn a_server_that_closes_the_connection_is_unavailable() {
    let error = connecting(&[]).await;
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
}

#[tokio::test]
async fn a_connection_attempt_times_out_if_the_server_does_not_respond() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let settings =
        PostgresSettings::parse(&format!("postgres://ann@{address}/flows?connect_timeout=1")).unwrap();
    let error = connect::connect(&settings, None).await.expect_err("no server responds");
    assert!(error.to_string().contains("did not answer in time"), "{error}");
}

#[tokio::test]
async fn required_tls_that_the_server_does_not_offer_is_an_error() {
    let server = fake_server(vec![b"N".to_vec()]);
    let error = connect_to(&format!("postgres://ann@{server}/flows?sslmode=require")).await;
    assert!(
        matches!(&error, Error::Connect { message, .. } if message.contains("offers no TLS")),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_missing_password_is_reported() {
    let cleartext = [&b"R"[..], &8_i32.to_be_bytes(), &3_i32.to_be_bytes()].concat();
    let error = connecting(&cleartext).await;
    assert!(
        matches!(&error, Error::Connect { message, .. } if message.contains("has no password")),
        "{error:?}"
    );
}

#[tokio::test]
async fn errors_of_statements_are_unavailable_busy_or_failed() {
    for code in ["57P01", "57P02", "57P03", "08006", "53300", "25006", "25P03"] {
        let error = running(error_response(code)).await;
        assert!(matches!(error, Error::Unavailable(_)), "{code}: {error:?}");
    }
    for code in ["40P01", "40001", "55P03"] {
        let error = running(error_response(code)).await;
        assert!(matches!(error, Error::Busy), "{code}: {error:?}");
    }
    let error = running(error_response("42P01")).await;
    assert!(matches!(&error, Error::Failed(message) if message.ends_with("(code 42P01)")), "{error:?}");
    let error = running(Vec::new()).await;
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
}

/// Returns the error of a connection to a server without TLS that sends `answer` after the startup message.
async fn connecting(answer: &[u8]) -> Error {
    let server = fake_server(vec![b"N".to_vec(), answer.to_vec()]);
    connect_to(&format!("postgres://ann@{server}/flows")).await
}

async fn connect_to(url: &str) -> Error {
    let settings = PostgresSettings::parse(url).unwrap();
    connect::connect(&settings, None).await.expect_err("this server rejects all connections")
}

/// Returns the error of a statement to which the server responds with `answer`.
async fn running(answer: Vec<u8>) -> Error {
    let welcome =
        [&b"R"[..], &8_i32.to_be_bytes(), &0_i32.to_be_bytes(), b"Z", &5_i32.to_be_bytes(), b"I"].concat();
    let server = fake_server(vec![welcome, answer]);
    let url = format!("postgres://ann@{server}/flows?sslmode=disable&pooler=transaction");
    let client = connect::connect(&PostgresSettings::parse(&url).unwrap(), None)
        .await
        .expect("the server accepts the connection");
    errors::statement_error(&client.simple_query("SELECT 1").await.expect_err("the statement fails"))
}

/// Starts a server for one connection. It sends the next answer after each message of the client, and then closes the
/// connection.
fn fake_server(answers: Vec<Vec<u8>>) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        for answer in answers {
            read_some(&mut client);
            client.write_all(&answer).unwrap();
        }
    });
    address
}

fn read_some(client: &mut TcpStream) {
    let read = client.read(&mut [0; 4096]).unwrap();
    assert_ne!(read, 0, "the client closed the connection");
}

fn error_response(code: &str) -> Vec<u8> {
    let mut fields = Vec::new();
    for (kind, text) in [(b'S', "FATAL"), (b'V', "FATAL"), (b'C', code), (b'M', "a translated message")] {
        fields.push(kind);
        fields.extend(text.as_bytes());
        fields.push(0);
    }
    fields.push(0);
    let length = i32::try_from(fields.len() + 4).unwrap();
    [&b"E"[..], &length.to_be_bytes(), &fields].concat()
}
