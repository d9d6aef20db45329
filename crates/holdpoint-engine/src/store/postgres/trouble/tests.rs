//! What is said about trouble. A listener of our own answers in PostgreSQL's protocol with the error in question, so
//! no server has to be brought into each of these states.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::store::Error;
use crate::store::postgres::address::Settings;
use crate::store::postgres::{connect, trouble};

#[tokio::test]
async fn every_refusal_says_what_to_do() {
    for (code, advice) in [
        ("28P01", "check the user and the password"),
        ("28000", "pg_hba.conf"),
        ("3D000", "there is no database flows; make it: createdb flows"),
        ("42501", "GRANT CONNECT"),
        ("25006", "target_session_attrs=read-write"),
        ("42704", "said in the server's tongue (code 42704)"),
    ] {
        let error = connecting(&error_response(code)).await;
        let Error::Connect { place, message } = &error else { panic!("{code}: {error:?}") };
        assert!(message.contains(advice), "{code}: {error}");
        assert!(place.starts_with("127.0.0.1:") && place.ends_with("/flows"), "{error}");
    }
}

#[tokio::test]
async fn a_refusal_that_passes_is_told_apart() {
    for (code, advice) in [
        ("53300", "this node wants 10 connections; raise max_connections"),
        ("57P03", "is starting or stopping"),
        ("57P01", "said in the server's tongue"),
        ("08P01", "said in the server's tongue"),
    ] {
        let error = connecting(&error_response(code)).await;
        assert!(
            matches!(&error, Error::Unavailable(message) if message.contains(advice)),
            "{code}: {error:?}"
        );
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_not_available() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = connect_to(&format!("postgres://ann@{gone}/flows")).await;
    let expected = format!("cannot reach PostgreSQL at {gone}/flows: ");
    assert!(matches!(&error, Error::Unavailable(message) if message.starts_with(&expected)), "{error:?}");
    assert!(error.to_string().contains("is it running, and is the address right?"), "{error}");
}

#[tokio::test]
async fn a_server_that_hangs_up_is_not_available() {
    let error = connecting(&[]).await;
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let settings = Settings::parse(&format!("postgres://ann@{address}/flows?connect_timeout=1")).unwrap();
    let error = connect::connect(&settings, None).await.expect_err("nobody answers");
    assert!(error.to_string().contains("did not answer in time"), "{error}");
}

#[tokio::test]
async fn tls_that_the_server_does_not_offer_is_not_given_up_silently() {
    let server = answering(vec![b"N".to_vec()]);
    let error = connect_to(&format!("postgres://ann@{server}/flows?sslmode=require")).await;
    assert!(
        matches!(&error, Error::Connect { message, .. } if message.contains("offers no TLS")),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_password_that_is_missing_is_asked_for() {
    let cleartext = [&b"R"[..], &8_i32.to_be_bytes(), &3_i32.to_be_bytes()].concat();
    let error = connecting(&cleartext).await;
    assert!(
        matches!(&error, Error::Connect { message, .. } if message.contains("has no password")),
        "{error:?}"
    );
}

#[tokio::test]
async fn statements_fail_in_three_ways() {
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

/// The error of a connection to a server that has no TLS and answers like this to the name of the user.
async fn connecting(answer: &[u8]) -> Error {
    let server = answering(vec![b"N".to_vec(), answer.to_vec()]);
    connect_to(&format!("postgres://ann@{server}/flows")).await
}

async fn connect_to(url: &str) -> Error {
    let settings = Settings::parse(url).unwrap();
    connect::connect(&settings, None).await.expect_err("this server lets nobody in")
}

/// The error of a statement that is answered like this.
async fn running(answer: Vec<u8>) -> Error {
    let welcome =
        [&b"R"[..], &8_i32.to_be_bytes(), &0_i32.to_be_bytes(), b"Z", &5_i32.to_be_bytes(), b"I"].concat();
    let server = answering(vec![welcome, answer]);
    let url = format!("postgres://ann@{server}/flows?sslmode=disable&pooler=transaction");
    let client = connect::connect(&Settings::parse(&url).unwrap(), None).await.expect("everybody is welcome");
    trouble::running(&client.simple_query("SELECT 1").await.expect_err("the statement fails"))
}

/// A server for one connection: to each message of the client its next answer. After the last it hangs up.
fn answering(answers: Vec<Vec<u8>>) -> std::net::SocketAddr {
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
    assert_ne!(read, 0, "the client hung up");
}

fn error_response(code: &str) -> Vec<u8> {
    let mut fields = Vec::new();
    for (kind, text) in
        [(b'S', "FATAL"), (b'V', "FATAL"), (b'C', code), (b'M', "said in the server's tongue")]
    {
        fields.push(kind);
        fields.extend(text.as_bytes());
        fields.push(0);
    }
    fields.push(0);
    let length = i32::try_from(fields.len() + 4).unwrap();
    [&b"E"[..], &length.to_be_bytes(), &fields].concat()
}
