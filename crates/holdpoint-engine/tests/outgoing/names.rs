//! Names and their addresses: each name is asked for once in a call, every address counts, and the call goes to an
//! address that was judged.

use holdpoint_engine::outgoing::{Error, Refused, Script};

use crate::peer::{Peer, Reply, get, ip, scripted};

#[tokio::test]
async fn a_call_goes_to_the_judged_address_under_the_name_that_was_asked_for() {
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
    let script = Script::default().answer("api.test", &[ip("127.0.0.1")]);
    let outgoing = scripted(&script, true);
    let url = format!("http://api.test:{}/v1/things?page=2", peer.address.port());
    assert_eq!(outgoing.send(get(&url)).await.unwrap().status, 200);
    assert_eq!(peer.header("host"), [Some(format!("api.test:{}", peer.address.port()))]);
    assert!(peer.heard()[0].starts_with("GET /v1/things?page=2 HTTP/1.1\r\n"), "{:?}", peer.heard());
    assert_eq!((script.questions(), outgoing.connects()), (1, 1), "asked once, opened once");
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_judged_anew_in_every_call() {
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
    let script = Script::default()
        .answer("flip.test", &[ip("127.0.0.1")])
        .answer("flip.test", &[ip("169.254.169.254")])
        .answer("flip.test", &[ip("127.0.0.1")]);
    let outgoing = scripted(&script, true);
    let url = format!("http://flip.test:{}/", peer.address.port());
    assert!(outgoing.send(get(&url)).await.is_ok());
    let refused = outgoing.send(get(&url)).await;
    assert!(matches!(refused, Err(Error::Refused(Refused::Address { .. }))), "{refused:?}");
    assert_eq!(outgoing.connects(), 1, "the refused call opened nothing");
    assert!(outgoing.send(get(&url)).await.is_ok());
    assert_eq!((script.questions(), peer.heard().len()), (3, 2));
}

#[tokio::test]
async fn a_name_that_was_fine_when_it_was_registered_is_refused_when_it_is_called() {
    let script =
        Script::default().answer("flip.test", &[ip("93.184.216.34")]).answer("flip.test", &[ip("10.0.0.1")]);
    let outgoing = scripted(&script, false);
    assert!(outgoing.check("https://flip.test/hook").await.is_ok());
    let refused = outgoing.send(get("https://flip.test/hook")).await;
    assert!(matches!(refused, Err(Error::Refused(Refused::Address { .. }))), "{refused:?}");
    assert_eq!(outgoing.connects(), 0);
}

#[tokio::test]
async fn one_closed_address_closes_the_name_wherever_it_stands() {
    let open = [ip("93.184.216.34"), ip("2606:2800:220:1::1")];
    for closed in
        ["10.0.0.1", "127.0.0.1", "::1", "::ffff:10.0.0.1", "fd00:ec2::254", "64:ff9b::a00:1", "0.0.0.0"]
    {
        for at in 0..=open.len() {
            let mut answer = open.to_vec();
            answer.insert(at, ip(closed));
            let script = Script::default().answer("mixed.test", &answer);
            let outgoing = scripted(&script, false);
            for refused in [
                outgoing.check("https://mixed.test/").await.map(|_| ()),
                outgoing.send(get("https://mixed.test/")).await.map(|_| ()),
            ] {
                assert!(
                    matches!(refused, Err(Error::Refused(Refused::Address { .. }))),
                    "{closed} at {at}: {refused:?}"
                );
            }
            assert_eq!(outgoing.connects(), 0, "{closed} at {at}");
        }
    }
    let outgoing = scripted(&Script::default().answer("fine.test", &open), false);
    assert!(outgoing.check("https://fine.test/").await.is_ok(), "the open ones alone are fine");
}

#[tokio::test]
async fn plain_http_needs_every_address_to_be_loopback() {
    let script = Script::default()
        .answer("public.test", &[ip("93.184.216.34")])
        .answer("half.test", &[ip("127.0.0.1"), ip("93.184.216.34")]);
    let outgoing = scripted(&script, true);
    for host in ["public.test", "half.test"] {
        let refused = outgoing.send(get(&format!("http://{host}/"))).await;
        assert_eq!(refused.unwrap_err(), Error::Refused(Refused::PlainText { host: host.to_owned() }));
    }
    assert_eq!(outgoing.connects(), 0);
}

#[tokio::test]
async fn a_name_without_an_address_is_no_refusal() {
    let outgoing = scripted(&Script::default().answer("empty.test", &[]), false);
    for host in ["empty.test", "nobody.test"] {
        let failed = outgoing.send(get(&format!("https://{host}/?token=secret"))).await.unwrap_err();
        assert!(matches!(failed, Error::Unresolvable { .. }), "{failed:?}");
        assert!(!failed.to_string().contains("secret"), "{failed}");
    }
}

#[tokio::test]
async fn a_dead_address_is_passed_over() {
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
    // Nothing listens at this address of loopback, on that port.
    let script = Script::default().answer("two.test", &[ip("127.0.0.99"), ip("127.0.0.1")]);
    let outgoing = scripted(&script, true);
    let url = format!("http://two.test:{}/", peer.address.port());
    assert_eq!(outgoing.send(get(&url)).await.unwrap().status, 200);
    assert_eq!((script.questions(), outgoing.connects()), (1, 2));
}

#[tokio::test]
async fn what_the_text_refuses_is_not_even_asked_for() {
    let script = Script::default().answer("metadata.google.internal", &[ip("93.184.216.34")]);
    let outgoing = scripted(&script, false);
    assert!(outgoing.check("https://metadata.google.internal/").await.is_err());
    assert_eq!(script.questions(), 0);
}

#[tokio::test]
async fn the_machine_knows_its_own_name() {
    let peer = Peer::saying([Reply::json(200, "{}")]).await;
    let outgoing = holdpoint_engine::outgoing::Outgoing::new(holdpoint_engine::outgoing::Policy {
        allow_loopback: true,
        ..Default::default()
    });
    let url = format!("http://localhost:{}/", peer.address.port());
    assert_eq!(outgoing.send(get(&url)).await.unwrap().status, 200, "by the resolver of the system");
}
