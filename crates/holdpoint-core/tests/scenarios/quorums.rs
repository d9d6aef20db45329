//! Gates that require several approvals: votes that count, votes that decide, and repeated votes.

use holdpoint_core::{
    Answer, Command, Event, InterruptId, Obligation, Principal, Refusal, Resolution, Status, Timer,
};
use serde_json::{Value, json};

use crate::story::{START_TIME, Story, given};
use crate::vocabulary::*;

fn gate(required: u64, policy: &str) -> Story {
    let data = json!({
        "actions": ["accept", "reject", "refine", "ask"], "requiredApprovals": required, "rejectionPolicy": policy,
    });
    given([start(), begin("gate"), ask("gate", approval_of(data))])
}

fn vote(name: &str, action: &str) -> Command {
    let mut value = json!({"action": action});
    if action == "refine" {
        value["refineFeedback"] = json!({"scope": "whole", "text": "shorter"});
    }
    answer_by(Principal::named(name), 1, value)
}

fn counted(name: &str, action: &str) -> Value {
    json!({"action": action, "decidedBy": name, "decidedAt": START_TIME.to_string()})
}

fn cast(name: &str, action: &str) -> Event {
    Event::VoteCast {
        interrupt: InterruptId(1),
        value: counted(name, action),
        by: name.to_owned(),
        decision: None,
        via: None,
        copied: false,
        client_metadata: serde_json::Map::new(),
    }
}

/// Returns the action that decided the gate, if it is closed.
fn outcome(story: &Story) -> Option<String> {
    match story.interrupt_of("gate").expect("an interrupt").resolution.as_ref()? {
        Resolution::Answered { value, .. } => value["action"].as_str().map(str::to_owned),
        Resolution::TimedOut { .. } => Some("timeout".to_owned()),
    }
}

#[test]
fn votes_are_collected_and_the_last_required_vote_decides() {
    let story = gate(2, "single-veto")
        .when(vote("bob", "accept"))
        .then([cast("bob", "accept")])
        .obliges([])
        .status_is(Status::WaitingApproval)
        .next_is("nothing");
    let votes = json!([counted("bob", "accept"), counted("eve", "accept")]);
    let mut decision = counted("eve", "accept");
    decision["quorum"] =
        json!({"required": 2, "policy": "single-veto", "approvals": 2, "rejections": 0, "votes": votes});
    let decided = Event::InterruptResolved {
        id: InterruptId(1),
        value: decision,
        by: "eve".to_owned(),
        decision: None,
        via: None,
        copied: false,
        client_metadata: serde_json::Map::new(),
        vote: None,
    };
    let story = story.when(vote("eve", "accept")).then([decided, approval_received(1), resumed("gate", 1)]);
    assert_eq!(story.interrupt_of("gate").map(|asked| asked.votes.len()), Some(2));
    story.when(vote("carol", "accept")).refused(Refusal::AlreadyResolved);
}

#[test]
fn votes_are_shown_while_others_are_missing() {
    let story = gate(3, "majority").given([vote("bob", "accept"), vote("eve", "reject")]);
    let asked = story.interrupt_of("gate").expect("an interrupt");
    let seen: Vec<_> = asked.votes.iter().map(|vote| (vote.by.as_str(), vote.action())).collect();
    assert_eq!(seen, [("bob", "accept"), ("eve", "reject")]);
    assert_eq!(asked.required_approvals(), 3);
}

#[test]
fn one_rejection_vetoes_and_a_majority_needs_more_than_half_of_the_required_votes() {
    let after = |required: u64, policy: &str, votes: &[&str]| {
        let voters = ["ann", "bob", "carol", "dave", "eve"].into_iter();
        let votes: Vec<Command> = voters.zip(votes).map(|(name, action)| vote(name, action)).collect();
        outcome(&gate(required, policy).given(votes))
    };
    let ended = |action: &str| Some(action.to_owned());
    assert_eq!(after(3, "single-veto", &["accept", "accept", "reject"]), ended("reject"));
    assert_eq!(after(3, "single-veto", &["accept", "refine"]), ended("refine"));
    assert_eq!(after(3, "majority", &["reject"]), None);
    assert_eq!(after(3, "majority", &["accept", "reject", "reject"]), ended("reject"));
    assert_eq!(
        after(3, "majority", &["refine", "refine"]),
        ended("refine"),
        "a refinement is not an approval"
    );
    assert_eq!(after(3, "majority", &["reject", "accept", "accept", "accept"]), ended("accept"));
    assert_eq!(after(2, "majority", &["reject", "accept"]), None);
    assert_eq!(after(2, "majority", &["reject", "reject"]), ended("reject"));
    assert_eq!(after(1, "majority", &["reject"]), ended("reject"));
}

#[test]
fn a_vote_counts_once_and_a_repeated_vote_is_recorded() {
    let again = || Event::VoteRepeated {
        interrupt: InterruptId(1),
        action: "accept".to_owned(),
        by: "bob".to_owned(),
        acted_by: None,
        via: None,
    };
    let story = gate(2, "single-veto")
        .given([vote("bob", "accept")])
        .when(vote("bob", "accept"))
        .then([again()])
        .when(vote("bob", "accept"))
        .then([again()])
        .status_is(Status::WaitingApproval);
    assert_eq!(story.interrupt_of("gate").map(|asked| (asked.votes.len(), asked.repeated)), Some((1, 2)));
}

