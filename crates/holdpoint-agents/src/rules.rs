//! The operator's rules for the tools of a connection. They are combined with the rules of each definition that uses
//! the connection: the stricter rule applies.

use std::borrow::Cow;

use holdpoint_core::Interrupt;
use holdpoint_core::OPERATOR_APPROVAL;
use holdpoint_core::agent::ApprovalSettings;
use holdpoint_core::permission::{Behaviour, PermissionDecision, PermissionSet};
use holdpoint_engine::OperatorApproval;
use holdpoint_engine::extension::RequirementSource;
use serde_json::{Map, Value};

use super::definition::AgentFlaw;
use super::traits::can_ask;

/// The rules of one connection.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionRules {
    connection: String,
    permissions: Option<PermissionSet>,
    approval: OperatorApproval,
}

impl ConnectionRules {
    /// Takes `permissions` and `approval` out of the settings of a connection. None if it has neither.
    pub(super) fn take(settings: &mut Map<String, Value>) -> Result<Option<Self>, AgentFlaw> {
        let (permissions, approval) =
            (settings.shift_remove("permissions"), settings.shift_remove("approval"));
        if permissions.is_none() && approval.is_none() {
            return Ok(None);
        }
        let permissions = permissions.as_ref().map(parse_permissions).transpose()?;
        let approval = approval.map(OperatorApproval::try_from).transpose();
        let approval = approval.map_err(|bad| AgentFlaw::new(bad.field, bad.message))?.unwrap_or_default();
        Ok(Some(Self { connection: String::new(), permissions, approval }))
    }

    /// Returns the rules with the name of their connection.
    pub(super) fn named(&self, connection: &str) -> Self {
        Self { connection: connection.to_owned(), ..self.clone() }
    }

    /// Evaluates the permission rules for a call. `tool` is the name that the tool has at the connection. Returns None
    /// if the connection has no permission rules.
    pub(crate) fn judge(
        &self,
        tool: &str,
        primary: Option<&str>,
        arguments: &Value,
    ) -> Option<PermissionDecision> {
        let verdict = self.permissions.as_ref()?.evaluate(tool, primary, arguments);
        Some(PermissionDecision {
            why: format!("connection {}: {}", self.connection, verdict.why),
            ..verdict
        })
    }

    /// Returns true if every call of the tool is denied.
    pub(crate) fn hides(&self, tool: &str) -> bool {
        self.permissions.as_ref().is_some_and(|permissions| permissions.always_denies(tool))
    }

    /// Returns true if the rules ask about some calls.
    pub(crate) fn can_ask(&self) -> bool {
        self.permissions.as_ref().is_some_and(can_ask)
    }

    /// Combines the approval settings of the definition with those of the operator.
    pub(crate) fn join<'a>(&self, own: &'a ApprovalSettings) -> Cow<'a, ApprovalSettings> {
        Cow::Owned(ApprovalSettings {
            arguments_fixed: own.arguments_fixed || !self.approval.is_editable(),
            people: self.approval.join(RequirementSource::Connection(&self.connection), &own.people),
            timeout_ms: self.approval.timeout_ms(own.timeout_ms),
        })
    }

    /// Returns true if an interrupt was requested under exactly these rules.
    pub(crate) fn match_interrupt(&self, interrupt: &Interrupt) -> bool {
        interrupt.data.get(OPERATOR_APPROVAL)
            == Some(&self.approval.describe(RequirementSource::Connection(&self.connection)))
    }
}

/// Parses a set of rules. Returns the first flaw; its field is a path that begins with `permissions`.
pub(super) fn parse_permissions(rules: &Value) -> Result<PermissionSet, AgentFlaw> {
    PermissionSet::parse(rules).map_err(|flaws| {
        let first = flaws.into_iter().next();
        let (field, message) = first.map(|flaw| (flaw.field, flaw.message)).unwrap_or_default();
        AgentFlaw::new(format!("permissions.{field}"), message)
    })
}

/// Returns the stricter of two permission decisions; the first one if they are equally strict.
pub(super) fn stricter(own: PermissionDecision, operator: Option<PermissionDecision>) -> PermissionDecision {
    let strictness = |verdict: &PermissionDecision| match verdict.behaviour {
        Behaviour::Allow => 0,
        Behaviour::Ask => 1,
        Behaviour::Deny => 2,
    };
    match operator {
        Some(operator) if strictness(&operator) > strictness(&own) => operator,
        Some(_) | None => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rules(value: Value) -> ConnectionRules {
        let mut settings = value.as_object().unwrap().clone();
        ConnectionRules::take(&mut settings).unwrap().unwrap().named("shell")
    }

    #[test]
    fn the_stricter_permission_decision_applies() {
        let set = |default: &str| parse_permissions(&json!({"default": default})).unwrap();
        let all = ["allow", "ask", "deny"];
        for (own, operator) in all.iter().flat_map(|own| all.map(|operator| (*own, operator))) {
            let rules = rules(json!({"permissions": {"default": operator}}));
            let verdict =
                stricter(set(own).evaluate("x", None, &json!({})), rules.judge("x", None, &json!({})));
            let expected =
                if all.iter().position(|one| *one == own) < all.iter().position(|one| *one == operator) {
                    assert!(verdict.why.starts_with("connection shell: "), "{}", verdict.why);
                    operator
                } else {
                    own
                };
            assert_eq!(verdict.behaviour.as_str(), expected, "{own} {operator}");
        }
    }

    #[test]
    fn approval_settings_of_the_operator_are_combined_with_those_of_the_definition() {
        let rules = rules(json!({"approval": {"requiredApprovals": 2, "editable": false, "timeoutMs": 9}}));
        assert!(rules.judge("x", None, &json!({})).is_none() && !rules.hides("x"));
        let joined = rules.join(&ApprovalSettings::default()).into_owned();
        assert_eq!((joined.arguments_fixed, joined.timeout_ms), (true, Some(9)));
        assert_eq!(joined.people["requiredApprovals"], 2);
        assert_eq!(joined.people["operatorApproval"]["connection"], "shell");
    }

    #[test]
    fn a_flaw_names_the_invalid_member() {
        for (wrong, field) in [
            (json!({"permissions": {"default": "never"}}), "permissions.default"),
            (json!({"approval": {"approvers": []}}), "approval.approvers"),
        ] {
            let mut settings = wrong.as_object().unwrap().clone();
            assert_eq!(ConnectionRules::take(&mut settings).unwrap_err().field, field);
        }
    }
}
