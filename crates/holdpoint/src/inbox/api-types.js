//! Generated: cargo run -- reference docs
//! The types of the documents that the API sends and accepts.

/**
 * The body of every response that is not a success.
 * @typedef {Object} Error
 * @property {string} error The stable error code, for programs. The examples are the codes of this version; other versions may have further codes.
 * @property {string} message The error in a sentence, for people.
 * @property {ErrorDetails} [details] Further members, depending on the code.
 */

/**
 * Details of an error. The members depend on the code.
 * @typedef {Object} ErrorDetails
 * @property {string} [field] The member, parameter or header that is invalid.
 * @property {number} [events] The number of events in the log.
 * @property {string[]} [known] The types of events that a webhook may subscribe to.
 * @property {string[]} [supported] The supported values.
 * @property {Instant} [expiresAtMax] The latest expiry that the new key may have.
 * @property {WorkflowFlaw[]} [flaws] Every flaw of the workflow.
 * @property {string} [requiredCapability] The feature that the operator has disabled.
 * @property {string} [nodeId] The node that needs the feature.
 * @property {string} [scopeRequired] The scope that the caller lacks.
 * @property {string[]} [keys] The keys of the open interrupts of a graph.
 * @property {string[]} [interruptIds] The ids of the open interrupts.
 * @property {number} [maxBytes] The limit that the body or the value exceeds.
 * @property {RunStatus} [runStatus] The status of the run.
 * @property {string} [activeRunId] The unfinished run.
 * @property {string} [activeHost] The name of the server that has the unfinished run.
 * @property {number} [retryAfter] Seconds after which a retry may succeed.
 * @property {number} [retryAfterMs] Milliseconds after which a retry may succeed.
 * @property {string} [scope] The subject of the rate limit: key, address, route or global.
 * @property {string} [quota] The quota that is used up.
 * @property {number} [limit] The limit of the quota.
 * @property {string} [status] The status of the dispatch.
 * @property {string} [runId] The run of the dispatch.
 * @property {string} [dispatchId] The other dispatch.
 * @property {number} [dispatchEpoch] The epoch of the dispatch.
 * @property {number} [currentEpoch] The epoch of the thread.
 * @property {number} [expected] The version that the request expects.
 * @property {number} [actual] The version that is stored.
 * @property {string} [state] The state of a webhook, or of a link: answered, cancelled, expired or revoked.
 * @property {InterruptKind} [kind] The kind of the interrupt of the link.
 * @property {string} [title] The title of the interrupt of the link.
 * @property {string} [answeredBy] The principal that answered the interrupt of the link.
 * @property {Instant} [answeredAt] The instant of that answer.
 * @property {any} [action] The action of that answer.
 * @property {string} [decisionId] The id of the decision.
 * @property {string} [decidedBy] The principal that decided.
 * @property {Instant} [decidedAt] The instant of the decision.
 * @property {boolean} [timedOut] True if the deadline passed without a decision.
 * @property {string} [correlationId] The id under which the log of the server has the cause.
 */

/**
 * An instant, as ISO 8601 in UTC with milliseconds.
 * @typedef {string} Instant
 */

/**
 * A flaw of a workflow.
 * @typedef {Object} WorkflowFlaw
 * @property {string} [nodeId] The node that has the flaw. Absent if the definition itself has it.
 * @property {string} field The member, as a path from the node or from the definition.
 * @property {string} message The flaw in a sentence.
 */

/**
 * The status of a run.
 * @typedef {"pending" | "running" | "paused" | "waiting-approval" | "waiting-input" | "waiting-external" | "completed" | "failed" | "cancelled"} RunStatus
 */

/**
 * The kind of an interrupt. It determines the shape of the interrupt's data and of its answer.
 * @typedef {"approval" | "clarification" | "external-event" | "custom" | "conversation.start" | "conversation.exchange" | "conversation.close" | "low-confidence"} InterruptKind
 */

/**
 * The features of this server. A feature that is not listed does not exist.
 * @typedef {Object} Discovery
 * @property {string} protocolVersion The version of OpenWOP.
 * @property {Implementation} implementation The name and version of the server.
 * @property {string[]} supportedEnvelopes The supported types of envelopes.
 * @property {Object<string, number>} schemaVersions The versions of the envelope schemas, by type.
 * @property {string[]} supportedTransports The supported transports.
 * @property {Object<string, number>} limits The limits, by name.
 * @property {string[]} fixtures The workflows for conformance tests.
 * @property {TestingFeatures} testing Features for tests.
 * @property {Object<string, any>} configurable The options of a run, by name, with a JSON Schema each.
 * @property {number} engineVersion The version of the engine.
 * @property {number} eventLogSchemaVersion The version of the schema of the event log.
 * @property {AuthorizationFeatures} authorization Features of roles at gates.
 * @property {Supported} debugBundle True if debug bundles are supported.
 * @property {Extensions} extensions Extensions of the protocol.
 * @property {boolean} conversationPrimitive True if the conversation primitive is supported.
 * @property {WebhookFeatures} [webhooks] Features of webhooks.
 * @property {TriggerBridgeFeatures} [triggerBridge] Features of triggers.
 * @property {DeadLetterFeatures} [deadLetter] Features of dead letters.
 * @property {ReplayFeatures} [replay] Features of forks.
 * @property {Observability} [observability] Features of telemetry. Absent if the server exports none.
 */

/**
 * The name and version of the server.
 * @typedef {Object} Implementation
 * @property {string} name The name of the server.
 * @property {string} version The version of the server.
 * @property {string} vendor The vendor of the server.
 */

/**
 * Features for tests.
 * @typedef {Object} TestingFeatures
 * @property {string} testKeyPrefix The prefix of test keys.
 * @property {string[]} mockProviders The available mock providers.
 */

/**
 * Features of roles at gates.
 * @typedef {Object} AuthorizationFeatures
 * @property {boolean} supported True if gates can require roles.
 * @property {boolean} failClosed True if a gate that requires a role rejects a principal without any role.
 */

/**
 * A feature without details.
 * @typedef {Object} Supported
 * @property {boolean} supported True if the server has the feature.
 */

/**
 * Extensions of the protocol.
 * @typedef {Object} Extensions
 * @property {InterruptFeatures} interrupts Features of interrupts.
 */

/**
 * Features of interrupts.
 * @typedef {Object} InterruptFeatures
 * @property {string[]} profiles The supported interrupt profiles.
 * @property {boolean} signedCallbackTokens True if signed links are supported.
 */

/**
 * Features of webhooks.
 * @typedef {Object} WebhookFeatures
 * @property {boolean} supported True if webhooks are supported.
 * @property {string[]} signatureAlgorithms The algorithms of signatures.
 * @property {boolean} durable True if durable deliveries are supported.
 * @property {RetryPolicy} retryPolicy The retry policy of a webhook that has none of its own.
 */

/**
 * The retries of a durable webhook.
 * @typedef {Object} RetryPolicy
 * @property {number} maxAttempts The maximum number of attempts.
 * @property {"none" | "fixed" | "exponential"} backoff The growth of the delay between attempts.
 * @property {number} baseMs The first delay in milliseconds.
 * @property {number} maxMs The longest delay in milliseconds.
 */

/**
 * Features of triggers.
 * @typedef {Object} TriggerBridgeFeatures
 * @property {boolean} supported True if triggers are supported.
 * @property {Array<"active" | "paused" | "failed" | "dead-lettered">} subscriptionStates The states of triggers.
 * @property {boolean} dedup True if a repeated occurrence starts no second run.
 * @property {RetryPolicy} retryPolicy The retry policy of a trigger that has none of its own.
 * @property {string[]} sources The sources of triggers that the protocol names. Events of `POST /v1/events` are an additional source.
 */

/**
 * Features of dead letters.
 * @typedef {Object} DeadLetterFeatures
 * @property {boolean} supported True if dead letters can be listed.
 * @property {number} retentionDays Whole days for which a dead letter is kept.
 */

/**
 * Features of forks.
 * @typedef {Object} ReplayFeatures
 * @property {boolean} supported True if forks are supported.
 * @property {ForkMode[]} modes The supported modes of forks.
 */

/**
 * The relation of a fork to the record of its source.
 * @typedef {"replay" | "branch"} ForkMode
 */

/**
 * Features of telemetry.
 * @typedef {Object} Observability
 * @property {OtelFeatures} otel Features of OpenTelemetry.
 */

/**
 * Features of OpenTelemetry.
 * @typedef {Object} OtelFeatures
 * @property {string[]} exportProtocols The protocols of the export.
 */

/**
 * The workflows of the tenant, by id.
 * @typedef {Object} WorkflowList
 * @property {WorkflowSummary[]} workflows The latest revision of each workflow.
 */

/**
 * A workflow in a list.
 * @typedef {Object} WorkflowSummary
 * @property {string} id The id of the workflow.
 * @property {string} name The name of the workflow.
 * @property {string} version The version of the definition.
 * @property {number} revision The number of the revision, from 1.
 * @property {Instant} updatedAt The instant of the latest revision.
 */

/**
 * The top-level members of a workflow definition. The server checks nodes and edges when a definition is registered. The error for a rejected definition lists every flaw. A definition is returned as it was registered.
 * @typedef {Object} WorkflowDefinition
 * @property {string} id The id of the workflow.
 * @property {string} name The name of the workflow.
 * @property {string} version The version of the definition, chosen by its author.
 * @property {string} [description] A description for readers.
 * @property {Array<Object<string, any>>} nodes The nodes.
 * @property {Array<Object<string, any>>} edges The edges between the nodes.
 * @property {any[]} triggers The triggers.
 * @property {Array<Object<string, any>>} variables The variables and inputs.
 * @property {Object<string, any>} metadata Metadata of the author.
 * @property {Object<string, any>} settings The settings of the runs.
 */

/**
 * A definition that was registered.
 * @typedef {Object} WorkflowRegistered
 * @property {string} id The id of the workflow.
 * @property {string} version The version of the definition.
 * @property {number} revision The number of the revision, from 1.
 * @property {string[]} [warnings] A warning for each name, role, group or scope in a list of approvers that no key of this tenant has, and for each audience that does not restrict the approvers.
 */

/**
 * A run that was started.
 * @typedef {Object} RunCreated
 * @property {string} runId The id of the run.
 * @property {RunStatus} status The status of the run.
 * @property {string} eventsUrl The path of the events of the run.
 * @property {string} statusUrl The path of the run.
 * @property {string} [callbackSecret] The secret that signs the callbacks of the run, if the request has a callbackUrl and no callbackSecret. Shown once: not when the request is sent again under its Idempotency-Key.
 */

/**
 * A page of runs, the newest first.
 * @typedef {Object} RunList
 * @property {RunSummary[]} runs The runs of this page.
 * @property {string} [nextCursor] The cursor of the next page. Absent on the last page.
 */

/**
 * A run in a list.
 * @typedef {Object} RunSummary
 * @property {string} runId The id of the run.
 * @property {string} workflowId The id of the workflow.
 * @property {RunStatus} status The status of the run.
 * @property {Instant} createdAt The instant of the creation.
 * @property {Instant} updatedAt The instant of the last change.
 * @property {string} [scopeId] The scope of the run.
 * @property {string} [parentRunId] The run that started this run.
 * @property {string} [errorCode] The code of the error of a failed run.
 * @property {string} [title] The title of a hold.
 * @property {"timed_out" | "approved" | "rejected" | "answered"} [outcome] timed_out: the run failed because a deadline passed without an answer. For a completed hold: its status.
 */

/**
 * A run as it is now. Sensitive values are shown as `[redacted]`.
 * @typedef {Object} RunSnapshot
 * @property {string} runId The id of the run.
 * @property {string} workflowId The id of the workflow.
 * @property {string} workflowVersion The version of the workflow definition.
 * @property {RunStatus} status The status of the run.
 * @property {RunOwner} [owner] The tenant and principal to which the run belongs.
 * @property {"user" | "a2a" | "internal"} [origin] The origin of the request that started the run; in a fork, of the request that started its original. Missing in runs of versions that did not record it.
 * @property {Transport} [transport] The protocol of that request. Missing like the origin.
 * @property {string[]} [tags] The tags of the run.
 * @property {Object<string, any>} [metadata] The metadata of the run.
 * @property {Object<string, any>} [configurable] The options of the run.
 * @property {Object<string, any>} [inputs] The inputs of the run, by name.
 * @property {string} [currentNodeId] The node that waits for an answer, otherwise one that runs, sleeps or waits for a child run.
 * @property {Instant} startedAt The instant of the start.
 * @property {Instant} [completedAt] The instant of the end.
 * @property {OpenInterrupt} [interrupt] The open interrupt that the run waits for.
 * @property {RunError} [error] The error of a failed run.
 * @property {Instant} [pausedAt] The instant of the pause.
 * @property {string} [pausedBy] The principal that paused the run.
 * @property {Instant} [pauseRequestedAt] The instant at which a pause was requested that waits for running nodes.
 * @property {string} [pauseRequestedBy] The principal that requested the pause.
 * @property {DrainPolicy} [drainPolicy] The treatment of running nodes by the pause.
 * @property {string} [pauseReason] The reason of the pause.
 * @property {string} [parentRunId] The run that started this run.
 * @property {string} [parentNodeId] The node that started this run.
 * @property {string} [sourceRunId] The run that this run was forked from.
 * @property {number} [fromSeq] The sequence of the first event of the source that was not copied.
 * @property {ForkMode} [forkMode] The mode of the fork.
 * @property {string[]} [forkedBy] The principals that forked the run, its sources or its parents, in the order of the forks.
 * @property {string[]} [requestedBy] Requesters that a child run inherits in addition to its owner and forkedBy: principals that sent messages to an agent of a parent run.
 * @property {RunTrigger} [trigger] The trigger that started the run.
 * @property {ChildRun[]} [childRuns] The child runs.
 * @property {ChildInterrupt[]} [childInterrupts] The open interrupts of the child runs that the run waits for, and of the runs below them.
 * @property {Object<string, NodeState>} nodeStates The nodes of the workflow in its order, by id.
 * @property {Object<string, any>} [channels] The values of the channels, by name.
 * @property {Object<string, any>} variables The values of the variables, by name.
 * @property {number} eventLogSchemaVersion The version of the schema of the event log.
 * @property {number} [engineVersion] The version of the engine that started the run. Missing in runs of versions that did not record it.
 */

/**
 * The principal that started a run, and its tenant.
 * @typedef {Object} RunOwner
 * @property {string} tenant
 * @property {string} principal
 */

/**
 * The protocol over which a request arrived.
 * @typedef {"rest" | "agui" | "chat" | "internal"} Transport
 */

/**
 * The open interrupt that the run waits for.
 * @typedef {Object} OpenInterrupt
 * @property {string} interruptId The id of the interrupt.
 * @property {string[]} [openInterruptIds] The ids of all open interrupts of this node, if there are several. An answer must then name its interrupt.
 * @property {string} kind The kind of the interrupt.
 * @property {string} nodeId The id of the node.
 * @property {string} key The key of the interrupt, unique in the run.
 * @property {any} data The data that the interrupt shows.
 * @property {Instant} requestedAt The instant at which the interrupt opened.
 * @property {number} [timeoutMs] The time until the deadline, in milliseconds.
 * @property {Instant} [expiresAt] The deadline of the interrupt.
 * @property {Object<string, any> | boolean} [resumeSchema] The JSON Schema of the answer.
 * @property {string} [interruptToken] The token of a link in the caller's name. Only for callers that may answer, and never in streams.
 * @property {string} [callbackUrl] The URL of that link.
 */

/**
 * The error of a run or a node.
 * @typedef {Object} RunError
 * @property {string} code The error code.
 * @property {Object<string, any>} [details] Further members; they depend on the code.
 * @property {string} message The error message.
 * @property {boolean} [retryable] True if a retry may succeed.
 */

/**
 * The treatment of a running node when its run is paused.
 * @typedef {"immediate" | "drain-current-node"} DrainPolicy
 */

/**
 * The trigger that started a run.
 * @typedef {Object} RunTrigger
 * @property {string} subscriptionId The id of the trigger.
 * @property {string} deliveryId The id of the delivery.
 */

/**
 * A run that the run started.
 * @typedef {Object} ChildRun
 * @property {string} runId The id of the child run.
 * @property {string} workflowId The workflow of the child run.
 * @property {string} nodeId The node that started the child run.
 * @property {RunStatus} status The last status that the parent received.
 */

/**
 * An open interrupt of a run that was started by the run, or by a run below it.
 * @typedef {Object} ChildInterrupt
 * @property {string} interruptId The id of the interrupt.
 * @property {string} kind The kind of the interrupt.
 * @property {string} runId The run that opened the interrupt.
 * @property {string} workflowId The workflow of that run.
 * @property {string} nodeId The node that opened the interrupt.
 * @property {Ancestor[]} path The runs above that run, beginning with the run that shows the interrupt.
 */

/**
 * A run above another run, with the node that started the next run of a path.
 * @typedef {Object} Ancestor
 * @property {string} runId The id of the run.
 * @property {string} workflowId The workflow of the run.
 * @property {string} nodeId The node of the run.
 */

/**
 * The state of a node.
 * @typedef {Object} NodeState
 * @property {NodeStatus} status The status of the node.
 * @property {string} typeId The type of the node.
 * @property {Instant} [startedAt] The instant of the start.
 * @property {Instant} [completedAt] The instant of the end.
 * @property {RunError} [error] The error of a failed node.
 * @property {NodeDelay} [delay] The delay of a node whose server is unavailable.
 */

/**
 * The status of a node, without the reason of its wait.
 * @typedef {"pending" | "running" | "suspended" | "sleeping" | "awaiting" | "completed" | "failed" | "skipped"} NodeStatus
 */

