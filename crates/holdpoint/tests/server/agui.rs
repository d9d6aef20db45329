//! AG-UI over HTTP: an agent whose tool calls wait for an approval, and a front end that decides. Every stream is
//! checked against the order of events that AG-UI clients require.

use serde_json::{Value, json};

use crate::harness::{Client, Server};
use crate::receiver::{ReceivedRequest, Receiver};
use crate::verifier::verify;

pub(crate) const FLAGS: [&str; 1] = ["--outgoing-allow-loopback"];

/// A server with the agent `mailer`, and the receiver of its mails.
pub(crate) struct AguiFixture {
    pub server: Server,
    pub post_office: Receiver,
    _folder: tempfile::TempDir,
}

impl AguiFixture {
    pub(crate) fn new(agent: impl FnOnce(&str) -> Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start_in(&folder.path().join("data"), &FLAGS);
        let post_office = Receiver::start();
        declare(&server.client, &agent(&post_office.url));
        Self { server, post_office, _folder: folder }
    }

    pub(crate) fn front_end(&self) -> FrontEnd {
        FrontEnd::new(&self.server.client, "mailer", "t1")
    }

    /// Returns the mails that were sent, in order of arrival.
    pub(crate) fn mails(&self) -> Vec<Value> {
        self.post_office.requests().iter().map(ReceivedRequest::json).collect()
    }
}

pub(crate) fn declare(client: &Client, agent: &Value) {
    let declared = client.put(&format!("/v1/agents/{}", agent["agentId"].as_str().unwrap()), agent);
    assert_eq!(declared.status, 201, "{declared:?}");
}

/// Returns an agent that sends these mails with concurrent calls and then ends with a text.
pub(crate) fn mailer(url: &str, behavior: &str, to: &[&str]) -> Value {
    let call = |(to, at): (&&str, u32)| json!({"id": format!("c{at}"), "name": "sendEmail", "arguments": {"to": to, "subject": "Hi"}});
    let calls: Vec<Value> = to.iter().zip(1..).map(call).collect();
    json!({
        "agentId": "mailer",
        "model": {"provider": "scripted", "steps": [{"text": "I will send it.", "calls": calls}, {"text": "That was it."}]},
        "tools": [{
            "type": "http", "name": "sendEmail", "description": "sends a mail", "method": "POST", "url": url,
            "parameters": {"type": "object", "required": ["to"]},
        }],
        "permissions": {"rules": [{"tool": "sendEmail", "behavior": behavior}]},
    })
}

pub(crate) fn asking_agent(url: &str) -> Value {
    mailer(url, "ask", &["bob@example.test"])
}

/// A front end on one thread.
pub(crate) struct FrontEnd {
    client: Client,
    path: String,
    thread: String,
}

/// The events of one AG-UI stream.
#[derive(Debug)]
pub(crate) struct AguiEvents(pub Vec<Value>);

impl FrontEnd {
    pub(crate) fn new(client: &Client, agent: &str, thread: &str) -> Self {
        Self { client: client.clone(), path: format!("/ag-ui/{agent}"), thread: thread.to_owned() }
    }

    pub(crate) fn input(&self, more: Value) -> Value {
        let mut input = json!({
            "threadId": self.thread, "runId": "wire-run", "protocolVersion": "1.0", "state": {}, "tools": [],
            "context": [], "forwardedProps": {}, "messages": [],
        });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    }

    pub(crate) fn post(&self, more: Value) -> AguiEvents {
        AguiEvents::request(&self.client, "POST", &self.path, Some(&self.input(more)))
    }

    pub(crate) fn say(&self, id: &str, text: &str) -> AguiEvents {
        self.post(json!({"messages": [{"id": id, "role": "user", "content": text}]}))
    }

    /// Resumes without messages, as a client without state does.
    pub(crate) fn resume(&self, entries: Value) -> AguiEvents {
        self.post(json!({"resume": entries}))
    }

    pub(crate) fn thread(&self) -> Value {
        let shown = self.client.get(&format!("{}/threads/{}", self.path, self.thread));
        assert_eq!(shown.status, 200, "{shown:?}");
        shown.body
    }
}

impl AguiEvents {
    pub(crate) fn request(client: &Client, method: &str, path: &str, body: Option<&Value>) -> Self {
        let body = body.map(Value::to_string);
        let answer = client.exchange(method, path, body.as_deref().map(str::as_bytes), &[]);
        assert_eq!(answer.status(), 200, "{}", answer.body());
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        assert_eq!(answer.headers()["x-accel-buffering"], "no");
        assert!(!answer.body().contains('\r'), "AG-UI clients accept only LF");
        let frames = answer.body().split("\n\n").filter(|frame| !frame.is_empty() && !frame.starts_with(':'));
        let events = frames.map(|frame| serde_json::from_str(frame.strip_prefix("data: ").unwrap()).unwrap());
        let events = Self(events.collect());
        verify(&events.0);
        events
    }

    pub(crate) fn kinds(&self) -> Vec<&str> {
        self.0.iter().map(|event| event["type"].as_str().unwrap()).collect()
    }

    pub(crate) fn last(&self) -> &Value {
        self.0.last().unwrap()
    }

