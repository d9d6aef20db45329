//! Tests of connections to PostgreSQL: TLS, sign-in, error messages, outages and connection limits. The rejection of
//! server versions that are too old is not tested here, because only one version is installed.

mod cluster;
mod outages;
mod pooled;
mod refusals;
mod server;
mod shares;
mod tls;
mod wakeups;
