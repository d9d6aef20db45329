//! Requirements of the operator for approvals, joined member by member with the definition; the stricter value wins.

use holdpoint_core::{AUTH_REQUIRED, InterruptRequest, Kind, OPERATOR_APPROVAL};
use serde::Deserialize;
use serde_json::{Map, Value, json};

const LISTS: [&str; 3] = ["approversList", "approverRoleRefs", "approverGroupRefs"];
const SEPARATED: &str = "requesterMayNotApprove";
const REQUIRED: &str = "requiredApprovals";
const POLICY: &str = "rejectionPolicy";
const PROFILE: &str = "profile";
const TIMEOUT: &str = "timeoutMs";
const EDITABLE: &str = "editable";
const KNOWN: [&str; 6] = [SEPARATED, REQUIRED, POLICY, PROFILE, TIMEOUT, EDITABLE];

/// Requirements for approvals of a connection or a provider: the members of an approval, `timeoutMs` and `editable`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub struct OperatorApproval(Map<String, Value>);

/// The error for an invalid `approval` of an operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct BadApproval {
    /// The member that is invalid.
    pub field: String,
    /// The reason, and what to do.
    pub message: String,
}

/// The connection or the provider that an [`OperatorApproval`] belongs to, as approvals name it.
#[derive(Clone, Copy, Debug)]
pub enum RequirementSource<'a> {
    /// The name of the connection, as approvals show it.
    Connection(&'a str),
    /// The name of the graph of a provider, as approvals show it.
    Provider(&'a str),
}

impl TryFrom<Value> for OperatorApproval {
    type Error = BadApproval;

    fn try_from(value: Value) -> Result<Self, BadApproval> {
        let bad = |member: &str, message: &str| {
            let field = if member.is_empty() { "approval".to_owned() } else { format!("approval.{member}") };
            BadApproval { field, message: message.to_owned() }
        };
        let Value::Object(members) = value else { return Err(bad("", "must be an object")) };
        if members.contains_key("audience") {
            let message = "does not restrict who may approve; name approvers in approversList, approverRoleRefs or \
                approverGroupRefs";
            return Err(bad("audience", message));
        }
        let is_known = |name: &str| LISTS.contains(&name) || KNOWN.contains(&name);
        if let Some(name) = members.keys().find(|name| !is_known(name)) {
            let known = [&LISTS[..], &KNOWN[..]].concat().join(", ");
            return Err(bad(name, &format!("is not known; known: {known}")));
        }
        let is_empty =
            |name: &&&str| members.get(**name).and_then(Value::as_array).is_some_and(Vec::is_empty);
        if let Some(name) = LISTS.iter().find(is_empty) {
            return Err(bad(name, "must name at least one approver; remove the list to set no requirement"));
        }
        if members.get(TIMEOUT).is_some_and(|ms| ms.as_u64().is_none_or(|ms| ms == 0)) {
            return Err(bad(TIMEOUT, "must be a whole number of milliseconds, 1 or more"));
        }
        if members.get(EDITABLE).is_some_and(|flag| !flag.is_boolean()) {
            return Err(bad(EDITABLE, "must be true or false"));
        }
        if members.get(PROFILE).is_some_and(|profile| profile != AUTH_REQUIRED) {
            return Err(bad(PROFILE, &format!("must be {AUTH_REQUIRED}")));
        }
        let mut data = members.clone();
        let needed =
            json!({"artifactId": "any", "artifactType": "tool.call", "title": "any", "actions": ["accept"]});
        data.extend(needed.as_object().cloned().unwrap_or_default());
        let checked = InterruptRequest::new(Kind::Approval, Value::Object(data)).check();
        checked.map_err(|flaw| bad(flaw.field.trim_start_matches("data."), &flaw.message))?;
        Ok(Self(members))
    }
}

impl OperatorApproval {
    /// Returns whether there are no requirements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the member [`OPERATOR_APPROVAL`] of an approval: the source and all requirements. The core checks
    /// approvers against its lists.
    pub fn describe(&self, source: RequirementSource<'_>) -> Value {
        let mut shown = self.0.clone();
        let (kind, name) = match source {
            RequirementSource::Connection(name) => ("connection", name),
            RequirementSource::Provider(name) => ("provider", name),
        };
        shown.insert(kind.to_owned(), json!(name));
        Value::Object(shown)
    }

    /// Joins this with the members of an approval that a definition sets. Both lists of approvers apply, so that only
    /// principals in both can approve. The larger `requiredApprovals` applies, `requesterMayNotApprove` and `profile`
    /// apply if either side sets them, and `rejectionPolicy` is `majority` only if both sides set it.
    pub fn join(&self, source: RequirementSource<'_>, own: &Map<String, Value>) -> Map<String, Value> {
        let mut joined = own.clone();
        joined.insert(OPERATOR_APPROVAL.to_owned(), self.describe(source));
        let count = |of: &Map<String, Value>| of.get(REQUIRED).and_then(Value::as_u64);
        if let Some(required) = count(&self.0) {
            joined.insert(REQUIRED.to_owned(), json!(required.max(count(own).unwrap_or(1))));
        }
        if self.0.get(SEPARATED) == Some(&Value::Bool(true)) {
            joined.insert(SEPARATED.to_owned(), json!(true));
        }
        if let Some(policy) = self.0.get(POLICY) {
            let lenient = policy == "majority" && own.get(POLICY).is_some_and(|own| own == "majority");
            joined.insert(POLICY.to_owned(), json!(if lenient { "majority" } else { "single-veto" }));
        }
        if let Some(profile) = self.0.get(PROFILE) {
            joined.insert(PROFILE.to_owned(), profile.clone());
        }
        joined
    }

    /// Returns whether approvers may edit the payload.
    pub fn is_editable(&self) -> bool {
        self.0.get(EDITABLE) != Some(&Value::Bool(false))
    }

    /// Returns the earlier of both deadlines.
    pub fn timeout_ms(&self, own: Option<u64>) -> Option<u64> {
        let ours = self.0.get(TIMEOUT).and_then(Value::as_u64);
        ours.into_iter().chain(own).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(operator: Value, own: Value) -> Value {
        let own = own.as_object().unwrap().clone();
        Value::Object(
            OperatorApproval::try_from(operator).unwrap().join(RequirementSource::Connection("shell"), &own),
        )
    }

    #[test]
    fn the_stricter_value_of_each_member_applies() {
        let strict = json!({"approversList": ["ann"], "requiredApprovals": 2, "requesterMayNotApprove": true,
            "rejectionPolicy": "single-veto", "profile": AUTH_REQUIRED});
        let lax = json!({"approversList": ["bob"], "requiredApprovals": 1, "requesterMayNotApprove": false,
            "rejectionPolicy": "majority"});
        let mut shown = strict.clone();
        shown["connection"] = json!("shell");
        let mut expected = strict.clone();
        expected["approversList"] = json!(["bob"]);
        expected["operatorApproval"] = shown;
        assert_eq!(joined(strict.clone(), lax.clone()), expected);
        let mut expected = strict.clone();
        expected["operatorApproval"] = lax.clone();
        expected["operatorApproval"]["connection"] = json!("shell");
        assert_eq!(
            joined(lax.clone(), strict),
            expected,
            "lax requirements of the operator do not weaken the definition"
        );
        assert_eq!(joined(lax, json!({}))["rejectionPolicy"], "single-veto", "the default of a definition");
    }

    #[test]
    fn the_earlier_deadline_applies() {
        let limited = OperatorApproval::try_from(json!({"timeoutMs": 100})).unwrap();
        assert_eq!([limited.timeout_ms(None), limited.timeout_ms(Some(5))], [Some(100), Some(5)]);
        assert_eq!(OperatorApproval::default().timeout_ms(None), None);
        assert!(!OperatorApproval::try_from(json!({"editable": false})).unwrap().is_editable());
    }

    #[test]
    fn errors_name_the_invalid_member() {
        for (wrong, field) in [
            (json!([]), "approval"),
            (json!({"approvers": ["ann"]}), "approval.approvers"),
            (json!({"approversList": []}), "approval.approversList"),
            (json!({"approversList": "ann"}), "approval.approversList"),
            (json!({"audience": {"roles": ["x"]}}), "approval.audience"),
            (json!({"requiredApprovals": 0}), "approval.requiredApprovals"),
            (json!({"requesterMayNotApprove": "yes"}), "approval.requesterMayNotApprove"),
            (json!({"rejectionPolicy": "none"}), "approval.rejectionPolicy"),
            (json!({"profile": "none"}), "approval.profile"),
            (json!({"timeoutMs": 0}), "approval.timeoutMs"),
            (json!({"editable": 1}), "approval.editable"),
        ] {
            assert_eq!(OperatorApproval::try_from(wrong.clone()).unwrap_err().field, field, "{wrong}");
        }
    }
}
