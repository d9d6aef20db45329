//! Classifies every operation of the OpenAPI document by the way it is attacked.

use std::collections::BTreeSet;

use crate::contract::{Contract, Operation};
use crate::harness::{Client, Server};

/// The way an operation is attacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// No attacker has the permission: a 2xx is a violation. Every operation that answers or decides is in this class.
    Denied,
    /// Some attackers have the permission and use it in steps of the sequences. Answers in these requests are denied.
    Attacked,
    /// Changes no state; attackers call it to read.
    Read,
    /// The operation is not called, for this reason.
    Skipped(&'static str),
}

use Class::{Attacked, Denied, Read, Skipped};

const STREAM: &str = "a stream without an end of its own; a list reads the same";

pub(crate) const OPERATIONS: &[(&str, Class)] = &[
    ("resolveInterrupt", Denied),
    ("resolveApproval", Denied),
    ("resolveByToken", Denied),
    ("mintToken", Denied),
    ("decideCall", Denied),
    ("decideInThread", Denied),
    ("createKey", Denied),
    ("listKeys", Denied),
    ("rotateKey", Denied),
    ("revokeKey", Denied),
    ("listSecrets", Denied),
    ("getUsage", Read),
    ("rotateSecrets", Denied),
    // The next three are called with the key or the session of an approver.
    ("createSession", Denied),
    ("createSessionLink", Denied),
    ("revokeSession", Denied),
    ("createRun", Attacked),
    ("forkRun", Attacked),
    ("pauseRun", Attacked),
    ("resumeRun", Attacked),
    ("cancelRun", Attacked),
    ("bulkCancel", Attacked),
    ("requeueDispatch", Attacked),
    ("cancelDispatch", Attacked),
    ("consumeGrant", Attacked),
    ("createHold", Attacked),
    ("cancelHold", Attacked),
    ("putWorkflow", Attacked),
    ("putAgent", Attacked),
    ("startAgent", Attacked),
    ("tellRun", Attacked),
    ("sayInThread", Attacked),
    ("interruptThread", Attacked),
    ("cancelThread", Attacked),
    ("runAgent", Attacked),
    ("chat", Attacked),
    ("cancelChat", Attacked),
    ("answerAsk", Attacked),
    ("sendEvent", Attacked),
    ("createWebhook", Attacked),
    ("deleteWebhook", Attacked),
    ("pauseWebhook", Attacked),
    ("resumeWebhook", Attacked),
    ("rotateWebhook", Attacked),
    ("replayDelivery", Attacked),
    ("replayDeliveries", Attacked),
    // No attacker has the scope.
    ("createTrigger", Denied),
    ("deleteTrigger", Denied),
    ("pauseTrigger", Denied),
    ("resumeTrigger", Denied),
    ("requeueTriggerDelivery", Denied),
    ("listTriggers", Denied),
    ("previewTrigger", Denied),
    ("getTrigger", Denied),
    ("listTriggerDeliveries", Denied),
    ("listTriggerEvents", Denied),
    ("discover", Read),
    ("discoverByOldName", Read),
    ("getCapabilities", Read),
    ("getAgUiThread", Read),
    ("getChat", Read),
    ("getChatHistory", Read),
    ("isAlive", Read),
    ("isReady", Read),
    ("metrics", Read),
    ("openapi", Read),
    ("listAgents", Read),
    ("getAgent", Read),
    ("getDispatch", Read),
    ("listDispatches", Read),
    ("mailboxStats", Read),
    ("getGrant", Read),
    ("getWorkflowGrants", Read),
    ("getHold", Read),
    ("listPending", Read),
    ("countPending", Read),
    ("inspectByToken", Read),
    ("listRuns", Read),
    ("getRun", Read),
    ("getArtifact", Read),
    ("getDebugBundle", Read),
    ("pollEvents", Read),
    ("listInterrupts", Read),
    ("listAsks", Read),
    ("getWaiting", Read),
    ("getSession", Read),
    ("listSessions", Read),
    ("listThreadEvents", Read),
    ("listMessages", Read),
    ("listThreadRuns", Read),
    ("getActiveRun", Read),
    ("getLatestRun", Read),
    ("listWebhooks", Read),
    ("getWebhook", Read),
    ("listDeadLetters", Read),
    ("listDeliveries", Read),
    ("getDelivery", Read),
    ("listWebhookEvents", Read),
    ("listWorkflows", Read),
    ("getWorkflow", Read),
    ("streamEvents", Skipped(STREAM)),
    ("streamPending", Skipped(STREAM)),
    ("streamAgUiThread", Skipped(STREAM)),
    (
        "endSession",
        Skipped("ends the session of the caller, which other sequences use; revokeSession attacks others'"),
    ),
];

/// Returns the operations of a server. Panics if the table above lacks one or has one that the server does not have.
pub(crate) fn classified_operations(client: &Client) -> Vec<Operation> {
    let operations = Contract::of(client).operations();
    let served: BTreeSet<&str> = operations.iter().map(|one| one.id.as_str()).collect();
    let known: BTreeSet<&str> = OPERATIONS.iter().map(|(id, _)| *id).collect();
    assert_eq!(known, served, "every operation needs a row in tests/adversary/routes.rs with its class");
    operations
}

pub(crate) fn class(operation: &str) -> Class {
    OPERATIONS.iter().find(|(id, _)| *id == operation).unwrap_or_else(|| panic!("no operation {operation}")).1
}

#[test]
fn every_operation_is_classified_and_every_answering_one_is_denied() {
    let server = Server::start();
    for operation in classified_operations(&server.client) {
        let class = class(&operation.id);
        if let Skipped(reason) = class {
            assert!(!reason.is_empty(), "{} is skipped without a reason", operation.id);
        }
        let answers = !operation.scopes.is_empty()
            && operation.scopes.iter().all(|scopes| scopes.iter().any(|scope| scope == "approvals:respond"));
        assert!(!answers || class == Denied, "{} answers, so attackers must be denied", operation.id);
    }
}
