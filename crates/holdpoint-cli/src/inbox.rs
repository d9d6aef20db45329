//! `holdpoint inbox`: what waits for the caller, shown and decided one by one with plain lines. Judges no answer.

use std::io::{BufRead, IsTerminal, Write};

use clap::Args;
use serde_json::{Map, Value, json};

use super::asked;
use super::client::{Client, encode};
use super::failure::Failure;
use super::output::{Output, age_cell, cell, shorten};
use super::pending;

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint inbox                 # choose, look, decide
  holdpoint inbox | cat           # without a terminal: the list alone
  holdpoint inbox --link          # a link that signs in to the page, once, within half an hour
  holdpoint inbox --link --as key_owner   # the same for another key of the tenant

Answers: a accept, r reject, f refine, e edit and accept, k ask first, s skip, q quit; only those
that are offered. To other questions the answer itself is typed: JSON if it reads as JSON, else text.";

/// More than fits a screen is more than somebody chooses from.
const SHOWN_MAX: u32 = 20;

#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Inbox {
    /// Print a link that signs in to the inbox page as you, once
    #[arg(long, conflicts_with = "interactive")]
    link: bool,
    /// With --link: the id of another key to sign in with; requires the scope keys:manage
    #[arg(long = "as", value_name = "KEYID", requires = "link")]
    as_key: Option<String>,
    /// Ask and read answers even where there is no terminal
    #[arg(long)]
    interactive: bool,
}

/// Words for letters, in the order in which they are offered.
const LETTERS: [(&str, &str); 5] =
    [("a", "accept"), ("r", "reject"), ("f", "refine"), ("e", "edit-accept"), ("k", "ask")];

/// What somebody wants at a question.
#[derive(Debug, PartialEq)]
enum Wish {
    Answer(Value),
    Skip,
    Quit,
}

pub(crate) fn run(client: &Client, output: &Output, wanted: &Inbox) -> Result<(), Failure> {
    if wanted.link {
        let body = wanted.as_key.as_ref().map_or_else(|| json!({}), |key| json!({"keyId": key}));
        let reply = client.post("/v1/session:link", &body)?;
        output.show(&reply, |made| cell(&made["url"]));
        return Ok(());
    }
    let asks = wanted.interactive || (std::io::stdin().is_terminal() && std::io::stdout().is_terminal());
    if !asks || output.json {
        return pending::for_me(client, output);
    }
    Desk { client, output, lines: std::io::stdin().lock().lines().map_while(Result::ok) }.work()
}

struct Desk<'a, L> {
    client: &'a Client,
    output: &'a Output,
    lines: L,
}

