//! The limits of the core. A value beyond a limit is refused with a message and never truncated.

/// Characters of a run, tenant or workflow id.
pub const ID_CHARS_MAX: usize = 128;
/// Characters of the id of a thread that an agent works in.
pub const THREAD_CHARS_MAX: usize = 200;
/// Characters of the name of a graph, of a state key and of the id of a resume.
pub const STATE_KEY_CHARS_MAX: usize = 256;
/// Bytes of the id of a dispatch or of a dispatch thread. Index entries of PostgreSQL have at most 2704 bytes: the id
/// of a tenant, a thread and a deduplication key must fit into one.
pub const DISPATCH_ID_BYTES_MAX: usize = 1024;
/// Bytes of a deduplication key: the id of a dispatch with a prefix.
pub const DEDUPE_KEY_BYTES_MAX: usize = 1040;
/// Characters of a deduplication key that a caller chooses.
pub const DISPATCH_KEY_CHARS_MAX: usize = 128;
/// Milliseconds by which a caller can delay an activation: a year.
pub const DISPATCH_DELAY_MS_MAX: u64 = 365 * 24 * 60 * 60 * 1000;
/// Attempts of a dispatch.
pub const DISPATCH_ATTEMPTS_MAX: u32 = 100;
/// Bytes of one request body.
pub const REQUEST_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of an interrupt's `data`, as compact JSON.
pub const INTERRUPT_DATA_BYTES_MAX: usize = 256 * 1024;
/// Bytes of the metadata that a client sends with an answer, as compact JSON.
pub const CLIENT_METADATA_BYTES_MAX: usize = 8 * 1024;
/// Bytes of the content of an activity, as compact JSON.
pub const ACTIVITY_BYTES_MAX: usize = 16 * 1024;
/// Characters of the id and of the type of an activity.
pub const ACTIVITY_CHARS_MAX: usize = 128;
/// Reports of activities in one visit of a node. Further ones are dropped.
pub const ACTIVITIES_MAX: u32 = 1000;
/// Bytes of a resume value, as compact JSON.
pub const RESUME_VALUE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a schema that a caller supplies.
pub const SCHEMA_BYTES_MAX: usize = 64 * 1024;
/// Nesting levels of a schema that a caller supplies.
pub const SCHEMA_LEVELS_MAX: usize = 32;
/// Subschemas of a schema after each reference is replaced by its target.
pub const SCHEMA_UNFOLDED_MAX: u64 = 10_000;
/// Bytes of the compiled patterns of a schema.
pub const SCHEMA_PATTERN_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of the compiled patterns of all schemas of a definition.
pub const DEFINITION_PATTERN_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Work of validating one value against a schema, in evaluations of a subschema. This is the part that does not depend
/// on the size of the value.
pub const SCHEMA_WORK_MAX: u64 = 200_000;
/// Additional work for each part of the value.
pub const SCHEMA_WORK_PER_VALUE_MAX: u64 = 16;
/// The maximum work for the largest values.
pub const SCHEMA_WORK_CEILING: u64 = 2_000_000;
/// Nesting levels of evaluations, which bound the stack.
pub const SCHEMA_EVALUATION_LEVELS_MAX: usize = 400;
/// Required approvals of one gate.
pub const REQUIRED_APPROVALS_MAX: u64 = 100;
/// Recorded repetitions of votes of one gate.
pub const REPEATED_VOTES_MAX: u32 = 100;
/// Characters of the name of a role, a scope or a gate.
pub const ROLE_CHARS_MAX: usize = 256;
/// Recorded denials of a governed gate.
pub const DENIALS_MAX: u32 = 100;
/// Side questions of one interrupt.
pub const ASKS_MAX: usize = 100;
/// Characters of a side question or of its answer.
pub const ASK_CHARS_MAX: usize = 4096;
/// Characters of the reason for a pause or a cancellation.
pub const REASON_CHARS_MAX: usize = 4096;
/// Characters of a `conversationId` in a request.
pub const CONVERSATION_ID_CHARS_MAX: usize = 256;
/// Conversations of a run.
pub const CONVERSATIONS_MAX: usize = 1000;
/// The highest `turnIndex` of a conversation.
pub const TURNS_MAX: u64 = 1_000_000;
/// Characters of the type of an external event.
pub const EVENT_TYPE_CHARS_MAX: usize = 256;
/// Characters of the id of an external event.
pub const EVENT_ID_CHARS_MAX: usize = 256;
/// Members of the correlation of an event or an interrupt.
pub const CORRELATION_MEMBERS_MAX: usize = 32;
/// Bytes of the correlation of an event, as compact JSON.
pub const CORRELATION_BYTES_MAX: usize = 8 * 1024;
/// Bytes of the payload of an event, as compact JSON. Together with the id of the event it fits into a resume value.
pub const EVENT_PAYLOAD_BYTES_MAX: usize = 60 * 1024;
/// Tool calls in one reply of a model.
pub const CALLS_PER_REPLY_MAX: usize = 64;
/// Messages of one agent node in a run.
pub const MESSAGES_MAX: usize = 2000;
/// The minimum number of characters of the id of an agent.
pub const AGENT_ID_CHARS_MIN: usize = 3;
/// Characters of the id of an agent.
pub const AGENT_ID_CHARS_MAX: usize = 256;
/// Characters of the id of a registered agent. With a prefix, it is the id of a workflow.
pub const AGENT_NAME_CHARS_MAX: usize = 96;
/// Characters of an interrupt key.
pub const INTERRUPT_KEY_CHARS_MAX: usize = 256;
/// Tags of a run.
pub const TAGS_MAX: usize = 100;
/// Characters of a tag.
pub const TAG_CHARS_MAX: usize = 256;
/// Bytes of the metadata of a run, as compact JSON.
pub const METADATA_BYTES_MAX: usize = 8192;
/// Nesting levels of the metadata of a run.
pub const METADATA_LEVELS_MAX: usize = 4;
/// Nodes of a workflow.
pub const NODES_MAX: usize = 1000;
/// Edges of a workflow.
pub const EDGES_MAX: usize = 4000;
/// Variables of a workflow.
pub const VARIABLES_MAX: usize = 1000;
/// Bytes of an expression.
pub const EXPRESSION_BYTES_MAX: usize = 4096;
/// Nesting levels of an expression. The parser and the evaluation recurse, so this limit bounds the stack.
pub const EXPRESSION_LEVELS_MAX: usize = 64;
/// Bytes of a string that an expression builds.
pub const EXPRESSION_STRING_BYTES_MAX: usize = 1024 * 1024;
/// Conditions of type regex in a workflow. With [`PATTERN_BYTES_MAX`], this limit bounds the memory of a workflow.
pub const PATTERNS_MAX: usize = 32;
/// Bytes of the compiled pattern of a condition.
pub const PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// Channels of a workflow.
pub const CHANNELS_MAX: usize = 1000;
/// Milliseconds of the `ttlMs` of a channel: a year.
pub const CHANNEL_TTL_MS_MAX: u64 = 365 * 24 * 60 * 60 * 1000;
/// Executions of nodes in one run. A caller may set a lower limit.
pub const NODE_EXECUTIONS_MAX: u64 = 1000;
/// Iterations of one loop, if the workflow does not set a limit.
pub const LOOPBACK_ITERATIONS_DEFAULT: u32 = 5;
/// Nodes with effects of one run that execute at a time, if the workflow does not set a limit.
pub const PARALLEL_NODES_DEFAULT: u32 = 8;
/// Nodes with effects of one run that execute at a time, at most.
pub const PARALLEL_NODES_MAX: u32 = 64;
/// Retries of a node in one visit.
pub const RETRIES_MAX: u32 = 100;
/// The delay before the first retry of a node. Each further delay is twice as long.
pub const RETRY_DELAY_MS: u64 = 1000;
/// The longest delay before a retry of a node.
pub const RETRY_DELAY_MS_MAX: u64 = 60_000;
/// Milliseconds of a sleep until an instant: ten years.
pub const SLEEP_MS_MAX: u64 = 3652 * 24 * 60 * 60 * 1000;
/// Nesting levels of child runs.
pub const CHILD_DEPTH_MAX: u32 = 16;
/// Bytes of JSON that nodes and answers may add to one run, such as outputs, step results, payloads and answers.
pub const RUN_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Interrupts of one run.
pub const INTERRUPTS_PER_RUN_MAX: usize = 10_000;
/// Bytes of one recorded step result, as compact JSON.
pub const STEP_RESULT_BYTES_MAX: usize = 256 * 1024;
/// Bytes of the result of a tool call that is a list of content parts, as compact JSON.
pub const CONTENT_PARTS_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of one node's outputs, as compact JSON.
pub const NODE_OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// The maximum lifetime of a link in milliseconds: thirty days.
pub const LINK_LIFE_MS_MAX: u64 = 30 * 24 * 3_600_000;
/// Webhooks of a tenant.
pub const WEBHOOKS_PER_TENANT_MAX: u64 = 1000;
/// Characters of the URL of a webhook.
pub const WEBHOOK_URL_CHARS_MAX: usize = 2048;
/// Attempts of one delivery.
pub const WEBHOOK_ATTEMPTS_MAX: u32 = 100;
/// Milliseconds between two attempts of a delivery: a day.
pub const WEBHOOK_WAIT_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// The default time in seconds for which deliveries are signed with two secrets after a rotation.
pub const WEBHOOK_OVERLAP_SECONDS_DEFAULT: u64 = 24 * 60 * 60;
/// The maximum of that time.
pub const WEBHOOK_OVERLAP_SECONDS_MAX: u64 = 30 * 24 * 60 * 60;
/// Triggers of a tenant.
pub const TRIGGERS_PER_TENANT_MAX: u64 = 500;
/// Active triggers of a tenant for one type of event.
pub const TRIGGERS_PER_EVENT_MAX: usize = 100;
/// Characters of the cron expression of a trigger.
pub const TRIGGER_CRON_CHARS_MAX: usize = 256;
/// Bytes of the filter and of the input mapping of a trigger, as compact JSON, each.
pub const TRIGGER_MAPPING_BYTES_MAX: usize = 16 * 1024;
/// Nesting levels of the input mapping of a trigger.
pub const TRIGGER_MAPPING_LEVELS_MAX: usize = 16;
/// Bytes of the inputs that the input mapping of a trigger makes of an occurrence, as compact JSON.
pub const TRIGGER_INPUTS_BYTES_MAX: usize = 256 * 1024;
/// Missed instants of a schedule that start runs after an outage.
pub const TRIGGER_MISSED_MAX: usize = 100;
/// Deliveries of one trigger that have not ended. Further ones are dropped.
pub const TRIGGER_DELIVERIES_OPEN_MAX: u64 = 1000;
