//! Grants and votes in copies of a run: the copy shows them and cannot use them.

use holdpoint_core::{
    Answer, ChildRunRequest, Command, Event, Fork, ForkMode, InterruptId, NodeOutcome, NodeStatus, Principal,
    Refusal, Resolution, RunId, StartRequest, UnusableGrant, WorkflowId,
};
use serde_json::{Value, json};

use crate::grants::{
    accepted, begin_effect, decided, full_approval, gate_pay_mail, interrupt, node_started_using, uses_of,
};
use crate::story::{Story, on};
use crate::vocabulary::*;

fn not_transferable(gate: &str, source: &str) -> UnusableGrant {
    let source_run = RunId::parse(source).expect("a run id");
    UnusableGrant::NotTransferable { gate: gate.to_owned(), source_run }
}

fn usable(story: &Story, node: &str) -> Result<Vec<InterruptId>, UnusableGrant> {
    story.run().usable_grants(&node_id(node))
}

/// Returns the position of the first event of this name in the log.
fn position_of(story: &Story, name: &str) -> usize {
    story.log().iter().position(|(_, event)| event.name() == name).expect("an event of that name")
}

fn full_branch(story: &Story) -> Story {
    story.branched(story.log().len())
}

fn vote(name: &str, action: &str) -> Command {
    answer_by(Principal::named(name), 1, json!({"action": action}))
}

/// Returns a story with a gate that requires two approvals.
fn two_votes() -> Story {
    let data =
        json!({"actions": ["accept", "reject"], "requiredApprovals": 2, "rejectionPolicy": "majority"});
    on(gate_pay_mail()).given([start(), begin("gate"), ask("gate", approval_of(data))])
}

fn votes_of(story: &Story) -> Vec<(String, bool)> {
    interrupt(story, 1).votes.iter().map(|vote| (vote.by.clone(), vote.copied)).collect()
}

fn voted(names: &[(&str, bool)]) -> Vec<(String, bool)> {
    names.iter().map(|(name, copied)| ((*name).to_owned(), *copied)).collect()
}

#[track_caller]
fn assert_grant_is_unusable(copy: Story, source: &str) {
    let refusal = not_transferable("gate gate", source);
    assert!(interrupt(&copy, 1).taken_over && interrupt(&copy, 1).is_granted(), "the decision is shown");
    for effect in ["gate", "pay", "mail"] {
        assert_eq!(usable(&copy, effect), Err(refusal.clone()), "{effect}");
    }
    assert_eq!(copy.run().grants_for_child(&node_id("pay"), None), Vec::<String>::new());
    let copy = copy.when(begin_effect("pay")).then([node_started_using("pay", &[])]);
    let copy = copy.when(record("pay", "sent", json!(1))).refused(Refusal::UnusableGrant(refusal.clone()));
    assert_eq!(uses_of(&copy, 1), []);
    assert_eq!(Refusal::UnusableGrant(refusal.clone()).code().as_str(), "grant_not_transferable");
    let error = refusal.error();
    assert_eq!(error.code, "grant_not_transferable");
    assert!(error.message.contains(source) && error.message.contains("branch before the gate"), "{error:?}");
}

#[test]
fn a_branch_after_a_gate_cannot_use_its_grant() {
    assert_grant_is_unusable(full_branch(&accepted()), "run-1");
}

#[test]
fn a_replay_cannot_use_a_grant_of_its_source() {
    assert_grant_is_unusable(accepted().replayed(), "run-1");
}

#[test]
fn copies_of_copies_cannot_use_a_grant() {
    let branch = full_branch(&accepted());
    assert_grant_is_unusable(full_branch(&branch), "run-1-copy");
    assert_grant_is_unusable(branch.replayed(), "run-1-copy");
    assert_grant_is_unusable(full_branch(&accepted().replayed()), "run-1-copy");
    assert_grant_is_unusable(accepted().replayed().replayed().replayed(), "run-1-copy-copy");
}

#[test]
fn a_copied_run_keeps_its_grant() {
    let source = accepted();
    let (_, _) = (full_branch(&source), source.replayed());
    source
        .when(begin_effect("pay"))
        .then([node_started_using("pay", &[1])])
        .when(record("pay", "sent", json!(1)))
        .accepted();
}

