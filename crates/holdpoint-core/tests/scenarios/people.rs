//! Who may decide: listed approvers, people who act for others, and requesters who may not grant their own wish.

use holdpoint_core::{
    AUTH_REQUIRED, Answer, Command, Event, Heard, InterruptId, Kind, Principal, Refusal, Resolution, Start,
    Status,
};
use serde_json::{Value, json};

use crate::story::{DAWN, Story, given};
use crate::words::*;

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

fn tell(answer: Answer) -> Command {
    Command::Resolve { answers: [(InterruptId(1), answer)].into() }
}

fn accept_by(by: Principal) -> Command {
    tell(Answer::new(json!({"action": "accept"}), by))
}

/// Bob, who may act for others, in somebody's name.
fn acting(value: Value) -> Answer {
    Answer { acting_as: true, known: true, ..Answer::new(value, bob()) }
}

fn not_an_approver(name: &str) -> Refusal {
    Refusal::NotAnApprover(name.to_owned())
}

#[test]
fn an_entry_means_a_name_a_role_or_a_group_and_a_prefix_says_which() {
    let listed = |entry: &str| gate(json!({"approversList": ["nobody", entry]})).when(accept_by(bob()));
    for entry in ["bob", "ops", "night", "role:ops", "group:night"] {
        listed(entry).accepted();
    }
    for entry in ["role:bob", "group:bob", "role:night", "group:ops", "role:", "bo", "BOB", "user:bob"] {
        listed(entry).refused(not_an_approver("bob")).status_is(Status::WaitingApproval);
    }
}

