//! Assignee rules: the lists of approvers, answers in the name of another principal, and the exclusion of requesters.

use serde_json::Value;

use super::{Answer, BadRequest, Interrupt, governance};
use crate::Principal;
use crate::limits;
use crate::names::{self, parse_new_name};
use crate::refusal::Refusal;

/// The prefixes of the principal names that the host uses for itself.
const HOST_PREFIXES: [&str; 2] = ["system:", "quorum:"];

/// The members of the interrupt data that restrict who may answer.
pub const ASSIGNEE_MEMBERS: [&str; 5] =
    ["approversList", "approverRoleRefs", "approverGroupRefs", "audience", "requesterMayNotApprove"];

/// The member with the operator's lists of approvers. They apply in addition to the lists of the definition: an
/// approver must be in both.
pub const OPERATOR_APPROVAL: &str = "operatorApproval";

/// The lists of approvers, with the meaning of an entry without a prefix.
const LISTS: [(&str, EntryMeaning); 3] = [
    ("approversList", EntryMeaning::Any),
    ("approverRoleRefs", EntryMeaning::Role),
    ("approverGroupRefs", EntryMeaning::Group),
];

/// The lists of `audience`, which names the principals that an interrupt is shown to.
const AUDIENCE: [(&str, EntryMeaning); 3] =
    [("subjects", EntryMeaning::Name), ("groups", EntryMeaning::Group), ("roles", EntryMeaning::Role)];

/// The member of [`Assignees::rules`](super::Assignees::rules) with an `audience` that does not restrict approvers.
pub(super) const INFORMED_AUDIENCE: &str = "informedAudience";

/// The effect of an `audience`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AudienceRule {
    /// The audience is informed. It does not restrict who may approve.
    Informs,
    /// An approver must be in the audience. Applies to runs that an earlier version started.
    Restricts,
}

/// The meaning of an entry without a prefix.
#[derive(Clone, Copy, PartialEq)]
enum EntryMeaning {
    Any,
    Name,
    Role,
    Group,
}

pub(super) fn check_data(data: &Value) -> Result<(), BadRequest> {
    check_lists(data, "data")?;
    if let Some(operator) = data.get(OPERATOR_APPROVAL) {
        let field = format!("data.{OPERATOR_APPROVAL}");
        if !operator.is_object() {
            return Err(BadRequest::new(&field, "must be an object"));
        }
        check_lists(operator, &field)?;
    }
    match data.get("requesterMayNotApprove") {
        None | Some(Value::Bool(_)) => Ok(()),
        Some(_) => Err(BadRequest::new("data.requesterMayNotApprove", "must be true or false")),
    }
}

fn check_lists(data: &Value, at: &str) -> Result<(), BadRequest> {
    for (list, _) in LISTS {
        check_list(data.get(list), || format!("{at}.{list}"))?;
    }
    let Some(audience) = data.get("audience") else { return Ok(()) };
    if !audience.is_object() {
        return Err(BadRequest::new(&format!("{at}.audience"), "must be an object"));
    }
    for (member, _) in AUDIENCE {
        check_list(audience.get(member), || format!("{at}.audience.{member}"))?;
    }
    Ok(())
}

/// Rejects assignee rules in an interrupt that the host answers itself, because they could not be enforced.
pub(super) fn check_no_assignees(data: &Value) -> Result<(), BadRequest> {
    match ASSIGNEE_MEMBERS.iter().chain([&OPERATOR_APPROVAL]).find(|member| data.get(**member).is_some()) {
        None => Ok(()),
        Some(member) => {
            let message = "is not allowed here: the host answers this interrupt itself";
            Err(BadRequest::new(&format!("data.{member}"), message))
        }
    }
}

fn check_list(list: Option<&Value>, field: impl Fn() -> String) -> Result<(), BadRequest> {
    let Some(list) = list else { return Ok(()) };
    if !is_string_array(list) {
        return Err(BadRequest::new(&field(), "must be an array of strings"));
    }
    let mut names = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    // No principal can have such a name, so no principal could resolve the interrupt.
    match names.any(|name| name.trim().is_empty() || name.contains(char::is_control)) {
        true => Err(BadRequest::new(
            &field(),
            "must contain only names that are not empty and have no control characters",
        )),
        false => Ok(()),
    }
}

