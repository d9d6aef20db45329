//! A web application with the engine inside: its routes start a run, approve it, and wait for its end.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use holdpoint_engine::core::workflow::Approval;
use holdpoint_engine::core::{RunId, RunRef, TenantId};
use holdpoint_engine::{Engine, RunHandle, Workflow};

type Reply = Result<String, (StatusCode, String)>;

async fn order(State(engine): State<Engine>) -> Reply {
    let run = engine.runs().start("order").by("customer").await.map_err(failure)?;
    Ok(run.of().run.to_string())
}

/// Approves an order. A real application authenticates the clerk first.
async fn approve(State(engine): State<Engine>, Path(id): Path<String>) -> Reply {
    let interrupt = find(&engine, &id)?.wait_for_interrupt().await.map_err(failure)?;
    let state = interrupt.accept().by("clerk").await.map_err(failure)?;
    Ok(state.status().as_str().to_owned())
}

async fn result(State(engine): State<Engine>, Path(id): Path<String>) -> Reply {
    let done = find(&engine, &id)?.wait().await.map_err(failure)?;
    Ok(done.status().as_str().to_owned())
}

fn find(engine: &Engine, id: &str) -> Result<RunHandle, (StatusCode, String)> {
    let (tenant, run) = (TenantId::parse("default").map_err(failure)?, RunId::parse(id).map_err(failure)?);
    Ok(engine.runs().handle(RunRef { tenant, run }))
}

fn failure(error: impl ToString) -> (StatusCode, String) {
    (StatusCode::CONFLICT, error.to_string())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let engine = Engine::open(folder.path().join("holdpoint.db")).await?;
    let order_workflow = Workflow::builder("order").node("check", Approval::new("Ship it?")).build()?;
    engine.workflows().put(order_workflow).await?;
    let routes = Router::new().route("/orders", post(order)).route("/orders/{id}", get(result));
    let routes = routes.route("/orders/{id}/approval", post(approve)).with_state(engine.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/orders", listener.local_addr()?);
    tokio::spawn(axum::serve(listener, routes).into_future());
    let requests = move || -> anyhow::Result<String> {
        let id = ureq::post(&url).send_empty()?.body_mut().read_to_string()?;
        ureq::post(format!("{url}/{id}/approval")).send_empty()?;
        Ok(ureq::get(format!("{url}/{id}")).call()?.body_mut().read_to_string()?)
    };
    println!("the order is {}", tokio::task::spawn_blocking(requests).await??);
    engine.close().await;
    Ok(())
}
