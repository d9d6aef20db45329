//! Audiences: the principals that are informed about an interrupt. In runs of earlier versions they restrict approvers.

use holdpoint_core::{
    Answer, Command, InterruptId, InterruptRequest, Kind, Principal, Refusal, StartRequest,
};
use serde_json::{Value, json};

use crate::story::{Story, given};
use crate::vocabulary::*;

fn bob() -> Principal {
    Principal { roles: vec!["ops".to_owned()], groups: vec!["night".to_owned()], ..Principal::named("bob") }
}

fn resolve_with(answer: Answer) -> Command {
    Command::Resolve { answers: [(InterruptId(1), answer)].into() }
}

fn accept_by(by: Principal) -> Command {
    resolve_with(Answer::new(json!({"action": "accept"}), by))
}

fn gate_for(members: Value) -> InterruptRequest {
    approval_of(with(members, "actions", json!(["accept"])))
}

fn not_an_approver(name: &str) -> Refusal {
    Refusal::NotAnApprover(name.to_owned())
}

#[test]
fn in_runs_of_earlier_versions_an_audience_restricts_approvers() {
    let answer_with_audience = |audience: Value| {
        let asked = gate_for(json!({"approversList": ["bob"], "audience": audience}));
        given([start(), begin("gate"), ask("gate", asked)]).when(accept_by(bob()))
    };
    for audience in
        [json!({}), json!({"subjects": ["bob"]}), json!({"groups": ["night"]}), json!({"roles": ["ops"]})]
    {
        answer_with_audience(audience).accepted();
    }
    for audience in [json!({"subjects": ["ops"]}), json!({"groups": ["ops"]}), json!({"roles": ["bob"]})] {
        answer_with_audience(audience).refused(not_an_approver("bob"));
    }
}

#[test]
fn an_audience_is_informed_and_does_not_restrict_approvers() {
    let asked = |request: InterruptRequest| {
        let start = StartRequest { engine_version: Some(20), ..start_request(json!({})) };
        given([Command::Start(Box::new(start)), begin("gate"), ask("gate", request)])
    };
    let audience = json!({"subjects": ["eve"], "groups": ["auditors"], "roles": ["boss"]});
    let listed = || asked(gate_for(json!({"approversList": ["bob"], "audience": audience})));
    let open = || asked(gate_for(json!({"audience": audience})));
    listed().when(accept_by(bob())).accepted();
    listed().when(accept_by(Principal::named("eve"))).refused(not_an_approver("eve"));
    open().when(accept_by(bob())).accepted();
    let shown = |story: Story| story.interrupt_of("gate").unwrap().assignees(&["ada"]);
    assert_eq!(shown(listed()).entries(), ["bob", "eve", "group:auditors", "role:boss"]);
    assert!(shown(listed()).admits(&bob()) && !shown(listed()).admits(&Principal::named("eve")));
    assert!(shown(open()).admits(&bob()), "a principal outside the audience may still decide");
    // An audience does not restrict other kinds either.
    let questions =
        json!({"questions": [{"id": "q", "question": "Why?"}], "audience": {"subjects": ["eve"]}});
    let story = asked(request(Kind::Clarification, questions));
    assert_eq!(story.interrupt_of("gate").unwrap().assignees(&["ada"]).entries(), ["eve"]);
    story.when(resolve_with(Answer::new(json!({"answers": {"q": "so"}}), bob()))).accepted();
}
