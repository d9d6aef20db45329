//! Audiences: who is told of an interrupt, and in runs of earlier versions, who may approve.

use holdpoint_core::{Answer, Command, InterruptId, Kind, Principal, Refusal, Request, Start};
use serde_json::{Value, json};

use crate::story::{Story, given};
use crate::words::*;

fn bob() -> Principal {
    Principal { roles: vec!["ops".to_owned()], groups: vec!["night".to_owned()], ..Principal::named("bob") }
}

fn tell(answer: Answer) -> Command {
    Command::Resolve { answers: [(InterruptId(1), answer)].into() }
}

fn accept_by(by: Principal) -> Command {
    tell(Answer::new(json!({"action": "accept"}), by))
}

fn gate_for(members: Value) -> Request {
    approval_of(with(members, "actions", json!(["accept"])))
}

fn not_an_approver(name: &str) -> Refusal {
    Refusal::NotAnApprover(name.to_owned())
}

#[test]
fn in_runs_of_earlier_versions_an_audience_restricts_who_may_approve() {
    let heard = |audience: Value| {
        let asked = gate_for(json!({"approversList": ["bob"], "audience": audience}));
        given([start(), begin("gate"), ask("gate", asked)]).when(accept_by(bob()))
    };
    for audience in
        [json!({}), json!({"subjects": ["bob"]}), json!({"groups": ["night"]}), json!({"roles": ["ops"]})]
    {
        heard(audience).accepted();
    }
    for audience in [json!({"subjects": ["ops"]}), json!({"groups": ["ops"]}), json!({"roles": ["bob"]})] {
        heard(audience).refused(not_an_approver("bob"));
    }
}

#[test]
fn an_audience_names_who_is_told_and_restricts_nobody() {
    let asked = |request: Request| {
        let start = Start { engine_version: Some(20), ..start_of(json!({})) };
        given([Command::Start(Box::new(start)), begin("gate"), ask("gate", request)])
    };
    let told = json!({"subjects": ["eve"], "groups": ["auditors"], "roles": ["boss"]});
    let listed = || asked(gate_for(json!({"approversList": ["bob"], "audience": told})));
    let open = || asked(gate_for(json!({"audience": told})));
    listed().when(accept_by(bob())).accepted();
    listed().when(accept_by(Principal::named("eve"))).refused(not_an_approver("eve"));
    open().when(accept_by(bob())).accepted();
    let shown = |story: Story| story.interrupt_of("gate").unwrap().assignees(&["ada"]);
    assert_eq!(shown(listed()).entries(), ["bob", "eve", "group:auditors", "role:boss"]);
    assert!(shown(listed()).admit(&bob()) && !shown(listed()).admit(&Principal::named("eve")));
    assert!(shown(open()).admit(&bob()), "a principal that is not told may still decide");
    // Other kinds heed rules about people only where these restrict somebody.
    let questions =
        json!({"questions": [{"id": "q", "question": "Why?"}], "audience": {"subjects": ["eve"]}});
    let story = asked(request(Kind::Clarification, questions));
    assert_eq!(story.interrupt_of("gate").unwrap().assignees(&["ada"]).entries(), ["eve"]);
    story.when(tell(Answer::new(json!({"answers": {"q": "so"}}), bob()))).accepted();
}
