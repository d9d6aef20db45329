//! A rejected call opens no socket. The tests check this with a listener, with a simulated dialer, and with a trace of
//! system calls.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::process::{Command, Output};

use holdpoint_engine::outgoing::{
    Dialer, Error, Outgoing, OutgoingPolicy, OutgoingRefusal, Resolver, ScriptedResolver, Switchboard,
};

use crate::outgoing::addresses::{CLOSED, neighbours, url};
use crate::outgoing::spellings::{in_v6, of_v4};
use crate::peer::{Peer, PeerReply, get, ip};

/// Returns an outgoing client with a simulated dialer, which has no routes by default.
fn switched(board: &Switchboard, script: &ScriptedResolver) -> Outgoing {
    let (dialer, resolver) = (Dialer::Switched(board.clone()), Resolver::Scripted(script.clone()));
    Outgoing::new(OutgoingPolicy { dialer, resolver, ..OutgoingPolicy::default() })
}

/// Returns true if a client has connected.
fn has_connection(trap: &TcpListener) -> bool {
    trap.accept().map(|_| true).unwrap_or_else(|error| {
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}");
        false
    })
}

fn trap() -> (TcpListener, u16) {
    let trap = TcpListener::bind("127.0.0.1:0").unwrap();
    trap.set_nonblocking(true).unwrap();
    let port = trap.local_addr().unwrap().port();
    (trap, port)
}

#[tokio::test]
async fn no_spelling_of_loopback_reaches_a_local_listener() {
    let (trap, port) = trap();
    let script = ScriptedResolver::default()
        .answer("inside.test", &[ip("127.0.0.1")])
        .answer("mapped.test", &[ip("::ffff:127.0.0.1")])
        .answer("half.test", &[ip("93.184.216.34"), ip("127.0.0.1")]);
    let resolver = Resolver::Scripted(script);
    let outgoing = Outgoing::new(OutgoingPolicy { resolver, ..OutgoingPolicy::default() });
    // All these hosts would reach a listener on 127.0.0.1.
    let addresses = [[127, 0, 0, 1], [0, 0, 0, 0]].into_iter();
    let spellings_of_loopback =
        addresses.flat_map(|address| of_v4(address).into_iter().chain(in_v6(address)));
    let names = ["localhost", "a.localhost", "inside.test", "mapped.test", "half.test"].map(str::to_owned);
    let mut rows = 0;
    for host in spellings_of_loopback.chain(names).chain(["[::1]".to_owned(), "[::]".to_owned()]) {
        for scheme in ["https", "http", "HTTP"] {
            let refused = outgoing.send(get(&format!("{scheme}://{host}:{port}/"))).await;
            assert!(matches!(refused, Err(Error::Refused(_))), "{scheme} {host}: {refused:?}");
            rows += 1;
        }
    }
    assert!(rows > 200, "{rows} rows");
    assert!(!has_connection(&trap));
    let open = Outgoing::new(OutgoingPolicy { allow_loopback: true, ..OutgoingPolicy::default() });
    let request = holdpoint_engine::outgoing::OutgoingRequest {
        timeout_ms: 50,
        ..get(&format!("http://127.0.0.1:{port}/"))
    };
    assert!(open.send(request).await.is_err(), "the listener does not respond");
    assert!(has_connection(&trap), "an allowed call reaches the listener");
}

#[tokio::test]
async fn special_purpose_addresses_are_not_dialled_and_addresses_next_to_them_are() {
    let (board, script) = (Switchboard::default(), ScriptedResolver::default());
    let outgoing = switched(&board, &script);
    let (mut closed, mut open) = (0, Vec::new());
    for network in CLOSED {
        let (inside, outside) = neighbours(network);
        for address in inside {
            for port in [443, 80, 8080] {
                let url = url(address).replace("/x", &format!(":{port}/x"));
                let refused = outgoing.send(get(&url)).await;
                assert!(
                    matches!(refused, Err(Error::Refused(OutgoingRefusal::Address { .. }))),
                    "{url}: {refused:?}"
                );
                closed += 1;
            }
        }
        open.extend(outside);
    }
    assert!(closed >= 300 && open.len() > 40, "{closed} rows closed, {} open", open.len());
    assert!(board.dials().is_empty(), "no connection is attempted");
    for address in &open {
        let failed = outgoing.send(get(&url(*address))).await;
        assert!(matches!(failed, Err(Error::ConnectFailed { .. })), "{address}: {failed:?}");
    }
    let dialled: Vec<SocketAddr> = open.iter().map(|address| SocketAddr::new(*address, 443)).collect();
    assert_eq!(board.dials(), dialled, "exactly these addresses are dialled");
    assert_eq!(script.lookups(), 0);
}

