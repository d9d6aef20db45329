//! Changes between two JSON values as a JSON Patch (RFC 6902).

use holdpoint_api::agui::PatchOperation;
use json_patch::PatchOperation as Operation;
use serde_json::Value;

/// Returns the changes that turn one value into the other. A patch that is longer than the new value replaces it.
pub(super) fn difference(before: &Value, after: &Value) -> Vec<PatchOperation> {
    let patch = json_patch::diff(before, after).0.into_iter().map(|operation| match operation {
        Operation::Add(add) => Some(PatchOperation::Add { path: add.path.to_string(), value: add.value }),
        Operation::Remove(remove) => Some(PatchOperation::Remove { path: remove.path.to_string() }),
        Operation::Replace(replace) => {
            Some(PatchOperation::Replace { path: replace.path.to_string(), value: replace.value })
        }
        // A difference has no other operations.
        Operation::Move(_) | Operation::Copy(_) | Operation::Test(_) => None,
    });
    let whole = || vec![PatchOperation::Replace { path: String::new(), value: after.clone() }];
    patch.collect::<Option<Vec<_>>>().unwrap_or_else(whole)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patch(before: Value, after: Value) -> Value {
        let found = serde_json::to_value(difference(&before, &after)).unwrap();
        let patch: json_patch::Patch = serde_json::from_value(found.clone()).unwrap();
        let mut patched = before;
        json_patch::patch(&mut patched, &patch).unwrap();
        assert_eq!(patched, after, "{found}");
        found
    }

    #[test]
    fn only_the_changed_members_of_nested_values_are_in_a_patch() {
        let long = json!({"text": "x".repeat(1000), "list": [1, 2, 3]});
        let before = json!({"plan": {"steps": [{"done": false, "note": long}, {"done": false}]}, "n": 1});
        let mut after = before.clone();
        after["plan"]["steps"][0]["done"] = true.into();
        let expected = json!([{"op": "replace", "path": "/plan/steps/0/done", "value": true}]);
        assert_eq!(patch(before, after), expected);
    }

    #[test]
    fn members_with_special_names_and_changed_lists_are_patched() {
        patch(json!({"a/b": 1, "c~d": {"e": 1}}), json!({"a/b": 2, "c~d": {}, "": 3}));
        patch(json!({"list": [1, 2, 3, 4]}), json!({"list": [2, 3]}));
        patch(json!({"list": [{"a": 1}]}), json!({"list": [{"a": 1}, {"b": null}, []]}));
        assert_eq!(patch(json!({"a": 1}), json!([1])), json!([{"op": "replace", "path": "", "value": [1]}]));
        assert_eq!(patch(json!({"a": 1}), json!({"a": 1})), json!([]));
    }
}
