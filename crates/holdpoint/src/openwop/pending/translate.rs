//! Translates requests for pending interrupts into filters, and rows into documents. Pure.

use std::borrow::Cow;

use holdpoint_api::ids::encode_segment;
use holdpoint_api::pending::{ListPending, PendingCounts, PendingInterrupt, PendingLinks, PendingVotes};
use holdpoint_api::snapshot::Ancestor;
use holdpoint_core::{Ancestor as StoredAncestor, Kind, Timestamp};
use holdpoint_engine::{Assignee, PendingCursor, PendingFilter, PendingOrder, PendingRow, Votes};

use crate::auth::Caller;
use crate::error::ApiError;
use crate::instants::parse_instant;
use crate::links::Links;

/// The names of orders and the prefixes of their cursors. A cursor is valid for one order.
const ORDERS: [(&str, PendingOrder, &str); 3] = [
    ("oldest", PendingOrder::Oldest, ""),
    ("newest", PendingOrder::Newest, "n"),
    ("deadline", PendingOrder::Deadline, "d"),
];

pub(super) fn filter(
    caller: &Caller,
    query: ListPending,
    cursor: Option<&str>,
    now: Timestamp,
) -> Result<PendingFilter, ApiError> {
    let expires_before = parse_instant("expiresBefore", query.expires_before.as_deref())?;
    let order = match query.order.as_deref() {
        Some(name) => order(name)?,
        // With a filter for deadlines, the nearest deadline comes first.
        None if expires_before.is_some() => PendingOrder::Deadline,
        None => PendingOrder::Oldest,
    };
    let ago = |seconds: u64| Timestamp(now.0.saturating_sub_unsigned(seconds.saturating_mul(1000)));
    Ok(PendingFilter {
        kinds: kinds(query.kind.as_deref())?,
        assignee: query.assignee.map(|entry| match entry.as_str() {
            "me" => Assignee::Principal(caller.principal()),
            _ => Assignee::Entry(entry),
        }),
        workflow: query.workflow_id,
        tag: query.tag,
        requested_from: query.newer_than_seconds.map(ago),
        requested_to: query.older_than_seconds.map(ago),
        expires_before,
        order,
        after: cursor.map(|cursor| parse_cursor(order, cursor)).transpose()?,
    })
}

fn kinds(given: Option<&str>) -> Result<Vec<Kind>, ApiError> {
    let known = || Kind::ALL.map(Kind::as_str).join(", ");
    let kind = |name: &str| {
        let found = Kind::parse(name.trim());
        found.ok_or_else(|| {
            ApiError::invalid("kind", format!("must be one or more of {}, separated by commas", known()))
        })
    };
    given.map(|names| names.split(',').map(kind).collect()).unwrap_or_else(|| Ok(Vec::new()))
}

fn order(name: &str) -> Result<PendingOrder, ApiError> {
    let found = ORDERS.iter().find(|(known, ..)| *known == name).map(|(_, order, _)| *order);
    let names = ORDERS.map(|(name, ..)| name).join(", ");
    found.ok_or_else(|| ApiError::invalid("order", format!("must be one of {names}")))
}

fn mark(order: PendingOrder) -> &'static str {
    ORDERS.iter().find(|(_, known, _)| *known == order).map_or("", |(.., mark)| mark)
}

pub(super) fn row<'a>(links: &Links, row: &'a PendingRow, now: Timestamp) -> PendingInterrupt<'a> {
    let (url, interrupt) = (format!("/v1/runs/{}", row.run), format!("{}:{}", row.run, row.id));
    let resolve = format!(
        "{url}/interrupts/{}?interruptId={}",
        encode_segment(row.node.as_str()),
        encode_segment(&interrupt)
    );
    let page = links.page_url(&row.run, &row.node, Some(&interrupt));
    PendingInterrupt {
        run_id: row.run.clone(),
        node_id: row.node.clone(),
        interrupt_id: interrupt,
        kind: Cow::Borrowed(&row.kind),
        key: Cow::Borrowed(&row.key),
        workflow_id: row.workflow.clone(),
        title: Cow::Borrowed(&row.title),
        excerpt: row.excerpt.as_deref().map(Cow::Borrowed),
        requested_at: row.requested_at.into(),
        age_ms: now.0 - row.requested_at.0,
        expires_at: row.expires_at.map(Into::into),
        digest: row.digest.as_deref().map(Cow::Borrowed),
        assignees: row.assignees.entries(),
        required_approvals: row.votes.as_ref().map(|_| row.required),
        votes: row.votes.as_ref().map(votes),
        path: row.path.iter().map(ancestor).collect(),
        open_asks: row.open_asks,
        tags: Cow::Borrowed(&row.tags),
        status_url: url.clone(),
        links: PendingLinks { run: url, resolve, page },
    }
}

fn ancestor(ancestor: &StoredAncestor) -> Ancestor {
    Ancestor {
        run_id: ancestor.run.clone(),
        workflow_id: ancestor.workflow.clone(),
        node_id: ancestor.node.clone(),
    }
}

fn votes(votes: &Votes) -> PendingVotes<'_> {
    PendingVotes {
        approvals: votes.approvals,
        rejections: votes.rejections,
        voters: Cow::Borrowed(&votes.voters),
    }
}

pub(super) fn counts(counts: holdpoint_engine::PendingCounts) -> PendingCounts {
    PendingCounts {
        total: counts.total,
        by_kind: counts.by_kind,
        overdue: counts.overdue,
        due_soon: counts.due_soon,
        is_complete: counts.complete,
        oldest_requested_at: counts.oldest.map(Into::into),
    }
}

/// Returns the cursor after a row: order, time, interrupt and run. It is opaque to clients.
pub(super) fn cursor(order: PendingOrder, place: &PendingCursor) -> String {
    format!("{}{}.{}.{}", mark(order), place.at_ms, place.interrupt, place.run)
}

fn parse_cursor(order: PendingOrder, text: &str) -> Result<PendingCursor, ApiError> {
    let place = text.strip_prefix(mark(order)).unwrap_or_default();
    let mut parts = place.splitn(3, '.');
    let mut number = || parts.next().and_then(|part| part.parse::<i64>().ok());
    let parsed = number().zip(number());
    match (parsed, parts.next()) {
        (Some((at_ms, interrupt)), Some(run)) => Ok(PendingCursor { at_ms, interrupt, run: run.to_owned() }),
        _ => Err(ApiError::invalid(
            "cursor",
            "is invalid for this order; use the nextCursor of the previous page",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_valid_for_one_order_only() {
        let place = PendingCursor { at_ms: 5, run: "a.b".to_owned(), interrupt: 2 };
        for (_, order, _) in ORDERS {
            let text = cursor(order, &place);
            for (_, other, _) in ORDERS {
                let read = parse_cursor(other, &text).ok();
                assert_eq!(read, (other == order).then(|| place.clone()), "{text} as {other:?}");
            }
        }
    }

    #[test]
    fn node_ids_are_encoded_in_links() {
        assert_eq!(encode_segment("gate-1.a"), "gate-1.a");
        assert_eq!(encode_segment("a/b ü?"), "a%2Fb%20%C3%BC%3F");
    }
}
