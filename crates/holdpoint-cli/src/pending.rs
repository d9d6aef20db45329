//! `holdpoint pending`: what waits for somebody, as they look for it, and how much that is.

use clap::Args;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use holdpoint_core::Kind;
use serde_json::Value;

use super::client::{Client, encode};
use super::failure::Failure;
use super::output::{Output, age, age_cell, cell, ms_since, shorten};
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

In a terminal, titles are shortened and columns left out until a row fits its width. Into a file or
another program all columns are written, titles of up to 80 characters. --json has everything.";

const LIMIT_DEFAULT: u32 = 50;
const TITLE_CHARS_MIN: usize = 20;

#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Pending {
    /// Only these kinds. Repeat for more, or separate them by commas
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = PossibleValuesParser::new(Kind::ALL.map(Kind::as_str)))]
    kind: Vec<String>,
    /// `me`: what you may decide and have not voted on; or what names this: a name, role:x, group:y
    #[arg(long, value_name = "WHO", value_parser = NonEmptyStringValueParser::new())]
    assignee: Option<String>,
    /// Only runs of this workflow
    #[arg(long, value_name = "ID")]
    workflow: Option<String>,
    /// Only runs with this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only what has waited so long: 90s, 15m, 12h, 30d, 2w
    #[arg(long, value_name = "SPAN", value_parser = values::seconds)]
    older_than: Option<u64>,
    /// Only what has not waited longer
    #[arg(long, value_name = "SPAN", value_parser = values::seconds)]
    newer_than: Option<u64>,
    /// Only what has a deadline before, the next one first: an instant or a day
    #[arg(long, value_name = "WHEN", value_parser = values::instant)]
    expires_before: Option<String>,
    /// Newest first instead of oldest first
    #[arg(long)]
    newest: bool,
    /// Show how many there are instead of each
    #[arg(long, conflicts_with_all = ["newest", "limit"])]
    counts: bool,
    /// Show at most this many
    #[arg(long, value_name = "N", default_value_t = LIMIT_DEFAULT, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub(crate) fn run(client: &Client, output: &Output, asked: &Pending) -> Result<(), Failure> {
    if asked.counts {
        let reply = client.get(&format!("/v1/interrupts:counts?{}", asked.query()))?;
        output.show(&reply, |counts| output.facts(&facts(counts)));
        return Ok(());
    }
    let reply = client.list(&format!("/v1/interrupts?{}", asked.query()), "interrupts", asked.limit)?;
    output.show(&reply, |page| table(output, page));
    output.more_untyped(&reply, asked.limit);
    Ok(())
}

/// What the caller may decide.
pub(crate) fn for_me(client: &Client, output: &Output) -> Result<(), Failure> {
    let reply = client.list("/v1/interrupts?assignee=me&", "interrupts", LIMIT_DEFAULT)?;
    output.show(&reply, |page| table(output, page));
    output.more_untyped(&reply, LIMIT_DEFAULT);
    Ok(())
}

impl Pending {
    fn query(&self) -> String {
        let kinds = (!self.kind.is_empty()).then(|| self.kind.join(","));
        let seconds = |span: Option<u64>| span.map(|seconds| seconds.to_string());
        let members = [
            ("kind", kinds),
            ("assignee", self.assignee.clone()),
            ("workflowId", self.workflow.clone()),
            ("tag", self.tag.clone()),
            ("olderThanSeconds", seconds(self.older_than)),
            ("newerThanSeconds", seconds(self.newer_than)),
            ("expiresBefore", self.expires_before.clone()),
            ("order", self.newest.then(|| "newest".to_string())),
        ];
        let given = members.into_iter().filter_map(|(name, value)| Some((name, value?)));
        given.map(|(name, value)| format!("{name}={}&", encode(&value))).collect()
    }
}

