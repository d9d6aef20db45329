//! Governed gates: required roles and scopes, decisions, overrides and denials.

use holdpoint_core::{
    Answer, Command, Event, InterruptId, NodeStatus, Principal, Refusal, Resolution, Status, limits,
};
use serde_json::{Value, json};

use crate::story::{START_TIME, Story, given};
use crate::vocabulary::*;

fn waiting_gate(members: Value) -> Story {
    let data = with(with(members, "gateId", json!("gate")), "actions", json!(["accept", "reject"]));
    given([start(), begin("gate"), ask("gate", approval_of(data))])
}

fn gate() -> Story {
    waiting_gate(json!({"requiredRole": "release"}))
}

/// Returns a story with a gate that requires this many approvals and that owners may override.
fn quorum(required: u64, bypass: bool) -> Story {
    waiting_gate(json!({
        "requiredRole": "release", "requiredApprovals": required, "quorum": required,
        "override": {"requiredRole": "owner", "audited": true}, "overrideBypassesQuorum": bypass,
    }))
}

fn holder(name: &str, role: &str) -> Principal {
    Principal { roles: vec![role.to_owned()], ..Principal::named(name) }
}

fn releaser(name: &str, decision: &str) -> Command {
    answer_by(holder(name, "release"), 1, json!({"decision": decision}))
}

fn owner_overrides() -> Command {
    answer_by(holder("olga", "owner"), 1, json!({"decision": "overridden", "reason": "urgent fix"}))
}

fn recorded_value(name: &str, action: &str, decision: &str) -> Value {
    json!({"action": action, "decision": decision, "decidedBy": name, "decidedAt": START_TIME.to_string()})
}

fn denied(by: &str, action: &str, why: &str) -> Event {
    let (interrupt, reason) =
        (InterruptId(1), format!("{by} may not decide this interrupt: it requires the {why}"));
    let (by, action) = (by.to_owned(), action.to_owned());
    Event::AuthorizationDecided { interrupt, by, action, allowed: false, reason, via: None }
}

fn granted() -> Event {
    Event::ApprovalGranted { interrupt: InterruptId(1) }
}

/// Returns the action that decided the gate, if it is closed.
fn deciding_action(story: &Story) -> Option<String> {
    match story.interrupt_of("gate").expect("an interrupt").resolution.as_ref()? {
        Resolution::Answered { value, .. } => value["action"].as_str().map(str::to_owned),
        Resolution::TimedOut { .. } => Some("timeout".to_owned()),
    }
}

#[test]
fn a_governed_gate_has_no_event_approval_requested() {
    let data = json!({"gateId": "g", "requiredRole": "release", "actions": ["accept", "reject"]});
    given([start(), begin("gate")])
        .when(ask("gate", approval_of(data.clone())))
        .then([requested(1, "gate", approval_of(data)), suspended("gate", 1)])
        .status_is(Status::WaitingApproval);
}

#[test]
fn a_holder_of_the_role_grants_and_the_run_continues() {
    gate()
        .when(releaser("bob", "granted"))
        .then([
            Event::InterruptResolved {
                id: InterruptId(1),
                value: recorded_value("bob", "accept", "granted"),
                by: "bob".to_owned(),
                decision: None,
                via: None,
                copied: false,
                client_metadata: serde_json::Map::new(),
                vote: None,
            },
            granted(),
            resumed("gate", 1),
        ])
        .next_is("enter gate");
}

#[test]
fn a_principal_without_the_role_is_denied_and_the_denial_is_recorded() {
    let story = gate()
        .when(answer_by(holder("eve", "releases"), 1, json!({"decision": "granted"})))
        .then([denied("eve", "approvals:respond", "role \"release\"")])
        .obliges([])
        .status_is(Status::WaitingApproval)
        .node_is("gate", &NodeStatus::Waiting(InterruptId(1)));
    assert_eq!(story.interrupt_of("gate").map(|asked| (asked.denied, asked.votes.len())), Some((1, 0)));
    story.when(releaser("bob", "granted")).accepted();
}

