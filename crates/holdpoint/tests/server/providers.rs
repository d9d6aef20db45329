//! One contract for all providers: the same tests with the native graph, the published LangGraph server, the published
//! Claude program, and the published OpenAI Agents SDK with a provider that is written outside of our crates. Faults of
//! providers are tested in the engine.

mod answer_routes;
mod contract;
#[allow(dead_code)]
#[path = "../../../holdpoint-providers/tests/providers/claude/fake_model_api.rs"]
mod fake_model_api;
mod kills;
mod native;
mod nodes;
mod provider_case;
mod real_claude;
mod real_claude_hooks;
mod real_langgraph;
mod real_openai_agents;
#[allow(dead_code)]
#[path = "../../../holdpoint-providers/tests/providers/langgraph/real_server.rs"]
mod real_server;
mod recorded_server;
mod turns;
