//! Interrupts: what a node may ask, what an answer must look like, and what is known of each one asked.

use holdpoint_ids::digest;
use serde_json::Value;

use crate::Via;
use crate::event::Event;
use crate::limits;
use crate::refusal::{Refusal, check_size};
use crate::{InterruptId, NodeId, Principal, Timestamp};

mod approval;
mod assignees;
mod clarification;
mod compiled;
mod conversation;
mod excerpt;
mod external_event;
mod governance;
mod grant;
pub(crate) mod low_confidence;
mod members;
mod people;
mod quorum;
mod request;

pub use assignees::Assignees;
pub use compiled::Compiled;
pub use external_event::ExternalEvent;
pub(crate) use governance::is_governed;
pub use grant::{GrantUse, covered_node};
pub use holdpoint_ids::Kind;
pub use low_confidence::{Decision, ESCALATION_THRESHOLD_DEFAULT, escalation_threshold};
pub use members::{GateOutputs, as_answer, repeats_answer, with_ignored};
pub use people::{
    AudienceRule, OPERATOR_APPROVAL, PEOPLE, find_named_people, find_unrestricted_audiences, is_host_name,
};
pub use quorum::Vote;
pub use request::{BadRequest, Request};

/// The profile of gates that only somebody with a key may answer.
pub const AUTH_REQUIRED: &str = "openwop-interrupt-auth-required";

/// Somebody's answer, before it is judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub value: Value,
    pub by: Principal,
    /// The host lets `by` answer in the names of others.
    pub acting_as: bool,
    /// There is a principal of the name in which it is answered. Says something where that is not the sender's own, or
    /// where it came over a link: whoever is only named could else take the name of a role.
    pub known: bool,
    /// It came over a signed link and not with a key.
    pub by_link: bool,
    /// Who made that link, and so says that `by` speaks.
    pub vouched_by: Option<String>,
    /// What `by` was shown, as [`Interrupt::digest`] has it.
    pub digest: Option<String>,
    /// What `by` calls the decision: told again under the same name, it is the same one.
    pub decision: Option<String>,
    /// The answer is repeated by a replay from the record of its source. It counts with other copied answers only.
    pub copied: bool,
    /// The credential that the answer was sent with.
    pub via: Option<Via>,
}

impl Answer {
    /// In one's own name, with a key.
    pub fn new(value: Value, by: Principal) -> Self {
        Self {
            value,
            by,
            acting_as: false,
            known: false,
            by_link: false,
            vouched_by: None,
            digest: None,
            decision: None,
            copied: false,
            via: None,
        }
    }

    /// Whom it names, if that is somebody else than its sender.
    pub fn names_another(&self) -> Option<&str> {
        let mut named =
            ["voter", "decidedBy"].into_iter().filter_map(|member| self.value.get(member)?.as_str());
        named.find(|name| *name != self.by.name)
    }
}

/// One interrupt of a run, as folded from its events.
#[derive(Clone, Debug, PartialEq)]
pub struct Interrupt {
    pub id: InterruptId,
    pub node: NodeId,
    /// The visit of the node that made the request, from 1.
    pub visit: u32,
    pub kind: Kind,
    pub key: String,
    pub data: Value,
    pub resume_schema: Option<Value>,
    pub timeout_ms: Option<u64>,
    /// Of the data as it was shown. Requests of older versions have none.
    pub digest: Option<String>,
    pub requested_at: Timestamp,
    /// From when its time counts: the request, or the fork that has taken it over from another run.
    pub counts_from: Timestamp,
    /// In the order in which they were cast, where several approvals are needed; the deciding one is the last.
    pub votes: Vec<Vote>,
    /// How often somebody said again what they had said.
    pub repeated: u32,
    /// How often somebody was turned away, as far as it was written down.
    pub denied: u32,
    /// What approvers wanted to know, in that order.
    pub asks: Vec<Ask>,
    /// What the last answer came to, if it decided nothing.
    pub heard: Option<Heard>,
    pub resolution: Option<Resolution>,
    /// In a copy: the interrupt was decided in the source run, so its grant belongs to that run.
    pub taken_over: bool,
    /// The effects that its grant was used for, in the order in which they began.
    pub uses: Vec<GrantUse>,
    /// The effect of `audience`: recorded by the version that started the run.
    pub audience: AudienceRule,
    pub(crate) compiled: Compiled,
}

