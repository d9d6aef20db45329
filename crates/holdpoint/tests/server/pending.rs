//! Pending interrupts over HTTP: filters, pages, counts, and the interrupts of a run.

use serde_json::{Value, json};

use crate::harness::{Client, Server, accept, client_with_key, linear};

fn gate(client: &Client, id: &str, config: Value) {
    let put =
        client.put(&format!("/v1/workflows/{id}"), &linear(id, &[("gate", "core.approvalGate", config)]));
    assert!(put.status < 300, "{put:?}");
}

/// Creates a key for a principal with roles and returns a client with it.
fn client_of(admin: &Client, name: &str, roles: &[&str]) -> Client {
    client_with_key(admin, &json!({"principal": name, "roles": roles}))
}

fn workflows(client: &Client, query: &str) -> Vec<String> {
    let answer = client.get(&format!("/v1/interrupts?{query}"));
    let rows = answer.body["interrupts"].as_array().unwrap_or_else(|| panic!("{query}: {answer:?}"));
    rows.iter().map(|row| row["workflowId"].as_str().unwrap().to_owned()).collect()
}

fn start(client: &Client, workflow: &str, tags: &[&str]) -> String {
    let body = json!({"workflowId": workflow, "tags": tags});
    client.post("/v1/runs", &body).body["runId"].as_str().unwrap().to_owned()
}

/// Starts four runs: a gate for all principals, a gate for leads, a gate with a quorum, a clarification.
fn start_runs(client: &Client) -> Vec<String> {
    gate(client, "open", json!({"title": "Ship?", "timeoutMs": 3_000_000}));
    gate(client, "leads", json!({"approversList": ["role:lead"]}));
    gate(client, "two", json!({"requiredApprovals": 2, "approversList": ["ann", "bob", "role:lead"]}));
    let asks = json!({"questions": [{"id": "q", "question": "Which?"}]});
    client.put("/v1/workflows/asking", &linear("asking", &[("gate", "core.clarificationGate", asks)]));
    [("open", &["blue"][..]), ("leads", &["blue"]), ("two", &[]), ("asking", &[])]
        .map(|(workflow, tags)| start(client, workflow, tags))
        .into()
}

#[test]
fn pending_interrupts_are_filtered_and_ordered() {
    let server = Server::start();
    let client = &server.client;
    start_runs(client);
    let (ann, lead) = (client_of(client, "ann", &[]), client_of(client, "cid", &["lead"]));
    for (query, expected) in [
        ("", vec!["open", "leads", "two", "asking"]),
        ("order=newest", vec!["asking", "two", "leads", "open"]),
        ("kind=clarification", vec!["asking"]),
        ("kind=approval,clarification", vec!["open", "leads", "two", "asking"]),
        ("kind=custom", vec![]),
        ("assignee=role:lead", vec!["leads", "two"]),
        ("assignee=ann", vec!["two"]),
        ("assignee=lead", vec![]),
        ("workflowId=leads", vec!["leads"]),
        ("tag=blue", vec!["open", "leads"]),
        ("tag=blue&assignee=role:lead&kind=approval", vec!["leads"]),
        ("olderThanSeconds=3600", vec![]),
        ("newerThanSeconds=3600&kind=clarification", vec!["asking"]),
        ("expiresBefore=2999-01-01T00:00:00Z", vec!["open"]),
        ("order=deadline", vec!["open"]),
    ] {
        assert_eq!(workflows(client, query), expected, "{query}");
    }
    assert_eq!(workflows(&ann, "assignee=me"), ["open", "two", "asking"]);
    assert_eq!(workflows(&lead, "assignee=me"), ["open", "leads", "two", "asking"]);
}

#[test]
fn an_invalid_filter_is_refused_with_the_allowed_values() {
    let server = Server::start();
    for (query, words) in [
        ("kind=approvals", "low-confidence"),
        ("kind=", "approval"),
        ("order=upwards", "oldest, newest, deadline"),
        ("expiresBefore=soon", "an instant such as"),
        ("olderThanSeconds=-1", "olderThanSeconds"),
        ("cursor=nonsense", "cursor"),
        ("order=newest&cursor=1.1.run", "cursor"),
    ] {
        for path in ["/v1/interrupts", "/v1/interrupts:counts"] {
            let only_lists = query.contains("cursor") && path.ends_with("counts");
            let answer = server.client.get(&format!("{path}?{query}"));
            if !only_lists {
                answer.assert_envelope(400, "validation_error");
                assert!(answer.body["message"].as_str().unwrap().contains(words), "{query}: {answer:?}");
            }
        }
    }
}

