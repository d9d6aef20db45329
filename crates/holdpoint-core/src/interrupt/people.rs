//! Who may decide: the approvers that a gate lists, whom a caller may act for, and that nobody grants their own wish.

use serde_json::Value;

use super::{Answer, BadRequest, Interrupt, governance};
use crate::Principal;
use crate::limits;
use crate::names::{self, parse_new_name};
use crate::refusal::Refusal;

/// How the names begin under which the host itself acts.
const HOST: [&str; 2] = ["system:", "quorum:"];

/// The members of what is asked that say who may answer.
pub const PEOPLE: [&str; 5] =
    ["approversList", "approverRoleRefs", "approverGroupRefs", "audience", "requesterMayNotApprove"];

/// The member with what the operator requires of approvers. Its lists hold besides those of the definition: an approver
/// must be in both.
pub const OPERATOR_APPROVAL: &str = "operatorApproval";

/// Lists of approvers, and what an entry without a prefix means in each.
const LISTS: [(&str, Prefix); 3] = [
    ("approversList", Prefix::Anything),
    ("approverRoleRefs", Prefix::Role),
    ("approverGroupRefs", Prefix::Group),
];

/// The same in `audience`, which names whom an interrupt is shown to.
const AUDIENCE: [(&str, Prefix); 3] =
    [("subjects", Prefix::Name), ("groups", Prefix::Group), ("roles", Prefix::Role)];

/// The member of [`Assignees::said`](super::Assignees::said) with an `audience` that informs.
pub(super) const INFORMED: &str = "informedAudience";

/// The effect of an `audience`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AudienceRule {
    /// It names who is told, and does not restrict who may approve.
    Informs,
    /// An approver must be in it: in runs that an earlier version started.
    Restricts,
}

#[derive(Clone, Copy, PartialEq)]
enum Prefix {
    Anything,
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
        check_list(data.get(list), &format!("{at}.{list}"))?;
    }
    let Some(audience) = data.get("audience") else { return Ok(()) };
    if !audience.is_object() {
        return Err(BadRequest::new(&format!("{at}.audience"), "must be an object"));
    }
    for (member, _) in AUDIENCE {
        check_list(audience.get(member), &format!("{at}.audience.{member}"))?;
    }
    Ok(())
}

/// Rejects rules about people in an interrupt that the host answers by itself: they could not be enforced.
pub(super) fn check_unnamed(data: &Value) -> Result<(), BadRequest> {
    match PEOPLE.iter().chain([&OPERATOR_APPROVAL]).find(|member| data.get(**member).is_some()) {
        None => Ok(()),
        Some(member) => {
            let message = "cannot be given here: the host answers this interrupt itself";
            Err(BadRequest::new(&format!("data.{member}"), message))
        }
    }
}

fn check_list(list: Option<&Value>, field: &str) -> Result<(), BadRequest> {
    let Some(list) = list else { return Ok(()) };
    if !is_string_array(list) {
        return Err(BadRequest::new(field, "must be an array of strings"));
    }
    let mut names = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    // A name that nobody can have would leave a gate that nobody can pass.
    match names.any(|name| name.trim().is_empty() || name.contains(char::is_control)) {
        true => Err(BadRequest::new(field, "must be names, none of them empty or with control characters")),
        false => Ok(()),
    }
}

pub(super) fn is_string_array(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
}

