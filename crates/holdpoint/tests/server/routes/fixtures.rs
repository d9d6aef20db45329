//! The objects that the paths of the routes name.

use serde_json::json;

use super::Row;
use crate::examples::{create_trigger, create_webhook};
use crate::harness::{Client, KEY, accept};
use crate::mailbox::acknowledged_dispatch;

/// The objects that the path of a row can name: a waiting run, an ended run, a dispatch, a key, a link and others.
pub(super) struct Fixtures {
    pub waiting: String,
    pub ended: String,
    pub dispatch: String,
    pub key: String,
    pub token: String,
    pub webhook: String,
    pub trigger: String,
    pub delivery: String,
    pub active: String,
    pub session: String,
    pub hold: String,
    pub grant: String,
}

impl Fixtures {
    pub(super) fn new(admin: &Client) -> Self {
        let (webhook, delivery) = create_webhook(admin, true);
        let (active, _) = create_webhook(admin, false);
        let trigger = create_trigger(admin);
        let (waiting, ended) = (admin.start_run("gated"), admin.start_run("gated"));
        admin.send("POST", &format!("/v1/runs/{ended}/cancel"), None);
        admin.answer(&waiting, "gate", &json!({"action": "ask", "question": "Why?"}));
        let dispatch = acknowledged_dispatch(admin);
        let key = admin.post("/v1/keys", &json!({"scopes": []})).body["keyId"].as_str().unwrap().to_owned();
        let minted = admin.send("POST", &format!("/v1/runs/{waiting}/interrupts/gate/tokens"), None);
        let token = minted.body["token"].as_str().unwrap().to_owned();
        let session = admin.post("/v1/session", &json!({"key": KEY})).body;
        let session = session["sessionId"].as_str().unwrap().to_owned();
        let hold = admin.post("/v1/holds", &json!({"title": "Go on?"})).body;
        let hold = hold["holdId"].as_str().unwrap().to_owned();
        let granted = admin.start_run("gated");
        let grant = admin.answer(&granted, "gate", &accept()).body["grantId"].as_str().unwrap().to_owned();
        Self {
            waiting,
            ended,
            dispatch,
            key,
            token,
            webhook,
            trigger,
            delivery,
            active,
            session,
            hold,
            grant,
        }
    }

    /// Fills the parameters of a path of the document.
    pub(super) fn path(&self, row: &Row, template: &str) -> String {
        let run = if row.of_ended_run { &self.ended } else { &self.waiting };
        let webhook = if row.id == "resumeWebhook" { &self.active } else { &self.webhook };
        let path = template
            .replace("{workflowId}", "gated")
            .replace("{runId}", run)
            .replace("{nodeId}", "gate")
            .replace("{askId}", "1")
            .replace("{artifactId}", &format!("{run}:before"))
            .replace("{threadId}", if row.of_agent { "talk" } else { run })
            .replace("{agentId}", "mailer")
            .replace("{dispatchId}", &self.dispatch)
            .replace("{keyId}", &self.key)
            .replace("{webhookId}", webhook)
            .replace("{deliveryId}", &self.delivery)
            .replace("{triggerId}", &self.trigger)
            .replace("{stateKey}", "talked-about")
            .replace("{sessionId}", &self.session)
            .replace("{holdId}", &self.hold)
            .replace("{grantId}", &self.grant)
            .replace("{token}", &self.token);
        assert!(!path.contains('{'), "{template} has a parameter without a fixture");
        path + row.query
    }
}
