//! The assignees of an open interrupt, for lists. The same rules apply as when an answer is evaluated.

use serde_json::{Map, Value};

use super::{ASSIGNEE_MEMBERS, AudienceRule, Interrupt, Kind, OPERATOR_APPROVAL, assignee_rules};
use crate::Principal;

/// The members of a governed gate that restrict its assignees, in addition to [`ASSIGNEE_MEMBERS`].
const GOVERNED_MEMBERS: [&str; 4] = ["gateId", "requiredRole", "requiredScope", "override"];

/// The principals that may decide one interrupt, and those it is shown to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assignees {
    /// The assignee members of the gate. None if they have no entries. An audience that does not restrict approvers is
    /// stored as `informedAudience`. An audience that restricts them, in rows of earlier versions, keeps its name.
    pub rules: Option<Value>,
    /// The requesters of the run, if they may not approve their own request.
    pub excluded: Vec<String>,
}

impl Assignees {
    /// Returns the listed entries without duplicates: `name`, `role:x`, `group:y`, and for governed gates `scope:z`.
    pub fn entries(&self) -> Vec<String> {
        self.rules.as_ref().map(assignee_rules::entries).unwrap_or_default()
    }

    /// Returns whether `who` may answer in its own name.
    pub fn admits(&self, who: &Principal) -> bool {
        self.rules
            .as_ref()
            .is_none_or(|rules| assignee_rules::may_decide(rules, who, AudienceRule::Restricts))
            && !self.excluded.contains(&who.name)
    }
}

impl Interrupt {
    /// Returns whether answers are checked against the assignees: for approvals, for interrupts of tool calls, and for
    /// every interrupt that names assignees.
    pub(crate) fn checks_assignees(&self) -> bool {
        self.kind == Kind::Approval
            || self.data.get("toolCall").is_some()
            || assignee_rules::restricts_deciders(&self.data, self.audience)
    }

    /// Returns the assignees. `requesters` are the principals that requested the run.
    pub fn assignees(&self, requesters: &[&str]) -> Assignees {
        if !self.checks_assignees() && !assignee_rules::names_audience(&self.data) {
            return Assignees::default();
        }
        let member = |name: &&str| {
            let informs = **name == *"audience" && self.audience == AudienceRule::Informs;
            let shown_as = if informs { assignee_rules::INFORMED_AUDIENCE } else { name };
            let value = self.data.get(*name)?;
            Some((shown_as.to_owned(), value.clone()))
        };
        let governed = GOVERNED_MEMBERS.iter().filter(|_| self.kind == Kind::Approval);
        let members = ASSIGNEE_MEMBERS.iter().chain([&OPERATOR_APPROVAL]).chain(governed);
        let rules = Value::Object(members.filter_map(member).collect::<Map<_, _>>());
        let rules = (!assignee_rules::entries(&rules).is_empty()).then_some(rules);
        let excluded = if assignee_rules::excludes_requesters(&self.data) { requesters } else { &[] };
        let excluded = excluded.iter().map(ToString::to_string).collect();
        Assignees { rules, excluded }
    }

    /// Returns whether `who` may answer a side question: a requester, the host, or an assignee that did not ask the
    /// question.
    pub fn may_answer_side_question(
        &self,
        requesters: &[&str],
        ask: &super::SideQuestion,
        who: &Principal,
    ) -> bool {
        let name = who.name.as_str();
        if requesters.contains(&name) || assignee_rules::is_host_name(name) {
            return true;
        }
        let own = ask.by == name || ask.acted_by.as_deref() == Some(name);
        !own && assignee_rules::may_decide(&self.data, who, self.audience)
    }

    /// Returns the side questions without an answer.
    pub fn open_side_questions(&self) -> impl Iterator<Item = &super::SideQuestion> {
        self.side_questions.iter().filter(|ask| ask.answer.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn assignees(rules: Value) -> Assignees {
        Assignees { rules: Some(rules), excluded: Vec::new() }
    }

    #[test]
    fn entries_of_all_lists_have_the_same_form_and_no_duplicates() {
        let listed = assignees(json!({
            "approversList": ["ann", "role:lead", "ann"], "approverRoleRefs": ["boss", "role:lead"],
            "approverGroupRefs": ["ops"], "audience": {"subjects": ["bob"], "groups": ["ops"], "roles": ["boss"]},
        }));
        assert_eq!(listed.entries(), ["ann", "role:lead", "role:boss", "group:ops", "bob"]);
        assert!(Assignees::default().entries().is_empty());
    }

    #[test]
    fn a_governed_gate_admits_principals_with_the_required_or_the_override_role() {
        let governed = assignees(json!({
            "gateId": "g", "requiredRole": "lead", "requiredScope": "pay", "override": {"requiredRole": "boss"},
        }));
        assert_eq!(governed.entries(), ["role:lead", "scope:pay", "role:boss"]);
        let with = |roles: &[&str], scopes: &[&str]| Principal {
            roles: roles.iter().map(ToString::to_string).collect(),
            scopes: scopes.iter().map(ToString::to_string).collect(),
            ..Principal::named("ann")
        };
        assert!(governed.admits(&with(&["lead"], &["pay"])) && governed.admits(&with(&["boss"], &[])));
        assert!(!governed.admits(&with(&["lead"], &[])) && !governed.admits(&with(&[], &["pay"])));
    }

    #[test]
    fn only_principals_that_may_answer_are_admitted() {
        let ann = Principal::named("ann");
        let lead = Principal { roles: vec!["lead".to_owned()], ..Principal::named("bob") };
        assert!(Assignees::default().admits(&ann));
        let leads = assignees(json!({"approverRoleRefs": ["lead"]}));
        assert!(leads.admits(&lead) && !leads.admits(&ann));
        let both = assignees(json!({"approversList": ["ann", "bob"], "audience": {"roles": ["lead"]}}));
        assert!(both.admits(&lead), "in the list and in the audience");
        assert!(!both.admits(&ann), "in the list alone, in a row of an earlier version");
        let listed = assignees(json!({"approversList": ["ann"], "informedAudience": {"roles": ["lead"]}}));
        assert!(listed.admits(&ann) && !listed.admits(&lead), "an audience that informs does not restrict");
        assert_eq!(listed.entries(), ["ann", "role:lead"]);
        let informed = assignees(json!({"informedAudience": {"roles": ["lead"]}}));
        assert!(informed.admits(&ann) && informed.admits(&lead));
        let operator =
            assignees(json!({"approversList": ["ann"], "operatorApproval": {"approverRoleRefs": ["lead"]}}));
        assert!(!operator.admits(&ann) && !operator.admits(&lead), "each is in only one of the two lists");
        let ann_leads = Principal { roles: vec!["lead".to_owned()], ..ann.clone() };
        assert!(operator.admits(&ann_leads));
        assert_eq!(operator.entries(), ["ann", "role:lead"]);
        let own = Assignees { rules: None, excluded: vec!["ann".to_owned()] };
        assert!(own.admits(&lead) && !own.admits(&ann));
    }
}