impl<L: Iterator<Item = String>> Desk<'_, L> {
    fn work(&mut self) -> Result<(), Failure> {
        loop {
            let path = "/v1/interrupts?assignee=me&";
            let waiting = self.client.list(path, "interrupts", SHOWN_MAX)?;
            let waiting = waiting.value["interrupts"].as_array().cloned().unwrap_or_default();
            if waiting.is_empty() {
                self.output.line("nothing waits for you");
                return Ok(());
            }
            self.output.line(&list(self.output, &waiting));
            let Some(said) = self.ask("number, l to look again, q to quit") else { return Ok(()) };
            match (said.as_str(), said.parse::<usize>().ok().and_then(|at| waiting.get(at.checked_sub(1)?))) {
                ("q", _) => return Ok(()),
                (_, Some(chosen)) => {
                    if !self.decide(chosen)? {
                        return Ok(());
                    }
                }
                ("l" | "", None) => {}
                _ => self.output.line("there is no such number"),
            }
        }
    }

    /// One line of what somebody types; nothing at the end of the input.
    fn ask(&mut self, what: &str) -> Option<String> {
        print!("{what}> ");
        // A prompt that cannot be shown is no reason not to read.
        let _ = std::io::stdout().flush();
        self.lines.next().map(|line| line.trim().to_owned())
    }

    /// False when somebody has had enough.
    fn decide(&mut self, chosen: &Value) -> Result<bool, Failure> {
        let (run, node) = (text(&chosen["runId"]), text(&chosen["nodeId"]));
        let path = format!("/v1/runs/{}", encode(&run));
        let page = self.client.list(&format!("{path}/interrupts?"), "interrupts", 1000)?;
        let is_it = |one: &&Value| one["interruptId"] == chosen["interruptId"] && one["status"] == "open";
        let found = page.value["interrupts"].as_array().into_iter().flatten().find(is_it);
        let Some(asked) = found.cloned() else {
            self.output.line("somebody was faster: this does not wait any more");
            return Ok(true);
        };
        self.output.line(&asked::shown(self.output, &asked));
        let wish = match asked["kind"].as_str() {
            Some("approval") => self.approval(&asked["data"]),
            Some("clarification") => self.questions(&asked["data"]),
            _ => self.value(),
        };
        match wish {
            Wish::Skip => Ok(true),
            Wish::Quit => Ok(false),
            Wish::Answer(value) => {
                let mut body = json!({"resumeValue": value, "interruptId": asked["interruptId"]});
                if asked["digest"].is_string() {
                    body["digest"] = asked["digest"].clone();
                }
                match self.client.post(&format!("{path}/interrupts/{}", encode(&node)), &body) {
                    Ok(reply) => self.output.line(&format!(
                        "{}; the run is now {}",
                        cell(&reply.value["outcome"]),
                        cell(&reply.value["status"])
                    )),
                    // Of one question no more can be said; the others still wait.
                    Err(failure) if failure.status().is_some() => self.output.line(&failure.to_string()),
                    Err(failure) => return Err(failure),
                }
                Ok(true)
            }
        }
    }

    fn approval(&mut self, data: &Value) -> Wish {
        let offered = asked::actions(data);
        let known = |action: &str| offered.iter().any(|one| one == action);
        let words: Vec<String> = LETTERS
            .iter()
            .filter(|(_, action)| known(action))
            .map(|(letter, action)| format!("{letter} {action}"))
            .collect();
        loop {
            let Some(said) = self.ask(&format!("{}, s skip, q quit", words.join(", "))) else {
                return Wish::Quit;
            };
            match said.as_str() {
                "s" | "" => return Wish::Skip,
                "q" => return Wish::Quit,
                letter => {
                    let found = LETTERS.iter().find(|(known, action)| *known == letter || *action == letter);
                    match found.filter(|(_, action)| known(action)) {
                        Some((_, action)) => return self.with_words(action),
                        None => self.output.line("that is not offered here"),
                    }
                }
            }
        }
    }

    /// What an action needs besides its name.
    fn with_words(&mut self, action: &str) -> Wish {
        let mut answer = json!({"action": action});
        match action {
            "reject" => {
                let Some(why) = self.ask("why (may be empty)") else { return Wish::Quit };
                if !why.is_empty() {
                    answer["feedback"] = json!(why);
                }
            }
            "refine" => {
                let Some(what) = self.ask("what to change") else { return Wish::Quit };
                answer["refineFeedback"] = json!({"scope": "whole", "text": what});
            }
            "ask" => {
                let Some(question) = self.ask("what to ask") else { return Wish::Quit };
                answer["question"] = json!(question);
            }
            "edit-accept" => {
                let Some(edited) = self.ask("as it shall be, JSON or text on one line") else {
                    return Wish::Quit;
                };
                answer["editedArtifactData"] = as_typed(&edited);
            }
            _ => {}
        }
        Wish::Answer(answer)
    }

    fn questions(&mut self, data: &Value) -> Wish {
        let mut answers = Map::new();
        for question in data["questions"].as_array().into_iter().flatten() {
            let options: Vec<&Value> = question["options"].as_array().into_iter().flatten().collect();
            for (at, option) in options.iter().enumerate() {
                self.output.line(&format!("  {}  {}", at + 1, cell(option)));
            }
            let prompt = format!("{} (s skip, q quit)", shorten(&cell(&question["question"]), 60));
            let Some(said) = self.ask(&prompt) else { return Wish::Quit };
            let chosen = said.parse::<usize>().ok().and_then(|at| options.get(at.checked_sub(1)?));
            match (said.as_str(), chosen) {
                (_, Some(option)) => drop(answers.insert(text(&question["id"]), (*option).clone())),
                ("s" | "", None) => return Wish::Skip,
                ("q", None) => return Wish::Quit,
                (typed, None) => drop(answers.insert(text(&question["id"]), as_typed(typed))),
            }
        }
        Wish::Answer(json!({"answers": answers}))
    }

    fn value(&mut self) -> Wish {
        match self.ask("the answer, JSON or text; s skip, q quit").as_deref() {
            None | Some("q") => Wish::Quit,
            Some("s" | "") => Wish::Skip,
            Some(typed) => Wish::Answer(as_typed(typed)),
        }
    }
}

fn as_typed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(output: &Output, waiting: &[Value]) -> String {
    let row = |(at, one): (usize, &Value)| {
        let expires = pending::expiry(&one["expiresAt"]);
        vec![
            (at + 1).to_string(),
            shorten(&cell(&one["title"]), 60),
            shorten(&cell(&one["excerpt"]), 50),
            cell(&one["kind"]),
            cell(&one["workflowId"]),
            age_cell(&one["requestedAt"]),
            expires,
        ]
    };
    let rows: Vec<_> = waiting.iter().enumerate().map(row).collect();
    output.table(
        &["", "TITLE", "ABOUT", "KIND", "WORKFLOW", "AGE", "EXPIRES"],
        &rows,
        "nothing waits for you",
    )
}