/// Who decides by this answer: its sender, or somebody the sender may act for.
pub(super) fn decider(answer: &Answer) -> Result<&str, Refusal> {
    let mut named: Option<&str> = None;
    for member in ["voter", "decidedBy"] {
        let Some(given) = answer.value.get(member) else { continue };
        let Some(name) = given.as_str().filter(|name| is_name(name)) else {
            let message = format!(
                "must be 1 to {} characters without control characters, and not begin or end with a blank",
                limits::ID_CHARS_MAX
            );
            return Err(Refusal::invalid(format!("resumeValue.{member}"), message));
        };
        if named.is_some_and(|before| before != name) {
            return Err(Refusal::invalid("resumeValue.decidedBy", "names somebody else than voter does"));
        }
        named = Some(name);
    }
    match named {
        // Nobody speaks for the host.
        Some(name) if name != answer.by.name && (!answer.acting_as || is_host_name(name)) => {
            Err(Refusal::MayNotActFor(name.to_owned()))
        }
        // A name that no key has yet gets into the record here.
        Some(name) if name != answer.by.name && !answer.known => match parse_new_name(name) {
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

/// Who answers in another's name: the sender, or whoever gave away a link that does.
pub(super) fn speaker<'a>(answer: &'a Answer, decider: &str) -> Option<&'a str> {
    let sender = Some(answer.by.name.as_str()).filter(|sender| *sender != decider);
    sender.or(answer.vouched_by.as_deref().filter(|maker| *maker != decider))
}

/// Returns the answer for the record, with `actedBy` if the speaker is not the decider. Only the host sets `actedBy`.
pub(super) fn with_speaker(mut value: Value, answer: &Answer, decider: &str) -> Value {
    if let Value::Object(members) = &mut value {
        members.shift_remove("actedBy");
        members.extend(speaker(answer, decider).map(|name| ("actedBy".to_owned(), Value::from(name))));
    }
    value
}

/// Whether a name is one of the host's own. Nobody gets such a name: what the host did by itself must be told from what
/// people did.
pub fn is_host_name(name: &str) -> bool {
    HOST.iter().any(|prefix| name.starts_with(prefix))
}

fn is_name(text: &str) -> bool {
    (1..=limits::ID_CHARS_MAX).contains(&text.chars().count())
        && !text.contains(char::is_control)
        && text.trim() == text
}

/// `requesters` are those whose wish the run is.
pub(super) fn check(
    asked: &Interrupt,
    requesters: &[&str],
    answer: &Answer,
    decider: &str,
) -> Result<(), Refusal> {
    let data = &asked.data;
    // Roles and groups are the sender's; of somebody else only the name is vouched for.
    let somebody_else = (decider != answer.by.name).then(|| Principal::named(decider));
    let who = somebody_else.as_ref().unwrap_or(&answer.by);
    if asked.is_governed() {
        governance::check(data, who, &answer.value)?;
    }
    if !admitted(data, who, asked.audience) {
        return Err(Refusal::NotAnApprover(decider.to_owned()));
    }
    // The entry may mean a role, and then nobody has that name.
    let only_named = somebody_else.is_some() || answer.by_link;
    if only_named && !answer.known && lists_plainly(data, decider) {
        return Err(Refusal::UnknownName(decider.to_owned()));
    }
    // Neither in their own name nor in another's, nor by a link that they made for somebody.
    let involved = [Some(decider), Some(answer.by.name.as_str()), answer.vouched_by.as_deref()];
    let own = requesters.iter().find(|one| involved.contains(&Some(**one)));
    match own.filter(|_| is_separated(data)) {
        Some(own) => Err(Refusal::OwnRequest((*own).to_owned())),
        None => Ok(()),
    }
}

/// Returns whether the data restricts who may decide.
pub(super) fn names_anybody(data: &Value, rule: AudienceRule) -> bool {
    let restricting = |set| audience(set).filter(move |_| rule == AudienceRule::Restricts);
    let mut lists = list_sets(data).flat_map(|set| approvers(set).chain(restricting(set)));
    is_separated(data) || lists.any(|(list, _)| has_entries(list))
}

/// Returns whether the data names whom the interrupt is shown to.
pub(super) fn names_audience(data: &Value) -> bool {
    list_sets(data).flat_map(audience).any(|(list, _)| has_entries(list))
}

fn has_entries(list: &Value) -> bool {
    list.as_array().is_some_and(|entries| !entries.is_empty())
}

/// Whether those whose wish the run is must not decide.
pub(super) fn is_separated(data: &Value) -> bool {
    data.get("requesterMayNotApprove") == Some(&Value::Bool(true))
}

/// Returns whether the lists let `who` decide.
fn admitted(data: &Value, who: &Principal, rule: AudienceRule) -> bool {
    let in_audience = |set| rule == AudienceRule::Informs || admits(who, audience(set));
    list_sets(data).all(|set| admits(who, approvers(set)) && in_audience(set))
}

/// Returns whether an answer of `who` in their own name could be heard, as far as the data tells.
pub(super) fn may_decide(data: &Value, who: &Principal, rule: AudienceRule) -> bool {
    admitted(data, who, rule) && governance::may_decide(data, who)
}

/// Returns the entries of all lists in one form: `name`, `role:x`, `group:y`, `scope:z`. An entry that is not in NFKC is
/// followed by its NFKC form.
pub(super) fn entries(data: &Value) -> Vec<String> {
    let mut entries = governance::entries(data);
    let informed = members(data.get(INFORMED), &AUDIENCE);
    for (list, plain) in list_sets(data).flat_map(|set| approvers(set).chain(audience(set))).chain(informed) {
        for entry in list.as_array().into_iter().flatten().filter_map(Value::as_str) {
            let entry = match (entry.split_once(':'), plain) {
                (Some(("role" | "group", _)), _) | (_, Prefix::Anything | Prefix::Name) => entry.to_owned(),
                (_, Prefix::Role) => format!("role:{entry}"),
                (_, Prefix::Group) => format!("group:{entry}"),
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

/// JSON pointers into the config of a node that may name people: for gates, `core.interrupt` and agents.
const NAMED_IN: [&str; 3] = ["", "/data", "/approval"];

fn nodes_of(definition: &Value) -> impl Iterator<Item = (String, Vec<&Value>)> {
    let nodes = definition.get("nodes").and_then(Value::as_array).into_iter().flatten();
    nodes.map(|node| {
        let id = node.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        let config = node.get("config").unwrap_or(&Value::Null);
        (id, NAMED_IN.iter().filter_map(|place| config.pointer(place)).collect())
    })
}

/// Returns the nodes of a definition that name an audience and no approvers: everybody may decide there.
pub fn find_unrestricted_audiences(definition: &Value) -> Vec<String> {
    let is_open = |data: &&Value| {
        let lists = approvers(data).any(|(list, _)| has_entries(list));
        names_audience(data) && !lists && governance::entries(data).is_empty()
    };
    nodes_of(definition).filter(|(_, places)| places.iter().any(is_open)).map(|(id, _)| id).collect()
}

/// Returns the people that the nodes of a definition name, each with the id of its node.
pub fn find_named_people(definition: &Value) -> Vec<(String, String)> {
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
            _ => is_meant(self, entry, Prefix::Anything),
        }
    }
}

/// Returns the objects with lists that an approver must be in: that of the definition, and that of the operator.
fn list_sets(data: &Value) -> impl Iterator<Item = &Value> {
    std::iter::once(data).chain(data.get(OPERATOR_APPROVAL))
}

fn approvers(data: &Value) -> impl Iterator<Item = (&Value, Prefix)> {
    members(Some(data), &LISTS)
}

fn audience(data: &Value) -> impl Iterator<Item = (&Value, Prefix)> {
    members(data.get("audience"), &AUDIENCE)
}

fn members<'d>(
    of: Option<&'d Value>,
    lists: &'static [(&'static str, Prefix)],
) -> impl Iterator<Item = (&'d Value, Prefix)> {
    lists.iter().filter_map(move |(list, plain)| Some((of?.get(*list)?, *plain)))
}

