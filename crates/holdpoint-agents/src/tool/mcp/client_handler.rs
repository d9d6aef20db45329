//! Handles requests of MCP servers. Only pings, and notifications of tool lists and progress are supported.

// The SDK deprecates requests that newer revisions of the protocol drop. Older servers still send them.
#![allow(deprecated)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ErrorCode, ErrorData, Implementation, ListRootsResult, ProgressNotificationParam,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};

use super::progress::ProgressListeners;

/// The client side of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct McpClientHandler {
    /// The server has reported that its list of tools has changed.
    pub(super) changed: Arc<AtomicBool>,
    /// The calls whose progress has readers.
    pub(super) progress: Arc<ProgressListeners>,
}

impl ClientHandler for McpClientHandler {
    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Err(unsupported("sampling is not supported"))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Err(unsupported("elicitation is not supported; approvals are requested before a tool call"))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Err(unsupported("roots are not supported"))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.report(&params);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::SeqCst);
    }

    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("holdpoint", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), us)
    }
}

fn unsupported(why: &'static str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None)
}
