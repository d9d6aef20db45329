//! The `holdpoint` program as a library of one function, for servers with node types of their own.
//!
//! The library is the whole program: server, settings, command line. `src/main.rs` runs it without changes;
//! `examples/own_nodes.rs` adds a node type. To run workflows without HTTP, embed [`engine`] instead.
//!
//! # Layout
//! - Protocols, one folder each: `openwop`, `agui`, `chat`, `agents`, `holds`, `mailbox`, `admin`, `inbox`. Each has
//!   `routes.rs` and handlers. `translate.rs` has pure functions between the types of `holdpoint-api` and the core.
//!   `openwop` also has the courier of webhooks, which makes and sends the requests of deliveries.
//! - `grants`: the routes of grants, and the permitted effects that several protocols show
//! - `links`: tokens, rate limits and verification of signed links; their routes are in `openwop`
//! - `app`, `routes`: the router; a route with its handler, permission, types and statuses
//! - `openapi`, `reference`: the OpenAPI document, and the generated files in `docs/reference`
//! - `auth`: keys, sessions, scopes, rate limits; a type per permission
//! - `body`, `error`, `idempotency`, `streams`: request bodies, error responses, idempotency keys, event streams
//! - `instants`, `json`, `reserved`, `thread_cursor`: values and reserved names that several protocols use
//! - `remote_answerer`: the service of the operator that answers side questions
//! - `config`, `serve`, `welcome`, `demo`, `workflow_folder`: settings, start and shutdown, the first start, samples
//! - `workflows_check`: the command `holdpoint workflows check`
//! - `transport`, `response_headers`, `request_log`, `private_files`: connections, headers, the request log, file modes
//! - `telemetry`: traces and metrics over OTLP
//! - `inbox/page/`: the inbox page, as JavaScript modules without a build step

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::builder::{OsStr, Resettable};
use clap::{CommandFactory, Parser, Subcommand};
use holdpoint_cli::output::Output;
use holdpoint_cli::{Connection, workflows};
use holdpoint_engine::Options;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::config::LogFormat;

mod admin;
mod agents;
mod agui;
mod app;
mod auth;
mod body;
mod chat;
mod config;
mod demo;
mod dispatch_options;
mod error;
mod extensions;
mod grants;
mod holds;
mod idempotency;
mod inbox;
mod instants;
mod json;
mod links;
mod mailbox;
mod openapi;
mod openwop;
mod private_files;
mod reference;
mod remote_answerer;
mod request_log;
mod reserved;
mod response_headers;
mod routes;
mod serve;
mod streams;
mod telemetry;
mod thread_cursor;
mod transport;
mod welcome;
mod workflow_folder;
mod workflows_check;

pub use holdpoint_engine as engine;

/// Hold points for agents and workflows: runs wait for a person, survive crashes and continue exactly once.
#[derive(Debug, Parser)]
#[command(version, after_help = holdpoint_cli::EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

// A process has one value of this type.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Subcommand)]
enum Command {
    /// Start the server
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(config::ServeArgs),
    /// Print the OpenAPI 3.1 document of this version's HTTP API
    Openapi,
    /// Write the generated pages of the documentation into a folder
    #[command(hide = true)]
    Reference {
        #[arg(value_name = "DIR")]
        docs: std::path::PathBuf,
    },
    /// Print the version
    Version,
    #[command(flatten)]
    Client(holdpoint_cli::ClientCommand),
    /// Check, register and show workflow definitions
    #[command(after_help = workflows::EXAMPLES)]
    Workflows {
        #[command(flatten)]
        connection: Connection,
        #[command(subcommand)]
        action: WorkflowAction,
    },
    /// Benchmark a server: one that it starts itself, or the one that --server names
    #[command(after_help = holdpoint_bench::EXAMPLES, mut_arg("server", |arg| arg.help(holdpoint_bench::SERVER_HELP)))]
    Bench {
        #[command(flatten)]
        connection: Connection,
        #[command(subcommand)]
        action: holdpoint_bench::Action,
    },
}

#[derive(Debug, Subcommand)]
enum WorkflowAction {
    /// Check definitions for errors, without a server
    #[command(after_help = workflows_check::EXAMPLES)]
    Check(workflows_check::CheckArgs),
    #[command(flatten)]
    Server(workflows::Action),
}

const SERVE_EXAMPLES: &str = "Examples:
  holdpoint serve
  holdpoint serve --listen 127.0.0.1:9000 --data /var/lib/holdpoint
  holdpoint serve --listen 0.0.0.0:8484 --tls-cert cert.pem --tls-key key.pem
  holdpoint serve --config holdpoint.toml --workflows ./workflows
  HOLDPOINT_DATABASE=postgres://holdpoint:…@db/holdpoint holdpoint serve
  holdpoint serve --outgoing-allow 10.20.0.0/16 --outgoing-deny 10.20.9.0/24

Settings are taken from flags, then HOLDPOINT_… variables, then the file. HOLDPOINT_LOG sets the
log level (error, warn, info, debug, trace; default info); with --log-format json, info has a line
for each request, sign-in, decision, refusal and administrative change. After SIGTERM and Ctrl-C the
server completes open requests and stops; acknowledged changes also survive kill -9. SIGHUP reads
the TLS files again.";