#[test]
fn an_effect_whose_start_was_copied_is_refused() {
    let source = accepted().given([begin_effect("pay")]);
    let copy = full_branch(&source).next_is("enter pay");
    assert_eq!(usable(&copy, "pay"), Err(not_transferable("gate gate", "run-1")));
    let refusal = Refusal::UnusableGrant(not_transferable("gate gate", "run-1"));
    copy.when(record("pay", "sent", json!(1))).refused(refusal);
}

#[test]
fn a_copy_cannot_start_child_runs_with_a_grant_of_its_source() {
    let workflow = WorkflowId::parse("child").expect("a workflow id");
    let child_request = ChildRunRequest { workflow, inputs: object(json!({})), wait: true, cascade: true };
    let dispatch = || finish("pay", NodeOutcome::ChildRequested(Box::new(child_request.clone())));
    let copy = full_branch(&accepted()).given([begin_effect("pay")]).when(dispatch());
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
    let decision = position_of(&source, "interrupt.resolved");
    let before = source.branched(decision);
    assert!(interrupt(&before, 1).is_open());
    let before = before.when(accept(1)).accepted().given([done("gate")]);
    assert!(!interrupt(&before, 1).taken_over);
    let before = before.when(begin_effect("pay")).then([node_started_using("pay", &[1])]);
    before.when(record("pay", "sent", json!(1))).accepted();
    let behind = source.branched(decision + 1);
    assert!(!interrupt(&behind, 1).is_open() && interrupt(&behind, 1).taken_over);
    assert_eq!(usable(&behind, "pay"), Err(not_transferable("gate gate", "run-1")));
}

#[test]
fn a_branch_from_the_first_event_owns_its_decisions() {
    let branch = accepted().branched(1).given([begin("gate"), ask("gate", full_approval()), accept(1)]);
    assert_eq!(usable(&branch.given([done("gate")]), "pay"), Ok(vec![InterruptId(1)]));
}

#[test]
fn a_gate_that_repeats_in_a_copy_grants_to_the_copy() {
    let edges = [edge("first", "gate"), edge("gate", "pay"), with(edge("pay", "gate"), "id", json!("back"))];
    let source = on(workflow([node("first"), node("gate"), node("pay")], edges))
        .given([start(), begin("first"), done("first"), begin("gate"), ask("gate", full_approval())])
        .given([accept(1), done("gate"), begin_effect("pay"), done("pay")]);
    let copy = full_branch(&source);
    assert_eq!(usable(&copy, "pay"), Err(not_transferable("gate gate", "run-1")));
    let copy = copy.given([begin("gate"), ask("gate", with_key("k2", full_approval())), accept(2)]);
    let copy = copy.given([done("gate")]).when(begin_effect("pay")).then([node_started_using("pay", &[2])]);
    copy.when(record("pay", "sent", json!(1))).accepted();
}

#[test]
fn a_copied_rejection_has_the_same_effect_as_in_its_source() {
    let rejected = decided(gate_pay_mail(), full_approval(), answer(1, json!({"action": "reject"})));
    for copy in [full_branch(&rejected), rejected.replayed()] {
        assert_eq!(usable(&copy, "pay"), Ok(Vec::new()));
    }
}

#[test]
fn effects_that_need_no_grant_continue_in_a_copy() {
    let pay = with(node("pay"), "grant", json!("none"));
    let flow = workflow([node("gate"), pay, node("mail")], [edge("gate", "pay"), edge("pay", "mail")]);
    let copy = full_branch(&decided(flow, full_approval(), accept(1)));
    assert_eq!(usable(&copy, "pay"), Ok(Vec::new()));
    copy.given([begin_effect("pay")]).when(record("pay", "sent", json!(1))).accepted();
}

