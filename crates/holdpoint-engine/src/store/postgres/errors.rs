//! Error messages for connections: what is wrong and what to do. Errors of PostgreSQL are distinguished by their
//! code, never by their text, which the server may translate.

use std::error::Error as _;
use std::io;

use tokio_postgres::error::{DbError, SqlState};
use tokio_rustls::rustls::{self, CertificateError};

use super::address::PostgresSettings;
use super::tls::{self, TlsOffer};
use crate::store::Error;

#[cfg(test)]
mod tests;

/// Returns the error of a statement on an open connection.
pub(crate) fn statement_error(error: &tokio_postgres::Error) -> Error {
    if let Some(db_error) = error.as_db_error() {
        let text = db_error.message();
        return match db_error.code() {
            code if is_transient(code) => Error::Unavailable(format!("PostgreSQL is not available: {text}")),
            &SqlState::T_R_DEADLOCK_DETECTED
            | &SqlState::T_R_SERIALIZATION_FAILURE
            | &SqlState::LOCK_NOT_AVAILABLE
            // Another transaction has inserted the row meanwhile; a retry sees it.
            | &SqlState::UNIQUE_VIOLATION => Error::Busy,
            code => Error::Failed(format!("{text} (code {})", code.code())),
        };
    }
    match io_cause(error) {
        // The connection works, but the value cannot be sent.
        Some(cause) if cause.kind() == io::ErrorKind::InvalidInput => Error::Failed(with_cause(error)),
        Some(_) => lost(error),
        None if error.is_closed() => lost(error),
        None => Error::Failed(with_cause(error)),
    }
}

fn lost(error: &tokio_postgres::Error) -> Error {
    Error::Unavailable(format!("the connection to PostgreSQL is lost: {}", with_cause(error)))
}

/// Returns true for codes after which a retry may succeed, on another connection or a little later. A server that
/// became read-only is no longer the primary; a new connection may find the new one.
fn is_transient(code: &SqlState) -> bool {
    let transient = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::IDLE_SESSION_TIMEOUT,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::TOO_MANY_CONNECTIONS,
    ];
    transient.contains(code) || code.code().starts_with("08")
}

/// Returns the error of a connection attempt, or of the first statements on a new connection.
pub(crate) fn connection_error(
    error: &tokio_postgres::Error,
    settings: &PostgresSettings,
    tls: TlsOffer,
) -> Error {
    if let Some(db_error) = error.as_db_error() {
        return rejection(db_error, settings);
    }
    if let Some(cause) = io_cause(error) {
        return match tls::cause(cause) {
            Some(cause) => needs_change(settings, handshake(cause)),
            None => unreachable(cause, settings),
        };
    }
    if error.is_closed() {
        let place = settings.place();
        return Error::Unavailable(format!(
            "PostgreSQL at {place} closed the connection at once; check that the address is that of PostgreSQL"
        ));
    }
    if settings.config.get_ssl_mode() == tokio_postgres::config::SslMode::Require && tls == TlsOffer::Declined
    {
        return needs_change(
            settings,
            "the server offers no TLS, but the address requires it; turn on `ssl` in postgresql.conf, or use \
             sslmode=disable in a private network",
        );
    }
    let hint = match settings.config.get_password() {
        None => "; the address has no password: postgres://user:password@host/database",
        Some(_) => "",
    };
    let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    needs_change(settings, format!("cannot sign in: {why}{hint}"))
}

