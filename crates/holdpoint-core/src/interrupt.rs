//! Interrupts: their requests, the evaluation of answers, and their folded state.

use std::sync::Arc;

use holdpoint_ids::digest;
use serde_json::{Map, Value};

use crate::Via;
use crate::limits;
use crate::refusal::{Refusal, check_size};
use crate::{InterruptId, NodeId, Principal, Timestamp};

mod answer_members;
mod approval;
mod assignee_rules;
mod assignees;
mod clarification;
mod compiled_schemas;
mod conversation;
mod excerpt;
mod external_event;
mod governance;
mod grant;
pub(crate) mod low_confidence;
mod quorum;
mod request;
mod resolution;

pub use answer_members::{GateOutputs, as_answer, repeats_answer, with_ignored};
pub use assignee_rules::{
    ASSIGNEE_MEMBERS, AudienceRule, OPERATOR_APPROVAL, find_named_assignees, find_unrestricted_audiences,
    is_host_name,
};
pub use assignees::Assignees;
pub use compiled_schemas::CompiledSchemas;
pub use external_event::ExternalEvent;
pub(crate) use governance::is_governed;
pub use grant::{GrantUse, covered_node};
pub use holdpoint_ids::Kind;
pub use low_confidence::{AgentDecision, ESCALATION_THRESHOLD_DEFAULT, escalation_threshold};
pub use quorum::Vote;
pub use request::{BadRequest, InterruptRequest};
pub use resolution::Resolution;

/// The profile of gates that can be answered only with an API key.
pub const AUTH_REQUIRED: &str = "openwop-interrupt-auth-required";

/// An answer to an interrupt, before it is evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The resume value.
    pub value: Value,
    /// The sender of the answer.
    pub by: Principal,
    /// True if `by` may answer in the name of another principal.
    pub acting_as: bool,
    /// True if a principal with the name of the decider exists. A decider that is not the sender, or that answers over
    /// a link, matches an entry without a prefix only if it exists: otherwise the entry may be the name of a role.
    pub decider_known: bool,
    /// True if the answer came over a signed link and not with an API key.
    pub by_link: bool,
    /// The principal that created the link and vouches for `by`.
    pub vouched_by: Option<String>,
    /// The digest of the payload that `by` was shown, in the form of [`Interrupt::digest`].
    pub digest: Option<String>,
    /// The decision id that the client chose. An answer with the same id is a repetition of the same decision.
    pub decision: Option<String>,
    /// True if a replay repeats the answer from the record of its source. It counts only with other copied answers.
    pub copied: bool,
    /// The credential that the answer was sent with.
    pub via: Option<Via>,
    /// Data that the client sent with the answer, such as the name of a user. It is recorded and never trusted.
    pub client_metadata: Map<String, Value>,
}

impl Answer {
    /// Creates an answer of a principal in its own name, with an API key.
    pub fn new(value: Value, by: Principal) -> Self {
        Self {
            value,
            by,
            acting_as: false,
            decider_known: false,
            by_link: false,
            vouched_by: None,
            digest: None,
            decision: None,
            copied: false,
            via: None,
            client_metadata: Map::new(),
        }
    }

    /// Returns the principal that the answer names, if it is not the sender.
    pub fn other_named_principal(&self) -> Option<&str> {
        let mut named =
            ["voter", "decidedBy"].into_iter().filter_map(|member| self.value.get(member)?.as_str());
        named.find(|name| *name != self.by.name)
    }
}

/// One interrupt of a run, as folded from its events.
#[derive(Clone, Debug, PartialEq)]
pub struct Interrupt {
    /// The id of the interrupt in its run.
    pub id: InterruptId,
    /// The node that made the request.
    pub node: NodeId,
    /// The visit of the node that made the request, from 1.
    pub visit: u32,
    /// The kind of the interrupt.
    pub kind: Kind,
    /// The key, which is unique in the run.
    pub key: String,
    /// The payload that is shown. Shared with the event.
    pub data: Arc<Value>,
    /// The JSON Schema of the answer.
    pub resume_schema: Option<Arc<Value>>,
    /// The time until the deadline.
    pub timeout_ms: Option<u64>,
    /// The digest of the data as it was shown. Requests of older versions have none.
    pub digest: Option<String>,
    /// The time of the request.
    pub requested_at: Timestamp,
    /// The time at which the timeout starts: the request, or the fork that copied the interrupt.
    pub counts_from: Timestamp,
    /// The votes in the order in which they were cast, if several approvals are required. The last one decides.
    pub votes: Vec<Vote>,
    /// The number of repeated votes.
    pub repeated: u32,
    /// The number of recorded denials.
    pub denied: u32,
    /// The side questions, in the order in which they were asked.
    pub side_questions: Vec<SideQuestion>,
    /// The result of the last answer that did not resolve the interrupt.
    pub undecided_answer: Option<UndecidedAnswer>,
    /// The end of the interrupt. None while it is open.
    pub resolution: Option<Resolution>,
    /// True if the interrupt was decided in the run that this one was copied from. The grant belongs to that run.
    pub taken_over: bool,
    /// The effects that its grant was used for, in the order in which they began.
    pub uses: Vec<GrantUse>,
    /// The rule for `audience`, which depends on the version that started the run.
    pub audience: AudienceRule,
    pub(crate) compiled: CompiledSchemas,
}

