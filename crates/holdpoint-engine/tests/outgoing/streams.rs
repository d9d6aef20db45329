//! Answers that are read as they come: the same guard and limits, and a limit for silence besides.

use std::sync::Arc;
use std::time::Duration;

use holdpoint_engine::outgoing::{Error, Outgoing, Policy, Refused, Request, Resolver, Script, Stage};
use tokio::sync::Notify;

use crate::peer::{Peer, Reply, get, ip, scripted};

const LONG: Duration = Duration::from_secs(20);
const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n";

fn open() -> Outgoing {
    scripted(&Script::default(), true)
}

#[tokio::test]
async fn pieces_come_before_the_answer_has_ended() {
    let peer = Peer::saying([Reply::Hang(format!("{HEAD}first"))]).await;
    let mut answer = open().stream(get(&peer.url("/")), LONG).await.unwrap();
    assert_eq!(answer.status, 200);
    assert!(answer.headers.contains(&("content-type".to_owned(), "text/plain".to_owned())));
    assert_eq!(answer.body.next().await.unwrap().unwrap(), "first", "though the other side never ends");
}

#[tokio::test]
async fn an_answer_that_ends_says_so() {
    let peer = Peer::saying([Reply::Say(format!("{HEAD}all"))]).await;
    let mut answer = open().stream(get(&peer.url("/")), LONG).await.unwrap();
    assert_eq!(answer.body.read().await.unwrap(), b"all");
    assert_eq!(answer.body.next().await.unwrap(), None);
}

#[tokio::test]
async fn silence_has_a_limit_and_so_has_the_whole() {
    let peer = Peer::saying([Reply::Hang(format!("{HEAD}first"))]).await;
    for (timeout_ms, idle_ms, told) in [(20_000, 300, 300), (400, 20_000, 400)] {
        let request = Request { timeout_ms, ..get(&peer.url("/?key=secret")) };
        let mut answer = open().stream(request, Duration::from_millis(idle_ms)).await.unwrap();
        assert_eq!(answer.body.next().await.unwrap().unwrap(), "first");
        let failed = answer.body.next().await.unwrap_err();
        let origin = format!("http://{}", peer.address);
        assert_eq!(failed, Error::TimedOut { origin, timeout_ms: told, during: Stage::Body });
    }
}

#[tokio::test]
async fn whoever_never_answers_is_given_up_with_the_whole_call() {
    let peer = Peer::saying([Reply::Hang(String::new())]).await;
    let request = Request { timeout_ms: 300, ..get(&peer.url("/")) };
    let failed = open().stream(request, LONG).await.unwrap_err();
    assert!(matches!(failed, Error::TimedOut { timeout_ms: 300, during: Stage::Answer, .. }), "{failed:?}");
}

#[tokio::test]
async fn bytes_are_counted_over_all_pieces() {
    let peer = Peer::saying([Reply::Drip(format!("{HEAD}{}", "x".repeat(600)))]).await;
    let request = Request { body_bytes_max: 2000, ..get(&peer.url("/")) };
    let mut answer = open().stream(request, LONG).await.unwrap();
    let failed = answer.body.read().await.unwrap_err();
    assert!(matches!(failed, Error::BodyTooLarge { bytes_max: 2000, .. }), "{failed:?}");
}

#[tokio::test]
async fn an_answer_keeps_its_turn_until_it_is_dropped() {
    let told = Arc::new(Notify::new());
    let peer =
        Peer::saying([Reply::Hang(format!("{HEAD}a")), Reply::When(told.clone(), format!("{HEAD}b"))]).await;
    let outgoing = Outgoing::new(Policy { allow_loopback: true, calls_max: 1, ..Policy::default() });
    let answer = outgoing.stream(get(&peer.url("/")), LONG).await.unwrap();
    let hurried = Request { timeout_ms: 60, ..get(&peer.url("/")) };
    let failed = outgoing.stream(hurried, LONG).await.unwrap_err();
    assert!(matches!(failed, Error::TimedOut { during: Stage::Turn, .. }), "{failed:?}");
    drop(answer);
    told.notify_one();
    let mut next = outgoing.stream(get(&peer.url("/")), LONG).await.unwrap();
    assert_eq!(next.body.read().await.unwrap(), b"b");
}

#[tokio::test]
async fn streams_stand_under_the_same_guard() {
    let closed = scripted(&Script::default(), false);
    for url in ["https://127.0.0.1/", "https://10.0.0.1/", "https://169.254.169.254/", "http://example.com/"]
    {
        let refused = closed.stream(get(url), LONG).await.unwrap_err();
        assert!(matches!(refused, Error::Refused(_)), "{url}: {refused:?}");
    }
    assert_eq!(closed.connects(), 0);
}

#[tokio::test]
async fn an_operator_can_open_networks_for_plain_calls_and_opens_nothing_else() {
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
    let script = Script::default()
        .answer("inside.example", &[ip("127.0.0.1")])
        .answer("outside.example", &[ip("10.9.0.1")]);
    let opened = Outgoing::new(Policy {
        resolver: Resolver::Scripted(script),
        ..Policy::opening(vec!["127.0.0.0/8".parse().unwrap(), "10.8.0.0/16".parse().unwrap()])
    });
    let named = format!("http://inside.example:{}/", peer.address.port());
    for url in [peer.url("/"), named] {
        let mut answer = opened.stream(get(&url), LONG).await.unwrap();
        assert_eq!(answer.body.read().await.unwrap(), b"{}", "{url}");
    }
    for url in ["http://localhost:11434/v1", "http://10.8.1.1/", "https://10.8.1.1/"] {
        assert!(opened.check_url(url).is_ok(), "{url}");
    }
    for url in ["http://10.9.0.1/", "https://10.9.0.1/", "http://169.254.169.254/", "https://[::1]/"] {
        assert!(matches!(opened.check_url(url), Err(Refused::Address { .. })), "{url}");
    }
    assert!(matches!(opened.check_url("http://93.184.216.34/"), Err(Refused::PlainText { .. })));
    let refused = opened.stream(get("http://outside.example/"), LONG).await.unwrap_err();
    assert!(matches!(refused, Error::Refused(Refused::Address { .. })), "{refused:?}");
}