#[test]
fn a_gate_with_a_role_and_a_scope_requires_both() {
    let gate = || waiting_gate(json!({"requiredRole": "release", "requiredScope": "deploy:promote"}));
    let grant = json!({"decision": "granted"});
    let scoped = |roles: &[&str]| Principal {
        roles: roles.iter().map(ToString::to_string).collect(),
        scopes: vec!["deploy:promote".to_owned()],
        ..Principal::named("bob")
    };
    gate().when(releaser("bob", "granted")).then([denied(
        "bob",
        "approvals:respond",
        "scope \"deploy:promote\"",
    )]);
    gate().when(answer_by(scoped(&[]), 1, grant.clone())).then([denied(
        "bob",
        "approvals:respond",
        "role \"release\"",
    )]);
    let story = gate().when(answer_by(scoped(&["release"]), 1, grant));
    assert_eq!(deciding_action(&story).as_deref(), Some("accept"));
}

#[test]
fn roles_do_not_apply_to_answers_in_another_name_or_over_a_link() {
    let acting = |value: Value, acting_as: bool| {
        let answer = Answer { acting_as, ..Answer::new(value, holder("bob", "release")) };
        Command::Resolve { answers: [(InterruptId(1), answer)].into() }
    };
    let for_carol = || json!({"decision": "granted", "voter": "carol"});
    let denials = |story: Story| story.run().interrupts[0].denied;
    assert_eq!(denials(gate().when(acting(for_carol(), true)).status_is(Status::WaitingApproval)), 1);
    assert_eq!(denials(gate().when(acting(for_carol(), false)).status_is(Status::WaitingApproval)), 1);
    let link =
        Answer { by_link: true, ..Answer::new(json!({"decision": "granted"}), holder("bob", "release")) };
    let by_link = Command::Resolve { answers: [(InterruptId(1), link)].into() };
    assert_eq!(denials(gate().when(by_link).refused(Refusal::KeyRequired)), 0);
}

#[test]
fn a_requester_that_may_not_approve_is_denied_and_the_denial_is_recorded() {
    let story = waiting_gate(json!({"requiredRole": "finance", "requesterMayNotApprove": true}))
        .when(answer_by(ada(), 1, json!({"decision": "granted"})))
        .status_is(Status::WaitingApproval);
    assert_eq!(story.run().interrupts[0].denied, 1);
}

#[test]
fn the_number_of_recorded_denials_is_limited() {
    let denied_answer = || answer_by(Principal::named("eve"), 1, json!({"decision": "granted"}));
    let mut story = gate();
    for _ in 0..limits::DENIALS_MAX {
        story = story.when(denied_answer()).accepted();
    }
    let before = story.run().clone();
    let story = story.when(denied_answer()).refused(Refusal::NotAuthorized(
        "eve may not decide this interrupt: it requires the role \"release\"".to_owned(),
    ));
    assert_eq!(*story.run(), before);
    story.when(releaser("bob", "granted")).accepted();
}

#[test]
fn several_answers_are_all_refused_if_one_is_denied() {
    let data = json!({"gateId": "g", "requiredRole": "release", "actions": ["accept", "reject"]});
    let story = crate::story::on(left_and_right())
        .given([start(), begin("left"), ask("left", custom())])
        .given([begin("right"), ask("right", with_key("other", approval_of(data)))])
        .when(answer_all([(1, json!("yes")), (2, json!({"decision": "granted"}))]));
    assert_eq!(story.run().interrupts.iter().filter(|asked| asked.is_open()).count(), 2);
    assert_eq!(story.run().interrupts[1].denied, 1);
}

#[test]
fn each_granting_vote_counts_once_and_the_last_required_one_decides() {
    let cast = Event::VoteCast {
        interrupt: InterruptId(1),
        value: recorded_value("bob", "accept", "granted"),
        by: "bob".to_owned(),
        decision: None,
        via: None,
        copied: false,
        client_metadata: serde_json::Map::new(),
    };
    let story = quorum(2, false).when(releaser("bob", "granted")).then([cast, granted()]);
    let again = Event::VoteRepeated {
        interrupt: InterruptId(1),
        action: "accept".to_owned(),
        by: "bob".to_owned(),
        acted_by: None,
        via: None,
    };
    let story = story
        .when(releaser("bob", "granted"))
        .then([again])
        .when(releaser("bob", "rejected"))
        .refused(Refusal::AlreadyVoted("bob".to_owned()))
        .when(releaser("carol", "granted"))
        .accepted();
    assert_eq!(deciding_action(&story).as_deref(), Some("accept"));
    assert_eq!(story.interrupt_of("gate").map(|asked| asked.votes.len()), Some(2));
}