#[test]
fn a_pending_interrupt_shows_its_assignees_and_votes() {
    let server = Server::start();
    let client = &server.client;
    let runs = start_runs(client);
    let ann = client_of(client, "ann", &[]);
    ann.answer(&runs[2], "gate", &accept());
    let rows = client.get("/v1/interrupts").body["interrupts"].clone();
    let (open, two) = (&rows[0], &rows[2]);
    assert_eq!(
        (&open["assignees"], &open["tags"], &open["openAsks"]),
        (&json!([]), &json!(["blue"]), &json!(0))
    );
    assert!(open["votes"].is_null() && open["expiresAt"].is_string());
    assert!(open["digest"].as_str().unwrap().starts_with("sha256:"), "{open}");
    assert_eq!(two["assignees"], json!(["ann", "bob", "role:lead"]));
    assert_eq!(two["requiredApprovals"], 2);
    assert_eq!(two["votes"], json!({"approvals": 1, "rejections": 0, "voters": ["ann"]}));
    assert_eq!(
        workflows(&ann, "assignee=me"),
        ["open", "asking"],
        "an interrupt is no longer listed for a principal that has voted"
    );
    // The links of a row are valid paths.
    let (run, resolve) = (two["links"]["run"].as_str().unwrap(), two["links"]["resolve"].as_str().unwrap());
    assert_eq!(client.get(run).body["runId"], two["runId"]);
    let bob = client_of(client, "bob", &[]);
    assert_eq!(bob.post(resolve, &json!({"resumeValue": accept()})).body["status"], "completed");
}

#[test]
fn pages_of_pending_interrupts_neither_skip_nor_repeat_in_any_order() {
    let server = Server::start();
    let client = &server.client;
    gate(client, "timed", json!({"timeoutMs": 3_000_000}));
    let runs: Vec<String> = (0..7).map(|_| start(client, "timed", &["t"])).collect();
    for order in ["oldest", "newest", "deadline"] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = client.get(&format!("/v1/interrupts?tag=t&order={order}&limit=3{cursor}")).body;
            let rows = page["interrupts"].as_array().unwrap();
            seen.extend(rows.iter().map(|row| row["runId"].as_str().unwrap().to_owned()));
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        if order == "newest" {
            seen.reverse();
        }
        assert_eq!(seen, runs, "{order}");
    }
}

#[test]
fn counts_of_pending_interrupts_take_the_same_filters() {
    let server = Server::start();
    let client = &server.client;
    start_runs(client);
    let counts = client.get("/v1/interrupts:counts").body;
    assert_eq!(
        (&counts["total"], &counts["isComplete"], &counts["dueSoon"]),
        (&json!(4), &json!(true), &json!(1))
    );
    assert_eq!(counts["byKind"], json!({"approval": 3, "clarification": 1}));
    assert!(counts["oldestRequestedAt"].is_string());
    assert_eq!(client.get("/v1/interrupts:counts?assignee=role:lead").body["total"], 2);
    let none = client.get("/v1/interrupts:counts?tag=red").body;
    assert_eq!(
        (&none["total"], &none["byKind"], &none["oldestRequestedAt"]),
        (&json!(0), &json!({}), &Value::Null)
    );
}

#[test]
fn a_run_lists_all_its_interrupts() {
    let server = Server::start();
    let client = &server.client;
    let asks = json!({"questions": [{"id": "q", "question": "Which?"}]});
    let two = json!({"requiredApprovals": 2, "actions": ["accept", "reject", "ask"]});
    let nodes = [
        ("ask", "core.clarificationGate", asks),
        ("gate", "core.approvalGate", two),
        ("last", "core.approvalGate", json!({})),
    ];
    client.put("/v1/workflows/long", &linear("long", &nodes));
    let run = client.start_run("long");
    let history = || client.get(&format!("/v1/runs/{run}/interrupts")).body["interrupts"].clone();
    assert_eq!(history()[0]["status"], "open");
    client.answer(&run, "ask", &json!({"answers": {"q": "blue"}}));
    let (ann, bob) = (client_of(client, "ann", &[]), client_of(client, "bob", &[]));
    let asked = ann.answer(&run, "gate", &json!({"action": "ask", "question": "Why?"})).body;
    assert_eq!((&asked["askId"], &asked["status"]), (&json!(1), &json!("waiting-approval")));
    ann.answer(&run, "gate", &accept());
    ann.answer(&run, "gate", &accept());
    bob.answer(&run, "gate", &accept());
    client.send("POST", &format!("/v1/runs/{run}/cancel"), None);
    let history = history();
    let (question, gate, last) = (&history[0], &history[1], &history[2]);
    assert_eq!(
        (&question["status"], &question["decision"]["value"]["answers"]),
        (&json!("answered"), &json!({"q": "blue"}))
    );
    let voters: Vec<&str> =
        gate["votes"].as_array().unwrap().iter().map(|vote| vote["decidedBy"].as_str().unwrap()).collect();
    assert_eq!((voters, &gate["repeatedVotes"]), (vec!["ann", "bob"], &json!(1)));
    assert_eq!((&gate["decision"]["by"], &gate["decision"]["decision"]), (&json!("bob"), &json!("granted")));
    assert_eq!(gate["asks"][0]["question"], "Why?");
    assert_eq!((&last["status"], &last["decision"]), (&json!("cancelled"), &Value::Null));
    let first = client.get(&format!("/v1/runs/{run}/interrupts?limit=2")).body;
    let rest = client
        .get(&format!("/v1/runs/{run}/interrupts?cursor={}", first["nextCursor"].as_str().unwrap()))
        .body;
    assert_eq!(
        (rest["interrupts"][0]["nodeId"].clone(), rest["nextCursor"].clone()),
        (json!("last"), Value::Null)
    );
    client.get("/v1/runs/unknown/interrupts").assert_envelope(404, "not_found");
}
