//! DNS rebinding and redirects: names that resolve to private addresses after registration or in part, and redirects to
//! private addresses, for webhooks and `core.http`.

use std::net::SocketAddr;

use holdpoint_engine::core::webhook::{DeliveryState, Mode, RetryPolicy};
use holdpoint_engine::outgoing::{
    Authorities, Dialer, Outgoing, OutgoingPolicy, Resolver, ScriptedResolver, Switchboard,
};
use holdpoint_engine::{Attempt, AttemptFilter, DeliveryFilter, DeliveryWorker, Error, NewWebhook, Webhook};
use serde_json::json;
use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::courier::delivery_worker;
use crate::outgoing::node::failure;
use crate::outgoing::tls::acceptor;
use crate::peer::{Peer, PeerReply, ip};
use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, gated, line, tenant};

on_both! {
    a_webhook_whose_name_resolves_to_a_private_address_after_registration_is_not_called,
    an_attempt_resolves_the_name_once_and_connects_to_that_address,
    a_webhook_with_one_private_address_is_rejected_at_registration_and_at_delivery,
    a_webhook_delivery_does_not_follow_redirects_to_private_addresses,
    core_http_does_not_follow_redirects_to_private_addresses,
    a_name_that_resolves_to_a_private_address_after_registration_fails_the_node,
}

const PUBLIC: &str = "93.184.216.34";
const INSIDE: [&str; 6] =
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254", "::ffff:192.168.1.1"];
const URL: &str = "https://hook.example/in?key=hunter2";

/// An engine with a simulated network of one host: `hook.example` at a public address, with a trusted certificate.
struct SimulatedNetwork {
    worker: DeliveryWorker,
    env: TestEnv,
    peer: Peer,
    script: ScriptedResolver,
    switchboard: Switchboard,
    outgoing: Outgoing,
    _folder: TempDir,
}

impl SimulatedNetwork {
    /// Takes the addresses of each lookup of the name, and the replies of the host.
    async fn with(
        database: TestDatabase,
        answers: &[&[&str]],
        replies: impl IntoIterator<Item = PeerReply>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let certificates = Certificates::new(folder.path().join("certificates"));
        certificates.authority("ours");
        certificates.signed("host", "elsewhere", "ours");
        let pem = std::fs::read(certificates.certificate("ours")).unwrap();
        let peer = Peer::with_tls(replies, acceptor(&certificates, "host")).await;
        let addresses = |answer: &&[&str]| answer.iter().map(|text| ip(text)).collect::<Vec<_>>();
        let script = answers
            .iter()
            .map(addresses)
            .fold(ScriptedResolver::default(), |all, one| all.answer("hook.example", &one));
        let switchboard = Switchboard::default().route(ip(PUBLIC), peer.address);
        let outgoing = Outgoing::new(OutgoingPolicy {
            authorities: Authorities::from_pem(&pem).unwrap(),
            resolver: Resolver::Scripted(script.clone()),
            dialer: Dialer::Switched(switchboard.clone()),
            ..OutgoingPolicy::default()
        });
        let env = TestEnv::with(database, |options| options.outgoing(outgoing.clone())).await;
        env.register(gated("gated")).await;
        let worker = delivery_worker(&env.engine);
        Self { worker, env, peer, script, switchboard, outgoing, _folder: folder }
    }

    async fn hook(&self, mode: Mode) -> Result<Webhook, Error> {
        let mut new = NewWebhook::new(tenant(), URL, ["run.started".to_owned()]);
        (new.mode, new.retry) = (mode, RetryPolicy { max_attempts: 1, ..RetryPolicy::default() });
        self.env.engine.webhooks().add(new).await.map(|(hook, _)| hook)
    }

    /// Causes one event and executes all attempts to deliver it.
    async fn deliver_event(&mut self) {
        // Longer than the delay after failed deliveries.
        self.env.clock.advance(30_000);
        self.env.start("gated").await;
        self.worker.drain().await.unwrap();
    }

    /// Returns the attempts, newest first.
    async fn attempts(&self, hook: &Webhook) -> Vec<Attempt> {
        let filter = AttemptFilter { limit: 100, ..AttemptFilter::default() };
        self.env.engine.deliveries().attempts(&tenant(), &hook.id, &filter).await.unwrap()
    }

    async fn states(&self, hook: &Webhook) -> Vec<DeliveryState> {
        let filter = DeliveryFilter { limit: 100, ..DeliveryFilter::default() };
        let found = self.env.engine.deliveries().list(&tenant(), &hook.id, &filter).await.unwrap();
        found.iter().map(|delivery| delivery.state).collect()
    }

    fn assert_connections(&self, times: usize) {
        let expected = vec![SocketAddr::new(ip(PUBLIC), 443); times];
        assert_eq!((self.switchboard.dials(), self.outgoing.connects()), (expected, times as u64));
    }
}

fn ok() -> PeerReply {
    PeerReply::json(200, "{}")
}

/// A redirect.
fn redirect(status: u16, to: &str) -> PeerReply {
    PeerReply::Say(format!("HTTP/1.1 {status} X\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"))
}

