//! Streamed responses: the same policy and limits as other calls, and an idle timeout.

use std::sync::Arc;
use std::time::Duration;

use holdpoint_engine::outgoing::{
    CallStage, Error, Outgoing, OutgoingPolicy, OutgoingRefusal, OutgoingRequest, Resolver, ScriptedResolver,
};
use tokio::sync::Notify;

use crate::peer::{Peer, PeerReply, get, ip, scripted};

const LONG: Duration = Duration::from_secs(20);
const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n";

fn open() -> Outgoing {
    scripted(&ScriptedResolver::default(), true)
}

#[tokio::test]
async fn chunks_arrive_before_the_response_ends() {
    let peer = Peer::with_replies([PeerReply::Hang(format!("{HEAD}first"))]).await;
    let mut answer = open().stream(get(&peer.url("/")), LONG).await.unwrap();
    assert_eq!(answer.status, 200);
    assert!(answer.headers.contains(&("content-type".to_owned(), "text/plain".to_owned())));
    assert_eq!(answer.body.next().await.unwrap().unwrap(), "first", "the response has not ended");
}

#[tokio::test]
async fn a_complete_response_ends_with_none() {
    let peer = Peer::with_replies([PeerReply::Say(format!("{HEAD}all"))]).await;
    let mut answer = open().stream(get(&peer.url("/")), LONG).await.unwrap();
    assert_eq!(answer.body.read().await.unwrap(), b"all");
    assert_eq!(answer.body.next().await.unwrap(), None);
}

#[tokio::test]
async fn the_idle_time_and_the_total_time_of_a_response_are_limited() {
    let peer = Peer::with_replies([PeerReply::Hang(format!("{HEAD}first"))]).await;
    for (timeout_ms, idle_ms, limit_ms) in [(20_000, 300, 300), (400, 20_000, 400)] {
        let request = OutgoingRequest { timeout_ms, ..get(&peer.url("/?key=secret")) };
        let mut answer = open().stream(request, Duration::from_millis(idle_ms)).await.unwrap();
        assert_eq!(answer.body.next().await.unwrap().unwrap(), "first");
        let failed = answer.body.next().await.unwrap_err();
        let origin = format!("http://{}", peer.address);
        assert_eq!(failed, Error::TimedOut { origin, timeout_ms: limit_ms, during: CallStage::Body });
    }
}

#[tokio::test]
async fn a_server_that_does_not_respond_times_out() {
    let peer = Peer::with_replies([PeerReply::Hang(String::new())]).await;
    let request = OutgoingRequest { timeout_ms: 300, ..get(&peer.url("/")) };
    let failed = open().stream(request, LONG).await.unwrap_err();
    assert!(
        matches!(failed, Error::TimedOut { timeout_ms: 300, during: CallStage::Answer, .. }),
        "{failed:?}"
    );
}

#[tokio::test]
async fn the_size_limit_applies_to_all_chunks() {
    let peer = Peer::with_replies([PeerReply::Drip(format!("{HEAD}{}", "x".repeat(600)))]).await;
    let request = OutgoingRequest { body_bytes_max: 2000, ..get(&peer.url("/")) };
    let mut answer = open().stream(request, LONG).await.unwrap();
    let failed = answer.body.read().await.unwrap_err();
    assert!(matches!(failed, Error::BodyTooLarge { bytes_max: 2000, .. }), "{failed:?}");
}

#[tokio::test]
async fn a_response_keeps_its_slot_until_it_is_dropped() {
    let signal = Arc::new(Notify::new());
    let peer = Peer::with_replies([
        PeerReply::Hang(format!("{HEAD}a")),
        PeerReply::When(signal.clone(), format!("{HEAD}b")),
    ])
    .await;
    let outgoing =
        Outgoing::new(OutgoingPolicy { allow_loopback: true, calls_max: 1, ..OutgoingPolicy::default() });
    let answer = outgoing.stream(get(&peer.url("/")), LONG).await.unwrap();
    let short = OutgoingRequest { timeout_ms: 60, ..get(&peer.url("/")) };
    let failed = outgoing.stream(short, LONG).await.unwrap_err();
    assert!(matches!(failed, Error::TimedOut { during: CallStage::Turn, .. }), "{failed:?}");
    drop(answer);
    signal.notify_one();
    let mut next = outgoing.stream(get(&peer.url("/")), LONG).await.unwrap();
    assert_eq!(next.body.read().await.unwrap(), b"b");
}

#[tokio::test]
async fn streams_follow_the_outgoing_policy() {
    let closed = scripted(&ScriptedResolver::default(), false);
    for url in ["https://127.0.0.1/", "https://10.0.0.1/", "https://169.254.169.254/", "http://example.com/"]
    {
        let refused = closed.stream(get(url), LONG).await.unwrap_err();
        assert!(matches!(refused, Error::Refused(_)), "{url}: {refused:?}");
    }
    assert_eq!(closed.connects(), 0);
}

#[tokio::test]
async fn an_operator_can_allow_networks_for_plain_calls_and_no_others() {
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    let script = ScriptedResolver::default()
        .answer("inside.example", &[ip("127.0.0.1")])
        .answer("outside.example", &[ip("10.9.0.1")]);
    let opened = Outgoing::new(OutgoingPolicy {
        resolver: Resolver::Scripted(script),
        ..OutgoingPolicy::for_operator_networks(vec![
            "127.0.0.0/8".parse().unwrap(),
            "10.8.0.0/16".parse().unwrap(),
        ])
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
        assert!(matches!(opened.check_url(url), Err(OutgoingRefusal::Address { .. })), "{url}");
    }
    assert!(matches!(opened.check_url("http://93.184.216.34/"), Err(OutgoingRefusal::PlainText { .. })));
    let refused = opened.stream(get("http://outside.example/"), LONG).await.unwrap_err();
    assert!(matches!(refused, Error::Refused(OutgoingRefusal::Address { .. })), "{refused:?}");
}