/// What an answer comes to that decides nothing yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    Voted,
    /// The same voice said the same again.
    Repeated,
    /// The question's number.
    Asked(u32),
}

/// A question of an approver beside the decision, and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// From 1 in its interrupt.
    pub id: u32,
    pub question: String,
    pub by: String,
    /// Who asked in that name, where it was somebody else.
    pub acted_by: Option<String>,
    pub via: Option<Via>,
    pub at: Timestamp,
    pub reply: Option<Reply>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub text: String,
    pub by: String,
    pub at: Timestamp,
}

/// How an interrupt ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolution {
    Answered {
        value: Value,
        by: String,
        at: Timestamp,
        /// What whoever decided calls the decision.
        decision: Option<String>,
        via: Option<Via>,
    },
    TimedOut {
        at: Timestamp,
    },
}

impl Resolution {
    /// What an event says that ends an interrupt: an answer, or else that nobody answered.
    pub(crate) fn of(event: &Event, at: Timestamp) -> Self {
        let Event::InterruptResolved { value, by, decision, via, .. } = event else {
            return Self::TimedOut { at };
        };
        let (value, by, decision, via) = (value.clone(), by.clone(), decision.clone(), via.clone());
        Self::Answered { value, by, at, decision, via }
    }

    pub fn at(&self) -> Timestamp {
        match self {
            Self::Answered { at, .. } | Self::TimedOut { at } => *at,
        }
    }

    /// The credential that ended the interrupt. Answers that older versions recorded have none.
    pub fn via(&self) -> Option<Via> {
        match self {
            Self::Answered { via: Some(via), .. } => Some(via.clone()),
            Self::Answered { by, via: None, .. } => people::is_host_name(by).then(Via::host),
            Self::TimedOut { .. } => Some(Via::timeout()),
        }
    }
}

/// What an answer comes to.
#[derive(Debug)]
pub(crate) enum Judged {
    /// The interrupt is over.
    Decided {
        value: Value,
        by: String,
        /// The last vote as it was cast, if the outcome of all votes differs from it.
        vote: Option<Value>,
    },
    /// It counts, and others must still speak.
    Voted { value: Value, by: String },
    /// The same voice said the same again.
    Repeated { who: Who, action: String },
    /// Somebody wants to know something first.
    Asked { question: String, who: Who },
    /// A governed gate turns somebody away, and that is to be known.
    Denied { by: String, action: &'static str, reason: String },
}

/// Whose voice it is, and who spoke for them if they did not themselves.
#[derive(Debug)]
pub(crate) struct Who {
    pub by: String,
    pub acted_by: Option<String>,
}

impl Interrupt {
    pub fn is_open(&self) -> bool {
        self.resolution.is_none()
    }

    /// What was decided or voted under a name, and the names.
    pub fn decisions(&self) -> impl Iterator<Item = (&str, &Value)> {
        let votes = self.votes.iter().filter(|vote| !vote.copied);
        let votes = votes.filter_map(|vote| Some((vote.decision.as_deref()?, &vote.value)));
        let last = match &self.resolution {
            Some(Resolution::Answered { value, decision: Some(decision), .. }) => {
                let said = self.votes.last().map_or(value, |vote| &vote.value);
                Some((decision.as_str(), said))
            }
            Some(Resolution::Answered { .. } | Resolution::TimedOut { .. }) | None => None,
        };
        votes.chain(last)
    }

    /// Returns the recorded answer as its node reads it: without the members that were recorded as ignored.
    pub fn answer(&self) -> Option<Value> {
        let Some(Resolution::Answered { value, .. }) = &self.resolution else { return None };
        let mut value = value.clone();
        if let (Kind::Approval | Kind::Clarification, Value::Object(members)) = (self.kind, &mut value) {
            members.shift_remove(members::IGNORED);
        }
        Some(value)
    }

    pub fn expires_at(&self) -> Option<Timestamp> {
        self.timeout_ms.map(|ms| self.counts_from.plus_ms(ms))
    }

