//! Sends side questions of approvers to the answerer and records the answers. Neither the run nor the approver waits.

use std::time::Duration;

use holdpoint_core::{Command, Principal, Refusal};
use tokio::task::JoinSet;

use crate::answerer::{AnswererError, AnyAnswerer, ApproverQuestion};
use crate::engine::Engine;
use crate::error::Error;
use crate::store::pending::OpenSideQuestions;

/// The maximum number of interrupts whose side questions are answered concurrently.
const IN_FLIGHT_MAX: usize = 8;
/// Time limit for one answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
/// The maximum number of attempts, and the first and the longest wait between them.
const ATTEMPTS_MAX: u64 = 8;
const WAIT_MS: u64 = 5000;
const WAIT_MS_MAX: u64 = 10 * 60 * 1000;
/// Principal of recorded answers.
const NAME: &str = "system:answer-service";

#[derive(Debug, Default)]
pub(super) struct SideQuestionTasks(JoinSet<Result<(), Error>>);

impl SideQuestionTasks {
    /// Starts due side questions and returns the number of interrupts.
    pub(super) async fn start_due(&mut self, engine: &Engine) -> Result<usize, Error> {
        let Some(answerer) = engine.answerer() else { return Ok(0) };
        let free = IN_FLIGHT_MAX.saturating_sub(self.0.len());
        let claimed =
            if free == 0 { Vec::new() } else { engine.claim_due_side_questions(free as u64).await? };
        let count = claimed.len();
        for claimed in claimed {
            self.0.spawn(answer_questions(engine.clone(), answerer.clone(), claimed));
        }
        Ok(count)
    }

    pub(super) fn has_room(&self) -> bool {
        self.0.len() < IN_FLIGHT_MAX
    }

    /// Waits for the end of a task. Returns false if there is none. A failed task is repeated after its claim expires.
    pub(super) async fn join_next(&mut self) -> bool {
        match self.0.join_next().await {
            None => return false,
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => {
                tracing::warn!(%error, "cannot record the answer to a side question; retrying");
            }
            Some(Err(error)) => tracing::error!(%error, "the answerer of side questions panicked"),
        }
        true
    }
}

async fn answer_questions(
    engine: Engine,
    answerer: AnyAnswerer,
    claimed: OpenSideQuestions,
) -> Result<(), Error> {
    if claimed.attempts() > ATTEMPTS_MAX {
        // Earlier attempts started and never completed.
        return engine.reschedule_side_questions(&claimed, None).await.map(|_| ());
    }
    let run = engine.runs().get(&claimed.of).await?;
    let Some(interrupt) = run.interrupt(claimed.interrupt).filter(|interrupt| interrupt.is_open()) else {
        return Ok(());
    };
    let mut last_error = None;
    for (position, ask) in interrupt.open_side_questions().enumerate() {
        // Several slow answers can outlast the claim. If it cannot be extended, a new side question has started another
        // task, which answers all of them.
        if position > 0 && !engine.extend_side_question_claim(&claimed).await? {
            return Ok(());
        }
        let question = ApproverQuestion::of(&claimed.of, &run, interrupt, ask);
        match answer(&answerer, &question).await {
            Ok(Some(text)) => record(&engine, &claimed, ask.id, text).await?,
            Ok(None) => {}
            Err(why) => last_error = Some(why),
        }
    }
    let due = last_error
        .and_then(|why| retry_delay_ms(&claimed, &why))
        .map(|wait_ms| engine.now().plus_ms(wait_ms));
    engine.reschedule_side_questions(&claimed, due).await.map(|_| ())
}

/// Returns the wait before the next attempt, or None after the last one.
fn retry_delay_ms(claimed: &OpenSideQuestions, why: &AnswererError) -> Option<u64> {
    let (run, attempts) = (claimed.of.run.as_str(), claimed.attempts());
    if attempts >= ATTEMPTS_MAX {
        tracing::warn!(%why, run, attempts, "giving up on a side question; a person must answer it");
        return None;
    }
    tracing::info!(%why, run, attempts, "a side question has no answer yet; retrying");
    Some(WAIT_MS.saturating_mul(1 << attempts.saturating_sub(1).min(16)).min(WAIT_MS_MAX))
}

async fn answer(
    answerer: &AnyAnswerer,
    question: &ApproverQuestion,
) -> Result<Option<String>, AnswererError> {
    match tokio::time::timeout(ANSWER_TIME_MAX, answerer.answer(question)).await {
        Ok(answer) => answer,
        Err(_) => Err(AnswererError(format!("no answer within {} seconds", ANSWER_TIME_MAX.as_secs()))),
    }
}

/// Records an answer. Ignores refusals: another answer was faster, or the interrupt is resolved.
async fn record(engine: &Engine, claimed: &OpenSideQuestions, ask: u32, answer: String) -> Result<(), Error> {
    let by = Principal::named(NAME);
    let command = Command::AnswerSideQuestion { interrupt: claimed.interrupt, ask, answer, by };
    match engine.runs().execute(&claimed.of, &command).await {
        Ok(_) => Ok(()),
        Err(Error::Refused(refusal @ Refusal::InvalidRequest { .. })) => {
            tracing::warn!(%refusal, run = %claimed.of.run, "the answer to a side question is invalid");
            Ok(())
        }
        Err(Error::Refused(refusal)) => {
            tracing::debug!(%refusal, run = %claimed.of.run, "the answer to a side question came too late");
            Ok(())
        }
        Err(error) => Err(error),
    }
}
