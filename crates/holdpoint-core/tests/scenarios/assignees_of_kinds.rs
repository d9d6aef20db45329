//! The rules about assignees apply to every kind of interrupt.

use holdpoint_core::{
    Answer, Command, ExternalEvent, InterruptId, InterruptRequest, Kind, Principal, Refusal, Resolution,
    StartRequest, Via,
};
use serde_json::{Map, Value, json};

use crate::story::{Story, given};
use crate::vocabulary::*;

/// Returns the kinds that wait for an answer, each with data and a valid answer.
fn kinds() -> [(Kind, Value, Value); 6] {
    [
        (
            Kind::Approval,
            json!({"artifactId": "a", "artifactType": "t", "title": "Pay?", "actions": ["accept"]}),
            json!({"action": "accept"}),
        ),
        (
            Kind::Clarification,
            json!({"questions": [{"id": "q", "question": "Why?"}]}),
            json!({"answers": {"q": "so"}}),
        ),
        (
            Kind::ExternalEvent,
            json!({"eventType": "paid", "correlation": {"order": 7}}),
            json!({"eventPayload": {"order": 7}}),
        ),
        (Kind::Custom, json!({"customKind": "colour"}), json!({"colour": "blue"})),
        (Kind::ConversationExchange, json!({"prompt": "Well?"}), json!("fine")),
        (
            Kind::LowConfidence,
            json!({"agentId": "planner", "threshold": 0.7, "observed": 0.2, "decision": 1}),
            json!({"action": "accept"}),
        ),
    ]
}

