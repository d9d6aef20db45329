//! `holdpoint links`: links that others can answer with.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::client::{Client, encode};
use super::failure::Failure;
use super::output::{Output, clean};
use super::{runs, values};

pub(crate) const EXAMPLES: &str = "\
Whoever has a link can use it: send it to one person, over a way that others do not read.

Examples:
  holdpoint links mint latest gate
  holdpoint links mint RUN gate --for bob --expires 2h
  holdpoint links mint RUN gate --inspect
  holdpoint links mint RUN gate --json";

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Make a link to what a node asks, and print it
    Mint(Mint),
}

#[derive(Debug, Args)]
pub(crate) struct Mint {
    /// The run, or `latest` for the newest
    #[arg(value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
    run: String,
    /// The node that waits
    #[arg(value_name = "NODE", value_parser = NonEmptyStringValueParser::new())]
    node: String,
    /// A link for looking only
    #[arg(long)]
    inspect: bool,
    /// In whose name the link answers; another name than one's own needs the scope approvals:act-as
    #[arg(long = "for", value_name = "NAME")]
    sub: Option<String>,
    /// How long the link is good for: a number and s, m, h, d or w. Never longer than the question
    /// [default: 30m]
    #[arg(long, value_name = "30m", value_parser = values::seconds)]
    expires: Option<u64>,
    /// The interrupt that the link is for. Required if the node has several open interrupts
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    interrupt: Option<String>,
}

pub(crate) fn run(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    let Action::Mint(mint) = action;
    let run = client.run_id(&mint.run)?;
    let path = format!("{}/interrupts/{}/tokens", runs::path(&run), encode(&mint.node));
    let reply = client.post(&path, &request(mint))?;
    // Nothing but the link, so that it can be copied and piped.
    output.show(&reply, |minted| clean(minted["url"].as_str().unwrap_or_default()));
    Ok(())
}

/// Only what was said: the server knows the defaults.
fn request(mint: Mint) -> Value {
    let mut body = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        body.extend(value.map(|value| (name.to_string(), value)));
    };
    put("intent", mint.inspect.then(|| json!("inspect")));
    put("for", mint.sub.map(Value::String));
    put("expiresInSeconds", mint.expires.map(|seconds| json!(seconds)));
    put("interruptId", mint.interrupt.map(Value::String));
    Value::Object(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        mint: Mint,
    }

    #[test]
    fn the_request_holds_only_what_was_said() {
        let read = |args: &[&str]| {
            let line = Line::try_parse_from(["mint", "run", "node"].iter().chain(args));
            line.ok().map(|line| request(line.mint))
        };
        assert_eq!(read(&[]), Some(json!({})));
        let full = json!({"intent": "inspect", "for": "bob", "expiresInSeconds": 7200});
        assert_eq!(read(&["--inspect", "--for", "bob", "--expires", "2h"]), Some(full));
        assert_eq!(read(&["--interrupt", "r:i2"]), Some(json!({"interruptId": "r:i2"})));
        assert_eq!(read(&["--expires", "soon"]), None);
    }
}
