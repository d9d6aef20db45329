//! Opens connections to PostgreSQL and checks that a server can be used.

use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, Notification, SimpleQueryMessage, SimpleQueryRow, Socket,
};

use super::address::PostgresSettings;
use super::errors;
use super::tls::{self, TlsOffer};
use crate::store::Error;

const VERSION_MIN: u32 = 15;

/// The time after which the server ends an idle transaction, so that a process that hangs does not keep its locks.
/// Short enough that other processes, whose batches and lease renewals wait for such a lock, keep their leases.
const IDLE_IN_TRANSACTION: Duration = Duration::from_millis(1500);

/// Connects and configures the session. Notifications go to `notifications`, whose receiver ends with the connection.
/// Notifications that are not received in time are dropped.
pub(crate) async fn connect(
    settings: &PostgresSettings,
    notifications: Option<mpsc::Sender<Notification>>,
) -> Result<Client, Error> {
    let connecting = open(settings, notifications);
    let Some(limit) = settings.config.get_connect_timeout() else { return connecting.await };
    // The timeout of the driver covers only the socket of each host. This one also covers a server that accepts the
    // connection and does not respond.
    let hosts = settings.config.get_hosts().len().max(settings.config.get_hostaddrs().len());
    let limit = *limit * u32::try_from(hosts + 1).unwrap_or(u32::MAX);
    tokio::time::timeout(limit, connecting).await.unwrap_or_else(|_| Err(errors::timed_out(settings)))
}

async fn open(
    settings: &PostgresSettings,
    notifications: Option<mpsc::Sender<Notification>>,
) -> Result<Client, Error> {
    let tls = connector(settings).await?;
    let mut attempt = settings.config.connect(tls.clone()).await;
    if let Err(error) = &attempt
        && worth_trying_plain(error, &settings.config, &tls)
    {
        tracing::warn!(
            "connecting to PostgreSQL again without TLS, because of sslmode=prefer: {}",
            errors::with_cause(error)
        );
        let mut plain = settings.config.clone();
        plain.ssl_mode(SslMode::Disable);
        let second = plain.connect(tls.clone()).await;
        // A server that requires TLS gives no new information; any other result is closer to the cause.
        if !second.as_ref().is_err_and(is_rejected_user) {
            attempt = second;
        }
    }
    let (client, connection) =
        attempt.map_err(|error| errors::connection_error(&error, settings, tls.offer()))?;
    tokio::spawn(drive(connection, notifications));
    if !settings.pooled {
        let prepared = client.batch_execute(&session(settings)).await;
        prepared.map_err(|error| errors::connection_error(&error, settings, TlsOffer::Accepted))?;
    }
    Ok(client)
}

/// Reads certificates from files, on a thread that may block.
async fn connector(settings: &PostgresSettings) -> Result<tls::Connector, Error> {
    let tls = settings.tls.clone();
    let made = tokio::task::spawn_blocking(move || tls::Connector::new(&tls)).await;
    made.map_err(|error| Error::Failed(error.to_string()))?.map_err(Error::Address)
}

/// Returns true if a connection without TLS should be tried. `prefer` means TLS if it works: it can fail in the
/// handshake, or because the server accepts this user only without TLS.
fn worth_trying_plain(error: &tokio_postgres::Error, config: &Config, tls: &tls::Connector) -> bool {
    let worth_it = is_rejected_user(error) || errors::in_handshake(error);
    config.get_ssl_mode() == SslMode::Prefer && tls.offer() == TlsOffer::Accepted && worth_it
}

fn is_rejected_user(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION)
}

/// Drives one connection until its client is dropped or the connection is lost. The client notices the loss itself, so
/// that it is only logged here.
async fn drive(
    mut connection: Connection<Socket, tls::Stream>,
    notifications: Option<mpsc::Sender<Notification>>,
) {
    while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
        match message {
            Ok(AsyncMessage::Notification(notification)) => {
                // If the channel is full, the notification is dropped: it is only a hint.
                let _ = notifications.as_ref().map(|channel| channel.try_send(notification));
            }
            Ok(AsyncMessage::Notice(notice)) => tracing::debug!("notice of PostgreSQL: {notice}"),
            Ok(_) => {}
            Err(error) => {
                tracing::debug!("a connection to PostgreSQL has ended: {}", errors::with_cause(&error));
                return;
            }
        }
    }
}

