//! Lists of pending interrupts: filters, pages, counts and query plans.

use holdpoint_engine::core::{
    Answer, Command, Kind, NodeId, Owner, Principal, RunRef, StartRequest, Timestamp, WorkflowId,
};
use holdpoint_engine::{Assignee, PendingFilter, PendingOrder, PendingRow};
use serde_json::{Value, json};

use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{NOON, TestEnv, accept, line, tenant};

on_both! {
    each_filter_finds_its_rows_and_no_others,
    a_principal_is_shown_the_interrupts_that_it_can_still_decide,
    votes_and_side_questions_are_updated_in_the_row,
    pages_continue_where_they_ended_despite_changes,
    interrupts_can_be_ordered_by_deadline,
    decided_and_cancelled_interrupts_leave_no_rows,
    counts_include_overdue_and_due_soon_interrupts,
    every_list_reads_from_an_index,
    a_search_through_many_rows_continues_on_the_next_page,
    a_very_long_name_can_be_an_approver,
    reads_for_a_principal_with_many_roles_are_limited,
}

fn principal(name: &str, roles: &[&str], groups: &[&str]) -> Principal {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Principal { roles: owned(roles), groups: owned(groups), ..Principal::named(name) }
}

async fn gate(env: &TestEnv, id: &str, config: Value) {
    env.register(line(id, &[("gate", "core.approvalGate", config)])).await;
}

/// Starts a run a second after the last one.
async fn begin(env: &TestEnv, workflow: &str, tags: &[&str], owner: &str) -> RunRef {
    env.clock.advance(1000);
    let owner = Owner { tenant: tenant(), principal: owner.to_owned() };
    let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    let start = StartRequest { tags, ..StartRequest::new(owner) };
    let run = env.engine.runs().create(&WorkflowId::parse(workflow).unwrap(), start).await.unwrap();
    RunRef { tenant: tenant(), run: run.id.clone() }
}

async fn answer_as(env: &TestEnv, of: &RunRef, by: &str, value: Value) {
    let node = NodeId::parse("gate").unwrap();
    let answer = Answer::new(value, Principal::named(by));
    env.engine.runs().execute(of, &Command::ResolveNode { node, interrupt: None, answer }).await.unwrap();
}

async fn rows(env: &TestEnv, filter: &PendingFilter) -> Vec<PendingRow> {
    let page = env.engine.interrupts().page(&tenant(), filter, 100).await.unwrap();
    assert_eq!(page.next, None, "there is one page");
    page.rows
}

/// The workflows of the listed interrupts. Each gate is in its own workflow.
async fn found(env: &TestEnv, filter: &PendingFilter) -> Vec<String> {
    rows(env, filter).await.iter().map(|row| row.workflow.to_string()).collect()
}

fn of_kinds(kinds: &[Kind]) -> PendingFilter {
    PendingFilter { kinds: kinds.to_vec(), ..PendingFilter::default() }
}

fn for_entry(entry: &str) -> PendingFilter {
    PendingFilter { assignee: Some(Assignee::Entry(entry.to_owned())), ..PendingFilter::default() }
}

fn for_me(me: Principal) -> PendingFilter {
    PendingFilter { assignee: Some(Assignee::Principal(me)), ..PendingFilter::default() }
}

fn newest(filter: PendingFilter) -> PendingFilter {
    PendingFilter { order: PendingOrder::Newest, ..filter }
}

