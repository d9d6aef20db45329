//! The interrupt that an answer to a node reaches, and the credential that it records.

use holdpoint_core::agent::ResumePolicy;
use holdpoint_core::{Answer, Command, Event, InterruptId, Refusal, Resolution, Via};
use serde_json::{Value, json};

use crate::agents::{AGENT, two_suspended_calls};
use crate::story::{Story, given, on};
use crate::vocabulary::*;

fn accept_named(node: &str, interrupt: &str) -> Command {
    let answer = Answer::new(json!({"action": "accept"}), ada());
    Command::ResolveNode { node: node_id(node), interrupt: Some(interrupt.to_owned()), answer }
}

fn open(story: &Story) -> Vec<u32> {
    story.run().open_interrupts().map(|asked| asked.id.0).collect()
}

#[test]
fn an_answer_to_a_node_with_several_open_interrupts_must_name_one() {
    for policy in [ResumePolicy::AsDecided, ResumePolicy::WaitAll] {
        let both = vec!["run-1:i1".to_owned(), "run-1:i2".to_owned()];
        let story =
            two_suspended_calls(policy).when(accept_at(AGENT)).refused(Refusal::InterruptAmbiguous(both));
        assert_eq!(open(&story), [1, 2]);
        let story = story.when(accept_named(AGENT, "run-1:i2")).accepted();
        assert_eq!(open(&story), [1], "the named interrupt is resolved, not the oldest");
    }
}

#[test]
fn an_answer_without_an_interrupt_id_reaches_the_only_open_interrupt() {
    // The agent continues with the second answer, and the first interrupt is still open.
    let story = two_suspended_calls(ResumePolicy::AsDecided).when(accept_named(AGENT, "run-1:i2")).accepted();
    let story = story.next_is("enter agent").when(accept_at(AGENT)).accepted();
    assert_eq!(open(&story), [] as [u32; 0]);
}

#[test]
fn an_answer_that_names_an_interrupt_of_another_node_is_refused() {
    let wrong = ["run-1:i3", "run-1:i01", "run-1:1", "run-2:i1", "i1", "run-1:", ""];
    for name in wrong {
        two_suspended_calls(ResumePolicy::AsDecided)
            .when(accept_named(AGENT, name))
            .refused(Refusal::InterruptNotFound);
    }
    let story = on(left_and_right())
        .given([start(), begin("left"), ask("left", approval())])
        .given([begin("right"), ask("right", with_key("other", approval()))]);
    let story = story.when(accept_named("left", "run-1:i2")).refused(Refusal::InterruptNotFound);
    assert_eq!(open(&story.when(accept_named("right", "run-1:i2")).accepted()), [1]);
}

#[test]
fn a_node_that_waits_for_the_interrupt_of_another_node_can_be_answered_by_its_name() {
    let story = on(left_and_right()).given([
        start(),
        begin("left"),
        ask("left", approval()),
        begin("right"),
        join("right", 1),
    ]);
    story.when(accept_named("right", "run-1:i1")).accepted();
}

#[test]
fn an_answer_to_a_finished_run_is_refused_as_finished_not_as_ambiguous() {
    two_suspended_calls(ResumePolicy::AsDecided)
        .given([cancel()])
        .when(accept_at(AGENT))
        .refused(Refusal::InterruptCancelled);
}

fn answer_via(value: Value, via: &Via) -> Command {
    let answer = Answer { via: Some(via.clone()), ..Answer::new(value, ada()) };
    Command::Resolve { answers: [(InterruptId(1), answer)].into() }
}

fn vias(story: &Story) -> Vec<Option<Via>> {
    let asked = story.run().interrupt(InterruptId(1)).expect("an interrupt");
    let votes = asked.votes.iter().map(|vote| vote.via.clone());
    votes.chain(asked.side_questions.iter().map(|ask| ask.via.clone())).collect()
}

#[test]
fn a_decision_records_its_credential() {
    for via in [Via::key("key_1"), Via::session("ses_1"), Via::link("lnk_1")] {
        let story = given([start(), begin("gate"), ask("gate", approval())]);
        let story = story.when(answer_via(json!({"action": "accept"}), &via)).accepted();
        let asked = story.interrupt_of("gate").expect("an interrupt");
        assert_eq!(asked.resolution.as_ref().and_then(Resolution::via), Some(via));
    }
}

#[test]
fn votes_and_side_questions_record_their_credentials() {
    let data = json!({"actions": ["accept", "ask"], "requiredApprovals": 2});
    let (key, link) = (Via::key("key_1"), Via::link("lnk_1"));
    let question = json!({"action": "ask", "question": "Why?"});
    let story = given([start(), begin("gate"), ask("gate", approval_of(data))])
        .when(answer_via(json!({"action": "accept"}), &key))
        .accepted()
        .when(answer_via(question, &link))
        .accepted();
    assert_eq!(vias(&story), [Some(key.clone()), Some(link.clone())]);
    let repeated = Event::VoteRepeated {
        interrupt: InterruptId(1),
        action: "accept".to_owned(),
        by: "ada".to_owned(),
        acted_by: None,
        via: Some(link.clone()),
    };
    story.when(answer_via(json!({"action": "accept"}), &link)).then([repeated]);
}

#[test]
fn decisions_of_the_host_have_the_credential_system() {
    let expired = given([start(), begin("gate"), ask("gate", timed_approval())]).later(1000);
    let expired = expired.when(expire(1)).accepted();
    let via = |story: &Story| story.interrupt_of("gate").and_then(|asked| asked.resolution.as_ref()?.via());
    assert_eq!(via(&expired), Some(Via::system("timeout")));
    let opened = request(holdpoint_core::Kind::ConversationStart, json!({"conversationId": "chat"}));
    let opened = given([start(), begin("gate"), ask("gate", opened)]);
    assert_eq!(via(&opened), Some(Via::system("host")));
}

fn timed_approval() -> holdpoint_core::InterruptRequest {
    holdpoint_core::InterruptRequest { timeout_ms: Some(1000), ..approval() }
}
