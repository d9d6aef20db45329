//! HTTP requests and responses: redirects are not followed, and time and size are limited.

use holdpoint_engine::outgoing::{
    CallStage, Error, Method, Outgoing, OutgoingPolicy, OutgoingRefusal, OutgoingRequest, ScriptedResolver,
};
use tokio::net::TcpListener;

use crate::peer::{Peer, PeerReply, get, header, scripted};

fn open() -> Outgoing {
    scripted(&ScriptedResolver::default(), true)
}

#[tokio::test]
async fn a_call_sends_method_headers_and_body_and_returns_the_response() {
    let answer = "HTTP/1.1 201 Created\r\nContent-Length: 4\r\nX-One: 1\r\nx-two: 2\r\n\r\nmade";
    let peer = Peer::with_replies([PeerReply::Say(answer.to_owned())]).await;
    let request = OutgoingRequest {
        method: Method::Post,
        headers: vec![("X-Custom".to_owned(), "a b".to_owned())],
        body: b"{\"n\":1}".to_vec(),
        ..get(&peer.url("/path?q=1#part"))
    };
    let response = open().send(request).await.unwrap();
    assert_eq!((response.status, response.body.as_slice()), (201, b"made".as_slice()));
    assert!(response.headers.contains(&("x-one".to_owned(), "1".to_owned())), "{:?}", response.headers);
    let received = &peer.requests()[0];
    assert!(
        received.starts_with("POST /path?q=1 HTTP/1.1\r\n") && received.ends_with("\r\n\r\n{\"n\":1}"),
        "{received}"
    );
    for (name, value) in [("x-custom", "a b"), ("content-length", "7"), ("host", &peer.address.to_string())] {
        assert_eq!(header(received, name).as_deref(), Some(value), "{name}");
    }
    assert!(header(received, "user-agent").unwrap().starts_with("holdpoint/"));
}

#[tokio::test]
async fn redirects_are_returned_and_never_followed() {
    let inside = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    for status in [301, 302, 303, 307, 308] {
        for to in [inside.url("/"), "http://169.254.169.254/latest".to_owned(), "//10.0.0.1/".to_owned()] {
            let text = format!("HTTP/1.1 {status} X\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
            let peer = Peer::with_replies([PeerReply::Say(text)]).await;
            let outgoing = open();
            let response = outgoing.send(get(&peer.url("/"))).await.unwrap();
            assert_eq!(response.status, status);
            assert!(response.headers.contains(&("location".to_owned(), to)));
            assert_eq!(outgoing.connects(), 1);
        }
    }
    assert!(inside.requests().is_empty());
}

#[tokio::test]
async fn a_response_body_is_accepted_up_to_the_size_limit() {
    let body = "x".repeat(1000);
    let framed = |head: &str, body: &str| PeerReply::Say(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}"));
    let chunked = format!("1f4\r\n{}\r\n1f4\r\n{}\r\n0\r\n\r\n", &body[..500], &body[500..]);
    for reply in [
        framed("content-length: 1000", &body),
        framed("transfer-encoding: chunked", &chunked),
        framed("connection: close", &body),
    ] {
        let peer = Peer::with_replies([reply.clone()]).await;
        let request = |body_bytes_max| OutgoingRequest { body_bytes_max, ..get(&peer.url("/?key=secret")) };
        let response = open().send(request(1000)).await.unwrap();
        assert_eq!(response.body.len(), 1000, "{reply:?}");
        let failed = open().send(request(999)).await.unwrap_err();
        assert!(matches!(failed, Error::BodyTooLarge { bytes_max: 999, .. }), "{failed:?}");
        assert!(!failed.to_string().contains("secret"), "{failed}");
    }
}

#[tokio::test]
async fn a_response_is_rejected_by_its_content_length_or_when_it_exceeds_the_limit() {
    let announced = "HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n";
    let peer = Peer::with_replies([PeerReply::Hang(announced.to_owned())]).await;
    let failed = open().send(get(&peer.url("/"))).await.unwrap_err();
    assert!(matches!(failed, Error::BodyTooLarge { .. }), "the body is not read: {failed:?}");
    let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1000));
    let peer = Peer::with_replies([PeerReply::Drip(endless)]).await;
    let failed = open().send(get(&peer.url("/"))).await.unwrap_err();
    assert!(matches!(failed, Error::BodyTooLarge { .. }), "{failed:?}");
}

#[tokio::test]
async fn the_head_of_a_response_is_limited() {
    let large = format!("HTTP/1.1 200 OK\r\nx-large: {}\r\n\r\n", "x".repeat(1024 * 1024));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x-many: 1\r\n".repeat(1000));
    for reply in [PeerReply::Say(large), PeerReply::Say(many), PeerReply::Drip("x-endless: 1\r\n".to_owned())]
    {
        let peer = Peer::with_replies([reply]).await;
        let failed = open().send(get(&peer.url("/"))).await.unwrap_err();
        assert!(matches!(failed, Error::Broken { .. }), "{failed:?}");
    }
}

