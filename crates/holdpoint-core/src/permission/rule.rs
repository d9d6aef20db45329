//! Permission rules, parsed from JSON or from the short form. The parser reports all errors of a rule.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::condition::Condition;
use super::pattern::ToolPattern;
use super::{
    Behaviour, CONDITIONS_MAX, MatchMode, NOTE_CHARS_MAX, RuleError, RuleScope, Specificity, short_form,
};
use crate::canonical;

const MEMBERS: [&str; 6] = ["tool", "when", "behavior", "scope", "source", "reason"];

/// A rule that allows, asks about or denies matching calls.
#[derive(Clone, Debug)]
pub struct Rule {
    behaviour: Behaviour,
    tool: ToolPattern,
    conditions: Vec<Condition>,
    /// The intended lifetime of the rule.
    pub scope: Option<RuleScope>,
    /// The origin of the rule.
    pub source: Option<String>,
    /// The purpose of the rule, for approvers and for models whose calls are denied.
    pub reason: Option<String>,
}

impl Rule {
    /// Parses a rule from an object or from the short form.
    pub fn parse(value: &Value) -> Result<Self, Vec<RuleError>> {
        Self::parse_at(value, "")
    }

    /// Parses a rule. The field of every error begins with `at`.
    pub(super) fn parse_at(value: &Value, at: &str) -> Result<Self, Vec<RuleError>> {
        match value {
            Value::Object(members) => {
                let mut reader = RuleReader { at, errors: Vec::new() };
                let rule = reader.rule(members);
                rule.filter(|_| reader.errors.is_empty()).ok_or(reader.errors)
            }
            Value::String(text) => {
                Self::from_str(text).map_err(|error| vec![RuleError::new(place(at), error.message)])
            }
            _ => Err(vec![RuleError::new(
                place(at),
                "a rule must be an object, or a text such as \"allow Bash(git *)\"",
            )]),
        }
    }

    /// Returns the behaviour for matching calls.
    pub fn behaviour(&self) -> Behaviour {
        self.behaviour
    }

    /// Returns the specificity of the rule.
    pub fn specificity(&self) -> Specificity {
        let equalities = self.conditions.iter().filter(|condition| condition.is_equality()).count();
        let argument_chars = self.conditions.iter().map(Condition::literal_chars).sum();
        let (tool, tool_chars) = self.tool.rank();
        Specificity::new(tool, tool_chars, self.conditions.len(), equalities, argument_chars)
    }

    /// Returns true if the rule matches a call. `primary` is the name of the tool's declared primary argument.
    pub fn matches(&self, tool: &str, primary: Option<&str>, arguments: &Value) -> bool {
        let mode = self.behaviour.into();
        self.is_about(tool)
            && self.conditions.iter().all(|condition| condition.holds(primary, arguments, mode))
    }

    pub(super) fn is_about(&self, tool: &str) -> bool {
        self.tool.matches(tool)
    }

    pub(super) fn is_unconditional(&self) -> bool {
        self.conditions.is_empty()
    }

    pub(super) fn regexes(&self) -> usize {
        let conditions = self.conditions.iter().filter(|condition| condition.is_regex()).count();
        conditions + usize::from(self.tool.is_regex())
    }

    /// Returns the text that orders rules of the same precedence. Different rules have different texts. The rule that
    /// decides is stored with the ticket of a call, so the order must not change.
    pub(super) fn key(&self) -> String {
        canonical(&self.json())
    }

    fn json(&self) -> Value {
        let mut shown = json!({"tool": self.tool.to_string(), "behavior": self.behaviour});
        if !self.conditions.is_empty() {
            shown["when"] = self.conditions.iter().map(ToString::to_string).collect();
        }
        let scope = self.scope.map(|scope| scope.name().to_owned());
        let notes = [("scope", scope), ("source", self.source.clone()), ("reason", self.reason.clone())];
        for (name, text) in notes {
            if let Some(text) = text {
                shown[name] = Value::String(text);
            }
        }
        shown
    }
}

/// Parses the short form: `allow sendEmail(to ~ *@example.com)`.
impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let error = |message: String| RuleError::new("(rule)", message);
        let (word, tool, inside) = short_form::split_rule(text).map_err(error)?;
        let behaviour = Behaviour::parse(word)
            .ok_or_else(|| error(format!("a rule must begin with allow, ask or deny, not with {word:?}")))?;
        let mode = behaviour.into();
        let tool = ToolPattern::parse(tool, mode).map_err(|why| error(format!("tool: {why}")))?;
        let conditions = inside
            .map_or(Ok(Vec::new()), |inside| short_form::parse_conditions(inside, mode))
            .map_err(error)?;
        if conditions.len() > CONDITIONS_MAX {
            return Err(error(too_many(conditions.len())));
        }
        Ok(Self { behaviour, tool, conditions, scope: None, source: None, reason: None })
    }
}