#[test]
fn copied_votes_are_shown_and_do_not_count() {
    let source = two_votes().given([vote("bob", "accept")]);
    for copy in [full_branch(&source), source.replayed()] {
        assert_eq!(votes_of(&copy), voted(&[("bob", true)]));
        let copy = copy.later(1).when(vote("eve", "accept")).accepted();
        assert!(interrupt(&copy, 1).is_open(), "the copied vote does not count");
        let copy = copy.when(vote("bob", "accept")).accepted();
        assert_eq!(votes_of(&copy), voted(&[("bob", true), ("eve", false), ("bob", false)]));
        assert_eq!(interrupt(&copy, 1).deciders(), ["eve", "bob"]);
        let Some(Resolution::Answered { value, .. }) = &interrupt(&copy, 1).resolution else {
            panic!("open")
        };
        assert_eq!(
            (&value["quorum"]["approvals"], value["quorum"]["votes"].as_array().map(Vec::len)),
            (&json!(2), Some(2))
        );
        let copy = copy.given([done("gate")]);
        assert_eq!(usable(&copy, "pay"), Ok(vec![InterruptId(1)]));
    }
    assert_eq!(votes_of(&source), voted(&[("bob", false)]));
    let source = source.when(vote("eve", "accept")).accepted();
    assert!(!interrupt(&source, 1).is_open());
}

#[test]
fn a_voter_of_the_source_may_vote_once_more_and_differently_in_the_copy() {
    let copy =
        full_branch(&two_votes().given([vote("bob", "accept")])).when(vote("bob", "reject")).accepted();
    assert_eq!(votes_of(&copy), voted(&[("bob", true), ("bob", false)]));
    copy.when(vote("bob", "accept")).refused(Refusal::AlreadyVoted("bob".to_owned()));
}

#[test]
fn copied_rejections_do_not_count() {
    let copy = full_branch(&two_votes().given([vote("bob", "reject")]));
    let copy = copy.when(vote("eve", "reject")).accepted();
    assert!(interrupt(&copy, 1).is_open());
    let copy = copy.given([vote("bob", "accept"), vote("ada", "accept")]);
    assert!(interrupt(&copy, 1).is_granted());
    assert_eq!(interrupt(&copy, 1).deciders(), ["bob", "ada"]);
}

#[test]
fn all_votes_of_a_copied_decision_are_copied() {
    let source = two_votes().given([vote("bob", "accept"), vote("eve", "accept"), done("gate")]);
    assert_eq!(votes_of(&source), voted(&[("bob", false), ("eve", false)]));
    let copy = full_branch(&source);
    assert_eq!(votes_of(&copy), voted(&[("bob", true), ("eve", true)]));
    assert_eq!(interrupt(&copy, 1).deciders(), ["bob", "eve"]);
    assert_grant_is_unusable(copy, "run-1");
}

#[test]
fn a_copy_may_reuse_the_decision_id_of_a_copied_vote() {
    let named = |by: &str, action: &str| {
        let value = json!({"action": action});
        let answer = Answer { decision: Some("d1".to_owned()), ..Answer::new(value, Principal::named(by)) };
        Command::Resolve { answers: [(InterruptId(1), answer)].into() }
    };
    let source = two_votes().given([named("bob", "accept")]);
    let copy = full_branch(&source).when(named("eve", "accept")).accepted();
    assert_eq!(votes_of(&copy), voted(&[("bob", true), ("eve", false)]));
    source
        .when(named("bob", "accept"))
        .then([])
        .when(named("eve", "reject"))
        .refused(Refusal::DecisionConflict("d1".to_owned()));
}

/// Returns an answer that a replay repeats.
fn repeated_vote(name: &str) -> Command {
    let answer = Answer { copied: true, ..Answer::new(json!({"action": "accept"}), Principal::named(name)) };
    Command::Resolve { answers: [(InterruptId(1), answer)].into() }
}

fn diverged(source: &Story) -> Event {
    let (expected, found) = ("a".to_owned(), "b".to_owned());
    Event::ReplayDiverged { source: source.run().id.clone(), at_sequence: 1, expected, found }
}

/// Returns a replay that diverges from its source after this many events.
fn diverges_after(source: &Story, events: usize) -> Story {
    let fork = Fork { copied: Some(source.log().len() as u64), ..source.fork(ForkMode::Replay) };
    source.copied(&source.log()[..events], fork).given([diverged(source)])
}

#[test]
fn a_diverged_replay_can_use_decisions_after_its_divergence() {
    let source = accepted();
    let copy = diverges_after(&source, position_of(&source, "interrupt.resolved"));
    assert!(copy.run().diverged);
    let copy = copy.when(accept(1)).accepted().given([done("gate")]);
    assert!(!interrupt(&copy, 1).taken_over);
    copy.when(begin_effect("pay")).then([node_started_using("pay", &[1])]);
    // Decisions that were copied before the divergence stay copied.
    assert_grant_is_unusable(diverges_after(&source, source.log().len()), "run-1");
}

