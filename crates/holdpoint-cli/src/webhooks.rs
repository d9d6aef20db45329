//! `holdpoint webhooks`: manages webhooks and their deliveries.

mod deliveries;
pub(super) mod verify;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use clap::{Args, Subcommand};
use holdpoint_api::ids::Backoff;
use holdpoint_api::webhooks::{
    CreateWebhook, RotateWebhook, WantedRetryPolicy, Webhook, WebhookCreated, WebhookEvent,
};
use holdpoint_client::Request;

use super::client::Client;
use super::failure::Failure;
use super::output::{Output, age_since, cell, clean};
use super::{Connection, open, values};

pub(crate) const EXAMPLES: &str = "\
Examples:
  holdpoint webhooks add https://example.com/hooks --events run.completed,run.failed
  holdpoint webhooks add https://example.com/hooks --events interrupt.requested --tag eu
  holdpoint webhooks list
  holdpoint webhooks rotate ID --overlap 2d
  holdpoint webhooks deliveries ID --state dead-lettered
  holdpoint webhooks replay ID DELIVERY
  holdpoint webhooks replay ID --from 2h --to 1h
  holdpoint webhooks verify --headers headers.txt --secret-file secret < body.json";

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Create a webhook and show its secret, once
    Add(AddArgs),
    /// List the webhooks, without their secrets
    List {
        /// Maximum number of entries to show
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Show one webhook and its changes of state
    Show(WebhookArg),
    /// Delete a webhook
    Remove(WebhookArg),
    /// Pause a webhook; durable deliveries stay queued
    Pause(WebhookArg),
    /// Resume a paused or failed webhook, and become its owner
    Resume(WebhookArg),
    /// Create a new secret and show it, once; during an overlap, deliveries are signed with both secrets
    Rotate(RotateArgs),
    /// List the deliveries of a webhook, newest first
    Deliveries(deliveries::ListArgs),
    /// List the dead letters of a webhook
    DeadLetters(deliveries::DeadLetterArgs),
    /// Repeat one delivery, or all deliveries with events in a time window
    Replay(deliveries::ReplayArgs),
    /// Verify the signature and the age of a delivery on standard input; needs no server
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::VerifyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct WebhookArg {
    /// Id of the webhook, as shown by `webhooks list`
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    id: String,
}

#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    #[command(flatten)]
    named: WebhookArg,
    /// Time until the old secret expires: a number and s, m, h, d or w [default: 1d]
    #[arg(long, value_name = "1d", value_parser = values::seconds)]
    overlap: Option<u64>,
    /// Invalidate the old secret immediately, for example after a leak
    #[arg(long, conflicts_with = "overlap")]
    at_once: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// https URL that receives events; not in a private network
    #[arg(value_name = "URL", value_parser = NonEmptyStringValueParser::new())]
    url: String,
    /// Types of events, separated by commas; repeatable. The refusal of an unknown type lists all types
    #[arg(long, required = true, value_name = "A,B", value_delimiter = ',')]
    events: Vec<String>,
    /// Only runs with this tag; repeatable
    #[arg(long = "tag", value_name = "TAG")]
    tags: Option<Vec<String>>,
    /// Attempt each delivery once; drop it if the receiver does not accept it
    #[arg(long, conflicts_with_all = ["durable", "unordered", "max_attempts", "backoff"])]
    best_effort: bool,
    /// Retry each delivery until the receiver accepts it or no attempt is left (default)
    #[arg(long)]
    durable: bool,
    /// Deliver events of a run without waiting for earlier ones
    #[arg(long)]
    unordered: bool,
    /// Maximum attempts of a durable delivery [default: 10]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// Growth of the delay between attempts [default: exponential]
    #[arg(long, value_name = "HOW", value_parser = PossibleValuesParser::new(Backoff::ALL.map(Backoff::as_str)))]
    backoff: Option<String>,
}

pub(crate) fn run(connection: &Connection, action: Action) -> Result<(), Failure> {
    let output = &Output::of(connection);
    match action {
        // Needs no server and no key.
        Action::Verify(args) => verify::run(output, &args),
        action => perform(&open(connection)?, output, action),
    }
}