#[tokio::test]
async fn a_connection_goes_to_the_checked_address_and_not_to_a_later_answer() {
    let public = ip("93.184.216.34");
    for private in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254", "::ffff:10.0.0.1"] {
        let script =
            ScriptedResolver::default().answer("flip.test", &[public]).answer("flip.test", &[ip(private)]);
        let board = Switchboard::default();
        let outgoing = switched(&board, &script);
        let failed = outgoing.send(get("https://flip.test:8443/")).await;
        assert!(matches!(failed, Err(Error::ConnectFailed { .. })), "{private}: {failed:?}");
        assert_eq!(board.dials(), [SocketAddr::new(public, 8443)], "only the first answer is dialled");
        assert_eq!(script.lookups(), 1, "one lookup for each call");
        let refused = outgoing.send(get("https://flip.test:8443/")).await;
        assert!(
            matches!(refused, Err(Error::Refused(OutgoingRefusal::Address { .. }))),
            "{private}: {refused:?}"
        );
        assert_eq!(board.dials().len(), 1, "the next call checks the next answer");
    }
}

#[tokio::test]
async fn a_switchboard_connects_only_its_routes() {
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    let to = |from: &str| Switchboard::default().route(ip(from), peer.address);
    let client = |board: Switchboard| {
        Outgoing::new(OutgoingPolicy {
            allow_loopback: true,
            dialer: Dialer::Switched(board),
            ..OutgoingPolicy::default()
        })
    };
    let url = "http://127.0.0.7:9/";
    assert_eq!(client(to("127.0.0.7")).send(get(url)).await.unwrap().status, 200);
    assert!(client(to("127.0.0.8")).send(get(url)).await.is_err());
}

/// Runs other tests of this program under `strace`. Returns their system calls on internet sockets.
fn run_traced(tests: &[&str]) -> (Output, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-e", "trace=socket,connect,sendto,sendmsg", "-o"]).arg(&trace);
    strace.arg(std::env::current_exe().unwrap()).args(tests).args(["--exact", "--test-threads=1"]);
    let output = strace.output().unwrap();
    let seen = std::fs::read_to_string(&trace).unwrap();
    let internet = seen.lines().filter(|line| line.contains("AF_INET")).map(str::to_owned).collect();
    (output, internet)
}

#[test]
fn rejected_calls_open_no_socket() {
    let tests = [
        "outgoing::addresses::no_special_purpose_address_is_connected_to",
        "outgoing::spellings::every_spelling_of_a_private_address_is_rejected",
        "outgoing::spellings::internal_names_are_rejected_in_every_spelling",
        "outgoing::spellings::an_invalid_url_is_rejected",
        "outgoing::names::a_name_that_resolves_to_a_private_address_after_registration_is_rejected",
        "outgoing::names::one_private_address_rejects_the_name_at_any_position",
        "outgoing::names::plain_http_needs_every_address_to_be_loopback",
    ];
    let (output, sockets) = run_traced(&tests);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && stdout.contains("7 passed"), "{stdout}");
    assert_eq!(sockets, Vec::<String>::new());
    let (output, sockets) = run_traced(&["outgoing::names::an_unreachable_address_is_skipped"]);
    assert!(output.status.success());
    let connects = sockets.iter().filter(|line| line.contains("connect(")).count();
    assert_eq!(connects, 2, "the trace shows allowed connections: {sockets:#?}");
}

#[test]
fn neighbours_are_adjacent_to_their_network() {
    let (inside, outside) = neighbours("10.0.0.0/8");
    let all = |texts: &[&str]| texts.iter().map(|text| ip(text)).collect::<Vec<IpAddr>>();
    assert_eq!(
        (inside, outside),
        (all(&["10.0.0.0", "10.255.255.255"]), all(&["9.255.255.255", "11.0.0.0"]))
    );
    assert_eq!(neighbours("2001:db8::/32").1.len(), 2);
    let last = neighbours("ff00::/8").1;
    assert!(last.is_empty(), "one neighbour is not public, and the other does not exist: {last:?}");
}
