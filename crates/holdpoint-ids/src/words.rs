//! Enums that are words on the wire and in the log.

use serde::{Deserialize, Serialize};

/// Declares an enum of words, with its form on the wire and in the database.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$of])* #[serde(rename = $word)] $variant),+
        }

        impl $name {
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }

            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|known| known.as_str() == text)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string", "enum": [$($word),+]})
            }
        }
    };
}
pub(crate) use words;

/// The state of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HoldStatus {
    Waiting,
    Approved,
    Rejected,
    Answered,
    TimedOut,
    Cancelled,
}

/// The status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "RunStatus"))]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    Pending,
    Running,
    Paused,
    WaitingApproval,
    WaitingInput,
    WaitingExternal,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    pub const ALL: [Status; 9] = [
        Self::Pending,
        Self::Running,
        Self::Paused,
        Self::WaitingApproval,
        Self::WaitingInput,
        Self::WaitingExternal,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Returns whether the run has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Returns whether the run waits for an answer or an event.
    pub fn is_waiting(self) -> bool {
        matches!(self, Self::WaitingApproval | Self::WaitingInput | Self::WaitingExternal)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::WaitingApproval => "waiting-approval",
            Self::WaitingInput => "waiting-input",
            Self::WaitingExternal => "waiting-external",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// The status of a node, without what the node waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "NodeStatus"))]
#[serde(rename_all = "lowercase")]
pub enum NodeStatusName {
    Pending,
    Running,
    Suspended,
    Sleeping,
    Awaiting,
    Completed,
    Failed,
    Skipped,
}

/// The treatment of a running node when its run is paused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "DrainPolicy"))]
#[serde(rename_all = "kebab-case")]
pub enum Drain {
    Immediate,
    #[default]
    DrainCurrentNode,
}

/// The effect of an external event when it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum EventReception {
    /// The event resolved an interrupt.
    Matched,
    /// No interrupt waits for the event yet. The first that does receives it.
    Kept,
    /// No interrupt waits for the event, and events are not kept.
    Ignored,
}

/// The relation of a fork to the record of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ForkMode {
    Replay,
    Branch,
}

words! {
    /// The state of a dispatch in its queue.
    RunDispatchStatus {
        Queued = "queued",
        Claimed = "claimed",
        Acked = "acked",
        Cancelled = "cancelled",
        Superseded = "superseded",
        DeadLetter = "dead_letter",
    }
}

impl RunDispatchStatus {
    /// Returns true if no worker touches the dispatch any more.
    pub fn is_terminal(self) -> bool {
        match self {
            Self::Queued | Self::Claimed => false,
            Self::Acked | Self::Cancelled | Self::Superseded | Self::DeadLetter => true,
        }
    }
}

/// A limit of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Cap {
    NodeExecutions,
    RunDuration,
    LoopIterations,
}

/// The rule that combines the writes to a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Reducer {
    Replace,
    Append,
    Merge,
    Counter,
    Votes,
    Feedback,
    Message,
}

impl Reducer {
    pub const ALL: [(&'static str, Reducer); 7] = [
        ("replace", Self::Replace),
        ("append", Self::Append),
        ("merge", Self::Merge),
        ("counter", Self::Counter),
        ("votes", Self::Votes),
        ("feedback", Self::Feedback),
        ("message", Self::Message),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, reducer)| *reducer == self).map_or("", |(name, _)| name)
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, reducer)| *reducer)
    }
}
