//! Grants and votes in copies of a run: they are shown there and permit nothing.

use holdpoint_core::{
    Answer, Command, Dispatch, Event, Fork, ForkMode, InterruptId, NodeStatus, Outcome, Principal, Refusal,
    Resolution, RunId, Start, UnusableGrant, WorkflowId,
};
use serde_json::{Value, json};

use crate::grants::{accepted, asked, begin_effect, begun, decided, full_approval, gate_pay_mail, uses_of};
use crate::story::{Story, on};
use crate::words::*;

fn not_transferable(gate: &str, source: &str) -> UnusableGrant {
    let source_run = RunId::parse(source).expect("a run id");
    UnusableGrant::NotTransferable { gate: gate.to_owned(), source_run }
}

fn usable(story: &Story, node: &str) -> Result<Vec<InterruptId>, UnusableGrant> {
    story.run().usable_grants(&node_id(node))
}

/// Returns the position of the first event of this name in the log.
fn place_of(story: &Story, name: &str) -> usize {
    story.log().iter().position(|(_, event)| event.name() == name).expect("an event of that name")
}

fn whole(story: &Story) -> Story {
    story.branched(story.log().len())
}

fn vote(name: &str, action: &str) -> Command {
    answer_by(Principal::named(name), 1, json!({"action": action}))
}

/// A gate that takes two approvals.
fn two_votes() -> Story {
    let data =
        json!({"actions": ["accept", "reject"], "requiredApprovals": 2, "rejectionPolicy": "majority"});
    on(gate_pay_mail()).given([start(), begin("gate"), ask("gate", approval_of(data))])
}

fn votes_of(story: &Story) -> Vec<(String, bool)> {
    asked(story, 1).votes.iter().map(|vote| (vote.by.clone(), vote.copied)).collect()
}

fn voted(names: &[(&str, bool)]) -> Vec<(String, bool)> {
    names.iter().map(|(name, copied)| ((*name).to_owned(), *copied)).collect()
}

#[track_caller]
fn permits_nothing(copy: Story, source: &str) {
    let refusal = not_transferable("gate gate", source);
    assert!(asked(&copy, 1).taken_over && asked(&copy, 1).is_granted(), "the decision is shown");
    for effect in ["gate", "pay", "mail"] {
        assert_eq!(usable(&copy, effect), Err(refusal.clone()), "{effect}");
    }
    assert_eq!(copy.run().grants_for_child(&node_id("pay"), None), Vec::<String>::new());
    let copy = copy.when(begin_effect("pay")).then([begun("pay", &[])]);
    let copy = copy.when(record("pay", "sent", json!(1))).refused(Refusal::UnusableGrant(refusal.clone()));
    assert_eq!(uses_of(&copy, 1), []);
    assert_eq!(Refusal::UnusableGrant(refusal.clone()).code().as_str(), "grant_not_transferable");
    let error = refusal.error();
    assert_eq!(error.code, "grant_not_transferable");
    assert!(error.message.contains(source) && error.message.contains("branch before the gate"), "{error:?}");
}

#[test]
fn a_branch_behind_a_gate_cannot_use_its_grant() {
    permits_nothing(whole(&accepted()), "run-1");
}

#[test]
fn a_replay_cannot_use_a_grant_of_its_source() {
    permits_nothing(accepted().replayed(), "run-1");
}

#[test]
fn copies_of_copies_cannot_use_a_grant_either() {
    let branch = whole(&accepted());
    permits_nothing(whole(&branch), "run-1-copy");
    permits_nothing(branch.replayed(), "run-1-copy");
    permits_nothing(whole(&accepted().replayed()), "run-1-copy");
    permits_nothing(accepted().replayed().replayed().replayed(), "run-1-copy-copy");
}

#[test]
fn a_source_keeps_its_grant_however_often_it_is_copied() {
    let source = accepted();
    let (_, _) = (whole(&source), source.replayed());
    source
        .when(begin_effect("pay"))
        .then([begun("pay", &[1])])
        .when(record("pay", "sent", json!(1)))
        .accepted();
}

#[test]
fn an_effect_whose_start_was_copied_is_refused_too() {
    let source = accepted().given([begin_effect("pay")]);
    let copy = whole(&source).next_is("enter pay");
    assert_eq!(usable(&copy, "pay"), Err(not_transferable("gate gate", "run-1")));
    let refusal = Refusal::UnusableGrant(not_transferable("gate gate", "run-1"));
    copy.when(record("pay", "sent", json!(1))).refused(refusal);
}

