//! Tests of the Claude Agent SDK provider: with a fake program, which can misbehave on request, and with the published
//! program and a fake model API. The tests need no network.

mod caps;
pub(crate) mod claude_env;
mod crashes;
mod fake_model_api;
mod faults;
mod interrupts;
mod real_agent;
mod real_claude;
mod real_crashes;
mod streams;
mod turns;
