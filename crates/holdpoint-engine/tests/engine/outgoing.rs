//! Tests of outgoing calls: the outgoing policy, HTTP requests, and `core.http` in a run. The tests need no network; a
//! script resolves names.

mod addresses;
mod approved;
mod calls;
mod grant_rounds;
mod grant_uses;
mod grants;
mod names;
mod node;
mod node_crashes;
mod node_repeats;
mod node_requests;
mod rebinding;
mod reuse;
mod sockets;
mod spellings;
mod streams;
mod tls;
