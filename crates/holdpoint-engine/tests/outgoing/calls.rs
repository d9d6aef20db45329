//! What a call takes and gives back: redirects stay where they are, and time and bytes have limits.

use holdpoint_engine::outgoing::{Error, Method, Outgoing, Policy, Refused, Request, Script, Stage};
use tokio::net::TcpListener;

use crate::peer::{Peer, Reply, get, header, scripted};

fn open() -> Outgoing {
    scripted(&Script::default(), true)
}

#[tokio::test]
async fn a_call_carries_method_headers_and_body_and_brings_back_the_answer() {
    let answer = "HTTP/1.1 201 Created\r\nContent-Length: 4\r\nX-One: 1\r\nx-two: 2\r\n\r\nmade";
    let peer = Peer::saying([Reply::Say(answer.to_owned())]).await;
    let request = Request {
        method: Method::Post,
        headers: vec![("X-Custom".to_owned(), "a b".to_owned())],
        body: b"{\"n\":1}".to_vec(),
        ..get(&peer.url("/path?q=1#part"))
    };
    let response = open().send(request).await.unwrap();
    assert_eq!((response.status, response.body.as_slice()), (201, b"made".as_slice()));
    assert!(response.headers.contains(&("x-one".to_owned(), "1".to_owned())), "{:?}", response.headers);
    let heard = &peer.heard()[0];
    assert!(
        heard.starts_with("POST /path?q=1 HTTP/1.1\r\n") && heard.ends_with("\r\n\r\n{\"n\":1}"),
        "{heard}"
    );
    for (name, value) in [("x-custom", "a b"), ("content-length", "7"), ("host", &peer.address.to_string())] {
        assert_eq!(header(heard, name).as_deref(), Some(value), "{name}");
    }
    assert!(header(heard, "user-agent").unwrap().starts_with("holdpoint/"));
}

#[tokio::test]
async fn redirects_are_answers_and_are_never_followed() {
    let inside = Peer::saying([Reply::json(200, "{}")]).await;
    for status in [301, 302, 303, 307, 308] {
        for to in [inside.url("/"), "http://169.254.169.254/latest".to_owned(), "//10.0.0.1/".to_owned()] {
            let text = format!("HTTP/1.1 {status} X\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
            let peer = Peer::saying([Reply::Say(text)]).await;
            let outgoing = open();
            let response = outgoing.send(get(&peer.url("/"))).await.unwrap();
            assert_eq!(response.status, status);
            assert!(response.headers.contains(&("location".to_owned(), to)));
            assert_eq!(outgoing.connects(), 1);
        }
    }
    assert!(inside.heard().is_empty());
}

#[tokio::test]
async fn an_answer_may_be_as_large_as_allowed_and_no_larger() {
    let body = "x".repeat(1000);
    let framed = |head: &str, body: &str| Reply::Say(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}"));
    let chunked = format!("1f4\r\n{}\r\n1f4\r\n{}\r\n0\r\n\r\n", &body[..500], &body[500..]);
    for reply in [
        framed("content-length: 1000", &body),
        framed("transfer-encoding: chunked", &chunked),
        framed("connection: close", &body),
    ] {
        let peer = Peer::saying([reply.clone()]).await;
        let asked = |body_bytes_max| Request { body_bytes_max, ..get(&peer.url("/?key=secret")) };
        let response = open().send(asked(1000)).await.unwrap();
        assert_eq!(response.body.len(), 1000, "{reply:?}");
        let failed = open().send(asked(999)).await.unwrap_err();
        assert!(matches!(failed, Error::BodyTooLarge { bytes_max: 999, .. }), "{failed:?}");
        assert!(!failed.to_string().contains("secret"), "{failed}");
    }
}

#[tokio::test]
async fn an_announced_size_is_believed_and_an_endless_answer_is_cut_off() {
    let announced = "HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n";
    let peer = Peer::saying([Reply::Hang(announced.to_owned())]).await;
    let failed = open().send(get(&peer.url("/"))).await.unwrap_err();
    assert!(matches!(failed, Error::BodyTooLarge { .. }), "without reading any of it: {failed:?}");
    let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1000));
    let peer = Peer::saying([Reply::Drip(endless)]).await;
    let failed = open().send(get(&peer.url("/"))).await.unwrap_err();
    assert!(matches!(failed, Error::BodyTooLarge { .. }), "{failed:?}");
}

#[tokio::test]
async fn the_head_of_an_answer_has_a_limit_too() {
    let large = format!("HTTP/1.1 200 OK\r\nx-large: {}\r\n\r\n", "x".repeat(1024 * 1024));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x-many: 1\r\n".repeat(1000));
    for reply in [Reply::Say(large), Reply::Say(many), Reply::Drip("x-endless: 1\r\n".to_owned())] {
        let peer = Peer::saying([reply]).await;
        let failed = open().send(get(&peer.url("/"))).await.unwrap_err();
        assert!(matches!(failed, Error::Broken { .. }), "{failed:?}");
    }
}

