//! Votes that meet: each person counts once, the vote that makes the number decides, and there is one such vote.

use serde_json::{Value, json};

use crate::harness::{Answer, Client, accept, gated, made_key};
use crate::links_at_once::at_once;
use crate::place::{Place, on_both};
use crate::races::{ROUNDS, assert_ended, count, server};

on_both!(
    of_three_votes_at_once_two_decide_and_the_third_is_late,
    a_vote_that_is_sent_twice_at_once_counts_once,
    of_a_yes_and_a_no_of_one_person_at_once_one_counts,
);

/// Two of three must agree.
pub(crate) fn two_of_three() -> Value {
    let mut flow = gated("gated");
    flow["nodes"][1]["config"] = json!({
        "title": "Go on?", "actions": ["accept", "reject"], "requiredApprovals": 2,
        "approversList": ["ann", "bob", "carol"], "rejectionPolicy": "majority",
    });
    flow
}

/// A key of their own, and a connection.
pub(crate) fn person(admin: &Client, url: &str, name: &str) -> Client {
    Client::new(url, made_key(admin, &json!({"principal": name}))["key"].as_str())
}

fn outcomes(answers: &[Answer]) -> Vec<&str> {
    let told = |answer: &'_ Answer| answer.status == 200;
    let mut told: Vec<&str> =
        answers.iter().filter(|one| told(one)).map(|one| one.body["outcome"].as_str().unwrap()).collect();
    told.sort_unstable();
    told
}

/// Who voted, as the log has it: those whose vote was not the last, and the one who decided.
fn voters(log: &[Value]) -> Vec<&str> {
    let of = |kind: &'static str| log.iter().filter(move |event| event["type"] == kind);
    let cast = of("holdpoint.vote.cast").chain(of("approval.received"));
    let mut names: Vec<&str> = cast.map(|event| event["payload"]["decidedBy"].as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

fn of_three_votes_at_once_two_decide_and_the_third_is_late(place: &Place) {
    let server = server(place, &two_of_three());
    let people = ["ann", "bob", "carol"].map(|name| person(&server.client, &server.url, name));
    let mut late = [0; 3];
    for _ in 0..ROUNDS {
        let run = server.client.start_run("gated");
        let [ann, bob, carol] = &people;
        let answers = at_once([
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
        assert_eq!(voters(&log), counted, "those who were told that it counts");
        late[last] += 1;
    }
    println!("{}: ann, bob and carol were late {late:?} times of {ROUNDS}", place.engine());
}

fn a_vote_that_is_sent_twice_at_once_counts_once(place: &Place) {
    let server = server(place, &two_of_three());
    let [ann, bob] = ["ann", "bob"].map(|name| person(&server.client, &server.url, name));
    let again = ann.clone();
    for _ in 0..ROUNDS {
        let run = server.client.start_run("gated");
        let answers =
            at_once([&|| ann.answer(&run, "gate", &accept()), &|| again.answer(&run, "gate", &accept())]);
        assert_eq!(outcomes(&answers), ["repeated", "voted"], "{answers:?}");
        assert_eq!(server.client.status(&run), "waiting-approval", "one person is not two");
        let log = server.client.events(&run);
        assert_eq!((count(&log, "holdpoint.vote.cast"), count(&log, "holdpoint.vote.repeated")), (1, 1));
        assert_eq!(bob.answer(&run, "gate", &accept()).body["outcome"], "resolved");
        assert_ended(&server.client, &run, "completed", 1);
        assert_eq!(voters(&server.client.events(&run)), ["ann", "bob"]);
    }
}

fn of_a_yes_and_a_no_of_one_person_at_once_one_counts(place: &Place) {
    let server = server(place, &two_of_three());
    let [ann, bob] = ["ann", "bob"].map(|name| person(&server.client, &server.url, name));
    let again = person(&server.client, &server.url, "ann");
    let (accept, reject) = (accept(), json!({"action": "reject"}));
    let mut yes = 0;
    for _ in 0..ROUNDS {
        let run = server.client.start_run("gated");
        let answers =
            at_once([&|| ann.answer(&run, "gate", &accept), &|| again.answer(&run, "gate", &reject)]);
        assert_eq!(outcomes(&answers), ["voted"], "{answers:?}");
        let other = answers.iter().find(|answer| answer.status != 200).unwrap();
        other.assert_envelope(409, "already_voted");
        let agreed = answers[0].status == 200;
        assert_eq!(server.client.status(&run), "waiting-approval");
        // Whoever says the same as she makes two.
        bob.answer(&run, "gate", if agreed { &accept } else { &reject });
        assert_ended(&server.client, &run, if agreed { "completed" } else { "failed" }, 1);
        yes += usize::from(agreed);
    }
    println!("{}: yes was first {yes} times of {ROUNDS}", place.engine());
}
