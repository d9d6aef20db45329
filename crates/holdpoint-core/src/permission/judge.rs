//! Which rule decides a call: a deny wins; else the most specific that matches; of equals, ask beats allow.

use std::cmp::Ordering;

use serde::Serialize;
use serde_json::Value;

use super::{Behaviour, PermissionSet, Rule};

/// What happens to a call, and why. Nothing of the arguments is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    #[serde(rename = "behavior")]
    pub behaviour: Behaviour,
    /// The place of the rule that decided; none where it was the default.
    pub rule: Option<usize>,
    pub why: String,
    /// The other rules that match, the strongest first.
    pub considered: Vec<Considered>,
    /// The words of the rule that decided.
    #[serde(skip)]
    pub note: RuleNote,
}

/// The words that a rule has for people who are asked, and for models that are turned away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RuleNote {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl RuleNote {
    /// Returns the note as one text. None if the rule says nothing.
    pub fn text(&self) -> Option<String> {
        match (&self.reason, &self.source) {
            (Some(reason), Some(source)) => Some(format!("{reason} ({source})")),
            (Some(text), None) | (None, Some(text)) => Some(text.clone()),
            (None, None) => None,
        }
    }
}

impl Verdict {
    /// Returns why the rules decided so, with the words of the rule itself.
    pub fn explained(&self) -> String {
        match self.note.text() {
            Some(note) => format!("{}: {note}", self.why),
            None => self.why.clone(),
        }
    }
}

/// A rule that matches and did not decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Considered {
    pub rule: usize,
    #[serde(rename = "behavior")]
    pub behaviour: Behaviour,
    /// Why it lost.
    pub why: String,
}

impl PermissionSet {
    /// Judges one call. `primary` names the tool's declared primary argument, if it has one.
    pub fn judge(&self, tool: &str, primary: Option<&str>, arguments: &Value) -> Verdict {
        let rules = self.rules().iter().enumerate();
        let mut matching: Vec<(usize, &Rule)> =
            rules.filter(|(_, rule)| rule.matches(tool, primary, arguments)).collect();
        matching.sort_by(|(one_at, one), (other_at, other)| {
            strength(other, one).then_with(|| one.key().cmp(&other.key())).then(one_at.cmp(other_at))
        });
        let Some(((at, winner), losers)) = matching.split_first() else {
            let behaviour = self.default_behaviour();
            let why = format!("no rule matches; the default is {behaviour}");
            let (considered, note) = (Vec::new(), RuleNote::default());
            return Verdict { behaviour, rule: None, why, considered, note };
        };
        let considered = losers.iter().map(|(at, loser)| Considered {
            rule: *at,
            behaviour: loser.behaviour(),
            why: why_lost(winner, loser),
        });
        Verdict {
            behaviour: winner.behaviour(),
            rule: Some(*at),
            why: format!("rules[{at}], `{winner}`, {}", why_won(winner, losers)),
            considered: considered.collect(),
            note: RuleNote { reason: winner.reason.clone(), source: winner.source.clone() },
        }
    }
}

fn strength(one: &Rule, other: &Rule) -> Ordering {
    let denies = |rule: &Rule| rule.behaviour() == Behaviour::Deny;
    let asks = |rule: &Rule| rule.behaviour() == Behaviour::Ask;
    let by_deny = denies(one).cmp(&denies(other));
    by_deny.then(one.specificity().cmp(&other.specificity())).then(asks(one).cmp(&asks(other)))
}

fn why_won(winner: &Rule, losers: &[(usize, &Rule)]) -> String {
    let Some((_, next)) = losers.first() else { return "is the only rule that matches".to_owned() };
    let specific = winner.specificity() > next.specificity();
    match (winner.behaviour(), next.behaviour()) {
        (Behaviour::Deny, _) => "matches, and a deny wins over every other rule".to_owned(),
        (Behaviour::Ask | Behaviour::Allow, _) if specific => {
            format!("is the most specific of {} rules that match", losers.len() + 1)
        }
        (Behaviour::Ask, Behaviour::Allow) => {
            "is as specific as any other that matches, and ask beats allow".to_owned()
        }
        (Behaviour::Ask | Behaviour::Allow, _) => {
            "is as specific as any other that matches, and they agree".to_owned()
        }
    }
}

fn why_lost(winner: &Rule, loser: &Rule) -> String {
    let advantage = winner.specificity().advantage_over(&loser.specificity());
    match (winner.behaviour(), loser.behaviour()) {
        (Behaviour::Deny, Behaviour::Allow | Behaviour::Ask) => "a deny wins".to_owned(),
        (one, other) => match advantage {
            Some(why) => format!("less specific: {why}"),
            None if one == other => "as specific, and says the same".to_owned(),
            None => "as specific, and ask beats allow".to_owned(),
        },
    }
}