/// Returns the error for a response of the server that rejects the connection.
fn rejection(db_error: &DbError, settings: &PostgresSettings) -> Error {
    let (place, text) = (settings.place(), db_error.message());
    let message = match db_error.code() {
        &SqlState::INVALID_PASSWORD => {
            format!("{text}; check the user and the password in the address (a `@`, `/` or `?` is %-encoded)")
        }
        &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => format!(
            "{text}; check that the user exists, and that pg_hba.conf accepts it from this machine, with or \
             without TLS according to `sslmode`"
        ),
        &SqlState::INVALID_CATALOG_NAME => match settings.database() {
            Some(database) => format!("database {database} does not exist; create it: createdb {database}"),
            None => format!("{text}; name the database in the address: postgres://user@host/database"),
        },
        &SqlState::INSUFFICIENT_PRIVILEGE => {
            format!("{text}; grant the right to the user: GRANT CONNECT ON DATABASE … TO …")
        }
        &SqlState::TOO_MANY_CONNECTIONS => {
            let wanted = settings.connections;
            return Error::Unavailable(format!(
                "PostgreSQL at {place}: {text}; this process needs {wanted} connections; raise max_connections, or \
                 lower `connections=` in the address of every process"
            ));
        }
        &SqlState::CANNOT_CONNECT_NOW => {
            return Error::Unavailable(format!("PostgreSQL at {place} is starting or stopping: {text}"));
        }
        &SqlState::READ_ONLY_SQL_TRANSACTION => READ_ONLY.to_owned(),
        code if is_transient(code) => {
            return Error::Unavailable(format!("PostgreSQL at {place}: {text}"));
        }
        code => format!("{text} (code {})", code.code()),
    };
    needs_change(settings, message)
}

pub(crate) const READ_ONLY: &str = "the server is read-only; if it is a standby, use the address of the primary, or name \
     all servers and add target_session_attrs=read-write; otherwise turn off default_transaction_read_only";

pub(crate) const NO_TABLES: &str = "tables are missing, and the user has no right to create them; grant the right: \
     GRANT CREATE, USAGE ON SCHEMA … TO …";

/// Returns an error that the operator must fix in the configuration of PostgreSQL or in the address.
pub(crate) fn needs_change(settings: &PostgresSettings, message: impl Into<String>) -> Error {
    Error::Connect { place: settings.place(), message: message.into() }
}

/// Returns the error for an address at which no PostgreSQL server responds.
fn unreachable(cause: &io::Error, settings: &PostgresSettings) -> Error {
    // The driver reports a server that does not match `target_session_attrs` in this way.
    let attributes = settings.config.get_target_session_attrs();
    let any = attributes == tokio_postgres::config::TargetSessionAttrs::Any;
    if cause.kind() == io::ErrorKind::PermissionDenied && !any {
        let place = settings.place();
        return Error::Unavailable(format!("no server of {place} matches target_session_attrs: {cause}"));
    }
    Error::Unavailable(format!(
        "cannot reach PostgreSQL at {}: {cause}; check that it runs and that the address is right",
        settings.place()
    ))
}

pub(crate) fn timed_out(settings: &PostgresSettings) -> Error {
    unreachable(&io::Error::new(io::ErrorKind::TimedOut, "the server did not answer in time"), settings)
}

fn handshake(cause: &rustls::Error) -> String {
    let rustls::Error::InvalidCertificate(certificate) = cause else {
        return format!("TLS failed: {cause}");
    };
    match certificate {
        CertificateError::UnknownIssuer => {
            "the certificate of the server is not signed by a trusted authority; set \
             `sslrootcert` to the right one"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
            "the certificate of the server is for another host ({cause}); use a host of its subject alternative \
             names, or sslmode=verify-ca to trust the authority alone"
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("the certificate of the server has expired ({cause}); renew it")
        }
        _ => format!(
            "the certificate of the server is invalid: {cause}; it must be an X.509 version 3 certificate for a \
             server, and not that of an authority"
        ),
    }
}

/// Returns true if the TLS handshake failed.
pub(super) fn in_handshake(error: &tokio_postgres::Error) -> bool {
    io_cause(error).and_then(tls::cause).is_some()
}

fn io_cause(error: &tokio_postgres::Error) -> Option<&io::Error> {
    error.source()?.downcast_ref()
}

/// Returns an error and its cause in one line.
pub(super) fn with_cause(error: &tokio_postgres::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
