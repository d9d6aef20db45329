//! The limits of the core. A value beyond a limit is refused with a message, never truncated.

/// Characters of a run, tenant or workflow id.
pub const ID_CHARS_MAX: usize = 128;
/// Characters of the id of a thread that an agent works in.
pub const THREAD_CHARS_MAX: usize = 200;
/// Characters of the name of a graph, of a state key and of the id of a resume.
pub const STATE_KEY_CHARS_MAX: usize = 256;
/// Bytes of the id of a dispatch or a thread, and of a dedupe key. Together with the id of a tenant they must fit into
/// one index entry of PostgreSQL, which has 2704 bytes. A key has room for a prefix before the id of a dispatch.
pub const DISPATCH_ID_BYTES_MAX: usize = 1024;
pub const DEDUPE_KEY_BYTES_MAX: usize = 1040;
/// Bytes of one request body.
pub const REQUEST_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of an interrupt's `data`, as compact JSON.
pub const INTERRUPT_DATA_BYTES_MAX: usize = 256 * 1024;
/// Bytes of a resume value, as compact JSON.
pub const RESUME_VALUE_BYTES_MAX: usize = 64 * 1024;
/// Bytes and nesting levels of a schema that a caller supplies, subschemas of it after all references are replaced by
/// their targets, and bytes of its compiled patterns.
pub const SCHEMA_BYTES_MAX: usize = 64 * 1024;
pub const SCHEMA_LEVELS_MAX: usize = 32;
pub const SCHEMA_UNFOLDED_MAX: u64 = 10_000;
pub const SCHEMA_PATTERN_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of the compiled patterns of all schemas of a definition.
pub const DEFINITION_PATTERN_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Work of validating one value against a schema: evaluations of a subschema, in total and for each part of the value;
/// and the nesting of evaluations, which bounds the stack.
pub const SCHEMA_WORK_MAX: u64 = 200_000;
pub const SCHEMA_WORK_PER_VALUE_MAX: u64 = 16;
/// The total for the largest values.
pub const SCHEMA_WORK_CEILING: u64 = 2_000_000;
pub const SCHEMA_EVALUATION_LEVELS_MAX: usize = 400;
/// Required approvals of one gate, and recorded repetitions of votes.
pub const REQUIRED_APPROVALS_MAX: u64 = 100;
pub const REPEATED_VOTES_MAX: u32 = 100;
/// Characters of the name of a role, a scope or a gate, and recorded denials of a governed gate.
pub const ROLE_CHARS_MAX: usize = 256;
pub const DENIALS_MAX: u32 = 100;
/// Side questions of one interrupt, and characters of a question or its answer.
pub const ASKS_MAX: usize = 100;
pub const ASK_CHARS_MAX: usize = 4096;
/// Characters of the reason for a pause or a cancellation.
pub const REASON_CHARS_MAX: usize = 4096;
/// Characters of a conversation's name, conversations of a run, and the highest number of a turn.
pub const CONVERSATION_ID_CHARS_MAX: usize = 256;
pub const CONVERSATIONS_MAX: usize = 1000;
pub const TURNS_MAX: u64 = 1_000_000;
/// Characters of an external event's type and of its id.
pub const EVENT_TYPE_CHARS_MAX: usize = 256;
pub const EVENT_ID_CHARS_MAX: usize = 256;
/// Members of the correlation of an event or an interrupt, and bytes of that of an event, as compact JSON.
pub const CORRELATION_MEMBERS_MAX: usize = 32;
pub const CORRELATION_BYTES_MAX: usize = 8 * 1024;
/// Bytes of the payload of an event, as compact JSON. Together with the id of the event it fits into a resume value.
pub const EVENT_PAYLOAD_BYTES_MAX: usize = 60 * 1024;
/// Tool calls in one reply of a model, and messages of one run of an agent.
pub const CALLS_PER_REPLY_MAX: usize = 64;
pub const MESSAGES_MAX: usize = 2000;
/// Characters of the id of an agent.
pub const AGENT_ID_CHARS_MIN: usize = 3;
pub const AGENT_ID_CHARS_MAX: usize = 256;
/// Characters of the id of a registered agent: with a prefix it is the id of a workflow.
pub const AGENT_NAME_CHARS_MAX: usize = 96;
/// Characters of an interrupt key.
pub const INTERRUPT_KEY_CHARS_MAX: usize = 256;
/// Tags of a run, and characters of each.
pub const TAGS_MAX: usize = 100;
pub const TAG_CHARS_MAX: usize = 256;
/// Bytes and nesting levels of a run's metadata.
pub const METADATA_BYTES_MAX: usize = 8192;
pub const METADATA_LEVELS_MAX: usize = 4;
/// Nodes, edges and variables of a workflow.
pub const NODES_MAX: usize = 1000;
pub const EDGES_MAX: usize = 4000;
pub const VARIABLES_MAX: usize = 1000;
/// Bytes and nesting levels of an expression, and bytes of a string that one builds. Parsing and evaluating recurse,
/// so the levels also bound the stack.
pub const EXPRESSION_BYTES_MAX: usize = 4096;
pub const EXPRESSION_LEVELS_MAX: usize = 64;
pub const EXPRESSION_STRING_BYTES_MAX: usize = 1024 * 1024;
/// Conditions of type regex in a workflow, and bytes of each compiled pattern: together they bound its memory.
pub const PATTERNS_MAX: usize = 32;
pub const PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// Channels of a workflow, and milliseconds that their entries may be kept: a year.
pub const CHANNELS_MAX: usize = 1000;
pub const CHANNEL_TTL_MS_MAX: u64 = 365 * 24 * 60 * 60 * 1000;
/// Executions of nodes in one run; a caller may set a lower limit.
pub const NODE_EXECUTIONS_MAX: u64 = 1000;
/// Iterations of one loop, if the workflow does not set a limit.
pub const LOOPBACK_ITERATIONS_DEFAULT: u32 = 5;
/// Retries of one execution of a node, and the waits between them.
pub const RETRIES_MAX: u32 = 100;
pub const RETRY_DELAY_MS: u64 = 1000;
pub const RETRY_DELAY_MS_MAX: u64 = 60_000;
/// Depth of child runs.
pub const CHILD_DEPTH_MAX: u32 = 16;
/// Bytes of JSON that nodes and answers may add to one run: outputs, step results, payloads and answers of interrupts.
pub const RUN_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Interrupts of one run.
pub const INTERRUPTS_PER_RUN_MAX: usize = 10_000;
/// Bytes of one recorded step result, as compact JSON.
pub const STEP_RESULT_BYTES_MAX: usize = 256 * 1024;
/// Bytes of one node's outputs, as compact JSON.
pub const NODE_OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// Milliseconds for which a link is valid at most: thirty days.
pub const LINK_LIFE_MS_MAX: u64 = 30 * 24 * 3_600_000;
/// Webhooks of a tenant, characters of a URL, attempts of one delivery, and milliseconds between two attempts: a day.
pub const WEBHOOKS_PER_TENANT_MAX: u64 = 1000;
pub const WEBHOOK_URL_CHARS_MAX: usize = 2048;
pub const WEBHOOK_ATTEMPTS_MAX: u32 = 100;
pub const WEBHOOK_WAIT_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// Seconds for which deliveries are signed with two secrets after a rotation: by default, and at most.
pub const WEBHOOK_OVERLAP_SECONDS_DEFAULT: u64 = 24 * 60 * 60;
pub const WEBHOOK_OVERLAP_SECONDS_MAX: u64 = 30 * 24 * 60 * 60;
