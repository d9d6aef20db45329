//! Says what is wrong with the connection and what to do about it. PostgreSQL's errors are told apart by their code,
//! never by their text, which the server may translate.

use std::error::Error as _;
use std::io;

use tokio_postgres::error::{DbError, SqlState};
use tokio_rustls::rustls::{self, CertificateError};

use super::address::Settings;
use super::tls;
use crate::store::Error;

#[cfg(test)]
mod tests;

/// Trouble with a statement while we run.
pub(crate) fn running(error: &tokio_postgres::Error) -> Error {
    if let Some(refusal) = error.as_db_error() {
        let said = refusal.message();
        return match refusal.code() {
            code if is_transient(code) => Error::Unavailable(format!("PostgreSQL is not available: {said}")),
            &SqlState::T_R_DEADLOCK_DETECTED
            | &SqlState::T_R_SERIALIZATION_FAILURE
            | &SqlState::LOCK_NOT_AVAILABLE
            // Somebody else was first by a moment; looking again tells who.
            | &SqlState::UNIQUE_VIOLATION => Error::Busy,
            code => Error::Failed(format!("{said} (code {})", code.code())),
        };
    }
    match io_cause(error) {
        // A value that cannot be sent is no trouble of the connection.
        Some(cause) if cause.kind() == io::ErrorKind::InvalidInput => Error::Failed(told(error)),
        Some(_) => lost(error),
        None if error.is_closed() => lost(error),
        None => Error::Failed(told(error)),
    }
}

fn lost(error: &tokio_postgres::Error) -> Error {
    Error::Unavailable(format!("the connection to PostgreSQL is lost: {}", told(error)))
}

/// Codes after which the same question may well be answered, on another connection or a little later. A server that
/// turned read-only has been replaced by another, which a new connection may find.
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

/// Trouble with connecting, or with the first statements on a new connection. `agreed` tells whether the server was
/// willing to speak TLS.
pub(crate) fn connecting(error: &tokio_postgres::Error, settings: &Settings, agreed: bool) -> Error {
    if let Some(refusal) = error.as_db_error() {
        return refused(refusal, settings);
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
            "PostgreSQL at {place} closed the connection at once; is it really PostgreSQL that answers there?"
        ));
    }
    if settings.config.get_ssl_mode() == tokio_postgres::config::SslMode::Require && !agreed {
        return needs_change(
            settings,
            "it offers no TLS, but the address requires it; turn on `ssl` in postgresql.conf, or use \
             sslmode=disable where the network is your own",
        );
    }
    let hint = match settings.config.get_password() {
        None => "; the address has no password: postgres://user:password@host/database",
        Some(_) => "",
    };
    let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    needs_change(settings, format!("cannot sign in: {why}{hint}"))
}

/// The server answered with an error.
fn refused(refusal: &DbError, settings: &Settings) -> Error {
    let (place, said) = (settings.place(), refusal.message());
    let message = match refusal.code() {
        &SqlState::INVALID_PASSWORD => {
            format!("{said}; check the user and the password in the address (a `@`, `/` or `?` is %-encoded)")
        }
        &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => format!(
            "{said}; check that the user exists, and that pg_hba.conf lets it in from this machine, with or \
             without TLS as `sslmode` says"
        ),
        &SqlState::INVALID_CATALOG_NAME => match settings.database() {
            Some(database) => format!("there is no database {database}; make it: createdb {database}"),
            None => format!("{said}; name the database in the address: postgres://user@host/database"),
        },
        &SqlState::INSUFFICIENT_PRIVILEGE => {
            format!("{said}; the user must be let in: GRANT CONNECT ON DATABASE … TO …")
        }
        &SqlState::TOO_MANY_CONNECTIONS => {
            let wanted = settings.connections;
            return Error::Unavailable(format!(
                "PostgreSQL at {place}: {said}; this node wants {wanted} connections; raise max_connections, or \
                 lower `connections=` in the address of every node"
            ));
        }
        &SqlState::CANNOT_CONNECT_NOW => {
            return Error::Unavailable(format!("PostgreSQL at {place} is starting or stopping: {said}"));
        }
        &SqlState::READ_ONLY_SQL_TRANSACTION => READ_ONLY.to_owned(),
        code if is_transient(code) => {
            return Error::Unavailable(format!("PostgreSQL at {place}: {said}"));
        }
        code => format!("{said} (code {})", code.code()),
    };
    needs_change(settings, message)
}

pub(crate) const READ_ONLY: &str = "it takes no writes; if it is a standby, point the address at the primary, or name \
     all servers and add target_session_attrs=read-write; otherwise turn off default_transaction_read_only";

pub(crate) const NO_TABLES: &str = "tables are missing, and the user may not create them; give it a schema where it may: \
     GRANT CREATE, USAGE ON SCHEMA … TO …";

/// Somebody has to change something before this can work.
pub(crate) fn needs_change(settings: &Settings, message: impl Into<String>) -> Error {
    Error::Connect { place: settings.place(), message: message.into() }
}

/// Nobody, or somebody who is not PostgreSQL, answers at that address.
fn unreachable(cause: &io::Error, settings: &Settings) -> Error {
    // The driver's own word for a server that is up, but not the one that `target_session_attrs` asks for.
    let attributes = settings.config.get_target_session_attrs();
    let any = attributes == tokio_postgres::config::TargetSessionAttrs::Any;
    if cause.kind() == io::ErrorKind::PermissionDenied && !any {
        let place = settings.place();
        return Error::Unavailable(format!("no server of {place} is as target_session_attrs asks: {cause}"));
    }
    Error::Unavailable(format!(
        "cannot reach PostgreSQL at {}: {cause}; is it running, and is the address right?",
        settings.place()
    ))
}

pub(crate) fn timed_out(settings: &Settings) -> Error {
    unreachable(&io::Error::new(io::ErrorKind::TimedOut, "it did not answer in time"), settings)
}

fn handshake(cause: &rustls::Error) -> String {
    let rustls::Error::InvalidCertificate(certificate) = cause else {
        return format!("TLS failed: {cause}");
    };
    match certificate {
        CertificateError::UnknownIssuer => {
            "its certificate is not signed by an authority that we trust; name the \
             right one with `sslrootcert`"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
            "its certificate is for another host ({cause}); use a host that stands in it as a subject alternative \
             name, or sslmode=verify-ca to trust the authority alone"
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("its certificate has expired ({cause}); renew it")
        }
        _ => format!(
            "its certificate cannot be used: {cause}; it must be of X.509 version 3, for a server, and not that of an \
             authority itself"
        ),
    }
}

/// Whether TLS itself failed, rather than what was said through it.
pub(super) fn in_handshake(error: &tokio_postgres::Error) -> bool {
    io_cause(error).and_then(tls::cause).is_some()
}

fn io_cause(error: &tokio_postgres::Error) -> Option<&io::Error> {
    error.source()?.downcast_ref()
}

/// An error and what caused it, in one line.
pub(super) fn told(error: &tokio_postgres::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