/// Whether `name` is an entry that could be a name, a role or a group.
pub(super) fn lists_plainly(data: &Value, name: &str) -> bool {
    let prefixed = |entry: &str| matches!(entry.split_once(':'), Some(("role" | "group", _)));
    let plain = list_sets(data).flat_map(approvers).filter(|(_, plain)| *plain == Prefix::Anything);
    let mut entries =
        plain.flat_map(|(list, _)| list.as_array().into_iter().flatten().filter_map(Value::as_str));
    entries.any(|entry| names::means(entry, name) && !prefixed(entry))
}

/// Lists without entries let everybody pass.
fn admits<'a>(who: &Principal, lists: impl Iterator<Item = (&'a Value, Prefix)>) -> bool {
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

fn is_meant(who: &Principal, entry: &str, plain: Prefix) -> bool {
    let (meaning, name) = match entry.split_once(':') {
        Some(("role", name)) => (Prefix::Role, name),
        Some(("group", name)) => (Prefix::Group, name),
        _ => (plain, entry),
    };
    let held = |of: &[String]| of.iter().any(|held| names::means(name, held));
    match meaning {
        Prefix::Name => names::means(name, &who.name),
        Prefix::Role => held(&who.roles),
        Prefix::Group => held(&who.groups),
        Prefix::Anything => names::means(name, &who.name) || held(&who.roles) || held(&who.groups),
    }
}
