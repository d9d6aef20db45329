//! The operator's rules for the tools of a connection. They are joined with the rules of each definition that uses the
//! connection: the stricter of both holds.

use std::borrow::Cow;

use holdpoint_core::Interrupt;
use holdpoint_core::OPERATOR_APPROVAL;
use holdpoint_core::agent::Asking;
use holdpoint_core::permission::{Behaviour, PermissionSet, Verdict};
use serde_json::{Map, Value};

use super::definition::AgentFlaw;
use crate::operator::{OperatorApproval, Source};

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

    /// Judges a call of a tool by the name that the tool has where it comes from. None if the operator leaves calls to
    /// definitions.
    pub(crate) fn judge(&self, tool: &str, primary: Option<&str>, arguments: &Value) -> Option<Verdict> {
        let verdict = self.permissions.as_ref()?.judge(tool, primary, arguments);
        Some(Verdict { why: format!("connection {}: {}", self.connection, verdict.why), ..verdict })
    }

    /// Returns whether every call of the tool is denied.
    pub(crate) fn hides(&self, tool: &str) -> bool {
        self.permissions.as_ref().is_some_and(|permissions| permissions.hidden(tool))
    }

    /// Joins what the definition says about approvals with what the operator says.
    pub(crate) fn join<'a>(&self, own: &'a Asking) -> Cow<'a, Asking> {
        Cow::Owned(Asking {
            as_it_is: own.as_it_is || !self.approval.is_editable(),
            people: self.approval.join(Source::Connection(&self.connection), &own.people),
            timeout_ms: self.approval.timeout_ms(own.timeout_ms),
        })
    }

    /// Returns whether an interrupt was requested under exactly these rules.
    pub(crate) fn held_for(&self, asked: &Interrupt) -> bool {
        asked.data.get(OPERATOR_APPROVAL) == Some(&self.approval.shown(Source::Connection(&self.connection)))
    }
}

/// Reads a set of rules; a flaw is told with its place in `permissions`.
pub(super) fn parse_permissions(rules: &Value) -> Result<PermissionSet, AgentFlaw> {
    PermissionSet::parse(rules).map_err(|flaws| {
        let first = flaws.into_iter().next();
        let (field, message) = first.map(|flaw| (flaw.field, flaw.message)).unwrap_or_default();
        AgentFlaw::new(format!("permissions.{field}"), message)
    })
}

/// Returns the stricter of two verdicts, the first if they are equally strict.
pub(super) fn stricter(own: Verdict, operator: Option<Verdict>) -> Verdict {
    let strictness = |verdict: &Verdict| match verdict.behaviour {
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
    fn the_stricter_verdict_holds() {
        let set = |default: &str| parse_permissions(&json!({"default": default})).unwrap();
        let all = ["allow", "ask", "deny"];
        for (own, operator) in all.iter().flat_map(|own| all.map(|operator| (*own, operator))) {
            let rules = rules(json!({"permissions": {"default": operator}}));
            let verdict = stricter(set(own).judge("x", None, &json!({})), rules.judge("x", None, &json!({})));
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
    fn approvals_are_joined_and_remembered() {
        let rules = rules(json!({"approval": {"requiredApprovals": 2, "editable": false, "timeoutMs": 9}}));
        assert!(rules.judge("x", None, &json!({})).is_none() && !rules.hides("x"));
        let joined = rules.join(&Asking::default()).into_owned();
        assert_eq!((joined.as_it_is, joined.timeout_ms), (true, Some(9)));
        assert_eq!(joined.people["requiredApprovals"], 2);
        assert_eq!(joined.people["operatorApproval"]["connection"], "shell");
    }

    #[test]
    fn flaws_name_the_member() {
        for (wrong, field) in [
            (json!({"permissions": {"default": "never"}}), "permissions.default"),
            (json!({"approval": {"approvers": []}}), "approval.approvers"),
        ] {
            let mut settings = wrong.as_object().unwrap().clone();
            assert_eq!(ConnectionRules::take(&mut settings).unwrap_err().field, field);
        }
    }
}
