//! Parses the declared channels of a definition.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::DefinitionReader;
use crate::event::Reducer;
use crate::limits;
use crate::workflow::{Channel, Variable};

const MEMBERS: [&str; 10] = [
    "reducer",
    "schema",
    "schemaVersion",
    "compatibleWith",
    "default",
    "maxSize",
    "ttlMs",
    "options",
    "access",
    "sensitive",
];

impl DefinitionReader {
    pub(super) fn channels(
        &mut self,
        top: &Map<String, Value>,
        variables: &[Variable],
    ) -> BTreeMap<String, Channel> {
        let map = match top.get("channels") {
            None | Some(Value::Null) => return BTreeMap::new(),
            Some(Value::Object(map)) if map.len() <= limits::CHANNELS_MAX => map,
            Some(_) => {
                let message = format!("must be an object of at most {} channels", limits::CHANNELS_MAX);
                self.flaw(None, "channels", message);
                return BTreeMap::new();
            }
        };
        let mut channels = BTreeMap::new();
        for (name, value) in map {
            let at = format!("channels.{name}");
            let Some(members) = value.as_object() else {
                self.flaw(None, at, "must be an object");
                continue;
            };
            if variables.iter().any(|variable| variable.name == *name) {
                self.flaw(None, at.clone(), "is also the name of a variable; use another name");
            }
            channels.extend(self.channel(&format!("{at}."), members).map(|channel| (name.clone(), channel)));
        }
        channels
    }

    fn channel(&mut self, at: &str, map: &Map<String, Value>) -> Option<Channel> {
        self.known_members(None, at, map, &MEMBERS);
        let reducer =
            self.one_of(at, map, "reducer", &Reducer::ALL.map(|reducer| (reducer.as_str(), reducer)), None);
        let schema = map.get("schema").filter(|schema| !schema.is_null());
        let schema = schema.and_then(|schema| {
            (self.compile_schema)(schema).map_err(|why| self.flaw(None, format!("{at}schema"), why)).ok()
        });
        let max_size = self.count(None, at, map, "maxSize", u64::MAX).filter(|size| *size > 0);
        let ttl_ms = self.count(None, at, map, "ttlMs", limits::CHANNEL_TTL_MS_MAX).filter(|ms| *ms > 0);
        let schema_version = self.count(None, at, map, "schemaVersion", u64::MAX).unwrap_or(1);
        let sensitive = self.flag(None, at, map, "sensitive");
        let default = map.get("default").cloned();
        let (readers, writers) = self.access(at, map);
        let reducer = reducer?;
        Some(Channel {
            reducer,
            default,
            max_size,
            ttl_ms,
            sensitive,
            schema_version,
            schema,
            readers,
            writers,
        })
    }

    fn access(&mut self, at: &str, map: &Map<String, Value>) -> (Option<Vec<String>>, Option<Vec<String>>) {
        match map.get("access") {
            None | Some(Value::Null) => (None, None),
            Some(Value::String(word)) if word == "public" => (None, None),
            Some(Value::String(word)) if word == "private" => (Some(Vec::new()), Some(Vec::new())),
            Some(Value::Object(lists)) => {
                let at = format!("{at}access.");
                self.known_members(None, &at, lists, &["readers", "writers"]);
                (self.names(&at, lists, "readers"), self.names(&at, lists, "writers"))
            }
            Some(_) => {
                self.flaw(None, format!("{at}access"), "must be public, private or {readers, writers}");
                (None, None)
            }
        }
    }

    fn names(&mut self, at: &str, map: &Map<String, Value>, name: &str) -> Option<Vec<String>> {
        let value = map.get(name)?;
        let names = value.as_array().map(|list| list.iter().filter_map(Value::as_str).collect::<Vec<_>>());
        let whole = names.filter(|names| Some(names.len()) == value.as_array().map(Vec::len));
        if whole.is_none() {
            self.flaw(None, format!("{at}{name}"), "must be an array of node ids and types");
        }
        whole.map(|names| names.into_iter().map(str::to_owned).collect())
    }
}