/// The result of an answer that does not resolve its interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndecidedAnswer {
    /// The answer is a vote, and the quorum is not reached.
    Voted,
    /// The answer repeats a vote.
    Repeated,
    /// The answer is the side question with this number.
    Asked(u32),
}

/// A side question of an approver and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideQuestion {
    /// The number of the question in its interrupt, from 1.
    pub id: u32,
    /// The text of the question.
    pub question: String,
    /// The approver.
    pub by: String,
    /// The sender, if it asked in the name of the approver.
    pub acted_by: Option<String>,
    /// The credential that the question was sent with.
    pub via: Option<Via>,
    /// The time of the question.
    pub at: Timestamp,
    /// The answer. None while the question is open.
    pub answer: Option<SideQuestionAnswer>,
}

/// The answer to a side question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideQuestionAnswer {
    /// The text of the answer.
    pub text: String,
    /// The principal that answered.
    pub by: String,
    /// The time of the answer.
    pub at: Timestamp,
}

/// The result of evaluating an answer.
#[derive(Debug)]
pub(crate) enum AnswerResult {
    /// The answer resolves the interrupt.
    Decided {
        value: Value,
        by: String,
        /// The last vote as it was cast, if the outcome of all votes differs from it.
        vote: Option<Value>,
    },
    /// The answer is a vote, and more votes are required.
    Voted { value: Value, by: String },
    /// The answer repeats a vote of the same principal.
    Repeated { who: AnswerAuthor, action: String },
    /// The answer is a side question.
    Asked { question: String, who: AnswerAuthor },
    /// A governed gate denies the answer and records the denial.
    Denied { by: String, action: &'static str, reason: String },
}

/// The principal in whose name an answer counts, and the sender if it is another principal.
#[derive(Debug)]
pub(crate) struct AnswerAuthor {
    pub by: String,
    pub acted_by: Option<String>,
}

impl Interrupt {
    /// Returns whether the interrupt is open.
    pub fn is_open(&self) -> bool {
        self.resolution.is_none()
    }

    /// Returns the decision ids of the interrupt with their answers.
    pub fn decisions(&self) -> impl Iterator<Item = (&str, &Value)> {
        let votes = self.votes.iter().filter(|vote| !vote.copied);
        let votes = votes.filter_map(|vote| Some((vote.decision.as_deref()?, &vote.value)));
        let last = match &self.resolution {
            Some(Resolution::Answered { value, decision: Some(decision), .. }) => {
                let answer = self.votes.last().map_or(value, |vote| &vote.value);
                Some((decision.as_str(), answer))
            }
            Some(Resolution::Answered { .. } | Resolution::TimedOut { .. }) | None => None,
        };
        votes.chain(last)
    }

    /// Returns the id of the decision that closed the interrupt.
    pub(crate) fn last_decision(&self) -> Option<&str> {
        match &self.resolution {
            Some(Resolution::Answered { decision, .. }) => decision.as_deref(),
            Some(Resolution::TimedOut { .. }) | None => None,
        }
    }

    /// Returns the recorded answer as its node reads it: without the members that were recorded as ignored.
    pub fn answer(&self) -> Option<Value> {
        let Some(Resolution::Answered { value, .. }) = &self.resolution else { return None };
        let mut value = value.clone();
        if let (Kind::Approval | Kind::Clarification, Value::Object(members)) = (self.kind, &mut value) {
            members.shift_remove(answer_members::IGNORED);
        }
        Some(value)
    }

    /// Returns the deadline of the interrupt.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.timeout_ms.map(|ms| self.counts_from.plus_ms(ms))
    }

    /// Returns whether the stored data matches the digest of the data that was shown. Returns true for requests of
    /// older versions, which have no digest.
    pub fn data_matches_digest(&self) -> bool {
        self.digest.as_ref().is_none_or(|shown| *shown == digest(&self.data))
    }

