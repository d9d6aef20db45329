//! Calls that share connections: a connection is used again only if it is open and its address is allowed.

use holdpoint_engine::outgoing::{CallStage, Error, Outgoing, OutgoingRequest, ScriptedResolver};

use crate::peer::{Peer, PeerReply, get, ip, scripted};

const OK: &str = "HTTP/1.1 204 X\r\n\r\n";

fn keep(text: &str) -> PeerReply {
    PeerReply::Keep(text.to_owned())
}

fn say(text: &str) -> PeerReply {
    PeerReply::Say(text.to_owned())
}

fn open() -> Outgoing {
    scripted(&ScriptedResolver::default(), true)
}

async fn call(outgoing: &Outgoing, peer: &Peer) -> Result<u16, Error> {
    outgoing.send_reusing(get(&peer.url("/"))).await.map(|response| response.status)
}

#[tokio::test]
async fn calls_to_one_host_share_a_connection() {
    let with_body = "HTTP/1.1 200 X\r\ncontent-length: 2\r\n\r\nok";
    let peer = Peer::with_replies([keep(with_body), keep(with_body), keep(OK)]).await;
    let other = Peer::with_replies([keep(OK)]).await;
    let outgoing = open();
    assert_eq!(call(&outgoing, &peer).await, Ok(200));
    assert_eq!(call(&outgoing, &peer).await, Ok(200));
    assert_eq!(call(&outgoing, &peer).await, Ok(204));
    assert_eq!(outgoing.connects(), 1);
    assert_eq!(call(&outgoing, &other).await, Ok(204));
    assert_eq!(outgoing.connects(), 2, "another port is another host");
    assert_eq!(peer.header("connection"), [None, None, None]);
}

#[tokio::test]
async fn other_calls_use_no_open_connection_and_leave_none_open() {
    let peer = Peer::with_replies([keep(OK)]).await;
    let outgoing = open();
    assert_eq!(call(&outgoing, &peer).await, Ok(204));
    for _ in 0..2 {
        assert_eq!(outgoing.send(get(&peer.url("/"))).await.unwrap().status, 204);
    }
    assert_eq!(outgoing.connects(), 3);
    assert_eq!(peer.header("connection")[1].as_deref(), Some("close"));
}

#[tokio::test]
async fn a_connection_that_the_server_closes_is_not_used_again() {
    let closing = "HTTP/1.1 200 X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let old = "HTTP/1.0 200 X\r\ncontent-length: 0\r\n\r\n";
    let chatty = "HTTP/1.1 204 X\r\n\r\nHTTP/1.1 500 X\r\n\r\n";
    let peer = Peer::with_replies([keep(closing), keep(old), keep(chatty), say(OK), keep(OK)]).await;
    let outgoing = open();
    for (number, status) in (1..).zip([200, 200, 204, 204, 204]) {
        assert_eq!(call(&outgoing, &peer).await, Ok(status));
        assert_eq!(outgoing.connects(), number);
    }
    assert_eq!(peer.requests().len(), 5, "no request arrived twice");
}

#[tokio::test]
async fn a_request_without_a_response_on_an_open_connection_is_sent_again_once() {
    let peer = Peer::with_replies([keep(OK), say(""), say(""), keep(OK)]).await;
    let outgoing = open();
    assert_eq!(call(&outgoing, &peer).await, Ok(204));
    assert!(matches!(call(&outgoing, &peer).await, Err(Error::Broken { .. })));
    assert_eq!((peer.requests().len(), outgoing.connects()), (3, 2));
    assert_eq!(call(&outgoing, &peer).await, Ok(204), "the next call opens a connection");
    assert_eq!((peer.requests().len(), outgoing.connects()), (4, 3));
}

#[tokio::test]
async fn a_request_is_not_sent_again_after_a_part_of_a_response() {
    for part in ["HTTP/1.1 2", "HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\npart", "garbage\r\n\r\n"] {
        let peer = Peer::with_replies([keep(OK), say(part), keep(OK)]).await;
        let outgoing = open();
        assert_eq!(call(&outgoing, &peer).await, Ok(204));
        assert!(matches!(call(&outgoing, &peer).await, Err(Error::Broken { .. })), "{part}");
        assert_eq!((peer.requests().len(), outgoing.connects()), (2, 1), "{part}");
    }
}

#[tokio::test]
async fn the_limits_of_a_call_apply_on_an_open_connection() {
    let endless = PeerReply::Drip("HTTP/1.1 100 X\r\n\r\n".to_owned());
    let large = "HTTP/1.1 200 X\r\ncontent-length: 99\r\n\r\n";
    let peer = Peer::with_replies([
        keep(OK),
        endless,
        keep(OK),
        keep(large),
        keep(OK),
        PeerReply::Hang(String::new()),
    ])
    .await;
    let outgoing = open();
    let limited = async || {
        let request = OutgoingRequest { body_bytes_max: 10, ..get(&peer.url("/")) };
        outgoing.send_reusing(request).await.map(|response| response.status)
    };
    assert_eq!(limited().await, Ok(204));
    assert!(matches!(limited().await, Err(Error::Broken { .. })), "too much data before the response");
    assert_eq!(limited().await, Ok(204));
    assert!(matches!(limited().await, Err(Error::BodyTooLarge { .. })));
    assert_eq!(limited().await, Ok(204));
    let request = OutgoingRequest { timeout_ms: 300, ..get(&peer.url("/")) };
    let late = outgoing.send_reusing(request).await;
    assert!(matches!(late, Err(Error::TimedOut { during: CallStage::Answer, .. })), "{late:?}");
    assert_eq!(outgoing.connects(), 3, "each failed call closes its connection");
}

#[tokio::test]
async fn every_call_resolves_the_name_and_an_address_that_is_gone_is_not_used() {
    let peer = Peer::with_replies([keep(OK)]).await;
    let here = ip("127.0.0.1");
    let resolver = ScriptedResolver::default().answer("hook.example", &[here]);
    let resolver = resolver.answer("hook.example", &[here]).answer("hook.example", &[ip("10.0.0.1")]);
    let outgoing = scripted(&resolver, true);
    let url = format!("http://hook.example:{}/", peer.address.port());
    for _ in 0..2 {
        assert_eq!(outgoing.send_reusing(get(&url)).await.unwrap().status, 204);
    }
    assert!(matches!(outgoing.send_reusing(get(&url)).await, Err(Error::Refused(_))));
    assert_eq!((resolver.lookups(), outgoing.connects(), peer.requests().len()), (3, 1, 2));
}
