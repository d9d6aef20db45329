//! Commands that send requests to a server. They use the HTTP API, not the engine or the store. `permissions` uses the
//! core and needs no server.
//!
//! # Layout
//! - One file per command, with `runs/`, `threads/`, `webhooks/` and `ask/` for their parts: flags, request, output
//! - `client`, `connection`, `trust`: the blocking client, the server and key of a command, TLS
//! - `failure`, `output`, `values`: errors and exit codes, tables and JSON lines, values of arguments
//! - `open_interrupt`, `watch`: an open interrupt with the command that answers it; events of a run

mod agents;
mod answer;
mod ask;
mod asks;
mod client;
pub mod connection;
mod dispatch_args;
mod events;
pub mod failure;
mod inbox;
mod keys;
mod links;
mod mailbox;
mod open_interrupt;
pub mod output;
mod pending;
mod permissions;
mod runs;
mod secrets;
mod threads;
mod triggers;
mod trust;
mod usage;
pub mod values;
mod watch;
mod webhooks;
pub mod workflows;

use std::process::ExitCode;

use clap::Subcommand;

pub use connection::Connection;

use client::Client;
use connection::Settings;
use failure::Failure;
use output::Output;

/// The exit codes, for the help of the top command. Scripts rely on them.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  success; for `runs watch`, the run completed
  1  the server refused the request; the watched run failed or was cancelled; a checked
     definition has errors
  2  wrong usage: an unknown flag, an invalid value, a file that cannot be read
  3  the server cannot be reached, or its response is invalid
  4  there is no key, or the server does not accept it for this request
  10 and 11  `permissions test`: the decision is ask or deny; 0 is allow
  `ask` and `wait` have other codes: 0 approved or answered, 1 rejected, 2 timed out,
  3 cancelled; 64 wrong usage, 65 refused by the server, 69 server not reachable, 77 no valid key