pub(super) fn is_string_array(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
}

/// Returns the principal that decides by this answer: the sender, or a principal in whose name the sender may answer.
pub(super) fn decider(answer: &Answer) -> Result<&str, Refusal> {
    let mut named: Option<&str> = None;
    for member in ["voter", "decidedBy"] {
        let Some(given) = answer.value.get(member) else { continue };
        let Some(name) = given.as_str().filter(|name| is_name(name)) else {
            let message = format!(
                "must be 1 to {} characters without control characters, and not begin or end with whitespace",
                limits::ID_CHARS_MAX
            );
            return Err(Refusal::invalid(format!("resumeValue.{member}"), message));
        };
        if named.is_some_and(|before| before != name) {
            return Err(Refusal::invalid("resumeValue.decidedBy", "differs from voter"));
        }
        named = Some(name);
    }
    match named {
        // Only the host answers in the name of the host.
        Some(name) if name != answer.by.name && (!answer.acting_as || is_host_name(name)) => {
            Err(Refusal::MayNotActFor(name.to_owned()))
        }
        // No principal has this name, so it must be valid as a new name.
        Some(name) if name != answer.by.name && !answer.decider_known => match parse_new_name(name) {
            Ok(normal) if normal == name => Ok(name),
            Ok(normal) => {
                let message = format!("must be in normal form (NFKC): {normal:?}");
                Err(Refusal::invalid("resumeValue.decidedBy", message))
            }
            Err(bad) => Err(Refusal::invalid("resumeValue.decidedBy", bad.to_string())),
        },
        Some(name) => Ok(name),
        None => Ok(&answer.by.name),
    }
}

/// Returns the principal that acts for the decider: the sender, or the creator of the link.
pub(super) fn acting_principal<'a>(answer: &'a Answer, decider: &str) -> Option<&'a str> {
    let sender = Some(answer.by.name.as_str()).filter(|sender| *sender != decider);
    sender.or(answer.vouched_by.as_deref().filter(|maker| *maker != decider))
}

/// Returns the answer for the record, with `actedBy` if another principal acts for the decider. Only the host sets
/// `actedBy`.
pub(super) fn with_acted_by(mut value: Value, answer: &Answer, decider: &str) -> Value {
    if let Value::Object(members) = &mut value {
        members.shift_remove("actedBy");
        members
            .extend(acting_principal(answer, decider).map(|name| ("actedBy".to_owned(), Value::from(name))));
    }
    value
}

