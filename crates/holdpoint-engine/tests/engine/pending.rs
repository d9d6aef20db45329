//! What waits, as people look for it: every filter, pages, counts, and what the database does for them.

use holdpoint_engine::core::{
    Answer, Command, Kind, NodeId, Owner, Principal, RunRef, Start, Timestamp, WorkflowId,
};
use holdpoint_engine::{Assignee, Pending, PendingFilter, PendingOrder};
use serde_json::{Value, json};

use crate::house::{House, NOON, accept, line, tenant};
use crate::place::{Place, on_both};

on_both! {
    each_filter_finds_its_rows_and_no_others,
    what_is_mine_is_what_i_may_decide_and_have_not_voted_on,
    votes_and_questions_are_on_the_row_as_they_come,
    pages_go_on_where_they_ended_whatever_happens_between_them,
    deadlines_can_be_the_order,
    what_was_decided_leaves_no_row_behind,
    counts_tell_what_is_urgent,
    no_list_reads_more_than_an_index_gives,
    a_search_through_very_many_rows_is_cut_into_pages,
    a_name_of_any_length_can_be_listed,
    what_is_read_for_somebody_with_very_many_roles_is_counted,
}

fn somebody(name: &str, roles: &[&str], groups: &[&str]) -> Principal {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Principal { roles: owned(roles), groups: owned(groups), ..Principal::named(name) }
}

async fn gate(house: &House, id: &str, config: Value) {
    house.register(line(id, &[("gate", "core.approvalGate", config)])).await;
}

/// Starts a run a second after the last one.
async fn begin(house: &House, workflow: &str, tags: &[&str], owner: &str) -> RunRef {
    house.clock.advance(1000);
    let owner = Owner { tenant: tenant(), principal: owner.to_owned() };
    let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    let start = Start { tags, ..Start::new(owner) };
    let run = house.engine.start(&WorkflowId::parse(workflow).unwrap(), start).await.unwrap();
    RunRef { tenant: tenant(), run: run.id.clone() }
}

async fn say(house: &House, of: &RunRef, by: &str, value: Value) {
    let node = NodeId::parse("gate").unwrap();
    let answer = Answer::new(value, Principal::named(by));
    house.engine.execute(of, &Command::ResolveNode { node, interrupt: None, answer }).await.unwrap();
}

async fn rows(house: &House, filter: &PendingFilter) -> Vec<Pending> {
    let page = house.engine.pending_page(&tenant(), filter, 100).await.unwrap();
    assert_eq!(page.next, None, "this is all");
    page.rows
}

/// The workflows of what is found, each gate being of another.
async fn found(house: &House, filter: &PendingFilter) -> Vec<String> {
    rows(house, filter).await.iter().map(|row| row.workflow.to_string()).collect()
}

fn of_kinds(kinds: &[Kind]) -> PendingFilter {
    PendingFilter { kinds: kinds.to_vec(), ..PendingFilter::default() }
}

fn for_entry(entry: &str) -> PendingFilter {
    PendingFilter { assignee: Some(Assignee::Entry(entry.to_owned())), ..PendingFilter::default() }
}

fn for_me(me: Principal) -> PendingFilter {
    PendingFilter { assignee: Some(Assignee::Whoever(me)), ..PendingFilter::default() }
}

fn newest(filter: PendingFilter) -> PendingFilter {
    PendingFilter { order: PendingOrder::Newest, ..filter }
}

