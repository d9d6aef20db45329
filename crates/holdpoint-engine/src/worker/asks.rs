//! Questions of approvers, brought to whoever answers them. Nobody waits for that: neither the run nor the approver.

use std::time::Duration;

use holdpoint_core::{Command, Principal, Refusal};
use tokio::task::JoinSet;

use crate::answering::{AnyAnswerer, Question, Unanswerable};
use crate::engine::Engine;
use crate::error::Error;
use crate::store::pending::Unanswered;

/// Interrupts whose questions are being answered at once.
const IN_FLIGHT_MAX: usize = 8;
/// For one question.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
/// How often somebody is asked, and the waits between, from the first to the longest.
const ATTEMPTS_MAX: u64 = 8;
const WAIT_MS: u64 = 5000;
const WAIT_MS_MAX: u64 = 10 * 60 * 1000;
/// In whose name answers are recorded.
const NAME: &str = "system:answer-service";

#[derive(Debug, Default)]
pub(super) struct Asks(JoinSet<Result<(), Error>>);

impl Asks {
    /// Begins what is due. How much that was.
    pub(super) async fn look(&mut self, engine: &Engine) -> Result<usize, Error> {
        let Some(answerer) = engine.answerer() else { return Ok(0) };
        let free = IN_FLIGHT_MAX.saturating_sub(self.0.len());
        let held = if free == 0 { Vec::new() } else { engine.hold_due_asks(free as u64).await? };
        let count = held.len();
        for held in held {
            self.0.spawn(perform(engine.clone(), answerer.clone(), held));
        }
        Ok(count)
    }

    pub(super) fn has_room(&self) -> bool {
        self.0.len() < IN_FLIGHT_MAX
    }

    /// Waits until one has ended; true when one has. What failed is tried again when it is nobody's any more.
    pub(super) async fn ended(&mut self) -> bool {
        match self.0.join_next().await {
            None => return false,
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => {
                tracing::warn!(%error, "an answer to an approver could not be recorded; it is tried again");
            }
            Some(Err(error)) => tracing::error!(%error, "whoever answers approvers panicked"),
        }
        true
    }
}

async fn perform(engine: Engine, answerer: AnyAnswerer, held: Unanswered) -> Result<(), Error> {
    if held.attempts > ATTEMPTS_MAX {
        // It was begun so often and never came to an end.
        return engine.settle_ask(&held, None).await;
    }
    let run = engine.run(&held.of).await?;
    let Some(interrupt) = run.interrupt(held.interrupt).filter(|interrupt| interrupt.is_open()) else {
        return Ok(());
    };
    let mut trouble = None;
    for ask in interrupt.open_asks() {
        let question = Question::of(&held.of, &run, interrupt, ask);
        match answer(&answerer, &question).await {
            Ok(Some(text)) => record(&engine, &held, ask.id, text).await?,
            Ok(None) => {}
            Err(why) => trouble = Some(why),
        }
    }
    let Some(why) = trouble else { return engine.settle_ask(&held, None).await };
    let (run, attempts) = (held.of.run.as_str(), held.attempts);
    if attempts >= ATTEMPTS_MAX {
        tracing::warn!(%why, run, attempts, "a question of an approver is left to people");
        return engine.settle_ask(&held, None).await;
    }
    tracing::info!(%why, run, attempts, "a question of an approver has no answer yet; it is asked again");
    let wait_ms = WAIT_MS.saturating_mul(1 << (attempts - 1).min(16)).min(WAIT_MS_MAX);
    engine.settle_ask(&held, Some(engine.now().plus_ms(wait_ms))).await
}

async fn answer(answerer: &AnyAnswerer, question: &Question) -> Result<Option<String>, Unanswerable> {
    match tokio::time::timeout(ANSWER_TIME_MAX, answerer.answer(question)).await {
        Ok(answer) => answer,
        Err(_) => Err(Unanswerable(format!("no answer within {} seconds", ANSWER_TIME_MAX.as_secs()))),
    }
}

/// Somebody else may have been faster, or the decision is made: then the answer is not needed.
async fn record(engine: &Engine, held: &Unanswered, ask: u32, answer: String) -> Result<(), Error> {
    let by = Principal::named(NAME);
    let command = Command::AnswerAsk { interrupt: held.interrupt, ask, answer, by };
    match engine.execute(&held.of, &command).await {
        Ok(_) => Ok(()),
        Err(Error::Refused(refusal @ Refusal::InvalidRequest { .. })) => {
            tracing::warn!(%refusal, run = %held.of.run, "an answer to an approver cannot be taken");
            Ok(())
        }
        Err(Error::Refused(refusal)) => {
            tracing::debug!(%refusal, run = %held.of.run, "an answer to an approver came too late");
            Ok(())
        }
        Err(error) => Err(error),
    }
}