async fn a_webhook_whose_name_resolves_to_a_private_address_after_registration_is_not_called(
    database: TestDatabase,
) {
    let mut answers: Vec<&[&str]> = vec![&[PUBLIC]];
    for inside in &INSIDE {
        answers.push(std::slice::from_ref(inside));
    }
    answers.push(&[PUBLIC]);
    let mut network = SimulatedNetwork::with(database, &answers, [ok()]).await;
    let hook = network.hook(Mode::Durable).await.unwrap();
    network.assert_connections(0);
    for inside in INSIDE {
        network.deliver_event().await;
        let attempt = &network.attempts(&hook).await[0];
        let error = attempt.error.as_deref().unwrap();
        assert!(error.contains("must not be called") && !error.contains("hunter2"), "{inside}: {error}");
        assert_eq!(network.states(&hook).await[0], DeliveryState::DeadLettered, "{inside}");
        network.assert_connections(0);
    }
    network.deliver_event().await;
    assert_eq!(network.states(&hook).await[0], DeliveryState::Delivered, "a public address is called");
    network.assert_connections(1);
    assert_eq!(network.peer.header("host"), [Some("hook.example".to_owned())]);
}

async fn an_attempt_resolves_the_name_once_and_connects_to_that_address(database: TestDatabase) {
    let mut network = SimulatedNetwork::with(database, &[&[PUBLIC], &[PUBLIC], &["127.0.0.1"]], [ok()]).await;
    let hook = network.hook(Mode::BestEffort).await.unwrap();
    network.deliver_event().await;
    assert_eq!(network.states(&hook).await, [DeliveryState::Delivered]);
    network.assert_connections(1);
    assert_eq!(network.script.lookups(), 2, "one lookup at the registration, one in the attempt");
    network.deliver_event().await;
    assert_eq!(network.states(&hook).await[0], DeliveryState::Dropped);
    network.assert_connections(1);
}

async fn a_webhook_with_one_private_address_is_rejected_at_registration_and_at_delivery(
    database: TestDatabase,
) {
    let mixed: &[&str] = &[PUBLIC, "2606:2800:220:1::1", "10.0.0.1"];
    let mut network = SimulatedNetwork::with(database, &[mixed, &[PUBLIC], mixed], [ok()]).await;
    let refused = network.hook(Mode::Durable).await;
    assert!(matches!(refused, Err(Error::Target(_))), "{refused:?}");
    let hook = network.hook(Mode::Durable).await.unwrap();
    network.deliver_event().await;
    assert_eq!(network.states(&hook).await, [DeliveryState::DeadLettered]);
    let error = network.attempts(&hook).await[0].error.clone().unwrap();
    assert!(
        error.contains("10.0.0.0/8") && !error.contains("10.0.0.1"),
        "the error contains the network, not the address: {error}"
    );
    network.assert_connections(0);
}

async fn a_webhook_delivery_does_not_follow_redirects_to_private_addresses(database: TestDatabase) {
    let trap = Peer::with_replies([ok()]).await;
    let inside = [trap.url("/"), "https://169.254.169.254/latest".to_owned(), "//10.0.0.1/".to_owned()];
    let replies =
        [301, 302, 303, 307, 308].iter().flat_map(|status| inside.iter().map(|to| redirect(*status, to)));
    let replies: Vec<PeerReply> = replies.collect();
    let count = replies.len();
    let mut network = SimulatedNetwork::with(database, &[&[PUBLIC]], replies).await;
    let hook = network.hook(Mode::Durable).await.unwrap();
    for at in 1..=count {
        network.deliver_event().await;
        network.assert_connections(at);
        let error = network.attempts(&hook).await[0].error.clone().unwrap();
        assert!(error.starts_with("answered 30"), "{error}");
    }
    assert!(network.states(&hook).await.iter().all(|state| *state == DeliveryState::DeadLettered));
    assert!(trap.requests().is_empty(), "redirects are not followed");
}

async fn core_http_does_not_follow_redirects_to_private_addresses(database: TestDatabase) {
    let trap = Peer::with_replies([ok()]).await;
    let network = SimulatedNetwork::with(database, &[&[PUBLIC]], [redirect(307, &trap.url("/"))]).await;
    let env = &network.env;
    env.register(line("strict", &[("call", "core.http", json!({"url": URL}))])).await;
    env.register(line("lax", &[("call", "core.http", json!({"url": URL, "expectStatus": 307}))])).await;
    let of = env.start("strict").await;
    env.drain().await;
    assert_eq!(failure(env, &of).await.code, "http_status");
    network.assert_connections(1);
    let of = env.start("lax").await;
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed", "a redirect is an ordinary response");
    network.assert_connections(2);
    assert!(trap.requests().is_empty(), "redirects are not followed");
}

async fn a_name_that_resolves_to_a_private_address_after_registration_fails_the_node(database: TestDatabase) {
    let network = SimulatedNetwork::with(database, &[&[PUBLIC], &["127.0.0.1"]], [ok()]).await;
    let env = &network.env;
    env.register(line("call", &[("call", "core.http", json!({"url": URL}))])).await;
    let of = env.start("call").await;
    env.drain().await;
    assert_eq!(env.status(&of).await, "completed", "{:?}", env.run(&of).await.end);
    network.assert_connections(1);
    let of = env.start("call").await;
    env.drain().await;
    let error = failure(env, &of).await;
    assert_eq!((error.code.as_str(), error.retryable), ("http_refused", false));
    assert!(!error.message.contains("hunter2"), "{}", error.message);
    network.assert_connections(1);
}