    pub(crate) fn find(&self, kind: &str) -> Vec<&Value> {
        self.0.iter().filter(|event| event["type"] == kind).collect()
    }

    pub(crate) fn assert_success(&self) -> &Self {
        assert_eq!(self.last()["outcome"]["type"], "success", "{self:?}");
        self
    }

    /// Asserts that the stream has only the start and an error with this code.
    pub(crate) fn assert_refused(&self, code: &str) {
        assert_eq!(self.kinds(), ["RUN_STARTED", "RUN_ERROR"], "{self:?}");
        assert_eq!(self.last()["code"], code, "{self:?}");
        assert!(!self.last()["message"].as_str().unwrap().is_empty());
    }

    pub(crate) fn interrupts(&self) -> Vec<Value> {
        let outcome = &self.last()["outcome"];
        assert_eq!(outcome["type"], "interrupt", "{self:?}");
        let kinds = self.kinds();
        assert_eq!(kinds[kinds.len() - 3..], ["STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
        outcome["interrupts"].as_array().unwrap().clone()
    }

    /// Returns the ids of the open interrupts.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.interrupts().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn messages(&self) -> Vec<Value> {
        self.find("MESSAGES_SNAPSHOT").last().unwrap()["messages"].as_array().unwrap().clone()
    }
}

pub(crate) fn resolved(id: &str, payload: Value) -> Value {
    json!({"interruptId": id, "status": "resolved", "payload": payload})
}

pub(crate) fn approved(id: &str) -> Value {
    resolved(id, json!({"approved": true}))
}

pub(crate) fn cancelled(id: &str) -> Value {
    json!({"interruptId": id, "status": "cancelled"})
}

#[test]
fn a_plain_run_streams_its_answer_and_ends() {
    let fixture = AguiFixture::new(
        |_| json!({"agentId": "mailer", "model": {"provider": "scripted", "steps": [{"text": "Hello there."}]}}),
    );
    let events = fixture.front_end().say("u1", "Hello");
    let last = events.assert_success().last();
    assert_eq!((&last["threadId"], &last["runId"]), (&json!("t1"), &json!("wire-run")));
    let texts: Vec<_> =
        events.find("TEXT_MESSAGE_CONTENT").iter().map(|one| one["delta"].as_str().unwrap()).collect();
    assert_eq!(texts.concat(), "Hello there.");
    let messages = events.messages();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!((&messages[0]["id"], &messages[0]["role"]), (&json!("u1"), &json!("user")));
    assert_eq!(
        messages[1]["id"],
        events.find("TEXT_MESSAGE_START")[0]["messageId"],
        "the message has the same id in both events"
    );
    let again = fixture.front_end().say("u1", "Hello");
    assert_eq!(
        again.assert_success().kinds(),
        ["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    );
    assert_eq!(again.messages(), messages, "a repeated request has no effect");
    let more = fixture.front_end().say("u2", "And now?");
    assert_eq!(more.assert_success().messages().len(), 4);
}

#[test]
fn an_approved_call_is_made_and_its_result_names_the_call() {
    let fixture = AguiFixture::new(asking_agent);
    let first = fixture.front_end().say("u1", "Write to Bob");
    let interrupts = first.interrupts();
    let (shown, start) = (&interrupts[0], first.find("TOOL_CALL_START")[0]);
    assert_eq!((interrupts.len(), &shown["reason"]), (1, &json!("tool_call")));
    assert_eq!(shown["toolCallId"], start["toolCallId"]);
    assert_eq!(first.find("TOOL_CALL_ARGS")[0]["delta"], r#"{"to":"bob@example.test","subject":"Hi"}"#);
    assert!(first.find("TOOL_CALL_RESULT").is_empty() && fixture.mails().is_empty(), "no call was made");
    let reply = &first.messages()[1];
    assert_eq!(reply["toolCalls"][0]["id"], start["toolCallId"], "the proposal is in the messages");
    let pending = fixture.server.client.get("/v1/interrupts").body;
    assert_eq!(
        pending["interrupts"][0]["interruptId"], shown["id"],
        "the same interrupt in both APIs: {pending}"
    );
    let second = fixture.front_end().resume(json!([approved(&first.ids()[0])]));
    second.assert_success();
    assert!(second.find("TOOL_CALL_START").is_empty() && second.find("TOOL_CALL_ARGS").is_empty());
    let results = second.find("TOOL_CALL_RESULT");
    assert_eq!((results.len(), &results[0]["toolCallId"]), (1, &start["toolCallId"]));
    assert_eq!(fixture.mails(), [json!({"to": "bob@example.test", "subject": "Hi"})]);
    let roles: Vec<_> =
        second.messages().iter().map(|one| one["role"].as_str().unwrap().to_owned()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
    let texts: Vec<_> = second.find("TEXT_MESSAGE_CONTENT").iter().map(|one| one["delta"].clone()).collect();
    assert_eq!(texts, [json!("That was it.")]);
}

#[test]
fn a_denied_call_is_not_made_and_the_agent_continues() {
    let fixture = AguiFixture::new(asking_agent);
    let first = fixture.front_end().say("u1", "Write to Bob");
    let no = resolved(&first.ids()[0], json!({"approved": false, "reason": "not today"}));
    let second = fixture.front_end().resume(json!([no]));
    second.assert_success();
    let result = second.find("TOOL_CALL_RESULT")[0]["content"].as_str().unwrap();
    assert!(result.contains("not today"), "{result}");
    assert!(fixture.mails().is_empty());
}

#[test]
fn edited_arguments_replace_all_arguments() {
    let fixture = AguiFixture::new(asking_agent);
    let first = fixture.front_end().say("u1", "Write to Bob");
    assert_eq!(first.interrupts()[0]["responseSchema"]["properties"]["editedArgs"]["type"], "object");
    let edited = json!({"approved": true, "editedArgs": {"to": "eve@example.test"}});
    fixture.front_end().resume(json!([resolved(&first.ids()[0], edited)])).assert_success();
    assert_eq!(fixture.mails(), [json!({"to": "eve@example.test"})], "arguments are not merged");
}

#[test]
fn of_three_calls_only_the_two_approved_ones_are_made() {
    let fixture = AguiFixture::new(|url| mailer(url, "ask", &["a@x.test", "b@x.test", "c@x.test"]));
    let first = fixture.front_end().say("u1", "Write to all");
    let ids = first.ids();
    assert_eq!(ids.len(), 3);
    let calls: Vec<_> = first.find("TOOL_CALL_START").iter().map(|one| one["toolCallId"].clone()).collect();
    let bound: Vec<_> = first.interrupts().iter().map(|one| one["toolCallId"].clone()).collect();
    assert_eq!(calls, bound);
    let second =
        fixture.front_end().resume(json!([approved(&ids[0]), cancelled(&ids[2]), approved(&ids[1])]));
    second.assert_success();
    let mut sent: Vec<_> =
        fixture.mails().iter().map(|mail| mail["to"].as_str().unwrap().to_owned()).collect();
    sent.sort();
    assert_eq!(sent, ["a@x.test", "b@x.test"]);
    let of_third: Vec<_> =
        second.find("TOOL_CALL_RESULT").into_iter().filter(|one| one["toolCallId"] == calls[2]).collect();
    assert!(
        of_third.iter().all(|one| one["content"].as_str().unwrap().contains("cancelled")),
        "{of_third:?}"
    );
}

#[test]
fn a_client_before_1_0_gets_only_events_of_its_version() {
    let fixture = AguiFixture::new(asking_agent);
    let front = fixture.front_end();
    let old = |more: Value| {
        let mut input = front.input(more);
        input.as_object_mut().unwrap().shift_remove("protocolVersion");
        AguiEvents::request(&fixture.server.client, "POST", "/ag-ui/mailer", Some(&input))
    };
    let first = old(json!({"messages": [{"id": "u1", "role": "user", "content": "Write"}]}));
    let id = first.ids()[0].clone();
    let run = id.rsplit_once(':').unwrap().0.to_owned();
    // The run is cancelled outside of AG-UI. Clients of both versions are informed.
    fixture.server.client.post(&format!("/v1/runs/{run}/cancel"), &json!({"reason": "enough"}));
    let end = old(json!({"resume": [cancelled(&id)]}));
    assert_eq!((&end.last()["type"], &end.last()["code"]), (&json!("RUN_ERROR"), &json!("cancelled")));
    let newer = fixture.front_end().resume(json!([cancelled(&id)]));
    assert_eq!(newer.last()["outcome"], json!({"type": "cancelled"}));
}

#[test]
fn invalid_input_is_rejected_before_the_stream_starts() {
    let fixture = AguiFixture::new(asking_agent);
    let client = &fixture.server.client;
    for (body, field) in [
        (json!({"threadId": "", "runId": "r"}), "threadId"),
        (json!({"threadId": "t", "runId": ""}), "runId"),
        (json!({"threadId": "t".repeat(201), "runId": "r"}), "threadId"),
        (
            json!({"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": "x"}]}),
            "messages[0].id",
        ),
    ] {
        let refused = client.post("/ag-ui/mailer", &body);
        refused.assert_envelope(400, "validation_error");
        assert_eq!(refused.body["details"]["field"], field);
    }
    let broken = json!({"threadId": "t", "runId": "r", "resume": [{"interruptId": "x", "status": "maybe"}]});
    client.post("/ag-ui/mailer", &broken).assert_envelope(400, "validation_error");
    let good = json!({"threadId": "t", "runId": "r", "messages": []});
    client.post("/ag-ui/unknown", &good).assert_envelope(404, "not_found");
    client.post("/ag-ui/agent:mailer", &good).assert_envelope(404, "not_found");
    let key = client.post("/v1/keys", &json!({"scopes": ["runs:create"]})).body;
    let limited = client.with_key(key["key"].as_str());
    let answer = json!({"threadId": "t", "runId": "r", "resume": [cancelled("x:i1")]});
    let refused = limited.post("/ag-ui/mailer", &answer);
    refused.assert_envelope(403, "forbidden");
    assert_eq!(refused.body["details"]["scopeRequired"], "approvals:respond");
}
