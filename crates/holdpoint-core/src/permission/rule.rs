//! One rule: which calls it is about and what happens to them. Read from JSON or from its short form, every flaw named.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::condition::Condition;
use super::pattern::ToolPattern;
use super::{Behaviour, CONDITIONS_MAX, Flaw, NOTE_CHARS_MAX, Reading, Scope, Specificity, text};
use crate::canonical;

const MEMBERS: [&str; 6] = ["tool", "when", "behavior", "scope", "source", "reason"];

#[derive(Clone, Debug)]
pub struct Rule {
    behaviour: Behaviour,
    tool: ToolPattern,
    conditions: Vec<Condition>,
    pub scope: Option<Scope>,
    /// Who or what the rule comes from.
    pub source: Option<String>,
    /// Why it is there, for those who are asked or turned away.
    pub reason: Option<String>,
}

impl Rule {
    /// From an object or from the short form.
    pub fn parse(value: &Value) -> Result<Self, Vec<Flaw>> {
        Self::parse_at(value, "")
    }

    /// With a name for the place, which every flaw begins with.
    pub(super) fn parse_at(value: &Value, at: &str) -> Result<Self, Vec<Flaw>> {
        match value {
            Value::Object(members) => {
                let mut reader = Reader { at, flaws: Vec::new() };
                let rule = reader.rule(members);
                rule.filter(|_| reader.flaws.is_empty()).ok_or(reader.flaws)
            }
            Value::String(text) => {
                Self::from_str(text).map_err(|flaw| vec![Flaw::new(place(at), flaw.message)])
            }
            _ => Err(vec![Flaw::new(
                place(at),
                "a rule is an object, or a text such as \"allow Bash(git *)\"",
            )]),
        }
    }

    pub fn behaviour(&self) -> Behaviour {
        self.behaviour
    }

    pub fn specificity(&self) -> Specificity {
        let equalities = self.conditions.iter().filter(|condition| condition.is_equality()).count();
        let chars = self.conditions.iter().map(Condition::literal_chars).sum();
        Specificity::new(self.tool.rank(), self.conditions.len(), equalities, chars)
    }

    /// Whether it is about this call. `primary` names the tool's declared primary argument.
    pub fn matches(&self, tool: &str, primary: Option<&str>, arguments: &Value) -> bool {
        let reading = self.behaviour.into();
        self.is_about(tool)
            && self.conditions.iter().all(|condition| condition.holds(primary, arguments, reading))
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

    /// Returns the text that orders rules of the same strength. Different rules have different texts. The order is stored with
    /// tickets, so it must not change.
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

/// The short form: `allow sendEmail(to ~ *@example.com)`.
impl FromStr for Rule {
    type Err = Flaw;

    fn from_str(text: &str) -> Result<Self, Flaw> {
        let flaw = |message: String| Flaw::new("(rule)", message);
        let (word, tool, inside) = text::rule_parts(text).map_err(flaw)?;
        let behaviour = Behaviour::parse(word)
            .ok_or_else(|| flaw(format!("a rule begins with allow, ask or deny, not with {word:?}")))?;
        let reading = behaviour.into();
        let tool = ToolPattern::parse(tool, reading).map_err(|why| flaw(format!("the tool: {why}")))?;
        let conditions =
            inside.map_or(Ok(Vec::new()), |inside| text::conditions(inside, reading)).map_err(flaw)?;
        if conditions.len() > CONDITIONS_MAX {
            return Err(flaw(too_many(conditions.len())));
        }
        Ok(Self { behaviour, tool, conditions, scope: None, source: None, reason: None })
    }
}

/// The short form again; it does not tell scope, source and reason.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.behaviour, self.tool)?;
        if self.conditions.is_empty() {
            return Ok(());
        }
        // In a list the pattern without a field stands first.
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
        Self::parse(&Value::deserialize(deserializer)?).map_err(|flaws| {
            let texts: Vec<String> = flaws.iter().map(ToString::to_string).collect();
            D::Error::custom(texts.join("; "))
        })
    }
}

