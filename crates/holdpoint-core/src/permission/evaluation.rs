//! Evaluation of a set of rules: a matching deny wins, then the most specific matching rule. If two are equally
//! specific, ask beats allow.

use std::cmp::Ordering;

use serde::Serialize;
use serde_json::Value;

use super::{Behaviour, PermissionSet, Rule};

/// The decision of the rules about a call, with its reason. It contains no arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PermissionDecision {
    /// The decision: allow, ask or deny.
    #[serde(rename = "behavior")]
    pub behaviour: Behaviour,
    /// The position of the rule that decided. None: the default decided.
    pub rule: Option<usize>,
    /// The reason of the decision.
    pub why: String,
    /// The other matching rules, in the order of their precedence.
    pub considered: Vec<OverriddenRule>,
    /// The reason and source of the rule that decided.
    #[serde(skip)]
    pub note: RuleNote,
}

/// The texts of a rule for approvers and for models whose calls are denied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RuleNote {
    /// The purpose of the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The origin of the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl RuleNote {
    /// Returns the note as one text. None if the note is empty.
    pub fn text(&self) -> Option<String> {
        match (&self.reason, &self.source) {
            (Some(reason), Some(source)) => Some(format!("{reason} ({source})")),
            (Some(text), None) | (None, Some(text)) => Some(text.clone()),
            (None, None) => None,
        }
    }
}

impl PermissionDecision {
    /// Returns the reason of the decision with the note of the rule.
    pub fn explanation(&self) -> String {
        match self.note.text() {
            Some(note) => format!("{}: {note}", self.why),
            None => self.why.clone(),
        }
    }
}

/// A matching rule that did not decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OverriddenRule {
    /// The position of the rule.
    pub rule: usize,
    /// The behaviour of the rule.
    #[serde(rename = "behavior")]
    pub behaviour: Behaviour,
    /// The reason why another rule has precedence.
    pub why: String,
}

impl PermissionSet {
    /// Decides about one call. `primary` is the name of the tool's declared primary argument.
    pub fn evaluate(&self, tool: &str, primary: Option<&str>, arguments: &Value) -> PermissionDecision {
        let rules = self.rules().iter().enumerate();
        let mut matching: Vec<(usize, &Rule)> =
            rules.filter(|(_, rule)| rule.matches(tool, primary, arguments)).collect();
        matching.sort_by(|(one_at, one), (other_at, other)| {
            compare_precedence(other, one)
                .then_with(|| one.key().cmp(&other.key()))
                .then(one_at.cmp(other_at))
        });
        let Some(((at, winner), losers)) = matching.split_first() else {
            let behaviour = self.default_behaviour();
            let why = format!("no rule matches; the default is {behaviour}");
            let (considered, note) = (Vec::new(), RuleNote::default());
            return PermissionDecision { behaviour, rule: None, why, considered, note };
        };
        let considered = losers.iter().map(|(at, loser)| OverriddenRule {
            rule: *at,
            behaviour: loser.behaviour(),
            why: why_lost(winner, loser),
        });
        PermissionDecision {
            behaviour: winner.behaviour(),
            rule: Some(*at),
            why: format!("rules[{at}], `{winner}`, {}", why_won(winner, losers)),
            considered: considered.collect(),
            note: RuleNote { reason: winner.reason.clone(), source: winner.source.clone() },
        }
    }
}

fn compare_precedence(one: &Rule, other: &Rule) -> Ordering {
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
