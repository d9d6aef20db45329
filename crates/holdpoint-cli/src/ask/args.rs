//! The arguments of `holdpoint ask` and the request that is built from them.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use holdpoint_api::holds::CreateHold;
use holdpoint_api::ids::StrictValue;

use super::data::HoldData;
use super::hook;
use crate::failure::Failure;
use crate::values;

#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct AskArgs {
    /// Title of the hold
    #[arg(value_name = "TITLE", required_unless_present = "hook")]
    pub(super) title: Option<String>,
    /// Longer text below the title
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Possible answers, separated by commas; replaces the approval
    #[arg(long, value_name = "A,B", value_delimiter = ',', conflicts_with_all = ["schema", "hook"])]
    choices: Option<Vec<String>>,
    /// File with the JSON Schema of the answer
    #[arg(long, value_name = "FILE", conflicts_with = "hook")]
    schema: Option<String>,
    /// Approvers: names, role:x, group:y, separated by commas
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    approvers: Option<Vec<String>>,
    /// Number of required approvals; not with --choices or --schema
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    approvals: Option<u64>,
    /// Interrupt profile; with openwop-interrupt-auth-required answers require a key and links are refused
    #[arg(long, value_name = "PROFILE")]
    profile: Option<String>,
    /// Let the principal that creates the hold answer it; the hold, its page and its record show that this is allowed
    #[arg(long)]
    allow_self: bool,
    /// Time until the hold times out: a number and s, m, h, d or w [default: no limit; with --hook, 9m]
    #[arg(long, value_name = "10m", value_parser = values::seconds)]
    pub(super) timeout: Option<u64>,
    /// Data that approvers see: text, JSON, @file, or - for standard input. Line breaks are kept; .md files are
    /// Markdown, .diff and .patch files are patches
    #[arg(long, value_name = "TEXT|@FILE|-", conflicts_with = "hook")]
    show: Option<String>,
    /// Tag of the hold; repeatable
    #[arg(long, value_name = "TAG", value_parser = NonEmptyStringValueParser::new())]
    tag: Option<Vec<String>>,
    /// Idempotency key: a second command with the same key finds the same hold and its answer
    #[arg(long, value_name = "KEY", conflicts_with = "hook", value_parser = NonEmptyStringValueParser::new())]
    pub(super) idempotency_key: Option<String>,
    /// Print a signed link for this principal on standard error; it answers without a key. Requires --allow-self,
    /// because the requester sees the link
    #[arg(long, value_name = "NAME", requires = "allow_self", conflicts_with = "hook", value_parser = NonEmptyStringValueParser::new())]
    pub(super) link: Option<String>,
    /// Lifetime of the link: a number and s, m, h, d or w. At most the lifetime of the hold [default: 30m]
    #[arg(long, value_name = "30m", requires = "link", value_parser = values::seconds)]
    pub(super) link_expires: Option<u64>,
    /// Cancel the hold if SIGINT (Ctrl-C), SIGTERM or SIGHUP ends this command; the exit code is then 3
    #[arg(long, conflicts_with = "detach")]
    pub(super) cancel_on_exit: bool,
    /// Read the tool call of a hook of this program from standard input and print the decision in its format
    #[arg(long, value_name = "PROGRAM", conflicts_with = "detach")]
    pub(super) hook: Option<hook::Program>,
    /// Print the id of the hold and do not wait
    #[arg(long)]
    pub(super) detach: bool,
}

impl AskArgs {
    pub(super) fn request(self) -> Result<CreateHold, Failure> {
        let data = self.show.map(|source| HoldData::read(&source)).transpose()?;
        let (data, media_type) = data.map(|data| (data.value, data.media_type)).unzip();
        let schema = self.schema.map(|file| values::json("--schema", &format!("@{file}"))).transpose()?;
        Ok(CreateHold {
            title: self.title.unwrap_or_default(),
            description: self.description,
            choices: self.choices,
            schema: schema.map(StrictValue),
            data: data.map(StrictValue),
            data_type: media_type.flatten().map(str::to_owned),
            approvers: self.approvers,
            requester_may_not_approve: self.allow_self.then_some(false),
            required_approvals: self.approvals,
            profile: self.profile,
            timeout_ms: self.timeout.map(|seconds| seconds.saturating_mul(1000)),
            tags: self.tag,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::{Value, json};

    #[derive(Parser)]
    struct TestCommand {
        #[command(flatten)]
        args: AskArgs,
    }

    fn body(args: &[&str]) -> Option<Value> {
        let line = TestCommand::try_parse_from(["ask"].iter().chain(args)).ok()?;
        serde_json::to_value(line.args.request().ok()?).ok()
    }

    #[test]
    fn the_request_has_only_the_given_flags() {
        assert_eq!(body(&["Go?"]).unwrap(), json!({"title": "Go?"}));
        let full =
            "Go? --approvers ann,role:x --timeout 2m --show {\"a\":1} --description d --tag ci --tag eu";
        let full: Vec<&str> = full.split(' ').collect();
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
        assert_eq!(body(&["--hook", "claude-code"]).unwrap(), json!({"title": ""}));
    }
}
