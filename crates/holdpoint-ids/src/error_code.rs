//! The error codes of the HTTP API. The refusals of the core use them.

/// Declares the codes: the string on the wire, the statuses, and the meaning, which is the doc comment. Most codes have
/// one status. The first status is the default.
macro_rules! error_codes {
    ($($(#[doc = $meaning:literal])+ $name:ident = $word:literal $statuses:expr;)+) => {
        /// A stable code for programs. A code keeps its meaning in all versions. New versions may have new codes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[doc = $meaning])+ $name,)+
        }

        impl ErrorCode {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$name),+];
            /// All codes as they are on the wire.
            pub const WORDS: &[&str] = &[$($word),+];

            /// Returns the word on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }

            /// Parses the word on the wire. Returns None for a code that this version does not have.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == text)
            }

            /// Returns the HTTP statuses that a response with this code may have. The first one is the default.
            pub const fn statuses(self) -> &'static [u16] {
                match self {
                    $(Self::$name => &$statuses,)+
                }
            }

            /// Returns the meaning in a sentence.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($meaning),+).trim_ascii(),)+
                }
            }
        }
    };
}

error_codes! {
    /// The body, a parameter, a path segment, a header or a value in them is invalid.
    ValidationError = "validation_error" [400];
    /// The scheme, host or address of a webhook or callback URL is not allowed.
    WebhookUrlRejected = "webhook_url_rejected" [400];
    /// The workflow needs a feature that the operator has disabled.
    CapabilityRequired = "capability_required" [400];
    /// streamMode names an unknown mode, or combines the mode values with another mode.
    UnsupportedStreamMode = "unsupported_stream_mode" [400];
    /// The interrupt of a graph exceeds the size limit.
    InterruptTooLarge = "interrupt_too_large" [400];

    /// The request has no key or an unknown one, or a link where a key is required.
    Unauthenticated = "unauthenticated" [401];
    /// The key was revoked.
    KeyRevoked = "key_revoked" [401];
    /// The key has expired.
    KeyExpired = "key_expired" [401];
    /// The session was ended, has expired or does not exist.
    SessionEnded = "session_ended" [401];
    /// The sign-in link was used before, has expired or does not exist.
    LinkUsed = "link_used" [401];

    /// A request with a session cookie does not come from a page of this server.
    CsrfRefused = "csrf_refused" [403];
    /// The caller lacks a scope, or the rules of the interrupt, the key or the link do not permit the request.
    Forbidden = "forbidden" [403];

    /// The tenant has no such resource, or the server has no such path.
    NotFound = "not_found" [404];
    /// The tenant has no such webhook.
    SubscriptionNotFound = "subscription_not_found" [404];
    /// The run has no such interrupt, or the token of a link is unknown.
    InterruptNotFound = "interrupt_not_found" [404];
    /// The interrupt has no such side question.
    AskNotFound = "ask_not_found" [404];
    /// The server has no such graph.
    GraphNotFound = "graph_not_found" [404];
    /// The tenant has no graph with this state key.
    StateKeyNotFound = "state_key_not_found" [404];

    /// The path does not support the method. The Allow header lists the supported methods.
    MethodNotAllowed = "method_not_allowed" [405];

    /// The body did not arrive in time.
    RequestTimeout = "request_timeout" [408];

    /// The interrupt was answered before, its deadline has passed, or its run has ended.
    InterruptAlreadyResolved = "interrupt_already_resolved" [409];
    /// Several interrupts are open and the request names none of them.
    InterruptAmbiguous = "interrupt_ambiguous" [409];
    /// The digest in the request does not match the payload that was shown.
    PayloadMismatch = "payload_mismatch" [409];
    /// The principal has voted before with another answer.
    AlreadyVoted = "already_voted" [409];
    /// The side question was answered before.
    AskAlreadyAnswered = "ask_already_answered" [409];
    /// The interrupt has the maximum number of side questions.
    TooManyAsks = "too_many_asks" [409];
    /// The decisionId was used for another decision.
    DecisionConflict = "decision_conflict" [409];
    /// The agent has no such tool call, or the call is not in a state that permits the change.
    BadToolCall = "bad_tool_call" [409];
    /// The grant was used before, under another Idempotency-Key or by an effect of its run.
    GrantUsed = "grant_used" [409];
    /// The grant belongs to the run that this run was copied from.
    GrantNotTransferable = "grant_not_transferable" [409];
    /// The decision does not cover the effect.
    GrantNotCovered = "grant_not_covered" [409];
    /// The eventId was used for another event.
    EventIdConflict = "event_id_conflict" [409];
    /// Another request with the same Idempotency-Key was executed first.
    IdempotencyInFlight = "idempotency_in_flight" [409];
    /// The Idempotency-Key was used for a request with another body.
    IdempotencyKeyMismatch = "idempotency_key_mismatch" [409];
    /// X-Dedup is enforce, and another run with this scopeId is unfinished.
    RunAlreadyActive = "run_already_active" [409];
    /// The run was started before.
    RunAlreadyStarted = "run_already_started" [409];
    /// The run has ended.
    RunFinished = "run_finished" [409];
    /// The status of the run does not permit the request.
    WrongState = "wrong_state" [409];
    /// The run has not started this child run.
    ChildNotFound = "child_not_found" [409];
    /// The state of the node does not permit the command.
    NodeNotRunning = "node_not_running" [409];
    /// The deadline has not passed yet.
    NotDue = "not_due" [409];
    /// The request creates a test key for a tenant with live keys, or a live key for a tenant with test keys.
    KeyKindMismatch = "key_kind_mismatch" [409];
    /// The key was revoked or has expired and cannot be rotated.
    KeyEnded = "key_ended" [409];
    /// Another run of the thread is unfinished.
    ThreadBusy = "thread_busy" [409];
    /// A worker holds the dispatch. Cancel its run instead.
    DispatchClaimed = "dispatch_claimed" [409];
    /// The dispatch has ended.
    DispatchEnded = "dispatch_ended" [409];
    /// The dispatch is not a dead letter.
    DispatchNotDead = "dispatch_not_dead" [409];
    /// A dispatch with this id exists.
    DispatchExists = "dispatch_exists" [409];
    /// Another dispatch has the same deduplication key.
    DispatchKeyInUse = "dispatch_key_in_use" [409];
    /// The worker no longer holds the claim of the dispatch.
    DispatchNotHeld = "dispatch_not_held" [409];
    /// The dispatch belongs to an earlier epoch of its thread.
    DispatchSuperseded = "dispatch_superseded" [409];
    /// The row has changed since it was read.
    VersionConflict = "version_conflict" [409];
    /// The tenant has the maximum number of webhooks.
    TooManyWebhooks = "too_many_webhooks" [409];
    /// The tenant has the maximum number of triggers.
    TooManyTriggers = "too_many_triggers" [409];
    /// The state of the webhook, the trigger or the delivery does not permit the request.
    WrongSubscriptionState = "wrong_subscription_state" [409];
    /// Another graph of the tenant has this state key.
    StateKeyInUse = "state_key_in_use" [409];
    /// Another answer to the graph is being processed.
    ResumeInFlight = "resume_in_flight" [409];
    /// The graph has ended.
    GraphEnded = "graph_ended" [409];
    /// The graph of the stateKey has ended, and the request for its next turn has no turnId.
    TurnIdRequired = "turn_id_required" [409];
    /// The turnId was used for another input.
    TurnIdConflict = "turn_id_conflict" [409];
    /// A turn of the stateKey executes.
    TurnInFlight = "turn_in_flight" [409];
    /// The last turn of the stateKey waits for an answer.
    TurnNeedsInput = "turn_needs_input" [409];
    /// The stateKey has the maximum number of turns.
    TooManyTurns = "too_many_turns" [409];
    /// The conversation of the stateKey was deleted or has expired.
    ConversationEnded = "conversation_ended" [409];
    /// The resumeId was used for another value.
    ResumeIdConflict = "resume_id_conflict" [409];
    /// The graph does not wait for the interrupt in the request but for another one.
    InterruptChanged = "interrupt_changed" [409];

    /// The link, or the interrupt that it is for, has expired.
    InterruptExpired = "interrupt_expired" [410];
    /// The key that created the link was revoked or has expired.
    LinkRevoked = "link_revoked" [410];
    /// The run was cancelled together with the run that started it.
    InterruptGone = "interrupt_gone" [410];

    /// The body or a value in it exceeds its limit.
    PayloadTooLarge = "payload_too_large" [413];

    /// The run was cancelled while the interrupt was open. The status is 409 on the older path of approvals.
    InterruptCancelled = "interrupt_cancelled" [422, 409];
    /// The event does not match the one that the interrupt waits for.
    CorrelationMismatch = "correlation_mismatch" [422];
    /// fromSeq is beyond the end of the log.
    BeyondLog = "beyond_log" [422];
    /// The ids of the run and the node are too long for the URL of a link.
    LinkTooLong = "link_too_long" [422];

    /// The tenant has used up a quota. The status is 422 if waiting does not help.
    QuotaExceeded = "quota_exceeded" [429, 422];
    /// The tenant has the maximum number of stored events that no run waits for.
    TooMany = "too_many" [429];
    /// The key, the link or the address sends too many requests.
    RateLimited = "rate_limited" [429];

    /// The server failed. Its log has details under the correlation id.
    InternalError = "internal_error" [500];

    /// Too many changes wait for the database, or the run changes too often. Retry.
    Overloaded = "overloaded" [503];
    /// The database is unavailable. Retry.
    DatabaseUnavailable = "database_unavailable" [503];
    /// The connection to the database was lost during a commit. The change may be stored or not.
    CommitUnknown = "commit_unknown" [503];
    /// The server is shutting down.
    ShuttingDown = "shutting_down" [503];
    /// The server is not ready. Only /readyz has this code.
    NotReady = "not_ready" [503];
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
