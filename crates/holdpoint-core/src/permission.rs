//! The gate before an agent's tool call: may it be made, must a person be asked, or is it refused. Judges names and
//! arguments against rules that were parsed before; keeps no approvals, asks nobody and calls nothing.
//!
//! One principle decides every doubt: an `allow` is read strictly, a `deny` and an `ask` are read broadly. So whatever
//! an agent puts into its arguments, the unclear case ends with a person.

mod condition;
mod digest;
mod judge;
mod path;
mod pattern;
mod rule;
mod set;
mod specificity;
mod text;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use digest::call_digest;
pub use holdpoint_ids::Behaviour;
pub use judge::{Considered, RuleNote, Verdict};
pub use pattern::Glob;
pub use rule::Rule;
pub use set::PermissionSet;
pub use specificity::Specificity;

/// Rules of a set, those added at run time included.
pub const RULES_MAX: usize = 500;
/// Conditions of a rule.
pub const CONDITIONS_MAX: usize = 16;
/// Characters of one glob or regular expression, for tools and for arguments.
pub const PATTERN_CHARS_MAX: usize = 512;
/// Regular expressions of a set, and bytes of each when compiled: together they bound its memory.
pub const REGEXES_MAX: usize = 64;
pub const REGEX_BYTES_MAX: usize = 256 * 1024;
/// Steps of a path into the arguments, and characters of all its names.
pub const PATH_STEPS_MAX: usize = 16;
pub const PATH_CHARS_MAX: usize = 256;
/// Bytes of a value that an argument is to equal, as compact JSON.
pub const VALUE_BYTES_MAX: usize = 4096;
/// Characters of a rule's `reason` or `source`.
pub const NOTE_CHARS_MAX: usize = 1024;

/// How far a rule was meant to reach by whoever gave it. Whoever keeps rules goes by it when they put a set together;
/// judging does not look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    Once,
    Session,
    Thread,
    Project,
    User,
}

impl Scope {
    pub const ALL: [Self; 5] = [Self::Once, Self::Session, Self::Thread, Self::Project, Self::User];

    pub fn name(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Session => "session",
            Self::Thread => "thread",
            Self::Project => "project",
            Self::User => "user",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// What is wrong with a rule set, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize)]
#[error("{field}: {message}")]
pub struct Flaw {
    /// The member, as a path from the top of the set: `rules[3].when[0]`.
    pub field: String,
    pub message: String,
}

impl Flaw {
    fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// Whether doubt speaks for a match or against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// Nothing matches but what surely is meant.
    Strict,
    /// Everything matches that may be meant.
    Broad,
}

impl From<Behaviour> for Reading {
    fn from(behaviour: Behaviour) -> Self {
        match behaviour {
            Behaviour::Allow => Self::Strict,
            Behaviour::Ask | Behaviour::Deny => Self::Broad,
        }
    }
}
