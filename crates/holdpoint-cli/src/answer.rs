//! `holdpoint answer`: answers an interrupt.

use std::borrow::Cow;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args};
use holdpoint_api::ids::{Kind, NodeId, Status, StrictValue};
use holdpoint_api::interrupts::{
    AnswerOutcome, ApprovalAnswer, ClarificationAnswer, RefineFeedback, ResolveInterrupt,
};
use serde::Serialize;
use serde_json::Value;

use super::client::Client;
use super::failure::Failure;
use super::open_interrupt::InterruptData;
use super::output::{Output, cell, clean};
use super::{runs, values};

pub(crate) const USAGE: &str = "holdpoint answer [OPTIONS] <RUN> <NODE> <ACTION>
       holdpoint answer [OPTIONS] <RUN> <NODE> refine --feedback <TEXT>
       holdpoint answer [OPTIONS] <RUN> <NODE> edit-accept --edited <JSON|@FILE|->
       holdpoint answer [OPTIONS] <RUN> <NODE> ask --question <TEXT>
       holdpoint answer [OPTIONS] <RUN> <NODE> --set <QUESTION=ANSWER>...
       holdpoint answer [OPTIONS] <RUN> <NODE> --value <JSON|@FILE|->";

pub(crate) const EXAMPLES: &str = "\
`holdpoint pending` lists pending interrupts with their runs and nodes; `holdpoint runs show RUN` shows one in full.

Examples:
  holdpoint answer latest gate accept
  holdpoint answer RUN gate reject --feedback 'the changelog is missing'
  holdpoint answer RUN gate refine --feedback 'shorter, please'
  holdpoint answer RUN gate edit-accept --edited @text.json
  holdpoint answer RUN gate ask --question 'what changed since Monday?'
  holdpoint answer RUN questions --set colour=blue --set size=42
  holdpoint answer RUN wait --value '{\"paid\": true}'
  holdpoint answer RUN wait --value @payment.json
  holdpoint answer RUN agent accept --interrupt RUN:i2    # one of several interrupts of a node";

#[derive(Debug, Args)]
#[group(skip)]
#[command(group(ArgGroup::new("the_answer").required(true).args(["action", "answers", "value"])))]
pub(crate) struct AnswerArgs {
    #[command(flatten)]
    run: runs::RunArg,
    /// Node of the interrupt
    #[arg(value_name = "NODE", value_parser = NonEmptyStringValueParser::new())]
    node: String,
    /// Action of an approval, such as `accept` or `reject`
    #[arg(value_name = "ACTION", value_parser = NonEmptyStringValueParser::new())]
    action: Option<String>,
    /// Comment on the action; required by `refine`
    #[arg(long, value_name = "TEXT", requires = "action", conflicts_with_all = ["answers", "value"])]
    feedback: Option<String>,
    /// Edited artifact for `edit-accept`: JSON, @file, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", requires = "action", conflicts_with_all = ["answers", "value"])]
    edited: Option<String>,
    /// Side question for `ask`; `holdpoint asks list RUN` shows its answer
    #[arg(long, value_name = "TEXT", requires = "action", conflicts_with_all = ["answers", "value", "feedback", "edited"])]
    question: Option<String>,
    /// Answer to one question of a clarification: JSON if it parses as JSON, otherwise text; repeatable
    #[arg(long = "set", value_name = "QUESTION=ANSWER", value_parser = values::pair)]
    answers: Vec<(String, Value)>,
    /// Resume value: JSON, @file, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    value: Option<String>,
    /// Id of the interrupt; required if the node has several open interrupts
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    interrupt: Option<String>,
}

