//! Assignees: listed approvers, principals that act for others, and requesters that may not approve their own runs.

use holdpoint_core::{
    AUTH_REQUIRED, Answer, Command, Event, InterruptId, Kind, Principal, Refusal, Resolution, StartRequest,
    Status, UndecidedAnswer,
};
use serde_json::{Value, json};

use crate::story::{START_TIME, Story, given};
use crate::vocabulary::*;

fn gate(members: Value) -> Story {
    given([
        start(),
        begin("gate"),
        ask("gate", approval_of(with(members, "actions", json!(["accept", "ask"])))),
    ])
}

fn bob() -> Principal {
    Principal { roles: vec!["ops".to_owned()], groups: vec!["night".to_owned()], ..Principal::named("bob") }
}

fn resolve_with(answer: Answer) -> Command {
    Command::Resolve { answers: [(InterruptId(1), answer)].into() }
}

fn accept_by(by: Principal) -> Command {
    resolve_with(Answer::new(json!({"action": "accept"}), by))
}

/// Returns an answer of Bob, who may act for others.
fn acting(value: Value) -> Answer {
    Answer { acting_as: true, decider_known: true, ..Answer::new(value, bob()) }
}

fn not_an_approver(name: &str) -> Refusal {
    Refusal::NotAnApprover(name.to_owned())
}

#[test]
fn a_plain_entry_matches_a_name_a_role_or_a_group_and_a_prefix_restricts_it() {
    let listed = |entry: &str| gate(json!({"approversList": ["unknown", entry]})).when(accept_by(bob()));
    for entry in ["bob", "ops", "night", "role:ops", "group:night"] {
        listed(entry).accepted();
    }
    for entry in ["role:bob", "group:bob", "role:night", "group:ops", "role:", "bo", "BOB", "user:bob"] {
        listed(entry).refused(not_an_approver("bob")).status_is(Status::WaitingApproval);
    }
}

#[test]
fn a_clarification_with_assignees_is_answered_only_by_them() {
    let asked = |members: Value| {
        let questions = json!([{"id": "q", "question": "Why?"}]);
        let asking = request(Kind::Clarification, with(members, "questions", questions));
        given([start(), begin("gate"), ask("gate", asking)])
    };
    let by = |who: Principal| resolve_with(Answer::new(json!({"answers": {"q": "so"}}), who));
    for (members, entries) in [
        (json!({"approversList": ["role:ops"]}), &["role:ops"][..]),
        (json!({"approverGroupRefs": ["night"]}), &["group:night"]),
        (json!({"audience": {"subjects": ["bob"]}}), &["bob"]),
        (json!({"requesterMayNotApprove": true}), &[]),
    ] {
        let open = asked(members.clone());
        let assignees = open.interrupt_of("gate").unwrap().assignees(&["ada"]);
        assert_eq!(assignees.entries(), entries, "{members}");
        assert!(assignees.admits(&bob()) && !assignees.admits(&Principal::named("ada")), "{members}");
        let refusal = match entries {
            [] => Refusal::OwnRequest("ada".to_owned()),
            _ => not_an_approver("ada"),
        };
        open.when(by(Principal::named("ada"))).refused(refusal).status_is(Status::WaitingInput);
        asked(members).when(by(bob())).accepted();
    }
    // Without a list every principal may answer. Members of governed gates have no effect.
    asked(json!({"approversList": []})).when(by(Principal::named("ada"))).accepted();
    asked(json!({"approversList": ["bob"], "gateId": "g", "requiredRole": "boss"}))
        .when(by(bob()))
        .accepted();
    // An answer in another name records the sender in `actedBy`.
    let acted = acting(json!({"answers": {"q": "so"}, "decidedBy": "carol"}));
    let story = asked(json!({"approversList": ["carol"]})).when(resolve_with(acted)).accepted();
    let resolution = story.run().interrupts[0].resolution.clone();
    let Some(Resolution::Answered { value, by, .. }) = resolution else { panic!("{resolution:?}") };
    assert_eq!((by.as_str(), value), ("carol", json!({"answers": {"q": "so"}, "actedBy": "bob"})));
}

#[test]
fn a_name_that_looks_like_a_role_is_not_that_role() {
    let mallory = Principal::named("role:ops");
    gate(json!({"approversList": ["role:ops"]}))
        .when(accept_by(mallory))
        .refused(not_an_approver("role:ops"));
}

