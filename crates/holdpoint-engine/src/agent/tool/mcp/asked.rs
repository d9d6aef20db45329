//! What servers may ask of us: nothing but whether we are there.

// The SDK marks what newer revisions of the protocol drop; older servers still ask for it.
#![allow(deprecated)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ErrorCode, ErrorData, Implementation, ListRootsResult,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};

/// Our side of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    /// The server says that it has other tools now.
    pub(super) changed: Arc<AtomicBool>,
}

impl ClientHandler for Asked {
    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Err(no("no model answers to servers here"))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Err(no("nobody answers questions of servers here; people are asked before a call is made"))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Err(no("there are no roots here"))
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::SeqCst);
    }

    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("holdpoint", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), us)
    }
}

fn no(why: &'static str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None)
}
