//! Opens connections to PostgreSQL and looks a server over before we rely on it.

use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Notification, SimpleQueryMessage, Socket};

use super::address::Settings;
use super::{tls, trouble};
use crate::store::Error;

const VERSION_MIN: u32 = 15;

/// A transaction that we left open is ended by the server, so that its locks do not outlive a stuck node: soon enough for
/// others, whose batches and renewals of leases wait behind such a lock, to keep what they hold.
const IDLE_IN_TRANSACTION: Duration = Duration::from_millis(1500);

/// Connects and prepares the session. Notifications go to `notifications`; its receiver ends when the connection
/// does. They are hints: where nobody takes them they are dropped.
pub(crate) async fn connect(
    settings: &Settings,
    notifications: Option<mpsc::Sender<Notification>>,
) -> Result<Client, Error> {
    let connecting = open(settings, notifications);
    let Some(limit) = settings.config.get_connect_timeout() else { return connecting.await };
    // The driver's limit is for the socket of each host alone. This one also covers a server that takes the
    // connection and then says nothing.
    let hosts = settings.config.get_hosts().len().max(settings.config.get_hostaddrs().len());
    let limit = *limit * u32::try_from(hosts + 1).unwrap_or(u32::MAX);
    tokio::time::timeout(limit, connecting).await.unwrap_or_else(|_| Err(trouble::timed_out(settings)))
}

async fn open(
    settings: &Settings,
    notifications: Option<mpsc::Sender<Notification>>,
) -> Result<Client, Error> {
    let tls = connector(settings).await?;
    let mut attempt = settings.config.connect(tls.clone()).await;
    if let Err(error) = &attempt
        && worth_trying_plain(error, &settings.config, &tls)
    {
        tracing::warn!(
            "PostgreSQL is asked again without TLS, as sslmode=prefer says: {}",
            trouble::told(error)
        );
        let mut plain = settings.config.clone();
        plain.ssl_mode(SslMode::Disable);
        let second = plain.connect(tls.clone()).await;
        // A server that lets nobody in without TLS says nothing new; any other answer is nearer to the trouble.
        if !second.as_ref().is_err_and(not_let_in) {
            attempt = second;
        }
    }
    let (client, connection) = attempt.map_err(|error| trouble::connecting(&error, settings, tls.begun()))?;
    tokio::spawn(drive(connection, notifications));
    if !settings.pooled {
        let prepared = client.batch_execute(&session(settings)).await;
        prepared.map_err(|error| trouble::connecting(&error, settings, true))?;
    }
    Ok(client)
}

/// Reads certificates from files, which must not hold up other work.
async fn connector(settings: &Settings) -> Result<tls::Connector, Error> {
    let tls = settings.tls.clone();
    let made = tokio::task::spawn_blocking(move || tls::Connector::new(&tls)).await;
    made.map_err(|error| Error::Failed(error.to_string()))?.map_err(Error::Address)
}

/// `prefer` means: with TLS if that works, otherwise without. It may fail in the handshake, or because the server
/// lets this user in without TLS only.
fn worth_trying_plain(error: &tokio_postgres::Error, config: &Config, tls: &tls::Connector) -> bool {
    let worth_it = not_let_in(error) || trouble::in_handshake(error);
    config.get_ssl_mode() == SslMode::Prefer && tls.begun() && worth_it
}

fn not_let_in(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION)
}

/// Moves the bytes of one connection until its client is dropped or the server goes away. The client notices the
/// latter by itself, so here it is only noted.
async fn drive(
    mut connection: Connection<Socket, tls::Stream>,
    notifications: Option<mpsc::Sender<Notification>>,
) {
    while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
        match message {
            Ok(AsyncMessage::Notification(notification)) => {
                // A full channel holds hints enough.
                let _ = notifications.as_ref().map(|channel| channel.try_send(notification));
            }
            Ok(AsyncMessage::Notice(notice)) => tracing::debug!("PostgreSQL says: {notice}"),
            Ok(_) => {}
            Err(error) => {
                tracing::debug!("a connection to PostgreSQL has ended: {}", trouble::told(&error));
                return;
            }
        }
    }
}