/// Returns the SQL that configures a session. All statements look up keys: a generic plan that was made for an empty
/// table must not be a sequential scan later, and must not sort rows that an index returns in order.
/// `synchronous_commit` stays as the server has it. The lock timeout is shorter than the statement timeout, which
/// would otherwise hide the reason.
fn session(settings: &PostgresSettings) -> String {
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

/// Returns the same settings for one transaction, for use behind a transaction pooler.
pub(crate) fn local_session(settings: &PostgresSettings) -> String {
    session(settings).replace("SET ", "SET LOCAL ")
}

/// Selects the properties of a server that decide whether it can be used.
const ABOUT_SERVER: &str = "SELECT current_setting('server_version_num') AS version_number, \
     current_setting('server_version') AS version, current_setting('server_encoding') AS encoding, \
     current_setting('transaction_read_only') AS read_only, current_schema() AS schema";

/// Selects the limit of connections, without those reserved for administrators, and the number in use.
const ABOUT_CONNECTIONS: &str = "SELECT current_setting('max_connections')::bigint \
     - current_setting('superuser_reserved_connections')::bigint \
     - coalesce(current_setting('reserved_connections', true), '0')::bigint AS room, \
     (SELECT coalesce(sum(numbackends), 0)::bigint FROM pg_stat_database) AS used";

/// Checks whether the server can be used. Called once, on the first connection, before any write.
pub(crate) async fn check(client: &Client, settings: &PostgresSettings) -> Result<(), Error> {
    let about = query_row(client, ABOUT_SERVER, settings).await?;
    let text = |column: &str| about.try_get(column).ok().flatten().unwrap_or_default();
    let version: u32 = text("version_number").parse().unwrap_or_default();
    if version < VERSION_MIN * 10_000 {
        let found = text("version");
        let message = format!("version {found} is too old; version {VERSION_MIN} or newer is required");
        return Err(errors::needs_change(settings, message));
    }
    if text("encoding") != "UTF8" {
        let found = text("encoding");
        let message = format!(
            "the encoding of the database is {found}, but must be UTF8; create a new one: createdb --encoding=UTF8 \
             --template=template0 …"
        );
        return Err(errors::needs_change(settings, message));
    }
    if text("read_only") == "on" {
        return Err(errors::needs_change(settings, errors::READ_ONLY));
    }
    if text("schema").is_empty() {
        let message = match &settings.schema {
            Some(schema) => {
                format!("the schema {schema} does not exist; create it: CREATE SCHEMA \"{schema}\"")
            }
            None => {
                "no schema of the search_path exists; create one, or set `schema=` in the address".to_owned()
            }
        };
        return Err(errors::needs_change(settings, message));
    }
    // A pooler has limits of its own.
    if settings.pooled { Ok(()) } else { check_room(client, settings).await }
}

async fn check_room(client: &Client, settings: &PostgresSettings) -> Result<(), Error> {
    let about = query_row(client, ABOUT_CONNECTIONS, settings).await?;
    let number = |column: &str| about.try_get(column).ok().flatten()?.parse::<usize>().ok();
    let (Some(room), Some(used)) = (number("room"), number("used")) else {
        return Err(Error::Failed("PostgreSQL did not report its limit of connections".to_owned()));
    };
    let wanted = settings.connections;
    if room < wanted {
        let message = format!(
            "this process needs {wanted} connections, but max_connections leaves {room} in all; raise it, or lower \
             `connections=` in the address"
        );
        return Err(errors::needs_change(settings, message));
    }
    // This connection is one of those in use.
    let others = used.saturating_sub(1);
    if room < others + wanted {
        tracing::warn!(
            "PostgreSQL at {} allows {room} connections, {others} are in use by others, and this process may need \
             {wanted}; raise max_connections, or lower `connections=` in the address",
            settings.place()
        );
    }
    Ok(())
}

/// Returns the first row of a query. Uses the simple protocol, which prepares no statement.
async fn query_row(client: &Client, sql: &str, settings: &PostgresSettings) -> Result<SimpleQueryRow, Error> {
    let answer = client.simple_query(sql).await;
    let answer = answer.map_err(|error| errors::connection_error(&error, settings, TlsOffer::Accepted))?;
    let row = answer.into_iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    row.ok_or_else(|| Error::Failed("PostgreSQL returned no row".to_owned()))
}