/**
 * The wait of a node for an external server that is unavailable.
 * @typedef {Object} NodeDelay
 * @property {Instant} since The instant of the first failed attempt.
 * @property {Instant} [until] The instant until which the node is tried again. Absent if an operator must requeue the dispatch of the run.
 * @property {RunError} error The error of the last attempt.
 */

/**
 * A run with its status.
 * @typedef {Object} RunStatusNow
 * @property {string} runId The id of the run.
 * @property {RunStatus} status The status of the run.
 */

/**
 * The results of cancelling several runs, in the order of the request.
 * @typedef {Object} BulkCancelled
 * @property {CancelResult[]} results The results in the order of the request.
 */

/**
 * The result of cancelling one of several runs.
 * @typedef {Object} CancelResult
 * @property {string} runId The id as it was sent.
 * @property {boolean} ok True if the run is cancelled or had already ended.
 * @property {RunStatus} [status] The status of the run.
 * @property {RunError} [error] The reason for which the run is not cancelled.
 */

/**
 * A run that is paused, or will be once its running nodes have ended.
 * @typedef {Object} RunPaused
 * @property {string} runId The id of the run.
 * @property {RunStatus} status The status of the run.
 * @property {Instant} [pausedAt] The instant of the pause.
 * @property {boolean} [draining] True if the run pauses only after its running nodes have ended. The status of this response is paused; the run itself is running until then.
 */

/**
 * A run that continues after a pause.
 * @typedef {Object} RunResumed
 * @property {string} runId The id of the run.
 * @property {RunStatus} status The status of the run.
 * @property {Instant} resumedAt The instant of the resume.
 */

/**
 * A run that was started from the log of another run.
 * @typedef {Object} RunForked
 * @property {string} runId The id of the new run.
 * @property {string} sourceRunId The id of the source.
 * @property {number} fromSeq The sequence of the first event that was not copied.
 * @property {ForkMode} mode The mode of the fork.
 * @property {RunStatus} status The status of the run.
 * @property {string} eventsUrl The path of the events of the run.
 * @property {string} statusUrl The path of the run.
 */

/**
 * The newest output of a node with an artifact type.
 * @typedef {Object} Artifact
 * @property {string} artifactId The id of the artifact.
 * @property {string} artifactType The type of the artifact.
 * @property {string} runId The id of the run.
 * @property {string} nodeId The id of the node.
 * @property {string} version The version of the artifact.
 * @property {Instant} [createdAt] The instant of this version.
 * @property {Object<string, any>} data The output of the node.
 */

/**
 * The snapshot, the events and the spans of a run in one document. It shows only ids, types, codes, states, times, numbers and the shape of values, so that it can be given to third parties.
 * @typedef {Object} DebugBundle
 * @property {string} bundleVersion The version of the format.
 * @property {Instant} generatedAt The instant of the response.
 * @property {Implementation} host The server.
 * @property {RunSnapshot} run The snapshot of the run, masked.
 * @property {Event[]} events The events of the log, masked.
 * @property {BundleSpan[]} spans The spans of the run, masked.
 * @property {BundleMetrics} metrics The size of the run.
 * @property {boolean} redactionApplied True if values are masked.
 * @property {"mask"} redactionMode The form of the redaction.
 * @property {boolean} truncated True if the list of events is incomplete.
 * @property {string} [truncatedReason] The name of the limit that shortened the list of events.
 */

/**
 * An event of the log of a run. Every reader receives the same bytes.
 * @typedef {Object} Event
 * @property {string} eventId The id of the event.
 * @property {string} runId The id of the run.
 * @property {string} type The type of the event.
 * @property {string} [nodeId] The node of the event.
 * @property {any} payload The data of the event. Its members depend on the type of the event.
 * @property {Instant} timestamp The instant of the event.
 * @property {number} sequence The position of the event in the log of the run, from 0.
 * @property {string} [causationId] The delivery of a trigger that started the run. Only in `run.started`, and only of such a run.
 */

/**
 * A span of a run.
 * @typedef {Object} BundleSpan
 * @property {string} name The name of the span.
 * @property {string} traceId The id of the trace, as 32 hexadecimal digits.
 * @property {string} spanId The id of the span, as 16 hexadecimal digits.
 * @property {string | null} parentSpanId The id of the parent span. Null for the first span of a trace.
 * @property {Instant} startedAt The beginning of the span.
 * @property {Instant} endedAt The end of the span.
 * @property {Object<string, any>} attributes The attributes by name.
 */

/**
 * The size of a run.
 * @typedef {Object} BundleMetrics
 * @property {number} eventCount The number of events in the log.
 * @property {number} nodeCount The number of nodes.
 */

/**
 * A server-sent event of a run.
 * @typedef {Object} StreamedEvent
 * @property {string} id The sequence of the event or of the last event of a batch, for Last-Event-ID.
 * @property {string} event The type of the event; state.snapshot in the mode values; batch with bufferMs.
 * @property {string} data The event, the snapshot or the batch as JSON.
 */

/**
 * The events of a run so far.
 * @typedef {Object} EventList
 * @property {Event[]} events The events in the order of the log.
 */

/**
 * Events of a run after a sequence number.
 * @typedef {Object} EventPage
 * @property {Event[]} events The events in the order of the log.
 * @property {boolean} isComplete True if the run has ended and these are its last events.
 */

/**
 * A page of the events of a thread.
 * @typedef {Object} ThreadEvents
 * @property {ThreadEvent[]} events The events of this page.
 * @property {string} [nextCursor] The cursor of the next page. Absent on the last page.
 */

/**
 * An event of a run with its position in the thread.
 * @typedef {Object} ThreadEvent
 * @property {string} cursor The position of the event, for the parameter after.
 * @property {string} eventId The id of the event.
 * @property {string} runId The id of the run.
 * @property {string} type The type of the event.
 * @property {string} [nodeId] The node of the event.
 * @property {any} payload The data of the event. Its members depend on the type of the event.
 * @property {Instant} timestamp The instant of the event.
 * @property {number} sequence The position of the event in the log of the run, from 0.
 * @property {string} [causationId] The delivery of a trigger that started the run. Only in `run.started`, and only of such a run.
 */

/**
 * A server-sent event of a thread.
 * @typedef {Object} StreamedThreadEvent
 * @property {string} id The cursor of the event, for Last-Event-ID.
 * @property {string} event The type of the event.
 * @property {string} data The event as JSON.
 */

/**
 * A page of pending interrupts. A page with fewer entries than the limit may still have a next page.
 * @typedef {Object} PendingInterrupts
 * @property {PendingInterrupt[]} interrupts The interrupts of this page.
 * @property {string} [nextCursor] The cursor of the next page. Absent on the last page.
 */

/**
 * An interrupt that waits for an answer.
 * @typedef {Object} PendingInterrupt
 * @property {string} runId The id of the run.
 * @property {string} nodeId The id of the node.
 * @property {string} interruptId The id of the interrupt.
 * @property {InterruptKind} kind The kind of the interrupt.
 * @property {string} key The key of the interrupt, unique in the run.
 * @property {string} workflowId The id of the workflow.
 * @property {string} title The title of the interrupt.
 * @property {string} [excerpt] An excerpt of the payload, in one line.
 * @property {Instant} requestedAt The instant at which the interrupt opened.
 * @property {number} ageMs The time since the interrupt opened, in milliseconds.
 * @property {Instant} [expiresAt] The deadline of the interrupt.
 * @property {string} [digest] The digest of the data.
 * @property {string[]} assignees The principals that may answer: names, role:x or group:y.
 * @property {number} [requiredApprovals] The number of required approvals.
 * @property {PendingVotes} [votes] The votes so far.
 * @property {Ancestor[]} [path] The runs above the run of the interrupt, beginning with the root. Absent if no run started it.
 * @property {number} openAsks The number of side questions without an answer.
 * @property {string[]} [tags] The tags of the run.
 * @property {string} statusUrl The path of the run.
 * @property {PendingLinks} links The addresses of the interrupt.
 */

/**
 * The votes of a pending approval.
 * @typedef {Object} PendingVotes
 * @property {number} approvals The number of approvals.
 * @property {number} rejections The number of rejections.
 * @property {string[]} voters The voters in the order of their votes.
 */

/**
 * The addresses of a pending interrupt.
 * @typedef {Object} PendingLinks
 * @property {string} run The path of the run.
 * @property {string} resolve The path that accepts an answer.
 * @property {string} page The page on which a person answers: a path, or a URL if the server has a public one.
 */

/**
 * The number of pending interrupts.
 * @typedef {Object} PendingCounts
 * @property {number} total The number of pending interrupts.
 * @property {Object<string, number>} byKind The numbers of pending interrupts, by kind.
 * @property {number} overdue Interrupts past their deadline.
 * @property {number} dueSoon Interrupts with a deadline within an hour.
 * @property {boolean} isComplete False if there are more interrupts than were counted.
 * @property {Instant} [oldestRequestedAt] The instant at which the oldest pending interrupt opened.
 */

/**
 * A server-sent event with the number of pending interrupts.
 * @typedef {Object} StreamedPendingCounts
 * @property {"counts"} event The name of the event.
 * @property {string} data The counts as JSON.
 */

/**
 * A page of the interrupts of a run, in their order.
 * @typedef {Object} InterruptHistory
 * @property {string} runId The id of the run.
 * @property {InterruptRecord[]} interrupts The interrupts of this page.
 * @property {string} [nextCursor] The cursor of the next page. Absent on the last page.
 */

/**
 * An interrupt with its votes, side questions and decision.
 * @typedef {Object} InterruptRecord
 * @property {string} interruptId The id of the interrupt.
 * @property {string} nodeId The id of the node.
 * @property {InterruptKind} kind The kind of the interrupt.
 * @property {string} key The key of the interrupt, unique in the run.
 * @property {string} title The title of the interrupt.
 * @property {any} data The data that the interrupt shows.
 * @property {string} [digest] The digest of the data.
 * @property {Instant} requestedAt The instant at which the interrupt opened.
 * @property {number} [timeoutMs] The time until the deadline, in milliseconds.
 * @property {Instant} [expiresAt] The deadline of the interrupt.
 * @property {Object<string, any> | boolean} [resumeSchema] The JSON Schema of the answer.
 * @property {InterruptStatus} status The state of the interrupt.
 * @property {string[]} assignees The principals that may answer: names, role:x or group:y.
 * @property {number} [requiredApprovals] The number of required approvals.
 * @property {Vote[]} votes The votes in the order in which they were cast.
 * @property {number} repeatedVotes The number of repeated votes.
 * @property {Ask[]} asks The side questions in the order in which they were asked.
 * @property {InterruptDecision} [decision] The outcome. Absent while the interrupt is open.
 * @property {Permit[]} [permits] The effects that an approval permits.
 * @property {string} [grantId] The id of the grant that the decision created.
 */

/**
 * The state of an interrupt. The end of a run cancels its open interrupts.
 * @typedef {"open" | "answered" | "timed-out" | "cancelled"} InterruptStatus
 */

/**
 * A vote of an approver.
 * @typedef {Object} Vote
 * @property {string} decidedBy The principal in whose name the vote was cast.
 * @property {string} [actedBy] The principal that voted in the name of decidedBy.
 * @property {string} action The action of the vote.
 * @property {Instant} at The instant of the vote.
 * @property {Object<string, any>} [clientMetadata] Data that the client sent with the answer. Nothing verifies it: names in it are claims.
 * @property {Via} [via] The credential of the vote.
 * @property {boolean} [copied] True if the vote was cast in the source of this fork; it does not count.
 */

/**
 * The credential of a decision.
 * @typedef {Object} Via
 * @property {"key" | "session" | "link" | "system"} type
 * @property {string} id The id of the key, the session or the link. For system: timeout, host, agent, event or replay.
 */

/**
 * A side question: a question that an approver asks before the decision.
 * @typedef {Object} Ask
 * @property {number} askId The number of the side question, from 1.
 * @property {string} question The side question.
 * @property {string} askedBy The principal that asked.
 * @property {Instant} askedAt The instant of the side question.
 * @property {Via} [via] The credential of the side question.
 * @property {string} [answer] The answer.
 * @property {string} [answeredBy] The principal that answered.
 * @property {Instant} [answeredAt] The instant of the answer.
 */

/**
 * The outcome of an interrupt.
 * @typedef {Object} InterruptDecision
 * @property {any} value The answer. Null if the interrupt timed out.
 * @property {string} by The principal that answered.
 * @property {Instant} at The instant of the outcome.
 * @property {string} [action] The action of an answer to an approval.
 * @property {string} [decision] The decision of an approval.
 * @property {string} [reason] The reason of the decision.
 * @property {Object<string, any>} [clientMetadata] Data that the client sent with the answer. Nothing verifies it: names in it are claims.
 * @property {Via} [via] The credential of the answer.
 */

/**
 * An effect that a gate permits.
 * @typedef {Object} Permit
 * @property {string} nodeId The node that performs the effect.
 * @property {string} typeId The type of the node.
 * @property {PayloadFixed} payload The part of the payload that the approval fixes.
 * @property {boolean} repeat True if the approval permits the effect in every round of a loop.
 */

/**
 * The part of an effect's payload that the approval fixes.
 * @typedef {"fixed by this approval" | "body fixed by this approval, other inputs not" | "payload not fixed by this approval" | "needs no grant"} PayloadFixed
 */

/**
 * The side questions about an interrupt.
 * @typedef {Object} AskList
 * @property {string} runId The id of the run.
 * @property {string} nodeId The id of the node.
 * @property {string} interruptId The id of the interrupt.
 * @property {Ask[]} asks The side questions in the order in which they were asked.
 */

/**
 * A side question with its answer.
 * @typedef {Object} AskAnswered
 * @property {string} runId The id of the run.
 * @property {string} nodeId The id of the node.
 * @property {string} interruptId The id of the interrupt.
 * @property {number} askId The number of the side question, from 1.
 * @property {string} question The side question.
 * @property {string} askedBy The principal that asked.
 * @property {Instant} askedAt The instant of the side question.
 * @property {Via} [via] The credential of the side question.
 * @property {string} answer The answer.
 * @property {string} answeredBy The principal that answered.
 * @property {Instant} answeredAt The instant of the answer.
 */

/**
 * The effect of an answer.
 * @typedef {Object} InterruptResolved
 * @property {string} runId The id of the run.
 * @property {string} nodeId The id of the node.
 * @property {string} [interruptId] The id of the interrupt.
 * @property {RunStatus} status The status of the run after the answer.
 * @property {AnswerOutcome} outcome The effect of the answer.
 * @property {number} [askId] The number of the side question that the answer asked.
 * @property {number} [requiredApprovals] The number of required approvals.
 * @property {Vote[]} [votes] The votes in the order in which they were cast.
 * @property {string} [grantId] The id of the grant that the decision created.
 */

/**
 * The effect of an answer on its interrupt.
 * @typedef {"resolved" | "voted" | "repeated" | "asked"} AnswerOutcome
 */

/**
 * The effect of an external event.
 * @typedef {Object} EventReceived
 * @property {string} eventId The id of the event.
 * @property {EventReception} status The effect of the event.
 * @property {EventTarget[]} matched The interrupts that the event resolved.
 * @property {EventRefused[]} refused The interrupts that wait for such an event and rejected this event.
 * @property {Instant} [keptUntil] The instant until which the server keeps an event that no interrupt waits for.
 * @property {boolean} [more] True if more interrupts wait for such an event than one event can resolve.
 * @property {EventRun[]} [triggered] The runs that the event starts through triggers.
 */

/**
 * The effect of an external event when it arrives.
 * @typedef {"matched" | "kept" | "ignored"} EventReception
 */

/**
 * An interrupt that waits for an event.
 * @typedef {Object} EventTarget
 * @property {string} runId The id of the run.
 * @property {string} nodeId The id of the node.
 * @property {string} interruptId The id of the interrupt.
 */

/**
 * An interrupt that rejected an event.
 * @typedef {Object} EventRefused
 * @property {string} runId The id of the run.
 * @property {string} nodeId The id of the node.
 * @property {string} interruptId The id of the interrupt.
 * @property {string} error The error code.
 * @property {string} message The error message.
 */

/**
 * A run that an event starts through a trigger.
 * @typedef {Object} EventRun
 * @property {string} subscriptionId The id of the trigger.
 * @property {string} deliveryId The id of the delivery. It is the causationId of the run.
 * @property {string} runId The id of the run. The run exists once the delivery is delivered.
 */

/**
 * A new link.
 * @typedef {Object} TokenMinted
 * @property {string} runId The id of the run.
 * @property {string} nodeId The id of the node.
 * @property {string} interruptId The id of the interrupt.
 * @property {LinkIntent} intent The purpose of the link.
 * @property {string} for The principal in whose name the link answers.
 * @property {Instant} expiresAt The expiry of the link.
 * @property {string} linkId Identifies the link in decisions that were made with it.
 * @property {string} [token] The token of the link. Shown once: not when the request is sent again under its Idempotency-Key.
 * @property {string} [url] The URL of the link. Shown once, like the token.
 */

/**
 * The use of a link.
 * @typedef {"resolve" | "inspect"} LinkIntent
 */

/**
 * The interrupt that a link is for.
 * @typedef {Object} LinkedInterrupt
 * @property {string} runId The id of the run.
 * @property {string} nodeId The id of the node.
 * @property {string} interruptId The id of the interrupt.
 * @property {LinkIntent} intent The purpose of the link.
 * @property {string} for The principal in whose name the link answers.
 * @property {Instant} expiresAt The expiry of the link.
 * @property {LinkState} state The state of the interrupt.
 * @property {string} kind The kind of the interrupt.
 * @property {string} key The key of the interrupt, unique in the run.
 * @property {string} title The title of the interrupt.
 * @property {any} data The data that the interrupt shows.
 * @property {Instant} requestedAt The instant at which the interrupt opened.
 * @property {Instant} [interruptExpiresAt] The deadline of the interrupt.
 * @property {number} [timeoutMs] The time until the deadline, in milliseconds.
 * @property {Object<string, any> | boolean} [resumeSchema] The JSON Schema of the answer.
 * @property {string[]} [assignees] The principals that may answer: names, role:x or group:y.
 * @property {string} [digest] The digest of the data.
 * @property {number} [requiredApprovals] The number of approvals, if more than one is required.
 * @property {Vote[]} [votes] The votes in the order in which they were cast.
 * @property {Ask[]} [asks] The side questions in the order in which they were asked.
 * @property {Permit[]} [permits] The effects that an approval permits.
 */

