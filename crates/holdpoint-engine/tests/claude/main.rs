//! Agents of the Claude Agent SDK, driven through the engine: a program that speaks their lines and misbehaves on
//! demand, and the real one with a stand-in for the model's API. Everything stays on this machine.

// What a test cannot do without, it may demand.
#![allow(clippy::unwrap_used)]

mod caps;
mod crashes;
mod faults;
mod pauses;
mod real_claude;
mod real_crashes;
mod real_world;
mod stand_in;
mod world;
