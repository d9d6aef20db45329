//! Sets of rules with a default behaviour, parsed from JSON and extended at run time. The parser reports all errors.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::{Behaviour, REGEXES_MAX, RULES_MAX, Rule, RuleError};

/// A compiled set of rules. The empty set asks about every call.
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
    /// Parses `{"default": …, "rules": […]}` or an array of rules. Reports all errors, not only the first.
    pub fn parse(value: &Value) -> Result<Self, Vec<RuleError>> {
        let mut errors = Vec::new();
        let set = match value {
            Value::Array(rules) => Self { default: Behaviour::Ask, rules: read_rules(rules, &mut errors) },
            Value::Object(members) => read_members(members, &mut errors),
            _ => {
                let message =
                    "must be an array of rules, or an object with `rules` and an optional `default`";
                return Err(vec![RuleError::new("(document)", message)]);
            }
        };
        if errors.is_empty()
            && let Err(error) = set.check_size()
        {
            errors.push(error);
        }
        if errors.is_empty() { Ok(set) } else { Err(errors) }
    }

    /// Returns the set extended by more rules. They have the same precedence as the others: a deny still wins. Rejects
    /// a set that becomes too large.
    pub fn with_rules(&self, more: &[Rule]) -> Result<Self, RuleError> {
        let set = Self { default: self.default, rules: [self.rules.as_slice(), more].concat() };
        set.check_size().map(|()| set)
    }

    /// Returns the behaviour for calls that no rule matches.
    pub fn default_behaviour(&self) -> Behaviour {
        self.default
    }

    /// Returns the rules in their order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns true if every call of this tool is denied, for all arguments. The tool is then not offered to the model.
    pub fn always_denies(&self, tool: &str) -> bool {
        let mut about = self.rules.iter().filter(|rule| rule.is_about(tool));
        let denies = |rule: &Rule| rule.behaviour() == Behaviour::Deny;
        about.clone().any(|rule| denies(rule) && rule.is_unconditional())
            || (self.default == Behaviour::Deny && about.all(denies))
    }

    fn check_size(&self) -> Result<(), RuleError> {
        if self.rules.len() > RULES_MAX {
            return Err(too_many(self.rules.len()));
        }
        let regexes: usize = self.rules.iter().map(Rule::regexes).sum();
        if regexes > REGEXES_MAX {
            let message = format!("{regexes} regular expressions; a set has at most {REGEXES_MAX}");
            return Err(RuleError::new("rules", message));
        }
        Ok(())
    }
}

impl Serialize for PermissionSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({"default": self.default, "rules": self.rules}).serialize(serializer)
    }
}

fn read_members(members: &Map<String, Value>, errors: &mut Vec<RuleError>) -> PermissionSet {
    for name in members.keys().filter(|name| !["default", "rules"].contains(&name.as_str())) {
        errors.push(RuleError::new(name, "is not a member of a set of permissions: default, rules"));
    }
    let default = match members.get("default") {
        None => Behaviour::Ask,
        Some(value) => value.as_str().and_then(Behaviour::parse).unwrap_or_else(|| {
            errors.push(RuleError::new("default", "must be allow, ask or deny"));
            Behaviour::Ask
        }),
    };
    let rules = match members.get("rules") {
        Some(Value::Array(rules)) => read_rules(rules, errors),
        Some(_) => {
            errors.push(RuleError::new("rules", "must be an array of rules"));
            Vec::new()
        }
        None if members.contains_key("default") => Vec::new(),
        // An object with neither member is probably a single rule or a different document.
        None => {
            errors.push(RuleError::new("rules", "is missing; write [] for none"));
            Vec::new()
        }
    };
    PermissionSet { default, rules }
}

fn read_rules(rules: &[Value], errors: &mut Vec<RuleError>) -> Vec<Rule> {
    if rules.len() > RULES_MAX {
        errors.push(too_many(rules.len()));
        return Vec::new();
    }
    let mut read = Vec::new();
    for (place, rule) in rules.iter().enumerate() {
        match Rule::parse_at(rule, &format!("rules[{place}]")) {
            Ok(rule) => read.push(rule),
            Err(found) => errors.extend(found),
        }
    }
    read
}

fn too_many(rules: usize) -> RuleError {
    RuleError::new("rules", format!("{rules} rules; a set has at most {RULES_MAX}"))
}