/**
 * The state of an interrupt that a link shows. An interrupt that is no longer open is an error with 409 or 410; details.state is then answered, cancelled or expired.
 * @typedef {"open"} LinkState
 */

/**
 * A subscription with its new secret.
 * @typedef {Object} WebhookCreated
 * @property {string} webhookId The id of the webhook.
 * @property {string} tenantId The tenant of the webhook.
 * @property {string} url The URL that receives the events.
 * @property {string[]} events The types of events that are delivered.
 * @property {string[]} tags Only events of runs with one of these tags are delivered. If empty, events of all runs are delivered.
 * @property {"active" | "paused" | "failed" | "dead-lettered"} state The state of the webhook.
 * @property {"best-effort" | "durable"} mode The mode of delivery.
 * @property {boolean} durable True if deliveries are durable.
 * @property {boolean} ordered True if later events of a run wait for earlier ones.
 * @property {RetryPolicy} retryPolicy The retries of durable deliveries.
 * @property {string} secretFingerprint The first 8 hexadecimal digits of the SHA-256 of the secret.
 * @property {"v1"} signatureAlgorithm The algorithm of the signatures.
 * @property {"closed" | "open"} circuit The state of the circuit breaker.
 * @property {Instant} [circuitOpenUntil] The instant until which an open circuit breaker stops deliveries.
 * @property {number} failuresInARow The number of consecutive failures.
 * @property {Instant} createdAt The instant of the creation.
 * @property {Instant} updatedAt The instant of the last change.
 * @property {"retry-exhausted" | "operator-paused" | "operator-resumed" | "source-removed" | "circuit-opened" | "circuit-closed" | "key-revoked" | "key-expired" | "provenance-unevaluable" | "secret-rotated"} [reason] The reason for which the webhook is not active. Absent if it is active, or if an earlier version stored its state.
 * @property {WebhookOwner | null} owner The principal that created the webhook or resumed it last. The webhook is paused when the lineage of this key has no active key. Null if an earlier version stored the webhook.
 * @property {OldSecret} [oldSecret] The secret before the last rotation, while deliveries are signed with both.
 * @property {string} [subscriptionId] The same as webhookId.
 * @property {string[]} [eventTypes] The same as events.
 * @property {string} [secret] The new secret. Shown once: not when the request is sent again under its Idempotency-Key.
 */

/**
 * The owner of a subscription.
 * @typedef {Object} WebhookOwner
 * @property {string} principal The principal of the owner.
 * @property {string} keyId The key of the owner.
 * @property {string} lineage The lineage of that key.
 */

/**
 * The secret before a rotation.
 * @typedef {Object} OldSecret
 * @property {string} fingerprint The fingerprint of the old secret.
 * @property {Instant} validUntil The instant until which deliveries are signed with both secrets.
 */

/**
 * A page of subscriptions, oldest first.
 * @typedef {Object} WebhookList
 * @property {Webhook[]} webhooks The webhooks of this page.
 * @property {string} [nextCursor] The cursor of the next page. Absent on the last page.
 */

/**
 * A subscription without its secret.
 * @typedef {Object} Webhook
 * @property {string} webhookId The id of the webhook.
 * @property {string} tenantId The tenant of the webhook.
 * @property {string} url The URL that receives the events.
 * @property {string[]} events The types of events that are delivered.
 * @property {string[]} tags Only events of runs with one of these tags are delivered. If empty, events of all runs are delivered.
 * @property {"active" | "paused" | "failed" | "dead-lettered"} state The state of the webhook.
 * @property {"best-effort" | "durable"} mode The mode of delivery.
 * @property {boolean} durable True if deliveries are durable.
 * @property {boolean} ordered True if later events of a run wait for earlier ones.
 * @property {RetryPolicy} retryPolicy The retries of durable deliveries.
 * @property {string} secretFingerprint The first 8 hexadecimal digits of the SHA-256 of the secret.
 * @property {"v1"} signatureAlgorithm The algorithm of the signatures.
 * @property {"closed" | "open"} circuit The state of the circuit breaker.
 * @property {Instant} [circuitOpenUntil] The instant until which an open circuit breaker stops deliveries.
 * @property {number} failuresInARow The number of consecutive failures.
 * @property {Instant} createdAt The instant of the creation.
 * @property {Instant} updatedAt The instant of the last change.
 * @property {"retry-exhausted" | "operator-paused" | "operator-resumed" | "source-removed" | "circuit-opened" | "circuit-closed" | "key-revoked" | "key-expired" | "provenance-unevaluable" | "secret-rotated"} [reason] The reason for which the webhook is not active. Absent if it is active, or if an earlier version stored its state.
 * @property {WebhookOwner | null} owner The principal that created the webhook or resumed it last. The webhook is paused when the lineage of this key has no active key. Null if an earlier version stored the webhook.
 * @property {OldSecret} [oldSecret] The secret before the last rotation, while deliveries are signed with both.
 */

/**
 * A page of the events of a subscription.
 * @typedef {Object} WebhookEvents
 * @property {WebhookEvent[]} events The events of this page.
 * @property {string} [nextCursor] The cursor of the next page. Absent on the last page.
 */

/**
 * A change of a subscription, or an attempt of a delivery.
 * @typedef {Object} WebhookEvent
 * @property {string} eventId The id of the event.
 * @property {"trigger.subscription.state.changed" | "trigger.delivery.attempted"} type The type of the event.
 * @property {Instant} timestamp The instant of the event.
 * @property {WebhookEventPayload} payload The data of the event.
 */

/**
 * The payload of an event of a subscription. A change has fromState, toState and reason; an attempt has the other members.
 * @typedef {Object} WebhookEventPayload
 * @property {string} subscriptionId The id of the webhook.
 * @property {"active" | "paused" | "failed" | "dead-lettered"} [fromState] The state before the change.
 * @property {"active" | "paused" | "failed" | "dead-lettered"} [toState] The state after the change.
 * @property {"retry-exhausted" | "operator-paused" | "operator-resumed" | "source-removed" | "circuit-opened" | "circuit-closed" | "key-revoked" | "key-expired" | "provenance-unevaluable" | "secret-rotated"} [reason] The reason of the change.
 * @property {string} [deliveryId] The id of the delivery.
 * @property {number} [attempt] The number of the attempt, from 1.
 * @property {number} [latencyMs] The duration of the attempt in milliseconds.
 * @property {number} [times] The number of events that were dropped.
 * @property {"delivered" | "retrying" | "dead-lettered" | "failed" | "dropped"} [outcome] The outcome of the attempt.
 */

/**
 * A page of deliveries, newest first.
 * @typedef {Object} DeliveryList
 * @property {Delivery[]} deliveries The deliveries of this page.
 * @property {string} [nextCursor] The cursor of the next page. Absent on the last page.
 */

/**
 * A delivery with its attempts, newest first.
 * @typedef {Object} Delivery
 * @property {string} deliveryId The id of the delivery.
 * @property {string} webhookId The id of the webhook.
 * @property {string} runId The run of the event.
 * @property {number} sequence The sequence of the event in the log of its run.
 * @property {"run.started" | "node.started" | "node.completed" | "node.failed" | "holdpoint.node.delayed" | "node.skipped" | "node.suspended" | "node.resumed" | "interrupt.requested" | "approval.requested" | "clarification.requested" | "interrupt.resolved" | "interrupt.timed_out" | "approval.received" | "clarification.resolved" | "holdpoint.vote.cast" | "holdpoint.vote.repeated" | "holdpoint.ask.raised" | "holdpoint.ask.answered" | "authorization.decided" | "approval.granted" | "approval.rejected" | "approval.overridden" | "conversation.opened" | "conversation.exchanged" | "conversation.closed" | "agent.decided" | "holdpoint.step.recorded" | "holdpoint.sleep.started" | "holdpoint.sleep.ended" | "node.retried" | "variable.changed" | "channel.written" | "ai.message.chunk" | "holdpoint.reasoning.chunk" | "holdpoint.tool.chunk" | "holdpoint.activity.reported" | "holdpoint.message.added" | "holdpoint.model.replied" | "agent.toolCalled" | "holdpoint.tool.suspended" | "holdpoint.tool.begun" | "agent.toolReturned" | "artifact.created" | "holdpoint.loop.turned" | "workflow.loopback-limit" | "cap.breached" | "node.dispatched" | "holdpoint.node.awaiting" | "holdpoint.child.changed" | "holdpoint.child.ended" | "holdpoint.pause.requested" | "run.paused" | "run.resumed" | "replay.diverged" | "run.completed" | "run.failed" | "run.cancelled"} eventType The type of the event.
 * @property {"queued" | "in-flight" | "delivered" | "dead-lettered" | "dropped"} state The state of the delivery.
 * @property {number} attempt The number of attempts.
 * @property {string} dedupKey The key by which a receiver recognizes repeated deliveries.
 * @property {Instant} createdAt The instant of the creation.
 * @property {Instant} [nextAttemptAt] The instant of the next attempt.
 * @property {Instant} [endedAt] The instant at which the delivery ended.
 * @property {string} [reason] The reason for which the delivery is a dead letter.
 * @property {DeliveryAttempt[]} attempts The attempts, newest first.
 */

/**
 * An attempt of a delivery.
 * @typedef {Object} DeliveryAttempt
 * @property {number} attempt The number of the attempt, from 1.
 * @property {Instant} at The instant of the attempt.
 * @property {number} latencyMs The duration in milliseconds.
 * @property {"delivered" | "retrying" | "dead-lettered" | "failed" | "dropped"} outcome The outcome of the attempt.
 * @property {number} [status] The HTTP status of the response.
 * @property {string} [error] The error of a failed attempt.
 */

/**
 * A page of dead letters, newest first.
 * @typedef {Object} DeadLetters
 * @property {DeadLetter[]} deliveries The dead letters of this page.
 * @property {string} [nextCursor] The cursor of the next page. Absent on the last page.
 */

/**
 * A delivery that is not tried again automatically.
 * @typedef {Object} DeadLetter
 * @property {string} subscriptionId The id of the webhook.
 * @property {string} deliveryId The id of the delivery.
 * @property {string} runId The run of the event.
 * @property {number} sequence The sequence of the event in the log of its run.
 * @property {"run.started" | "node.started" | "node.completed" | "node.failed" | "holdpoint.node.delayed" | "node.skipped" | "node.suspended" | "node.resumed" | "interrupt.requested" | "approval.requested" | "clarification.requested" | "interrupt.resolved" | "interrupt.timed_out" | "approval.received" | "clarification.resolved" | "holdpoint.vote.cast" | "holdpoint.vote.repeated" | "holdpoint.ask.raised" | "holdpoint.ask.answered" | "authorization.decided" | "approval.granted" | "approval.rejected" | "approval.overridden" | "conversation.opened" | "conversation.exchanged" | "conversation.closed" | "agent.decided" | "holdpoint.step.recorded" | "holdpoint.sleep.started" | "holdpoint.sleep.ended" | "node.retried" | "variable.changed" | "channel.written" | "ai.message.chunk" | "holdpoint.reasoning.chunk" | "holdpoint.tool.chunk" | "holdpoint.activity.reported" | "holdpoint.message.added" | "holdpoint.model.replied" | "agent.toolCalled" | "holdpoint.tool.suspended" | "holdpoint.tool.begun" | "agent.toolReturned" | "artifact.created" | "holdpoint.loop.turned" | "workflow.loopback-limit" | "cap.breached" | "node.dispatched" | "holdpoint.node.awaiting" | "holdpoint.child.changed" | "holdpoint.child.ended" | "holdpoint.pause.requested" | "run.paused" | "run.resumed" | "replay.diverged" | "run.completed" | "run.failed" | "run.cancelled"} eventType The type of the event.
 * @property {number} attempt The number of attempts.
 * @property {string | null} reason The reason for which the delivery is a dead letter.
 * @property {string} dedupKey The key by which a receiver recognizes repeated deliveries.
 * @property {string} [attemptEventId] The id of the event of the last attempt. Absent if there was no attempt.
 * @property {Instant} [deadLetteredAt] The instant at which the delivery became a dead letter.
 * @property {Instant} [expiresAt] The instant after which the dead letter is removed.
 */

/**
 * A delivery without its attempts.
 * @typedef {Object} DeliveryQueued
 * @property {string} deliveryId The id of the delivery.
 * @property {string} webhookId The id of the webhook.
 * @property {string} runId The run of the event.
 * @property {number} sequence The sequence of the event in the log of its run.
 * @property {"run.started" | "node.started" | "node.completed" | "node.failed" | "holdpoint.node.delayed" | "node.skipped" | "node.suspended" | "node.resumed" | "interrupt.requested" | "approval.requested" | "clarification.requested" | "interrupt.resolved" | "interrupt.timed_out" | "approval.received" | "clarification.resolved" | "holdpoint.vote.cast" | "holdpoint.vote.repeated" | "holdpoint.ask.raised" | "holdpoint.ask.answered" | "authorization.decided" | "approval.granted" | "approval.rejected" | "approval.overridden" | "conversation.opened" | "conversation.exchanged" | "conversation.closed" | "agent.decided" | "holdpoint.step.recorded" | "holdpoint.sleep.started" | "holdpoint.sleep.ended" | "node.retried" | "variable.changed" | "channel.written" | "ai.message.chunk" | "holdpoint.reasoning.chunk" | "holdpoint.tool.chunk" | "holdpoint.activity.reported" | "holdpoint.message.added" | "holdpoint.model.replied" | "agent.toolCalled" | "holdpoint.tool.suspended" | "holdpoint.tool.begun" | "agent.toolReturned" | "artifact.created" | "holdpoint.loop.turned" | "workflow.loopback-limit" | "cap.breached" | "node.dispatched" | "holdpoint.node.awaiting" | "holdpoint.child.changed" | "holdpoint.child.ended" | "holdpoint.pause.requested" | "run.paused" | "run.resumed" | "replay.diverged" | "run.completed" | "run.failed" | "run.cancelled"} eventType The type of the event.
 * @property {"queued" | "in-flight" | "delivered" | "dead-lettered" | "dropped"} state The state of the delivery.
 * @property {number} attempt The number of attempts.
 * @property {string} dedupKey The key by which a receiver recognizes repeated deliveries.
 * @property {Instant} createdAt The instant of the creation.
 * @property {Instant} [nextAttemptAt] The instant of the next attempt.
 * @property {Instant} [endedAt] The instant at which the delivery ended.
 * @property {string} [reason] The reason for which the delivery is a dead letter.
 */

/**
 * The number of deliveries that are sent again.
 * @typedef {Object} Replayed
 * @property {string} webhookId The id of the webhook.
 * @property {number} replayed The number of deliveries.
 */

/**
 * A trigger.
 * @typedef {Object} Trigger
 * @property {string} subscriptionId The id of the trigger.
 * @property {string} tenantId The tenant of the trigger.
 * @property {"schedule" | "event"} source The source of the deliveries.
 * @property {string} workflowId The workflow whose runs start.
 * @property {TriggerSchedule} [schedule] The schedule.
 * @property {TriggerEvents} [event] The events.
 * @property {Object<string, any>} inputMapping The inputs of the runs.
 * @property {string[]} tags The tags of the runs.
 * @property {TriggerDispatch} [dispatch] Options of the dispatches of the runs.
 * @property {RetryPolicy} retryPolicy The attempts to start a run.
 * @property {boolean} dedupEnabled Always true: a repeated occurrence never starts a second run.
 * @property {"active" | "paused" | "failed" | "dead-lettered"} state The state of the trigger.
 * @property {"retry-exhausted" | "operator-paused" | "operator-resumed" | "source-removed" | "circuit-opened" | "circuit-closed" | "key-revoked" | "key-expired" | "provenance-unevaluable" | "secret-rotated"} [reason] The reason for which the trigger is not active.
 * @property {string} createdBy The principal that created the trigger. It is a requester of the runs.
 * @property {WebhookOwner} [owner] The principal that created the trigger or resumed it last, and its key. The runs start with its rights.
 * @property {Instant} [nextFireAt] The next instant of an active schedule.
 * @property {string} [lastRunId] The last run that the trigger started.
 * @property {Instant} createdAt The instant of the creation.
 * @property {Instant} updatedAt The instant of the last change.
 */

/**
 * The schedule of a trigger.
 * @typedef {Object} TriggerSchedule
 * @property {string} cron The cron expression.
 * @property {string} timeZone The name of the time zone.
 * @property {"skip" | "last" | "all"} missed The treatment of missed instants.
 * @property {"allow" | "skip" | "queue"} overlap The treatment of an instant while an earlier run has not ended.
 */

/**
 * The events of a trigger.
 * @typedef {Object} TriggerEvents
 * @property {string} eventType The type of the events.
 * @property {Object<string, any>} correlation Members that the correlation of an event must have.
 * @property {Object<string, any>} payload Values that the payload of an event must have, by JSON Pointer.
 */

/**
 * Options of the dispatches of the runs of a trigger.
 * @typedef {Object} TriggerDispatch
 * @property {number} [priority] The priority; 0 is claimed first.
 * @property {number} [maxAttempts] The number of failed attempts after which a dispatch is a dead letter.
 */

/**
 * A page of triggers, oldest first.
 * @typedef {Object} TriggerList
 * @property {Trigger[]} triggers The triggers of this page.
 * @property {string} [nextCursor] The cursor of the next page. Absent on the last page.
 */