async fn each_filter_finds_its_rows_and_no_others(env: TestEnv) {
    gate(&env, "open", json!({})).await;
    gate(&env, "listed", json!({"approversList": ["ann", "role:lead"]})).await;
    let questions = json!({"questions": [{"id": "q", "question": "Which?"}]});
    env.register(line("asking", &[("gate", "core.clarificationGate", questions)])).await;
    begin(&env, "open", &["blue", "old"], "tester").await;
    begin(&env, "listed", &["blue"], "tester").await;
    begin(&env, "asking", &[], "tester").await;
    let all = PendingFilter::default();
    assert_eq!(found(&env, &all).await, ["open", "listed", "asking"]);
    assert_eq!(found(&env, &newest(all.clone())).await, ["asking", "listed", "open"]);
    assert_eq!(found(&env, &of_kinds(&[Kind::Approval])).await, ["open", "listed"]);
    assert_eq!(found(&env, &newest(of_kinds(&[Kind::Approval]))).await, ["listed", "open"]);
    assert_eq!(found(&env, &of_kinds(&[Kind::Clarification, Kind::Approval])).await.len(), 3);
    assert!(found(&env, &of_kinds(&[Kind::Custom])).await.is_empty());
    for entry in ["ann", "role:lead"] {
        assert_eq!(found(&env, &for_entry(entry)).await, ["listed"], "{entry}");
    }
    assert!(found(&env, &for_entry("lead")).await.is_empty(), "entries are exact");
    let tagged = |tag: &str| PendingFilter { tag: Some(tag.to_owned()), ..PendingFilter::default() };
    assert_eq!(found(&env, &tagged("blue")).await, ["open", "listed"]);
    assert_eq!(found(&env, &newest(tagged("blue"))).await, ["listed", "open"]);
    assert!(found(&env, &tagged("red")).await.is_empty());
    let of =
        |workflow: &str| PendingFilter { workflow: Some(workflow.to_owned()), ..PendingFilter::default() };
    assert_eq!(found(&env, &of("asking")).await, ["asking"]);
    let old = PendingFilter { requested_to: Some(Timestamp(NOON + 1000)), ..all.clone() };
    assert_eq!(found(&env, &old).await, ["open"]);
    let late = PendingFilter { requested_from: Some(Timestamp(NOON + 2000)), ..all.clone() };
    assert_eq!(found(&env, &late).await, ["listed", "asking"]);
    assert_eq!(found(&env, &newest(late)).await, ["asking", "listed"]);
    let several = PendingFilter { tag: Some("blue".to_owned()), ..of("open") };
    assert_eq!(found(&env, &several).await, ["open"]);
    let none = PendingFilter { kinds: vec![Kind::Clarification], ..tagged("blue") };
    assert!(found(&env, &none).await.is_empty());
}

async fn a_principal_is_shown_the_interrupts_that_it_can_still_decide(env: TestEnv) {
    gate(&env, "open", json!({})).await;
    gate(&env, "leads", json!({"approversList": ["role:lead"]})).await;
    gate(&env, "plain", json!({"approversList": ["ops", "ann"]})).await;
    gate(&env, "own", json!({"requesterMayNotApprove": true})).await;
    gate(&env, "two", json!({"requiredApprovals": 2, "approversList": ["ann", "bob"]})).await;
    for workflow in ["open", "leads", "plain", "own"] {
        begin(&env, workflow, &[], "ann").await;
    }
    let two = begin(&env, "two", &[], "cid").await;
    assert_eq!(found(&env, &for_me(principal("ann", &[], &[]))).await, ["open", "plain", "two"]);
    assert_eq!(found(&env, &for_me(principal("bob", &["lead"], &[]))).await, ["open", "leads", "own", "two"]);
    assert_eq!(found(&env, &for_me(principal("cid", &[], &["ops"]))).await, ["open", "plain", "own"]);
    assert_eq!(found(&env, &newest(for_me(principal("cid", &[], &["ops"])))).await, ["own", "plain", "open"]);
    let of_workflow =
        PendingFilter { workflow: Some("leads".to_owned()), ..for_me(principal("ann", &[], &[])) };
    assert!(found(&env, &of_workflow).await.is_empty(), "the filter applies with another index");
    answer_as(&env, &two, "ann", accept()).await;
    assert_eq!(found(&env, &for_me(principal("ann", &[], &[]))).await, ["open", "plain"]);
    assert!(found(&env, &for_me(principal("bob", &[], &[]))).await.contains(&"two".to_owned()));
}