    /// Returns whether the interrupt can be answered only with an API key, not over a signed link.
    pub fn needs_key(&self) -> bool {
        self.is_governed() || self.data.get("profile").and_then(Value::as_str) == Some(AUTH_REQUIRED)
    }

    /// Returns whether the interrupt belongs to a governed gate: it requires a role or a scope, has its own decisions,
    /// and records denials.
    pub fn is_governed(&self) -> bool {
        self.kind == Kind::Approval && governance::is_governed(&self.data)
    }

    /// Returns whether `name` is listed without a prefix, so that it could also be the name of a role or a group.
    pub fn lists_without_prefix(&self, name: &str) -> bool {
        self.checks_assignees() && assignee_rules::lists_without_prefix(&self.data, name)
    }

    /// Returns the number of required approvals. The default is 1.
    pub fn required_approvals(&self) -> u64 {
        quorum::Quorum::of(&self.data).required
    }

    /// Returns the title of the interrupt for lists.
    pub fn title(&self) -> &str {
        let text = |pointer: &str| self.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        match self.kind {
            Kind::Approval | Kind::ConversationStart => text("/title"),
            Kind::Clarification => text("/questions/0/question"),
            Kind::ExternalEvent => text("/eventType"),
            Kind::Custom => text("/customKind"),
            Kind::ConversationExchange => text("/prompt"),
            Kind::ConversationClose => text("/conversationId"),
            Kind::LowConfidence => text("/agentId"),
        }
    }

    /// Evaluates an answer to an open interrupt. `requesters` are the principals that requested the run.
    pub(crate) fn evaluate_answer(
        &self,
        requesters: &[&str],
        answer: &Answer,
        now: Timestamp,
    ) -> Result<AnswerResult, Refusal> {
        if answer.by_link && self.needs_key() {
            return Err(Refusal::KeyRequired);
        }
        let decider = match self.decider(requesters, answer) {
            Ok(decider) => decider,
            Err(refusal) => return self.record_denial(answer, refusal),
        };
        if answer.digest.is_some() && answer.digest != self.digest {
            return Err(Refusal::PayloadMismatch);
        }
        check_size("the resume value", &answer.value, limits::RESUME_VALUE_BYTES_MAX)?;
        let schemas = self.compiled.of(self)?;
        let by = decider.to_owned();
        let value = match self.kind {
            Kind::Approval => {
                let result = approval::evaluate(self, answer, decider, now)?;
                // The resume schema does not apply to a side question.
                if !matches!(result, AnswerResult::Asked { .. }) {
                    match self.is_governed() {
                        true => schemas.check_resume_value(&governance::as_decision(&answer.value))?,
                        false => schemas.check_resume_value(&answer.value)?,
                    }
                }
                return Ok(result);
            }
            Kind::Clarification => clarification::evaluate(&self.data, &answer.value, schemas)?,
            Kind::ExternalEvent => external_event::evaluate(&self.data, &answer.value)?,
            Kind::ConversationExchange => {
                schemas.check_outcome(&answer.value)?;
                answer.value.clone()
            }
            Kind::Custom | Kind::ConversationStart | Kind::ConversationClose | Kind::LowConfidence => {
                answer.value.clone()
            }
        };
        schemas.check_resume_value(&answer.value)?;
        let value = if self.checks_assignees() {
            assignee_rules::with_acted_by(value, answer, decider)
        } else {
            value
        };
        Ok(AnswerResult::Decided { value, by, vote: None })
    }

    /// Converts a refusal that is caused by the principal into a denial that is recorded, if the gate is governed.
    fn record_denial(&self, answer: &Answer, refusal: Refusal) -> Result<AnswerResult, Refusal> {
        let is_about_principal = matches!(
            refusal,
            Refusal::NotAuthorized(_)
                | Refusal::NotAnApprover(_)
                | Refusal::OwnRequest(_)
                | Refusal::MayNotActFor(_)
                | Refusal::UnknownName(_)
        );
        if !is_about_principal || !self.is_governed() {
            return Err(refusal);
        }
        let (by, action) = (answer.by.name.clone(), governance::attempted_action(&answer.value));
        Ok(AnswerResult::Denied { by, action, reason: refusal.to_string() })
    }

    /// Returns the principal in whose name the answer counts.
    fn decider<'a>(&self, requesters: &[&str], answer: &'a Answer) -> Result<&'a str, Refusal> {
        if !self.checks_assignees() {
            return Ok(&answer.by.name);
        }
        let decider = assignee_rules::decider(answer)?;
        assignee_rules::check(self, requesters, answer, decider)?;
        Ok(decider)
    }
}