/**
 * The next instants of a schedule.
 * @typedef {Object} TriggerPreview
 * @property {Instant[]} instants The instants, in their order.
 */

/**
 * A page of the deliveries of a trigger, newest first.
 * @typedef {Object} TriggerDeliveryList
 * @property {TriggerDelivery[]} deliveries The deliveries of this page.
 * @property {string} [nextCursor] The cursor of the next page. Absent on the last page.
 */

/**
 * An occurrence of a trigger: an instant of its schedule, or an event.
 * @typedef {Object} TriggerDelivery
 * @property {string} deliveryId The id of the delivery. It is the causationId of the run.
 * @property {string} subscriptionId The id of the trigger.
 * @property {"queued" | "in-flight" | "delivered" | "dead-lettered" | "dropped"} state The state of the delivery.
 * @property {string} runId The run of the delivery. It exists once the delivery is delivered.
 * @property {number} attempt The number of attempts.
 * @property {string} dedupKey A text that is the same for the same occurrence.
 * @property {string} [sentBy] The principal that sent the event.
 * @property {string} [error] The error of the last attempt, or the reason why no run started.
 * @property {Instant} createdAt The instant of the creation.
 * @property {Instant} [nextAttemptAt] The instant of the next attempt.
 * @property {Instant} [endedAt] The instant at which the delivery ended.
 */

/**
 * The agents of a tenant, by id.
 * @typedef {Object} AgentList
 * @property {ListedAgent[]} agents The agents of this page.
 * @property {string} [nextCursor] The cursor of the next page. Absent on the last page.
 */

/**
 * An agent in a list.
 * @typedef {Object} ListedAgent
 * @property {string} agentId The id of the agent.
 * @property {string} name The name of the agent.
 * @property {number} revision The number of the revision, from 1.
 * @property {Instant} updatedAt The instant of the latest revision.
 */

/**
 * The latest revision of an agent.
 * @typedef {Object} Agent
 * @property {string} agentId The id of the agent.
 * @property {number} revision The number of the revision, from 1.
 * @property {Instant} updatedAt The instant of this revision.
 * @property {Object<string, any>} definition The definition as it was registered.
 */

/**
 * A registered agent.
 * @typedef {Object} AgentRegistered
 * @property {string} agentId The id of the agent.
 * @property {number} revision The number of the revision, from 1.
 */

/**
 * The run that has accepted a message.
 * @typedef {Object} MessageAccepted
 * @property {string} runId The id of the run.
 * @property {string} threadId The id of the thread.
 * @property {RunStatus} status The status of the run.
 */

/**
 * A decision that the run has received.
 * @typedef {Object} CallDecided
 * @property {string} runId The id of the run.
 * @property {string} threadId The id of the thread.
 * @property {string} decisionId The id of the decision.
 * @property {RunStatus} status The status of the run.
 * @property {AnswerOutcome} outcome The effect of the decision.
 * @property {string | null} ticketId The id of the ticket.
 * @property {string | null} toolCallId The id of the tool call.
 */

/**
 * The reason for which a run waits, with the calls that wait for a decision.
 * @typedef {Object} RunWaitingState
 * @property {"user_input" | "tool_permission" | "external_event" | "manual_pause"} reason The reason for which the run waits.
 * @property {string[]} ticketIds The ids of the tickets.
 * @property {ToolTicket[]} tickets The tool calls that wait.
 * @property {string} [message] The text of the open interrupt, if it has one.
 * @property {string} [sinceDispatchId] The dispatch in which the run began to wait, as long as it is stored.
 */

/**
 * A tool call that waits for a decision, or whose decision is not executed yet.
 * @typedef {Object} ToolTicket
 * @property {string} ticketId The id of the ticket.
 * @property {string} toolCallId The id of the tool call.
 * @property {string} toolName The name of the tool.
 * @property {any} arguments The arguments of the call.
 * @property {"replay_tool_call" | "use_decision_as_tool_result" | "pass_decision_to_tool"} resumeMode The effect of the decision on the call.
 * @property {string} reason The reason for which the call waits.
 * @property {string} message The text that the approver is shown.
 * @property {any} [responseSchema] The JSON Schema of the result.
 * @property {Instant} [expiresAt] The deadline of the decision.
 * @property {"suspended" | "resuming"} status The state of the call.
 * @property {TicketDecision} [decision] The decision, if there is one.
 */

/**
 * The decision about a call. It has no author if the deadline passed.
 * @typedef {Object} TicketDecision
 * @property {string} [decisionId] The id of the decision.
 * @property {string} [decidedBy] The principal that decided.
 * @property {Instant} decidedAt The instant of the decision.
 * @property {boolean} timedOut True if the deadline passed without a decision.
 */

/**
 * A page of the messages of a thread, the oldest first.
 * @typedef {Object} MessageList
 * @property {Message[]} messages The messages of this page.
 * @property {string} [nextCursor] The cursor of the next page. Absent on the last page.
 */

/**
 * A message and its position in its thread.
 * @typedef {Object} Message
 * @property {string} id The id of the message.
 * @property {"system" | "user" | "assistant" | "tool"} role The author of the message.
 * @property {any} [content] A text or a list of parts. In a message of a tool: the result of the call.
 * @property {MessageCall[]} [calls] The tool calls of a message of the model.
 * @property {string} [callId] The call whose result this message of a tool is.
 * @property {string} [after] The last message that the model had seen when it sent this message.
 * @property {string} [by] The principal that sent the message.
 * @property {"user" | "a2a" | "internal"} [origin] The origin of the request that sent the message. Missing in messages of models, tools and earlier versions.
 * @property {Transport} [transport] The protocol of that request. Missing like the origin.
 * @property {Object<string, any>} [metadata] Metadata of the client.
 * @property {string} runId The id of the run.
 * @property {number} seq The sequence of the event that recorded the message.
 * @property {Instant} at The instant of the message.
 * @property {string} cursor The position of the message in the thread, for the parameter after.
 */

/**
 * A tool call in a message of an agent.
 * @typedef {Object} MessageCall
 * @property {string} id The id of the call.
 * @property {string} name The name of the tool.
 * @property {any} arguments The arguments of the call.
 */

/**
 * The result of the interruption of a thread.
 * @typedef {Object} ThreadInterrupted
 * @property {number} epoch The new epoch of the dispatch thread. Older dispatches are invalid.
 * @property {number} supersededCount The number of queued dispatches that were superseded.
 * @property {string} [activeDispatchId] The dispatch that a worker had claimed.
 * @property {string} [cancelledRunId] The run that was cancelled.
 * @property {boolean} nothingToInterrupt True if the thread had no open run and no queued dispatch.
 */

/**
 * A page of the runs of a thread, the newest first.
 * @typedef {Object} ThreadRuns
 * @property {ThreadRun[]} runs The runs of this page.
 * @property {string} [nextCursor] The cursor of the next page. Absent on the last page.
 */

/**
 * A run of a thread.
 * @typedef {Object} ThreadRun
 * @property {string} runId The id of the run.
 * @property {string} threadId The id of the thread.
 * @property {string | null} agentId The id of the agent. Null for a run of a workflow.
 * @property {RunStatus} status The status of the run.
 * @property {Instant} createdAt The instant of the start.
 * @property {Instant} updatedAt The instant of the last change.
 * @property {string} [errorCode] The code of the error of a failed run.
 * @property {"timed_out"} [outcome] timed_out: the run failed because a deadline passed without an answer.
 */

/**
 * A run of a thread, with its suspended calls and its waiting state.
 * @typedef {Object} ThreadRunNow
 * @property {string} runId The id of the run.
 * @property {string} threadId The id of the thread.
 * @property {string | null} agentId The id of the agent. Null for a run of a workflow.
 * @property {RunStatus} status The status of the run.
 * @property {Instant} createdAt The instant of the start.
 * @property {Instant} updatedAt The instant of the last change.
 * @property {string} [errorCode] The code of the error of a failed run.
 * @property {"timed_out"} [outcome] timed_out: the run failed because a deadline passed without an answer.
 * @property {ToolTicket[]} tickets The tool calls that wait for a decision, or whose decision is not executed yet.
 * @property {RunWaitingState} [waiting] The waiting state. Absent if the run does not wait.
 * @property {number} steps The number of model replies in the run.
 * @property {TokenUsage} usage The tokens that the run used.
 */

/**
 * The tokens that calls of models used.
 * @typedef {Object} TokenUsage
 * @property {number} inputTokens The tokens that the models read.
 * @property {number} outputTokens The tokens that the models wrote.
 */

/**
 * A server-sent event of AG-UI 1.0. Its data is JSON with a type.
 * @typedef {Object} AgUiStream
 * @property {string} [data] The event as JSON.
 */

/**
 * The capabilities of an agent.
 * @typedef {Object} AgUiCapabilities
 * @property {AgUiIdentity} identity The name and the version.
 * @property {AgUiTransport} transport The transports.
 * @property {AgUiTools} tools The tool calls.
 * @property {AgUiOutput} output The output.
 * @property {AgUiState} state The shared state.
 * @property {AgUiMultiAgent} multiAgent The other agents that can take part in a run.
 * @property {AgUiReasoning} reasoning The reasoning that the agent sends.
 * @property {AgUiMultimodal} multimodal The content that the agent accepts beside texts.
 * @property {AgUiHumanInTheLoop} humanInTheLoop The forms of human participation.
 * @property {AgUiCustom} custom Capabilities beyond those of the protocol.
 */

/**
 * The name and the version of an agent.
 * @typedef {Object} AgUiIdentity
 * @property {string} name The name of the agent.
 * @property {string} type `agent` or `workflow`.
 * @property {string} provider The name of the server software.
 * @property {string} version The version of the server.
 * @property {string} [description] The description of the agent.
 */

/**
 * The transports of an agent.
 * @typedef {Object} AgUiTransport
 * @property {boolean} streaming True if events are streamed.
 * @property {boolean} websocket True if WebSocket is supported.
 * @property {boolean} httpBinary True if the binary format is supported.
 * @property {boolean} pushNotifications True if push notifications are supported.
 * @property {boolean} resumable True if a client can continue a stream after a lost connection.
 */

/**
 * The tool calls that an agent can make.
 * @typedef {Object} AgUiTools
 * @property {boolean} supported True if the agent calls tools.
 * @property {boolean} parallelCalls True if one message can have several calls.
 * @property {boolean} clientProvided True if the client can provide tools.
 */

/**
 * The output of an agent.
 * @typedef {Object} AgUiOutput
 * @property {boolean} structuredOutput True if the output can follow a schema.
 */

/**
 * The state that an agent shares with a front end.
 * @typedef {Object} AgUiState
 * @property {boolean} snapshots True if snapshots of the state are sent.
 * @property {boolean} deltas True if changes of the state are sent.
 * @property {boolean} memory True if the agent has a memory beyond the thread.
 * @property {boolean} persistentState True if the state survives a restart.
 */

/**
 * The other agents that can take part in a run of an agent.
 * @typedef {Object} AgUiMultiAgent
 * @property {boolean} supported True if other agents or workflows can take part.
 * @property {boolean} delegation True if the agent delegates tasks and gets their results.
 * @property {boolean} handoffs True if the agent transfers the conversation to another agent.
 */

/**
 * The reasoning that an agent sends.
 * @typedef {Object} AgUiReasoning
 * @property {boolean} supported True if the definition of the agent shows the reasoning of its model.
 * @property {boolean} streaming True if it is sent while the model writes it.
 */

/**
 * The content that an agent accepts beside texts.
 * @typedef {Object} AgUiMultimodal
 * @property {AgUiMultimodalInput} input The content of messages of the user.
 */

/**
 * The content that an agent accepts in messages of the user.
 * @typedef {Object} AgUiMultimodalInput
 * @property {boolean} image True if the model accepts images.
 * @property {boolean} audio True if the model accepts audio.
 * @property {boolean} video True if the model accepts video.
 * @property {boolean} pdf True if the model accepts PDF documents.
 * @property {boolean} file True if the model accepts other files.
 */

/**
 * The forms of human participation in a run.
 * @typedef {Object} AgUiHumanInTheLoop
 * @property {boolean} supported True if people can take part in a run.
 * @property {boolean} approvals True if tool calls can wait for approval.
 * @property {boolean} interventions True if a user can intervene in a run.
 * @property {boolean} feedback True if a user can give feedback.
 * @property {boolean} interrupts True if a run can wait for answers.
 * @property {boolean} approveWithEdits True if a user can edit a call and approve it.
 */

/**
 * Capabilities beyond those of the protocol.
 * @typedef {Object} AgUiCustom
 * @property {AgUiHoldpoint} holdpoint Capabilities of Holdpoint.
 */

/**
 * The version of the protocol, and the id of the agent.
 * @typedef {Object} AgUiHoldpoint
 * @property {string} protocolVersion The version of AG-UI.
 * @property {string} agentId The id of the agent.
 */

/**
 * The state of a thread.
 * @typedef {Object} AgUiThread
 * @property {string} threadId The id of the thread.
 * @property {string} runId The latest run of the thread.
 * @property {RunStatus} status The status of that run.
 * @property {boolean} running True if the stream of the thread has further events.
 * @property {Object<string, any>} state The state that the agent shares with front ends.
 * @property {AgUiMessage[]} messages The messages of the thread.
 * @property {AgUiInterrupt[]} interrupts The open interrupts.
 * @property {string[]} pendingToolCallIds Calls of the tools of the client that have no result.
 */

/**
 * A message of a thread.
 * @typedef {{ role: "developer", id: string, content: string } | { role: "system", id: string, content: string } | { role: "user", id: string, content: any } | { role: "assistant", id: string, content?: string, toolCalls?: AgUiToolCall[] } | { role: "reasoning", id: string, content: string, encryptedValue?: string } | { role: "tool", id: string, toolCallId: string, content: any }} AgUiMessage
 */

/**
 * A tool call in a message of an agent.
 * @typedef {Object} AgUiToolCall
 * @property {string} id The id of the call.
 * @property {string} type The type of the call; always `function`.
 * @property {AgUiFunction} function The tool and its arguments.
 */

/**
 * The tool and the arguments of a call.
 * @typedef {Object} AgUiFunction
 * @property {string} name The name of the tool.
 * @property {string} arguments The arguments as JSON text.
 */

/**
 * An open interrupt.
 * @typedef {Object} AgUiInterrupt
 * @property {string} id The id of the interrupt.
 * @property {string} reason The reason of the interrupt.
 * @property {string} [message] The text that the user is shown.
 * @property {string} [toolCallId] The tool call that the interrupt is about.
 * @property {Object<string, any>} [responseSchema] The JSON Schema of the payload. Always an object, because clients do not accept `true` as a schema.
 * @property {Instant} [expiresAt] The deadline of the interrupt.
 * @property {AgUiInterruptMetadata} [metadata] Data beyond that of the protocol.
 * @property {string} [subagentRunId] The subagent that waits: a child run of the run of the thread, or a run below it.
 */

/**
 * Data of an interrupt beyond that of the protocol.
 * @typedef {Object} AgUiInterruptMetadata
 * @property {AgUiInterruptFacts} holdpoint The interrupt as the server has it.
 */

/**
 * The interrupt as the server has it.
 * @typedef {Object} AgUiInterruptFacts
 * @property {InterruptKind} kind The kind of the interrupt.
 * @property {string} runId The run that waits.
 * @property {string} nodeId The node that waits.
 * @property {string} [digest] The digest of the data that is shown.
 * @property {any} [title] The title, as the data of the interrupt has it.
 * @property {any} [toolCall] The tool call that the interrupt is about.
 * @property {any} [artifact] The artifact that the interrupt is about.
 * @property {any} [data] The data of an interrupt of the kind custom.
 * @property {number} [requiredApprovals] The number of approvals, if more than one is required.
 * @property {number} [votes] The number of votes, if more than one approval is required.
 */

/**
 * The outcome of a start or of an answer.
 * @typedef {Object} ChatOutcome
 * @property {"completed" | "needs_input" | "error" | "running"} outcome The state of the graph.
 * @property {string} stateKey The key of the graph.
 * @property {any} [output] The output of a graph that is completed.
 * @property {ChatInterrupt} [interrupt] The interrupt of a graph that needs input.
 * @property {ChatError} [error] The error of a graph that failed, or of an answer that it did not accept.
 */

/**
 * The open interrupt of a graph.
 * @typedef {Object} ChatInterrupt
 * @property {string} kind The kind of the interrupt.
 * @property {any} data The data of the interrupt.
 */

/**
 * The error of a graph.
 * @typedef {Object} ChatError
 * @property {string} code The error code.
 * @property {string} message The error message.
 * @property {boolean} retryable True if the same answer with a new resumeId may be accepted.
 */

/**
 * A server-sent event. While the graph works: `progress` with a ChatProgress as data, `content` and `reasoning` with a ChatDelta, `message` with a ChatMessage, `tool_call` with a ChatToolCall, `tool_result` with a ChatToolResult, `usage` with a ChatUsage. Then one `outcome` with a ChatOutcome.
 * @typedef {Object} ChatStream
 * @property {string} [event] The name of the event.
 * @property {string} [data] The data of the event as JSON.
 */

/**
 * A graph with its current outcome.
 * @typedef {Object} ChatStanding
 * @property {"completed" | "needs_input" | "error" | "running"} outcome The state of the graph.
 * @property {string} stateKey The key of the graph.
 * @property {any} [output] The output of a graph that is completed.
 * @property {ChatInterrupt} [interrupt] The interrupt of a graph that needs input.
 * @property {ChatError} [error] The error of a graph that failed, or of an answer that it did not accept.
 * @property {string} graph The name of the graph.
 * @property {string} createdAt The instant of the start.
 * @property {string} expiresAt The instant after which the state is removed.
 * @property {Object<string, any>} [lastError] The reason for which the graph did not accept the last answer.
 */