/// A resume value, by the kind of its interrupt.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum ResumeValue {
    Approval(Box<ApprovalAnswer<'static>>),
    Clarification(ClarificationAnswer<'static>),
    Other(Value),
}

impl ResumeValue {
    /// Returns the body of the request that answers an interrupt.
    pub(crate) fn into_body(self, interrupt_id: Option<String>, digest: Option<String>) -> ResolveInterrupt {
        let value = serde_json::to_value(self).expect("the keys of a resume value are strings");
        ResolveInterrupt { resume_value: StrictValue(value), digest, interrupt_id }
    }
}

pub(crate) fn run(client: &Client, output: &Output, args: AnswerArgs) -> Result<(), Failure> {
    let mut value = args.resume_value()?;
    let (run, node) = (args.run.id(client)?, &args.node);
    if let ResumeValue::Approval(approval) = &mut value {
        args.check_action(client, &run, approval.action.to_mut())?;
    }
    let body = value.into_body(args.interrupt.clone(), None);
    let reply = client.send(client.interrupts().resolve(&run, node, &body))?;
    // With --json the output does not depend on timing.
    let now = if output.json { None } else { runs::wait_until_settled(client, &run) };
    output.show(&reply, |resolved| {
        let verb =
            if resolved.outcome == AnswerOutcome::Asked { "asked a side question at" } else { "answered" };
        let (run, done) = (clean(&run), format!("{verb} {} of run {}", clean(node), clean(&run)));
        match &now {
            Some(now) if now.status == Status::Paused => {
                let resume = output.command(&format!("runs resume {run}"));
                format!("{done}; the run is paused; resume it with: {resume}")
            }
            Some(now) => format!("{done}; the run is now {}", runs::describe_state(output, now)),
            None => done,
        }
    });
    Ok(())
}

impl AnswerArgs {
    /// Replaces `approve` with the action `accept`, and rejects an action if the interrupt is not an approval. Leaves
    /// the check to the server if this key may not read the run, or if the snapshot shows another interrupt of the run.
    fn check_action(&self, client: &Client, run: &str, action: &mut String) -> Result<(), Failure> {
        let snapshot = match client.send(client.runs().get(run)) {
            Ok(reply) => reply.value,
            Err(failure) if failure.status() == Some(403) => return Ok(()),
            Err(failure) => return Err(failure),
        };
        let is_meant = |id: &String| self.interrupt.as_ref().is_none_or(|named| named == id);
        let of_node = |node: &NodeId| node.as_str() == self.node;
        let below = snapshot.child_interrupts.iter().find(|one| {
            one.path.first().is_some_and(|step| of_node(&step.node_id)) && is_meant(&one.interrupt_id)
        });
        let interrupt = match below {
            // The answer is for a child run, whose snapshot has the actions.
            Some(below) => {
                let snapshot = client.send(client.runs().get(below.run_id.as_str()))?.value;
                snapshot.interrupt.filter(|interrupt| interrupt.interrupt_id == below.interrupt_id)
            }
            None => snapshot
                .interrupt
                .filter(|interrupt| of_node(&interrupt.node_id) && is_meant(&interrupt.interrupt_id)),
        };
        let Some(interrupt) = interrupt else { return Ok(()) };
        let form = match interrupt.kind {
            Kind::Approval => {
                let data = InterruptData::of(&interrupt).unwrap_or_default();
                let offered = data.actions();
                let offers_accept = offered.is_empty() || offered.contains(&"accept");
                if action == "approve" && offers_accept && !offered.contains(&"approve") {
                    "accept".clone_into(action);
                }
                return Ok(());
            }
            Kind::Clarification => "--set QUESTION=ANSWER",
            _ => "--value JSON",
        };
        let (run, node, kind) = (clean(run), clean(&self.node), cell(interrupt.kind));
        let message = format!("`{node}` waits for {kind}; `{action}` is an action of approvals");
        Err(Failure::usage(message).hint(format!("answer with `holdpoint answer {run} {node} {form}`")))
    }

    fn resume_value(&self) -> Result<ResumeValue, Failure> {
        if let Some(source) = &self.value {
            return values::json("--value", source).map(ResumeValue::Other);
        }
        if let Some(action) = &self.action {
            return self.approval(action).map(|approval| ResumeValue::Approval(Box::new(approval)));
        }
        let answers = values::unique("--set", self.answers.clone())?;
        Ok(ResumeValue::Clarification(ClarificationAnswer { answers: Cow::Owned(answers.into()) }))
    }

    fn approval(&self, action: &str) -> Result<ApprovalAnswer<'static>, Failure> {
        let edited = self.edited.as_ref().map(|source| values::json("--edited", source)).transpose()?;
        for (needs, is_given, flag) in [
            ("ask", self.question.is_some(), "--question TEXT"),
            ("refine", self.feedback.is_some(), "--feedback TEXT"),
            ("edit-accept", edited.is_some(), "--edited JSON|@FILE|-"),
        ] {
            let name = flag.split(' ').next().unwrap_or_default();
            if action == needs && !is_given {
                return Err(Failure::usage(format!("`{action}` requires {name}"))
                    .hint(format!("use `holdpoint answer RUN NODE {action} {flag}`")));
            }
            if action != needs && is_given && needs != "refine" {
                return Err(Failure::usage(format!("{name} requires the action `{needs}`, not `{action}`")));
            }
        }
        let mut answer = ApprovalAnswer {
            action: action.to_owned().into(),
            feedback: self.feedback.clone().map(Cow::Owned),
            edited_artifact_data: edited.map(Cow::Owned),
            question: self.question.clone().map(Cow::Owned),
            refine_feedback: None,
        };
        if action == "refine" {
            answer.refine_feedback =
                answer.feedback.take().map(|text| RefineFeedback::Whole { text: text.into_owned() });
        }
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::json;

    #[derive(Parser)]
    struct TestCommand {
        #[command(flatten)]
        answer: AnswerArgs,
    }

    fn read(args: &[&str]) -> Option<Value> {
        let line = TestCommand::try_parse_from(["answer", "run", "node"].iter().chain(args)).ok()?;
        serde_json::to_value(line.answer.resume_value().ok()?).ok()
    }

    #[test]
    fn flags_become_the_resume_value() {
        assert_eq!(read(&["accept"]), Some(json!({"action": "accept"})));
        let rejected = json!({"action": "reject", "feedback": "no"});
        assert_eq!(read(&["reject", "--feedback", "no"]), Some(rejected));
        let answers = json!({"answers": {"a": "x", "b": 2}});
        assert_eq!(read(&["--set", "a=x", "--set", "b=2"]), Some(answers));
        assert_eq!(read(&["--value", "[1]"]), Some(json!([1])));
        let question = json!({"action": "ask", "question": "Why?"});
        assert_eq!(read(&["ask", "--question", "Why?"]), Some(question));
        let refined = json!({"action": "refine", "refineFeedback": {"scope": "whole", "text": "shorter"}});
        assert_eq!(read(&["refine", "--feedback", "shorter"]), Some(refined));
        let edited = json!({"action": "edit-accept", "editedArtifactData": {"a": 1}});
        assert_eq!(read(&["edit-accept", "--edited", "{\"a\":1}"]), Some(edited));
    }

    #[test]
    fn a_command_without_exactly_one_valid_answer_is_wrong_usage() {
        let wrong: [&[&str]; 13] = [
            &[],
            &["ask"],
            &["accept", "--question", "Why?"],
            &["ask", "--question", "Why?", "--feedback", "x"],
            &["refine"],
            &["edit-accept"],
            &["accept", "--edited", "1"],
            &["--set", "a=1", "--edited", "1"],
            &["accept", "--value", "1"],
            &["accept", "--set", "a=1"],
            &["--feedback", "x", "--value", "1"],
            &["--set", "a=1", "--set", "a=2"],
            &["--value", "{"],
        ];
        for args in wrong {
            assert_eq!(read(args), None, "{args:?}");
        }
    }
}