With --json, stderr has a refusal of the server as one line of JSON: {\"error\", \"message\",
\"details\"}. The exit codes are the same; other errors are text.";

/// The commands that talk to a server.
#[derive(Debug, Subcommand)]
#[expect(private_interfaces, reason = "the arguments of a command are used in this crate only")]
pub enum ClientCommand {
    /// Create, list, rotate and revoke API keys
    #[command(after_help = keys::EXAMPLES)]
    Keys {
        #[command(flatten)]
        connection: Connection,
        #[command(subcommand)]
        action: keys::Action,
    },
    /// Declare agents and start their runs
    #[command(after_help = agents::EXAMPLES)]
    Agents {
        #[command(flatten)]
        connection: Connection,
        #[command(subcommand)]
        action: agents::Action,
    },
    /// Read, continue and interrupt agent threads
    #[command(after_help = threads::EXAMPLES)]
    Threads {
        #[command(flatten)]
        connection: Connection,
        #[command(subcommand)]
        action: threads::Action,
    },
    /// Start, list, show, watch, pause, resume, cancel and fork runs
    #[command(after_help = runs::EXAMPLES)]
    Runs {
        #[command(flatten)]
        connection: Connection,
        #[command(subcommand)]
        action: runs::Action,
    },
    /// Inspect and repair the dispatch queue
    #[command(after_help = mailbox::EXAMPLES)]
    Mailbox {
        #[command(flatten)]
        connection: Connection,
        #[command(subcommand)]
        action: mailbox::Action,
    },
    /// List pending interrupts
    #[command(after_help = pending::EXAMPLES)]
    Pending {
        #[command(flatten)]
        connection: Connection,
        #[command(flatten)]
        args: pending::PendingArgs,
    },
    /// List and answer side questions
    #[command(after_help = asks::EXAMPLES)]
    Asks {
        #[command(flatten)]
        connection: Connection,
        #[command(subcommand)]
        action: asks::Action,
    },
    /// Create a hold and wait for its answer; the exit code is the outcome
    #[command(after_help = ask::EXAMPLES)]
    Ask {
        #[command(flatten)]
        connection: Connection,
        #[command(flatten)]
        args: ask::AskArgs,
    },
    /// Wait for the answer of a hold; the exit code is the outcome
    #[command(after_help = ask::EXAMPLES)]
    Wait {
        #[command(flatten)]
        connection: Connection,
        /// Id of the hold, as printed by `ask --detach`
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Show and answer the interrupts that you may decide, or print a sign-in link for the inbox page
    #[command(after_help = inbox::EXAMPLES)]
    Inbox {
        #[command(flatten)]
        connection: Connection,
        #[command(flatten)]
        args: inbox::InboxArgs,
    },
    /// Answer an interrupt
    #[command(override_usage = answer::USAGE, after_help = answer::EXAMPLES)]
    Answer {
        #[command(flatten)]
        connection: Connection,
        #[command(flatten)]
        args: answer::AnswerArgs,
    },
    /// Test and check permission rules for tool calls; needs no server
    #[command(after_help = permissions::EXAMPLES)]
    Permissions {
        #[command(flatten)]
        connection: Connection,
        #[command(subcommand)]
        action: permissions::Action,
    },
    /// Create links that show or answer an interrupt without a key
    #[command(after_help = links::EXAMPLES)]
    Links {
        #[command(flatten)]
        connection: Connection,
        #[command(subcommand)]
        action: links::Action,
    },
    /// List and rotate the secrets that sign links
    #[command(after_help = secrets::EXAMPLES)]
    Secrets {
        #[command(flatten)]
        connection: Connection,
        #[command(subcommand)]
        action: secrets::Action,
    },
    /// Show the quotas of the tenant and their use
    #[command(after_help = usage::EXAMPLES)]
    Usage {
        #[command(flatten)]
        connection: Connection,
    },
    /// Send external events
    #[command(after_help = events::EXAMPLES)]
    Events {
        #[command(flatten)]
        connection: Connection,
        #[command(subcommand)]
        action: events::Action,
    },
    /// Manage triggers, which start runs at times or for events
    #[command(after_help = triggers::EXAMPLES)]
    Triggers {
        #[command(flatten)]
        connection: Connection,
        #[command(subcommand)]
        action: triggers::Action,
    },
    /// Manage webhooks and their deliveries
    #[command(after_help = webhooks::EXAMPLES)]
    Webhooks {
        #[command(flatten)]
        connection: Connection,
        #[command(subcommand)]
        action: webhooks::Action,
    },
}

/// Runs one command and prints its output and its error.
pub fn run(command: ClientCommand) -> ExitCode {
    let output = Output::of(command.connection());
    finish(perform(command), &output)
}

/// Prints the failure of a command, if there is one, and returns the exit code.
pub fn finish(done: Result<ExitCode, Failure>, output: &Output) -> ExitCode {
    done.unwrap_or_else(|failure| {
        eprintln!("{}", if output.json { failure.json_line() } else { failure.to_string() });
        failure.exit_code()
    })
}

impl ClientCommand {
    fn connection(&self) -> &Connection {
        match self {
            Self::Keys { connection, .. }
            | Self::Agents { connection, .. }
            | Self::Threads { connection, .. }
            | Self::Runs { connection, .. }
            | Self::Mailbox { connection, .. }
            | Self::Pending { connection, .. }
            | Self::Asks { connection, .. }
            | Self::Ask { connection, .. }
            | Self::Wait { connection, .. }
            | Self::Inbox { connection, .. }
            | Self::Answer { connection, .. }
            | Self::Permissions { connection, .. }
            | Self::Links { connection, .. }
            | Self::Secrets { connection, .. }
            | Self::Usage { connection }
            | Self::Events { connection, .. }
            | Self::Triggers { connection, .. }
            | Self::Webhooks { connection, .. } => connection,
        }
    }
}

fn perform(command: ClientCommand) -> Result<ExitCode, Failure> {
    let done = match command {
        ClientCommand::Permissions { connection, action } => {
            return permissions::run(&Output::of(&connection), action);
        }
        ClientCommand::Ask { connection, args } => return Ok(ask::run(&connection, args)),
        ClientCommand::Wait { connection, id } => return Ok(ask::wait(&connection, &id)),
        ClientCommand::Inbox { connection, args } => {
            inbox::run(&open(&connection)?, &Output::of(&connection), &args)
        }
        ClientCommand::Keys { connection, action } => {
            keys::run(&open(&connection)?, &Output::of(&connection), action)
        }
        ClientCommand::Agents { connection, action } => {
            agents::run(&open(&connection)?, &Output::of(&connection), action)
        }
        ClientCommand::Threads { connection, action } => {
            threads::run(&open(&connection)?, &Output::of(&connection), action)
        }
        ClientCommand::Runs { connection, action } => {
            runs::run(&open(&connection)?, &Output::of(&connection), action)
        }
        ClientCommand::Mailbox { connection, action } => {
            mailbox::run(&open(&connection)?, &Output::of(&connection), action)
        }
        ClientCommand::Pending { connection, args } => {
            pending::run(&open(&connection)?, &Output::of(&connection), &args)
        }
        ClientCommand::Asks { connection, action } => {
            asks::run(&open(&connection)?, &Output::of(&connection), action)
        }
        ClientCommand::Answer { connection, args } => {
            answer::run(&open(&connection)?, &Output::of(&connection), args)
        }
        ClientCommand::Links { connection, action } => {
            links::run(&open(&connection)?, &Output::of(&connection), action)
        }
        ClientCommand::Secrets { connection, action } => {
            secrets::run(&open(&connection)?, &Output::of(&connection), action)
        }
        ClientCommand::Usage { connection } => usage::run(&open(&connection)?, &Output::of(&connection)),
        ClientCommand::Events { connection, action } => {
            events::run(&open(&connection)?, &Output::of(&connection), action)
        }
        ClientCommand::Triggers { connection, action } => {
            triggers::run(&open(&connection)?, &Output::of(&connection), action)
        }
        ClientCommand::Webhooks { connection, action } => webhooks::run(&connection, action),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Returns the exit code of wrong usage: 64 for `ask` and `wait`, whose small codes are outcomes, otherwise 2.
pub fn usage_exit_code(command: Option<&str>) -> u8 {
    if matches!(command, Some("ask" | "wait")) { ask::hook::exit_code(64) } else { 2 }
}

/// Creates a client for the server of the flags. Does not connect.
fn open(connection: &Connection) -> Result<Client, Failure> {
    Client::new(Settings::find(connection)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        ClientCommand::augment_subcommands(clap::Command::new("holdpoint")).debug_assert();
    }

    /// clap wraps longer lines.
    #[test]
    fn examples_fit_into_the_width_of_the_help() {
        fn check(command: &clap::Command, path: &str) {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = after.lines().filter(|line| line.starts_with(' '));
            let long: Vec<&str> = examples.filter(|line| line.chars().count() > 98).collect();
            assert!(long.is_empty(), "{path}: {long:#?}");
            command.get_subcommands().for_each(|below| check(below, &format!("{path} {}", below.get_name())));
        }
        assert!(EXIT_CODES.lines().all(|line| line.chars().count() <= 98));
        check(&ClientCommand::augment_subcommands(clap::Command::new("holdpoint")), "holdpoint");
    }
}
