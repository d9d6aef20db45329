//! One contract over all providers: the same stories, told by the same requests, of our own graph and of the real
//! LangGraph server and the real Claude program. What goes wrong with providers is told in the tests of the engine.

mod contract;
mod doors;
mod kills;
mod native;
mod nodes;
mod real_claude;
mod real_claude_hooks;
mod real_langgraph;
#[allow(dead_code)]
#[path = "../../../holdpoint-engine/tests/langgraph/real_server.rs"]
mod real_server;
mod side;
#[allow(dead_code)]
#[path = "../../../holdpoint-engine/tests/claude/stand_in.rs"]
mod stand_in;
mod talk;