    /// Whether what is stored is still what was shown. Requests of older versions cannot tell.
    pub fn is_as_shown(&self) -> bool {
        self.digest.as_ref().is_none_or(|shown| *shown == digest(&self.data))
    }

    /// A signed link is not enough to answer it.
    pub fn needs_key(&self) -> bool {
        self.is_governed() || self.data.get("profile").and_then(Value::as_str) == Some(AUTH_REQUIRED)
    }

    /// It requires a role or a scope, has words of its own, and writes down whom it turns away.
    pub fn is_governed(&self) -> bool {
        self.kind == Kind::Approval && governance::is_governed(&self.data)
    }

    /// Whether `name` is listed where it may as well be that of a role or a group.
    pub fn lists_plainly(&self, name: &str) -> bool {
        self.heeds_people() && people::lists_plainly(&self.data, name)
    }

    /// How many must agree; 1 where nobody said otherwise.
    pub fn required_approvals(&self) -> u64 {
        quorum::Quorum::of(&self.data).required
    }

    /// One line for lists: what a person would call this interrupt.
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

    /// What an answer comes to, or why it does not count. The interrupt is open; the run is the wish of
    /// `requesters`.
    pub(crate) fn judge(
        &self,
        requesters: &[&str],
        answer: &Answer,
        now: Timestamp,
    ) -> Result<Judged, Refusal> {
        if answer.by_link && self.needs_key() {
            return Err(Refusal::KeyRequired);
        }
        let decider = match self.decider(requesters, answer) {
            Ok(decider) => decider,
            Err(refusal) => return self.turned_away(answer, refusal),
        };
        if answer.digest.is_some() && answer.digest != self.digest {
            return Err(Refusal::PayloadMismatch);
        }
        check_size("the resume value", &answer.value, limits::RESUME_VALUE_BYTES_MAX)?;
        let schemas = self.compiled.of(self)?;
        let by = decider.to_owned();
        let value = match self.kind {
            Kind::Approval => {
                let judged = approval::judge(self, answer, decider, now)?;
                // A question is no answer yet.
                if !matches!(judged, Judged::Asked { .. }) {
                    match self.is_governed() {
                        true => schemas.check_resume_value(&governance::in_decisions(&answer.value))?,
                        false => schemas.check_resume_value(&answer.value)?,
                    }
                }
                return Ok(judged);
            }
            Kind::Clarification => clarification::judge(&self.data, &answer.value, schemas)?,
            Kind::ExternalEvent => external_event::judge(&self.data, &answer.value)?,
            Kind::ConversationExchange => {
                schemas.check_outcome(&answer.value)?;
                answer.value.clone()
            }
            Kind::Custom | Kind::ConversationStart | Kind::ConversationClose | Kind::LowConfidence => {
                answer.value.clone()
            }
        };
        schemas.check_resume_value(&answer.value)?;
        let value = if self.heeds_people() { people::with_speaker(value, answer, decider) } else { value };
        Ok(Judged::Decided { value, by, vote: None })
    }

    /// That somebody may not decide is part of the story of a governed gate; of other gates it is only an answer.
    fn turned_away(&self, answer: &Answer, refusal: Refusal) -> Result<Judged, Refusal> {
        let about_people = matches!(
            refusal,
            Refusal::NotAuthorized(_)
                | Refusal::NotAnApprover(_)
                | Refusal::OwnRequest(_)
                | Refusal::MayNotActFor(_)
                | Refusal::UnknownName(_)
        );
        if !about_people || !self.is_governed() {
            return Err(refusal);
        }
        let (by, action) = (answer.by.name.clone(), governance::attempted(&answer.value));
        Ok(Judged::Denied { by, action, reason: refusal.to_string() })
    }

    /// In whose name the answer counts.
    fn decider<'a>(&self, requesters: &[&str], answer: &'a Answer) -> Result<&'a str, Refusal> {
        if !self.heeds_people() {
            return Ok(&answer.by.name);
        }
        let decider = people::decider(answer)?;
        people::check(self, requesters, answer, decider)?;
        Ok(decider)
    }
}