/**
 * A page of the turns of a graph, the newest first.
 * @typedef {Object} ChatHistory
 * @property {string} stateKey The key of the graph.
 * @property {ChatTurn[]} turns The turns.
 * @property {string} [nextCursor] The cursor of the next page. Absent on the last page.
 */

/**
 * A turn of a graph.
 * @typedef {Object} ChatTurn
 * @property {string} runId The run of the turn.
 * @property {string} [turnId] The caller's id of the turn. Missing if the request had none.
 * @property {any} input The input of the turn.
 * @property {ChatOutcome} outcome The current outcome of the turn.
 * @property {ChatTurnInterrupt[]} interrupts The interrupts of the turn, in the order of their requests.
 * @property {string} startedAt The instant of the start.
 * @property {string} [endedAt] The instant of the end. Missing while the turn has not ended.
 */

/**
 * An interrupt of a turn.
 * @typedef {Object} ChatTurnInterrupt
 * @property {string} kind The kind of the interrupt.
 * @property {any} data The data of the interrupt.
 * @property {string} requestedAt The instant of the request.
 * @property {ChatTurnAnswer} [answer] The answer that closed the interrupt. Missing if there is none.
 * @property {boolean} timedOut True if no answer arrived before the deadline of the interrupt.
 */

/**
 * The answer to an interrupt of a turn.
 * @typedef {Object} ChatTurnAnswer
 * @property {any} value The answer as it was recorded.
 * @property {string} by The principal that answered.
 * @property {string} at The instant of the answer.
 * @property {string} [resumeId] The resumeId of the answer. Missing if it was sent over another protocol.
 */

/**
 * A decision that permits effects, with the effects that used it.
 * @typedef {Object} Grant
 * @property {string} grantId The id of the grant.
 * @property {string} runId The id of the run.
 * @property {string} nodeId The node of the interrupt.
 * @property {string} interruptId The interrupt whose decision created the grant.
 * @property {number} visit The visit of the node, from 1. A loop visits a node several times.
 * @property {string} [callId] The tool call that was allowed.
 * @property {string[]} deciders The principals that approved.
 * @property {Instant} [decidedAt] The instant of the decision.
 * @property {string} digest The digest of the payload that was granted.
 * @property {string} [shownDigest] The digest of all data that the approver was shown.
 * @property {any} [covers] The nodes that the gate covers. Absent if the gate covers every effect that it leads to.
 * @property {boolean} transferred True if the run is a fork and its source received the decision: the fork cannot use the grant.
 * @property {GrantUse[]} uses The uses by nodes of the run.
 * @property {GrantConsumed} [consumed] The use by a client, for an effect outside of Holdpoint.
 */

/**
 * The use of a grant by a node.
 * @typedef {Object} GrantUse
 * @property {string} nodeId The node that performed the effect.
 * @property {number} visit The visit of the node, from 1.
 * @property {string} [callId] The tool call of an agent.
 * @property {Instant} at The instant of the use.
 */

/**
 * The use of a grant by a client.
 * @typedef {Object} GrantConsumed
 * @property {string} by The principal of the client.
 * @property {Instant} at The instant of the use.
 */

/**
 * The gates of a workflow with the effects that each permits.
 * @typedef {Object} WorkflowGrants
 * @property {string} workflowId The id of the workflow.
 * @property {number} revision The number of the revision, from 1.
 * @property {Gate[]} gates The gates.
 * @property {GrantNote[]} notes Warnings about nodes.
 */

/**
 * A gate with the effects that it permits.
 * @typedef {Object} Gate
 * @property {string} nodeId The node of the gate.
 * @property {Permit[]} permits The effects that the gate permits.
 */

/**
 * A warning about a node and its gates.
 * @typedef {Object} GrantNote
 * @property {string} nodeId The id of the node.
 * @property {string} message The warning.
 */

/**
 * A hold, with its answer if it has one.
 * @typedef {Object} Hold
 * @property {string} holdId The id of the hold, which is also the id of its run.
 * @property {string} title The title of the hold.
 * @property {HoldStatus} status The status of the hold.
 * @property {Instant} createdAt The instant of the creation.
 * @property {Instant} [expiresAt] The instant at which the hold times out.
 * @property {Instant} [answeredAt] The instant of the answer.
 * @property {any} [answer] The choice, or the value that matches the schema. The answer to an approval is an object with action, feedback, decidedBy and decidedAt.
 * @property {string} [answeredBy] The principal that answered.
 * @property {string} [grantId] The grant of an approval: see GET /v1/grants/{grantId}.
 * @property {Via} [via] The credential of the answer.
 * @property {boolean} requesterMayNotApprove If true, the principal that created the hold may not answer it.
 * @property {number} [requiredApprovals] The number of required approvals.
 * @property {string} [profile] The interrupt profile.
 * @property {string} runUrl The path of the run of the hold.
 * @property {string} pageUrl The page on which a person answers: a path, or a URL if the server has a public one.
 * @property {string[]} [warnings] Only in the response that creates the hold: approvers that no key of this tenant matches.
 */

/**
 * The state of a hold.
 * @typedef {"waiting" | "approved" | "rejected" | "answered" | "timed_out" | "cancelled"} HoldStatus
 */

/**
 * A page of dispatches in the order in which they are served.
 * @typedef {Object} DispatchList
 * @property {Dispatch[]} dispatches The dispatches of this page.
 * @property {string} [nextCursor] The cursor of the next page. Absent on the last page.
 */

/**
 * A dispatch with the state of its run.
 * @typedef {Object} Dispatch
 * @property {string} dispatchId The id of the dispatch.
 * @property {string} threadId The dispatch thread. One dispatch of a thread is claimed at a time.
 * @property {string} runId The run to activate.
 * @property {"queued" | "claimed" | "acked" | "cancelled" | "superseded" | "dead_letter"} status The state of the dispatch in its queue.
 * @property {number} priority The priority; 0 is claimed first.
 * @property {string} [dedupeKey] The deduplication key. The thread rejects another dispatch with this key while this one is queued or claimed.
 * @property {number} dispatchEpoch The epoch of the thread when the dispatch was enqueued.
 * @property {Instant} availableAt The instant from which the dispatch can be claimed.
 * @property {number} attemptCount The number of failed attempts.
 * @property {number} maxAttempts The number of failed attempts after which the dispatch is a dead letter.
 * @property {string} [lastError] The error of the last attempt.
 * @property {string} [claimedBy] The worker that has the claim.
 * @property {Instant} [leaseUntil] The end of the lease.
 * @property {Instant} createdAt The instant of the creation.
 * @property {Instant} updatedAt The instant of the last change.
 * @property {DispatchProjection} projection The result of the activation.
 * @property {DispatchRun | null} run The run as it is now. Null if this server has no such run.
 */

/**
 * The result of the activation of the run. Members without a value are null.
 * @typedef {Object} DispatchProjection
 * @property {string | null} runStatus The status of the run after the activation.
 * @property {any} termination The reason for which the run ended.
 * @property {string | null} response The response of the run.
 * @property {string | null} error The error of the run.
 * @property {string | null} instanceId The id of the attempt.
 * @property {Instant | null} completedAt The instant at which the dispatch ended.
 */

/**
 * The run of a dispatch.
 * @typedef {Object} DispatchRun
 * @property {string} runId The id of the run.
 * @property {string} workflowId The id of the workflow.
 * @property {string} status The status of the run.
 * @property {string} statusUrl The path of the run.
 */

/**
 * A dispatch without the state of its run: the response to a change is the same when the request is sent again later.
 * @typedef {Object} DispatchChanged
 * @property {string} dispatchId The id of the dispatch.
 * @property {string} threadId The dispatch thread. One dispatch of a thread is claimed at a time.
 * @property {string} runId The run to activate.
 * @property {"queued" | "claimed" | "acked" | "cancelled" | "superseded" | "dead_letter"} status The state of the dispatch in its queue.
 * @property {number} priority The priority; 0 is claimed first.
 * @property {string} [dedupeKey] The deduplication key. The thread rejects another dispatch with this key while this one is queued or claimed.
 * @property {number} dispatchEpoch The epoch of the thread when the dispatch was enqueued.
 * @property {Instant} availableAt The instant from which the dispatch can be claimed.
 * @property {number} attemptCount The number of failed attempts.
 * @property {number} maxAttempts The number of failed attempts after which the dispatch is a dead letter.
 * @property {string} [lastError] The error of the last attempt.
 * @property {string} [claimedBy] The worker that has the claim.
 * @property {Instant} [leaseUntil] The end of the lease.
 * @property {Instant} createdAt The instant of the creation.
 * @property {Instant} updatedAt The instant of the last change.
 * @property {DispatchProjection} projection The result of the activation.
 */

/**
 * Statistics of the mailbox.
 * @typedef {Object} MailboxStats
 * @property {DispatchCounts} counts The number of dispatches of the tenant in each status.
 * @property {Instant} [nextWakeupAt] The next instant at which a dispatch of the database becomes due. Only for callers with the scope tenants:manage.
 */

/**
 * The number of dispatches in each status.
 * @typedef {Object} DispatchCounts
 * @property {number} queued Dispatches that wait for a worker.
 * @property {number} claimed Dispatches that a worker has claimed.
 * @property {number} acked Dispatches that were executed.
 * @property {number} cancelled Dispatches that were cancelled.
 * @property {number} superseded Dispatches that an interruption of their thread superseded.
 * @property {number} dead_letter Dispatches that are not tried again automatically.
 */

/**
 * A new API key.
 * @typedef {Object} KeyCreated
 * @property {string} keyId The id of the key.
 * @property {string} lineage The id of the first key in a chain of rotations. Links become invalid when their lineage has no active key.
 * @property {string} tenant The tenant of the key.
 * @property {string} principal The principal that the key stands for.
 * @property {string[]} roles The roles of the principal.
 * @property {string[]} groups The groups of the principal.
 * @property {string[]} scopes The scopes of the key.
 * @property {boolean} test True for a test key. A tenant has either test keys or live keys.
 * @property {Instant} createdAt The instant of the creation.
 * @property {Instant} [expiresAt] The instant of the expiry.
 * @property {Instant} [revokedAt] The instant of the revocation.
 * @property {string} [key] The key itself. Shown once: not when the request is sent again under its Idempotency-Key.
 */

/**
 * The keys of a tenant.
 * @typedef {Object} KeyList
 * @property {Key[]} keys The keys, without their secrets.
 */

/**
 * An API key without its secret.
 * @typedef {Object} Key
 * @property {string} keyId The id of the key.
 * @property {string} lineage The id of the first key in a chain of rotations. Links become invalid when their lineage has no active key.
 * @property {string} tenant The tenant of the key.
 * @property {string} principal The principal that the key stands for.
 * @property {string[]} roles The roles of the principal.
 * @property {string[]} groups The groups of the principal.
 * @property {string[]} scopes The scopes of the key.
 * @property {boolean} test True for a test key. A tenant has either test keys or live keys.
 * @property {Instant} createdAt The instant of the creation.
 * @property {Instant} [expiresAt] The instant of the expiry.
 * @property {Instant} [revokedAt] The instant of the revocation.
 */

/**
 * The secrets that sign links.
 * @typedef {Object} SecretList
 * @property {Secret[]} secrets The secrets, without their values.
 */

/**
 * The id and the times of a secret that signs links. The secret itself is never shown.
 * @typedef {Object} Secret
 * @property {string} kid The id of the secret.
 * @property {Instant} createdAt The instant of the creation.
 * @property {Instant} [retiredAt] The instant from which the secret signs no new links.
 */

/**
 * The quotas of a tenant and its use of them.
 * @typedef {Object} Usage
 * @property {Quota} openRuns Runs that have not ended.
 * @property {Quota} storedBytes Bytes of the events of all runs.
 * @property {Quota} definitions Stored revisions of workflows and agents.
 * @property {Quota} deliveries Durable deliveries that have not ended, counted up to the limit.
 * @property {Quota} streams Streams and long polls that are open at this node.
 * @property {UsageLimit} familyRuns Runs that one run starts, directly or through its child runs.
 * @property {UsageLimit} forkBytes Bytes of the events of a run that is forked.
 * @property {Quota} tokensPerDay Tokens that models have used on this UTC day.
 */

/**
 * A limit of a tenant with its use.
 * @typedef {Object} Quota
 * @property {number} used The current use.
 * @property {number | null} limit The limit. Null if there is none.
 */

/**
 * A limit of a single run or request.
 * @typedef {Object} UsageLimit
 * @property {number | null} limit The limit. Null if there is none.
 */

/**
 * The state of the server.
 * @typedef {Object} Health
 * @property {"ok" | "ready"} status The state of the server.
 */

/**
 * The caller, and its session if it has one.
 * @typedef {Object} Session
 * @property {string} principal The principal of the caller.
 * @property {string} tenant The tenant of the caller.
 * @property {string[]} roles The roles of the principal.
 * @property {string[]} groups The groups of the principal.
 * @property {string[]} scopes The scopes of the caller.
 * @property {boolean} test True if the caller has a test key.
 * @property {string} [sessionId] The id of the session. Absent for a caller with a key.
 * @property {Instant} [expiresAt] The expiry of the session, which is extended while the session is used. For a caller with a key: the expiry of the key.
 */

/**
 * A sign-in link, which works once.
 * @typedef {Object} SessionLink
 * @property {string} url The URL of the link. Shown once; works once.
 * @property {Instant} expiresAt The expiry of the link.
 */

/**
 * The sessions of a key.
 * @typedef {Object} SessionList
 * @property {ListedSession[]} sessions The sessions.
 */

/**
 * An entry in the list of sessions.
 * @typedef {Object} ListedSession
 * @property {string} sessionId The id of the session.
 * @property {Instant} createdAt The instant of the sign-in.
 * @property {Instant} usedAt The instant of the last use.
 * @property {Instant} expiresAt The expiry of the session.
 * @property {boolean} current True for the session of this request.
 */

/**
 * An OpenAPI 3.1 document.
 * @typedef {Object} OpenApi
 * @property {string} openapi The version of OpenAPI.
 * @property {Object<string, any>} info The title and the version of the API.
 * @property {Object<string, any>} paths The paths with their operations.
 */

/**
 * The payload of an event. The type of the event determines the type of the payload.
 * @typedef {RunStarted | RunCompleted | RunFailed | RunCancelled | PauseRequested | RunPausedPayload | RunResumedPayload | CapBreached | ReplayDiverged | NodeStarted | NodeCompleted | NodeFailed | NodeSkipped | NodeRetried | NodeDelayed | NodeDispatched | NodeAwaiting | ChildChanged | SleepStarted | SleepEnded | StepRecorded | VariableChanged | ChannelWritten | MessageChunk | ReasoningChunk | ToolCallChunk | ActivityReported | ArtifactCreated | LoopbackLimit | LoopTurned | NodeSuspended | NodeResumed | InterruptRequested | ApprovalRequested | ClarificationRequested | InterruptResolvedPayload | ApprovalReceived | ClarificationResolved | AuthorizationDecided | GateDecided | VoteCast | VoteRepeated | AskRaised | AskAnsweredPayload | AgentDecided | ConversationOpened | ConversationExchanged | ConversationClosed | MessageAdded | ModelReplied | ToolCalled | ToolSuspended | ToolBegun | ToolReturned | any} EventPayload
 */

/**
 * The payload of `run.started`. It has no inputs, because callers put secrets into them.
 * @typedef {Object} RunStarted
 * @property {string} [engineVersion] The version of the engine that started the run, as text. The snapshot has it as a number.
 * @property {Object<string, any>} [metadata] The metadata of the run.
 * @property {"user" | "a2a" | "internal"} [origin] The origin of the request that started the run. Missing in runs of versions that did not record it.
 * @property {RunOwner} owner The tenant and principal to which the run belongs.
 * @property {string[]} [tags] The tags of the run.
 * @property {EventTransport} transport The protocol of the request that started the run; `rest` in runs of versions that did not record it. The snapshot of the run has the exact protocol.
 * @property {string} workflowId The id of the workflow.
 */

/**
 * The value of `transport` in the event `run.started`. OpenWOP defines it.
 * @typedef {"rest" | "ui"} EventTransport
 */

/**
 * The payload of `run.completed`.
 * @typedef {Object} RunCompleted
 * @property {number} durationMs The time since the start of the run, in milliseconds.
 * @property {Object<string, any>} [outputs] The outputs of the run, by name.
 */

/**
 * The payload of `run.failed`.
 * @typedef {Object} RunFailed
 * @property {number} durationMs The time since the start of the run, in milliseconds.
 * @property {RunError} error The error of the run.
 * @property {string} [failedNodeId] The node that failed.
 */

/**
 * The payload of `run.cancelled`.
 * @typedef {Object} RunCancelled
 * @property {string} cancelledBy The principal that cancelled the run.
 * @property {number} durationMs The time since the start of the run, in milliseconds.
 * @property {string} [parentRunId] The run whose cancellation cancelled this one.
 * @property {string} [reason] The reason of the cancellation.
 */

/**
 * The payload of `holdpoint.pause.requested`.
 * @typedef {Object} PauseRequested
 * @property {DrainPolicy} drainPolicy The treatment of running nodes.
 * @property {string} [reason] The reason of the pause.
 * @property {string} requestedBy The principal that requested the pause.
 */

/**
 * The payload of `run.paused`.
 * @typedef {Object} RunPausedPayload
 * @property {DrainPolicy} drainPolicy The treatment of running nodes.
 * @property {string} pausedBy The principal that paused the run.
 * @property {string} [reason] The reason of the pause.
 */

/**
 * The payload of `run.resumed`.
 * @typedef {Object} RunResumedPayload
 * @property {string} resumedBy The principal that resumed the run.
 */

