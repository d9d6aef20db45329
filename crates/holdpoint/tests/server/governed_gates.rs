//! Governed gates over HTTP: required roles and scopes, denials, overrides and their records.

use std::sync::Barrier;

use serde_json::{Value, json};

use crate::harness::{Client, Response, Server, client_with_key as key, create_key, linear};

const TYPE: &str = "core.openwop.governance.approvalGate";

fn holder(maker: &Client, name: &str, role: &str) -> Client {
    key(maker, &json!({"principal": name, "roles": [role]}))
}

/// Starts a run that waits at a governed gate.
fn waiting(client: &Client, config: Value) -> String {
    let flow = linear("governed", &[("gate", TYPE, config), ("after", "core.noop", json!({}))]);
    let put = client.put("/v1/workflows/governed", &flow);
    assert!([200, 201].contains(&put.status), "{put:?}");
    client.start_run("governed")
}

fn decide(client: &Client, run: &str, decision: &str) -> Response {
    client.answer(run, "gate", &json!({"decision": decision, "reason": "so"}))
}

fn payloads(client: &Client, run: &str, kind: &str) -> Vec<Value> {
    let log = client.events(run);
    log.iter().filter(|event| event["type"] == kind).map(|event| event["payload"].clone()).collect()
}

#[test]
fn a_principal_without_the_role_gets_403_and_the_denial_is_recorded() {
    let server = Server::start();
    let admin = &server.client;
    let (eve, ann) = (holder(admin, "eve", "intern"), holder(admin, "ann", "release"));
    let bob = holder(admin, "bob", "release");
    let run = waiting(admin, json!({"requiredRole": "release", "quorum": 2}));
    decide(&eve, &run, "granted").assert_envelope(403, "forbidden");
    // The bootstrap key has every scope and no role.
    decide(admin, &run, "granted").assert_envelope(403, "forbidden");
    assert_eq!(admin.status(&run), "waiting-approval");
    let denied = payloads(admin, &run, "authorization.decided");
    assert_eq!(denied.len(), 2);
    assert_eq!(
        denied[0],
        json!({
            "principal": "eve", "action": "approvals:respond", "resource": format!("{run}:i1"), "allowed": false,
            "reason": "eve may not decide this interrupt: it requires the role \"release\"",
        })
    );
    assert_eq!(decide(&ann, &run, "granted").body["status"], "waiting-approval");
    assert_eq!(decide(&bob, &run, "granted").body["status"], "completed");
    let granted = payloads(admin, &run, "approval.granted");
    let vote = |name: &str, granted: u64| {
        let progress = json!({"granted": granted, "required": 2});
        json!({"gateId": "gate", "principal": name, "quorumProgress": progress})
    };
    assert_eq!(granted, [vote("ann", 1), vote("bob", 2)]);
    let resolved = &payloads(admin, &run, "interrupt.resolved")[0];
    assert_eq!((&resolved["action"], &resolved["decision"]), (&json!("accept"), &json!("granted")));
    for older in ["approval.requested", "approval.received"] {
        assert_eq!(payloads(admin, &run, older), Vec::<Value>::new(), "{older}");
    }
    let shown = admin.stream(&format!("/v1/runs/{run}/events?streamMode=updates"), None);
    assert!(shown.iter().any(|(_, event, _)| event == "approval.granted"), "{shown:?}");
    assert!(!shown.iter().any(|(_, event, _)| event == "authorization.decided"), "{shown:?}");
}

#[test]
fn the_request_shows_the_required_scope() {
    let server = Server::start();
    let admin = &server.client;
    let config = json!({"requiredScope": "keys:manage", "title": "Publish?", "timeoutSec": 60});
    let run = waiting(admin, config);
    let asked = admin.get(&format!("/v1/runs/{run}")).body["interrupt"].clone();
    assert_eq!((&asked["kind"], &asked["data"]["gateId"]), (&json!("approval"), &json!("gate")));
    assert_eq!(asked["data"]["requiredScope"], "keys:manage");
    assert_eq!(asked["data"]["title"], "Publish?");
    assert_eq!(payloads(admin, &run, "interrupt.requested")[0]["timeoutMs"], 60_000);
    let clerk = key(admin, &json!({"principal": "clerk"}));
    decide(&clerk, &run, "granted").assert_envelope(403, "forbidden");
    assert_eq!(decide(admin, &run, "granted").body["status"], "completed");
    let found = admin.with_key(None).get("/.well-known/openwop").body;
    assert_eq!(found["authorization"], json!({"supported": true, "failClosed": true}));
}

#[test]
fn a_denied_request_is_not_replayed_as_a_success() {
    let server = Server::start();
    let admin = &server.client;
    let eve = holder(admin, "eve", "intern");
    let run = waiting(admin, json!({"requiredRole": "release"}));
    let path = format!("/v1/runs/{run}/interrupts/gate");
    let body = json!({"resumeValue": {"decision": "granted"}}).to_string();
    let headers = [("content-type", "application/json"), ("idempotency-key", "one")];
    for _ in 0..2 {
        let answer = eve.exchange("POST", &path, Some(body.as_bytes()), &headers);
        assert_eq!(answer.status(), 403, "{}", answer.body());
    }
    assert_eq!(admin.status(&run), "waiting-approval");
    let ann = holder(admin, "ann", "release");
    let headers = [("content-type", "application/json"), ("idempotency-key", "two")];
    for replayed in [false, true] {
        let answer = ann.exchange("POST", &path, Some(body.as_bytes()), &headers);
        assert_eq!(answer.status(), 200, "{}", answer.body());
        assert_eq!(answer.headers().contains_key("openwop-idempotent-replay"), replayed);
    }
}

