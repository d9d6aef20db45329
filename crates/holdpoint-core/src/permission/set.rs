//! A set of rules and the default: read from JSON with every flaw, and put together with rules given at run time.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::{Behaviour, Flaw, REGEXES_MAX, RULES_MAX, Rule};

/// Compiled once, judged by often. The empty set asks about everything.
#[derive(Clone, Debug)]
pub struct PermissionSet {
    default: Behaviour,
    rules: Vec<Rule>,
}

impl Default for PermissionSet {
    fn default() -> Self {
        Self { default: Behaviour::Ask, rules: Vec::new() }
    }
}

impl PermissionSet {
    /// From `{"default": …, "rules": […]}`, or from the array of rules alone. Every flaw is reported, not only the first.
    pub fn parse(value: &Value) -> Result<Self, Vec<Flaw>> {
        let mut flaws = Vec::new();
        let set = match value {
            Value::Array(rules) => Self { default: Behaviour::Ask, rules: read_rules(rules, &mut flaws) },
            Value::Object(members) => read_members(members, &mut flaws),
            _ => {
                let message = "must be an array of rules, or an object with `rules` and perhaps a `default`";
                return Err(vec![Flaw::new("(document)", message)]);
            }
        };
        if flaws.is_empty()
            && let Err(flaw) = set.check_size()
        {
            flaws.push(flaw);
        }
        if flaws.is_empty() { Ok(set) } else { Err(flaws) }
    }

    /// This set and more rules, as they are given with an approval. They come after its own and count no more and no
    /// less: a deny still wins. Refused where the set grows too large.
    pub fn with(&self, more: &[Rule]) -> Result<Self, Flaw> {
        let set = Self { default: self.default, rules: [self.rules.as_slice(), more].concat() };
        set.check_size().map(|()| set)
    }

    pub fn default_behaviour(&self) -> Behaviour {
        self.default
    }

    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether every call of this tool is denied, whatever its arguments: the model need not know of it.
    pub fn hidden(&self, tool: &str) -> bool {
        let mut about = self.rules.iter().filter(|rule| rule.is_about(tool));
        let denies = |rule: &Rule| rule.behaviour() == Behaviour::Deny;
        about.clone().any(|rule| denies(rule) && rule.is_unconditional())
            || (self.default == Behaviour::Deny && about.all(denies))
    }

    fn check_size(&self) -> Result<(), Flaw> {
        if self.rules.len() > RULES_MAX {
            return Err(too_many(self.rules.len()));
        }
        let regexes: usize = self.rules.iter().map(Rule::regexes).sum();
        if regexes > REGEXES_MAX {
            let message = format!("{regexes} regular expressions; a set has at most {REGEXES_MAX}");
            return Err(Flaw::new("rules", message));
        }
        Ok(())
    }
}

impl Serialize for PermissionSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({"default": self.default, "rules": self.rules}).serialize(serializer)
    }
}

fn read_members(members: &Map<String, Value>, flaws: &mut Vec<Flaw>) -> PermissionSet {
    for name in members.keys().filter(|name| !["default", "rules"].contains(&name.as_str())) {
        flaws.push(Flaw::new(name, "is not a member of a set of permissions: default, rules"));
    }
    let default = match members.get("default") {
        None => Behaviour::Ask,
        Some(value) => value.as_str().and_then(Behaviour::parse).unwrap_or_else(|| {
            flaws.push(Flaw::new("default", "must be allow, ask or deny"));
            Behaviour::Ask
        }),
    };
    let rules = match members.get("rules") {
        Some(Value::Array(rules)) => read_rules(rules, flaws),
        Some(_) => {
            flaws.push(Flaw::new("rules", "must be an array of rules"));
            Vec::new()
        }
        None if members.contains_key("default") => Vec::new(),
        // An object with neither is mostly one rule, or something else altogether.
        None => {
            flaws.push(Flaw::new("rules", "is missing; write [] for none"));
            Vec::new()
        }
    };
    PermissionSet { default, rules }
}

fn read_rules(rules: &[Value], flaws: &mut Vec<Flaw>) -> Vec<Rule> {
    if rules.len() > RULES_MAX {
        flaws.push(too_many(rules.len()));
        return Vec::new();
    }
    let mut read = Vec::new();
    for (place, rule) in rules.iter().enumerate() {
        match Rule::parse_at(rule, &format!("rules[{place}]")) {
            Ok(rule) => read.push(rule),
            Err(found) => flaws.extend(found),
        }
    }
    read
}

fn too_many(rules: usize) -> Flaw {
    Flaw::new("rules", format!("{rules} rules; a set has at most {RULES_MAX}"))
}