async fn each_filter_finds_its_rows_and_no_others(house: House) {
    gate(&house, "open", json!({})).await;
    gate(&house, "listed", json!({"approversList": ["ann", "role:lead"]})).await;
    let asks = json!({"questions": [{"id": "q", "question": "Which?"}]});
    house.register(line("asking", &[("gate", "core.clarificationGate", asks)])).await;
    begin(&house, "open", &["blue", "old"], "tester").await;
    begin(&house, "listed", &["blue"], "tester").await;
    begin(&house, "asking", &[], "tester").await;
    let all = PendingFilter::default();
    assert_eq!(found(&house, &all).await, ["open", "listed", "asking"]);
    assert_eq!(found(&house, &newest(all.clone())).await, ["asking", "listed", "open"]);
    assert_eq!(found(&house, &of_kinds(&[Kind::Approval])).await, ["open", "listed"]);
    assert_eq!(found(&house, &newest(of_kinds(&[Kind::Approval]))).await, ["listed", "open"]);
    assert_eq!(found(&house, &of_kinds(&[Kind::Clarification, Kind::Approval])).await.len(), 3);
    assert!(found(&house, &of_kinds(&[Kind::Custom])).await.is_empty());
    for entry in ["ann", "role:lead"] {
        assert_eq!(found(&house, &for_entry(entry)).await, ["listed"], "{entry}");
    }
    assert!(found(&house, &for_entry("lead")).await.is_empty(), "entries are exact");
    let tagged = |tag: &str| PendingFilter { tag: Some(tag.to_owned()), ..PendingFilter::default() };
    assert_eq!(found(&house, &tagged("blue")).await, ["open", "listed"]);
    assert_eq!(found(&house, &newest(tagged("blue"))).await, ["listed", "open"]);
    assert!(found(&house, &tagged("red")).await.is_empty());
    let of =
        |workflow: &str| PendingFilter { workflow: Some(workflow.to_owned()), ..PendingFilter::default() };
    assert_eq!(found(&house, &of("asking")).await, ["asking"]);
    let old = PendingFilter { requested_to: Some(Timestamp(NOON + 1000)), ..all.clone() };
    assert_eq!(found(&house, &old).await, ["open"]);
    let late = PendingFilter { requested_from: Some(Timestamp(NOON + 2000)), ..all.clone() };
    assert_eq!(found(&house, &late).await, ["listed", "asking"]);
    assert_eq!(found(&house, &newest(late)).await, ["asking", "listed"]);
    let several = PendingFilter { tag: Some("blue".to_owned()), ..of("open") };
    assert_eq!(found(&house, &several).await, ["open"]);
    let none = PendingFilter { kinds: vec![Kind::Clarification], ..tagged("blue") };
    assert!(found(&house, &none).await.is_empty());
}

async fn what_is_mine_is_what_i_may_decide_and_have_not_voted_on(house: House) {
    gate(&house, "open", json!({})).await;
    gate(&house, "leads", json!({"approversList": ["role:lead"]})).await;
    gate(&house, "plain", json!({"approversList": ["ops", "ann"]})).await;
    gate(&house, "own", json!({"requesterMayNotApprove": true})).await;
    gate(&house, "two", json!({"requiredApprovals": 2, "approversList": ["ann", "bob"]})).await;
    for workflow in ["open", "leads", "plain", "own"] {
        begin(&house, workflow, &[], "ann").await;
    }
    let two = begin(&house, "two", &[], "cid").await;
    assert_eq!(found(&house, &for_me(somebody("ann", &[], &[]))).await, ["open", "plain", "two"]);
    assert_eq!(
        found(&house, &for_me(somebody("bob", &["lead"], &[]))).await,
        ["open", "leads", "own", "two"]
    );
    assert_eq!(found(&house, &for_me(somebody("cid", &[], &["ops"]))).await, ["open", "plain", "own"]);
    assert_eq!(
        found(&house, &newest(for_me(somebody("cid", &[], &["ops"])))).await,
        ["own", "plain", "open"]
    );
    let of_workflow =
        PendingFilter { workflow: Some("leads".to_owned()), ..for_me(somebody("ann", &[], &[])) };
    assert!(found(&house, &of_workflow).await.is_empty(), "another index asks the same");
    say(&house, &two, "ann", accept()).await;
    assert_eq!(found(&house, &for_me(somebody("ann", &[], &[]))).await, ["open", "plain"]);
    assert!(found(&house, &for_me(somebody("bob", &[], &[]))).await.contains(&"two".to_owned()));
}

async fn votes_and_questions_are_on_the_row_as_they_come(house: House) {
    let config = json!({"requiredApprovals": 3, "rejectionPolicy": "majority", "actions": ["accept", "reject", "ask"]});
    gate(&house, "three", config).await;
    let of = begin(&house, "three", &["blue"], "tester").await;
    let row = async || rows(&house, &PendingFilter::default()).await.remove(0);
    let first = row().await;
    assert_eq!((first.required, first.open_asks, first.tags), (3, 0, vec!["blue".to_owned()]));
    assert_eq!(first.digest, house.run(&of).await.interrupts[0].digest);
    assert_eq!(first.votes.unwrap().voters, [""; 0]);
    say(&house, &of, "ann", accept()).await;
    say(&house, &of, "bob", json!({"action": "reject"})).await;
    say(&house, &of, "ann", accept()).await;
    let votes = row().await.votes.unwrap();
    assert_eq!(
        (votes.approvals, votes.rejections, votes.voters),
        (1, 1, vec!["ann".to_owned(), "bob".to_owned()])
    );
    say(&house, &of, "cid", json!({"action": "ask", "question": "Why?"})).await;
    say(&house, &of, "cid", json!({"action": "ask", "question": "How?"})).await;
    assert_eq!(row().await.open_asks, 2);
    let interrupt = house.run(&of).await.interrupts[0].id;
    let command =
        Command::AnswerAsk { interrupt, ask: 1, answer: "So.".to_owned(), by: Principal::named("tester") };
    house.engine.execute(&of, &command).await.unwrap();
    assert_eq!(row().await.open_asks, 1);
    gate(&house, "one", json!({})).await;
    begin(&house, "one", &[], "tester").await;
    assert_eq!(rows(&house, &newest(PendingFilter::default())).await[0].votes, None, "one is enough");
}