#[test]
fn a_copy_starts_no_children_behind_a_grant_of_its_source() {
    let workflow = WorkflowId::parse("child").expect("a workflow id");
    let wanted = Dispatch { workflow, inputs: object(json!({})), wait: true, cascade: true };
    let dispatch = || finish("pay", Outcome::Dispatched(Box::new(wanted.clone())));
    let copy = whole(&accepted()).given([begin_effect("pay")]).when(dispatch());
    let copy = copy.failed_with(
        "grant_not_transferable",
        "gate gate: the approval was given before this run was copied from run-1",
    );
    assert_eq!((copy.run().children.len(), uses_of(&copy, 1)), (0, Vec::new()));
    let source = accepted().given([begin_effect("pay")]).when(dispatch()).accepted();
    assert_eq!(source.run().children.len(), 1);
}

#[test]
fn a_branch_owns_the_decisions_after_its_position() {
    let source = accepted();
    let decision = place_of(&source, "interrupt.resolved");
    let before = source.branched(decision);
    assert!(asked(&before, 1).is_open());
    let before = before.when(accept(1)).accepted().given([done("gate")]);
    assert!(!asked(&before, 1).taken_over);
    let before = before.when(begin_effect("pay")).then([begun("pay", &[1])]);
    before.when(record("pay", "sent", json!(1))).accepted();
    let behind = source.branched(decision + 1);
    assert!(!asked(&behind, 1).is_open() && asked(&behind, 1).taken_over);
    assert_eq!(usable(&behind, "pay"), Err(not_transferable("gate gate", "run-1")));
}

#[test]
fn a_branch_from_the_first_event_owns_its_decisions() {
    let anew = accepted().branched(1).given([begin("gate"), ask("gate", full_approval()), accept(1)]);
    assert_eq!(usable(&anew.given([done("gate")]), "pay"), Ok(vec![InterruptId(1)]));
}

#[test]
fn a_gate_that_a_copy_asks_again_gives_it_a_grant_of_its_own() {
    let edges = [edge("first", "gate"), edge("gate", "pay"), with(edge("pay", "gate"), "id", json!("back"))];
    let source = on(workflow([node("first"), node("gate"), node("pay")], edges))
        .given([start(), begin("first"), done("first"), begin("gate"), ask("gate", full_approval())])
        .given([accept(1), done("gate"), begin_effect("pay"), done("pay")]);
    let copy = whole(&source);
    assert_eq!(usable(&copy, "pay"), Err(not_transferable("gate gate", "run-1")));
    let copy = copy.given([begin("gate"), ask("gate", with_key("k2", full_approval())), accept(2)]);
    let copy = copy.given([done("gate")]).when(begin_effect("pay")).then([begun("pay", &[2])]);
    copy.when(record("pay", "sent", json!(1))).accepted();
}

#[test]
fn a_copied_rejection_permits_no_less_than_in_its_source() {
    let rejected = decided(gate_pay_mail(), full_approval(), answer(1, json!({"action": "reject"})));
    for copy in [whole(&rejected), rejected.replayed()] {
        assert_eq!(usable(&copy, "pay"), Ok(Vec::new()));
    }
}

#[test]
fn effects_that_need_no_grant_go_on_in_a_copy() {
    let pay = with(node("pay"), "grant", json!("none"));
    let flow = workflow([node("gate"), pay, node("mail")], [edge("gate", "pay"), edge("pay", "mail")]);
    let copy = whole(&decided(flow, full_approval(), accept(1)));
    assert_eq!(usable(&copy, "pay"), Ok(Vec::new()));
    copy.given([begin_effect("pay")]).when(record("pay", "sent", json!(1))).accepted();
}

