//! Concurrent votes: each principal counts once, and exactly one vote reaches the quorum and decides.

use serde_json::{Value, json};

use crate::harness::{Client, Response, accept, create_key, gated};
use crate::links_concurrent::send_at_once;
use crate::races::{ROUNDS, assert_ended, count, server};
use crate::test_database::{TestDatabase, on_both};

on_both!(
    two_of_three_votes_at_once_decide_and_the_third_is_too_late,
    a_vote_that_is_sent_twice_at_once_counts_once,
    one_of_two_contradictory_votes_of_one_principal_at_once_counts,
);

/// A gate with a quorum of two of three approvers.
pub(crate) fn two_of_three() -> Value {
    let mut flow = gated("gated");
    flow["nodes"][1]["config"] = json!({
        "title": "Go on?", "actions": ["accept", "reject"], "requiredApprovals": 2,
        "approversList": ["ann", "bob", "carol"], "rejectionPolicy": "majority",
    });
    flow
}

/// Creates a key for the principal and returns a client with its own connection.
pub(crate) fn client_of(admin: &Client, url: &str, name: &str) -> Client {
    Client::new(url, create_key(admin, &json!({"principal": name}))["key"].as_str())
}

fn outcomes(answers: &[Response]) -> Vec<&str> {
    let accepted = |answer: &'_ Response| answer.status == 200;
    let mut outcomes: Vec<&str> =
        answers.iter().filter(|one| accepted(one)).map(|one| one.body["outcome"].as_str().unwrap()).collect();
    outcomes.sort_unstable();
    outcomes
}

/// Returns the principals that voted, from the log: those of earlier votes and that of the deciding vote.
fn voters(log: &[Value]) -> Vec<&str> {
    let of = |kind: &'static str| log.iter().filter(move |event| event["type"] == kind);
    let cast = of("holdpoint.vote.cast").chain(of("approval.received"));
    let mut names: Vec<&str> = cast.map(|event| event["payload"]["decidedBy"].as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

fn two_of_three_votes_at_once_decide_and_the_third_is_too_late(database: &TestDatabase) {
    let server = server(database, &two_of_three());
    let clients = ["ann", "bob", "carol"].map(|name| client_of(&server.client, &server.url, name));
    let mut late = [0; 3];
    for _ in 0..ROUNDS {
        let run = server.client.start_run("gated");
        let [ann, bob, carol] = &clients;
        let answers = send_at_once([
            &|| ann.answer(&run, "gate", &accept()),
            &|| bob.answer(&run, "gate", &accept()),
            &|| carol.answer(&run, "gate", &accept()),
        ]);
        assert_eq!(outcomes(&answers), ["resolved", "voted"], "{answers:?}");
        let last = answers.iter().position(|answer| answer.status != 200).unwrap();
        answers[last].assert_envelope(409, "interrupt_already_resolved");
        assert_ended(&server.client, &run, "completed", 1);
        let log = server.client.events(&run);
        let mut counted = vec!["ann", "bob", "carol"];
        counted.remove(last);
        assert_eq!(voters(&log), counted, "the acknowledged votes are the recorded ones");
        late[last] += 1;
    }
    println!("{}: ann, bob and carol were late {late:?} times of {ROUNDS}", database.engine());
}

fn a_vote_that_is_sent_twice_at_once_counts_once(database: &TestDatabase) {
    let server = server(database, &two_of_three());
    let [ann, bob] = ["ann", "bob"].map(|name| client_of(&server.client, &server.url, name));
    let again = ann.clone();
    for _ in 0..ROUNDS {
        let run = server.client.start_run("gated");
        let answers = send_at_once([&|| ann.answer(&run, "gate", &accept()), &|| {
            again.answer(&run, "gate", &accept())
        }]);
        assert_eq!(outcomes(&answers), ["repeated", "voted"], "{answers:?}");
        assert_eq!(
            server.client.status(&run),
            "waiting-approval",
            "two equal votes of one principal count once"
        );
        let log = server.client.events(&run);
        assert_eq!((count(&log, "holdpoint.vote.cast"), count(&log, "holdpoint.vote.repeated")), (1, 1));
        assert_eq!(bob.answer(&run, "gate", &accept()).body["outcome"], "resolved");
        assert_ended(&server.client, &run, "completed", 1);
        assert_eq!(voters(&server.client.events(&run)), ["ann", "bob"]);
    }
}

fn one_of_two_contradictory_votes_of_one_principal_at_once_counts(database: &TestDatabase) {
    let server = server(database, &two_of_three());
    let [ann, bob] = ["ann", "bob"].map(|name| client_of(&server.client, &server.url, name));
    let again = client_of(&server.client, &server.url, "ann");
    let (accept, reject) = (accept(), json!({"action": "reject"}));
    let mut yes = 0;
    for _ in 0..ROUNDS {
        let run = server.client.start_run("gated");
        let answers =
            send_at_once([&|| ann.answer(&run, "gate", &accept), &|| again.answer(&run, "gate", &reject)]);
        assert_eq!(outcomes(&answers), ["voted"], "{answers:?}");
        let other = answers.iter().find(|answer| answer.status != 200).unwrap();
        other.assert_envelope(409, "already_voted");
        let agreed = answers[0].status == 200;
        assert_eq!(server.client.status(&run), "waiting-approval");
        // An equal vote of another principal reaches the quorum.
        bob.answer(&run, "gate", if agreed { &accept } else { &reject });
        assert_ended(&server.client, &run, if agreed { "completed" } else { "failed" }, 1);
        yes += usize::from(agreed);
    }
    println!("{}: yes was first {yes} times of {ROUNDS}", database.engine());
}