#[tokio::test]
async fn a_slow_server_times_out_at_every_stage() {
    let slow = |text: &str| PeerReply::Hang(text.to_owned());
    for (reply, during) in [
        (slow(""), CallStage::Answer),
        (slow("HTTP/1.1 200"), CallStage::Answer),
        (slow("HTTP/1.1 100 Continue\r\n\r\n"), CallStage::Answer),
        (slow("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n"), CallStage::Answer),
        (slow("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"), CallStage::Body),
        (slow("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"), CallStage::Body),
    ] {
        let peer = Peer::with_replies([reply.clone()]).await;
        let request = OutgoingRequest { timeout_ms: 100, ..get(&peer.url("/?key=secret")) };
        let failed = open().send(request).await.unwrap_err();
        let origin = format!("http://{}", peer.address);
        assert_eq!(failed, Error::TimedOut { origin, timeout_ms: 100, during }, "{reply:?}");
    }
}

#[tokio::test]
async fn interim_responses_are_skipped_up_to_a_limit() {
    let early = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(20);
    let answer = format!("{early}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let peer = Peer::with_replies([PeerReply::Say(answer)]).await;
    assert_eq!(open().send(get(&peer.url("/"))).await.unwrap().body, b"ok");
    // Endless interim responses, each smaller than the limit of a head.
    for interim in ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 102 Processing\r\nx: y\r\n\r\n"] {
        let peer = Peer::with_replies([PeerReply::Drip(interim.to_owned())]).await;
        let failed = open().send(get(&peer.url("/"))).await.unwrap_err();
        assert!(
            matches!(&failed, Error::Broken { why, .. } if why.contains("too much data before the response")),
            "before the timeout: {failed:?}"
        );
    }
}

#[tokio::test]
async fn the_limit_of_data_before_a_response_does_not_apply_to_its_body() {
    let body = "x".repeat(1024 * 1024);
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let peer = Peer::with_replies([PeerReply::Say(answer)]).await;
    let request = OutgoingRequest { body_bytes_max: body.len(), ..get(&peer.url("/")) };
    assert_eq!(open().send(request).await.unwrap().body.len(), body.len());
}

#[tokio::test]
async fn an_unreachable_server_and_an_invalid_response_are_different_errors() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let failed = open().send(get(&format!("http://{address}/?key=secret"))).await.unwrap_err();
    assert!(matches!(failed, Error::ConnectFailed { .. }), "{failed:?}");
    assert!(!failed.to_string().contains("secret"), "{failed}");
    for nonsense in ["", "SSH-2.0-x\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"] {
        let peer = Peer::with_replies([PeerReply::Say(nonsense.to_owned())]).await;
        let failed = open().send(get(&peer.url("/?key=secret"))).await.unwrap_err();
        assert!(matches!(failed, Error::Broken { .. }), "{nonsense:?}: {failed:?}");
        assert!(!failed.to_string().contains("secret"), "{failed}");
    }
}

#[tokio::test]
async fn callers_cannot_set_framing_headers() {
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    let outgoing = open();
    for (name, value) in [
        ("Host", "10.0.0.1"),
        ("host", "x"),
        ("Content-Length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "keep-alive"),
        ("Upgrade", "websocket"),
        ("Expect", "100-continue"),
        ("TE", "trailers"),
        ("Trailer", "x"),
        ("Proxy-Authorization", "x"),
        ("bad name", "x"),
        ("bad:name", "x"),
        ("", "x"),
        ("x-split", "a\r\nHost: b"),
        ("x-line", "a\nb"),
        ("x-zero", "a\0b"),
    ] {
        let headers = vec![(name.to_owned(), value.to_owned())];
        let refused = outgoing.send(OutgoingRequest { headers, ..get(&peer.url("/")) }).await.unwrap_err();
        assert_eq!(refused, Error::Refused(OutgoingRefusal::Header(name.to_owned())), "{name}");
    }
    assert_eq!(outgoing.connects(), 0);
}

#[tokio::test]
async fn concurrent_calls_are_limited_and_the_timeout_includes_the_wait() {
    let peer = Peer::with_replies([PeerReply::Hang(String::new())]).await;
    let outgoing =
        Outgoing::new(OutgoingPolicy { allow_loopback: true, calls_max: 2, ..OutgoingPolicy::default() });
    let call = |timeout_ms| {
        let (outgoing, request) = (outgoing.clone(), OutgoingRequest { timeout_ms, ..get(&peer.url("/")) });
        tokio::spawn(async move { outgoing.send(request).await })
    };
    let in_flight = [call(60_000), call(60_000)];
    peer.wait_for_requests(2).await;
    let failed = call(100).await.unwrap();
    assert!(matches!(failed, Err(Error::TimedOut { during: CallStage::Turn, .. })), "{failed:?}");
    assert_eq!(outgoing.connects(), 2, "the third call did not start");
    let third = call(60_000);
    in_flight[0].abort();
    peer.wait_for_requests(3).await;
    assert_eq!(outgoing.connects(), 3, "the third call starts when a slot is free");
    in_flight[1].abort();
    third.abort();
}

#[test]
fn secrets_of_a_request_are_not_in_its_debug_output() {
    let request = OutgoingRequest {
        headers: vec![("authorization".to_owned(), "Bearer s3cret".to_owned())],
        body: b"s3cret".to_vec(),
        ..get("https://example.com/s3cret?token=s3cret")
    };
    assert!(!format!("{request:?}").contains("s3cret"));
}