async fn votes_and_side_questions_are_updated_in_the_row(env: TestEnv) {
    let config = json!({"requiredApprovals": 3, "rejectionPolicy": "majority", "actions": ["accept", "reject", "ask"]});
    gate(&env, "three", config).await;
    let of = begin(&env, "three", &["blue"], "tester").await;
    let row = async || rows(&env, &PendingFilter::default()).await.remove(0);
    let first = row().await;
    assert_eq!((first.required, first.open_asks, first.tags), (3, 0, vec!["blue".to_owned()]));
    assert_eq!(first.digest, env.run(&of).await.interrupts[0].digest);
    assert_eq!(first.votes.unwrap().voters, [""; 0]);
    answer_as(&env, &of, "ann", accept()).await;
    answer_as(&env, &of, "bob", json!({"action": "reject"})).await;
    answer_as(&env, &of, "ann", accept()).await;
    let votes = row().await.votes.unwrap();
    assert_eq!(
        (votes.approvals, votes.rejections, votes.voters),
        (1, 1, vec!["ann".to_owned(), "bob".to_owned()])
    );
    answer_as(&env, &of, "cid", json!({"action": "ask", "question": "Why?"})).await;
    answer_as(&env, &of, "cid", json!({"action": "ask", "question": "How?"})).await;
    assert_eq!(row().await.open_asks, 2);
    let interrupt = env.run(&of).await.interrupts[0].id;
    let command = Command::AnswerSideQuestion {
        interrupt,
        ask: 1,
        answer: "So.".to_owned(),
        by: Principal::named("tester"),
    };
    env.engine.runs().execute(&of, &command).await.unwrap();
    assert_eq!(row().await.open_asks, 1);
    gate(&env, "one", json!({})).await;
    begin(&env, "one", &[], "tester").await;
    assert_eq!(rows(&env, &newest(PendingFilter::default())).await[0].votes, None, "one approval is enough");
}

async fn pages_continue_where_they_ended_despite_changes(env: TestEnv) {
    gate(&env, "two", json!({"requiredApprovals": 2})).await;
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(begin(&env, "two", &["blue"], "tester").await);
    }
    let ids = |rows: &[PendingRow]| rows.iter().map(|row| row.run.clone()).collect::<Vec<_>>();
    let blue = PendingFilter { tag: Some("blue".to_owned()), ..PendingFilter::default() };
    for filter in [PendingFilter::default(), blue, for_me(principal("eve", &[], &[]))] {
        let first = env.engine.interrupts().page(&tenant(), &filter, 2).await.unwrap();
        assert_eq!(ids(&first.rows), [runs[0].run.clone(), runs[1].run.clone()]);
        let next = PendingFilter { after: first.next, ..filter };
        let second = env.engine.interrupts().page(&tenant(), &next, 2).await.unwrap();
        assert_eq!(ids(&second.rows), [runs[2].run.clone(), runs[3].run.clone()]);
    }
    let first = env.engine.interrupts().page(&tenant(), &PendingFilter::default(), 2).await.unwrap();
    // The last row of the page is decided, the next row gets a vote, and a new row is added.
    answer_as(&env, &runs[1], "ann", accept()).await;
    answer_as(&env, &runs[1], "bob", accept()).await;
    answer_as(&env, &runs[2], "ann", accept()).await;
    let new = begin(&env, "two", &[], "tester").await;
    let rest = PendingFilter { after: first.next, ..PendingFilter::default() };
    let rest = env.engine.interrupts().page(&tenant(), &rest, 4).await.unwrap();
    let expected = [&runs[2], &runs[3], &runs[4], &new].map(|of| of.run.clone());
    assert_eq!((ids(&rest.rows), rest.next), (expected.to_vec(), None));
}

async fn interrupts_can_be_ordered_by_deadline(env: TestEnv) {
    gate(&env, "long", json!({"timeoutMs": 100_000})).await;
    gate(&env, "short", json!({"timeoutMs": 10_000})).await;
    gate(&env, "never", json!({})).await;
    for workflow in ["long", "never", "short"] {
        begin(&env, workflow, &[], "tester").await;
    }
    let deadlines = PendingFilter { order: PendingOrder::Deadline, ..PendingFilter::default() };
    assert_eq!(found(&env, &deadlines).await, ["short", "long"]);
    let soon = PendingFilter { expires_before: Some(Timestamp(NOON + 60_000)), ..deadlines.clone() };
    assert_eq!(found(&env, &soon).await, ["short"]);
    let soon = PendingFilter { order: PendingOrder::Oldest, ..soon };
    assert_eq!(found(&env, &soon).await, ["short"]);
    let first = env.engine.interrupts().page(&tenant(), &deadlines, 1).await.unwrap();
    let rest = PendingFilter { after: first.next, ..deadlines };
    assert_eq!(found(&env, &rest).await, ["long"]);
}

