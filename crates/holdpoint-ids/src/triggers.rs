//! Enums of triggers. The states of triggers and of their deliveries are those of webhooks.

use crate::words::words;

words! {
    /// The source of the deliveries of a trigger.
    TriggerSourceName {
        /// Instants of a cron expression.
        Schedule = "schedule",
        /// External events.
        Event = "event",
    }
}

words! {
    /// The treatment of instants that passed while no server ran.
    MissedPolicy {
        /// No run starts for them.
        Skip = "skip",
        /// One run starts, for the last of them.
        Last = "last",
        /// A run starts for each of them, up to a limit.
        All = "all",
    }
}

words! {
    /// The treatment of an instant while a run of an earlier instant has not ended.
    OverlapPolicy {
        /// The run starts beside it.
        Allow = "allow",
        /// No run starts.
        Skip = "skip",
        /// The run starts after it has ended.
        Queue = "queue",
    }
}
