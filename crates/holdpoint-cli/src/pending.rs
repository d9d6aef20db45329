//! `holdpoint pending`: lists and counts pending interrupts.

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use holdpoint_api::Instant;
use holdpoint_api::ids::Kind;
use holdpoint_api::pending::{ListPending, PendingCounts, PendingInterrupt};
use holdpoint_api::snapshot::Ancestor;

use super::client::Client;
use super::failure::Failure;
use super::output::{
    Output, age, age_since, cell, clean, elapsed_ms, remove_column, remove_empty_columns, shorten,
};
use super::values;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint pending
  holdpoint pending --assignee me --older-than 2h
  holdpoint pending --kind approval --workflow release --newest
  holdpoint pending --assignee role:lead --counts
  holdpoint pending --expires-before 2026-05-01
  holdpoint pending --limit 200 --json
  holdpoint answer RUN NODE accept

In a terminal, titles are shortened and columns omitted until a row fits. A file or a pipe gets
all columns, with titles of up to 80 characters. --json has all members.";

const LIMIT_DEFAULT: u32 = 50;
const TITLE_CHARS_MIN: usize = 20;
const HEADS: [&str; 12] = [
    "TITLE",
    "RUN",
    "NODE",
    "AGE",
    "EXPIRES",
    "KIND",
    "INTERRUPT",
    "FOR",
    "VOTES",
    "ASKS",
    "WORKFLOW",
    "CALLED BY",
];

#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct PendingArgs {
    /// Only these kinds, separated by commas; repeatable
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = PossibleValuesParser::new(Kind::ALL.map(Kind::as_str)))]
    kind: Option<Vec<String>>,
    /// Only interrupts with this assignee: a name, role:x or group:y. `me`: interrupts that you may decide and have not
    /// voted on
    #[arg(long, value_name = "WHO", value_parser = NonEmptyStringValueParser::new())]
    assignee: Option<String>,
    /// Only runs of this workflow
    #[arg(long, value_name = "ID")]
    workflow: Option<String>,
    /// Only runs with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only interrupts that have been open for at least this time: 90s, 15m, 12h, 30d, 2w
    #[arg(long, value_name = "SPAN", value_parser = values::seconds)]
    older_than: Option<u64>,
    /// Only interrupts that have been open for at most this time
    #[arg(long, value_name = "SPAN", value_parser = values::seconds)]
    newer_than: Option<u64>,
    /// Only interrupts with a deadline before this instant or day, the earliest deadline first
    #[arg(long, value_name = "WHEN", value_parser = values::instant)]
    expires_before: Option<String>,
    /// Show the newest interrupts first
    #[arg(long)]
    newest: bool,
    /// Show the number of interrupts in place of a list
    #[arg(long, conflicts_with_all = ["newest", "limit"])]
    counts: bool,
    /// Maximum number of interrupts to show
    #[arg(long, value_name = "N", default_value_t = LIMIT_DEFAULT, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub(crate) fn run(client: &Client, output: &Output, args: &PendingArgs) -> Result<(), Failure> {
    if args.counts {
        let reply = client.send(client.interrupts().counts(&args.filter()))?;
        output.show(&reply, |counts| output.fields(&count_fields(counts)));
        return Ok(());
    }
    list(client, output, &args.filter(), args.limit)
}

/// Prints the interrupts that the caller may decide.
pub(crate) fn list_assigned_to_me(client: &Client, output: &Output) -> Result<(), Failure> {
    list(client, output, &assigned_to_me(), LIMIT_DEFAULT)
}

/// Returns the filter for the interrupts that the caller may decide.
pub(crate) fn assigned_to_me() -> ListPending {
    ListPending { assignee: Some("me".to_owned()), ..ListPending::default() }
}

fn list(client: &Client, output: &Output, filter: &ListPending, limit: u32) -> Result<(), Failure> {
    let reply = client.collect(client.interrupts().pending(filter), limit)?;
    output.show(&reply, |page| table(output, &page.interrupts));
    output.more(&reply, limit);
    Ok(())
}

