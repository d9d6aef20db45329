//! `holdpoint links`: creates links that show or answer an interrupt.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use holdpoint_api::interrupts::InterruptQuery;
use holdpoint_api::links::{Intent, MintToken};

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, clean};
use super::values;

pub(crate) const EXAMPLES: &str = "\
A link works for every person who has it: send it to one person over a private channel.

Examples:
  holdpoint links mint latest gate
  holdpoint links mint RUN gate --for bob --expires 2h
  holdpoint links mint RUN gate --inspect
  holdpoint links mint RUN gate --json";

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Create a link to the interrupt of a node and print it
    Mint(MintArgs),
}

#[derive(Debug, Args)]
pub(crate) struct MintArgs {
    /// Id of the run, or `latest` for the newest run
    #[arg(value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
    run: String,
    /// Node of the interrupt
    #[arg(value_name = "NODE", value_parser = NonEmptyStringValueParser::new())]
    node: String,
    /// Create a link that only shows the interrupt
    #[arg(long)]
    inspect: bool,
    /// Principal in whose name the link answers [default: you]; another principal requires the scope approvals:act-as
    #[arg(long = "for", value_name = "NAME")]
    sub: Option<String>,
    /// Lifetime of the link: a number and s, m, h, d or w. The link expires with the interrupt
    /// [default: 30m]
    #[arg(long, value_name = "30m", value_parser = values::seconds)]
    expires: Option<u64>,
    /// Id of the interrupt; required if the node has several open interrupts
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    interrupt: Option<String>,
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    let Action::Mint(args) = action;
    let run = client.run_id(&args.run)?;
    let body = MintToken {
        intent: args.inspect.then_some(Intent::Inspect),
        expires_in_seconds: args.expires,
        ttl_ms: None,
        sub: args.sub,
        interrupt_id: args.interrupt,
    };
    let request = client.interrupts().create_link(&run, &args.node, &InterruptQuery::default(), &body);
    // Prints only the link, so that it can be copied and piped.
    output.show(&client.send(request)?, |minted| clean(minted.url.as_deref().unwrap_or_default()));
    Ok(())
}