/// Each member of the data that can name assignees, with a value that names Bob only.
const ASSIGNEE_MEMBERS: [(&str, &str); 6] = [
    ("approversList", r#"["bob"]"#),
    ("approversList", r#"["role:ops"]"#),
    ("approversList", r#"["group:night"]"#),
    ("approverRoleRefs", r#"["ops"]"#),
    ("approverGroupRefs", r#"["night"]"#),
    ("audience", r#"{"subjects": ["bob"]}"#),
];

fn assignee_members() -> impl Iterator<Item = (&'static str, Value)> {
    ASSIGNEE_MEMBERS.iter().map(|(name, value)| (*name, serde_json::from_str(value).expect("JSON")))
}

fn bob() -> Principal {
    Principal { roles: vec!["ops".to_owned()], groups: vec!["night".to_owned()], ..Principal::named("bob") }
}

fn eve() -> Principal {
    Principal::named("eve")
}

fn waiting_for(kind: Kind, data: Value) -> Story {
    let story = given([start(), begin("gate")]);
    let story = match kind {
        Kind::ConversationExchange => {
            let opening = request(Kind::ConversationStart, json!({"conversationId": "chat"}));
            story.given([ask("gate", with_key("open", opening))])
        }
        Kind::Approval
        | Kind::Clarification
        | Kind::ExternalEvent
        | Kind::Custom
        | Kind::ConversationStart
        | Kind::ConversationClose
        | Kind::LowConfidence => story,
    };
    story.given([ask("gate", request(kind, data))])
}

fn resolve_with(story: Story, answer: Answer) -> Story {
    let id = story.interrupt_of("gate").expect("an interrupt").id;
    story.when(Command::Resolve { answers: [(id, answer)].into() })
}

#[test]
fn each_kind_is_answered_only_by_its_assignees() {
    for (kind, data, value) in kinds() {
        for (member, named) in assignee_members() {
            let story = waiting_for(kind, with(data.clone(), member, named));
            let story = resolve_with(story, Answer::new(value.clone(), eve()))
                .refused(Refusal::NotAnApprover("eve".to_owned()));
            // An answer over a link is refused too.
            let by_link = Answer {
                by_link: true,
                vouched_by: Some("ann".to_owned()),
                ..Answer::new(value.clone(), eve())
            };
            let story = resolve_with(story, by_link).refused(Refusal::NotAnApprover("eve".to_owned()));
            let story = resolve_with(story, Answer::new(value.clone(), bob())).accepted();
            let asked = story.interrupt_of("gate").expect("an interrupt");
            let by = asked.resolution.as_ref().map(|ended| match ended {
                Resolution::Answered { by, .. } => by.as_str(),
                Resolution::TimedOut { .. } => "timeout",
            });
            assert_eq!(by, Some("bob"), "{} {member}", kind.as_str());
        }
    }
}

#[test]
fn the_requester_cannot_answer_a_kind_that_forbids_it() {
    for (kind, data, value) in kinds() {
        let story = waiting_for(kind, with(data, "requesterMayNotApprove", json!(true)));
        let story = resolve_with(story, Answer::new(value.clone(), ada()))
            .refused(Refusal::OwnRequest("ada".to_owned()));
        resolve_with(story, Answer::new(value, eve())).accepted();
    }
}

#[test]
fn an_answer_in_the_name_of_an_assignee_is_refused_in_every_kind() {
    for (kind, data, value) in kinds() {
        let story = waiting_for(kind, with(data, "approversList", json!(["bob"])));
        let Value::Object(mut claimed) = value else { continue };
        claimed.insert("decidedBy".to_owned(), json!("bob"));
        resolve_with(story, Answer::new(Value::Object(claimed), eve()))
            .refused(Refusal::MayNotActFor("bob".to_owned()));
    }
}

#[test]
fn lists_show_the_assignees_of_each_kind() {
    for (kind, data, _) in kinds() {
        let story = waiting_for(kind, with(data, "approversList", json!(["bob", "role:lead"])));
        let assignees = story.interrupt_of("gate").expect("an interrupt").assignees(&["ada"]);
        assert_eq!(assignees.entries(), ["bob", "role:lead"], "{}", kind.as_str());
        assert!(assignees.admits(&bob()) && !assignees.admits(&eve()));
    }
}

#[test]
fn assignees_of_every_kind_are_validated_in_the_request() {
    for (kind, data, _) in kinds() {
        for (member, wrong) in [
            ("approversList", json!("bob")),
            ("approversList", json!([" "])),
            ("approverRoleRefs", json!([1])),
            ("audience", json!([])),
            ("requesterMayNotApprove", json!("yes")),
        ] {
            let bad =
                request(kind, with(data.clone(), member, wrong)).check().expect_err("invalid assignees");
            assert!(bad.field.starts_with(&format!("data.{member}")), "{bad}");
        }
    }
}

#[test]
fn kinds_that_the_host_answers_cannot_have_assignees() {
    for kind in [Kind::ConversationStart, Kind::ConversationClose] {
        for (member, named) in assignee_members().chain([("requesterMayNotApprove", json!(true))]) {
            let asked = request(kind, with(json!({"conversationId": "chat"}), member, named));
            let bad = asked.check().expect_err("the host answers this kind");
            assert_eq!(bad.field, format!("data.{member}"));
        }
    }
}

#[test]
fn simulated_exchanges_cannot_have_assignees() {
    let data = json!({"prompt": "Well?", "approversList": ["bob"]});
    let simulated_exchange = InterruptRequest {
        simulated_answer: Some(json!("fine")),
        ..request(Kind::ConversationExchange, data)
    };
    assert_eq!(simulated_exchange.check().expect_err("named").field, "data.approversList");
}

#[test]
fn an_event_does_not_resolve_an_interrupt_with_assignees() {
    for (member, named) in assignee_members().chain([("requesterMayNotApprove", json!(true))]) {
        let data = json!({"eventType": "paid", "correlation": {}});
        let story = waiting_for(Kind::ExternalEvent, with(data, member, named));
        let event = ExternalEvent {
            event_type: "paid".to_owned(),
            event_id: "e1".to_owned(),
            correlation: Map::new(),
            payload: json!({}),
        };
        // The event is refused even if an assignee sent it.
        let deliver = Command::Deliver { interrupt: InterruptId(1), event: Box::new(event), by: bob() };
        let why = "this interrupt restricts who may answer it; an event cannot resolve it";
        let story = story.when(deliver).refused(Refusal::NotAuthorized(why.to_owned()));
        resolve_with(story, Answer::new(json!({"eventPayload": {}}), bob())).accepted();
    }
}

#[test]
fn an_answer_in_another_name_records_the_sender_in_every_kind() {
    for (kind, data, value) in kinds() {
        let story = waiting_for(kind, with(data, "approversList", json!(["bob"])));
        let Value::Object(mut members) = value else { continue };
        members.insert("decidedBy".to_owned(), json!("bob"));
        let acting = Answer {
            acting_as: true,
            decider_known: true,
            via: Some(Via::key("key_1")),
            ..Answer::new(Value::Object(members), Principal::named("bot"))
        };
        let story = resolve_with(story, acting).accepted();
        let asked = story.interrupt_of("gate").expect("an interrupt");
        let Some(Resolution::Answered { value, by, .. }) = &asked.resolution else { panic!("open") };
        assert_eq!((by.as_str(), &value["actedBy"]), ("bob", &json!("bot")), "{}", kind.as_str());
    }
}

#[test]
fn a_forker_cannot_answer_a_kind_that_forbids_requesters() {
    for (kind, data, value) in kinds().into_iter().filter(|(kind, ..)| *kind != Kind::ConversationExchange) {
        let forked = StartRequest { forked_by: vec!["eve".to_owned()], ..start_request(json!({})) };
        let asked = request(kind, with(data, "requesterMayNotApprove", json!(true)));
        let story = given([Command::Start(Box::new(forked)), begin("gate"), ask("gate", asked)]);
        resolve_with(story, Answer::new(value, eve())).refused(Refusal::OwnRequest("eve".to_owned()));
    }
}
