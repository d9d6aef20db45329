//! Owners of triggers: their rights are checked whenever a run starts.

use holdpoint_engine::core::{Answer, Command, NodeId, Principal, RunRef};
use holdpoint_engine::{ApiKey, WebhookOwner};
use serde_json::json;

use super::{key, owned_by, quick, schedule};
use crate::test_database::on_both;
use crate::test_env::{TestEnv, accept, line, tenant};

on_both! {
    a_revoked_key_pauses_the_trigger_of_its_owner,
    a_key_without_a_required_scope_starts_no_run,
    a_queued_delivery_of_a_revoked_key_is_a_dead_letter,
    a_resumed_trigger_belongs_to_the_caller_and_keeps_its_creator_as_requester,
    the_creator_of_a_trigger_cannot_approve_its_runs,
}

const HOUR: i64 = 3_600_000;
const SCOPES: [&str; 2] = ["triggers:manage", "runs:create"];

impl TestEnv {
    async fn add_key_of(&self, key: &ApiKey) {
        assert!(self.engine.keys().add(key, None).await.unwrap());
    }

    async fn revoke_key_of(&self, key: &ApiKey) {
        assert!(self.engine.keys().revoke(&tenant(), &key.key_id, None).await.unwrap());
    }
}

async fn a_revoked_key_pauses_the_trigger_of_its_owner(env: TestEnv) {
    env.register(quick("quick")).await;
    let ann = key("ann", &SCOPES);
    env.add_key_of(&ann).await;
    let trigger = env.add_trigger(owned_by(schedule("quick", "0 * * * *"), &ann)).await;
    env.clock.advance(HOUR);
    env.drain().await;
    assert_eq!(env.all_runs().await.len(), 1);
    assert_eq!(env.all_runs().await[0].started.as_ref().unwrap().credentials, [ann.lineage.as_str()]);
    env.revoke_key_of(&ann).await;
    env.clock.advance(HOUR);
    env.drain().await;
    assert_eq!(env.all_runs().await.len(), 1);
    let paused = env.trigger(&trigger).await;
    assert_eq!((paused.state.as_str(), paused.reason.unwrap().as_str()), ("paused", "key-revoked"));
}

async fn a_key_without_a_required_scope_starts_no_run(env: TestEnv) {
    env.register(quick("quick")).await;
    let ann = key("ann", &["triggers:manage"]);
    env.add_key_of(&ann).await;
    let trigger = env.add_trigger(owned_by(schedule("quick", "0 * * * *"), &ann)).await;
    env.clock.advance(HOUR);
    env.drain().await;
    assert_eq!(env.all_runs().await.len(), 0);
    let paused = env.trigger(&trigger).await;
    assert_eq!(paused.reason.unwrap().as_str(), "provenance-unevaluable");
}

async fn a_queued_delivery_of_a_revoked_key_is_a_dead_letter(env: TestEnv) {
    env.register(quick("quick")).await;
    let ann = key("ann", &SCOPES);
    env.add_key_of(&ann).await;
    let trigger = env.add_trigger(owned_by(super::on_event("quick", "paid"), &ann)).await;
    let event = holdpoint_engine::core::ExternalEvent {
        event_type: "paid".to_owned(),
        event_id: "e1".to_owned(),
        correlation: Default::default(),
        payload: json!(1),
    };
    env.engine.events().receive(&tenant(), &event, &Principal::named("shop")).await.unwrap();
    env.revoke_key_of(&ann).await;
    env.drain().await;
    assert_eq!(env.all_runs().await.len(), 0);
    assert_eq!(env.delivery_states(&trigger).await, ["dead-lettered"]);
    assert_eq!(env.trigger(&trigger).await.state.as_str(), "paused");
}

async fn a_resumed_trigger_belongs_to_the_caller_and_keeps_its_creator_as_requester(env: TestEnv) {
    env.register(quick("quick")).await;
    let (ann, bob) = (key("ann", &SCOPES), key("bob", &SCOPES));
    env.add_key_of(&ann).await;
    env.add_key_of(&bob).await;
    let trigger = env.add_trigger(owned_by(schedule("quick", "0 * * * *"), &ann)).await;
    let triggers = env.engine.triggers();
    triggers.pause(&tenant(), &trigger.id, None).await.unwrap();
    env.revoke_key_of(&ann).await;
    triggers.resume(&tenant(), &trigger.id, Some(WebhookOwner::from(&bob)), None).await.unwrap();
    env.clock.advance(HOUR);
    env.drain().await;
    let run = &env.all_runs().await[0];
    assert_eq!(run.requesters(), ["bob", "ann"]);
}

async fn the_creator_of_a_trigger_cannot_approve_its_runs(env: TestEnv) {
    let gate = json!({"title": "Go on?", "actions": ["accept"], "requesterMayNotApprove": true});
    env.register(line("guarded", &[("gate", "core.approvalGate", gate)])).await;
    let ann = key("ann", &SCOPES);
    env.add_key_of(&ann).await;
    env.add_trigger(owned_by(schedule("guarded", "0 * * * *"), &ann)).await;
    env.clock.advance(HOUR);
    env.drain().await;
    let of = RunRef { tenant: tenant(), run: env.all_runs().await[0].id.clone() };
    let answer = |by: &str| Command::ResolveNode {
        node: NodeId::parse("gate").unwrap(),
        interrupt: None,
        answer: Answer::new(accept(), Principal::named(by)),
    };
    let refused = env.engine.runs().execute(&of, &answer("ann")).await.unwrap_err();
    assert!(refused.to_string().contains("ann"), "{refused}");
    env.engine.runs().execute(&of, &answer("bob")).await.unwrap();
    assert_eq!(env.status(&of).await, "completed");
}