/**
 * The payload of `cap.breached`.
 * @typedef {Object} CapBreached
 * @property {Cap} kind The limit that was exceeded.
 * @property {number} limit The value of the limit.
 * @property {string} [nodeId] The node that exceeded the limit.
 * @property {number} observed The observed value.
 */

/**
 * A limit of a run.
 * @typedef {"node-executions" | "run-duration" | "loop-iterations"} Cap
 */

/**
 * The payload of `replay.diverged`.
 * @typedef {Object} ReplayDiverged
 * @property {number} atSequence The sequence of the first event that differs.
 * @property {string} divergenceKind The kind of the difference.
 * @property {DivergencePoint} divergencePoint The events that differ.
 * @property {string} originalEventId The id of the event of the source.
 * @property {string} sourceRunId The run that is replayed.
 */

/**
 * The event of the source and the event of the replay.
 * @typedef {Object} DivergencePoint
 * @property {string} expected The type of the event of the source.
 * @property {string} found The type of the event of the replay.
 */

/**
 * The payload of `node.started`.
 * @typedef {Object} NodeStarted
 * @property {number} attempt Always 0: a retry does not start the node again.
 * @property {string} [grant] `none` if the node needs no grant.
 * @property {string[]} [grantIds] The grants that the node uses.
 * @property {string} nodeId The id of the node.
 * @property {string} typeId The type of the node.
 */

/**
 * The payload of `node.completed`.
 * @typedef {Object} NodeCompleted
 * @property {number} [durationMs] The time since the start of the node, in milliseconds.
 * @property {string} nodeId The id of the node.
 * @property {Object<string, any>} outputs The outputs, by name.
 */

/**
 * The payload of `node.failed`.
 * @typedef {Object} NodeFailed
 * @property {RunError} error The error of the node.
 * @property {string} nodeId The id of the node.
 */

/**
 * The payload of `node.skipped`.
 * @typedef {Object} NodeSkipped
 * @property {string} nodeId The id of the node.
 * @property {string} reason The reason for which the node is skipped.
 */

/**
 * The payload of `node.retried`.
 * @typedef {Object} NodeRetried
 * @property {number} attempt The number of the next attempt.
 * @property {number} delayMs The delay before the next attempt, in milliseconds.
 * @property {RunError} lastError The error of the last attempt.
 * @property {string} nodeId The id of the node.
 */

/**
 * The payload of `holdpoint.node.delayed`.
 * @typedef {Object} NodeDelayed
 * @property {RunError} error The error of the last attempt.
 * @property {string} nodeId The id of the node.
 * @property {Instant} [until] The end of the retries. Absent if an operator must requeue the dispatch.
 */

/**
 * The payload of `node.dispatched`.
 * @typedef {Object} NodeDispatched
 * @property {string} childRunId The id of the child run.
 * @property {string} childWorkflowId The workflow of the child run.
 * @property {string} [toolCallId] The tool call that started the child run.
 */

/**
 * The payload of `holdpoint.node.awaiting`.
 * @typedef {Object} NodeAwaiting
 * @property {string} childRunId The id of the child run.
 * @property {string} nodeId The id of the node.
 */

/**
 * The payload of `holdpoint.child.changed` and `holdpoint.child.ended`.
 * @typedef {Object} ChildChanged
 * @property {string} childRunId The id of the child run.
 * @property {RunStatus} status The status of the child run.
 * @property {ChildInterrupt[]} [openedInterrupts] The interrupts that the child run, or a run below it, has opened.
 * @property {string[]} [closedInterruptIds] The ids of the interrupts of the child run, or of runs below it, that are no longer open.
 */

/**
 * The payload of `holdpoint.sleep.started`.
 * @typedef {Object} SleepStarted
 * @property {string} nodeId The id of the node.
 * @property {Instant} until The end of the sleep.
 */

/**
 * The payload of `holdpoint.sleep.ended`.
 * @typedef {Object} SleepEnded
 * @property {string} nodeId The id of the node.
 */

/**
 * The payload of `holdpoint.step.recorded`.
 * @typedef {Object} StepRecorded
 * @property {string} nodeId The id of the node.
 * @property {string} step The name of the step.
 */

/**
 * The payload of `variable.changed`.
 * @typedef {Object} VariableChanged
 * @property {string} name The name of the variable.
 * @property {any} next The new value.
 * @property {string} nodeId The id of the node.
 * @property {any} [previous] The previous value.
 */

/**
 * The payload of `channel.written`.
 * @typedef {Object} ChannelWritten
 * @property {string} channel The name of the channel.
 * @property {string} nodeId The id of the node.
 * @property {Reducer} reducer The reducer of the channel.
 * @property {any} value The written value.
 * @property {Instant} writtenAt The instant of the write.
 */

/**
 * The rule that combines the writes to a channel.
 * @typedef {"replace" | "append" | "merge" | "counter" | "votes" | "feedback" | "message"} Reducer
 */

/**
 * The payload of `ai.message.chunk`.
 * @typedef {Object} MessageChunk
 * @property {string} chunk The text of the chunk.
 * @property {boolean} isLast True if this is the last chunk.
 * @property {Object<string, any>} [meta] Metadata of the chunk.
 * @property {string} nodeId The id of the node.
 * @property {string} runId The id of the run.
 */

/**
 * The payload of `holdpoint.reasoning.chunk`.
 * @typedef {Object} ReasoningChunk
 * @property {string} chunk The text of the chunk.
 * @property {boolean} isLast True if this is the last chunk of a part of the reasoning.
 * @property {Object<string, any>} [meta] Metadata of the chunk.
 * @property {string} nodeId The id of the node.
 */

/**
 * The payload of `holdpoint.tool.chunk`.
 * @typedef {Object} ToolCallChunk
 * @property {string} callId The id of the call.
 * @property {string} chunk The next part of the arguments, as JSON text.
 * @property {boolean} isLast True for the last chunk of a call without a recorded reply.
 * @property {Object<string, any>} [meta] Metadata of the chunk.
 * @property {string} nodeId The id of the node.
 * @property {string} [toolName] The name of the tool, in the first chunk of a call.
 */

/**
 * The payload of `holdpoint.activity.reported`.
 * @typedef {Object} ActivityReported
 * @property {string} activityId The id of the activity, unique in its node.
 * @property {string} activityType The type of the activity.
 * @property {string} [callId] The tool call that reported the activity.
 * @property {Object<string, any>} content The content, which replaces the earlier content of the activity.
 * @property {string} nodeId The id of the node.
 */

/**
 * The payload of `artifact.created`.
 * @typedef {Object} ArtifactCreated
 * @property {string} artifactId The id of the artifact.
 * @property {string | null} artifactType The type of the artifact.
 * @property {string} nodeId The id of the node.
 * @property {string} version The version of the artifact.
 */

/**
 * The payload of `workflow.loopback-limit`.
 * @typedef {Object} LoopbackLimit
 * @property {number} iterations The number of iterations.
 * @property {number} limit The maximum number of iterations.
 * @property {string} nodeId The id of the node.
 */

/**
 * The payload of `holdpoint.loop.turned`.
 * @typedef {Object} LoopTurned
 * @property {string} edgeId The edge that closes the loop.
 * @property {number} iteration The number of the iteration.
 */

/**
 * The payload of `node.suspended`.
 * @typedef {Object} NodeSuspended
 * @property {any} [agentId] The agent of a low-confidence interrupt.
 * @property {any} [conversationId] The conversation of a conversation exchange.
 * @property {any} [customKind] The kind that a custom interrupt names.
 * @property {any} [eventType] The type of the external event that the interrupt waits for.
 * @property {Instant} [expiresAt] The deadline of the interrupt.
 * @property {string} interruptId The id of the interrupt.
 * @property {string} [key] The key of the interrupt, unique in the run.
 * @property {InterruptKind} [kind] The kind of the interrupt.
 * @property {string} nodeId The id of the node.
 * @property {any} [observed] The confidence of the model.
 * @property {string} [reason] low-confidence or conversation-input. Absent for other kinds.
 * @property {any} [threshold] The required confidence.
 * @property {any} [turnIndex] The number of the turn of the conversation.
 */

/**
 * The payload of `node.resumed`.
 * @typedef {Object} NodeResumed
 * @property {string} interruptId The id of the interrupt.
 * @property {string} nodeId The id of the node.
 * @property {any} [resumeValue] The answer.
 */

/**
 * The payload of `interrupt.requested`.
 * @typedef {Object} InterruptRequested
 * @property {any} data The data that the interrupt shows.
 * @property {string} interruptId The id of the interrupt.
 * @property {string} key The key of the interrupt, unique in the run.
 * @property {InterruptKind} kind The kind of the interrupt.
 * @property {string} nodeId The id of the node.
 * @property {Instant} requestedAt The instant at which the interrupt opened.
 * @property {string} runId The id of the run.
 * @property {number} [timeoutMs] The time until the deadline, in milliseconds.
 */

/**
 * The payload of `approval.requested`.
 * @typedef {Object} ApprovalRequested
 * @property {any} [actions] The actions that the approval offers.
 * @property {any} [approversList] The principals that may decide.
 * @property {any} [artifactId] The id of the artifact.
 * @property {any} [artifactType] The type of the artifact.
 * @property {string} interruptId The id of the interrupt.
 * @property {string} nodeId The id of the node.
 * @property {any} [requiredApprovals] The number of required approvals.
 */

/**
 * The payload of `clarification.requested`.
 * @typedef {Object} ClarificationRequested
 * @property {string} interruptId The id of the interrupt.
 * @property {string} nodeId The id of the node.
 * @property {any} questions The questions.
 */

/**
 * The payload of `interrupt.resolved`.
 * @typedef {Object} InterruptResolvedPayload
 * @property {string} [action] The action of an answer to an approval.
 * @property {string} [decision] The decision of an approval.
 * @property {any} [editedArtifactData] The artifact as the approver edited it.
 * @property {string} [grantId] The id of the grant that the decision created.
 * @property {string} interruptId The id of the interrupt.
 * @property {InterruptKind} kind The kind of the interrupt.
 * @property {string} nodeId The id of the node.
 * @property {string} [outcome] The outcome of the interrupt.
 * @property {any} [quorum] The votes that decided.
 * @property {any} [reason] The reason of the decision.
 * @property {any} [refineFeedback] The requested change of the artifact.
 * @property {Instant} [resolvedAt] The instant of the answer.
 * @property {string} [resolvedBy] The principal that answered.
 * @property {any} [resumeValue] The answer. Null if the interrupt timed out.
 * @property {Object<string, any>} [clientMetadata] Data that the client sent with the answer. Nothing verifies it: names in it are claims.
 * @property {string} runId The id of the run.
 * @property {Via} [via] The credential of the answer.
 */

/**
 * The payload of `approval.received`: the members of the answer, and nodeId.
 * @typedef {Object<string, any>} ApprovalReceived
 */

/**
 * The payload of `clarification.resolved`.
 * @typedef {Object} ClarificationResolved
 * @property {string} answeredBy The principal that answered.
 * @property {any} answers The answers by question.
 * @property {string} nodeId The id of the node.
 */

/**
 * The payload of `authorization.decided`.
 * @typedef {Object} AuthorizationDecided
 * @property {string} action The action of the answer.
 * @property {boolean} allowed True if the principal may decide.
 * @property {string} principal The principal that answered.
 * @property {string} reason The reason.
 * @property {string} resource The id of the interrupt.
 */

/**
 * The payload of `approval.granted`, `approval.rejected` and `approval.overridden`.
 * @typedef {Object} GateDecided
 * @property {any} gateId The id of the gate in its configuration.
 * @property {string | null} principal The principal of the last answer.
 * @property {QuorumProgress} [quorumProgress] The number of approvals.
 * @property {any} [reason] The reason that the principal gave.
 */

/**
 * The number of approvals of a gate.
 * @typedef {Object} QuorumProgress
 * @property {number} granted The number of approvals so far.
 * @property {number} required The number of required approvals.
 */

/**
 * The payload of `holdpoint.vote.cast`.
 * @typedef {Object} VoteCast
 * @property {string} [actedBy] The principal that acted in the name of another one.
 * @property {any} action The action of the vote.
 * @property {any} decidedAt The instant of the vote.
 * @property {string} decidedBy The principal in whose name the vote was cast.
 * @property {string} interruptId The id of the interrupt.
 * @property {string | null} nodeId The id of the node.
 * @property {Object<string, any>} [clientMetadata] Data that the client sent with the answer. Nothing verifies it: names in it are claims.
 * @property {Via} [via] The credential of the vote.
 */

/**
 * The payload of `holdpoint.vote.repeated`.
 * @typedef {Object} VoteRepeated
 * @property {string} [actedBy] The principal that acted in the name of another one.
 * @property {string} action The action of the vote.
 * @property {string} decidedBy The principal in whose name the vote was cast.
 * @property {string} interruptId The id of the interrupt.
 * @property {string | null} nodeId The id of the node.
 * @property {Via} [via] The credential of the vote.
 */

/**
 * The payload of `holdpoint.ask.raised`.
 * @typedef {Object} AskRaised
 * @property {string} [actedBy] The principal that acted in the name of another one.
 * @property {number} askId The number of the side question, from 1.
 * @property {string} askedBy The principal that asked.
 * @property {string} interruptId The id of the interrupt.
 * @property {string | null} nodeId The id of the node.
 * @property {string} question The side question.
 * @property {Via} [via] The credential of the side question.
 */

/**
 * The payload of `holdpoint.ask.answered`.
 * @typedef {Object} AskAnsweredPayload
 * @property {string} answer The answer.
 * @property {string} answeredBy The principal that answered.
 * @property {number} askId The number of the side question, from 1.
 * @property {string} interruptId The id of the interrupt.
 * @property {string | null} nodeId The id of the node.
 */

/**
 * The payload of `agent.decided`.
 * @typedef {Object} AgentDecided
 * @property {string} agentId The id of the agent.
 * @property {number} [confidence] The confidence of the model, from 0 to 1.
 * @property {any} decision The decision of the agent.
 * @property {string} [flaw] The reason for which the confidence is invalid.
 * @property {string} [messageId] The message with the decision.
 * @property {string} nodeId The id of the node.
 * @property {Via} via The agent as the credential.
 */

/**
 * The payload of `conversation.opened`.
 * @typedef {Object} ConversationOpened
 * @property {any} [conversationId] The id of the conversation.
 * @property {any} [initialPrompt] The first prompt of the conversation.
 * @property {string | null} openedBy The principal that owns the run.
 * @property {any} [title] The title of the conversation.
 */

/**
 * The payload of `conversation.exchanged`.
 * @typedef {Object} ConversationExchanged
 * @property {any} [conversationId] The id of the conversation.
 * @property {any} [outcome] The answer. Absent if the exchange timed out.
 * @property {any} [turnIndex] The number of the turn.
 */

/**
 * The payload of `conversation.closed`.
 * @typedef {Object} ConversationClosed
 * @property {any} [conversationId] The id of the conversation.
 * @property {any} [reason] The reason of the end.
 * @property {number | null} turnCount The number of turns.
 */

/**
 * The payload of `holdpoint.message.added`.
 * @typedef {Object} MessageAdded
 * @property {string} nodeId The node of the agent.
 * @property {AgentMessage} message The new message.
 */

/**
 * A message in the log of a run. Calls have the names that front ends use.
 * @typedef {Object} AgentMessage
 * @property {string} id The id of the message.
 * @property {"system" | "user" | "assistant" | "tool"} role The author of the message.
 * @property {any} content A text or a list of parts. In a message of a tool: the result of the call.
 * @property {string[]} [reasoning] The reasoning of the model before the reply, if the agent shows it.
 * @property {MessageCall[]} [toolCalls] The calls that a reply of the model requests.
 * @property {string} [toolCallId] The call whose result the message is.
 * @property {string} [by] The principal that sent the message.
 * @property {Object<string, any>} [metadata] Data that clients store with the message.
 */

/**
 * The payload of `holdpoint.model.replied`.
 * @typedef {Object} ModelReplied
 * @property {string} nodeId The node of the agent.
 * @property {AgentMessage} message The reply.
 * @property {TokenUsage} usage The tokens that the reply used.
 * @property {string} [model] The model that replied, if its provider names it.
 * @property {number} [durationMs] The time until the reply was complete.
 */

/**
 * The payload of `agent.toolCalled`.
 * @typedef {Object} ToolCalled
 * @property {string} nodeId The node of the agent.
 * @property {string} agentId The id in the definition of the agent, or the id of its node.
 * @property {string} callId The id of the call.
 * @property {string} [toolName] The name of the tool.
 * @property {any} [arguments] The arguments that the model gave.
 * @property {"allow" | "ask" | "deny"} permission The effect of the permission rules.
 * @property {string} [reason] The rule that decided the permission.
 */

/**
 * The payload of `holdpoint.tool.suspended`.
 * @typedef {Object} ToolSuspended
 * @property {string} nodeId The node of the agent.
 * @property {string} agentId The id in the definition of the agent, or the id of its node.
 * @property {string} callId The id of the call.
 * @property {string} [toolName] The name of the tool.
 * @property {any} [arguments] The arguments that the model gave.
 * @property {string} interruptId The interrupt that the call waits for.
 * @property {"replay_tool_call" | "use_decision_as_tool_result" | "pass_decision_to_tool"} resumeMode The effect of the decision on the call.
 */

/**
 * The payload of `holdpoint.tool.begun`.
 * @typedef {Object} ToolBegun
 * @property {string} nodeId The node of the agent.
 * @property {string} agentId The id in the definition of the agent, or the id of its node.
 * @property {string} callId The id of the call.
 * @property {string} [toolName] The name of the tool.
 * @property {any} [arguments] The arguments that the model gave.
 * @property {any} [effectiveArguments] The arguments that replace those of the model.
 * @property {string[]} [grantIds] The grants that the call uses.
 */