#[test]
fn lists_of_roles_and_of_groups_add_to_the_list_of_approvers() {
    for members in [
        json!({"approverRoleRefs": ["ops"]}),
        json!({"approverGroupRefs": ["night"]}),
        json!({"approversList": ["ada"], "approverRoleRefs": ["ops"]}),
        json!({"approversList": [], "approverRoleRefs": [], "approverGroupRefs": []}),
    ] {
        gate(members).when(accept_by(bob())).accepted();
    }
    for members in [
        json!({"approverRoleRefs": ["bob", "night"]}),
        json!({"approverGroupRefs": ["bob", "ops"]}),
        json!({"approversList": [], "approverRoleRefs": ["boss"]}),
    ] {
        gate(members).when(accept_by(bob())).refused(not_an_approver("bob"));
    }
}

#[test]
fn a_principal_that_may_not_decide_may_not_ask_side_questions() {
    gate(json!({"approversList": ["ada"]}))
        .when(resolve_with(Answer::new(json!({"action": "ask", "question": "Why?"}), bob())))
        .refused(not_an_approver("bob"));
}

#[test]
fn an_answer_in_another_name_requires_the_right_to_act_for_others() {
    for member in ["decidedBy", "voter"] {
        let value = json!({"action": "accept", member: "carol"});
        gate(json!({}))
            .when(resolve_with(Answer::new(value.clone(), bob())))
            .refused(Refusal::MayNotActFor("carol".to_owned()))
            .status_is(Status::WaitingApproval);
        let story = gate(json!({})).when(resolve_with(acting(value))).accepted();
        let resolution = &story.interrupt_of("gate").expect("an interrupt").resolution;
        let shown = format!("{resolution:?}");
        assert!(shown.contains(r#"by: "carol""#), "{shown}");
        assert!(shown.contains(r#""actedBy": String("bob")"#), "{shown}");
    }
    let own = json!({"action": "accept", "decidedBy": "bob", "voter": "bob"});
    gate(json!({})).when(resolve_with(Answer::new(own, bob()))).accepted();
}

#[test]
fn votes_and_side_questions_in_another_name_record_the_sender() {
    let for_carol = |action: &str| json!({"action": action, "voter": "carol", "question": "Why?"});
    let send = |action: &str| resolve_with(acting(for_carol(action)));
    let (by, acted_by) = (|| "carol".to_owned(), || Some("bob".to_owned()));
    let interrupt = InterruptId(1);
    let asked = Event::AskRaised {
        interrupt,
        ask: 1,
        question: "Why?".to_owned(),
        by: by(),
        acted_by: acted_by(),
        via: None,
    };
    let again = Event::VoteRepeated {
        interrupt,
        action: "accept".to_owned(),
        by: by(),
        acted_by: acted_by(),
        via: None,
    };
    let story = gate(json!({"requiredApprovals": 2})).when(send("ask")).then([asked]);
    let undecided = |story: &Story| story.interrupt_of("gate").and_then(|asked| asked.undecided_answer);
    assert_eq!(undecided(&story), Some(UndecidedAnswer::Asked(1)));
    let story = story.when(send("accept")).accepted();
    assert_eq!(undecided(&story), Some(UndecidedAnswer::Voted));
    let votes = story.interrupt_of("gate").map(|asked| asked.votes.clone()).unwrap_or_default();
    assert_eq!((votes[0].by.as_str(), &votes[0].value["actedBy"]), ("carol", &json!("bob")));
    let story = story.when(send("accept")).then([again]);
    assert_eq!(undecided(&story), Some(UndecidedAnswer::Repeated));
}

#[test]
fn reserved_names_of_the_host_cannot_be_used() {
    for name in ["system:timeout", "quorum:majority"] {
        gate(json!({}))
            .when(resolve_with(acting(json!({"action": "accept", "decidedBy": name}))))
            .refused(Refusal::MayNotActFor(name.to_owned()))
            .status_is(Status::WaitingApproval);
    }
}

#[test]
fn the_name_of_the_voter_is_not_empty_and_unambiguous() {
    for value in [json!({"action": "accept", "voter": ""}), json!({"action": "accept", "voter": 5})] {
        gate(json!({})).when(resolve_with(acting(value))).refused_for("resumeValue.voter");
    }
    let conflicting = json!({"action": "accept", "voter": "carol", "decidedBy": "dave"});
    gate(json!({})).when(resolve_with(acting(conflicting))).refused_for("resumeValue.decidedBy");
}

#[test]
fn roles_of_the_sender_do_not_apply_to_answers_in_another_name() {
    let carol = || resolve_with(acting(json!({"action": "accept", "voter": "carol"})));
    gate(json!({"approversList": ["role:ops"]})).when(carol()).refused(not_an_approver("carol"));
    gate(json!({"approversList": ["carol"]})).when(carol()).accepted();
}

#[test]
fn an_unknown_name_does_not_match_a_plain_entry() {
    let unknown = || Refusal::UnknownName("finance".to_owned());
    let named = |known| {
        let value = json!({"action": "accept", "decidedBy": "finance"});
        resolve_with(Answer { decider_known: known, ..acting(value) })
    };
    let linked = |known| {
        let finance = Principal::named("finance");
        resolve_with(Answer {
            by_link: true,
            decider_known: known,
            ..Answer::new(json!({"action": "accept"}), finance)
        })
    };
    let listed = || gate(json!({"approversList": ["finance"]}));
    for unknown_name in [named(false), linked(false)] {
        listed().when(unknown_name.clone()).refused(unknown()).status_is(Status::WaitingApproval);
        // If the entry can only be a name, or every principal may decide, the name need not be known.
        gate(json!({"audience": {"subjects": ["finance"]}})).when(unknown_name.clone()).accepted();
        gate(json!({"approversList": ["role:finance"]}))
            .when(unknown_name.clone())
            .refused(not_an_approver("finance"));
        gate(json!({})).when(unknown_name).accepted();
    }
    for known in [named(true), linked(true)] {
        listed().when(known).accepted();
    }
    // The name of an API key is always known.
    listed().when(accept_by(Principal::named("finance"))).accepted();
}

#[test]
fn the_starter_of_a_run_may_not_approve_if_the_gate_forbids_it() {
    // Ada starts every run of these stories.
    let own = Refusal::OwnRequest("ada".to_owned());
    let separated = || gate(json!({"requesterMayNotApprove": true}));
    separated().when(accept(1)).refused(own.clone()).status_is(Status::WaitingApproval);
    separated().when(accept_by(bob())).accepted();
    gate(json!({"requesterMayNotApprove": false})).when(accept(1)).accepted();
    // The requester cannot approve through another principal or in another name either.
    separated().when(resolve_with(acting(json!({"action": "accept", "voter": "ada"})))).refused(own.clone());
    let in_bobs_name =
        Answer { acting_as: true, ..Answer::new(json!({"action": "accept", "voter": "bob"}), ada()) };
    separated().when(resolve_with(in_bobs_name)).refused(own);
}

#[test]
fn forkers_of_a_run_may_not_approve_if_the_gate_forbids_it() {
    let forked = |members: Value| {
        let Command::Start(request) = start() else { panic!("a start") };
        let forked_by = vec!["carol".to_owned(), "bob".to_owned()];
        let members = with(members, "actions", json!(["accept"]));
        given([
            Command::Start(Box::new(StartRequest { forked_by, ..*request })),
            begin("gate"),
            ask("gate", approval_of(members)),
        ])
    };
    let separated = || forked(json!({"requesterMayNotApprove": true}));
    let admits = |story: &Story, name: &str| {
        let asked = story.interrupt_of("gate").expect("an interrupt");
        asked.assignees(&story.run().requesters()).admits(&Principal::named(name))
    };
    for name in ["ada", "bob", "carol"] {
        let own = Refusal::OwnRequest(name.to_owned());
        separated().when(accept_by(Principal::named(name))).refused(own);
        assert!(!admits(&separated(), name), "{name}");
    }
    assert!(admits(&separated(), "dave"));
    separated().when(accept_by(Principal::named("dave"))).accepted();
    forked(json!({})).when(accept_by(bob())).accepted();
}

#[test]
fn inherited_requesters_may_not_approve_if_the_gate_forbids_it() {
    let child = |members: Value| {
        let Command::Start(request) = start() else { panic!("a start") };
        let requested_by = vec!["bob".to_owned()];
        let members = with(members, "actions", json!(["accept"]));
        given([
            Command::Start(Box::new(StartRequest { requested_by, ..*request })),
            begin("gate"),
            ask("gate", approval_of(members)),
        ])
    };
    let separated = || child(json!({"requesterMayNotApprove": true}));
    separated().when(accept_by(bob())).refused(Refusal::OwnRequest("bob".to_owned()));
    separated().when(accept_by(Principal::named("carol"))).accepted();
    assert_eq!(separated().run().requesters(), ["ada", "bob"]);
    assert_eq!(separated().run().inherited_requesters(), ["bob"], "a child of the child inherits them too");
    child(json!({})).when(accept_by(bob())).accepted();
}

/// Returns an answer over a link for this principal that `maker` created.
fn by_link(by: Principal, maker: &str) -> Command {
    let vouched_by = Some(maker.to_owned());
    resolve_with(Answer { by_link: true, vouched_by, ..Answer::new(json!({"action": "accept"}), by) })
}

#[test]
fn the_starter_of_a_run_may_not_approve_over_a_link_for_another_principal() {
    let separated = || gate(json!({"requesterMayNotApprove": true}));
    let own = Refusal::OwnRequest("ada".to_owned());
    separated().when(by_link(bob(), "ada")).refused(own.clone()).status_is(Status::WaitingApproval);
    separated().when(by_link(ada(), "bob")).refused(own);
    separated().when(by_link(bob(), "carol")).accepted();
}

#[test]
fn the_creator_of_a_link_for_another_principal_is_recorded() {
    let recorded = |maker: &str| {
        let story = gate(json!({})).when(by_link(bob(), maker)).accepted();
        match story.interrupt_of("gate").and_then(|asked| asked.resolution.clone()) {
            Some(Resolution::Answered { value, by, .. }) => (by, value.get("actedBy").cloned()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(recorded("carol"), ("bob".to_owned(), Some(json!("carol"))));
    assert_eq!(recorded("bob"), ("bob".to_owned(), None));
}

#[test]
fn a_gate_that_requires_a_key_is_not_answered_over_a_link() {
    let by_link =
        || resolve_with(Answer { by_link: true, ..Answer::new(json!({"action": "accept"}), bob()) });
    let keyed = gate(json!({"profile": AUTH_REQUIRED}));
    assert!(keyed.interrupt_of("gate").expect("an interrupt").needs_key());
    keyed.when(by_link()).refused(Refusal::KeyRequired).when(accept_by(bob())).accepted();
    gate(json!({})).when(by_link()).accepted();
}

#[test]
fn an_answer_with_another_payload_digest_is_refused() {
    let shown = gate(json!({}));
    let digest = shown.interrupt_of("gate").expect("an interrupt").digest.clone();
    let echoing = |digest: Option<String>| {
        resolve_with(Answer { digest, ..Answer::new(json!({"action": "accept"}), bob()) })
    };
    let other = holdpoint_core::digest(&json!({"title": "Pay less?"}));
    shown
        .when(echoing(Some(other.clone())))
        .refused(Refusal::PayloadMismatch)
        .status_is(Status::WaitingApproval)
        .when(echoing(digest))
        .accepted();
    // An interrupt of an older version has no digest to compare.
    let data = approval().data.into();
    let old = holdpoint_core::Event::InterruptRequested {
        id: InterruptId(1),
        node: node_id("gate"),
        kind: holdpoint_core::Kind::Approval,
        key: "k".to_owned(),
        data,
        resume_schema: None,
        timeout_ms: None,
        digest: None,
    };
    let old = given([started(), node_started("gate"), old, suspended("gate", 1)]);
    old.when(echoing(Some(other))).refused(Refusal::PayloadMismatch).when(echoing(None)).accepted();
}

#[test]
fn interrupts_without_assignees_record_the_sender() {
    let value = json!({"decidedBy": "carol"});
    let story =
        given([start(), begin("gate"), ask("gate", custom())]).when(resolve_with(acting(value.clone())));
    let answered = holdpoint_core::Resolution::Answered {
        value,
        by: "bob".to_owned(),
        at: START_TIME,
        decision: None,
        via: None,
        client_metadata: serde_json::Map::new(),
    };
    assert_eq!(story.interrupt_of("gate").expect("an interrupt").resolution, Some(answered));
}
