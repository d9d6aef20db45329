//! Masks a document for readers that may see what a run did, but not its content.
//!
//! The rule is an allow-list. A text stays only if its member is known to hold an id, a type, a code, a state or a
//! time, and if it has the form of one. Everything in an unknown member is content: its texts are masked, and so are
//! the names of its members unless they are known. Numbers, flags and shapes stay.

use serde_json::{Map, Value};

/// Members that hold an id, a type, a code, a state or a time, or a list of them.
const PLAIN: &str = "\
    actedBy action actions activityId activityType agentId answeredBy approversList artifactId artifactType askedBy by callId \
    cancelledBy channel childRunId childWorkflowId claimedAt closedInterruptIds code completedAt conversationId currentNodeId \
    customKind decidedAt decidedBy divergenceKind drainPolicy edgeId endedAt eventId eventType expected \
    expiresAt failedNodeId forkedBy forkMode found gateId grant grantId grantIds id interruptId kind messageId \
    model name nodeId openedBy openInterruptIds openwop.cap_kind openwop.compliance_class openwop.event_type \
    openwop.interrupt_id openwop.interrupt_kind openwop.node_id openwop.node_type openwop.parent.node_id \
    openwop.parent.run_id openwop.parent.workflow_id openwop.protocol_version openwop.replay.mode \
    openwop.replay.source_run_id openwop.run_id openwop.tenant_id openwop.workflow_id origin originalEventId \
    parentNodeId parentRunId parentSpanId pausedAt pausedBy pauseRequestedAt permission principal reducer requestedAt requestedBy \
    resolvedAt resolvedBy resource resumedBy resumeMode role runId since sourceRunId spanId startedAt status step \
    tenant timestamp toolCallId toolName traceId transport type typeId until version workflowId workflowVersion \
    writtenAt";

/// Members in which the server writes a code and a caller may write a text.
const CODED: &str = "\
    decision outcome pauseReason reason";

/// The codes that the server writes into these members.
const CODES: &str = "\
    conversation-input disabled granted low-confidence overridden parent-cancelled rejected system:parent \
    timeout";

/// Members whose value is an object or a list with members of these lists.
const NESTED: &str = "\
    attributes childInterrupts childRuns details divergencePoint error interrupt lastError message openedInterrupts \
    owner path payload quorum quorumProgress toolCalls usage via votes";

/// Members whose value is an object with node ids as keys.
const BY_NODE: &str = "\
    nodeStates";

/// Members whose value is an object with names of variables or channels as keys. The values are content.
const BY_NAME: &str = "\
    channels inputs outputs variables";

/// Member names of the protocol, which are kept in content.
const NAMES: &str = "\
    answer answers arguments artifactData content correlation data description editedArtifactData feedback \
    ignored items key options outcomeSchema parameters properties question questions requiredApprovals schema \
    text title value";

/// Returns whether a word is in one of the lists above.
fn is_in(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|known| known == word)
}

/// Characters of the longest id, type, code, state or time.
const PLAIN_CHARS_MAX: usize = 256;

/// Masks a document according to the lists above.
pub(super) fn mask_document(value: Value) -> Value {
    match value {
        Value::Object(members) => map_members(members, is_plain, mask_member),
        Value::Array(items) => items.into_iter().map(mask_document).collect(),
        Value::String(text) => placeholder(&text),
        other => other,
    }
}

fn mask_member(name: &str, value: Value) -> Value {
    let is = |list: &str| is_in(list, name);
    match value {
        Value::String(text) if is(PLAIN) => mask_unless_plain(text),
        Value::String(text) if is(CODED) && is_in(CODES, &text) => Value::String(text),
        Value::Array(items) if is(PLAIN) => items.into_iter().map(mask_item).collect(),
        Value::Object(_) | Value::Array(_) if is(NESTED) => mask_document(value),
        Value::Object(members) if is(BY_NODE) => {
            map_members(members, is_plain, |_, value| mask_document(value))
        }
        Value::Object(members) if is(BY_NAME) => {
            map_members(members, is_plain, |_, value| mask_content(value))
        }
        other => mask_content(other),
    }
}

