//! Whom an open interrupt is for, as lists show it: the rules by which answers are judged, asked beforehand. Decides
//! nothing: an answer is judged when it comes.

use serde_json::{Map, Value};

use super::{AudienceRule, Interrupt, Kind, OPERATOR_APPROVAL, PEOPLE, people};
use crate::Principal;

/// What an approval may say about people besides [`PEOPLE`]: what a governed gate requires.
const GOVERNED: [&str; 4] = ["gateId", "requiredRole", "requiredScope", "override"];

/// The principals that may decide one interrupt, and those it is shown to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assignees {
    /// The rules about people, as the gate has them. None if it names no principal. An audience that informs is named
    /// `informedAudience`; one that restricts, in rows of earlier versions, keeps its name.
    pub said: Option<Value>,
    /// Those whose wish the run is, where nobody may grant their own.
    pub barred: Vec<String>,
}

impl Assignees {
    /// What is listed, each once: `name`, `role:x`, `group:y`, and of governed gates `scope:z`.
    pub fn entries(&self) -> Vec<String> {
        self.said.as_ref().map(people::entries).unwrap_or_default()
    }

    /// Whether an answer of `who`, in their own name, would be heard.
    pub fn admit(&self, who: &Principal) -> bool {
        self.said.as_ref().is_none_or(|said| people::may_decide(said, who, AudienceRule::Restricts))
            && !self.barred.contains(&who.name)
    }
}

impl Interrupt {
    /// Returns whether the rules about people apply: to approvals, to questions about tool calls, and to every
    /// interrupt that names people.
    pub(crate) fn heeds_people(&self) -> bool {
        self.kind == Kind::Approval
            || self.data.get("toolCall").is_some()
            || people::names_anybody(&self.data, self.audience)
    }

    /// Whom it is for; the run is the wish of `requesters`.
    pub fn assignees(&self, requesters: &[&str]) -> Assignees {
        if !self.heeds_people() && !people::names_audience(&self.data) {
            return Assignees::default();
        }
        let member = |name: &&str| {
            let informs = **name == *"audience" && self.audience == AudienceRule::Informs;
            let shown_as = if informs { people::INFORMED } else { name };
            Some((shown_as.to_owned(), self.data.get(*name)?.clone()))
        };
        let governed = GOVERNED.iter().filter(|_| self.kind == Kind::Approval);
        let members = PEOPLE.iter().chain([&OPERATOR_APPROVAL]).chain(governed);
        let said = Value::Object(members.filter_map(member).collect::<Map<_, _>>());
        let said = (!people::entries(&said).is_empty()).then_some(said);
        let barred = if people::is_separated(&self.data) { requesters } else { &[] };
        let barred = barred.iter().map(ToString::to_string).collect();
        Assignees { said, barred }
    }

    /// Whether `who` may answer a question of an approver: those whose wish the run is, and others who may decide, unless
    /// the question is their own; and the host.
    pub fn may_reply(&self, requesters: &[&str], ask: &super::Ask, who: &Principal) -> bool {
        let name = who.name.as_str();
        if requesters.contains(&name) || people::is_host_name(name) {
            return true;
        }
        let own = ask.by == name || ask.acted_by.as_deref() == Some(name);
        !own && people::may_decide(&self.data, who, self.audience)
    }

    /// Questions of approvers that nobody has answered.
    pub fn open_asks(&self) -> impl Iterator<Item = &super::Ask> {
        self.asks.iter().filter(|ask| ask.reply.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn assignees(said: Value) -> Assignees {
        Assignees { said: Some(said), barred: Vec::new() }
    }

    #[test]
    fn every_list_is_read_in_the_same_words() {
        let listed = assignees(json!({
            "approversList": ["ann", "role:lead", "ann"], "approverRoleRefs": ["boss", "role:lead"],
            "approverGroupRefs": ["ops"], "audience": {"subjects": ["bob"], "groups": ["ops"], "roles": ["boss"]},
        }));
        assert_eq!(listed.entries(), ["ann", "role:lead", "role:boss", "group:ops", "bob"]);
        assert!(Assignees::default().entries().is_empty());
    }

    #[test]
    fn a_governed_gate_is_for_whoever_holds_what_it_requires_or_may_override_it() {
        let governed = assignees(json!({
            "gateId": "g", "requiredRole": "lead", "requiredScope": "pay", "override": {"requiredRole": "boss"},
        }));
        assert_eq!(governed.entries(), ["role:lead", "scope:pay", "role:boss"]);
        let with = |roles: &[&str], scopes: &[&str]| Principal {
            roles: roles.iter().map(ToString::to_string).collect(),
            scopes: scopes.iter().map(ToString::to_string).collect(),
            ..Principal::named("ann")
        };
        assert!(governed.admit(&with(&["lead"], &["pay"])) && governed.admit(&with(&["boss"], &[])));
        assert!(!governed.admit(&with(&["lead"], &[])) && !governed.admit(&with(&[], &["pay"])));
    }

    #[test]
    fn those_are_admitted_whose_answers_would_be_heard() {
        let ann = Principal::named("ann");
        let lead = Principal { roles: vec!["lead".to_owned()], ..Principal::named("bob") };
        assert!(Assignees::default().admit(&ann));
        let leads = assignees(json!({"approverRoleRefs": ["lead"]}));
        assert!(leads.admit(&lead) && !leads.admit(&ann));
        let both = assignees(json!({"approversList": ["ann", "bob"], "audience": {"roles": ["lead"]}}));
        assert!(both.admit(&lead), "in the list and in the audience");
        assert!(!both.admit(&ann), "in the list alone, in a row of an earlier version");
        let told = assignees(json!({"approversList": ["ann"], "informedAudience": {"roles": ["lead"]}}));
        assert!(told.admit(&ann) && !told.admit(&lead), "an audience that informs lets nobody in or out");
        assert_eq!(told.entries(), ["ann", "role:lead"]);
        let informed = assignees(json!({"informedAudience": {"roles": ["lead"]}}));
        assert!(informed.admit(&ann) && informed.admit(&lead));
        let operator =
            assignees(json!({"approversList": ["ann"], "operatorApproval": {"approverRoleRefs": ["lead"]}}));
        assert!(!operator.admit(&ann) && !operator.admit(&lead), "each is in one of both lists");
        let ann_leads = Principal { roles: vec!["lead".to_owned()], ..ann.clone() };
        assert!(operator.admit(&ann_leads));
        assert_eq!(operator.entries(), ["ann", "role:lead"]);
        let own = Assignees { said: None, barred: vec!["ann".to_owned()] };
        assert!(own.admit(&lead) && !own.admit(&ann));
    }
}