#[test]
fn votes_that_were_cast_before_the_copy_are_shown_and_do_not_count() {
    let source = two_votes().given([vote("bob", "accept")]);
    for copy in [whole(&source), source.replayed()] {
        assert_eq!(votes_of(&copy), voted(&[("bob", true)]));
        let copy = copy.later(1).when(vote("eve", "accept")).accepted();
        assert!(asked(&copy, 1).is_open(), "one vote of this run is not two");
        let copy = copy.when(vote("bob", "accept")).accepted();
        assert_eq!(votes_of(&copy), voted(&[("bob", true), ("eve", false), ("bob", false)]));
        assert_eq!(asked(&copy, 1).deciders(), ["eve", "bob"]);
        let Some(Resolution::Answered { value, .. }) = &asked(&copy, 1).resolution else { panic!("open") };
        assert_eq!(
            (&value["quorum"]["approvals"], value["quorum"]["votes"].as_array().map(Vec::len)),
            (&json!(2), Some(2))
        );
        let copy = copy.given([done("gate")]);
        assert_eq!(usable(&copy, "pay"), Ok(vec![InterruptId(1)]));
    }
    assert_eq!(votes_of(&source), voted(&[("bob", false)]));
    let source = source.when(vote("eve", "accept")).accepted();
    assert!(!asked(&source, 1).is_open());
}

#[test]
fn a_voter_of_the_source_may_vote_once_more_and_differently_in_the_copy() {
    let copy = whole(&two_votes().given([vote("bob", "accept")])).when(vote("bob", "reject")).accepted();
    assert_eq!(votes_of(&copy), voted(&[("bob", true), ("bob", false)]));
    copy.when(vote("bob", "accept")).refused(Refusal::AlreadyVoted("bob".to_owned()));
}

#[test]
fn rejections_that_were_cast_before_the_copy_do_not_count_either() {
    let copy = whole(&two_votes().given([vote("bob", "reject")]));
    let copy = copy.when(vote("eve", "reject")).accepted();
    assert!(asked(&copy, 1).is_open());
    let copy = copy.given([vote("bob", "accept"), vote("ada", "accept")]);
    assert!(asked(&copy, 1).is_granted());
    assert_eq!(asked(&copy, 1).deciders(), ["bob", "ada"]);
}

#[test]
fn all_votes_of_a_copied_decision_are_copied() {
    let source = two_votes().given([vote("bob", "accept"), vote("eve", "accept"), done("gate")]);
    assert_eq!(votes_of(&source), voted(&[("bob", false), ("eve", false)]));
    let copy = whole(&source);
    assert_eq!(votes_of(&copy), voted(&[("bob", true), ("eve", true)]));
    assert_eq!(asked(&copy, 1).deciders(), ["bob", "eve"]);
    permits_nothing(copy, "run-1");
}

#[test]
fn a_copy_may_reuse_the_decision_id_of_a_copied_vote() {
    let named = |by: &str, action: &str| {
        let value = json!({"action": action});
        let answer = Answer { decision: Some("d1".to_owned()), ..Answer::new(value, Principal::named(by)) };
        Command::Resolve { answers: [(InterruptId(1), answer)].into() }
    };
    let source = two_votes().given([named("bob", "accept")]);
    let copy = whole(&source).when(named("eve", "accept")).accepted();
    assert_eq!(votes_of(&copy), voted(&[("bob", true), ("eve", false)]));
    source
        .when(named("bob", "accept"))
        .then([])
        .when(named("eve", "reject"))
        .refused(Refusal::DecisionConflict("d1".to_owned()));
}

/// An answer that a replay repeats.
fn again(name: &str) -> Command {
    let answer = Answer { copied: true, ..Answer::new(json!({"action": "accept"}), Principal::named(name)) };
    Command::Resolve { answers: [(InterruptId(1), answer)].into() }
}

fn diverged(source: &Story) -> Event {
    let (expected, found) = ("a".to_owned(), "b".to_owned());
    Event::ReplayDiverged { source: source.run().id.clone(), at_sequence: 1, expected, found }
}

/// A replay that differs from its source after this many events.
fn differs_after(source: &Story, events: usize) -> Story {
    let fork = Fork { copied: Some(source.log().len() as u64), ..source.fork(ForkMode::Replay) };
    source.copied(&source.log()[..events], fork).given([diverged(source)])
}

#[test]
fn a_replay_that_differs_asks_again_and_can_use_what_it_is_granted() {
    let source = accepted();
    let copy = differs_after(&source, place_of(&source, "interrupt.resolved"));
    assert!(copy.run().diverged);
    let copy = copy.when(accept(1)).accepted().given([done("gate")]);
    assert!(!asked(&copy, 1).taken_over);
    copy.when(begin_effect("pay")).then([begun("pay", &[1])]);
    // Decisions that were copied before the difference stay copied.
    permits_nothing(differs_after(&source, source.log().len()), "run-1");
}