async fn decided_and_cancelled_interrupts_leave_no_rows(env: TestEnv) {
    gate(&env, "listed", json!({"approversList": ["ann"]})).await;
    let of = begin(&env, "listed", &["blue"], "tester").await;
    let other = begin(&env, "listed", &["blue"], "tester").await;
    let facets = async || env.database.read("SELECT facet FROM pending_facets ORDER BY facet").await.len();
    assert_eq!(facets().await, 4);
    answer_as(&env, &of, "ann", accept()).await;
    assert_eq!(facets().await, 2);
    env.engine.runs().cancel(&other, None, Principal::named("tester")).await.unwrap();
    assert_eq!(facets().await, 0);
    assert!(env.pending().await.is_empty());
}

async fn counts_include_overdue_and_due_soon_interrupts(env: TestEnv) {
    gate(&env, "open", json!({})).await;
    gate(&env, "soon", json!({"timeoutMs": 60_000, "approversList": ["ann"]})).await;
    gate(&env, "late", json!({"timeoutMs": 10_000_000})).await;
    let questions = json!({"questions": [{"id": "q", "question": "Which?"}]});
    env.register(line("asking", &[("gate", "core.clarificationGate", questions)])).await;
    for workflow in ["open", "soon", "late", "asking"] {
        begin(&env, workflow, &[], "tester").await;
    }
    let count =
        async |filter: &PendingFilter| env.engine.interrupts().counts(&tenant(), filter).await.unwrap();
    let all = count(&PendingFilter::default()).await;
    assert_eq!((all.total, all.overdue, all.due_soon, all.complete), (4, 0, 1, true));
    assert_eq!((all.by_kind["approval"], all.by_kind["clarification"]), (3, 1));
    assert_eq!(all.oldest, Some(Timestamp(NOON + 1000)));
    env.clock.advance(100_000);
    assert_eq!(count(&PendingFilter::default()).await.overdue, 1, "the expired interrupt is still listed");
    assert_eq!(count(&for_entry("ann")).await.total, 1);
    assert_eq!(count(&for_me(principal("eve", &[], &[]))).await.total, 3);
    let none = count(&of_kinds(&[Kind::Custom])).await;
    assert_eq!((none.total, none.oldest, none.by_kind.len()), (0, None, 0));
}

/// Inserts many rows as the engine writes them.
pub(crate) async fn load(database: &TestDatabase, count: u32) {
    let series = match database {
        TestDatabase::Sqlite(_) => {
            format!("WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {count})")
        }
        TestDatabase::Postgres(_) => format!("WITH s(n) AS (SELECT generate_series(1, {count}))"),
    };
    // The last rows have a rare kind, workflow, tag and approver.
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
    database.execute(&rows).await.unwrap();
    let facets = "INSERT INTO pending_facets (tenant_id, facet, requested_ms, run_id, interrupt_id)
        SELECT tenant_id, 'to:role:lead', requested_ms, run_id, 1 FROM pending WHERE restricted = 1 UNION ALL
        SELECT tenant_id, CASE WHEN restricted = 0 THEN 'tag:rare' ELSE 'tag:bulk' END, requested_ms, run_id, 1
        FROM pending WHERE tags IS NOT NULL";
    database.execute(facets).await.unwrap();
}

async fn every_list_reads_from_an_index(env: TestEnv) {
    load(&env.database, 60_000).await;
    // With and without table statistics. PostgreSQL collects them automatically, SQLite does not.
    assert_every_list_uses_an_index(&env).await;
    if let TestDatabase::Postgres(_) = env.database {
        env.database.execute("ANALYZE pending; ANALYZE pending_facets").await.unwrap();
        assert_every_list_uses_an_index(&env).await;
    }
}

