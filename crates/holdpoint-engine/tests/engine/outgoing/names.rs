//! Name resolution: each call resolves its name once, every address is checked, and the call connects to a checked
//! address.

use holdpoint_engine::outgoing::{Error, OutgoingRefusal, ScriptedResolver};

use crate::peer::{Peer, PeerReply, get, ip, scripted};

#[tokio::test]
async fn a_call_connects_to_the_checked_address_and_sends_the_name_as_host() {
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    let script = ScriptedResolver::default().answer("api.test", &[ip("127.0.0.1")]);
    let outgoing = scripted(&script, true);
    let url = format!("http://api.test:{}/v1/things?page=2", peer.address.port());
    assert_eq!(outgoing.send(get(&url)).await.unwrap().status, 200);
    assert_eq!(peer.header("host"), [Some(format!("api.test:{}", peer.address.port()))]);
    assert!(peer.requests()[0].starts_with("GET /v1/things?page=2 HTTP/1.1\r\n"), "{:?}", peer.requests());
    assert_eq!((script.lookups(), outgoing.connects()), (1, 1), "one lookup, one connection");
}

#[tokio::test]
async fn a_name_is_resolved_and_checked_in_every_call() {
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    let script = ScriptedResolver::default()
        .answer("flip.test", &[ip("127.0.0.1")])
        .answer("flip.test", &[ip("169.254.169.254")])
        .answer("flip.test", &[ip("127.0.0.1")]);
    let outgoing = scripted(&script, true);
    let url = format!("http://flip.test:{}/", peer.address.port());
    assert!(outgoing.send(get(&url)).await.is_ok());
    let refused = outgoing.send(get(&url)).await;
    assert!(matches!(refused, Err(Error::Refused(OutgoingRefusal::Address { .. }))), "{refused:?}");
    assert_eq!(outgoing.connects(), 1, "the rejected call opened no connection");
    assert!(outgoing.send(get(&url)).await.is_ok());
    assert_eq!((script.lookups(), peer.requests().len()), (3, 2));
}

#[tokio::test]
async fn a_name_that_resolves_to_a_private_address_after_registration_is_rejected() {
    let script = ScriptedResolver::default()
        .answer("flip.test", &[ip("93.184.216.34")])
        .answer("flip.test", &[ip("10.0.0.1")]);
    let outgoing = scripted(&script, false);
    assert!(outgoing.check("https://flip.test/hook").await.is_ok());
    let refused = outgoing.send(get("https://flip.test/hook")).await;
    assert!(matches!(refused, Err(Error::Refused(OutgoingRefusal::Address { .. }))), "{refused:?}");
    assert_eq!(outgoing.connects(), 0);
}

#[tokio::test]
async fn one_private_address_rejects_the_name_at_any_position() {
    let open = [ip("93.184.216.34"), ip("2606:2800:220:1::1")];
    for closed in
        ["10.0.0.1", "127.0.0.1", "::1", "::ffff:10.0.0.1", "fd00:ec2::254", "64:ff9b::a00:1", "0.0.0.0"]
    {
        for at in 0..=open.len() {
            let mut answer = open.to_vec();
            answer.insert(at, ip(closed));
            let script = ScriptedResolver::default().answer("mixed.test", &answer);
            let outgoing = scripted(&script, false);
            for refused in [
                outgoing.check("https://mixed.test/").await.map(|_| ()),
                outgoing.send(get("https://mixed.test/")).await.map(|_| ()),
            ] {
                assert!(
                    matches!(refused, Err(Error::Refused(OutgoingRefusal::Address { .. }))),
                    "{closed} at {at}: {refused:?}"
                );
            }
            assert_eq!(outgoing.connects(), 0, "{closed} at {at}");
        }
    }
    let outgoing = scripted(&ScriptedResolver::default().answer("fine.test", &open), false);
    assert!(
        outgoing.check("https://fine.test/").await.is_ok(),
        "a name with only public addresses is accepted"
    );
}

#[tokio::test]
async fn plain_http_needs_every_address_to_be_loopback() {
    let script = ScriptedResolver::default()
        .answer("public.test", &[ip("93.184.216.34")])
        .answer("half.test", &[ip("127.0.0.1"), ip("93.184.216.34")]);
    let outgoing = scripted(&script, true);
    for host in ["public.test", "half.test"] {
        let refused = outgoing.send(get(&format!("http://{host}/"))).await;
        assert_eq!(
            refused.unwrap_err(),
            Error::Refused(OutgoingRefusal::PlainText { host: host.to_owned() })
        );
    }
    assert_eq!(outgoing.connects(), 0);
}

#[tokio::test]
async fn a_name_without_an_address_is_unresolvable_and_not_rejected() {
    let outgoing = scripted(&ScriptedResolver::default().answer("empty.test", &[]), false);
    for host in ["empty.test", "unknown.test"] {
        let failed = outgoing.send(get(&format!("https://{host}/?token=secret"))).await.unwrap_err();
        assert!(matches!(failed, Error::Unresolvable { .. }), "{failed:?}");
        assert!(!failed.to_string().contains("secret"), "{failed}");
    }
}

#[tokio::test]
async fn an_unreachable_address_is_skipped() {
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    // This loopback address has no listener on that port.
    let script = ScriptedResolver::default().answer("two.test", &[ip("127.0.0.99"), ip("127.0.0.1")]);
    let outgoing = scripted(&script, true);
    let url = format!("http://two.test:{}/", peer.address.port());
    assert_eq!(outgoing.send(get(&url)).await.unwrap().status, 200);
    assert_eq!((script.lookups(), outgoing.connects()), (1, 2));
}

#[tokio::test]
async fn a_forbidden_name_is_not_resolved() {
    let script = ScriptedResolver::default().answer("metadata.google.internal", &[ip("93.184.216.34")]);
    let outgoing = scripted(&script, false);
    assert!(outgoing.check("https://metadata.google.internal/").await.is_err());
    assert_eq!(script.lookups(), 0);
}

#[tokio::test]
async fn localhost_is_resolved_by_the_system() {
    let peer = Peer::with_replies([PeerReply::json(200, "{}")]).await;
    let outgoing = holdpoint_engine::outgoing::Outgoing::new(holdpoint_engine::outgoing::OutgoingPolicy {
        allow_loopback: true,
        ..Default::default()
    });
    let url = format!("http://localhost:{}/", peer.address.port());
    assert_eq!(outgoing.send(get(&url)).await.unwrap().status, 200, "the system resolver is used");
}