async fn pages_go_on_where_they_ended_whatever_happens_between_them(house: House) {
    gate(&house, "two", json!({"requiredApprovals": 2})).await;
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(begin(&house, "two", &["blue"], "tester").await);
    }
    let ids = |rows: &[Pending]| rows.iter().map(|row| row.run.clone()).collect::<Vec<_>>();
    let blue = PendingFilter { tag: Some("blue".to_owned()), ..PendingFilter::default() };
    for filter in [PendingFilter::default(), blue, for_me(somebody("eve", &[], &[]))] {
        let first = house.engine.pending_page(&tenant(), &filter, 2).await.unwrap();
        assert_eq!(ids(&first.rows), [runs[0].run.clone(), runs[1].run.clone()]);
        let next = PendingFilter { after: first.next, ..filter };
        let second = house.engine.pending_page(&tenant(), &next, 2).await.unwrap();
        assert_eq!(ids(&second.rows), [runs[2].run.clone(), runs[3].run.clone()]);
    }
    let first = house.engine.pending_page(&tenant(), &PendingFilter::default(), 2).await.unwrap();
    // The last row of the page is decided, one before it voted on, a new one comes.
    say(&house, &runs[1], "ann", accept()).await;
    say(&house, &runs[1], "bob", accept()).await;
    say(&house, &runs[2], "ann", accept()).await;
    let new = begin(&house, "two", &[], "tester").await;
    let rest = PendingFilter { after: first.next, ..PendingFilter::default() };
    let rest = house.engine.pending_page(&tenant(), &rest, 4).await.unwrap();
    let expected = [&runs[2], &runs[3], &runs[4], &new].map(|of| of.run.clone());
    assert_eq!((ids(&rest.rows), rest.next), (expected.to_vec(), None));
}

async fn deadlines_can_be_the_order(house: House) {
    gate(&house, "long", json!({"timeoutMs": 100_000})).await;
    gate(&house, "short", json!({"timeoutMs": 10_000})).await;
    gate(&house, "never", json!({})).await;
    for workflow in ["long", "never", "short"] {
        begin(&house, workflow, &[], "tester").await;
    }
    let deadlines = PendingFilter { order: PendingOrder::Deadline, ..PendingFilter::default() };
    assert_eq!(found(&house, &deadlines).await, ["short", "long"]);
    let soon = PendingFilter { expires_before: Some(Timestamp(NOON + 60_000)), ..deadlines.clone() };
    assert_eq!(found(&house, &soon).await, ["short"]);
    let soon = PendingFilter { order: PendingOrder::Oldest, ..soon };
    assert_eq!(found(&house, &soon).await, ["short"]);
    let first = house.engine.pending_page(&tenant(), &deadlines, 1).await.unwrap();
    let rest = PendingFilter { after: first.next, ..deadlines };
    assert_eq!(found(&house, &rest).await, ["long"]);
}

async fn what_was_decided_leaves_no_row_behind(house: House) {
    gate(&house, "listed", json!({"approversList": ["ann"]})).await;
    let of = begin(&house, "listed", &["blue"], "tester").await;
    let other = begin(&house, "listed", &["blue"], "tester").await;
    let facets = async || house.place.read("SELECT facet FROM pending_facets ORDER BY facet").await.len();
    assert_eq!(facets().await, 4);
    say(&house, &of, "ann", accept()).await;
    assert_eq!(facets().await, 2);
    house.engine.cancel(&other, None, Principal::named("tester")).await.unwrap();
    assert_eq!(facets().await, 0);
    assert!(house.pending().await.is_empty());
}

