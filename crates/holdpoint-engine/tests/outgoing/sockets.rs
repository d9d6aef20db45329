//! That a refusal opens no socket, seen from the other sides: by a listener that nobody comes to, by whoever dials, and
//! by the kernel.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::process::{Command, Output};

use holdpoint_engine::outgoing::{Dialer, Error, Outgoing, Policy, Refused, Resolver, Script, Switchboard};

use crate::addresses::{CLOSED, neighbours, url};
use crate::peer::{Peer, Reply, get, ip};
use crate::spellings::{in_v6, of_v4};

/// Calls over a switchboard that leads nowhere unless a test says so.
fn switched(board: &Switchboard, script: &Script) -> Outgoing {
    let (dialer, resolver) = (Dialer::Switched(board.clone()), Resolver::Scripted(script.clone()));
    Outgoing::new(Policy { dialer, resolver, ..Policy::default() })
}

/// Whether anybody has come, or is still on the way.
fn has_heard(trap: &TcpListener) -> bool {
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
async fn nobody_comes_to_a_listener_on_this_machine_however_it_is_spelt() {
    let (trap, port) = trap();
    let script = Script::default()
        .answer("inside.test", &[ip("127.0.0.1")])
        .answer("mapped.test", &[ip("::ffff:127.0.0.1")])
        .answer("half.test", &[ip("93.184.216.34"), ip("127.0.0.1")]);
    let resolver = Resolver::Scripted(script);
    let outgoing = Outgoing::new(Policy { resolver, ..Policy::default() });
    // All of them reach a listener on 127.0.0.1, if they are called.
    let addresses = [[127, 0, 0, 1], [0, 0, 0, 0]].into_iter();
    let spelt = addresses.flat_map(|address| of_v4(address).into_iter().chain(in_v6(address)));
    let names = ["localhost", "a.localhost", "inside.test", "mapped.test", "half.test"].map(str::to_owned);
    let mut rows = 0;
    for host in spelt.chain(names).chain(["[::1]".to_owned(), "[::]".to_owned()]) {
        for scheme in ["https", "http", "HTTP"] {
            let refused = outgoing.send(get(&format!("{scheme}://{host}:{port}/"))).await;
            assert!(matches!(refused, Err(Error::Refused(_))), "{scheme} {host}: {refused:?}");
            rows += 1;
        }
    }
    assert!(rows > 200, "{rows} rows");
    assert!(!has_heard(&trap));
    let open = Outgoing::new(Policy { allow_loopback: true, ..Policy::default() });
    let request =
        holdpoint_engine::outgoing::Request { timeout_ms: 50, ..get(&format!("http://127.0.0.1:{port}/")) };
    assert!(open.send(request).await.is_err(), "nobody answers there");
    assert!(has_heard(&trap), "and yet it would have been seen");
}

#[tokio::test]
async fn no_line_is_asked_for_to_any_special_address_and_its_neighbours_are_dialled_as_they_are() {
    let (board, script) = (Switchboard::default(), Script::default());
    let outgoing = switched(&board, &script);
    let (mut closed, mut open) = (0, Vec::new());
    for network in CLOSED {
        let (inside, outside) = neighbours(network);
        for address in inside {
            for port in [443, 80, 8080] {
                let url = url(address).replace("/x", &format!(":{port}/x"));
                let refused = outgoing.send(get(&url)).await;
                assert!(
                    matches!(refused, Err(Error::Refused(Refused::Address { .. }))),
                    "{url}: {refused:?}"
                );
                closed += 1;
            }
        }
        open.extend(outside);
    }
    assert!(closed >= 300 && open.len() > 40, "{closed} rows closed, {} open", open.len());
    assert!(board.dials().is_empty(), "no line was asked for");
    for address in &open {
        let failed = outgoing.send(get(&url(*address))).await;
        assert!(matches!(failed, Err(Error::ConnectFailed { .. })), "{address}: {failed:?}");
    }
    let dialled: Vec<SocketAddr> = open.iter().map(|address| SocketAddr::new(*address, 443)).collect();
    assert_eq!(board.dials(), dialled, "and here nothing else was");
    assert_eq!(script.questions(), 0);
}

#[tokio::test]
async fn a_connection_goes_to_what_was_judged_and_not_to_what_the_name_says_next() {
    let public = ip("93.184.216.34");
    for private in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254", "::ffff:10.0.0.1"] {
        let script = Script::default().answer("flip.test", &[public]).answer("flip.test", &[ip(private)]);
        let board = Switchboard::default();
        let outgoing = switched(&board, &script);
        let failed = outgoing.send(get("https://flip.test:8443/")).await;
        assert!(matches!(failed, Err(Error::ConnectFailed { .. })), "{private}: {failed:?}");
        assert_eq!(board.dials(), [SocketAddr::new(public, 8443)], "the first answer, and no other");
        assert_eq!(script.questions(), 1, "one question in a call");
        let refused = outgoing.send(get("https://flip.test:8443/")).await;
        assert!(matches!(refused, Err(Error::Refused(Refused::Address { .. }))), "{private}: {refused:?}");
        assert_eq!(board.dials().len(), 1, "the next call is judged by the next answer");
    }
}

#[tokio::test]
async fn a_switchboard_leads_where_a_test_says_and_nowhere_else() {
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
    let to = |from: &str| Switchboard::default().route(ip(from), peer.address);
    let calling = |board: Switchboard| {
        Outgoing::new(Policy { allow_loopback: true, dialer: Dialer::Switched(board), ..Policy::default() })
    };
    let url = "http://127.0.0.7:9/";
    assert_eq!(calling(to("127.0.0.7")).send(get(url)).await.unwrap().status, 200);
    assert!(calling(to("127.0.0.8")).send(get(url)).await.is_err());
}

/// Runs other tests of this program under `strace`, and returns what they did with sockets of the internet.
fn traced(tests: &[&str]) -> (Output, Vec<String>) {
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
fn the_kernel_is_never_asked_for_a_socket_by_what_is_refused() {
    let refusing = [
        "addresses::no_special_address_is_ever_connected_to",
        "spellings::every_spelling_of_a_closed_address_is_closed",
        "spellings::names_for_the_inside_are_refused_in_every_spelling",
        "spellings::a_url_that_has_to_be_repaired_is_refused",
        "names::a_name_that_was_fine_when_it_was_registered_is_refused_when_it_is_called",
        "names::one_closed_address_closes_the_name_wherever_it_stands",
        "names::plain_http_needs_every_address_to_be_loopback",
    ];
    let (output, sockets) = traced(&refusing);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("7 passed"), "{said}");
    assert_eq!(sockets, Vec::<String>::new());
    let (output, sockets) = traced(&["names::a_dead_address_is_passed_over"]);
    assert!(output.status.success());
    let connects = sockets.iter().filter(|line| line.contains("connect(")).count();
    assert_eq!(connects, 2, "what is not refused is seen: {sockets:#?}");
}

#[test]
fn neighbours_are_next_to_their_network() {
    let (inside, outside) = neighbours("10.0.0.0/8");
    let all = |texts: &[&str]| texts.iter().map(|text| ip(text)).collect::<Vec<IpAddr>>();
    assert_eq!(
        (inside, outside),
        (all(&["10.0.0.0", "10.255.255.255"]), all(&["9.255.255.255", "11.0.0.0"]))
    );
    assert_eq!(neighbours("2001:db8::/32").1.len(), 2);
    let last = neighbours("ff00::/8").1;
    assert!(last.is_empty(), "closed on the one side, and the end of everything on the other: {last:?}");
}
