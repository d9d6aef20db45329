//! Slow and numerous clients: half requests, half bodies, idle connections, clients that do not read. The server stays
//! reachable and closes them.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::{Client, KEY, Server, clear_env, gated};

const WAIT_LIMIT: Duration = Duration::from_secs(30);
const HALF_REQUEST: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n";

/// Starts a server with a limit of open files.
fn start_with_files(files: u32, more: &[&str]) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::launch(&folder.path().join("data"), more, |command| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\"")]);
        shell.arg(command.get_program()).args(command.get_args());
        clear_env(&mut shell).stdout(Stdio::piped()).stderr(Stdio::null());
        *command = shell;
        command
    });
    (server, folder)
}

fn start(more: &[&str]) -> Server {
    Server::start_logging(more, "off").0
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream
}

fn send(server: &Server, text: &str) -> TcpStream {
    let mut stream = connect(server);
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

/// Opens an event stream and waits for the head of its response.
fn open_stream(server: &Server, run: &str) -> TcpStream {
    let head = format!("Host: localhost\r\nAuthorization: Bearer {KEY}\r\nAccept: text/event-stream\r\n");
    let mut stream = send(server, &format!("GET /v1/runs/{run}/events HTTP/1.1\r\n{head}\r\n"));
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    stream
}

/// Waits until the server has closed the connection. Ignores the bytes that it sends before.
fn assert_closed(mut stream: TcpStream) {
    let mut rest = [0; 4096];
    loop {
        match stream.read(&mut rest) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return,
            Err(error) => panic!("the connection stays open: {error}"),
        }
    }
}

fn is_open(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut bytes = [0; 65536];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

/// Asserts that the server responds on a new connection.
fn assert_alive(server: &Server) {
    let client = Client::with_timeout(&server.url, Some(KEY), Duration::from_secs(20));
    assert_eq!(client.get("/healthz").status, 200);
}

fn waiting_run(server: &Server) -> String {
    server.client.put("/v1/workflows/gated", &gated("gated"));
    server.client.start_run("gated")
}

#[test]
fn half_requests_do_not_stop_a_server_with_few_files_and_are_closed() {
    let (server, _folder) = start_with_files(256, &["--header-timeout", "2s"]);
    let mut half = Vec::new();
    for _ in 0..6 {
        half.extend((0..50).map(|_| send(&server, HALF_REQUEST)));
        assert_alive(&server);
    }
    let run = waiting_run(&server);
    assert_eq!(server.client.status(&run), "waiting-approval", "the database has files left");
    half.into_iter().for_each(assert_closed);
    assert_alive(&server);
}

#[test]
fn a_server_that_runs_out_of_files_goes_on_when_there_are_some_again() {
    let more = ["--header-timeout", "1s", "--connections-max", "1000"];
    let (server, _folder) = start_with_files(100, &more);
    let half: Vec<TcpStream> = (0..150).map(|_| send(&server, HALF_REQUEST)).collect();
    assert_alive(&server);
    half.into_iter().for_each(assert_closed);
}

#[test]
fn half_bodies_make_room_for_complete_requests() {
    let server = start(&["--connections-max", "3"]);
    let post = "POST /v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"key\":";
    let half: Vec<TcpStream> = (0..3).map(|_| send(&server, post)).collect();
    for _ in 0..3 {
        assert_alive(&server);
    }
    let mut open = half;
    assert!(open.iter_mut().filter_map(|stream| is_open(stream).then_some(())).count() < 3);
}

#[test]
fn an_address_with_all_its_connections_busy_gets_503_and_another_address_is_served() {
    let server = start(&["--connections-per-address", "3"]);
    let run = waiting_run(&server);
    let streams: Vec<TcpStream> = (0..3).map(|_| open_stream(&server, &run)).collect();
    let mut refused = String::new();
    // A reset may follow the answer.
    let _ = connect(&server).read_to_string(&mut refused);
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("retry-after: 1"), "{refused:?}");
    assert!(refused.ends_with("\r\n\r\nthe server has no connection free\n"), "{refused:?}");
    let mut other = connect_from("127.0.0.2:0", &server);
    other.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    other.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    drop(streams);
    let until = Instant::now() + WAIT_LIMIT;
    while server.client.try_send("GET", "/healthz", None).is_ok_and(|answer| answer.status != 200) {
        assert!(Instant::now() < until, "the connections of closed streams are free again");
    }
}

fn connect_from(address: &str, server: &Server) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(address.parse().unwrap()).unwrap();
        let to = server.url.strip_prefix("http://").unwrap().parse().unwrap();
        socket.connect(to).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream
}

#[test]
fn idle_connections_are_closed_and_streams_and_long_polls_are_not() {
    let server = start(&["--idle-timeout", "1s", "--header-timeout", "1s"]);
    let run = waiting_run(&server);
    let mut stream = open_stream(&server, &run);
    let idle = send(&server, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut next = send(&server, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut answer = [0; 12];
    next.read_exact(&mut answer).unwrap();
    next.write_all(HALF_REQUEST.as_bytes()).unwrap();
    let silent = connect(&server);
    let polled = server.client.get(&format!("/v1/runs/{run}/events/poll?lastSequence=999&timeout=4"));
    assert_eq!(polled.status, 200, "a long poll outlasts all timeouts");
    assert_closed(idle);
    assert_closed(next);
    assert_closed(silent);
    assert!(is_open(&mut stream), "a stream is not idle");
}

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let server = start(&["--write-timeout", "1s"]);
    let mut stream = connect(&server);
    stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let until = Instant::now() + WAIT_LIMIT;
    // The server stops reading when its responses are not taken, and resets the connection when it closes it.
    loop {
        match stream.write(b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n") {
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            _ => assert!(Instant::now() < until, "the connection stays open"),
        }
    }
    assert_alive(&server);
}

#[test]
fn a_head_beyond_the_limit_is_refused() {
    let server = start(&[]);
    let long =
        format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n\r\n", "x".repeat(1_000_000));
    let mut stream = connect(&server);
    // The server may close the connection before it has all of it.
    let _ = stream.write_all(long.as_bytes());
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer:?}");
    assert_alive(&server);
}
