//! Side questions and the answerer: the approver does not wait, no question is lost, and each gets one answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint_engine::core::{Answer, Command, NodeId, Principal, RunRef};
use holdpoint_engine::{
    Answerer, AnswererError, ApproverQuestion, CommitFault, Error, Options, PendingFilter,
};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use crate::test_database::{TestDatabase, on_both};
use crate::test_env::{TestEnv, accept, line, tenant};

on_both! {
    a_side_question_is_answered_by_the_answerer,
    a_side_question_that_the_answerer_does_not_answer_stays_open,
    a_failing_answerer_is_retried_a_limited_number_of_times,
    a_side_question_is_answered_after_a_restart,
    a_crash_around_any_commit_leaves_one_answer,
    side_questions_are_not_answered_after_the_decision,
    a_new_side_question_resets_the_retry_delay,
    a_superseded_attempt_does_not_end_the_next_attempt,
    an_attempt_with_many_slow_answers_stays_exclusive,
}

/// Fails a number of times, then repeats the question. It has no answer to "Who knows?".
#[derive(Clone, Default)]
struct TestAnswerer {
    calls: Arc<AtomicU32>,
    failures: u32,
}

impl TestAnswerer {
    fn failing(failures: u32) -> Self {
        Self { failures, ..Self::default() }
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Answerer for TestAnswerer {
    async fn answer(&self, question: &ApproverQuestion) -> Result<Option<String>, AnswererError> {
        if self.calls.fetch_add(1, Ordering::SeqCst) < self.failures {
            return Err(AnswererError("not now".to_owned()));
        }
        let answerable = question.text != "Who knows?";
        Ok(answerable.then(|| format!("{} of {}", question.text, question.data["title"])))
    }
}

fn with_answerer(answerer: &TestAnswerer) -> impl FnOnce(Options) -> Options {
    let answerer = answerer.clone();
    move |options| options.answerer(answerer)
}

async fn start_and_ask(env: &TestEnv, question: &str) -> RunRef {
    let config = json!({"title": "Go on?", "actions": ["accept", "ask"]});
    env.register(line("asking", &[("gate", "core.approvalGate", config)])).await;
    let of = env.start("asking").await;
    ask(env, &of, question).await;
    of
}

async fn ask(env: &TestEnv, of: &RunRef, question: &str) {
    answer(env, of, json!({"action": "ask", "question": question})).await.unwrap();
}

async fn answer(env: &TestEnv, of: &RunRef, value: serde_json::Value) -> Result<(), Error> {
    let answer = Answer::new(value, Principal::named("ann"));
    let command = Command::ResolveNode { node: NodeId::parse("gate").unwrap(), interrupt: None, answer };
    env.engine.runs().execute(of, &command).await.map(|_| ())
}

/// The principals and texts of the answers, None for an open question.
async fn replies(env: &TestEnv, of: &RunRef) -> Vec<Option<(String, String)>> {
    let run = env.run(of).await;
    let reply = |question: &holdpoint_engine::core::SideQuestion| {
        question.answer.as_ref().map(|reply| (reply.by.clone(), reply.text.clone()))
    };
    run.interrupts[0].side_questions.iter().map(reply).collect()
}

fn by_answerer(text: &str) -> Option<(String, String)> {
    Some(("system:answer-service".to_owned(), text.to_owned()))
}

async fn open_questions(env: &TestEnv) -> u64 {
    let page = env.engine.interrupts().page(&tenant(), &PendingFilter::default(), 10).await.unwrap();
    page.rows[0].open_asks
}

async fn a_side_question_is_answered_by_the_answerer(database: TestDatabase) {
    let answerer = TestAnswerer::default();
    let env = TestEnv::with(database, with_answerer(&answerer)).await;
    let of = start_and_ask(&env, "Why?").await;
    assert_eq!(
        (answerer.calls(), open_questions(&env).await),
        (0, 1),
        "the approver does not wait for the answer"
    );
    assert_eq!(env.drain().await, 1);
    assert_eq!(replies(&env, &of).await, [by_answerer("Why? of \"Go on?\"")]);
    assert_eq!((answerer.calls(), open_questions(&env).await, env.drain().await), (1, 0, 0));
    assert_eq!(env.status(&of).await, "waiting-approval");
    answer(&env, &of, accept()).await.unwrap();
    assert_eq!(env.status(&of).await, "completed");
}

async fn a_side_question_that_the_answerer_does_not_answer_stays_open(database: TestDatabase) {
    let answerer = TestAnswerer::default();
    let env = TestEnv::with(database, with_answerer(&answerer)).await;
    let of = start_and_ask(&env, "Who knows?").await;
    assert_eq!((env.drain().await, env.drain().await), (1, 0));
    env.clock.advance(3_600_000);
    assert_eq!((env.drain().await, answerer.calls()), (0, 1));
    assert_eq!((replies(&env, &of).await, open_questions(&env).await), (vec![None], 1));
}

async fn a_failing_answerer_is_retried_a_limited_number_of_times(database: TestDatabase) {
    let answerer = TestAnswerer::failing(2);
    let env = TestEnv::with(database, with_answerer(&answerer)).await;
    let of = start_and_ask(&env, "Why?").await;
    assert_eq!((env.drain().await, env.drain().await), (1, 0), "the retry is delayed");
    env.clock.advance(5000);
    assert_eq!((env.drain().await, env.drain().await), (1, 0));
    env.clock.advance(5000);
    assert_eq!(env.drain().await, 0, "the second delay is longer");
    env.clock.advance(5000);
    assert_eq!((env.drain().await, answerer.calls()), (1, 3));
    assert!(replies(&env, &of).await[0].is_some());

    let never = TestAnswerer::failing(u32::MAX);
    let env = TestEnv::with(env.database.another().await, with_answerer(&never)).await;
    start_and_ask(&env, "Why?").await;
    for _ in 0..20 {
        env.drain().await;
        env.clock.advance(3_600_000);
    }
    assert_eq!(never.calls(), 8);
}

async fn a_side_question_is_answered_after_a_restart(database: TestDatabase) {
    let env = TestEnv::with(database, |options| options).await;
    let of = start_and_ask(&env, "Why?").await;
    assert_eq!(env.drain().await, 0, "there is no answerer");
    let answerer = TestAnswerer::default();
    let env = env.reopen(with_answerer(&answerer)).await;
    assert_eq!(env.drain().await, 1);
    assert!(replies(&env, &of).await[0].is_some());
}

async fn a_crash_around_any_commit_leaves_one_answer(database: TestDatabase) {
    // The commits from 1: definition, start, question, reservation, answer, end of the attempt.
    for stop in (1..=7).flat_map(|at| [CommitFault::StopBefore(at), CommitFault::StopAfter(at)]) {
        let answerer = TestAnswerer::default();
        let answering = answerer.clone();
        let env =
            TestEnv::with(database.another().await, |options| options.answerer(answering).fault(stop)).await;
        let config = json!({"title": "Go on?", "actions": ["accept", "ask"]});
        let definition = line("asking", &[("gate", "core.approvalGate", config)]);
        if env.engine.workflows().register(&tenant(), definition).await.is_err() {
            continue;
        }
        let workflow = holdpoint_engine::core::WorkflowId::parse("asking").unwrap();
        let Ok(run) = env.engine.runs().create(&workflow, crate::test_env::start(json!({}))).await else {
            continue;
        };
        let of = RunRef { tenant: tenant(), run: run.id.clone() };
        // A question without acknowledgement can be recorded.
        let _ = answer(&env, &of, json!({"action": "ask", "question": "Why?"})).await;
        let _ = env.engine.worker().drain().await;
        let env = env.reopen(with_answerer(&answerer)).await;
        if env.run(&of).await.interrupts[0].side_questions.is_empty() {
            continue;
        }
        env.drain().await;
        env.clock.advance(60_000);
        env.drain().await;
        assert_eq!(replies(&env, &of).await, [by_answerer("Why? of \"Go on?\"")], "{stop:?}");
        assert!((1..=2).contains(&answerer.calls()), "{stop:?}: asked {} times", answerer.calls());
        assert_eq!(open_questions(&env).await, 0, "{stop:?}");
        let log = env.log(&of).await;
        assert_eq!(log.iter().filter(|line| line.contains("ask.answered")).count(), 1, "{stop:?}: {log:#?}");
        env.clock.advance(3_600_000);
        assert_eq!(env.drain().await, 0, "{stop:?}: no work is left");
    }
}

async fn side_questions_are_not_answered_after_the_decision(database: TestDatabase) {
    let answerer = TestAnswerer::failing(1);
    let env = TestEnv::with(database, with_answerer(&answerer)).await;
    let of = start_and_ask(&env, "Why?").await;
    env.drain().await;
    answer(&env, &of, accept()).await.unwrap();
    env.clock.advance(3_600_000);
    assert_eq!((env.drain().await, answerer.calls()), (0, 1));
    assert_eq!(replies(&env, &of).await, [None]);
}

async fn a_new_side_question_resets_the_retry_delay(database: TestDatabase) {
    let answerer = TestAnswerer::failing(1);
    let env = TestEnv::with(database, with_answerer(&answerer)).await;
    let of = start_and_ask(&env, "Why?").await;
    env.drain().await;
    ask(&env, &of, "How?").await;
    assert_eq!(env.drain().await, 1, "both questions are answered at once");
    assert_eq!(replies(&env, &of).await.iter().flatten().count(), 2);
    assert_eq!(answerer.calls(), 3);
}

type AnswererResult = Result<Option<String>, AnswererError>;

/// Passes every question to the test and returns the test's result.
struct TestControlled(mpsc::UnboundedSender<(String, oneshot::Sender<AnswererResult>)>);

impl Answerer for TestControlled {
    async fn answer(&self, question: &ApproverQuestion) -> AnswererResult {
        let (reply, result) = oneshot::channel();
        self.0.send((question.text.clone(), reply)).unwrap();
        result.await.unwrap()
    }
}

fn drain_in_background(env: &TestEnv) -> tokio::task::JoinHandle<Result<usize, Error>> {
    let mut worker = env.engine.worker();
    tokio::spawn(async move { worker.drain().await })
}

async fn a_superseded_attempt_does_not_end_the_next_attempt(database: TestDatabase) {
    let (sender, mut questions) = mpsc::unbounded_channel();
    let env = TestEnv::with(database, |options| options.answerer(TestControlled(sender))).await;
    let of = start_and_ask(&env, "Why?").await;
    let first = drain_in_background(&env);
    let (_, first_reply) = questions.recv().await.unwrap();
    ask(&env, &of, "How?").await;
    let second = drain_in_background(&env);
    let (_, second_reply) = questions.recv().await.unwrap();
    first_reply.send(Ok(None)).unwrap();
    assert_eq!(first.await.unwrap().unwrap(), 1, "the first attempt has one question");
    second_reply.send(Err(AnswererError("not now".to_owned()))).unwrap();
    let (_, second_reply) = questions.recv().await.unwrap();
    second_reply.send(Err(AnswererError("not now".to_owned()))).unwrap();
    assert_eq!(second.await.unwrap().unwrap(), 1);
    let due = "SELECT ask_due_ms FROM pending WHERE ask_due_ms IS NOT NULL";
    assert_eq!(env.database.read(due).await.len(), 1, "the second attempt failed and is retried");
    env.clock.advance(5000);
    let third = drain_in_background(&env);
    for _ in 0..2 {
        let (text, reply) = questions.recv().await.unwrap();
        reply.send(Ok(Some(format!("{text} So.")))).unwrap();
    }
    assert_eq!(third.await.unwrap().unwrap(), 1);
    assert_eq!(replies(&env, &of).await, [by_answerer("Why? So."), by_answerer("How? So.")]);
}

async fn an_attempt_with_many_slow_answers_stays_exclusive(database: TestDatabase) {
    let (sender, mut questions) = mpsc::unbounded_channel();
    let env = TestEnv::with(database, |options| options.answerer(TestControlled(sender))).await;
    let of = start_and_ask(&env, "1").await;
    for question in ["2", "3", "4"] {
        ask(&env, &of, question).await;
    }
    let working = drain_in_background(&env);
    for question in ["1", "2", "3", "4"] {
        let (text, reply) = questions.recv().await.unwrap();
        assert_eq!(text, question);
        env.clock.advance(25_000);
        tokio::select! {
            taken = env.drain() => assert_eq!(taken, 0, "{question}"),
            again = questions.recv() => panic!("another attempt has started: {:?}", again.map(|(text, _)| text)),
        }
        reply.send(Ok(Some(format!("of {text}")))).unwrap();
    }
    assert_eq!(working.await.unwrap().unwrap(), 1);
    assert_eq!(replies(&env, &of).await.iter().flatten().count(), 4);
}