/// Writes the short form, which has no scope, source and reason.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.behaviour, self.tool)?;
        if self.conditions.is_empty() {
            return Ok(());
        }
        // In a list, the pattern without a field must be first.
        let (first, rest): (Vec<_>, Vec<_>) =
            self.conditions.iter().partition(|condition| matches!(condition, Condition::Primary(_)));
        let texts: Vec<String> = first.into_iter().chain(rest).map(ToString::to_string).collect();
        write!(f, "({})", texts.join(", "))
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&Value::deserialize(deserializer)?).map_err(|errors| {
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            D::Error::custom(texts.join("; "))
        })
    }
}

/// Parses the members of a rule and collects the errors.
struct RuleReader<'a> {
    at: &'a str,
    errors: Vec<RuleError>,
}

impl RuleReader<'_> {
    fn rule(&mut self, members: &Map<String, Value>) -> Option<Rule> {
        // A misspelt member must not be ignored: the rule would be wider than intended.
        for name in members.keys().filter(|name| !MEMBERS.contains(&name.as_str())) {
            let hint = if name == "behaviour" { "; write `behavior`" } else { "" };
            self.report(name, format!("is not a member of a rule{hint}: {}", MEMBERS.join(", ")));
        }
        let behaviour = self.one_of(members, "behavior", Behaviour::parse, "allow, ask or deny");
        if behaviour.is_none() && !members.contains_key("behavior") {
            self.report("behavior", "is missing: allow, ask or deny");
        }
        // The other members are checked even without a behaviour.
        let mode = behaviour.map_or(MatchMode::Broad, MatchMode::from);
        let tool = self.tool(members, mode);
        let conditions = self.conditions(members, mode);
        let scope = self.one_of(members, "scope", RuleScope::parse, "once, session, thread, project or user");
        let (source, reason) = (self.note(members, "source"), self.note(members, "reason"));
        Some(Rule { behaviour: behaviour?, tool: tool?, conditions, scope, source, reason })
    }

    fn tool(&mut self, members: &Map<String, Value>, mode: MatchMode) -> Option<ToolPattern> {
        let parsed = match members.get("tool") {
            Some(Value::String(text)) => ToolPattern::parse(text, mode),
            Some(_) => Err("must be a string".to_owned()),
            None => Err("is missing: the name of a tool, a glob, or a /regular expression/".to_owned()),
        };
        parsed.map_err(|why| self.report("tool", why)).ok()
    }

    fn conditions(&mut self, members: &Map<String, Value>, mode: MatchMode) -> Vec<Condition> {
        let Some(when) = members.get("when") else { return Vec::new() };
        let Some(listed) = when.as_array() else {
            self.report("when", "must be an array of conditions");
            return Vec::new();
        };
        if listed.len() > CONDITIONS_MAX {
            self.report("when", too_many(listed.len()));
            return Vec::new();
        }
        let mut found = Vec::new();
        for (place, one) in listed.iter().enumerate() {
            let parsed = one.as_str().ok_or_else(|| "must be a string".to_owned());
            match parsed.and_then(|text| short_form::parse_condition(text, mode)) {
                Ok(condition) => found.push(condition),
                Err(why) => self.report(&format!("when[{place}]"), why),
            }
        }
        if found.iter().filter(|condition| matches!(condition, Condition::Primary(_))).count() > 1 {
            self.report("when", "at most one pattern can be without a field");
        }
        found
    }

    fn one_of<T>(
        &mut self,
        members: &Map<String, Value>,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
        names: &str,
    ) -> Option<T> {
        let value = members.get(name)?;
        let parsed = value.as_str().and_then(parse);
        if parsed.is_none() {
            self.report(name, format!("must be {names}"));
        }
        parsed
    }

    fn note(&mut self, members: &Map<String, Value>, name: &str) -> Option<String> {
        match members.get(name)? {
            Value::String(text) if text.chars().count() <= NOTE_CHARS_MAX => return Some(text.clone()),
            Value::String(_) => self.report(name, format!("has more than {NOTE_CHARS_MAX} characters")),
            _ => self.report(name, "must be a string"),
        }
        None
    }

    fn report(&mut self, member: &str, message: impl Into<String>) {
        let dot = if self.at.is_empty() { "" } else { "." };
        self.errors.push(RuleError::new(format!("{}{dot}{member}", self.at), message));
    }
}

fn too_many(conditions: usize) -> String {
    format!("{conditions} conditions; a rule has at most {CONDITIONS_MAX}")
}

fn place(at: &str) -> &str {
    if at.is_empty() { "(rule)" } else { at }
}