async fn counts_tell_what_is_urgent(house: House) {
    gate(&house, "open", json!({})).await;
    gate(&house, "soon", json!({"timeoutMs": 60_000, "approversList": ["ann"]})).await;
    gate(&house, "late", json!({"timeoutMs": 10_000_000})).await;
    let asks = json!({"questions": [{"id": "q", "question": "Which?"}]});
    house.register(line("asking", &[("gate", "core.clarificationGate", asks)])).await;
    for workflow in ["open", "soon", "late", "asking"] {
        begin(&house, workflow, &[], "tester").await;
    }
    let count = async |filter: &PendingFilter| house.engine.pending_counts(&tenant(), filter).await.unwrap();
    let all = count(&PendingFilter::default()).await;
    assert_eq!((all.total, all.overdue, all.due_soon, all.complete), (4, 0, 1, true));
    assert_eq!((all.by_kind["approval"], all.by_kind["clarification"]), (3, 1));
    assert_eq!(all.oldest, Some(Timestamp(NOON + 1000)));
    house.clock.advance(100_000);
    assert_eq!(count(&PendingFilter::default()).await.overdue, 1, "nobody has noticed yet");
    assert_eq!(count(&for_entry("ann")).await.total, 1);
    assert_eq!(count(&for_me(somebody("eve", &[], &[]))).await.total, 3);
    let none = count(&of_kinds(&[Kind::Custom])).await;
    assert_eq!((none.total, none.oldest, none.by_kind.len()), (0, None, 0));
}

/// Rows as the engine writes them, but many of them at once.
pub(crate) async fn load(place: &Place, count: u32) {
    let series = match place {
        Place::Sqlite(_) => {
            format!("WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {count})")
        }
        Place::Postgres(_) => format!("WITH s(n) AS (SELECT generate_series(1, {count}))"),
    };
    // The last rows are of a rare kind, workflow, tag and approver.
    let rare = |rare: &str, else_: &str| format!("CASE WHEN n > {} THEN {rare} ELSE {else_} END", count - 10);
    let rows = format!(
        "INSERT INTO pending (tenant_id, requested_ms, run_id, interrupt_id, workflow_id, node_id, kind, key, title,
            expires_ms, restricted, people, tags)
        {series} SELECT 'default', {NOON} - 10000000 + n, 'run-' || n, 1, {}, 'gate', {}, 'key', 'Go on?', {}, {}, {}, {} FROM s",
        rare("'rare'", "'bulk-' || (n % 3)"),
        rare("'clarification'", "'approval'"),
        rare("20 + n", "NULL"),
        rare("0", "1"),
        rare("NULL", "'{\"approversList\":[\"role:lead\"]}'"),
        rare("'[\"rare\"]'", "CASE WHEN n % 3 = 0 THEN '[\"bulk\"]' END"),
    );
    place.execute(&rows).await.unwrap();
    let lanes = "UPDATE pending SET kind_lane = tenant_id || '\n' || restricted || '\n' || kind,
        workflow_lane = tenant_id || '\n' || workflow_id";
    place.execute(lanes).await.unwrap();
    let facets = "INSERT INTO pending_facets (tenant_id, facet, requested_ms, run_id, interrupt_id)
        SELECT tenant_id, 'to:role:lead', requested_ms, run_id, 1 FROM pending WHERE restricted = 1 UNION ALL
        SELECT tenant_id, CASE WHEN restricted = 0 THEN 'tag:rare' ELSE 'tag:bulk' END, requested_ms, run_id, 1
        FROM pending WHERE tags IS NOT NULL";
    place.execute(facets).await.unwrap();
}

async fn no_list_reads_more_than_an_index_gives(house: House) {
    load(&house.place, 60_000).await;
    // Before the database has counted its rows and after: PostgreSQL does so by itself, soon; SQLite never does.
    every_list_stops_early(&house).await;
    if let Place::Postgres(_) = house.place {
        house.place.execute("ANALYZE pending; ANALYZE pending_facets").await.unwrap();
        every_list_stops_early(&house).await;
    }
}

