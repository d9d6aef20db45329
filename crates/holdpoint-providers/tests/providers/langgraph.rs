//! Tests of the LangGraph provider: with a fake server in this process, which can fail on request, and with the
//! published server.

mod answers;
mod fake;
mod fake_state;
mod graph_env;
mod nodes;
mod outages;
mod real_langgraph;
mod real_server;
mod refusals;
mod streams;
mod turns;