#[test]
fn the_number_of_recorded_repeated_votes_is_limited() {
    let max = holdpoint_core::limits::REPEATED_VOTES_MAX as usize;
    gate(2, "single-veto")
        .given(std::iter::repeat_with(|| vote("bob", "accept")).take(max + 1))
        .when(vote("bob", "accept"))
        .refused(Refusal::AlreadyVoted("bob".to_owned()));
}

#[test]
fn a_vote_that_was_counted_does_not_change() {
    gate(3, "majority")
        .given([vote("bob", "accept")])
        .when(vote("bob", "reject"))
        .refused(Refusal::AlreadyVoted("bob".to_owned()))
        .status_is(Status::WaitingApproval);
}

#[test]
fn one_sender_may_submit_votes_of_others_if_it_may_act_for_them() {
    let bring = |voter: &str| {
        let value = json!({"action": "accept", "voter": voter});
        let answer = Answer { acting_as: true, ..Answer::new(value, ada()) };
        Command::Resolve { answers: [(InterruptId(1), answer)].into() }
    };
    let story = gate(2, "single-veto").given([bring("bob"), bring("bob")]);
    assert_eq!(outcome(&story), None);
    let story = story.given([bring("eve")]);
    assert_eq!(outcome(&story).as_deref(), Some("accept"));
}

#[test]
fn members_of_the_quorum_in_an_answer_are_ignored() {
    let forged = json!({"action": "accept", "quorum": {"approvals": 9}, "actedBy": "the boss"});
    let vote_of = |name: &str| answer_by(Principal::named(name), 1, forged.clone());
    let story = gate(2, "single-veto").given([vote_of("bob"), vote_of("eve")]);
    let asked = story.interrupt_of("gate").expect("an interrupt");
    for vote in &asked.votes {
        assert_eq!((vote.value.get("quorum"), vote.value.get("actedBy")), (None, None), "{vote:?}");
        assert_eq!(vote.value["ignored"], json!({"quorum": {"approvals": 9}, "actedBy": "the boss"}));
    }
    assert_eq!(recorded(&story)["quorum"]["approvals"], 2);
    let single = given([start(), begin("gate"), ask("gate", approval()), answer(1, forged.clone())]);
    let value = recorded(&single);
    assert_eq!((value.get("quorum"), value.get("actedBy")), (None, None), "{value}");
}

fn recorded(story: &Story) -> Value {
    match &story.interrupt_of("gate").expect("an interrupt").resolution {
        Some(Resolution::Answered { value, .. }) => value.clone(),
        other => panic!("not answered: {other:?}"),
    }
}

#[test]
fn the_outcome_of_a_quorum_does_not_depend_on_the_order_of_votes() {
    let members = |name: &str, action: &str| {
        let mut value = json!({"action": action, "comment": name, "feedback": name, "payment": name});
        if action == "refine" {
            value["refineFeedback"] = json!({"scope": "whole", "text": name});
        }
        answer_by(Principal::named(name), 1, value)
    };
    let after = |required: u64, policy: &str, votes: &[(&str, &str)]| {
        let votes: Vec<Command> = votes.iter().map(|(name, action)| members(name, action)).collect();
        let mut value = object(recorded(&gate(required, policy).given(votes)));
        for member in ["decidedBy", "decidedAt", "quorum"] {
            assert!(value.shift_remove(member).is_some(), "{member}");
        }
        Value::Object(value)
    };
    let (ann, bob) = (("ann", "accept"), ("bob", "accept"));
    assert_eq!(after(2, "single-veto", &[ann, bob]), json!({"action": "accept"}));
    assert_eq!(after(2, "single-veto", &[bob, ann]), json!({"action": "accept"}));
    let (no, later) = (("ann", "reject"), ("bob", "refine"));
    let rejected = json!({"action": "reject", "comment": "ann", "feedback": "ann"});
    assert_eq!(after(3, "majority", &[no, later]), rejected);
    assert_eq!(after(3, "majority", &[later, no]), rejected);
    let refined = [("ann", "refine"), ("bob", "refine")];
    assert_eq!(after(3, "majority", &refined), json!({"action": "refine"}));
    let alone = after(2, "single-veto", &[ann, later]);
    assert_eq!(alone["refineFeedback"]["text"], "bob", "the deciding vote has the reason");
}

#[test]
fn the_last_vote_is_recorded_as_it_was_cast() {
    let sent = json!({"action": "accept", "comment": "fine", "payment": 7});
    let last = answer_by(Principal::named("eve"), 1, sent.clone());
    let story = gate(2, "single-veto").given([vote("bob", "accept"), last]);
    let asked = story.interrupt_of("gate").expect("an interrupt");
    let recorded_vote = &asked.votes[1].value;
    assert_eq!(
        (&recorded_vote["comment"], &recorded_vote["ignored"]),
        (&json!("fine"), &json!({"payment": 7}))
    );
    assert!(asked.votes[1].grants());
}

#[test]
fn a_gate_with_too_few_votes_expires() {
    let timed = holdpoint_core::InterruptRequest {
        timeout_ms: Some(100),
        ..approval_of(json!({"actions": ["accept"], "requiredApprovals": 2}))
    };
    let deadline =
        Obligation::ClearTimer { timer: Timer::Interrupt(InterruptId(1)), due: START_TIME.plus_ms(100) };
    given([start(), begin("gate"), ask("gate", timed), vote("bob", "accept")])
        .later(100)
        .when(vote("eve", "accept"))
        .refused(Refusal::Expired)
        .when(expire(1))
        .then([timed_out(1), approval_received(1), resumed("gate", 1)])
        .obliges([Obligation::Activate, deadline]);
}
