//! The typed Rust client against the real server: its examples, retries, streams across restarts, errors and pages.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use holdpoint_client::api::Page;
use holdpoint_client::api::chat::{Chat, ChatState};
use holdpoint_client::api::ids::{Status, StrictValue};
use holdpoint_client::api::interrupts::{ResolveApproval, ResolveInterrupt};
use holdpoint_client::api::runs::{CreateRun, ListRuns};
use holdpoint_client::{Client, Error, RetryPolicy, webhook};
use serde_json::json;

use crate::harness::{KEY, Server, gated};
use crate::receiver::{Hook, Receiver, server_at};

#[allow(unreachable_pub)]
#[path = "../../../holdpoint-client/examples/approval.rs"]
mod approval;
#[allow(unreachable_pub)]
#[path = "../../../holdpoint-client/examples/hold.rs"]
mod hold;

fn client(server: &Server) -> Client {
    Client::builder(&server.url).key(KEY).build().unwrap()
}

fn run_of(workflow: &str) -> CreateRun {
    CreateRun { workflow_id: workflow.to_owned(), ..CreateRun::default() }
}

fn accept() -> ResolveInterrupt {
    ResolveInterrupt { resume_value: StrictValue(json!({"action": "accept"})), ..ResolveInterrupt::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_in_the_documentation_run() {
    let server = Server::start();
    assert_eq!(approval::approve(&server.url, KEY).await.unwrap(), Status::Completed);
    let client = client(&server);
    let answering = async {
        loop {
            let pending = client.interrupts().pending(&Default::default()).await.unwrap();
            // The hold must be answered by another principal than the one that created it.
            if let Some(hold) = pending.interrupts.first() {
                let approver = crate::harness::create_key(&server.client, &json!({"principal": "approver"}));
                let approver =
                    Client::builder(&server.url).key(approver["key"].as_str().unwrap()).build().unwrap();
                let answer = ResolveApproval {
                    resume_value: json!({"action": "accept"}).as_object().unwrap().clone(),
                    ..ResolveApproval::default()
                };
                let (run, node) = (hold.run_id.as_str(), hold.node_id.as_str());
                return approver.interrupts().resolve_approval(run, node, &answer).await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let (granted, resolved) = tokio::join!(hold::delete_rows(&server.url, KEY), answering);
    assert!(granted.unwrap());
    assert_eq!(resolved.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_takes_turns_and_has_a_history() {
    let server = Server::start();
    let client = client(&server);
    let chats = client.chats();
    let base = Chat { state_key: Some("talk".to_owned()), ..Chat::default() };
    let input = |topic: &str| Some(StrictValue(json!({"topic": topic})));
    let graph = Some("native:content-review".to_owned());
    let start = Chat { graph, turn_id: Some("t-1".to_owned()), input: input("cats"), ..base.clone() };
    assert_eq!(chats.send(&start).await.unwrap().outcome, ChatState::NeedsInput);
    let reject = Some(StrictValue(json!({"action": "reject"})));
    let answer = Chat { resume_id: Some("r-1".to_owned()), resume_value: reject, ..base.clone() };
    assert_eq!(chats.send(&answer).await.unwrap().outcome, ChatState::Completed);
    let turn = Chat { turn_id: Some("t-2".to_owned()), input: input("dogs"), ..base };
    let asked = chats.send(&turn).await.unwrap();
    assert_eq!(chats.send(&turn).await.unwrap(), asked, "a repeated turn starts nothing");
    let history = chats.history("talk", &Page { limit: Some(1), cursor: None }).await.unwrap();
    assert_eq!((history.turns.len(), history.turns[0].turn_id.as_deref()), (1, Some("t-2")));
    let rest = chats.history("talk", &Page { limit: None, cursor: history.next_cursor }).await.unwrap();
    assert_eq!((rest.turns.len(), &rest.turns[0].input), (1, &json!({"topic": "cats"})));
    assert_eq!(chats.get("talk").await.unwrap().outcome, asked);
    assert_eq!(chats.delete("talk").await.unwrap().outcome.outcome, ChatState::Error);
    let late = Chat { turn_id: Some("t-3".to_owned()), ..turn };
    assert_eq!(chats.send(&late).await.unwrap_err().code(), Some("conversation_ended"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_has_its_status_code_and_details() {
    let server = Server::start();
    let client = client(&server);
    let run = client.runs().create(&run_of("sample-approval")).await.unwrap();
    let run = run.run_id.as_str();
    client.interrupts().resolve(run, "review", &accept()).await.unwrap();
    let error = client.interrupts().resolve(run, "review", &accept()).await.unwrap_err();
    assert_eq!((error.status(), error.code()), (Some(409), Some("interrupt_already_resolved")));
    assert!(!error.is_transient());
    let error = client.runs().get("../keys?x=1").await.unwrap_err();
    assert_eq!(error.status(), Some(404), "an id stays one segment of the path: {error}");
    for path in ["@evil.example/x", ".evil.example/x", "/v1/runs/%2e%2E/keys", "/v1\\..\\keys"] {
        let error = client.get::<serde_json::Value>(path).await.unwrap_err();
        assert!(matches!(error, Error::InvalidRequest(_)), "{path}: {error:?}");
    }
    for dots in [".", ".."] {
        let error = client.keys().revoke(dots).await.unwrap_err();
        assert!(matches!(error, Error::InvalidRequest(_)), "{dots}: {error:?}");
    }
    let strangers = Client::builder(&server.url).key("hp_unknown").build().unwrap();
    assert_eq!(strangers.runs().get(run).await.unwrap_err().status(), Some(401));
    assert!(!format!("{strangers:?}").contains("hp_unknown"), "no key is shown");
    assert!(!format!("{:?}", Client::builder("http://a").key("hp_secret")).contains("hp_secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_no_holdpoint_server_is_reported() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let client = Client::builder(&url).retry(RetryPolicy::OFF).build().unwrap();
    assert!(matches!(client.runs().get("r").await, Err(Error::Connect { .. })));
    for (server, valid) in [
        ("127.0.0.1:8484", false),
        ("ftp://a", false),
        ("", false),
        ("http://u:p@a", false),
        ("http://a?b", false),
        ("http://a/base", true),
    ] {
        assert_eq!(Client::builder(server).build().is_ok(), valid, "{server}");
    }
    assert!(Client::builder("https://a").authorities("no certificate").build().is_err());
    assert!(Client::builder("http://a").key("a\nb").build().is_err());
}

/// Forwards connections to a server. Cuts the first ones after the request has reached the server and before the
/// response reaches the client.
struct CuttingProxy {
    url: String,
    cut: Arc<AtomicUsize>,
}

impl CuttingProxy {
    fn start(server: &Server, cuts: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let target = server.url.trim_start_matches("http://").to_owned();
        let cut = Arc::new(AtomicUsize::new(0));
        let counter = cut.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&target).unwrap();
                let must_cut = counter.load(Ordering::SeqCst) < cuts;
                counter.fetch_add(usize::from(must_cut), Ordering::SeqCst);
                forward(client.try_clone().unwrap(), server.try_clone().unwrap(), false);
                forward(server, client, must_cut);
            }
        });
        Self { url, cut }
    }
}

/// Copies bytes in a thread of its own. If `cuts`, it closes both connections when the first byte arrives.
fn forward(mut from: TcpStream, mut to: TcpStream, cuts: bool) {
    std::thread::spawn(move || {
        let mut buffer = [0; 16 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            if cuts || to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_response_is_lost_is_carried_out_once() {
    let server = Server::start();
    let proxy = CuttingProxy::start(&server, 2);
    let retry = RetryPolicy { delay_first: Duration::from_millis(1), ..RetryPolicy::default() };
    let through_proxy = Client::builder(&proxy.url).key(KEY).retry(retry).build().unwrap();
    let reply = through_proxy.runs().create(&run_of("sample-approval")).reply().await.unwrap();
    assert_eq!(proxy.cut.load(Ordering::SeqCst), 2, "two responses were lost");
    assert!(reply.replayed, "the server sends the response of the first attempt again");
    let runs = client(&server).runs().list(&ListRuns::default()).await.unwrap().runs;
    assert_eq!(runs.len(), 1, "one run was started");
    let proxy = CuttingProxy::start(&server, 1);
    let once = Client::builder(&proxy.url).key(KEY).retry(RetryPolicy::OFF).build().unwrap();
    let error = once.runs().create(&run_of("sample-approval")).await.unwrap_err();
    assert!(matches!(error, Error::Connection { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_continues_after_a_crash_of_the_server() {
    let mut server = Server::start();
    let client = client(&server);
    client.workflows().put("gated", &gated("gated")).await.unwrap();
    let run = client.runs().create(&run_of("gated")).await.unwrap().run_id;
    let mut events = client.runs().watch(run.as_str(), &Default::default());
    let mut seen = Vec::new();
    while seen.last() != Some(&"interrupt.requested".to_owned()) {
        let event = events.next().await.unwrap().expect("the run waits and the stream is open");
        seen.push(event.event);
    }
    let address = server.url.trim_start_matches("http://").to_owned();
    server.kill();
    let restart = std::thread::spawn(move || Server::restart_at(server, &address));
    let rest = tokio::spawn(async move {
        let mut rest = Vec::new();
        while let Some(event) = events.next().await.unwrap() {
            rest.push((event.id.unwrap().parse::<u64>().unwrap(), event.event));
        }
        rest
    });
    let _server = restart.join().unwrap();
    client.interrupts().resolve(run.as_str(), "gate", &accept()).await.unwrap();
    let rest = rest.await.unwrap();
    assert_eq!(rest.last().map(|(_, kind)| kind.as_str()), Some("run.completed"));
    let ids: Vec<u64> = rest.iter().map(|(id, _)| *id).collect();
    let poll = client.runs().poll(run.as_str(), &Default::default()).await.unwrap();
    let log: Vec<u64> = poll.events.iter().map(|event| event.sequence).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "no event comes twice: {ids:?}");
    assert_eq!(ids.last(), log.last());
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_collected_up_to_the_limit() {
    let server = Server::start();
    let client = client(&server);
    for _ in 0..5 {
        client.runs().create(&run_of("sample-approval")).await.unwrap();
    }
    // The server returns pages of two at most if the query asks for them.
    let list = || client.runs().list(&ListRuns::default()).page_size(2);
    assert_eq!(list().collect(4).await.unwrap().value.runs.len(), 4);
    let all = list().collect(100).await.unwrap().value;
    assert_eq!((all.runs.len(), all.next_cursor), (5, None));
    let ids: std::collections::BTreeSet<_> = all.runs.iter().map(|run| run.run_id.clone()).collect();
    assert_eq!(ids.len(), 5, "no run comes twice");
}

#[test]
fn deliveries_of_the_server_are_verified() {
    let database = crate::test_database::TestDatabase::sqlite();
    let server = server_at(&database, &[]);
    let receiver = Receiver::start();
    let hook = Hook::create(&server.client, &receiver.url, json!({"events": ["run.started"]}));
    server.client.start_run("sample-approval");
    let delivery = &receiver.wait_for(1)[0];
    let header = |name: &str| delivery.headers.get(name).map(String::as_str);
    let now = jiff::Timestamp::now().as_second();
    let signed = webhook::verify(&hook.secret, header, &delivery.body, now).unwrap();
    assert_eq!(signed.event_type.as_deref(), Some("run.started"));
    let forged = webhook::verify("another secret", header, &delivery.body, now);
    assert_eq!(forged, Err(webhook::Rejection::BadSignature));
}