/**
 * The payload of `agent.toolReturned`.
 * @typedef {Object} ToolReturned
 * @property {string} nodeId The node of the agent.
 * @property {string} agentId The id in the definition of the agent, or the id of its node.
 * @property {string} callId The id of the call.
 * @property {string} [toolName] The name of the tool.
 * @property {any} [arguments] The arguments that the model gave.
 * @property {"new" | "running" | "suspended" | "resuming" | "succeeded" | "failed" | "cancelled"} status The final state of the call.
 * @property {any} result The result, or the error that the model receives.
 */

/**
 * The members of the body of a delivery before its member `event`, which has the same bytes as in the log.
 * @typedef {Object} DeliveryHead
 * @property {string} runId The run of the event.
 * @property {string} workspaceId The tenant of the run.
 */

/**
 * The body of a callback: an interrupt of a run with a callbackUrl.
 * @typedef {Object} InterruptCallback
 * @property {string} runId The run that waits.
 * @property {string} nodeId The node that waits.
 * @property {string} interruptId The interrupt.
 * @property {InterruptKind} kind The kind of the interrupt.
 * @property {LinkIntent} [intent] The use of the link.
 * @property {string} [callbackUrl] The URL of the link.
 * @property {string} [interruptToken] The token of the link.
 * @property {Instant} [expiresAt] The expiry of the link.
 */

/**
 * The body of a request to the service that answers side questions.
 * @typedef {Object} SideQuestion
 * @property {string} tenantId The tenant of the run.
 * @property {string} runId The run that waits.
 * @property {string} workflowId The workflow of the run.
 * @property {string} nodeId The node that waits.
 * @property {string} interruptId The interrupt that the side question is about.
 * @property {number} askId The number of the side question, from 1.
 * @property {string} question The side question.
 * @property {string} askedBy The approver.
 * @property {Instant} askedAt The instant of the side question.
 * @property {any} data The data of the interrupt.
 */

/**
 * An event with the members that every event may have.
 * @typedef {{ timestamp?: number, rawEvent?: any, metadata?: Object<string, any>, subagentRunId?: string } & ({ type: "RUN_STARTED", threadId: string, runId: string, protocolVersion?: string, parentRunId?: string, input?: any } | { type: "RUN_FINISHED", threadId: string, runId: string, result?: any, outcome?: AgUiOutcome, usage?: AgUiUsage[] } | { type: "RUN_ERROR", message: string, code?: string, usage?: AgUiUsage[] } | { type: "STEP_STARTED", stepName: string } | { type: "STEP_FINISHED", stepName: string } | { type: "TEXT_MESSAGE_START", messageId: string, role?: string, name?: string } | { type: "TEXT_MESSAGE_CONTENT", messageId: string, delta: string } | { type: "TEXT_MESSAGE_END", messageId: string } | { type: "TEXT_MESSAGE_CHUNK", messageId?: string, role?: string, delta?: string, name?: string } | { type: "TOOL_CALL_START", toolCallId: string, toolCallName: string, parentMessageId?: string } | { type: "TOOL_CALL_ARGS", toolCallId: string, delta: string } | { type: "TOOL_CALL_END", toolCallId: string } | { type: "TOOL_CALL_CHUNK", toolCallId?: string, toolCallName?: string, parentMessageId?: string, delta?: string } | { type: "TOOL_CALL_RESULT", messageId: string, toolCallId: string, content: any, role?: string } | { type: "STATE_SNAPSHOT", snapshot: any } | { type: "STATE_DELTA", delta: PatchOperation[] } | { type: "MESSAGES_SNAPSHOT", messages: AgUiMessage[] } | { type: "ACTIVITY_SNAPSHOT", messageId: string, activityType: string, content: Object<string, any>, replace?: boolean } | { type: "ACTIVITY_DELTA", messageId: string, activityType: string, patch: PatchOperation[] } | { type: "RAW", event: any, source?: string } | { type: "CUSTOM", name: string, value: any } | { type: "REASONING_START", messageId: string } | { type: "REASONING_MESSAGE_START", messageId: string, role: string } | { type: "REASONING_MESSAGE_CONTENT", messageId: string, delta: string } | { type: "REASONING_MESSAGE_END", messageId: string } | { type: "REASONING_MESSAGE_CHUNK", messageId?: string, delta?: string } | { type: "REASONING_END", messageId: string } | { type: "REASONING_ENCRYPTED_VALUE", subtype: string, entityId: string, encryptedValue: string } | { type: "SUBAGENT_STARTED", subagentRunId: string, name: string, description?: string, parentSubagentRunId?: string, parentToolCallId?: string, parentMessageId?: string } | { type: "SUBAGENT_FINISHED", subagentRunId: string, result?: any, outcome?: SubagentOutcome } | { type: "SUBAGENT_ERROR", subagentRunId: string, message: string, code?: string })} AgUiFrame
 */

/**
 * The outcome of a run.
 * @typedef {{ type: "success", pendingToolCallIds?: string[] } | { type: "interrupt", interrupts: AgUiInterrupt[] } | { type: "cancelled" }} AgUiOutcome
 */

/**
 * The tokens that calls of models used.
 * @typedef {Object} AgUiUsage
 * @property {string} [model] The name of the model.
 * @property {number} inputTokens The tokens that the model read.
 * @property {number} outputTokens The tokens that the model wrote.
 * @property {number} totalTokens The sum of both.
 * @property {number} [reasoningTokens] The tokens of `outputTokens` that are reasoning, if the model reports them.
 */

/**
 * One operation of a JSON Patch (RFC 6902).
 * @typedef {{ op: "add", path: string, value: any } | { op: "remove", path: string } | { op: "replace", path: string, value: any }} PatchOperation
 */

/**
 * The outcome of a subagent.
 * @typedef {{ type: "success" } | { type: "suspended", interruptIds?: string[] }} SubagentOutcome
 */

/**
 * An event of a graph: its type, its time and its node.
 * @typedef {Object} ChatProgress
 * @property {string} stateKey The key of the graph.
 * @property {string} type The type of the event.
 * @property {Instant} at The instant of the event.
 * @property {string} [nodeId] The node of the event.
 */

/**
 * The next text of a message, or of the reasoning before it.
 * @typedef {Object} ChatDelta
 * @property {string} stateKey The key of the graph.
 * @property {string} messageId The id of the message.
 * @property {number} attempt The number of the attempt to write the message, from 1. A later attempt replaces the text of earlier ones.
 * @property {string} delta The text.
 */

/**
 * A complete message of the graph.
 * @typedef {Object} ChatMessage
 * @property {string} stateKey The key of the graph.
 * @property {string} messageId The id of the message.
 * @property {string} text The whole text. It replaces the deltas of the message.
 */

/**
 * A tool call that a message requests.
 * @typedef {Object} ChatToolCall
 * @property {string} stateKey The key of the graph.
 * @property {string} messageId The id of the message.
 * @property {string} toolCallId The id of the call.
 * @property {string} name The name of the tool.
 * @property {any} arguments The arguments.
 */

/**
 * The result of a tool call.
 * @typedef {Object} ChatToolResult
 * @property {string} stateKey The key of the graph.
 * @property {string} toolCallId The id of the call.
 * @property {"new" | "running" | "suspended" | "resuming" | "succeeded" | "failed" | "cancelled"} status The final state of the call.
 * @property {any} content The result.
 */

/**
 * The tokens of one message of a model.
 * @typedef {Object} ChatUsage
 * @property {string} stateKey The key of the graph.
 * @property {string} messageId The id of the message.
 * @property {string} [model] The name of the model, if it is known.
 * @property {number} inputTokens Tokens of the prompt.
 * @property {number} outputTokens Tokens of the message.
 */

/**
 * The answer to an approval, as resumeValue.
 * @typedef {Object} ApprovalAnswer
 * @property {string} action One of the actions that the interrupt offers.
 * @property {string} [feedback] The reason of the approver.
 * @property {any} [editedArtifactData] The artifact that replaces the one that was shown. For a tool call: an EditedCall.
 * @property {RefineFeedback} [refineFeedback] The change that the action refine requests.
 * @property {string} [question] The side question of the action ask.
 */

/**
 * A requested change of an artifact, by the part that it is about.
 * @typedef {{ scope: "whole", text: string } | { scope: "section", sectionPath: string, text: string } | { scope: "items", itemIds: string[], text: string }} RefineFeedback
 */

/**
 * The part of a tool call that an approver replaces.
 * @typedef {Object} EditedCall
 * @property {any} [arguments] The arguments of the call.
 * @property {any} [result] The result of the call, which is then not made.
 */

/**
 * The answer to a tool call that waits, as resumeValue.
 * @typedef {Object} CallAnswer
 * @property {"resume" | "cancel"} action resume lets the call proceed; cancel declines it.
 * @property {any} [result] The answer that the tool requires.
 * @property {string} [reason] The reason, which the agent receives with cancel.
 */

/**
 * The answer to a clarification, as resumeValue.
 * @typedef {Object} ClarificationAnswer
 * @property {any} answers The answers by the id of their question, or in the order of the questions.
 */

/**
 * The data of the interrupt of a hold without choices and schema.
 * @typedef {Object} HoldApproval
 * @property {string} title The title of the hold.
 * @property {string} artifactId The id of the artifact; always `hold`.
 * @property {string} artifactType The media type of artifactData, or `hold` if there is none.
 * @property {string[]} actions The actions that an answer may have.
 * @property {string[]} [approversList] The principals that may answer: names, role:x or group:y.
 * @property {boolean} requesterMayNotApprove If true, the principal that created the hold may not answer it.
 * @property {number} [requiredApprovals] The number of principals that must approve.
 * @property {string} [profile] Set if answers require a key.
 * @property {string} [description] A longer text that approvers see.
 * @property {any} [artifactData] The payload that the approver is shown.
 */

/**
 * The data of the interrupt of a hold with choices or a schema.
 * @typedef {Object} HoldQuestions
 * @property {HoldQuestion[]} questions The one question of the hold.
 * @property {string[]} [approversList] The principals that may answer: names, role:x or group:y.
 * @property {boolean} requesterMayNotApprove If true, the principal that created the hold may not answer it.
 * @property {number} [requiredApprovals] The number of principals that must approve.
 * @property {string} [profile] Set if answers require a key.
 * @property {string} [description] A longer text that approvers see.
 * @property {any} [artifactData] The payload that the approver is shown.
 * @property {string} [artifactType] The media type of artifactData.
 */

/**
 * The question of a hold with choices or a schema.
 * @typedef {Object} HoldQuestion
 * @property {string} id The id of the question; always `answer`.
 * @property {string} question The title of the hold.
 * @property {any} schema The JSON Schema of the answer.
 * @property {string[]} [options] The choices.
 */

/**
 * The body of `POST /v1/runs`.
 * @typedef {Object} CreateRun
 * @property {string} workflowId The id of a registered workflow.
 * @property {Object<string, any> | null} [inputs] Values of the workflow's variables, by name.
 * @property {string | null} [tenantId] Must be the tenant of the key; another one is rejected with 403.
 * @property {Object<string, any> | null} [configurable] Options of the run; the discovery document lists them.
 * @property {string[] | null} [tags] Tags for the filters of lists and webhooks.
 * @property {Object<string, any> | null} [metadata] Any data; shown with the run.
 * @property {string | null} [scopeId] The subject of the run, for X-Dedup and for filters.
 * @property {string | null} [callbackUrl] An https URL that receives a signed link for each interrupt of the run.
 * @property {string | null} [callbackSecret] The secret that signs callbacks, as for webhooks. Requires callbackUrl. If it is left out, the server creates a secret and returns it once.
 * @property {DispatchOptions | null} [dispatch] Options of the first dispatch, without dedupeKey.
 */

/**
 * Options of the dispatch that a start or an input creates.
 * @typedef {Object} DispatchOptions
 * @property {number | null} [priority] The priority; 0 is claimed first. The default is 128. A value below 128 requires the scope runs:prioritize. That of a start also applies to the later dispatches of the run and to its child runs, except that a later message without a priority has at most the normal one. That of an input applies only to the dispatch that the input creates.
 * @property {number | null} [delayMs] The time in milliseconds after which the dispatch can be claimed. Only for the start of a run, and not together with availableAt.
 * @property {Instant | null} [availableAt] The instant from which the dispatch can be claimed, at most a year in the future. Only for the start of a run. An instant in the past has no effect.
 * @property {string | null} [dedupeKey] The deduplication key. The thread rejects another dispatch with this key while this one is queued or claimed. Only for requests of a thread. A request that creates no queued dispatch does not reserve the key: input to a run that executes, or work that the server performs within the request.
 * @property {number | null} [maxAttempts] The number of failed attempts after which the dispatch is a dead letter. The default is 5. That of a start also applies to the later dispatches of the run and to its child runs; that of an input applies only to the dispatch that the input creates.
 */

/**
 * The body of `POST /v1/runs/{runId}/cancel`.
 * @typedef {Object} CancelRun
 * @property {string | null} [reason] The reason, which is recorded.
 */

/**
 * The body of `POST /v1/runs:bulk-cancel`.
 * @typedef {Object} BulkCancel
 * @property {string[]} runIds The runs to cancel.
 * @property {string | null} [reason] The reason, which is recorded.
 */

/**
 * The body of `POST /v1/runs/{runId}:pause`.
 * @typedef {Object} PauseRun
 * @property {string | null} [reason] The reason, which is recorded.
 * @property {DrainPolicy} [drainPolicy] drain-current-node waits for running nodes (default); immediate pauses at once.
 */

/**
 * The body of `POST /v1/runs/{runId}:resume`. It has no members.
 * @typedef {Object<string, any>} ResumeRun
 */

/**
 * The body of `POST /v1/runs/{runId}:fork`.
 * @typedef {Object} ForkRun
 * @property {ForkMode} mode replay repeats the log without effects; branch copies the events before fromSeq and continues live.
 * @property {number | null} [fromSeq] The event of the source at which the fork begins. Required for a branch; 0 by default for a replay.
 * @property {RunOptionsOverlay} [runOptionsOverlay] Options of a branch that replace those of its source.
 */

/**
 * The options of a fork that differ from those of its source.
 * @typedef {Object} RunOptionsOverlay
 * @property {Object<string, any>} [configurable] Options that replace those of the source.
 * @property {string[] | null} [tags] Tags that replace those of the source.
 * @property {Object<string, any> | null} [metadata] Metadata that replaces that of the source.
 */

/**
 * The body of `POST /v1/runs/{runId}/interrupts/{nodeId}/asks/{askId}`.
 * @typedef {Object} AnswerAsk
 * @property {string} answer The answer to the side question.
 * @property {string | null} [interruptId] The id of the interrupt. Required if the node has several open interrupts; without it the request is rejected with interrupt_ambiguous.
 */

/**
 * The body of `POST /v1/runs/{runId}/interrupts/{nodeId}` and of an answer over a link.
 * @typedef {Object} ResolveInterrupt
 * @property {any} resumeValue The answer. Its form depends on the kind of the interrupt.
 * @property {string | null} [digest] The digest of the payload that was shown to the approver. An answer with the digest of another payload is rejected with payload_mismatch.
 * @property {string | null} [interruptId] The id of the interrupt. Required if the node has several open interrupts; without it the request is rejected with interrupt_ambiguous.
 */

/**
 * The body of `POST /v1/runs/{runId}/approvals/{nodeId}`: the answer itself, with an action or with the decision of older clients.
 * @typedef {Object} ResolveApproval
 * @property {string | null} [digest] The digest of the payload that was shown to the approver. An answer with the digest of another payload is rejected with payload_mismatch.
 * @property {string | null} [interruptId] The id of the interrupt. Required if the node has several open interrupts; without it the request is rejected with interrupt_ambiguous.
 */

/**
 * The body of `POST /v1/events`.
 * @typedef {Object} SendEvent
 * @property {string} eventType The type that interrupts wait for.
 * @property {string} eventId The id of the event. An event that is sent again under the same id has no further effect.
 * @property {Object<string, any> | null} [correlation] The correlation of the event. It matches interrupts whose correlation has all these members with equal values; without members it matches interrupts without a correlation.
 * @property {any} [payload] The data that the interrupt receives.
 */

/**
 * The body of `POST /v1/runs/{runId}/interrupts/{nodeId}/tokens`.
 * @typedef {Object} MintToken
 * @property {LinkIntent | null} [intent] resolve, the default: the link shows the interrupt and answers it. inspect: the link only shows it.
 * @property {number | null} [expiresInSeconds] The lifetime of the link in seconds; half an hour by default. The operator may set a lower maximum.
 * @property {number | null} [ttlMs] The lifetime in milliseconds. Not together with expiresInSeconds.
 * @property {string | null} [for] The principal in whose name the link answers. Another name than the caller's requires approvals:act-as.
 * @property {string | null} [interruptId] The id of the interrupt. Required if the node has several open interrupts; without it the request is rejected with interrupt_ambiguous.
 */

