//! An interrupt of a provider behaves like every interrupt: webhooks get its events, and approvers answer it by key,
//! link or front end.

use serde_json::{Value, json};

use super::provider_case::ProviderCase;
use super::recorded_server::{RecordedServer, outcome};
use crate::agui::{FrontEnd, resolved};
use crate::receiver::Receiver;
use crate::test_database::TestDatabase;

type AnswerRoute = fn(&RecordedServer<'_>, &dyn ProviderCase, &WaitingInterrupt);

/// A pending interrupt, and the answer that lets the graph continue.
struct WaitingInterrupt {
    run: String,
    node: String,
    interrupt: String,
    answer: Value,
}

pub(crate) fn answer_by_every_route(case: &mut dyn ProviderCase, database: &TestDatabase) {
    let server = RecordedServer::open(database, case, &json!({}));
    let subscriber = Receiver::start();
    let events = json!({"url": subscriber.url, "events": ["interrupt.requested", "interrupt.resolved"]});
    assert_eq!(server.send("POST", "/v1/webhooks", Some(&events)).status, 201);
    let routes: [(&str, AnswerRoute); 3] =
        [("with-a-key", by_key), ("by-link", by_link), ("in-a-front-end", by_front_end)];
    for ((key, route), count) in routes.into_iter().zip(1..) {
        server.start_and_expect_interrupt(case, key);
        let waiting = waiting(&server, case);
        route(&server, case, &waiting);
        let done = server.until(key, |answer| outcome(answer) != "running");
        assert_eq!(outcome(&done), "completed", "{key}: {done:?}");
        assert_eq!(case.sent(), count, "{key}");
        // The webhook gets both events of this interrupt before the next one is opened.
        let received = subscriber.wait_for(2 * count);
        let of: Vec<_> = received
            .iter()
            .skip(2 * (count - 1))
            .map(|one| (one.event_type(), one.json()["runId"].clone()))
            .collect();
        let run = json!(waiting.run);
        assert_eq!(
            of,
            [("interrupt.requested", run.clone()), ("interrupt.resolved", run)],
            "{key}: {received:?}"
        );
    }
    for received in subscriber.requests() {
        server.record(&String::from_utf8_lossy(&received.body));
    }
    server.assert_no_internal_names_leaked(case);
}

fn waiting(server: &RecordedServer<'_>, case: &dyn ProviderCase) -> WaitingInterrupt {
    let waiting = server.waiting_run(workflow(case));
    let text = |name: &str| waiting[name].as_str().unwrap_or_else(|| panic!("{name}: {waiting}")).to_owned();
    let answer = if waiting["kind"] == "approval" { json!({"action": "accept"}) } else { case.approve() };
    WaitingInterrupt { run: text("runId"), node: text("nodeId"), interrupt: text("interruptId"), answer }
}

/// Returns the workflow id of the runs of the graph.
fn workflow(case: &dyn ProviderCase) -> &'static str {
    case.graph().strip_prefix("native:").unwrap_or(case.graph())
}

fn by_key(server: &RecordedServer<'_>, _side: &dyn ProviderCase, waiting: &WaitingInterrupt) {
    let path = format!("/v1/runs/{}/interrupts/{}", waiting.run, waiting.node);
    let answered = server.send("POST", &path, Some(&json!({"resumeValue": waiting.answer})));
    assert_eq!(answered.status, 200, "{answered:?}");
}

fn by_link(server: &RecordedServer<'_>, _side: &dyn ProviderCase, waiting: &WaitingInterrupt) {
    let path = format!("/v1/runs/{}/interrupts/{}/tokens", waiting.run, waiting.node);
    let minted = server.send("POST", &path, Some(&json!({})));
    let token = minted.body["token"].as_str().unwrap_or_else(|| panic!("{minted:?}"));
    let anonymous = server.client().with_key(None);
    let answered =
        anonymous.post(&format!("/v1/interrupts/{token}"), &json!({"resumeValue": waiting.answer}));
    assert_eq!(answered.status, 200, "{answered:?}");
}

/// Answers in a front end. A run without a given thread has its own id as thread.
fn by_front_end(server: &RecordedServer<'_>, case: &dyn ProviderCase, waiting: &WaitingInterrupt) {
    let front = FrontEnd::new(server.client(), workflow(case), &waiting.run);
    let shown = front.thread();
    server.record(&shown.to_string());
    assert_eq!(shown["interrupts"][0]["id"], waiting.interrupt.as_str(), "{shown}");
    let payload = if waiting.answer["action"] == "accept" { json!(true) } else { waiting.answer.clone() };
    let received = front.resume(json!([resolved(&waiting.interrupt, payload)]));
    received.assert_success();
    server.record(&format!("{received:?}"));
}
