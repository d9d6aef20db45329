//! Checks the budgets of tokens before a call of a model: of the thread and of the tenant.

use holdpoint_engine::{EffectContext, Error, Stop};

use super::setup::Setup;

/// Fails if a budget is used up. Replies count when they are committed. A model without cost has no budget.
pub(super) async fn check(context: &EffectContext, setup: &Setup) -> Result<(), Stop> {
    if setup.instant {
        return Ok(());
    }
    let limits = context.engine().limits();
    let tenant = context.of().tenant;
    match limits.check_tokens(&tenant).await {
        Ok(()) => {}
        Err(Error::Quota(exceeded)) => return Err(Stop::failed("quota_exceeded", exceeded.to_string())),
        Err(error) => return Err(Stop::Broken(error.to_string())),
    }
    let thread = context.run().started.as_ref().and_then(|started| started.thread.as_deref());
    let (Some(limit), Some(thread)) = (setup.definition.thread_tokens_max, thread) else { return Ok(()) };
    let used = limits.thread_tokens(&tenant, thread).await;
    let used = used.map_err(|error| Stop::Broken(error.to_string()))?;
    if used < limit {
        return Ok(());
    }
    let message = format!("limits.threadTokens: the thread has used {used} tokens; the limit is {limit}");
    Err(Stop::failed("agent_token_limit", message))
}