async fn assert_every_list_uses_an_index(env: &TestEnv) {
    let all = PendingFilter::default();
    let from = PendingFilter { requested_from: Some(Timestamp(NOON - 10_000_000 + 59_995)), ..all.clone() };
    // Filters with many rows. A few rows can also be collected and sorted.
    let filters = [
        ("PRIMARY KEY|pending_pkey", all.clone()),
        ("pending_by_kind", of_kinds(&[Kind::Approval])),
        ("pending_by_workflow", PendingFilter { workflow: Some("bulk-1".to_owned()), ..all.clone() }),
        ("facet", for_entry("role:lead")),
        ("facet", PendingFilter { tag: Some("bulk".to_owned()), ..all.clone() }),
        ("pending_by_kind|facet", for_me(principal("ann", &["lead"], &[]))),
        ("PRIMARY KEY|pending_pkey", from),
        ("pending_by_deadline", PendingFilter { order: PendingOrder::Deadline, ..all }),
    ];
    for (indexes, filter) in filters {
        let backwards = newest(filter.clone());
        let backwards = if filter.order == PendingOrder::Deadline { filter.clone() } else { backwards };
        for filter in [filter, backwards] {
            for plan in env.engine.interrupts().plans(&tenant(), &filter).await.unwrap() {
                // `few` is the limited result of an index, not a table.
                let plan = plan.replace("SCAN few", "");
                let scans = ["SCAN", "Seq Scan", "TEMP B-TREE", "Sort", "Hash Join", "Merge Join", "Bitmap"];
                let found: Vec<_> = scans.iter().filter(|scan| plan.contains(*scan)).collect();
                let chosen = indexes.split('|').any(|index| plan.contains(index));
                assert!(found.is_empty() && chosen, "{indexes}: {plan}");
            }
        }
    }
}

async fn a_search_through_many_rows_continues_on_the_next_page(env: TestEnv) {
    load(&env.database, 12_000).await;
    // All rows are for leads except a few at the end, and no index covers both filters.
    let filter = PendingFilter {
        requested_from: Some(Timestamp(0)),
        expires_before: Some(Timestamp(NOON)),
        ..PendingFilter::default()
    };
    let first = env.engine.interrupts().page(&tenant(), &filter, 5).await.unwrap();
    assert!(first.rows.is_empty() && first.next.is_some(), "the search limit is reached");
    let next = PendingFilter { after: first.next, ..filter.clone() };
    let second = env.engine.interrupts().page(&tenant(), &next, 5).await.unwrap();
    assert_eq!(second.rows.len(), 5);
    let counts = env.engine.interrupts().counts(&tenant(), &filter).await.unwrap();
    assert!(!counts.complete);
    let indexed = of_kinds(&[Kind::Clarification]);
    assert_eq!(rows(&env, &indexed).await.len(), 10);
}

async fn a_very_long_name_can_be_an_approver(env: TestEnv) {
    let (long, other) = ("ü".repeat(5000), "ö".repeat(5000));
    gate(&env, "listed", json!({"approversList": [long, "role:lead"]})).await;
    let of = begin(&env, "listed", &[], "tester").await;
    assert_eq!(found(&env, &for_entry(&long)).await, ["listed"]);
    assert_eq!(found(&env, &for_me(principal(&long, &[], &[]))).await, ["listed"]);
    assert!(found(&env, &for_entry(&other)).await.is_empty());
    answer_as(&env, &of, &long, accept()).await;
    assert!(env.database.read("SELECT facet FROM pending_facets").await.is_empty());
}

async fn reads_for_a_principal_with_many_roles_are_limited(env: TestEnv) {
    let roles: Vec<String> = (0..64).map(|number| format!("r{number}")).collect();
    gate(&env, "flow", json!({"approversList": roles})).await;
    for _ in 0..300 {
        begin(&env, "flow", &[], "tester").await;
    }
    // Each interrupt has an index row for each role.
    let me = Principal { roles, ..Principal::named("ann") };
    let counts = env.engine.interrupts().counts(&tenant(), &for_me(me.clone())).await.unwrap();
    assert!(!counts.complete && counts.total >= 50, "{counts:?}");
    for filter in [for_me(me.clone()), newest(for_me(me))] {
        let mut found: Vec<Timestamp> = Vec::new();
        let mut next = PendingFilter { after: None, ..filter.clone() };
        loop {
            let page = env.engine.interrupts().page(&tenant(), &next, 200).await.unwrap();
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
