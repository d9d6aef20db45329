//! Tests of connections to PostgreSQL: TLS, sign-in, error messages, outages and connection limits. The rejection of
//! server versions that are too old is not tested here, because only one version is installed.

// Tests may unwrap: a panic is a failed test.
#![allow(clippy::unwrap_used)]

// These tests use only a part of the file.
#[allow(dead_code)]
#[path = "../engine/slow_node.rs"]
mod slow_node;
#[path = "../test_database/mod.rs"]
mod test_database;
#[allow(dead_code)]
#[path = "../engine/test_env.rs"]
mod test_env;

mod certificates;
mod cluster;
mod outages;
mod pooled;
mod refusals;
mod server;
mod shares;
mod tls;
mod wakeups;
