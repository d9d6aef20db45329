//! `holdpoint inbox`: shows the interrupts that the caller may decide, and reads answers from the terminal.

use std::borrow::Cow;
use std::io::{BufRead, IsTerminal, Write};
use std::ops::ControlFlow;

use clap::Args;
use holdpoint_api::ids::Kind;
use holdpoint_api::interrupts::{
    ApprovalAnswer, ClarificationAnswer, InterruptRecord, InterruptStatus, RefineFeedback,
};
use holdpoint_api::pending::PendingInterrupt;
use holdpoint_api::sessions::CreateSessionLink;
use holdpoint_api::snapshot::OpenInterrupt;
use serde_json::{Map, Value};

use super::answer::ResumeValue;
use super::client::Client;
use super::failure::Failure;
use super::open_interrupt::{self, InterruptData};
use super::output::{Output, age_since, cell, shorten};
use super::pending;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint inbox                 # shows interrupts and reads answers
  holdpoint inbox | cat           # without a terminal: only the list
  holdpoint inbox --link          # a one-time sign-in link for the page, valid for half an hour
  holdpoint inbox --link --as key_owner   # the same for another key of the tenant

Answers to approvals: a accept, r reject, f refine, e edit and accept, k ask a side question, s skip,
q quit; only the actions that the interrupt offers. For other kinds, type the answer: JSON if it
parses as JSON, otherwise text.";

/// The number of interrupts that fit on a screen.
const SHOWN_MAX: u32 = 20;

#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct InboxArgs {
    /// Print a one-time link that signs you in to the inbox page
    #[arg(long, conflicts_with = "interactive")]
    link: bool,
    /// With --link: id of another key to sign in with; requires the scope keys:manage
    #[arg(long = "as", value_name = "KEYID", requires = "link")]
    as_key: Option<String>,
    /// Read answers from standard input even without a terminal
    #[arg(long)]
    interactive: bool,
}

/// The letters of the actions, in the order of the prompt.
const LETTERS: [(&str, &str); 5] =
    [("a", "accept"), ("r", "reject"), ("f", "refine"), ("e", "edit-accept"), ("k", "ask")];

/// The input of the user at an interrupt.
#[derive(Debug, PartialEq)]
enum Input {
    Answer(ResumeValue),
    Skip,
    Quit,
}

pub(crate) fn run(client: &Client, output: &Output, args: &InboxArgs) -> Result<(), Failure> {
    if args.link {
        let link = CreateSessionLink { key_id: args.as_key.clone() };
        let reply = client.send(client.sessions().create_link(&link))?;
        output.show(&reply, |link| cell(&link.url));
        return Ok(());
    }
    let is_interactive =
        args.interactive || (std::io::stdin().is_terminal() && std::io::stdout().is_terminal());
    if !is_interactive || output.json {
        return pending::list_assigned_to_me(client, output);
    }
    Prompt { client, output, lines: std::io::stdin().lock().lines().map_while(Result::ok) }.run()
}

/// Reads answers from the lines of standard input.
struct Prompt<'a, L> {
    client: &'a Client,
    output: &'a Output,
    lines: L,
}