fn perform(client: &Client, output: &Output, action: Action) -> Result<(), Failure> {
    match action {
        Action::Add(args) => {
            let reply = client.send(client.webhooks().create(&request(args)))?;
            output.show(&reply, |created| describe_new(output, created));
        }
        Action::List { limit } => {
            let reply = client.collect(client.webhooks().list(), limit)?;
            output.show(&reply, |page| list(output, &page.webhooks));
            output.more(&reply, limit);
        }
        Action::Show(WebhookArg { id }) => {
            let reply = client.send(client.webhooks().get(&id))?;
            let log = match output.json {
                true => Vec::new(),
                false => {
                    client.collect(client.webhooks().list_events(&id, &Default::default()), 200)?.value.events
                }
            };
            output.show(&reply, |webhook| show(output, webhook, &log));
        }
        Action::Remove(WebhookArg { id }) => {
            output.show(&client.send(client.webhooks().delete(&id))?, |()| format!("removed {}", clean(&id)));
        }
        Action::Pause(WebhookArg { id }) => change_state(client, output, client.webhooks().pause(&id))?,
        Action::Resume(WebhookArg { id }) => change_state(client, output, client.webhooks().resume(&id))?,
        Action::Rotate(RotateArgs { named, overlap, at_once }) => {
            let body = RotateWebhook { overlap_seconds: if at_once { Some(0) } else { overlap } };
            let reply = client.send(client.webhooks().rotate(&named.id, &body))?;
            output.show(&reply, |created| describe_rotated(output, created));
        }
        Action::Deliveries(args) => deliveries::list(client, output, args)?,
        Action::DeadLetters(args) => deliveries::dead_letters(client, output, &args)?,
        Action::Replay(args) => deliveries::replay(client, output, args)?,
        Action::Verify(args) => verify::run(output, &args)?,
    }
    Ok(())
}

fn change_state(client: &Client, output: &Output, request: Request<Webhook>) -> Result<(), Failure> {
    output.show(&client.send(request)?, |webhook| {
        format!("{} is {}", clean(&webhook.webhook_id), output.status(webhook.state.as_str()))
    });
    Ok(())
}

/// Returns the body. It has only the members that the flags set, because the server has the defaults.
fn request(args: AddArgs) -> CreateWebhook {
    let policy = WantedRetryPolicy {
        max_attempts: args.max_attempts,
        backoff: args.backoff,
        base_ms: None,
        max_ms: None,
    };
    CreateWebhook {
        url: Some(args.url),
        events: Some(args.events),
        tags: args.tags,
        durable: (args.durable || args.best_effort).then_some(args.durable),
        ordered: args.unordered.then_some(false),
        retry_policy: Some(policy).filter(|policy| *policy != WantedRetryPolicy::default()),
        ..CreateWebhook::default()
    }
}

fn describe_new(output: &Output, created: &WebhookCreated) -> String {
    let WebhookCreated { webhook, secret, .. } = created;
    let fields = [
        ("secret", cell(secret)),
        ("webhookId", cell(&webhook.webhook_id)),
        ("secretFingerprint", cell(&webhook.secret_fingerprint)),
        ("url", cell(&webhook.url)),
        ("events", cell(&webhook.events)),
        ("tags", cell(&webhook.tags)),
        ("mode", cell(webhook.mode)),
        ("signatureAlgorithm", cell(&webhook.signature_algorithm)),
    ];
    format!(
        "{}\n\nStore the secret now: receivers verify deliveries with it, and the server cannot show it again.",
        output.fields(&fields)
    )
}

fn describe_rotated(output: &Output, created: &WebhookCreated) -> String {
    let WebhookCreated { webhook, secret, .. } = created;
    let mut fields = vec![
        ("secret", cell(secret)),
        ("webhookId", cell(&webhook.webhook_id)),
        ("secretFingerprint", cell(&webhook.secret_fingerprint)),
    ];
    fields.extend(old_secret(webhook));
    format!("{}\n\nStore the secret now: the server cannot show it again.", output.fields(&fields))
}

