//! Tests of the tools of agents: MCP servers over stdio and HTTP, HTTP tools, and definitions. The tests need no
//! network.

mod definitions;
mod faults;
mod published;
mod requests;
mod servers;
mod tool_env;
mod web;