#[test]
fn a_rejection_vetoes_and_records_its_reason() {
    let rejects =
        answer_by(holder("bob", "release"), 1, json!({"decision": "rejected", "reason": "no tests"}));
    let story = quorum(2, false).when(rejects).accepted();
    assert_eq!(deciding_action(&story).as_deref(), Some("reject"));
    let value = match &story.interrupt_of("gate").expect("an interrupt").resolution {
        Some(Resolution::Answered { value, .. }) => value.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((&value["decision"], &value["reason"]), (&json!("rejected"), &json!("no tests")));
}

#[test]
fn an_override_is_one_vote_unless_the_gate_lets_it_bypass_the_quorum() {
    let story = quorum(2, false).when(owner_overrides());
    assert_eq!(deciding_action(&story), None);
    let story = story.when(releaser("bob", "granted"));
    assert_eq!(deciding_action(&story).as_deref(), Some("accept"));
    let story = quorum(3, true).when(owner_overrides());
    assert_eq!(deciding_action(&story).as_deref(), Some("override"));
    let story = quorum(1, false).when(owner_overrides());
    assert_eq!(deciding_action(&story).as_deref(), Some("override"));
    quorum(3, true)
        .given([owner_overrides()])
        .when(releaser("bob", "granted"))
        .refused(Refusal::AlreadyResolved);
}

#[test]
fn an_override_requires_its_own_role_which_permits_no_other_decision() {
    let by_releaser = answer_by(
        holder("bob", "release"),
        1,
        json!({"decision": "granted", "override": true, "reason": "I want to"}),
    );
    quorum(2, true).when(by_releaser).then([denied("bob", "approvals:override", "role \"owner\"")]);
    quorum(2, true)
        .when(answer_by(holder("olga", "owner"), 1, json!({"decision": "granted"})))
        .then([denied("olga", "approvals:respond", "role \"release\"")]);
    // A gate without an override accepts none.
    let by_owner = json!({"decision": "overridden", "reason": "urgent fix"});
    gate()
        .when(answer_by(holder("bob", "release"), 1, by_owner.clone()))
        .refused_for("resumeValue.action")
        .when(answer_by(holder("olga", "owner"), 1, by_owner))
        .then([denied("olga", "approvals:override", "role \"release\"")]);
}

#[test]
fn a_principal_that_has_voted_cannot_override() {
    let both = Principal { roles: vec!["release".to_owned(), "owner".to_owned()], ..Principal::named("bob") };
    let overrides = answer_by(both, 1, json!({"decision": "overridden", "reason": "urgent fix"}));
    quorum(3, true)
        .given([releaser("bob", "granted")])
        .when(overrides)
        .refused(Refusal::AlreadyVoted("bob".to_owned()));
}

#[test]
fn a_governed_gate_accepts_the_actions_of_other_gates() {
    let by = |role: &str, value: Value| quorum(1, false).when(answer_by(holder("bob", role), 1, value));
    for (role, value, action) in [
        ("release", json!({"action": "accept"}), "accept"),
        ("release", json!({"action": "accept", "decision": "granted"}), "accept"),
        ("release", json!({"action": "reject", "feedback": "no"}), "reject"),
        ("owner", json!({"action": "override", "feedback": "urgent fix"}), "override"),
        ("owner", json!({"action": "accept", "override": true, "reason": "urgent fix"}), "override"),
    ] {
        let story = by(role, value.clone());
        assert_eq!(deciding_action(&story).as_deref(), Some(action), "{value}");
    }
}

#[test]
fn an_invalid_answer_to_a_governed_gate_is_refused_and_the_gate_stays_open() {
    let by = |role: &str, value: Value| quorum(1, false).when(answer_by(holder("bob", role), 1, value));
    for (role, value, field) in [
        ("release", json!("granted"), "resumeValue"),
        ("release", json!({}), "resumeValue.decision"),
        ("release", json!({"decision": "approved"}), "resumeValue.decision"),
        ("release", json!({"decision": 1}), "resumeValue.decision"),
        ("release", json!({"decision": "granted", "reason": 1}), "resumeValue.reason"),
        ("release", json!({"decision": "granted", "action": "reject"}), "resumeValue.action"),
        ("release", json!({"action": "refine"}), "resumeValue.action"),
        ("release", json!({"decision": "granted", "override": "yes"}), "resumeValue.override"),
        ("owner", json!({"decision": "rejected", "override": true, "reason": "x"}), "resumeValue.override"),
        ("owner", json!({"decision": "overridden"}), "resumeValue.reason"),
        ("owner", json!({"decision": "overridden", "reason": " "}), "resumeValue.reason"),
    ] {
        by(role, value).refused_for(field).status_is(Status::WaitingApproval);
    }
}

#[test]
fn a_resume_schema_is_applied_to_the_decision_granted_or_rejected() {
    let gate = || {
        let data = json!({
            "gateId": "g", "requiredRole": "release", "actions": ["accept", "reject"],
            "override": {"requiredRole": "owner"},
        });
        let schema = json!({
            "type": "object", "required": ["decision", "ticket"], "additionalProperties": false,
            "properties": {
                "decision": {"enum": ["granted", "rejected"]}, "ticket": {"type": "string"}, "reason": {},
            },
        });
        let mut request = approval_of(data);
        request.resume_schema = Some(schema);
        given([start(), begin("gate"), ask("gate", request)])
    };
    let by = |role: &str, value: Value| gate().when(answer_by(holder("bob", role), 1, value));
    by("release", json!({"decision": "granted"})).refused_for("resumeValue");
    by("release", json!({"decision": "granted", "ticket": 1})).refused_for("resumeValue/ticket");
    by("release", json!({"action": "accept", "ticket": "T1"})).accepted();
    by("owner", json!({"decision": "overridden", "ticket": "T1", "reason": "urgent fix"})).accepted();
}

#[test]
fn an_expired_governed_gate_is_neither_granted_nor_rejected() {
    let data = json!({"gateId": "g", "requiredRole": "release", "actions": ["accept", "reject"]});
    let request = holdpoint_core::InterruptRequest { timeout_ms: Some(100), ..approval_of(data) };
    given([start(), begin("gate"), ask("gate", request)])
        .later(100)
        .when(releaser("bob", "granted"))
        .refused(Refusal::Expired)
        .when(expire(1))
        .then([timed_out(1), resumed("gate", 1)])
        .when(releaser("bob", "granted"))
        .refused(Refusal::AlreadyResolved);
}

#[test]
fn an_invalid_request_of_a_governed_gate_is_refused() {
    let whole = || {
        json!({
            "gateId": "g", "requiredRole": "release", "actions": ["accept", "reject"],
            "override": {"requiredRole": "owner"}, "requiredApprovals": 2,
        })
    };
    assert_eq!(approval_of(whole()).check(), Ok(()));
    let mut bare = whole();
    bare.as_object_mut().expect("an object").shift_remove("requiredRole");
    let mut nameless = whole();
    nameless.as_object_mut().expect("an object").shift_remove("gateId");
    let mut alone = whole();
    alone.as_object_mut().expect("an object").shift_remove("override");
    for (data, field) in [
        (bare, "data.requiredRole"),
        (nameless, "data.gateId"),
        (with(alone, "overrideBypassesQuorum", json!(true)), "data.overrideBypassesQuorum"),
        (with(whole(), "requiredRole", json!("")), "data.requiredRole"),
        (with(whole(), "requiredScope", json!(["a"])), "data.requiredScope"),
        (with(whole(), "actions", json!(["accept", "refine"])), "data.actions[1]"),
        (with(whole(), "quorum", json!(3)), "data.quorum"),
        (with(whole(), "overrideBypassesQuorum", json!("yes")), "data.overrideBypassesQuorum"),
        (with(whole(), "override", json!({})), "data.override"),
        (with(whole(), "override", json!({"requiredRole": 1})), "data.override.requiredRole"),
        (
            with(whole(), "override", json!({"requiredRole": "owner", "audited": false})),
            "data.override.audited",
        ),
        (with(whole(), "override", json!({"requiredRole": "owner", "by": "me"})), "data.override.by"),
    ] {
        assert_eq!(approval_of(data).check().map_err(|bad| bad.field), Err(field.to_owned()));
    }
}