/// Reads the members of a rule and remembers what is wrong with them.
struct Reader<'a> {
    at: &'a str,
    flaws: Vec<Flaw>,
}

impl Reader<'_> {
    fn rule(&mut self, members: &Map<String, Value>) -> Option<Rule> {
        // A misspelt member would otherwise be ignored, and with it what its author wanted.
        for name in members.keys().filter(|name| !MEMBERS.contains(&name.as_str())) {
            let spelt = if name == "behaviour" { "; it is spelt `behavior` here" } else { "" };
            self.flaw(name, format!("is not a member of a rule{spelt}: {}", MEMBERS.join(", ")));
        }
        let behaviour = self.one_of(members, "behavior", Behaviour::parse, "allow, ask or deny");
        if behaviour.is_none() && !members.contains_key("behavior") {
            self.flaw("behavior", "is missing: allow, ask or deny");
        }
        // The rest is looked over all the same.
        let reading = behaviour.map_or(Reading::Broad, Reading::from);
        let tool = self.tool(members, reading);
        let conditions = self.conditions(members, reading);
        let scope = self.one_of(members, "scope", Scope::parse, "once, session, thread, project or user");
        let (source, reason) = (self.note(members, "source"), self.note(members, "reason"));
        Some(Rule { behaviour: behaviour?, tool: tool?, conditions, scope, source, reason })
    }

    fn tool(&mut self, members: &Map<String, Value>, reading: Reading) -> Option<ToolPattern> {
        let parsed = match members.get("tool") {
            Some(Value::String(text)) => ToolPattern::parse(text, reading),
            Some(_) => Err("must be a string".to_owned()),
            None => Err("is missing: the name of a tool, a glob, or a /regular expression/".to_owned()),
        };
        parsed.map_err(|why| self.flaw("tool", why)).ok()
    }

    fn conditions(&mut self, members: &Map<String, Value>, reading: Reading) -> Vec<Condition> {
        let Some(when) = members.get("when") else { return Vec::new() };
        let Some(listed) = when.as_array() else {
            self.flaw("when", "must be an array of conditions");
            return Vec::new();
        };
        if listed.len() > CONDITIONS_MAX {
            self.flaw("when", too_many(listed.len()));
            return Vec::new();
        }
        let mut found = Vec::new();
        for (place, one) in listed.iter().enumerate() {
            let parsed = one.as_str().ok_or_else(|| "must be a string".to_owned());
            match parsed.and_then(|text| text::condition(text, reading)) {
                Ok(condition) => found.push(condition),
                Err(why) => self.flaw(&format!("when[{place}]"), why),
            }
        }
        if found.iter().filter(|condition| matches!(condition, Condition::Primary(_))).count() > 1 {
            self.flaw("when", "at most one pattern may be without a field");
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
            self.flaw(name, format!("must be {names}"));
        }
        parsed
    }

    fn note(&mut self, members: &Map<String, Value>, name: &str) -> Option<String> {
        match members.get(name)? {
            Value::String(text) if text.chars().count() <= NOTE_CHARS_MAX => return Some(text.clone()),
            Value::String(_) => self.flaw(name, format!("has more than {NOTE_CHARS_MAX} characters")),
            _ => self.flaw(name, "must be a string"),
        }
        None
    }

    fn flaw(&mut self, member: &str, message: impl Into<String>) {
        let dot = if self.at.is_empty() { "" } else { "." };
        self.flaws.push(Flaw::new(format!("{}{dot}{member}", self.at), message));
    }
}

fn too_many(conditions: usize) -> String {
    format!("{conditions} conditions; a rule has at most {CONDITIONS_MAX}")
}

fn place(at: &str) -> &str {
    if at.is_empty() { "(rule)" } else { at }
}
