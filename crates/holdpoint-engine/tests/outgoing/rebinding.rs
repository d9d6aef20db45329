//! Names that change their mind between a registration and a delivery, or say two things at once; and answers that point
//! inside. Webhooks and `core.http` are held to what was judged.

use std::net::SocketAddr;
use std::sync::Arc;

use holdpoint_engine::core::RunRef;
use holdpoint_engine::core::webhook::{DeliveryState, Mode, RetryPolicy};
use holdpoint_engine::outgoing::{Authorities, Dialer, Outgoing, Policy, Resolver, Script, Switchboard};
use holdpoint_engine::{
    Attempt, AttemptFilter, Courier, DeliveryFilter, Error, NewWebhook, Render, Rendered, Rendering, Webhook,
};
use serde_json::json;
use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::house::{House, gated, line, tenant};
use crate::node::failure;
use crate::peer::{Peer, Reply, ip};
use crate::place::{Place, on_both};
use crate::tls::acceptor;

on_both! {
    a_webhook_whose_name_turns_inward_after_its_registration_is_not_called,
    one_attempt_asks_once_and_is_held_to_that_answer,
    a_webhook_with_one_private_address_among_public_ones_is_refused_at_both_times,
    a_redirect_to_the_inside_is_the_end_of_an_attempt,
    a_redirect_to_the_inside_is_the_end_of_a_call_of_a_node,
    a_name_that_turns_inward_after_its_definition_was_registered_fails_the_node,
}

const PUBLIC: &str = "93.184.216.34";
const INSIDE: [&str; 6] =
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254", "::ffff:192.168.1.1"];
const URL: &str = "https://hook.example/in?key=hunter2";

struct Fixed;

impl Render for Fixed {
    fn event<'a>(&'a self, _of: &'a RunRef, _seq: u64) -> Rendering<'a> {
        let said = Rendered { event_type: "run.started".to_owned(), body: b"{}".to_vec(), trace: Vec::new() };
        Box::pin(async move { Ok(Some(said)) })
    }

    fn callback<'a>(&'a self, of: &'a RunRef, seq: u64) -> Rendering<'a> {
        self.event(of, seq)
    }
}

/// An engine in an internet of one host: `hook.example` at a public address, with a certificate that is trusted.
struct Internet {
    courier: Courier,
    house: House,
    peer: Peer,
    script: Script,
    board: Switchboard,
    outgoing: Outgoing,
    _folder: TempDir,
}

impl Internet {
    /// What the name leads to, answer by answer, and what the host says.
    async fn with(place: Place, answers: &[&[&str]], replies: impl IntoIterator<Item = Reply>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let certificates = Certificates::new(folder.path().join("certificates"));
        certificates.authority("ours");
        certificates.signed("host", "elsewhere", "ours");
        let pem = std::fs::read(certificates.certificate("ours")).unwrap();
        let peer = Peer::securely(replies, acceptor(&certificates, "host")).await;
        let addresses = |answer: &&[&str]| answer.iter().map(|text| ip(text)).collect::<Vec<_>>();
        let script = answers
            .iter()
            .map(addresses)
            .fold(Script::default(), |all, one| all.answer("hook.example", &one));
        let board = Switchboard::default().route(ip(PUBLIC), peer.address);
        let outgoing = Outgoing::new(Policy {
            authorities: Authorities::from_pem(&pem).unwrap(),
            resolver: Resolver::Scripted(script.clone()),
            dialer: Dialer::Switched(board.clone()),
            ..Policy::default()
        });
        let house = House::with(place, |options| options.outgoing(outgoing.clone())).await;
        house.register(gated("gated")).await;
        let courier = house.engine.courier(Arc::new(Fixed));
        Self { courier, house, peer, script, board, outgoing, _folder: folder }
    }

    async fn hook(&self, mode: Mode) -> Result<Webhook, Error> {
        let mut new = NewWebhook::new(tenant(), URL, ["run.started".to_owned()]);
        (new.mode, new.retry) = (mode, RetryPolicy { max_attempts: 1, ..RetryPolicy::default() });
        self.house.engine.add_webhook(new).await.map(|(hook, _)| hook)
    }

    /// One more event, and every attempt to tell it.
    async fn tell(&mut self) {
        // However long a subscriber rests that takes nothing.
        self.house.clock.advance(30_000);
        self.house.start("gated").await;
        self.courier.drain().await.unwrap();
    }

    /// Newest first.
    async fn attempts(&self, hook: &Webhook) -> Vec<Attempt> {
        let filter = AttemptFilter { limit: 100, ..AttemptFilter::default() };
        self.house.engine.attempts(&tenant(), &hook.id, &filter).await.unwrap()
    }

    async fn states(&self, hook: &Webhook) -> Vec<DeliveryState> {
        let filter = DeliveryFilter { limit: 100, ..DeliveryFilter::default() };
        let found = self.house.engine.deliveries(&tenant(), &hook.id, &filter).await.unwrap();
        found.iter().map(|delivery| delivery.state).collect()
    }

    fn dialled(&self, times: usize) {
        let expected = vec![SocketAddr::new(ip(PUBLIC), 443); times];
        assert_eq!((self.board.dials(), self.outgoing.connects()), (expected, times as u64));
    }
}

fn ok() -> Reply {
    Reply::json(200, "{}")
}

/// Says that it is somewhere else.
fn redirect(status: u16, to: &str) -> Reply {
    Reply::Say(format!("HTTP/1.1 {status} X\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"))
}