/**
 * The body of `POST /v1/webhooks`.
 * @typedef {Object} CreateWebhook
 * @property {string} url The https URL that receives deliveries.
 * @property {Array<"run.started" | "node.started" | "node.completed" | "node.failed" | "holdpoint.node.delayed" | "node.skipped" | "node.suspended" | "node.resumed" | "interrupt.requested" | "approval.requested" | "clarification.requested" | "interrupt.resolved" | "interrupt.timed_out" | "approval.received" | "clarification.resolved" | "holdpoint.vote.cast" | "holdpoint.vote.repeated" | "holdpoint.ask.raised" | "holdpoint.ask.answered" | "authorization.decided" | "approval.granted" | "approval.rejected" | "approval.overridden" | "conversation.opened" | "conversation.exchanged" | "conversation.closed" | "agent.decided" | "holdpoint.step.recorded" | "holdpoint.sleep.started" | "holdpoint.sleep.ended" | "node.retried" | "variable.changed" | "channel.written" | "ai.message.chunk" | "holdpoint.reasoning.chunk" | "holdpoint.tool.chunk" | "holdpoint.activity.reported" | "holdpoint.message.added" | "holdpoint.model.replied" | "agent.toolCalled" | "holdpoint.tool.suspended" | "holdpoint.tool.begun" | "agent.toolReturned" | "artifact.created" | "holdpoint.loop.turned" | "workflow.loopback-limit" | "cap.breached" | "node.dispatched" | "holdpoint.node.awaiting" | "holdpoint.child.changed" | "holdpoint.child.ended" | "holdpoint.pause.requested" | "run.paused" | "run.resumed" | "replay.diverged" | "run.completed" | "run.failed" | "run.cancelled">} events The types of the events to send.
 * @property {string | null} [tenantId] The tenant of the key. Another tenant is rejected.
 * @property {string[] | null} [tags] Only events of runs with one of these tags.
 * @property {boolean | null} [durable] If true (default), each event is sent until the receiver accepts it or the attempts are used up. If false, each event is sent once.
 * @property {boolean | null} [ordered] If true (default), a durable event waits for the earlier events of the same run.
 * @property {WantedRetryPolicy | null} [retryPolicy] The retries of a durable webhook.
 * @property {string[] | null} [supportedSignatureAlgorithms] The algorithms that the receiver can verify. Must contain v1.
 */

/**
 * The retries of a new durable webhook. baseMs is at most maxMs.
 * @typedef {Object} WantedRetryPolicy
 * @property {number | null} [maxAttempts] Attempts of one delivery.
 * @property {"none" | "fixed" | "exponential" | null} [backoff] The growth of the delay.
 * @property {number | null} [baseMs] The first delay in milliseconds.
 * @property {number | null} [maxMs] The longest delay in milliseconds.
 */

/**
 * An empty object.
 * @typedef {Object<string, any>} EmptyBody
 */

/**
 * The body of `POST /v1/webhooks/{webhookId}:rotate`.
 * @typedef {Object} RotateWebhook
 * @property {number | null} [overlapSeconds] Seconds for which deliveries are signed with the old secret, too.
 */

/**
 * The body of `POST /v1/webhooks/{webhookId}:replay`: the window of time in which the events happened.
 * @typedef {Object} ReplayWindow
 * @property {string} from The start of the time window.
 * @property {string} to The end of the time window.
 * @property {Array<"run.started" | "node.started" | "node.completed" | "node.failed" | "holdpoint.node.delayed" | "node.skipped" | "node.suspended" | "node.resumed" | "interrupt.requested" | "approval.requested" | "clarification.requested" | "interrupt.resolved" | "interrupt.timed_out" | "approval.received" | "clarification.resolved" | "holdpoint.vote.cast" | "holdpoint.vote.repeated" | "holdpoint.ask.raised" | "holdpoint.ask.answered" | "authorization.decided" | "approval.granted" | "approval.rejected" | "approval.overridden" | "conversation.opened" | "conversation.exchanged" | "conversation.closed" | "agent.decided" | "holdpoint.step.recorded" | "holdpoint.sleep.started" | "holdpoint.sleep.ended" | "node.retried" | "variable.changed" | "channel.written" | "ai.message.chunk" | "holdpoint.reasoning.chunk" | "holdpoint.tool.chunk" | "holdpoint.activity.reported" | "holdpoint.message.added" | "holdpoint.model.replied" | "agent.toolCalled" | "holdpoint.tool.suspended" | "holdpoint.tool.begun" | "agent.toolReturned" | "artifact.created" | "holdpoint.loop.turned" | "workflow.loopback-limit" | "cap.breached" | "node.dispatched" | "holdpoint.node.awaiting" | "holdpoint.child.changed" | "holdpoint.child.ended" | "holdpoint.pause.requested" | "run.paused" | "run.resumed" | "replay.diverged" | "run.completed" | "run.failed" | "run.cancelled"> | null} [events] The types of the events. All by default.
 */

/**
 * The body of `POST /v1/trigger-subscriptions`.
 * @typedef {Object} CreateTrigger
 * @property {"schedule" | "event"} source The source of the deliveries.
 * @property {string} workflowId The workflow whose runs start.
 * @property {WantedSchedule | null} [schedule] The schedule. Required with the source schedule, otherwise rejected.
 * @property {WantedEvents | null} [event] The events. Required with the source event, otherwise rejected.
 * @property {Object<string, any> | null} [inputMapping] The inputs of the runs. An object `{"$from": "/payload/id"}` is replaced by a part of the occurrence: scheduledFor of a schedule; eventType, eventId, correlation and payload of an event. A missing part is an error, unless the object has a member default. Other values are used as they are.
 * @property {string[] | null} [tags] The tags of the runs.
 * @property {DispatchOptions | null} [dispatch] Priority and attempts of the dispatches of the runs. Other options are rejected.
 * @property {WantedRetryPolicy | null} [retryPolicy] The attempts to start a run.
 * @property {boolean | null} [dedupEnabled] Must be true or absent: a repeated occurrence never starts a second run.
 */

/**
 * The schedule of a new trigger.
 * @typedef {Object} WantedSchedule
 * @property {string} cron The cron expression: minute, hour, day of month, month and day of week, or @hourly, @daily, @weekly, @monthly or @yearly.
 * @property {string | null} [timeZone] The name of the time zone in the tz database. The default is UTC.
 * @property {"skip" | "last" | "all" | null} [missed] The treatment of instants that passed while no server ran.
 * @property {"allow" | "skip" | "queue" | null} [overlap] The treatment of an instant while a run of an earlier instant has not ended.
 */

/**
 * The events of a new trigger.
 * @typedef {Object} WantedEvents
 * @property {string} eventType The type of the events.
 * @property {Object<string, any> | null} [correlation] Members that the correlation of an event must have, with equal values.
 * @property {Object<string, any> | null} [payload] Values that the payload of an event must have, by JSON Pointer.
 */

/**
 * The body of `PUT /v1/agents/{agentId}`. A rejected definition is reported with its invalid member.
 * @typedef {Object} AgentDefinition
 * @property {string} [agentId] The id of the agent, as in the path.
 * @property {string | null} [name] The name that people see.
 * @property {string | null} [description] The purpose of the agent.
 * @property {string | null} [instructions] The system prompt.
 * @property {Object<string, any>} model The model. `{use: NAME}` names a connection of the operator.
 * @property {Array<Object<string, any>>} [tools] The tools; see docs/agents-tools.md.
 * @property {Object<string, any> | null} [permissions] The rules for tool calls; see docs/permissions.md.
 * @property {"error" | "block_run"} [onDeny] The effect of a denied call: error returns an error to the model (default), block_run fails the run.
 * @property {Object<string, any>} [approval] The approvers of tool calls, and timeoutMs and editable.
 * @property {"as_decided" | "wait_all"} [resume] as_decided executes each call once it is decided (default); wait_all waits until all calls are decided.
 * @property {"parallel" | "sequential"} [toolExecution] The execution of several calls of one reply; parallel by default.
 * @property {Object<string, any>} [limits] Limits of a run: steps, tokens and timeMs; history: the messages of earlier runs of the thread that the model gets; and threadTokens: the tokens of all replies of the thread.
 * @property {Object<string, any>} [state] The first state of a run.
 * @property {"self_rated" | "logprobs" | null} [confidence] The source of the confidence of replies, for models that report none: self_rated lets the model rate its reply, logprobs uses the probabilities of its tokens (only with the provider openai).
 * @property {number | null} [escalationThreshold] Replies of the model with a confidence below this value wait for a decision.
 */

/**
 * The body of `POST /v1/agents/{agentId}/runs`: a text or messages.
 * @typedef {Object} StartAgent
 * @property {string | null} [threadId] The thread of the run. The default is a new thread.
 * @property {string} [message] The text of a user message. Not together with messages.
 * @property {MessageInput[]} [messages] Messages to the agent. Not together with message.
 * @property {string[] | null} [tags] Tags of a new run.
 * @property {Object<string, any> | null} [metadata] Any data for a new run.
 * @property {DispatchOptions | null} [dispatch] Options of the dispatch that the messages create.
 */

/**
 * A message to an agent.
 * @typedef {Object} MessageInput
 * @property {string | null} [id] The id of the message, unique in the request. The default is a generated id.
 * @property {"user" | "system" | null} [role] The author of the message. The default is user.
 * @property {string | Array<Object<string, any>>} content A text or a list of parts.
 */

/**
 * The body of `POST /v1/runs/{runId}/inputs`: a text or messages.
 * @typedef {Object} TellRun
 * @property {string} [message] The text of a user message. Not together with messages.
 * @property {MessageInput[]} [messages] Messages to the agent. Not together with message.
 * @property {DispatchOptions | null} [dispatch] Options of the dispatch that the messages create.
 */

/**
 * The body of `POST /v1/runs/{runId}/decision` and of `POST /v1/threads/{threadId}/decision`.
 * @typedef {Object} DecideCall
 * @property {string} [toolCallId] The id of the tool call. Not together with ticketId.
 * @property {string} [ticketId] The id of the ticket. Not together with toolCallId.
 * @property {"resume" | "cancel"} action resume lets the call proceed; cancel declines it.
 * @property {any} [result] The answer that the tool requires. `{arguments}` or `{result}` change a call that is allowed.
 * @property {string | null} [reason] The reason, which the agent receives with cancel.
 * @property {string | null} [decisionId] The id of the decision. A second request with the same id is the same decision. The default is the Idempotency-Key.
 * @property {string | null} [digest] The digest of the data that the approver was shown, as the list of pending interrupts has it. A decision with another digest is rejected.
 * @property {any} [payload] An alias of result.
 */

/**
 * The body of `POST /v1/threads/{threadId}/messages`: a text or messages.
 * @typedef {Object} SayInThread
 * @property {string | null} [agentId] The agent that receives the messages. The default is the agent of the latest run of the thread.
 * @property {string} [message] The text of a user message. Not together with messages.
 * @property {MessageInput[]} [messages] Messages to the agent. Not together with message.
 * @property {"queue" | "live_then_queue" | "steer" | "interrupt_then_queue" | "resume_open_run" | null} [mode] interrupt_then_queue cancels the open run and also requires the scope runs:cancel. steer is an alias of live_then_queue.
 * @property {string[] | null} [tags] Tags of a new run.
 * @property {Object<string, any> | null} [metadata] Any data for a new run.
 * @property {DispatchOptions | null} [dispatch] Options of the dispatch that the messages create.
 */

/**
 * The body of `POST /v1/threads/{threadId}/interrupt`.
 * @typedef {Object} InterruptThread
 * @property {boolean | null} [keepWaiting] If true, a run that waits for a person is not cancelled.
 */

/**
 * The body of `POST /v1/threads/{threadId}/cancel`.
 * @typedef {Object} CancelThread
 * @property {string | null} [reason] The reason, which is recorded.
 */

/**
 * The body of `POST /ag-ui/{agentId}`.
 * @typedef {Object} RunAgentInput
 * @property {string} threadId The thread, chosen by the client.
 * @property {string} runId The id of this run, chosen by the client.
 * @property {string | null} [parentRunId] The run of the thread that the input continues: its id, or the runId of the input that started it. If it is not the last run, the thread continues from its end, without the later runs.
 * @property {string | null} [protocolVersion] The version of AG-UI. Absent in the input of clients before 1.0.
 * @property {any} [state] The first state of a run. Ignored with resume.
 * @property {AgUiInputMessage[] | null} [messages] The messages of the thread; the server reads the new ones.
 * @property {any[] | null} [tools] Tools that the client executes.
 * @property {any[] | null} [context] Further data for the agent.
 * @property {any} [forwardedProps] Data that the front end forwards. Its member inputs has the inputs of a workflow.
 * @property {AgUiResumeEntry[] | null} [resume] Answers to open interrupts.
 */

/**
 * A message of a client. The server reads the messages to agents; of other messages it reads the id only.
 * @typedef {Object} AgUiInputMessage
 * @property {string | null} [id] The id of the message.
 * @property {string} role The author of the message.
 * @property {any} [content] A text or a list of parts.
 * @property {string | null} [toolCallId] The call whose result this message of the role tool is.
 * @property {any} [error] The error of that call.
 */

/**
 * The answer to an interrupt.
 * @typedef {Object} AgUiResumeEntry
 * @property {string} interruptId The id of the interrupt.
 * @property {"resolved" | "cancelled"} status The kind of the answer.
 * @property {any} [payload] The answer, as the responseSchema of the interrupt describes it.
 * @property {any} [metadata] Metadata of the answer. If it has a digest, the answer is rejected unless the payload that was shown has this digest.
 */

/**
 * The body of `POST /api/v1/ai/chat`. A start has graph; a resume has stateKey, resumeValue and resumeId; a further turn has stateKey, turnId and input or messages.
 * @typedef {Object} Chat
 * @property {string} [graph] The graph to start: native:WORKFLOW, native:agent:AGENT, langgraph:GRAPH, langgraph:SERVER/GRAPH or claude:PROFILE.
 * @property {string} [stateKey] The key of the graph, unique in the tenant. Required to resume; generated at a start without one.
 * @property {string} [resumeId] The id of this answer. The same id and value again have no further effect.
 * @property {string} [turnId] The id of this turn. The same id and input again return the outcome of the turn. Required for a further turn.
 * @property {any} [input] The input of the graph.
 * @property {any[]} [messages] The messages for the graph. The same as input `{messages}`.
 * @property {any} [resumeValue] The answer: at most 65536 bytes of compact JSON. Null is an answer, too.
 * @property {ChatInterrupt} [interrupt] The interrupt that is answered, as it was shown. The answer is rejected if the graph waits for another interrupt.
 * @property {number} [waitMs] Milliseconds to wait for the graph.
 */

/**
 * The body of `POST /v1/grants/{grantId}:consume`.
 * @typedef {Object} ConsumeGrant
 * @property {string} digest SHA-256 of the RFC 8785 form of the payload that the client acts on: the artifact that was shown, or the artifact as the approver edited it.
 */

/**
 * The body of `POST /v1/holds`.
 * @typedef {Object} CreateHold
 * @property {string} title The title that approvers see.
 * @property {string | null} [description] A longer text that approvers see.
 * @property {string[] | null} [choices] The possible answers. Not together with schema.
 * @property {any} [schema] The JSON Schema of the answer. Not together with choices.
 * @property {any} [data] The payload that the approver is shown.
 * @property {"text/markdown" | "text/plain" | "text/x-diff" | null} [dataType] The media type of data that is a string: text/markdown by default; text/plain keeps line breaks; text/x-diff is a patch.
 * @property {string[] | null} [approvers] The principals that may answer: names, role:x or group:y. By default every principal with approvals:respond.
 * @property {boolean | null} [requesterMayNotApprove] If true, the principal that creates the hold may not answer it.
 * @property {number | null} [requiredApprovals] The number of principals that must approve. More than 1 is accepted only without choices and schema.
 * @property {"openwop-interrupt-auth-required" | null} [profile] If set, answers require a key; links are not accepted.
 * @property {number | null} [timeoutMs] Milliseconds until the hold times out. Without it, the hold does not time out.
 * @property {string[] | null} [tags] Tags of the run of the hold.
 */

/**
 * The body of `POST /v1/keys`.
 * @typedef {Object} CreateKey
 * @property {string | null} [tenant] The tenant of the key. Another tenant than the caller's requires tenants:manage.
 * @property {string | null} [principal] The principal that the key stands for; the id of the key by default. Stored in normalization form NFKC. Control and format characters and mixed scripts are rejected.
 * @property {string[] | null} [roles] Roles of the principal, which lists of approvers may name.
 * @property {string[] | null} [groups] Groups of the principal, which lists of approvers may name.
 * @property {Array<"manifest:read" | "manifest:write" | "runs:create" | "runs:read" | "runs:cancel" | "runs:prioritize" | "artifacts:read" | "approvals:respond" | "approvals:act-as" | "events:send" | "webhooks:manage" | "triggers:manage" | "keys:manage" | "tenants:manage"> | null} [scopes] The scopes of the key, each of which the caller must have.
 * @property {Array<"manifest:read" | "manifest:write" | "runs:create" | "runs:read" | "runs:cancel" | "runs:prioritize" | "artifacts:read" | "approvals:respond" | "approvals:act-as" | "events:send" | "webhooks:manage" | "triggers:manage" | "keys:manage" | "tenants:manage"> | null} [addScopes] Scopes in addition to the default scopes. Not together with scopes.
 * @property {string | null} [expiresAt] The expiry. Not together with expiresInSeconds.
 * @property {number | null} [expiresInSeconds] The lifetime in seconds. Not together with expiresAt.
 * @property {boolean | null} [test] True to create a test key. The default is the kind of the caller's key.
 */

/**
 * The body of `POST /v1/keys/{keyId}:rotate`.
 * @typedef {Object} RotateKey
 * @property {number | null} [overlapSeconds] Seconds for which the old key stays valid.
 * @property {string | null} [expiresAt] The expiry of the successor. Not together with expiresInSeconds.
 * @property {number | null} [expiresInSeconds] The lifetime of the successor in seconds. Not together with expiresAt.
 */

/**
 * The body of `POST /v1/secrets:rotate`.
 * @typedef {Object} RotateSecrets
 * @property {boolean | null} [revokeOld] True to end every link that was signed before, at once.
 */

/**
 * The body of `POST /v1/session`: a key, or the token of a link.
 * @typedef {{ key?: string | null, once?: string | null } & ({ key: string, once?: null } | { once: string, key?: null })} SignIn
 */

/**
 * The body of `POST /v1/session:link`.
 * @typedef {Object} WantedSessionLink
 * @property {string | null} [keyId] The key of the session; the caller's key by default. Another key of the tenant requires the scope keys:manage and all scopes of that key.
 */

export {};