/// Returns whether a name is reserved for the host. No principal gets such a name, so that actions of the host and of
/// people can be distinguished.
pub fn is_host_name(name: &str) -> bool {
    HOST_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn is_name(text: &str) -> bool {
    (1..=limits::ID_CHARS_MAX).contains(&text.chars().count())
        && !text.contains(char::is_control)
        && text.trim() == text
}

/// Rejects an answer whose decider is not an assignee. `requesters` are the principals that requested the run.
pub(super) fn check(
    asked: &Interrupt,
    requesters: &[&str],
    answer: &Answer,
    decider: &str,
) -> Result<(), Refusal> {
    let data = &asked.data;
    // Roles and groups belong to the sender. Of another decider only the name is known.
    let other_decider = (decider != answer.by.name).then(|| Principal::named(decider));
    let who = other_decider.as_ref().unwrap_or(&answer.by);
    if asked.is_governed() {
        governance::check(data, who, &answer.value)?;
    }
    if !is_admitted(data, who, asked.audience) {
        return Err(Refusal::NotAnApprover(decider.to_owned()));
    }
    // An entry without a prefix may be the name of a role. If only the name of the decider is known, it must be the
    // name of a principal.
    let only_named = other_decider.is_some() || answer.by_link;
    if only_named && !answer.decider_known && lists_without_prefix(data, decider) {
        return Err(Refusal::UnknownName(decider.to_owned()));
    }
    // A requester may not answer in its own name, in the name of another principal, or over a link that it created.
    let involved = [Some(decider), Some(answer.by.name.as_str()), answer.vouched_by.as_deref()];
    let own = requesters.iter().find(|one| involved.contains(&Some(**one)));
    match own.filter(|_| excludes_requesters(data)) {
        Some(own) => Err(Refusal::OwnRequest((*own).to_owned())),
        None => Ok(()),
    }
}

/// Returns whether the data restricts who may decide.
pub(super) fn restricts_deciders(data: &Value, rule: AudienceRule) -> bool {
    let restricting = |set| audience(set).filter(move |_| rule == AudienceRule::Restricts);
    let mut lists = list_sets(data).flat_map(|set| approvers(set).chain(restricting(set)));
    excludes_requesters(data) || lists.any(|(list, _)| has_entries(list))
}

/// Returns whether the data names an audience.
pub(super) fn names_audience(data: &Value) -> bool {
    list_sets(data).flat_map(audience).any(|(list, _)| has_entries(list))
}

fn has_entries(list: &Value) -> bool {
    list.as_array().is_some_and(|entries| !entries.is_empty())
}

/// Returns whether the requesters of the run may not decide.
pub(super) fn excludes_requesters(data: &Value) -> bool {
    data.get("requesterMayNotApprove") == Some(&Value::Bool(true))
}

/// Returns whether the lists let `who` decide.
fn is_admitted(data: &Value, who: &Principal, rule: AudienceRule) -> bool {
    let in_audience = |set| rule == AudienceRule::Informs || admits(who, audience(set));
    list_sets(data).all(|set| admits(who, approvers(set)) && in_audience(set))
}

/// Returns whether the lists, the required role and the required scope let `who` decide in its own name. Does not check
/// whether `who` is a requester.
pub(super) fn may_decide(data: &Value, who: &Principal, rule: AudienceRule) -> bool {
    is_admitted(data, who, rule) && governance::may_decide(data, who)
}

/// Returns the entries of all lists in one form: `name`, `role:x`, `group:y`, `scope:z`. An entry that is not in NFKC
/// is followed by its NFKC form.
pub(super) fn entries(data: &Value) -> Vec<String> {
    let mut entries = governance::entries(data);
    let informed = members(data.get(INFORMED_AUDIENCE), &AUDIENCE);
    for (list, plain) in list_sets(data).flat_map(|set| approvers(set).chain(audience(set))).chain(informed) {
        for entry in list.as_array().into_iter().flatten().filter_map(Value::as_str) {
            let entry = match (entry.split_once(':'), plain) {
                (Some(("role" | "group", _)), _) | (_, EntryMeaning::Any | EntryMeaning::Name) => {
                    entry.to_owned()
                }
                (_, EntryMeaning::Role) => format!("role:{entry}"),
                (_, EntryMeaning::Group) => format!("group:{entry}"),
            };
            let normal = (!entry.is_ascii()).then(|| names::normalize_name(&entry).into_owned());
            for entry in [Some(entry), normal].into_iter().flatten() {
                if !entries.contains(&entry) {
                    entries.push(entry);
                }
            }
        }
    }
    entries
}

/// JSON pointers into the config of a node to the objects that may name assignees: for gates, `core.interrupt` and
/// agents.
const ASSIGNEE_POINTERS: [&str; 3] = ["", "/data", "/approval"];

fn nodes_of(definition: &Value) -> impl Iterator<Item = (String, Vec<&Value>)> {
    let nodes = definition.get("nodes").and_then(Value::as_array).into_iter().flatten();
    nodes.map(|node| {
        let id = node.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        let config = node.get("config").unwrap_or(&Value::Null);
        (id, ASSIGNEE_POINTERS.iter().filter_map(|place| config.pointer(place)).collect())
    })
}

/// Returns the nodes of a definition that name an audience and no approvers: every principal may decide there.
pub fn find_unrestricted_audiences(definition: &Value) -> Vec<String> {
    let is_open = |data: &&Value| {
        let lists = approvers(data).any(|(list, _)| has_entries(list));
        names_audience(data) && !lists && governance::entries(data).is_empty()
    };
    nodes_of(definition).filter(|(_, places)| places.iter().any(is_open)).map(|(id, _)| id).collect()
}

/// Returns the entries of the assignee lists of a definition, each with the id of its node.
pub fn find_named_assignees(definition: &Value) -> Vec<(String, String)> {
    let of_node = |(id, places): (String, Vec<&Value>)| {
        let mut named: Vec<String> = Vec::new();
        for data in places {
            let new: Vec<_> = entries(data).into_iter().filter(|entry| !named.contains(entry)).collect();
            named.extend(new);
        }
        named.into_iter().map(move |entry| (id.clone(), entry)).collect::<Vec<_>>()
    };
    nodes_of(definition).flat_map(of_node).collect()
}

impl Principal {
    /// Returns whether an entry of a list means this principal. Entries have the form of
    /// [`Assignees::entries`](super::Assignees::entries).
    pub fn is_meant_by(&self, entry: &str) -> bool {
        match entry.split_once(':') {
            Some(("scope", scope)) => self.scopes.iter().any(|held| held == scope),
            _ => is_meant(self, entry, EntryMeaning::Any),
        }
    }
}

/// Returns the objects that contain approver lists: that of the definition, and that of the operator. An approver must
/// be in the lists of both.
fn list_sets(data: &Value) -> impl Iterator<Item = &Value> {
    std::iter::once(data).chain(data.get(OPERATOR_APPROVAL))
}

fn approvers(data: &Value) -> impl Iterator<Item = (&Value, EntryMeaning)> {
    members(Some(data), &LISTS)
}

fn audience(data: &Value) -> impl Iterator<Item = (&Value, EntryMeaning)> {
    members(data.get("audience"), &AUDIENCE)
}

fn members<'d>(
    of: Option<&'d Value>,
    lists: &'static [(&'static str, EntryMeaning)],
) -> impl Iterator<Item = (&'d Value, EntryMeaning)> {
    lists.iter().filter_map(move |(list, plain)| Some((of?.get(*list)?, *plain)))
}