#[test]
fn a_question_may_name_people_too_and_is_then_for_them() {
    let asked = |members: Value| {
        let questions = json!([{"id": "q", "question": "Why?"}]);
        let asking = request(Kind::Clarification, with(members, "questions", questions));
        given([start(), begin("gate"), ask("gate", asking)])
    };
    let by = |who: Principal| tell(Answer::new(json!({"answers": {"q": "so"}}), who));
    for (members, entries) in [
        (json!({"approversList": ["role:ops"]}), &["role:ops"][..]),
        (json!({"approverGroupRefs": ["night"]}), &["group:night"]),
        (json!({"audience": {"subjects": ["bob"]}}), &["bob"]),
        (json!({"requesterMayNotApprove": true}), &[]),
    ] {
        let open = asked(members.clone());
        let told = open.interrupt_of("gate").unwrap().assignees(&["ada"]);
        assert_eq!(told.entries(), entries, "{members}");
        assert!(told.admit(&bob()) && !told.admit(&Principal::named("ada")), "{members}");
        let refusal = match entries {
            [] => Refusal::OwnRequest("ada".to_owned()),
            _ => not_an_approver("ada"),
        };
        open.when(by(Principal::named("ada"))).refused(refusal).status_is(Status::WaitingInput);
        asked(members).when(by(bob())).accepted();
    }
    // Nobody is named: anybody answers. What governs approvals says nothing here.
    asked(json!({"approversList": []})).when(by(Principal::named("ada"))).accepted();
    asked(json!({"approversList": ["bob"], "gateId": "g", "requiredRole": "boss"}))
        .when(by(bob()))
        .accepted();
    // Somebody answers in another's name, and is written down beside it.
    let acted = acting(json!({"answers": {"q": "so"}, "decidedBy": "carol"}));
    let story = asked(json!({"approversList": ["carol"]})).when(tell(acted)).accepted();
    let said = story.run().interrupts[0].resolution.clone();
    let Some(Resolution::Answered { value, by, .. }) = said else { panic!("{said:?}") };
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
fn who_may_not_decide_may_not_ask_either() {
    gate(json!({"approversList": ["ada"]}))
        .when(tell(Answer::new(json!({"action": "ask", "question": "Why?"}), bob())))
        .refused(not_an_approver("bob"));
}

#[test]
fn nobody_answers_in_another_name_unless_the_host_lets_them() {
    for member in ["decidedBy", "voter"] {
        let value = json!({"action": "accept", member: "carol"});
        gate(json!({}))
            .when(tell(Answer::new(value.clone(), bob())))
            .refused(Refusal::MayNotActFor("carol".to_owned()))
            .status_is(Status::WaitingApproval);
        let story = gate(json!({})).when(tell(acting(value))).accepted();
        let resolution = &story.interrupt_of("gate").expect("asked").resolution;
        let shown = format!("{resolution:?}");
        assert!(shown.contains(r#"by: "carol""#), "{shown}");
        assert!(shown.contains(r#""actedBy": String("bob")"#), "{shown}");
    }
    let own = json!({"action": "accept", "decidedBy": "bob", "voter": "bob"});
    gate(json!({})).when(tell(Answer::new(own, bob()))).accepted();
}

#[test]
fn who_spoke_is_written_down_beside_in_whose_name_also_where_nothing_is_decided() {
    let for_carol = |action: &str| json!({"action": action, "voter": "carol", "question": "Why?"});
    let told = |action: &str| tell(acting(for_carol(action)));
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
    let story = gate(json!({"requiredApprovals": 2})).when(told("ask")).then([asked]);
    let heard = |story: &Story| story.interrupt_of("gate").and_then(|asked| asked.heard);
    assert_eq!(heard(&story), Some(Heard::Asked(1)));
    let story = story.when(told("accept")).accepted();
    assert_eq!(heard(&story), Some(Heard::Voted));
    let votes = story.interrupt_of("gate").map(|asked| asked.votes.clone()).unwrap_or_default();
    assert_eq!((votes[0].by.as_str(), &votes[0].value["actedBy"]), ("carol", &json!("bob")));
    let story = story.when(told("accept")).then([again]);
    assert_eq!(heard(&story), Some(Heard::Repeated));
}

#[test]
fn nobody_speaks_for_the_host() {
    for name in ["system:timeout", "quorum:majority"] {
        gate(json!({}))
            .when(tell(acting(json!({"action": "accept", "decidedBy": name}))))
            .refused(Refusal::MayNotActFor(name.to_owned()))
            .status_is(Status::WaitingApproval);
    }
}

#[test]
fn a_name_is_one_name_and_not_empty() {
    for value in [json!({"action": "accept", "voter": ""}), json!({"action": "accept", "voter": 5})] {
        gate(json!({})).when(tell(acting(value))).refused_for("resumeValue.voter");
    }
    let torn = json!({"action": "accept", "voter": "carol", "decidedBy": "dave"});
    gate(json!({})).when(tell(acting(torn))).refused_for("resumeValue.decidedBy");
}

#[test]
fn roles_are_not_lent_to_those_in_whose_name_somebody_acts() {
    let carol = || tell(acting(json!({"action": "accept", "voter": "carol"})));
    gate(json!({"approversList": ["role:ops"]})).when(carol()).refused(not_an_approver("carol"));
    gate(json!({"approversList": ["carol"]})).when(carol()).accepted();
}

#[test]
fn whoever_is_only_named_passes_as_no_role_and_no_group() {
    let unknown = || Refusal::UnknownName("finance".to_owned());
    let named = |known| {
        let value = json!({"action": "accept", "decidedBy": "finance"});
        tell(Answer { known, ..acting(value) })
    };
    let linked = |known| {
        let finance = Principal::named("finance");
        tell(Answer { by_link: true, known, ..Answer::new(json!({"action": "accept"}), finance) })
    };
    let listed = || gate(json!({"approversList": ["finance"]}));
    for unheard_of in [named(false), linked(false)] {
        listed().when(unheard_of.clone()).refused(unknown()).status_is(Status::WaitingApproval);
        // Where it can only be a name, or where anybody may decide, it need not be known.
        gate(json!({"audience": {"subjects": ["finance"]}})).when(unheard_of.clone()).accepted();
        gate(json!({"approversList": ["role:finance"]}))
            .when(unheard_of.clone())
            .refused(not_an_approver("finance"));
        gate(json!({})).when(unheard_of).accepted();
    }
    for somebody in [named(true), linked(true)] {
        listed().when(somebody).accepted();
    }
    // With a key of their own people are who they are.
    listed().when(accept_by(Principal::named("finance"))).accepted();
}

#[test]
fn whoever_started_the_run_does_not_grant_it_where_the_gate_says_so() {
    // Ada starts every run of these stories.
    let own = Refusal::OwnRequest("ada".to_owned());
    let separated = || gate(json!({"requesterMayNotApprove": true}));
    separated().when(accept(1)).refused(own.clone()).status_is(Status::WaitingApproval);
    separated().when(accept_by(bob())).accepted();
    gate(json!({"requesterMayNotApprove": false})).when(accept(1)).accepted();
    // Neither through somebody else nor in somebody else's name.
    separated().when(tell(acting(json!({"action": "accept", "voter": "ada"})))).refused(own.clone());
    let in_bobs_name =
        Answer { acting_as: true, ..Answer::new(json!({"action": "accept", "voter": "bob"}), ada()) };
    separated().when(tell(in_bobs_name)).refused(own);
}

#[test]
fn whoever_forked_the_run_does_not_grant_it_either_where_the_gate_says_so() {
    let forked = |members: Value| {
        let Command::Start(begun) = start() else { panic!("a start") };
        let forked_by = vec!["carol".to_owned(), "bob".to_owned()];
        let members = with(members, "actions", json!(["accept"]));
        given([
            Command::Start(Box::new(Start { forked_by, ..*begun })),
            begin("gate"),
            ask("gate", approval_of(members)),
        ])
    };
    let separated = || forked(json!({"requesterMayNotApprove": true}));
    let admits = |story: &Story, name: &str| {
        let asked = story.interrupt_of("gate").expect("asked");
        asked.assignees(&story.run().requesters()).admit(&Principal::named(name))
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
        let Command::Start(begun) = start() else { panic!("a start") };
        let requested_by = vec!["bob".to_owned()];
        let members = with(members, "actions", json!(["accept"]));
        given([
            Command::Start(Box::new(Start { requested_by, ..*begun })),
            begin("gate"),
            ask("gate", approval_of(members)),
        ])
    };
    let separated = || child(json!({"requesterMayNotApprove": true}));
    separated().when(accept_by(bob())).refused(Refusal::OwnRequest("bob".to_owned()));
    separated().when(accept_by(Principal::named("carol"))).accepted();
    assert_eq!(separated().run().requesters(), ["ada", "bob"]);
    assert_eq!(
        separated().run().inherited_requesters(),
        ["bob"],
        "a child of the child inherits them as well"
    );
    child(json!({})).when(accept_by(bob())).accepted();
}

/// An answer over a link that says who speaks, and that somebody else may have made.
fn by_link(by: Principal, maker: &str) -> Command {
    let vouched_by = Some(maker.to_owned());
    tell(Answer { by_link: true, vouched_by, ..Answer::new(json!({"action": "accept"}), by) })
}

#[test]
fn whoever_started_the_run_does_not_grant_it_by_a_link_made_for_another() {
    let separated = || gate(json!({"requesterMayNotApprove": true}));
    let own = Refusal::OwnRequest("ada".to_owned());
    separated().when(by_link(bob(), "ada")).refused(own.clone()).status_is(Status::WaitingApproval);
    separated().when(by_link(ada(), "bob")).refused(own);
    separated().when(by_link(bob(), "carol")).accepted();
}

#[test]
fn who_made_a_link_for_another_is_written_down() {
    let said = |maker: &str| {
        let story = gate(json!({})).when(by_link(bob(), maker)).accepted();
        match story.interrupt_of("gate").and_then(|asked| asked.resolution.clone()) {
            Some(Resolution::Answered { value, by, .. }) => (by, value.get("actedBy").cloned()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(said("carol"), ("bob".to_owned(), Some(json!("carol"))));
    assert_eq!(said("bob"), ("bob".to_owned(), None));
}

#[test]
fn a_gate_that_wants_a_key_is_not_answered_over_a_link() {
    let by_link = || tell(Answer { by_link: true, ..Answer::new(json!({"action": "accept"}), bob()) });
    let keyed = gate(json!({"profile": AUTH_REQUIRED}));
    assert!(keyed.interrupt_of("gate").expect("asked").needs_key());
    keyed.when(by_link()).refused(Refusal::KeyRequired).when(accept_by(bob())).accepted();
    gate(json!({})).when(by_link()).accepted();
}

#[test]
fn an_answer_to_something_else_than_was_shown_does_not_count() {
    let shown = gate(json!({}));
    let digest = shown.interrupt_of("gate").expect("asked").digest.clone();
    let echoing =
        |digest: Option<String>| tell(Answer { digest, ..Answer::new(json!({"action": "accept"}), bob()) });
    let other = holdpoint_core::digest(&json!({"title": "Pay less?"}));
    shown
        .when(echoing(Some(other.clone())))
        .refused(Refusal::PayloadMismatch)
        .status_is(Status::WaitingApproval)
        .when(echoing(digest))
        .accepted();
    // A question of an older version has no digest that could be echoed.
    let data = approval().data;
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
fn other_kinds_know_their_sender_and_nobody_else() {
    let value = json!({"decidedBy": "carol"});
    let story = given([start(), begin("gate"), ask("gate", custom())]).when(tell(acting(value.clone())));
    let answered = holdpoint_core::Resolution::Answered {
        value,
        by: "bob".to_owned(),
        at: DAWN,
        decision: None,
        via: None,
    };
    assert_eq!(story.interrupt_of("gate").expect("asked").resolution, Some(answered));
}