#[test]
fn the_copied_part_of_a_longer_replay_is_not_lengthened_by_a_difference() {
    let source = two_votes();
    let copy = differs_after(&source.replayed().given([vote("bob", "accept")]), 3);
    let copy = copy.given([vote("eve", "accept")]);
    assert_eq!(votes_of(&copy), voted(&[("eve", false)]));
    // A recorded difference of another run has no effect.
    let other = source.replayed().given([diverged(&accepted().replayed())]);
    assert!(!other.run().diverged);
}

#[test]
fn answers_that_a_replay_repeats_are_no_grants_of_the_replay() {
    let source = two_votes();
    let copy = differs_after(&source, source.log().len()).given([again("bob")]);
    assert_eq!(votes_of(&copy), voted(&[("bob", true)]));
    let mixed = copy.when(vote("eve", "accept")).accepted();
    assert!(asked(&mixed, 1).is_open(), "a copied vote and one of this run are not two");
    let mixed = mixed.when(again("eve")).accepted();
    assert_eq!(votes_of(&mixed), voted(&[("bob", true), ("eve", false), ("eve", true)]));
    assert_eq!(asked(&mixed, 1).deciders(), ["bob", "eve"]);
    permits_nothing(mixed.given([done("gate")]), "run-1");
}

/// A replay as older versions stored it: without the number of its copied events.
fn stored_replay(source: &Story, at: Option<u64>) -> Story {
    let at = at.map(|ms| crate::story::DAWN.plus_ms(ms));
    source.copied(source.log(), Fork { at, ..source.fork(ForkMode::Replay) })
}

#[test]
fn decisions_before_a_replay_of_an_older_version_count_as_copied() {
    let source = two_votes().later(10).given([vote("bob", "accept")]);
    let copy = stored_replay(&source, Some(10)).later(1).given([vote("eve", "accept")]);
    assert_eq!(votes_of(&copy), voted(&[("bob", true), ("eve", false)]));
    let early = stored_replay(&source, Some(9));
    assert_eq!(votes_of(&early), voted(&[("bob", false)]));
    // Without an instant all decisions count as copied.
    let unknown =
        stored_replay(&source, None).later(1000).given([vote("eve", "accept"), vote("bob", "accept")]);
    assert_eq!(votes_of(&unknown), voted(&[("bob", true), ("eve", true), ("bob", true)]));
    permits_nothing(stored_replay(&accepted(), Some(0)), "run-1");
    permits_nothing(stored_replay(&accepted(), None), "run-1");
}

/// A child run that was started behind a grant of its parent.
fn child() -> Story {
    let start = Start { grants: vec!["run-0:i3".to_owned()], ..start_of(json!({})) };
    let pay = with(node("out"), "grant", json!("none"));
    on(workflow([node("pay"), pay], [edge("pay", "out")])).given([Command::Start(Box::new(start))])
}

#[test]
fn effects_of_a_child_run_need_no_further_use_and_those_of_its_copies_are_refused() {
    let gate = "the gates before the node that started the copied run";
    assert_eq!(usable(&child(), "pay"), Ok(Vec::new()));
    child().given([begin_effect("pay")]).when(record("pay", "sent", json!(1))).accepted();
    for copy in [whole(&child()), child().replayed()] {
        assert_eq!(usable(&copy, "pay"), Err(not_transferable(gate, "run-1")));
        assert_eq!(usable(&copy, "out"), Ok(Vec::new()), "it needs no grant");
        let refusal = Refusal::UnusableGrant(not_transferable(gate, "run-1"));
        let copy = copy.given([begin_effect("pay")]).when(record("pay", "sent", json!(1))).refused(refusal);
        let deeper = whole(&copy);
        assert_eq!(usable(&deeper, "pay"), Err(not_transferable(gate, "run-1-copy")));
    }
}

#[test]
fn a_node_of_a_copy_that_has_begun_may_complete() {
    let copy = whole(&accepted()).given([begin_effect("pay")]);
    let failed: Value = json!({});
    copy.when(done_with("pay", failed)).accepted().node_is("pay", &NodeStatus::Completed);
}