impl<L: Iterator<Item = String>> Prompt<'_, L> {
    fn run(&mut self) -> Result<(), Failure> {
        loop {
            let request = self.client.interrupts().pending(&pending::assigned_to_me());
            let waiting = self.client.collect(request, SHOWN_MAX)?.value.interrupts;
            self.output.line(&list(self.output, &waiting));
            if waiting.is_empty() {
                return Ok(());
            }
            let Some(line) = self.read_line("number of an interrupt, l to refresh the list, q to quit")
            else {
                return Ok(());
            };
            match (line.as_str(), line.parse::<usize>().ok().and_then(|at| waiting.get(at.checked_sub(1)?))) {
                ("q", _) => return Ok(()),
                (_, Some(chosen)) => {
                    if let ControlFlow::Break(()) = self.show_and_answer(chosen)? {
                        return Ok(());
                    }
                }
                ("l" | "", None) => {}
                _ => self.output.line("the list has no such number"),
            }
        }
    }

    /// Prints a prompt and reads a line. Returns None at the end of the input.
    fn read_line(&mut self, prompt: &str) -> Option<String> {
        print!("{prompt}> ");
        // The line is read even if the prompt cannot be printed.
        let _ = std::io::stdout().flush();
        self.lines.next().map(|line| line.trim().to_owned())
    }

    /// Shows an interrupt, reads the answer and sends it. Breaks if the user quits.
    fn show_and_answer(&mut self, chosen: &PendingInterrupt<'_>) -> Result<ControlFlow<()>, Failure> {
        let run = chosen.run_id.as_str();
        let history = self.client.collect(self.client.interrupts().history(run), 1000)?.value.interrupts;
        let found = history
            .into_iter()
            .find(|one| one.interrupt_id == chosen.interrupt_id && one.status == InterruptStatus::Open);
        let Some(record) = found else {
            self.output.line("this interrupt is no longer open");
            return Ok(ControlFlow::Continue(()));
        };
        let digest = record.digest.as_deref().map(str::to_owned);
        let interrupt = into_open_interrupt(record);
        self.output.line(&open_interrupt::describe(self.output, &interrupt));
        let input = match (interrupt.kind, InterruptData::of(&interrupt)) {
            (Kind::Approval, Some(data)) => self.read_approval(&data),
            (Kind::Clarification, Some(data)) => self.read_clarification(&data),
            _ => self.read_value(),
        };
        let answer = match input {
            Input::Skip => return Ok(ControlFlow::Continue(())),
            Input::Quit => return Ok(ControlFlow::Break(())),
            Input::Answer(answer) => answer.into_body(Some(interrupt.interrupt_id), digest),
        };
        let request = self.client.interrupts().resolve(run, interrupt.node_id.as_str(), &answer);
        match self.client.send(request) {
            Ok(reply) => {
                let (outcome, status) = (cell(reply.value.outcome), cell(reply.value.status));
                self.output.line(&format!("{outcome}; the run is now {status}"));
            }
            // A refused answer does not end the command, because the list may have other interrupts.
            Err(failure) if failure.status().is_some() => self.output.line(&failure.to_string()),
            Err(failure) => return Err(failure),
        }
        Ok(ControlFlow::Continue(()))
    }

    fn read_approval(&mut self, data: &InterruptData) -> Input {
        let offered = data.actions();
        let letters: Vec<_> = LETTERS.iter().filter(|(_, action)| offered.contains(action)).collect();
        let words: Vec<String> =
            letters.iter().map(|(letter, action)| format!("{letter} {action}")).collect();
        let prompt = format!("{}, s skip, q quit", words.join(", "));
        loop {
            match self.read_line(&prompt).as_deref() {
                None | Some("q") => return Input::Quit,
                Some("s" | "") => return Input::Skip,
                Some(word) => {
                    match letters.iter().find(|(letter, action)| *letter == word || *action == word) {
                        Some((_, action)) => return self.read_action(action),
                        None => self.output.line("this action is not available here"),
                    }
                }
            }
        }
    }

    /// Reads the text that an action requires.
    fn read_action(&mut self, action: &str) -> Input {
        let mut answer = ApprovalAnswer { action: action.to_owned().into(), ..ApprovalAnswer::default() };
        let prompt = match action {
            "reject" => Some("reason (optional)"),
            "refine" => Some("requested change"),
            "ask" => Some("side question"),
            "edit-accept" => Some("edited artifact, JSON or text on one line"),
            _ => None,
        };
        if let Some(prompt) = prompt {
            let Some(text) = self.read_line(prompt) else { return Input::Quit };
            match action {
                "reject" => answer.feedback = Some(text).filter(|text| !text.is_empty()).map(Cow::Owned),
                "refine" => answer.refine_feedback = Some(RefineFeedback::Whole { text }),
                "ask" => answer.question = Some(text.into()),
                _ => answer.edited_artifact_data = Some(Cow::Owned(parse(&text))),
            }
        }
        Input::Answer(ResumeValue::Approval(Box::new(answer)))
    }

    fn read_clarification(&mut self, data: &InterruptData) -> Input {
        let mut answers = Map::new();
        for question in &data.questions {
            let options = question.options.as_array().map(Vec::as_slice).unwrap_or_default();
            for (at, option) in options.iter().enumerate() {
                self.output.line(&format!("  {}  {}", at + 1, cell(option)));
            }
            let prompt = format!("{} (s skip, q quit)", shorten(&cell(&question.question), 60));
            let Some(line) = self.read_line(&prompt) else { return Input::Quit };
            let chosen = line.parse::<usize>().ok().and_then(|at| options.get(at.checked_sub(1)?));
            let value = match (line.as_str(), chosen) {
                (_, Some(option)) => option.clone(),
                ("s" | "", None) => return Input::Skip,
                ("q", None) => return Input::Quit,
                (text, None) => parse(text),
            };
            answers.insert(question.id.clone(), value);
        }
        Input::Answer(ResumeValue::Clarification(ClarificationAnswer { answers: Cow::Owned(answers.into()) }))
    }

    fn read_value(&mut self) -> Input {
        match self.read_line("answer, JSON or text (s skip, q quit)").as_deref() {
            None | Some("q") => Input::Quit,
            Some("s" | "") => Input::Skip,
            Some(text) => Input::Answer(ResumeValue::Other(parse(text))),
        }
    }
}

/// Converts an interrupt of the history to the form that a snapshot has.
fn into_open_interrupt(record: InterruptRecord<'static>) -> OpenInterrupt<'static> {
    OpenInterrupt {
        interrupt_id: record.interrupt_id,
        open_interrupt_ids: Vec::new(),
        kind: record.kind,
        node_id: record.node_id,
        key: record.key,
        data: record.data,
        requested_at: record.requested_at,
        timeout_ms: record.timeout_ms,
        expires_at: record.expires_at,
        resume_schema: record.resume_schema,
        interrupt_token: None,
        callback_url: None,
    }
}

/// Parses JSON; other text is a string.
fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

fn list(output: &Output, waiting: &[PendingInterrupt<'_>]) -> String {
    let row = |(at, one): (usize, &PendingInterrupt<'_>)| {
        vec![
            (at + 1).to_string(),
            shorten(&cell(&one.title), 60),
            shorten(&cell(&one.excerpt), 50),
            cell(&one.kind),
            cell(&one.workflow_id),
            age_since(one.requested_at),
            cell(one.expires_at.map(pending::expiry)),
        ]
    };
    let rows: Vec<_> = waiting.iter().enumerate().map(row).collect();
    let heads = ["", "TITLE", "EXCERPT", "KIND", "WORKFLOW", "AGE", "EXPIRES"];
    output.table(&heads, &rows, "no pending interrupts for you")
}