#[test]
fn an_override_is_recorded_in_the_run_and_in_the_server_log() {
    let (server, log) = Server::start_logging(&[], "info");
    let admin = &server.client;
    let (olga, eve) = (holder(admin, "olga", "owner"), holder(admin, "eve", "intern"));
    let run = waiting(
        admin,
        json!({
            "requiredRole": "release", "quorum": 3, "override": {"requiredRole": "owner", "audited": true},
            "overrideBypassesQuorum": true,
        }),
    );
    decide(&eve, &run, "overridden").assert_envelope(403, "forbidden");
    olga.answer(&run, "gate", &json!({"decision": "overridden"})).assert_envelope(400, "validation_error");
    assert_eq!(payloads(admin, &run, "authorization.decided")[0]["action"], "approvals:override");
    let past = json!({"decision": "overridden", "reason": "the site is down"});
    assert_eq!(olga.answer(&run, "gate", &past).body["status"], "completed");
    assert_eq!(
        payloads(admin, &run, "approval.overridden"),
        [json!({"gateId": "gate", "principal": "olga", "reason": "the site is down"})]
    );
    let resolved = &payloads(admin, &run, "interrupt.resolved")[0];
    assert_eq!(
        (&resolved["decision"], &resolved["reason"]),
        (&json!("overridden"), &json!("the site is down"))
    );
    let log = std::fs::read_to_string(log).unwrap();
    let entry = |event: &str, name: &str| {
        log.lines().any(|line| line.contains(event) && line.contains(name) && line.contains(&run))
    };
    assert!(entry("approval.overridden", "olga") && entry("authorization.decided", "eve"), "{log}");
    assert!(!log.contains("the site is down"), "the server log must not contain the reason");
}

#[test]
fn an_invalid_decision_gets_400_and_the_gate_stays_open() {
    let server = Server::start();
    let ann = holder(&server.client, "ann", "release");
    let run = waiting(&server.client, json!({"requiredRole": "release"}));
    for value in [
        json!("granted"),
        json!({}),
        json!({"decision": "approved"}),
        json!({"decision": "granted", "reason": 5}),
        json!({"decision": "overridden", "reason": "no such way here"}),
        json!({"action": "refine"}),
    ] {
        ann.answer(&run, "gate", &value).assert_envelope(400, "validation_error");
    }
    assert_eq!(payloads(&server.client, &run, "authorization.decided"), Vec::<Value>::new());
    assert_eq!(server.client.status(&run), "waiting-approval");
}

#[test]
fn of_sixteen_concurrent_votes_three_are_counted_and_one_decides() {
    let server = Server::start();
    let admin = &server.client;
    let clients: Vec<Client> = (0..16).map(|n| holder(admin, &format!("p{n}"), "release")).collect();
    for _ in 0..20 {
        let run = waiting(admin, json!({"requiredRole": "release", "quorum": 3}));
        let start = Barrier::new(clients.len());
        let answers = std::thread::scope(|scope| {
            let grant = |client: &Client| {
                start.wait();
                decide(client, &run, "granted")
            };
            let threads: Vec<_> = clients.iter().map(|client| scope.spawn(move || grant(client))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let (counted, late): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
        assert_eq!(counted.len(), 3, "{answers:?}");
        late.iter().for_each(|answer| answer.assert_envelope(409, "interrupt_already_resolved"));
        let granted = payloads(admin, &run, "approval.granted");
        let progress: Vec<&Value> = granted.iter().map(|said| &said["quorumProgress"]["granted"]).collect();
        assert_eq!(progress, [&json!(1), &json!(2), &json!(3)]);
        assert_eq!(payloads(admin, &run, "interrupt.resolved").len(), 1);
    }
}

#[test]
fn the_command_line_answers_a_governed_gate() {
    let server = Server::start();
    let made = create_key(&server.client, &json!({"principal": "ann", "roles": ["release", "owner"]}));
    let key = made["key"].as_str().unwrap();
    let config = json!({"requiredRole": "release", "override": {"requiredRole": "owner"}});
    for (action, status, told) in [
        ("accept", "completed", "approval.granted"),
        ("reject", "failed", "approval.rejected"),
        ("override", "completed", "approval.overridden"),
    ] {
        let run = waiting(&server.client, config.clone());
        let done = server.run(&["answer", "--key", key, &run, "gate", action, "--feedback", "because"]);
        assert!(done.status.success(), "{done:?}");
        assert_eq!(server.client.status(&run), status);
        let said = payloads(&server.client, &run, told);
        assert_eq!((said.len(), &said[0]["principal"]), (1, &json!("ann")), "{said:?}");
    }
}