/// Returns whether `name` is an entry without a prefix, which may be a name, a role or a group.
pub(super) fn lists_without_prefix(data: &Value, name: &str) -> bool {
    let prefixed = |entry: &str| matches!(entry.split_once(':'), Some(("role" | "group", _)));
    let plain = list_sets(data).flat_map(approvers).filter(|(_, plain)| *plain == EntryMeaning::Any);
    let mut entries =
        plain.flat_map(|(list, _)| list.as_array().into_iter().flatten().filter_map(Value::as_str));
    entries.any(|entry| names::matches_name(entry, name) && !prefixed(entry))
}

/// Returns whether an entry of the lists means `who`. Lists without entries admit every principal.
fn admits<'a>(who: &Principal, lists: impl Iterator<Item = (&'a Value, EntryMeaning)>) -> bool {
    let mut restricted = false;
    for (list, plain) in lists {
        for entry in list.as_array().into_iter().flatten().filter_map(Value::as_str) {
            if is_meant(who, entry, plain) {
                return true;
            }
            restricted = true;
        }
    }
    !restricted
}

fn is_meant(who: &Principal, entry: &str, plain: EntryMeaning) -> bool {
    let (meaning, name) = match entry.split_once(':') {
        Some(("role", name)) => (EntryMeaning::Role, name),
        Some(("group", name)) => (EntryMeaning::Group, name),
        _ => (plain, entry),
    };
    let held = |of: &[String]| of.iter().any(|held| names::matches_name(name, held));
    match meaning {
        EntryMeaning::Name => names::matches_name(name, &who.name),
        EntryMeaning::Role => held(&who.roles),
        EntryMeaning::Group => held(&who.groups),
        EntryMeaning::Any => names::matches_name(name, &who.name) || held(&who.roles) || held(&who.groups),
    }
}
