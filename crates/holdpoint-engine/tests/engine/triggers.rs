//! Triggers: schedules and events that start runs, each once.

use holdpoint_engine::core::mailbox::DispatchOptions;
use holdpoint_engine::core::trigger::{InputMapping, TriggerSource, TriggerSpec};
use holdpoint_engine::core::webhook::{Backoff, RetryPolicy};
use holdpoint_engine::core::{MissedPolicy, OverlapPolicy, Run, RunRef, WorkflowId};
use holdpoint_engine::{ApiKey, Dependence, NewTrigger, RunFilter, Trigger, TriggerDelivery, WebhookOwner};
use serde_json::{Value, json};

use crate::test_env::{NOON, TestEnv, gated, line, tenant};

mod crashes;
mod events;
mod failures;
mod owners;
mod pauses;
mod schedules;

/// The requests of the tests. The clock of a test begins at 2027-01-15T08:00:00Z.
fn schedule(workflow: &str, cron: &str) -> NewTrigger {
    let source = TriggerSource::Schedule {
        cron: cron.to_owned(),
        time_zone: "UTC".to_owned(),
        missed: MissedPolicy::Last,
        overlap: OverlapPolicy::Allow,
    };
    trigger(workflow, source)
}

fn on_event(workflow: &str, event_type: &str) -> NewTrigger {
    let event_type = event_type.to_owned();
    trigger(
        workflow,
        TriggerSource::Event { event_type, correlation: Default::default(), payload: Default::default() },
    )
}

fn trigger(workflow: &str, source: TriggerSource) -> NewTrigger {
    let spec = TriggerSpec {
        workflow: WorkflowId::parse(workflow).unwrap(),
        source,
        inputs: InputMapping::default(),
        tags: Vec::new(),
        dispatch: DispatchOptions::default(),
        retry: RetryPolicy { max_attempts: 2, backoff: Backoff::Fixed, base_ms: 10_000, max_ms: 10_000 },
        created_by: "ann".to_owned(),
        required_scopes: Vec::new(),
    };
    NewTrigger { tenant: tenant(), spec, owner: None, once: None }
}

fn mapped(new: NewTrigger, inputs: Value) -> NewTrigger {
    let inputs = serde_json::from_value(inputs).unwrap();
    NewTrigger { spec: TriggerSpec { inputs, ..new.spec }, ..new }
}

fn with_policies(new: NewTrigger, missed: MissedPolicy, overlap: OverlapPolicy) -> NewTrigger {
    let TriggerSource::Schedule { cron, time_zone, .. } = new.spec.source else { panic!("a schedule") };
    let source = TriggerSource::Schedule { cron, time_zone, missed, overlap };
    NewTrigger { spec: TriggerSpec { source, ..new.spec }, ..new }
}

/// A workflow that completes at once.
fn quick(id: &str) -> Value {
    line(id, &[("step", "core.noop", json!({}))])
}

fn key(name: &str, scopes: &[&str]) -> ApiKey {
    ApiKey {
        key_id: format!("key_{name}"),
        lineage: format!("key_{name}"),
        key_hash: format!("hash of {name}"),
        tenant: tenant(),
        principal: name.to_owned(),
        roles: Vec::new(),
        groups: Vec::new(),
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        created_at: holdpoint_engine::core::Timestamp(NOON),
        revoked_at: None,
        expires_at: None,
        test: false,
        depends_on: Dependence::default(),
    }
}

fn owned_by(new: NewTrigger, key: &ApiKey) -> NewTrigger {
    let required_scopes = vec!["triggers:manage".to_owned(), "runs:create".to_owned()];
    let spec = TriggerSpec { created_by: key.principal.clone(), required_scopes, ..new.spec };
    NewTrigger { spec, owner: Some(WebhookOwner::from(key)), ..new }
}

impl TestEnv {
    async fn add_trigger(&self, new: NewTrigger) -> Trigger {
        self.engine.triggers().add(new).await.unwrap()
    }

    async fn trigger(&self, of: &Trigger) -> Trigger {
        self.engine.triggers().get(&tenant(), &of.id).await.unwrap()
    }

    /// Returns the deliveries, oldest first.
    async fn deliveries(&self, of: &Trigger) -> Vec<TriggerDelivery> {
        let filter = holdpoint_engine::TriggerDeliveryFilter { limit: 1000, ..Default::default() };
        let mut found = self.engine.triggers().deliveries(&tenant(), &of.id, &filter).await.unwrap();
        found.reverse();
        found
    }

    async fn delivery_states(&self, of: &Trigger) -> Vec<&'static str> {
        self.deliveries(of).await.iter().map(|one| one.state.as_str()).collect()
    }

    /// Returns the runs, oldest first.
    async fn all_runs(&self) -> Vec<std::sync::Arc<Run>> {
        let filter = RunFilter { limit: 1000, ..RunFilter::default() };
        let mut runs = Vec::new();
        for found in self.engine.runs().list(&tenant(), filter).await.unwrap() {
            runs.push(self.run(&RunRef { tenant: tenant(), run: found.run }).await);
        }
        runs.reverse();
        runs
    }

    async fn input(&self, name: &str) -> Vec<Value> {
        let runs = self.all_runs().await;
        runs.iter().map(|run| run.started.as_ref().unwrap().inputs[name].clone()).collect()
    }
}

fn gate() -> Value {
    gated("gated")
}