impl PendingArgs {
    fn filter(&self) -> ListPending {
        ListPending {
            kind: self.kind.as_ref().map(|kinds| kinds.join(",")),
            assignee: self.assignee.clone(),
            workflow_id: self.workflow.clone(),
            tag: self.tag.clone(),
            older_than_seconds: self.older_than,
            newer_than_seconds: self.newer_than,
            expires_before: self.expires_before.clone(),
            order: self.newest.then(|| "newest".to_owned()),
        }
    }
}

fn count_fields(counts: &PendingCounts) -> Vec<(&'static str, String)> {
    let least = if counts.is_complete { "" } else { "at least " };
    let kinds: Vec<String> =
        counts.by_kind.iter().map(|(kind, count)| format!("{} {count}", cell(kind))).collect();
    vec![
        ("pending", format!("{least}{}", counts.total)),
        ("by kind", kinds.join(", ")),
        ("due within an hour", cell(counts.due_soon)),
        ("overdue", cell(counts.overdue)),
        ("age of the oldest", counts.oldest_requested_at.map(age_since).unwrap_or_default()),
    ]
}

fn table(output: &Output, interrupts: &[PendingInterrupt<'_>]) -> String {
    let (mut heads, mut rows) = columns(interrupts);
    if let Some(width) = output.width() {
        fit(&mut heads, &mut rows, width);
    }
    output.table(&heads, &rows, "no pending interrupts")
}

/// Removes columns and shortens titles until the rows fit. Keeps the columns that an answer requires.
fn fit(heads: &mut Vec<&str>, rows: &mut [Vec<String>], width: usize) {
    let others = |heads: &[&str], rows: &[Vec<String>]| -> usize {
        let cells = |column: usize| rows.iter().map(move |row| row[column].chars().count());
        let widest = |column: usize| cells(column).chain([heads[column].len()]).max().unwrap_or(0);
        (1..heads.len()).map(|column| widest(column) + 2).sum()
    };
    for head in ["CALLED BY", "WORKFLOW", "ASKS", "VOTES", "FOR", "KIND", "EXPIRES", "AGE"] {
        if others(heads, rows) + TITLE_CHARS_MIN <= width {
            break;
        }
        remove_column(heads, rows, head);
    }
    let left = width.saturating_sub(others(heads, rows)).max(TITLE_CHARS_MIN);
    rows.iter_mut().for_each(|row| row[0] = shorten(&row[0], left));
}

/// Returns the columns and rows. Omits columns without a value.
fn columns(interrupts: &[PendingInterrupt<'_>]) -> (Vec<&'static str>, Vec<Vec<String>>) {
    // Run and node do not identify an interrupt if the node has several.
    let place = |one: &PendingInterrupt<'_>| (one.run_id.clone(), one.node_id.clone());
    let is_repeated = |one| interrupts.iter().filter(|other| place(other) == place(one)).count() > 1;
    let has_repeated = interrupts.iter().any(is_repeated);
    let mut heads = HEADS.to_vec();
    let row = |one: &PendingInterrupt<'_>| {
        let assignees: Vec<String> = one.assignees.iter().map(cell).collect();
        vec![
            shorten(&cell(&one.title), 80),
            cell(&one.run_id),
            cell(&one.node_id),
            age(one.age_ms),
            cell(one.expires_at.map(expiry)),
            cell(&one.kind),
            cell(has_repeated.then_some(&one.interrupt_id)),
            shorten(&cell(assignees.join(", ")), 40),
            votes(one),
            cell(one.open_asks),
            cell(&one.workflow_id),
            cell(called_by(&one.path)),
        ]
    };
    let mut rows: Vec<_> = interrupts.iter().map(row).collect();
    remove_empty_columns(&mut heads, &mut rows, &["INTERRUPT", "FOR", "VOTES", "ASKS", "CALLED BY"]);
    (heads, rows)
}

pub(crate) fn expiry(at: Instant) -> String {
    let ms = elapsed_ms(at);
    if ms < 0 { format!("in {}", age(ms)) } else { "due".to_owned() }
}

/// Returns the nodes above the run of an interrupt, from the root on.
pub(crate) fn called_by(path: &[Ancestor]) -> Option<String> {
    let nodes: Vec<_> = path.iter().map(|step| clean(step.node_id.as_str())).collect();
    (!nodes.is_empty()).then(|| nodes.join(" > "))
}

fn votes(one: &PendingInterrupt<'_>) -> String {
    let Some(votes) = &one.votes else { return "-".to_owned() };
    let against =
        if votes.rejections > 0 { format!(", {} against", votes.rejections) } else { String::new() };
    format!("{} of {}{against}", votes.approvals, cell(one.required_approvals))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::{Value, json};

    #[derive(Parser)]
    struct TestCommand {
        #[command(flatten)]
        pending: PendingArgs,
    }

    #[test]
    fn flags_become_the_filter_of_the_request() {
        let filter = |args: &[&str]| {
            TestCommand::try_parse_from(["pending"].iter().chain(args)).map(|line| line.pending.filter()).ok()
        };
        assert_eq!(filter(&[]), Some(ListPending::default()));
        let words = "--kind approval,custom --kind clarification --assignee role:x --older-than 2m --newest";
        let given: Vec<&str> = words.split(' ').collect();
        let expected = ListPending {
            kind: Some("approval,custom,clarification".to_owned()),
            assignee: Some("role:x".to_owned()),
            older_than_seconds: Some(120),
            order: Some("newest".to_owned()),
            ..ListPending::default()
        };
        assert_eq!(filter(&given), Some(expected));
        for wrong in [["--kind", "approvals"], ["--older-than", "soon"], ["--assignee", ""]] {
            assert_eq!(filter(&wrong), None, "{wrong:?}");
        }
        assert_eq!(filter(&["--counts", "--newest"]), None);
    }

    fn interrupt(members: &Value) -> PendingInterrupt<'static> {
        let mut interrupt = json!({
            "runId": "0199b3a4-1111-7222-8333-444455556666", "nodeId": "approve-release", "interruptId": "r:i1",
            "kind": "approval", "key": "k", "workflowId": "release-to-production",
            "title": "Release version 2 ".repeat(10), "requestedAt": "2026-05-01T10:00:00Z", "ageMs": 60_000,
            "assignees": [], "openAsks": 0, "statusUrl": "", "links": {"run": "", "resolve": "", "page": ""},
        });
        interrupt.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        serde_json::from_value(interrupt).unwrap()
    }

    fn voted() -> PendingInterrupt<'static> {
        interrupt(&json!({
            "nodeId": "n", "assignees": ["ann", "role:x"], "openAsks": 2, "requiredApprovals": 3,
            "votes": {"approvals": 1, "rejections": 1, "voters": ["bob", "cid"]},
        }))
    }

    #[test]
    fn columns_without_a_value_are_omitted() {
        let output = Output::json();
        let text = table(&output, &[interrupt(&json!({}))]);
        assert!(!text.contains("VOTES") && !text.contains("ASKS") && !text.contains("FOR"), "{text}");
        let text = table(&output, &[interrupt(&json!({})), voted()]);
        assert!(text.contains("ann, role:x") && text.contains("1 of 3, 1 against"), "{text}");
    }

    #[test]
    fn rows_fit_into_eighty_columns_with_the_title_first() {
        let fitted = |width: usize| {
            let (mut heads, mut rows) = columns(&[interrupt(&json!({})), voted()]);
            fit(&mut heads, &mut rows, width);
            Output::json().table(&heads, &rows, "")
        };
        let narrow = fitted(80);
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        assert!(narrow.starts_with("TITLE ") && narrow.contains("\nRelease "), "{narrow}");
        assert!(narrow.contains("0199b3a4-1111-7222-8333-444455556666  approve-release"), "{narrow}");
        let wide = fitted(200);
        assert!(wide.contains("release-to-production") && wide.contains("1 of 3"), "{wide}");
    }

    #[test]
    fn the_table_shows_interrupt_ids_if_a_node_has_several() {
        let one = |node: &str, id: &str| interrupt(&json!({"nodeId": node, "interruptId": id}));
        let output = Output::json();
        assert!(!table(&output, &[one("a", "r:i1"), one("b", "r:i2")]).contains("r:i1"));
        let text = table(&output, &[one("a", "r:i1"), one("a", "r:i2")]);
        assert!(text.contains("r:i1") && text.contains("r:i2"), "{text}");
    }
}