#[test]
fn a_divergence_ends_the_copied_part_of_a_replay() {
    let source = two_votes();
    let copy = diverges_after(&source.replayed().given([vote("bob", "accept")]), 3);
    let copy = copy.given([vote("eve", "accept")]);
    assert_eq!(votes_of(&copy), voted(&[("eve", false)]));
    // A recorded divergence of another run has no effect.
    let other = source.replayed().given([diverged(&accepted().replayed())]);
    assert!(!other.run().diverged);
}

#[test]
fn answers_that_a_replay_repeats_create_no_grant() {
    let source = two_votes();
    let copy = diverges_after(&source, source.log().len()).given([repeated_vote("bob")]);
    assert_eq!(votes_of(&copy), voted(&[("bob", true)]));
    let mixed = copy.when(vote("eve", "accept")).accepted();
    assert!(interrupt(&mixed, 1).is_open(), "a copied vote and a vote of this run do not add up");
    let mixed = mixed.when(repeated_vote("eve")).accepted();
    assert_eq!(votes_of(&mixed), voted(&[("bob", true), ("eve", false), ("eve", true)]));
    assert_eq!(interrupt(&mixed, 1).deciders(), ["bob", "eve"]);
    assert_grant_is_unusable(mixed.given([done("gate")]), "run-1");
}

/// Returns a replay as older versions stored it, without the number of its copied events.
fn stored_replay(source: &Story, at: Option<u64>) -> Story {
    let at = at.map(|ms| crate::story::START_TIME.plus_ms(ms));
    source.copied(source.log(), Fork { at, ..source.fork(ForkMode::Replay) })
}

#[test]
fn decisions_before_a_replay_of_an_older_version_count_as_copied() {
    let source = two_votes().later(10).given([vote("bob", "accept")]);
    let copy = stored_replay(&source, Some(10)).later(1).given([vote("eve", "accept")]);
    assert_eq!(votes_of(&copy), voted(&[("bob", true), ("eve", false)]));
    let early = stored_replay(&source, Some(9));
    assert_eq!(votes_of(&early), voted(&[("bob", false)]));
    // Without the time of the fork all decisions count as copied.
    let unknown =
        stored_replay(&source, None).later(1000).given([vote("eve", "accept"), vote("bob", "accept")]);
    assert_eq!(votes_of(&unknown), voted(&[("bob", true), ("eve", true), ("bob", true)]));
    assert_grant_is_unusable(stored_replay(&accepted(), Some(0)), "run-1");
    assert_grant_is_unusable(stored_replay(&accepted(), None), "run-1");
}

/// Returns a child run that was started with a grant of its parent.
fn child() -> Story {
    let start = StartRequest { grants: vec!["run-0:i3".to_owned()], ..start_request(json!({})) };
    let pay = with(node("out"), "grant", json!("none"));
    on(workflow([node("pay"), pay], [edge("pay", "out")])).given([Command::Start(Box::new(start))])
}

#[test]
fn a_child_run_uses_inherited_grants_and_its_copies_cannot() {
    let gate = "the gates before the node that started the copied run";
    assert_eq!(usable(&child(), "pay"), Ok(Vec::new()));
    child().given([begin_effect("pay")]).when(record("pay", "sent", json!(1))).accepted();
    for copy in [full_branch(&child()), child().replayed()] {
        assert_eq!(usable(&copy, "pay"), Err(not_transferable(gate, "run-1")));
        assert_eq!(usable(&copy, "out"), Ok(Vec::new()), "it needs no grant");
        let refusal = Refusal::UnusableGrant(not_transferable(gate, "run-1"));
        let copy = copy.given([begin_effect("pay")]).when(record("pay", "sent", json!(1))).refused(refusal);
        let deeper = full_branch(&copy);
        assert_eq!(usable(&deeper, "pay"), Err(not_transferable(gate, "run-1-copy")));
    }
}

#[test]
fn a_node_of_a_copy_that_has_begun_may_complete() {
    let copy = full_branch(&accepted()).given([begin_effect("pay")]);
    let failed: Value = json!({});
    copy.when(done_with("pay", failed)).accepted().node_is("pay", &NodeStatus::Completed);
}