fn old_secret(webhook: &Webhook) -> [(&'static str, String); 2] {
    let old = webhook.old_secret.as_ref();
    [
        ("old secret", cell(old.map(|old| &old.fingerprint))),
        ("valid until", cell(old.map(|old| old.valid_until))),
    ]
}

fn list(output: &Output, webhooks: &[Webhook]) -> String {
    let row = |webhook: &Webhook| {
        vec![
            cell(&webhook.webhook_id),
            cell(webhook.state),
            cell(webhook.reason),
            cell(webhook.mode),
            cell(webhook.circuit),
            cell(webhook.owner.as_ref().map(|owner| &owner.principal)),
            age_since(webhook.created_at),
            cell(&webhook.secret_fingerprint),
            output.fit(&clean(&webhook.url), 60),
            cell(&webhook.events),
        ]
    };
    let titles =
        ["WEBHOOK", "STATUS", "REASON", "MODE", "CIRCUIT", "OWNER", "AGE", "SECRET", "URL", "EVENTS"];
    output.table(&titles, &webhooks.iter().map(row).collect::<Vec<_>>(), "no webhooks")
}

fn show(output: &Output, webhook: &Webhook, log: &[WebhookEvent]) -> String {
    let policy = &webhook.retry_policy;
    let retries =
        webhook.durable.then(|| format!("{} attempts, {}", policy.max_attempts, policy.backoff.as_str()));
    let owner = webhook.owner.as_ref();
    let mut fields = vec![
        ("webhook", cell(&webhook.webhook_id)),
        ("url", cell(&webhook.url)),
        ("status", cell(webhook.state)),
        ("reason", cell(webhook.reason)),
        ("owner", cell(owner.map(|owner| &owner.principal))),
        ("owner key", cell(owner.map(|owner| &owner.key_id))),
        ("mode", cell(webhook.mode)),
        ("retries", retries.unwrap_or_default()),
        ("circuit", cell(webhook.circuit)),
        ("open until", cell(webhook.circuit_open_until)),
        ("failures", format!("{} consecutive", webhook.failures_in_a_row)),
        ("events", cell(&webhook.events)),
        ("tags", cell(&webhook.tags)),
        ("secret", format!("{} (fingerprint)", clean(&webhook.secret_fingerprint))),
    ];
    fields.extend(old_secret(webhook));
    fields.push(("created", webhook.created_at.to_string()));
    let row = |event: &WebhookEvent| {
        let change = &event.payload;
        vec![cell(event.timestamp), cell(change.from_state), cell(change.to_state), cell(change.reason)]
    };
    let rows: Vec<_> = log.iter().map(row).collect();
    let table = output.table(&["AT", "FROM", "TO", "REASON"], &rows, "");
    format!("{}\n\n{table}", output.fields(&fields)).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct TestCommand {
        #[command(flatten)]
        add: AddArgs,
    }

    #[test]
    fn the_body_has_only_the_members_that_the_flags_set() {
        let read = |args: &[&str]| {
            let line = TestCommand::try_parse_from(["add", "https://a.example"].iter().chain(args));
            line.ok().map(|line| request(line.add))
        };
        let body = |events: &[&str]| CreateWebhook {
            url: Some("https://a.example".into()),
            events: Some(events.iter().map(|&event| event.into()).collect()),
            ..CreateWebhook::default()
        };
        let plain = body(&["run.completed", "run.failed"]);
        assert_eq!(read(&["--events", "run.completed,run.failed"]), Some(plain.clone()));
        assert_eq!(read(&["--events", "run.completed", "--events", "run.failed"]), Some(plain));
        let policy = WantedRetryPolicy {
            max_attempts: Some(3),
            backoff: Some("fixed".into()),
            ..WantedRetryPolicy::default()
        };
        let full = CreateWebhook {
            tags: Some(vec!["eu".into()]),
            durable: Some(true),
            ordered: Some(false),
            retry_policy: Some(policy),
            ..body(&["run.completed"])
        };
        let flags = ["--events", "run.completed", "--tag", "eu", "--durable", "--unordered"];
        let more = ["--max-attempts", "3", "--backoff", "fixed"];
        assert_eq!(read(&[&flags[..], &more[..]].concat()), Some(full));
        assert_eq!(read(&[]), None);
        let one = CreateWebhook { durable: Some(false), ..body(&["run.completed"]) };
        assert_eq!(read(&["--events", "run.completed", "--best-effort"]), Some(one));
        let refused = ["--events", "run.completed", "--best-effort", "--max-attempts", "3"];
        assert_eq!(read(&refused), None, "best effort has no retries");
    }
}
