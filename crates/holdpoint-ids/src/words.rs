//! Enums whose variants are stable strings on the wire and in the log.

use serde::{Deserialize, Serialize};

/// Declares an enum with the string of each variant on the wire and in the database. `as "Name"` makes its schema a
/// component of the OpenAPI document; without it the schema is inline.
macro_rules! words {
    (@methods $name:ident { $($variant:ident = $word:literal),+ }) => {
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
    };
    ($(#[$doc:meta])* $name:ident as $schema:literal { $($(#[$of:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = $schema))]
        pub enum $name {
            $($(#[$of])* #[serde(rename = $word)] $variant),+
        }

        words!(@methods $name { $($variant = $word),+ });
    };
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$of])* #[serde(rename = $word)] $variant),+
        }

        words!(@methods $name { $($variant = $word),+ });

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

words! {
    /// The status of a run.
    Status as "RunStatus" {
        Pending = "pending",
        Running = "running",
        Paused = "paused",
        WaitingApproval = "waiting-approval",
        WaitingInput = "waiting-input",
        WaitingExternal = "waiting-external",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl Status {
    /// Returns whether the run has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Returns whether the run waits for an answer or an event.
    pub fn is_waiting(self) -> bool {
        matches!(self, Self::WaitingApproval | Self::WaitingInput | Self::WaitingExternal)
    }
}

/// The status of a node, without the reason of its wait.
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
    /// No interrupt waits for the event. It is stored for the first interrupt that will wait for it.
    Kept,
    /// No interrupt waits for the event, and the server does not store it.
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
    /// Returns true if no worker executes the dispatch any more.
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

words! {
    /// The rule that combines the writes to a channel.
    Reducer as "Reducer" {
        Replace = "replace",
        Append = "append",
        Merge = "merge",
        Counter = "counter",
        Votes = "votes",
        Feedback = "feedback",
        Message = "message",
    }
}