async fn a_webhook_whose_name_turns_inward_after_its_registration_is_not_called(place: Place) {
    let mut answers: Vec<&[&str]> = vec![&[PUBLIC]];
    for inside in &INSIDE {
        answers.push(std::slice::from_ref(inside));
    }
    answers.push(&[PUBLIC]);
    let mut internet = Internet::with(place, &answers, [ok()]).await;
    let hook = internet.hook(Mode::Durable).await.unwrap();
    internet.dialled(0);
    for inside in INSIDE {
        internet.tell().await;
        let attempt = &internet.attempts(&hook).await[0];
        let error = attempt.error.as_deref().unwrap();
        assert!(error.contains("must not be called") && !error.contains("hunter2"), "{inside}: {error}");
        assert_eq!(internet.states(&hook).await[0], DeliveryState::DeadLettered, "{inside}");
        internet.dialled(0);
    }
    internet.tell().await;
    assert_eq!(
        internet.states(&hook).await[0],
        DeliveryState::Delivered,
        "it would have worked all the time"
    );
    internet.dialled(1);
    assert_eq!(internet.peer.header("host"), [Some("hook.example".to_owned())]);
}

async fn one_attempt_asks_once_and_is_held_to_that_answer(place: Place) {
    let mut internet = Internet::with(place, &[&[PUBLIC], &[PUBLIC], &["127.0.0.1"]], [ok()]).await;
    let hook = internet.hook(Mode::BestEffort).await.unwrap();
    internet.tell().await;
    assert_eq!(internet.states(&hook).await, [DeliveryState::Delivered]);
    internet.dialled(1);
    assert_eq!(internet.script.questions(), 2, "at the registration, and in the attempt");
    internet.tell().await;
    assert_eq!(internet.states(&hook).await[0], DeliveryState::Dropped);
    internet.dialled(1);
}

async fn a_webhook_with_one_private_address_among_public_ones_is_refused_at_both_times(place: Place) {
    let mixed: &[&str] = &[PUBLIC, "2606:2800:220:1::1", "10.0.0.1"];
    let mut internet = Internet::with(place, &[mixed, &[PUBLIC], mixed], [ok()]).await;
    let refused = internet.hook(Mode::Durable).await;
    assert!(matches!(refused, Err(Error::Target(_))), "{refused:?}");
    let hook = internet.hook(Mode::Durable).await.unwrap();
    internet.tell().await;
    assert_eq!(internet.states(&hook).await, [DeliveryState::DeadLettered]);
    let error = internet.attempts(&hook).await[0].error.clone().unwrap();
    assert!(
        error.contains("10.0.0.0/8") && !error.contains("10.0.0.1"),
        "the network, not the address: {error}"
    );
    internet.dialled(0);
}

async fn a_redirect_to_the_inside_is_the_end_of_an_attempt(place: Place) {
    let trap = Peer::saying([ok()]).await;
    let inside = [trap.url("/"), "https://169.254.169.254/latest".to_owned(), "//10.0.0.1/".to_owned()];
    let replies =
        [301, 302, 303, 307, 308].iter().flat_map(|status| inside.iter().map(|to| redirect(*status, to)));
    let replies: Vec<Reply> = replies.collect();
    let count = replies.len();
    let mut internet = Internet::with(place, &[&[PUBLIC]], replies).await;
    let hook = internet.hook(Mode::Durable).await.unwrap();
    for at in 1..=count {
        internet.tell().await;
        internet.dialled(at);
        let error = internet.attempts(&hook).await[0].error.clone().unwrap();
        assert!(error.starts_with("answered 30"), "{error}");
    }
    assert!(internet.states(&hook).await.iter().all(|state| *state == DeliveryState::DeadLettered));
    assert!(trap.heard().is_empty(), "nothing is followed");
}

async fn a_redirect_to_the_inside_is_the_end_of_a_call_of_a_node(place: Place) {
    let trap = Peer::saying([ok()]).await;
    let internet = Internet::with(place, &[&[PUBLIC]], [redirect(307, &trap.url("/"))]).await;
    let house = &internet.house;
    house.register(line("strict", &[("call", "core.http", json!({"url": URL}))])).await;
    house.register(line("lax", &[("call", "core.http", json!({"url": URL, "expectStatus": 307}))])).await;
    let of = house.start("strict").await;
    house.drain().await;
    assert_eq!(failure(house, &of).await.code, "http_status");
    internet.dialled(1);
    let of = house.start("lax").await;
    house.drain().await;
    assert_eq!(house.status(&of).await, "completed", "an answer like any other");
    internet.dialled(2);
    assert!(trap.heard().is_empty(), "nothing is followed");
}

async fn a_name_that_turns_inward_after_its_definition_was_registered_fails_the_node(place: Place) {
    let internet = Internet::with(place, &[&[PUBLIC], &["127.0.0.1"]], [ok()]).await;
    let house = &internet.house;
    house.register(line("call", &[("call", "core.http", json!({"url": URL}))])).await;
    let of = house.start("call").await;
    house.drain().await;
    assert_eq!(house.status(&of).await, "completed", "{:?}", house.run(&of).await.end);
    internet.dialled(1);
    let of = house.start("call").await;
    house.drain().await;
    let error = failure(house, &of).await;
    assert_eq!((error.code.as_str(), error.retryable), ("http_refused", false));
    assert!(!error.message.contains("hunter2"), "{}", error.message);
    internet.dialled(1);
}
