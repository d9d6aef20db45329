//! The flags of `holdpoint ask`, and the body of the request that they make. Sends nothing.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use serde_json::{Map, Value, json};

use super::hook;
use super::show::Shown;
use crate::failure::Failure;
use crate::values;

#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Question {
    /// The question, in one line
    #[arg(value_name = "TITLE", required_unless_present = "hook")]
    pub(super) title: Option<String>,
    /// A longer text below the title
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Answers to choose from instead of yes or no, separated by commas
    #[arg(long, value_name = "A,B", value_delimiter = ',', conflicts_with_all = ["schema", "hook"])]
    choices: Vec<String>,
    /// A file with a JSON Schema: the answer is anything that fits it, filled in on a form
    #[arg(long, value_name = "FILE", conflicts_with = "hook")]
    schema: Option<String>,
    /// Approvers: names, role:x, group:y, separated by commas
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    approvers: Vec<String>,
    /// Number of principals that must approve; not with --choices or --schema
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    approvals: Option<u64>,
    /// openwop-interrupt-auth-required: answers require a key; links are not accepted
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// Let the principal that makes the hold answer it, too; the hold, its page and its record show this
    #[arg(long)]
    allow_self: bool,
    /// How long to wait for an answer: a number and s, m, h, d or w. Without it, for ever; with --hook, 9m
    #[arg(long, value_name = "10m", value_parser = values::seconds)]
    pub(super) timeout: Option<u64>,
    /// Shown with the question: text, JSON, @file, or - for standard input. Line breaks are kept; .md files are Markdown, .diff and .patch files a patch
    #[arg(long, value_name = "TEXT|@FILE|-", conflicts_with = "hook")]
    show: Option<String>,
    /// A tag of the hold, to find it by. Repeat for more
    #[arg(long, value_name = "TAG", value_parser = NonEmptyStringValueParser::new())]
    tag: Vec<String>,
    /// Ask once for this key: a repeated command finds the same hold and its answer
    #[arg(long, value_name = "KEY", conflicts_with = "hook", value_parser = NonEmptyStringValueParser::new())]
    pub(super) idempotency_key: Option<String>,
    /// Print a signed link on standard error, with which this person answers without a key. It counts as an answer that
    /// the requester passes on, and so requires --allow-self
    #[arg(long, value_name = "NAME", requires = "allow_self", conflicts_with = "hook", value_parser = NonEmptyStringValueParser::new())]
    pub(super) link: Option<String>,
    /// Lifetime of the link: a number and s, m, h, d or w. Never longer than the question [default: 30m]
    #[arg(long, value_name = "30m", requires = "link", value_parser = values::seconds)]
    pub(super) link_expires: Option<u64>,
    /// Cancel the question if SIGINT (Ctrl-C), SIGTERM or SIGHUP ends this command; the exit code is 3 then
    #[arg(long, conflicts_with = "detach")]
    pub(super) cancel_on_exit: bool,
    /// Ask about the tool call that a hook of this program has on standard input, and print the decision in its format
    #[arg(long, value_name = "PROGRAM", conflicts_with = "detach")]
    pub(super) hook: Option<hook::Program>,
    /// Print the id of the hold and do not wait
    #[arg(long)]
    pub(super) detach: bool,
}

impl Question {
    /// Returns the request, with only what was said: the server knows the defaults.
    pub(super) fn request(self) -> Result<Map<String, Value>, Failure> {
        let mut body = Map::new();
        let mut put =
            |name: &str, value: Option<Value>| body.extend(value.map(|value| (name.to_owned(), value)));
        put("title", self.title.map(Value::from));
        put("description", self.description.map(Value::from));
        put("choices", (!self.choices.is_empty()).then(|| json!(self.choices)));
        put("approvers", (!self.approvers.is_empty()).then(|| json!(self.approvers)));
        put("requiredApprovals", self.approvals.map(Value::from));
        put("profile", self.profile.map(Value::from));
        put("requesterMayNotApprove", self.allow_self.then_some(Value::Bool(false)));
        put("timeoutMs", self.timeout.map(|seconds| json!(seconds.saturating_mul(1000))));
        put("tags", (!self.tag.is_empty()).then(|| json!(self.tag)));
        let schema = self.schema.map(|file| values::json("--schema", &format!("@{file}"))).transpose()?;
        put("schema", schema);
        if let Some(shown) = self.show.map(|source| Shown::read(&source)).transpose()? {
            put("data", Some(shown.data));
            put("dataType", shown.media_type.map(Value::from));
        }
        Ok(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        question: Question,
    }

    fn body(args: &[&str]) -> Option<Value> {
        let line = Line::try_parse_from(["ask"].iter().chain(args)).ok()?;
        line.question.request().ok().map(Value::Object)
    }

    #[test]
    fn the_request_holds_only_what_was_said() {
        assert_eq!(body(&["Go?"]).unwrap(), json!({"title": "Go?"}));
        let full = [
            "Go?",
            "--approvers",
            "ann,role:x",
            "--timeout",
            "2m",
            "--show",
            "{\"a\":1}",
            "--description",
            "d",
            "--tag",
            "ci",
            "--tag",
            "eu",
        ];
        let expected = json!({
            "title": "Go?", "approvers": ["ann", "role:x"], "timeoutMs": 120_000, "data": {"a": 1}, "description": "d",
            "tags": ["ci", "eu"],
        });
        assert_eq!(body(&full).unwrap(), expected);
        assert_eq!(body(&["Go?", "--choices", "a,b"]).unwrap()["choices"], json!(["a", "b"]));
        let guarded = ["Go?", "--approvals", "2", "--profile", "p", "--allow-self"];
        let expected =
            json!({"title": "Go?", "requiredApprovals": 2, "profile": "p", "requesterMayNotApprove": false});
        assert_eq!(body(&guarded).unwrap(), expected);
        let for_ann = body(&["Go?", "--choices", "a,b", "--approvers", "ann"]).unwrap();
        assert_eq!(for_ann, json!({"title": "Go?", "choices": ["a", "b"], "approvers": ["ann"]}));
        let text = body(&["Go?", "--show", "one\ntwo"]).unwrap();
        assert_eq!(text, json!({"title": "Go?", "data": "one\ntwo", "dataType": "text/plain"}));
    }

    #[test]
    fn flags_that_contradict_each_other_are_wrong_usage() {
        for wrong in [
            &["Go?", "--choices", "a", "--schema", "f"][..],
            &["Go?", "--timeout", "soon"],
            &["Go?", "--show", "{"],
            &["Go?", "--link", "ann"],
            &["Go?", "--link-expires", "2h"],
            &["Go?", "--detach", "--cancel-on-exit"],
            &["--hook", "claude-code", "--choices", "a,b"],
            &["--hook", "claude-code", "--detach"],
            &["--hook", "claude-code", "--show", "a"],
            &["--hook", "something-else"],
            &[],
        ] {
            assert_eq!(body(wrong), None, "{wrong:?}");
        }
        assert_eq!(body(&["--hook", "claude-code"]).unwrap(), json!({}));
    }
}