fn facts(counts: &Value) -> Vec<(&'static str, String)> {
    // What could not all be counted is at least so much.
    let least = if counts["isComplete"] == false { "at least " } else { "" };
    let kinds = counts["byKind"].as_object().into_iter().flatten();
    let kinds: Vec<String> = kinds.map(|(kind, count)| format!("{} {count}", cell(kind))).collect();
    vec![
        ("waiting", format!("{least}{}", cell(&counts["total"]))),
        ("by kind", kinds.join(", ")),
        ("due within an hour", cell(&counts["dueSoon"])),
        ("overdue", cell(&counts["overdue"])),
        (
            "oldest since",
            counts["oldestRequestedAt"]
                .as_str()
                .map_or_else(String::new, |_| age_cell(&counts["oldestRequestedAt"])),
        ),
    ]
}

/// Whom it is for and how far it is have a column only where there is something to say.
fn table(output: &Output, page: &Value) -> String {
    let (mut heads, mut rows) = columns(page);
    if let Some(width) = output.width() {
        fit(&mut heads, &mut rows, width);
    }
    output.table(&heads, &rows, "nothing waits for an answer")
}

/// Leaves out columns and shortens titles until the rows fit. What an answer needs is never left out.
fn fit(heads: &mut Vec<&str>, rows: &mut [Vec<String>], width: usize) {
    let others = |heads: &[&str], rows: &[Vec<String>]| -> usize {
        let cells = |column: usize| rows.iter().map(move |row| row[column].chars().count());
        let widest = |column: usize| cells(column).chain([heads[column].len()]).max().unwrap_or(0);
        (1..heads.len()).map(|column| widest(column) + 2).sum()
    };
    for head in ["WORKFLOW", "ASKS", "VOTES", "FOR", "KIND", "EXPIRES", "AGE"] {
        if others(heads, rows) + TITLE_CHARS_MIN <= width {
            break;
        }
        if let Some(column) = heads.iter().position(|known| *known == head) {
            heads.remove(column);
            rows.iter_mut().for_each(|row| drop(row.remove(column)));
        }
    }
    let left = width.saturating_sub(others(heads, rows)).max(TITLE_CHARS_MIN);
    rows.iter_mut().for_each(|row| row[0] = shorten(&row[0], left));
}

fn columns(page: &Value) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let found: Vec<&Value> = page["interrupts"].as_array().into_iter().flatten().collect();
    let mut heads = vec!["TITLE", "RUN", "NODE", "AGE", "EXPIRES", "KIND"];
    let mut more: Vec<fn(&Value) -> String> = Vec::new();
    // Run and node do not identify an interrupt if the node has several.
    let place = |one: &Value| (one["runId"].clone(), one["nodeId"].clone());
    let is_repeated = |one: &&Value| found.iter().filter(|other| place(other) == place(one)).count() > 1;
    if found.iter().any(is_repeated) {
        heads.push("INTERRUPT");
        more.push(|one| cell(&one["interruptId"]));
    }
    if found.iter().any(|one| one["assignees"].as_array().is_some_and(|listed| !listed.is_empty())) {
        heads.push("FOR");
        more.push(|one| shorten(&list(&one["assignees"]), 40));
    }
    if found.iter().any(|one| !one["votes"].is_null()) {
        heads.push("VOTES");
        more.push(votes);
    }
    if found.iter().any(|one| one["openAsks"].as_u64().unwrap_or(0) > 0) {
        heads.push("ASKS");
        more.push(|one| cell(&one["openAsks"]));
    }
    heads.push("WORKFLOW");
    let row = |one: &&Value| {
        let mut row = vec![shorten(&cell(&one["title"]), 80)];
        row.extend(["runId", "nodeId"].map(|name| cell(&one[name])));
        row.push(one["ageMs"].as_i64().map_or_else(|| age_cell(&one["requestedAt"]), age));
        row.extend([expiry(&one["expiresAt"]), cell(&one["kind"])]);
        row.extend(more.iter().map(|column| column(one)));
        row.push(cell(&one["workflowId"]));
        row
    };
    let rows = found.iter().map(row).collect();
    (heads, rows)
}

pub(crate) fn expiry(at: &Value) -> String {
    match ms_since(at) {
        Some(ms) if ms < 0 => format!("in {}", age(ms)),
        Some(_) => "due".to_string(),
        None => "-".to_string(),
    }
}

fn list(entries: &Value) -> String {
    let entries: Vec<String> = entries.as_array().into_iter().flatten().map(cell).collect();
    if entries.is_empty() { "-".to_string() } else { entries.join(", ") }
}