fn mask_item(value: Value) -> Value {
    match value {
        Value::String(text) => mask_unless_plain(text),
        other => mask_content(other),
    }
}

fn mask_unless_plain(text: String) -> Value {
    if is_plain(&text) { Value::String(text) } else { placeholder(&text) }
}

/// Masks a value that came from people, models, definitions or other systems.
fn mask_content(value: Value) -> Value {
    let is_known = |name: &str| [PLAIN, CODED, NESTED, NAMES].iter().any(|list| is_in(list, name));
    match value {
        Value::String(text) => placeholder(&text),
        Value::Array(items) => items.into_iter().map(mask_content).collect(),
        Value::Object(members) => map_members(members, is_known, |_, value| mask_content(value)),
        other => other,
    }
}

/// Applies a function to all values, and replaces names that must not be shown with their position.
fn map_members(
    members: Map<String, Value>,
    is_shown: impl Fn(&str) -> bool,
    apply: impl Fn(&str, Value) -> Value,
) -> Value {
    let rename = |(position, (name, value)): (usize, (String, Value))| {
        let value = apply(&name, value);
        (if is_shown(&name) { name } else { format!("[name {}]", position + 1) }, value)
    };
    Value::Object(members.into_iter().enumerate().map(rename).collect())
}

/// Returns whether a text has the form of an id, a type, a code, a state or a time.
fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.:/@+#".contains(c);
    text.chars().all(is_plain) && text.len() <= PLAIN_CHARS_MAX
}

/// Returns the placeholder for a text: the range of its length, in powers of ten.
fn placeholder(text: &str) -> Value {
    let length = text.chars().count();
    let (mut least, mut most) = (0, 9);
    while length > most {
        (least, most) = (most + 1, most * 10 + 9);
    }
    Value::String(format!("[text of {least} to {most} characters]"))
}

#[cfg(test)]
mod tests {
    use holdpoint_core::{Event, Run, RunId, RunRef, TenantId, Timestamp, Workflow};
    use holdpoint_engine::RecordedEvent;
    use serde_json::json;

    use super::*;
    use crate::openwop::snapshot;

    const GOLDEN: &str = include_str!("../../../../holdpoint-core/tests/golden/events.jsonl");
    const CANARY: &str = "the canary sings";

    #[test]
    fn content_is_masked_and_its_shape_is_kept() {
        let shown = mask_document(json!({
            "runId": "r", "inputs": {"key": "sk-secret", "amount": 3, "list": ["a", null, {"ann@example.org": true}]},
            "payload": {"nodeId": "n", "outputs": {"text": {"status": "secret"}}, "error": {"code": "e", "message": "why"}},
            "cancelled": {"cancelledBy": "ann", "reason": "secret"}, "reason": "timeout", "nodeStates": {"a b": {"status": "ok"}},
        }));
        let short = "[text of 0 to 9 characters]";
        let expected = json!({
            "runId": "r", "inputs": {"key": short, "amount": 3, "list": [short, null, {"[name 1]": true}]},
            "payload": {"nodeId": "n", "outputs": {"text": {"status": short}}, "error": {"code": "e", "message": short}},
            "cancelled": {"cancelledBy": short, "reason": short}, "reason": "timeout", "nodeStates": {"[name 1]": {"status": "ok"}},
        });
        assert_eq!(shown, expected);
        assert_eq!(placeholder(&"x".repeat(1500)), "[text of 1000 to 9999 characters]");
    }

    #[test]
    fn ids_types_codes_and_times_stay() {
        let event = json!({
            "eventId": "r1:4", "type": "interrupt.resolved", "timestamp": "2026-01-02T03:04:05.006Z", "sequence": 4,
            "payload": {
                "nodeId": "gate", "action": "accept", "decision": "granted", "resolvedBy": "user:ann@example.org",
                "via": {"type": "key", "id": "key_1"}, "grantIds": ["g.1"],
            },
        });
        assert_eq!(mask_document(event.clone()), event);
    }