/// Runs the program: parses the command line, then starts a server or calls one. Call it from the `main` of your own
/// server binary. `customize` gets the options of the engine when a server starts, or when definitions are checked
/// without one, and adds your node types to them:
///
/// ```no_run
/// use holdpoint::engine::{Context, Outputs, PureNode, Stop};
///
/// struct Shout;
///
/// impl PureNode for Shout {
///     fn run(&self, context: &mut Context) -> Result<Outputs, Stop> {
///         let text = context.inputs.get("text").and_then(|text| text.as_str()).unwrap_or_default();
///         Ok(Outputs::from_iter([("text".to_owned(), text.to_uppercase().into())]))
///     }
/// }
///
/// fn main() -> std::process::ExitCode {
///     holdpoint::main_with(|options| options.pure_node("acme.shout", Shout))
/// }
/// ```
pub fn main_with(customize: impl FnOnce(Options) -> Options) -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // Help and version are not errors.
        Err(help) if !help.use_stderr() => help.exit(),
        Err(error) => {
            // If it cannot be printed, the exit code still reports the error.
            let _ = without_variables(error).print();
            let command = std::env::args().nth(1);
            return ExitCode::from(holdpoint_cli::usage_exit_code(command.as_deref()));
        }
    };
    match arguments.command {
        Command::Serve(args) => serve(args, customize),
        Command::Openapi => {
            println!("{:#}", openapi::document());
            ExitCode::SUCCESS
        }
        Command::Reference { docs } => match reference::write(&docs, &Arguments::command()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => exit_with_error(LogFormat::Text, 1, &format!("{error:#}")),
        },
        Command::Version => {
            print!("{}", Arguments::command().render_version());
            ExitCode::SUCCESS
        }
        Command::Client(command) => holdpoint_cli::run(command),
        Command::Workflows { connection, action } => {
            let output = Output::of(&connection);
            let done = match action {
                WorkflowAction::Check(check) => workflows_check::run(&output, check, customize),
                WorkflowAction::Server(action) => workflows::run(&connection, action),
            };
            holdpoint_cli::finish(done.map(|()| ExitCode::SUCCESS), &output)
        }
        Command::Bench { connection, action } => {
            let output = Output::of(&connection);
            let done = holdpoint_bench::run(connection, action);
            holdpoint_cli::finish(done.map(|()| ExitCode::SUCCESS), &output)
        }
    }
}

/// Returns the same error as it is without `HOLDPOINT_…` variables: clap counts them as flags that the user typed, and
/// shows them in the usage line as if they were required.
fn without_variables(error: clap::Error) -> clap::Error {
    fn strip(command: clap::Command) -> clap::Command {
        command.mut_args(|arg| arg.env(Resettable::<OsStr>::Reset)).mut_subcommands(strip)
    }
    let again = strip(Arguments::command()).try_get_matches_from(std::env::args_os());
    again.err().filter(|other| other.kind() == error.kind()).unwrap_or(error)
}

fn serve(args: config::ServeArgs, customize: impl FnOnce(Options) -> Options) -> ExitCode {
    let given = args.log_format;
    // Without the name of the program: `with_file` expects the command as the first argument.
    let args = match args.with_file(std::env::args_os().skip(1)) {
        Ok(args) => args,
        Err(error) => return exit_with_error(given, 2, &format!("{error:#}")),
    };
    let format = args.log_format;
    let level = std::env::var("HOLDPOINT_LOG").unwrap_or_else(|_| "info".to_owned());
    // A single word that is not a level would be read as the name of a module, and would silence all others.
    let is_word = level.chars().all(char::is_alphanumeric);
    let is_level = is_word && level.parse::<LevelFilter>().is_ok();
    let filter = EnvFilter::try_new(directives(format, &level)).ok().filter(|_| is_level || !is_word);
    let Some(filter) = filter else {
        let wrong = format!("HOLDPOINT_LOG={level}: must be off, error, warn, info, debug or trace");
        return exit_with_error(format, 2, &wrong);
    };
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => log.with_ansi(colour).init(),
        LogFormat::Json => {
            log.json().flatten_event(true).init();
            std::panic::set_hook(Box::new(|panic| print_error(LogFormat::Json, &panic.to_string())));
        }
    }
    let config = match config::Config::load(args) {
        Ok(config) => config,
        Err(error) => return exit_with_error(format, 2, &format!("{error:#}")),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(serve::serve(config, customize)));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit_with_error(format, 1, &format!("{error:#}")),
    }
}

/// Returns the directives of the log filter. The text format has no lines for requests and administrative changes, unless
/// the operator names their targets.
fn directives(format: LogFormat, level: &str) -> String {
    let is_quiet = ["off", "error", "warn"].iter().any(|quiet| level.eq_ignore_ascii_case(quiet));
    match format {
        LogFormat::Text if !is_quiet => format!("holdpoint::request=off,holdpoint::audit=warn,{level}"),
        LogFormat::Text | LogFormat::Json => level.to_owned(),
    }
}

fn exit_with_error(format: LogFormat, code: u8, why: &str) -> ExitCode {
    print_error(format, why);
    ExitCode::from(code)
}

/// Prints an error, independent of the log level.
fn print_error(format: LogFormat, message: &str) {
    match format {
        LogFormat::Text => eprintln!("holdpoint: {message}"),
        LogFormat::Json => {
            let timestamp = jiff::Timestamp::now().to_string();
            let members = [("timestamp", timestamp.as_str()), ("level", "ERROR"), ("message", message)];
            let members = members.map(|(name, text)| (name.to_owned(), text.into()));
            let line = serde_json::Value::Object(members.into_iter().collect());
            eprintln!("{line}");
        }
    }
}
