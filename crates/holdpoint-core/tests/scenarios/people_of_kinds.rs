//! The rules about people apply to every kind of interrupt.

use holdpoint_core::{
    Answer, Command, ExternalEvent, InterruptId, Kind, Principal, Refusal, Request, Resolution, Start, Via,
};
use serde_json::{Map, Value, json};

use crate::story::{Story, given};
use crate::words::*;

/// The kinds that wait for an answer, with data and an answer that fits.
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

/// Each member of the data that can name Bob, with a value that names only him.
const PEOPLE: [(&str, &str); 6] = [
    ("approversList", r#"["bob"]"#),
    ("approversList", r#"["role:ops"]"#),
    ("approversList", r#"["group:night"]"#),
    ("approverRoleRefs", r#"["ops"]"#),
    ("approverGroupRefs", r#"["night"]"#),
    ("audience", r#"{"subjects": ["bob"]}"#),
];

fn people() -> impl Iterator<Item = (&'static str, Value)> {
    PEOPLE.iter().map(|(name, value)| (*name, serde_json::from_str(value).expect("JSON")))
}

fn bob() -> Principal {
    Principal { roles: vec!["ops".to_owned()], groups: vec!["night".to_owned()], ..Principal::named("bob") }
}

fn eve() -> Principal {
    Principal::named("eve")
}

fn asking(kind: Kind, data: Value) -> Story {
    let begun = given([start(), begin("gate")]);
    let begun = match kind {
        Kind::ConversationExchange => {
            let opening = request(Kind::ConversationStart, json!({"conversationId": "chat"}));
            begun.given([ask("gate", with_key("open", opening))])
        }
        Kind::Approval
        | Kind::Clarification
        | Kind::ExternalEvent
        | Kind::Custom
        | Kind::ConversationStart
        | Kind::ConversationClose
        | Kind::LowConfidence => begun,
    };
    begun.given([ask("gate", request(kind, data))])
}

fn tell(story: Story, answer: Answer) -> Story {
    let id = story.interrupt_of("gate").expect("asked").id;
    story.when(Command::Resolve { answers: [(id, answer)].into() })
}

#[test]
fn each_kind_is_answered_only_by_the_people_that_it_names() {
    for (kind, data, value) in kinds() {
        for (member, named) in people() {
            let story = asking(kind, with(data.clone(), member, named));
            let story = tell(story, Answer::new(value.clone(), eve()))
                .refused(Refusal::NotAnApprover("eve".to_owned()));
            // A link of her own does not let her in either.
            let by_link = Answer {
                by_link: true,
                vouched_by: Some("ann".to_owned()),
                ..Answer::new(value.clone(), eve())
            };
            let story = tell(story, by_link).refused(Refusal::NotAnApprover("eve".to_owned()));
            let story = tell(story, Answer::new(value.clone(), bob())).accepted();
            let asked = story.interrupt_of("gate").expect("asked");
            let by = asked.resolution.as_ref().map(|ended| match ended {
                Resolution::Answered { by, .. } => by.as_str(),
                Resolution::TimedOut { .. } => "nobody",
            });
            assert_eq!(by, Some("bob"), "{} {member}", kind.as_str());
        }
    }
}

#[test]
fn the_requester_cannot_answer_a_kind_that_forbids_it() {
    for (kind, data, value) in kinds() {
        let story = asking(kind, with(data, "requesterMayNotApprove", json!(true)));
        let story =
            tell(story, Answer::new(value.clone(), ada())).refused(Refusal::OwnRequest("ada".to_owned()));
        tell(story, Answer::new(value, eve())).accepted();
    }
}

#[test]
fn an_answer_in_the_name_of_a_listed_person_is_refused_in_every_kind() {
    for (kind, data, value) in kinds() {
        let story = asking(kind, with(data, "approversList", json!(["bob"])));
        let Value::Object(mut claimed) = value else { continue };
        claimed.insert("decidedBy".to_owned(), json!("bob"));
        tell(story, Answer::new(Value::Object(claimed), eve()))
            .refused(Refusal::MayNotActFor("bob".to_owned()));
    }
}

#[test]
fn lists_show_the_assignees_of_each_kind() {
    for (kind, data, _) in kinds() {
        let story = asking(kind, with(data, "approversList", json!(["bob", "role:lead"])));
        let assignees = story.interrupt_of("gate").expect("asked").assignees(&["ada"]);
        assert_eq!(assignees.entries(), ["bob", "role:lead"], "{}", kind.as_str());
        assert!(assignees.admit(&bob()) && !assignees.admit(&eve()));
    }
}

#[test]
fn people_are_checked_in_every_kind_when_it_is_asked() {
    for (kind, data, _) in kinds() {
        for (member, wrong) in [
            ("approversList", json!("bob")),
            ("approversList", json!([" "])),
            ("approverRoleRefs", json!([1])),
            ("audience", json!([])),
            ("requesterMayNotApprove", json!("yes")),
        ] {
            let bad = request(kind, with(data.clone(), member, wrong)).check().expect_err("wrong people");
            assert!(bad.field.starts_with(&format!("data.{member}")), "{bad}");
        }
    }
}

#[test]
fn kinds_that_the_host_answers_cannot_name_people() {
    for kind in [Kind::ConversationStart, Kind::ConversationClose] {
        for (member, named) in people().chain([("requesterMayNotApprove", json!(true))]) {
            let asked = request(kind, with(json!({"conversationId": "chat"}), member, named));
            let bad = asked.check().expect_err("nobody answers it");
            assert_eq!(bad.field, format!("data.{member}"));
        }
    }
}

#[test]
fn turns_that_the_host_answers_cannot_name_people() {
    let data = json!({"prompt": "Well?", "approversList": ["bob"]});
    let rehearsed = Request { rehearsed: Some(json!("fine")), ..request(Kind::ConversationExchange, data) };
    assert_eq!(rehearsed.check().expect_err("named").field, "data.approversList");
}

#[test]
fn an_event_does_not_resolve_an_interrupt_that_names_people() {
    for (member, named) in people().chain([("requesterMayNotApprove", json!(true))]) {
        let data = json!({"eventType": "paid", "correlation": {}});
        let story = asking(Kind::ExternalEvent, with(data, member, named));
        let event = ExternalEvent {
            event_type: "paid".to_owned(),
            event_id: "e1".to_owned(),
            correlation: Map::new(),
            payload: json!({}),
        };
        // Also if a listed person sent the event.
        let deliver = Command::Deliver { interrupt: InterruptId(1), event: Box::new(event), by: bob() };
        let why = "this interrupt takes answers of those who may answer it; an event is not enough";
        let story = story.when(deliver).refused(Refusal::NotAuthorized(why.to_owned()));
        tell(story, Answer::new(json!({"eventPayload": {}}), bob())).accepted();
    }
}

#[test]
fn an_answer_in_another_name_records_the_sender_in_every_kind() {
    for (kind, data, value) in kinds() {
        let story = asking(kind, with(data, "approversList", json!(["bob"])));
        let Value::Object(mut said) = value else { continue };
        said.insert("decidedBy".to_owned(), json!("bob"));
        let acting = Answer {
            acting_as: true,
            known: true,
            via: Some(Via::key("key_1")),
            ..Answer::new(Value::Object(said), Principal::named("bot"))
        };
        let story = tell(story, acting).accepted();
        let asked = story.interrupt_of("gate").expect("asked");
        let Some(Resolution::Answered { value, by, .. }) = &asked.resolution else { panic!("open") };
        assert_eq!((by.as_str(), &value["actedBy"]), ("bob", &json!("bot")), "{}", kind.as_str());
    }
}

#[test]
fn a_forker_cannot_answer_a_kind_that_forbids_requesters() {
    for (kind, data, value) in kinds().into_iter().filter(|(kind, ..)| *kind != Kind::ConversationExchange) {
        let forked = Start { forked_by: vec!["eve".to_owned()], ..start_of(json!({})) };
        let asked = request(kind, with(data, "requesterMayNotApprove", json!(true)));
        let story = given([Command::Start(Box::new(forked)), begin("gate"), ask("gate", asked)]);
        tell(story, Answer::new(value, eve())).refused(Refusal::OwnRequest("eve".to_owned()));
    }
}