/// The settings of our sessions, in one text. Our statements look up keys: a plan that was made while a table was
/// empty, and is kept, must not turn out to be a scan later. Nor may it gather what an index would give in order and
/// sort that, however few rows there seemed to be. How safely a commit is stored stays as the server has
/// it. The limit for locks is the shorter one, or the other would always come first and hide the reason.
fn session(settings: &Settings) -> String {
    let statement_ms = settings.statement_timeout.as_millis();
    let lock_ms = (statement_ms / 2).max(1);
    let idle_ms = IDLE_IN_TRANSACTION.as_millis();
    let mut text = format!(
        "SET statement_timeout = {statement_ms}; SET lock_timeout = {lock_ms}; \
         SET idle_in_transaction_session_timeout = {idle_ms}; SET jit = off; SET enable_seqscan = off; \
         SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
         SET plan_cache_mode = force_generic_plan"
    );
    if let Some(schema) = &settings.schema {
        text.push_str(&format!("; SET search_path TO \"{schema}\""));
    }
    text
}

/// The same for one transaction, where a session is not ours to set.
pub(crate) fn local_session(settings: &Settings) -> String {
    session(settings).replace("SET ", "SET LOCAL ")
}

/// Everything about a server that decides whether it can be used.
const ABOUT_SERVER: &str = "SELECT current_setting('server_version_num'), current_setting('server_version'), \
     current_setting('server_encoding'), current_setting('transaction_read_only'), current_schema()";

/// Room for connections, without what the server keeps for its administrators, and how many are in use.
const ABOUT_CONNECTIONS: &str = "SELECT current_setting('max_connections')::bigint \
     - current_setting('superuser_reserved_connections')::bigint \
     - coalesce(current_setting('reserved_connections', true), '0')::bigint, \
     (SELECT coalesce(sum(numbackends), 0)::bigint FROM pg_stat_database)";

/// Whether this server can be used: asked once, on the first connection, before anything is written.
pub(crate) async fn check(client: &Client, settings: &Settings) -> Result<(), Error> {
    let about = ask(client, ABOUT_SERVER, settings).await?;
    let text = |at: usize| about.get(at).and_then(Option::as_deref).unwrap_or_default();
    let version: u32 = text(0).parse().unwrap_or_default();
    if version < VERSION_MIN * 10_000 {
        let found = text(1);
        let message = format!("it is version {found}, and {VERSION_MIN} is the oldest that can be used");
        return Err(trouble::needs_change(settings, message));
    }
    if text(2) != "UTF8" {
        let found = text(2);
        let message = format!(
            "the database has the encoding {found}, but must have UTF8; make a new one: createdb --encoding=UTF8 \
             --template=template0 …"
        );
        return Err(trouble::needs_change(settings, message));
    }
    if text(3) == "on" {
        return Err(trouble::needs_change(settings, trouble::READ_ONLY));
    }
    if text(4).is_empty() {
        let message = match &settings.schema {
            Some(schema) => {
                format!("the schema {schema} does not exist; make it: CREATE SCHEMA \"{schema}\"")
            }
            None => "no schema of the search_path exists; make one, or name one with `schema=`".to_owned(),
        };
        return Err(trouble::needs_change(settings, message));
    }
    // A pooler has its own idea of how many connections there are.
    if settings.pooled { Ok(()) } else { check_room(client, settings).await }
}

async fn check_room(client: &Client, settings: &Settings) -> Result<(), Error> {
    let about = ask(client, ABOUT_CONNECTIONS, settings).await?;
    let number = |at: usize| about.get(at).and_then(Option::as_deref).and_then(|text| text.parse().ok());
    let (Some(room), Some(used)): (Option<usize>, Option<usize>) = (number(0), number(1)) else {
        return Err(Error::Failed("PostgreSQL does not say how many connections it allows".to_owned()));
    };
    let wanted = settings.connections;
    if room < wanted {
        let message = format!(
            "this node wants {wanted} connections, but max_connections leaves {room} in all; raise it, or lower \
             `connections=` in the address"
        );
        return Err(trouble::needs_change(settings, message));
    }
    // The connection we ask through is one of ours.
    let others = used.saturating_sub(1);
    if room < others + wanted {
        tracing::warn!(
            "PostgreSQL at {} allows {room} connections, {others} are in use by others, and this node may want \
             {wanted}; raise max_connections, or lower `connections=` in the address",
            settings.place()
        );
    }
    Ok(())
}

/// The first row of an answer, as text. Asked in the way that leaves nothing prepared behind.
async fn ask(client: &Client, sql: &str, settings: &Settings) -> Result<Vec<Option<String>>, Error> {
    let answer = client.simple_query(sql).await;
    let answer = answer.map_err(|error| trouble::connecting(&error, settings, true))?;
    let row = answer.into_iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let Some(row) = row else { return Err(Error::Failed("PostgreSQL answered with no row".to_owned())) };
    Ok((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect())
}