fn votes(one: &Value) -> String {
    if one["votes"].is_null() {
        return "-".to_string();
    }
    let against = one["votes"]["rejections"].as_u64().unwrap_or(0);
    let against = if against > 0 { format!(", {against} against") } else { String::new() };
    format!("{} of {}{against}", cell(&one["votes"]["approvals"]), cell(&one["requiredApprovals"]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::json;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        pending: Pending,
    }

    #[test]
    fn what_is_asked_for_is_what_the_server_is_asked() {
        let query = |args: &[&str]| {
            Line::try_parse_from(["pending"].iter().chain(args)).map(|line| line.pending.query()).ok()
        };
        assert_eq!(query(&[]).unwrap(), "");
        let given = [
            "--kind",
            "approval,custom",
            "--kind",
            "clarification",
            "--assignee",
            "role:x",
            "--older-than",
            "2m",
        ];
        let expected = "kind=approval%2Ccustom%2Cclarification&assignee=role%3Ax&olderThanSeconds=120&";
        assert_eq!(query(&given).unwrap(), expected);
        assert_eq!(query(&["--newest"]).unwrap(), "order=newest&");
        for wrong in [["--kind", "approvals"], ["--older-than", "soon"], ["--assignee", ""]] {
            assert_eq!(query(&wrong), None, "{wrong:?}");
        }
        assert_eq!(query(&["--counts", "--newest"]), None);
    }

    #[test]
    fn columns_are_there_when_there_is_something_in_them() {
        let output = Output::new(true);
        let plain = json!({"runId": "r", "nodeId": "n", "kind": "approval", "assignees": [], "openAsks": 0});
        let text = table(&output, &json!({"interrupts": [plain]}));
        assert!(!text.contains("VOTES") && !text.contains("ASKS") && !text.contains("FOR"), "{text}");
        let full = json!({
            "runId": "r", "nodeId": "n", "kind": "approval", "assignees": ["ann", "role:x"], "openAsks": 2,
            "requiredApprovals": 3, "votes": {"approvals": 1, "rejections": 1, "voters": ["bob", "cid"]},
        });
        let text = table(&output, &json!({"interrupts": [plain, full]}));
        assert!(text.contains("ann, role:x") && text.contains("1 of 3, 1 against"), "{text}");
    }

    #[test]
    fn rows_fit_into_eighty_columns_with_the_title_first() {
        let row = json!({
            "runId": "0199b3a4-1111-7222-8333-444455556666", "nodeId": "approve-release", "kind": "approval", "ageMs": 60_000,
            "workflowId": "release-to-production", "title": "Release version 2 ".repeat(10), "assignees": ["ann", "role:x"],
            "openAsks": 2, "requiredApprovals": 3, "votes": {"approvals": 1, "rejections": 1, "voters": ["bob"]},
        });
        let output = Output::new(true);
        let fitted = |width: usize| {
            let (mut heads, mut rows) = columns(&json!({"interrupts": [row]}));
            fit(&mut heads, &mut rows, width);
            output.table(&heads, &rows, "")
        };
        let narrow = fitted(80);
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        assert!(
            narrow.starts_with("TITLE ") && narrow.lines().nth(1).unwrap().starts_with("Release "),
            "{narrow}"
        );
        assert!(narrow.contains("0199b3a4-1111-7222-8333-444455556666  approve-release"), "{narrow}");
        let wide = fitted(200);
        assert!(wide.contains("release-to-production") && wide.contains("1 of 3"), "{wide}");
    }

    #[test]
    fn the_pending_table_shows_interrupt_ids_if_a_node_has_several() {
        let row = |node: &str, id: &str| json!({"runId": "r", "nodeId": node, "interruptId": id, "kind": "approval"});
        let table = |rows: Value| table(&Output::new(true), &json!({"interrupts": rows}));
        assert!(!table(json!([row("a", "r:i1"), row("b", "r:i2")])).contains("r:i1"));
        let text = table(json!([row("a", "r:i1"), row("a", "r:i2")]));
        assert!(text.contains("r:i1") && text.contains("r:i2"), "{text}");
    }
}