async fn every_list_stops_early(house: &House) {
    let all = PendingFilter::default();
    let from = PendingFilter { requested_from: Some(Timestamp(NOON - 10_000_000 + 59_995)), ..all.clone() };
    // Common ones: few rows may as well be gathered and sorted.
    let filters = [
        ("PRIMARY KEY|pending_pkey", all.clone()),
        ("pending_by_kind", of_kinds(&[Kind::Approval])),
        ("pending_by_workflow", PendingFilter { workflow: Some("bulk-1".to_owned()), ..all.clone() }),
        ("facet", for_entry("role:lead")),
        ("facet", PendingFilter { tag: Some("bulk".to_owned()), ..all.clone() }),
        ("pending_by_kind|facet", for_me(somebody("ann", &["lead"], &[]))),
        ("PRIMARY KEY|pending_pkey", from),
        ("pending_by_deadline", PendingFilter { order: PendingOrder::Deadline, ..all }),
    ];
    for (indexes, filter) in filters {
        let backwards = newest(filter.clone());
        let backwards = if filter.order == PendingOrder::Deadline { filter.clone() } else { backwards };
        for filter in [filter, backwards] {
            for plan in house.engine.pending_plans(&tenant(), &filter).await.unwrap() {
                // These are no table, but what an index gave up to the limit.
                let plan = plan.replace("SCAN few", "");
                let scans = ["SCAN", "Seq Scan", "TEMP B-TREE", "Sort", "Hash Join", "Merge Join", "Bitmap"];
                let found: Vec<_> = scans.iter().filter(|scan| plan.contains(*scan)).collect();
                let chosen = indexes.split('|').any(|index| plan.contains(index));
                assert!(found.is_empty() && chosen, "{indexes}: {plan}");
            }
        }
    }
}

async fn a_search_through_very_many_rows_is_cut_into_pages(house: House) {
    load(&house.place, 12_000).await;
    // Each row is for leads; the few that are for everybody come last, and no index knows both.
    let filter = PendingFilter {
        requested_from: Some(Timestamp(0)),
        expires_before: Some(Timestamp(NOON)),
        ..PendingFilter::default()
    };
    let first = house.engine.pending_page(&tenant(), &filter, 5).await.unwrap();
    assert!(first.rows.is_empty() && first.next.is_some(), "so many rows were looked at");
    let next = PendingFilter { after: first.next, ..filter.clone() };
    let second = house.engine.pending_page(&tenant(), &next, 5).await.unwrap();
    assert_eq!(second.rows.len(), 5);
    let counts = house.engine.pending_counts(&tenant(), &filter).await.unwrap();
    assert!(!counts.complete);
    let indexed = of_kinds(&[Kind::Clarification]);
    assert_eq!(rows(&house, &indexed).await.len(), 10);
}

async fn a_name_of_any_length_can_be_listed(house: House) {
    let (long, other) = ("ü".repeat(5000), "ö".repeat(5000));
    gate(&house, "listed", json!({"approversList": [long, "role:lead"]})).await;
    let of = begin(&house, "listed", &[], "tester").await;
    assert_eq!(found(&house, &for_entry(&long)).await, ["listed"]);
    assert_eq!(found(&house, &for_me(somebody(&long, &[], &[]))).await, ["listed"]);
    assert!(found(&house, &for_entry(&other)).await.is_empty());
    say(&house, &of, &long, accept()).await;
    assert!(house.place.read("SELECT facet FROM pending_facets").await.is_empty());
}

async fn what_is_read_for_somebody_with_very_many_roles_is_counted(house: House) {
    let roles: Vec<String> = (0..64).map(|number| format!("r{number}")).collect();
    gate(&house, "flow", json!({"approversList": roles})).await;
    for _ in 0..300 {
        begin(&house, "flow", &[], "tester").await;
    }
    // Each of them is found by each of the roles.
    let me = Principal { roles, ..Principal::named("ann") };
    let counts = house.engine.pending_counts(&tenant(), &for_me(me.clone())).await.unwrap();
    assert!(!counts.complete && counts.total >= 50, "{counts:?}");
    for filter in [for_me(me.clone()), newest(for_me(me))] {
        let mut found: Vec<Timestamp> = Vec::new();
        let mut next = PendingFilter { after: None, ..filter.clone() };
        loop {
            let page = house.engine.pending_page(&tenant(), &next, 200).await.unwrap();
            found.extend(page.rows.iter().map(|row| row.requested_at));
            let Some(after) = page.next else { break };
            next = PendingFilter { after: Some(after), ..filter.clone() };
        }
        if filter.order == PendingOrder::Newest {
            found.reverse();
        }
        assert!(found.len() == 300 && found.is_sorted_by(|a, b| a < b), "{} rows", found.len());
    }
}
