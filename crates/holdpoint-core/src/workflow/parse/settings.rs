//! Parses the settings of a workflow and of a node, and the schema of the options of a run. Unknown settings are
//! ignored, because editors store settings of their own.

use serde_json::{Map, Value};

use super::DefinitionReader;
use crate::NodeId;
use crate::limits;
use crate::schema::Schema;
use crate::workflow::Settings;

const LOG_LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];

/// Returns the compliance class. Every value is accepted, because clients only display it.
pub(super) fn compliance_class(top: &Map<String, Value>) -> Option<String> {
    top.get("metadata")?.get("complianceClass")?.as_str().map(str::to_owned)
}

impl DefinitionReader {
    pub(super) fn settings(&mut self, top: &Map<String, Value>) -> Settings {
        let empty = Map::new();
        let map = top.get("settings").and_then(Value::as_object).unwrap_or(&empty);
        let timeout_ms = self.count(None, "settings.", map, "timeout", u64::MAX);
        let max_retries = self.count(None, "settings.", map, "maxRetries", u64::from(limits::RETRIES_MAX));
        let back = self.count(None, "settings.", map, "maxLoopbackIterations", limits::NODE_EXECUTIONS_MAX);
        let most = u64::from(limits::PARALLEL_NODES_MAX);
        let parallel = self.count(None, "settings.", map, "maxParallelNodes", most);
        if parallel == Some(0) {
            self.flaw(None, "settings.maxParallelNodes", "must be at least 1".to_owned());
        }
        if let Some(level) = map.get("logLevel")
            && !level.as_str().is_some_and(|level| LOG_LEVELS.contains(&level))
        {
            let message = format!("must be one of {}", LOG_LEVELS.join(", "));
            self.flaw(None, "settings.logLevel", message);
        }
        Settings {
            timeout_ms: timeout_ms.filter(|ms| *ms > 0),
            max_retries: max_retries.map_or(0, to_u32),
            max_loopback_iterations: back.map_or(limits::LOOPBACK_ITERATIONS_DEFAULT, to_u32),
            max_parallel_nodes: parallel.map_or(limits::PARALLEL_NODES_DEFAULT, to_u32),
        }
    }

    /// Returns the number of retries that a node sets.
    pub(super) fn retries(&mut self, node: &NodeId, map: &Map<String, Value>) -> Option<u32> {
        let settings = map.get("settings")?.as_object()?;
        let max = u64::from(limits::RETRIES_MAX);
        self.count(Some(node), "settings.", settings, "maxRetries", max).map(to_u32)
    }

    /// Returns whether the effects of a node need the grants of the gates before it. `grant: "none"` opts out.
    pub(super) fn needs_grant(&mut self, node: &NodeId, map: &Map<String, Value>) -> bool {
        match map.get("grant") {
            None => true,
            Some(value) if value == "none" => false,
            Some(_) => {
                self.flaw(
                    Some(node),
                    "grant",
                    "must be \"none\"; leave it out to use the grants of the gates before",
                );
                true
            }
        }
    }

    pub(super) fn configurable_schema(&mut self, top: &Map<String, Value>) -> Option<Schema> {
        let schema = top.get("configurableSchema").filter(|schema| !schema.is_null())?;
        (self.compile_schema)(schema).map_err(|why| self.flaw(None, "configurableSchema", why)).ok()
    }

    /// Reads an optional whole number from 0 to `max`.
    pub(super) fn count(
        &mut self,
        node: Option<&NodeId>,
        at: &str,
        map: &Map<String, Value>,
        name: &str,
        max: u64,
    ) -> Option<u64> {
        let value = map.get(name).filter(|value| !value.is_null())?;
        let count = value.as_u64().filter(|count| *count <= max);
        if count.is_none() {
            let bound = if max == u64::MAX { "0 or more".to_owned() } else { format!("from 0 to {max}") };
            self.flaw(node, format!("{at}{name}"), format!("must be a whole number, {bound}"));
        }
        count
    }
}

fn to_u32(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