#[tokio::test]
async fn whoever_is_slow_is_given_up_at_any_point() {
    let slow = |text: &str| Reply::Hang(text.to_owned());
    for (reply, during) in [
        (slow(""), Stage::Answer),
        (slow("HTTP/1.1 200"), Stage::Answer),
        (slow("HTTP/1.1 100 Continue\r\n\r\n"), Stage::Answer),
        (slow("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n"), Stage::Answer),
        (slow("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"), Stage::Body),
        (slow("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"), Stage::Body),
    ] {
        let peer = Peer::saying([reply.clone()]).await;
        let request = Request { timeout_ms: 100, ..get(&peer.url("/?key=secret")) };
        let failed = open().send(request).await.unwrap_err();
        let origin = format!("http://{}", peer.address);
        assert_eq!(failed, Error::TimedOut { origin, timeout_ms: 100, during }, "{reply:?}");
    }
}

#[tokio::test]
async fn interim_answers_are_passed_over_and_have_a_limit() {
    let early = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(20);
    let answer = format!("{early}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let peer = Peer::saying([Reply::Say(answer)]).await;
    assert_eq!(open().send(get(&peer.url("/"))).await.unwrap().body, b"ok");
    // For ever: always something new, and never enough of it to be one head that is too large.
    for interim in ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 102 Processing\r\nx: y\r\n\r\n"] {
        let peer = Peer::saying([Reply::Drip(interim.to_owned())]).await;
        let failed = open().send(get(&peer.url("/"))).await.unwrap_err();
        assert!(
            matches!(&failed, Error::Broken { why, .. } if why.contains("too much came before an answer")),
            "long before its time is over: {failed:?}"
        );
    }
}

#[tokio::test]
async fn an_answer_is_read_to_its_end_although_it_is_larger_than_what_may_come_before_it() {
    let body = "x".repeat(1024 * 1024);
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let peer = Peer::saying([Reply::Say(answer)]).await;
    let request = Request { body_bytes_max: body.len(), ..get(&peer.url("/")) };
    assert_eq!(open().send(request).await.unwrap().body.len(), body.len());
}

#[tokio::test]
async fn nobody_there_and_nonsense_are_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let failed = open().send(get(&format!("http://{address}/?key=secret"))).await.unwrap_err();
    assert!(matches!(failed, Error::ConnectFailed { .. }), "{failed:?}");
    assert!(!failed.to_string().contains("secret"), "{failed}");
    for nonsense in ["", "SSH-2.0-x\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"] {
        let peer = Peer::saying([Reply::Say(nonsense.to_owned())]).await;
        let failed = open().send(get(&peer.url("/?key=secret"))).await.unwrap_err();
        assert!(matches!(failed, Error::Broken { .. }), "{nonsense:?}: {failed:?}");
        assert!(!failed.to_string().contains("secret"), "{failed}");
    }
}

#[tokio::test]
async fn headers_that_frame_a_message_are_ours() {
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
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
        let refused = outgoing.send(Request { headers, ..get(&peer.url("/")) }).await.unwrap_err();
        assert_eq!(refused, Error::Refused(Refused::Header(name.to_owned())), "{name}");
    }
    assert_eq!(outgoing.connects(), 0);
}

#[tokio::test]
async fn only_so_many_calls_are_under_way_and_waiting_counts() {
    let peer = Peer::saying([Reply::Hang(String::new())]).await;
    let outgoing = Outgoing::new(Policy { allow_loopback: true, calls_max: 2, ..Policy::default() });
    let call = |timeout_ms| {
        let (outgoing, request) = (outgoing.clone(), Request { timeout_ms, ..get(&peer.url("/")) });
        tokio::spawn(async move { outgoing.send(request).await })
    };
    let under_way = [call(60_000), call(60_000)];
    peer.heard_times(2).await;
    let failed = call(100).await.unwrap();
    assert!(matches!(failed, Err(Error::TimedOut { during: Stage::Turn, .. })), "{failed:?}");
    assert_eq!(outgoing.connects(), 2, "the third never had its turn");
    let third = call(60_000);
    under_way[0].abort();
    peer.heard_times(3).await;
    assert_eq!(outgoing.connects(), 3, "a place that was given back was taken");
    under_way[1].abort();
    third.abort();
}

#[test]
fn what_is_secret_is_not_shown_in_logs() {
    let request = Request {
        headers: vec![("authorization".to_owned(), "Bearer s3cret".to_owned())],
        body: b"s3cret".to_vec(),
        ..get("https://example.com/s3cret?token=s3cret")
    };
    assert!(!format!("{request:?}").contains("s3cret"));
}