    /// Replaces each text of each golden event in turn. Checks that the masked documents of all valid results do not
    /// contain the replacement.
    #[test]
    fn a_canary_in_any_member_of_any_event_is_masked() {
        let mut tried = 0;
        for line in GOLDEN.lines() {
            let golden: Value = serde_json::from_str(line).unwrap();
            let mut changed: Vec<Value> = Vec::new();
            for pointer in texts(&golden, String::new()) {
                let mut one = golden.clone();
                *one.pointer_mut(&pointer).unwrap() = json!(CANARY);
                changed.push(one);
            }
            // The second canary has the form of an id.
            changed.extend([CANARY, "sk-canary-0123"].map(|canary| with_canaries(&golden, canary)));
            let events: Vec<Event> =
                changed.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect();
            tried += events.len();
            assert_hidden(&events, line);
        }
        assert!(tried > 100, "{tried}");
    }

    /// Adds a canary to each member with content: data, answers, messages, results and similar.
    fn with_canaries(golden: &Value, canary: &str) -> Value {
        let mut event = golden.clone();
        let free = json!({
            "said": canary, CANARY: [canary, {"status": canary}], "reason": canary, "message": {"code": canary},
        });
        for member in [
            "data",
            "value",
            "content",
            "arguments",
            "outputs",
            "inputs",
            "metadata",
            "result",
            "next",
            "meta",
            "client_metadata",
        ] {
            for parent in ["", "/message"] {
                let Some(Value::Object(members)) = event.pointer_mut(parent) else { continue };
                if members.contains_key(member) {
                    members.insert(member.to_owned(), free.clone());
                }
            }
        }
        if serde_json::from_value::<Event>(event.clone()).is_ok() { event } else { golden.clone() }
    }

    fn texts(value: &Value, at: String) -> Vec<String> {
        match value {
            Value::String(_) if at != "/type" => vec![at],
            Value::Array(items) => {
                let inner = |(n, item): (usize, &Value)| texts(item, format!("{at}/{n}"));
                items.iter().enumerate().flat_map(inner).collect()
            }
            Value::Object(members) => {
                members.iter().flat_map(|(name, value)| texts(value, format!("{at}/{name}"))).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Folds the changed events after golden events that they refer to, and checks that no canary is shown.
    fn assert_hidden(changed: &[Event], of: &str) {
        let node = |id: &str| json!({"id": id, "typeId": "core.noop", "name": id, "position": {"x": 0, "y": 0}, "config": {}, "inputs": {}});
        let definition = json!({
            "id": "pay", "name": "pay", "version": "1", "nodes": [node("a")], "edges": [], "triggers": [],
            "variables": [], "metadata": {}, "settings": {},
        });
        let workflow = Workflow::parse(&definition, 1).unwrap();
        let id = RunId::parse("r1").unwrap();
        let mut run = Run::new(id.clone(), std::sync::Arc::new(workflow));
        let of_run = RunRef { tenant: TenantId::parse("acme").unwrap(), run: id };
        let before = GOLDEN.lines().filter(|line| !line.contains("\"run.c") && !line.contains("\"run.f"));
        let before: Vec<Event> = before.map(|line| serde_json::from_str(line).unwrap()).collect();
        let events = before.iter().take(12).chain(changed).chain(&before[12..]);
        let recorded = events.enumerate().map(|(seq, event)| RecordedEvent {
            seq: seq as u64,
            at: Timestamp(1_700_000_000_000),
            event: event.clone(),
        });
        let recorded: Vec<RecordedEvent> = recorded.collect();
        for one in &recorded {
            run.apply(&one.event, one.at);
        }
        let (events, spans) = super::super::render(&of_run, &run, recorded);
        let mut shown: Vec<Value> = events.into_iter().map(mask_document).collect();
        shown.extend(spans.into_iter().map(mask_document));
        shown.push(mask_document(json!(snapshot::describe(&run))));
        let shown = json!(shown).to_string();
        assert!(!shown.contains("canary"), "{of}: {shown}");
    }
}
