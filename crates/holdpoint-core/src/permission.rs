//! Permission rules for tool calls. A set of rules allows, denies or asks about a call by its tool and arguments. The
//! module does no I/O and stores no approvals.
//!
//! Ambiguous cases are decided by one principle: an `allow` matches strictly, a `deny` and an `ask` match broadly. So
//! an agent cannot choose arguments that avoid an approval.

mod argument_path;
mod condition;
mod digest;
mod evaluation;
mod pattern;
mod rule;
mod set;
mod short_form;
mod specificity;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use digest::call_digest;
pub use evaluation::{OverriddenRule, PermissionDecision, RuleNote};
pub use holdpoint_ids::Behaviour;
pub use pattern::Glob;
pub use rule::Rule;
pub use set::PermissionSet;
pub use specificity::Specificity;

/// The maximum number of rules of a set, including those added at run time.
pub const RULES_MAX: usize = 500;
/// The maximum number of conditions of a rule.
pub const CONDITIONS_MAX: usize = 16;
/// The maximum number of characters of one glob or regular expression, for tools and for arguments.
pub const PATTERN_CHARS_MAX: usize = 512;
/// The maximum number of regular expressions of a set. With [`REGEX_BYTES_MAX`] it limits the memory of a set.
pub const REGEXES_MAX: usize = 64;
/// The maximum size of a compiled regular expression.
pub const REGEX_BYTES_MAX: usize = 256 * 1024;
/// The maximum number of steps of a path into the arguments.
pub const PATH_STEPS_MAX: usize = 16;
/// The maximum number of characters of all names of a path.
pub const PATH_CHARS_MAX: usize = 256;
/// The maximum size of the value of an equality, as compact JSON.
pub const VALUE_BYTES_MAX: usize = 4096;
/// The maximum number of characters of the `reason` or `source` of a rule.
pub const NOTE_CHARS_MAX: usize = 1024;

/// The intended lifetime of a rule, for the author of a set. The evaluation ignores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleScope {
    /// One call.
    Once,
    /// The session.
    Session,
    /// The thread.
    Thread,
    /// The project.
    Project,
    /// All calls of the user.
    User,
}

impl RuleScope {
    /// All scopes.
    pub const ALL: [Self; 5] = [Self::Once, Self::Session, Self::Thread, Self::Project, Self::User];

    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Thread => "thread",
            Self::Project => "project",
            Self::User => "user",
        }
    }

    /// Returns the scope with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// An error in a rule or a set of rules.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize)]
#[error("{field}: {message}")]
pub struct RuleError {
    /// The path of the invalid member: `rules[3].when[0]`.
    pub field: String,
    /// The description of the error.
    pub message: String,
}

impl RuleError {
    fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// The treatment of values for which a match is possible but not certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatchMode {
    /// Only certain matches count.
    Strict,
    /// Possible matches count.
    Broad,
}

impl From<Behaviour> for MatchMode {
    fn from(behaviour: Behaviour) -> Self {
        match behaviour {
            Behaviour::Allow => Self::Strict,
            Behaviour::Ask | Behaviour::Deny => Self::Broad,
        }
    }
}
