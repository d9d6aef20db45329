//! Questions of approvers and whoever answers them: nothing waits for it, nothing is lost, and one answer counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint_engine::core::{Answer, Command, NodeId, Principal, RunRef};
use holdpoint_engine::{Answerer, Error, Fault, Options, PendingFilter, Question, Unanswerable};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use crate::house::{House, accept, line, tenant};
use crate::place::{Place, on_both};

on_both! {
    a_question_is_answered_by_whoever_answers_questions,
    what_nobody_is_responsible_for_is_left_to_people,
    an_answerer_that_fails_is_asked_again_later_and_not_for_ever,
    a_question_that_was_asked_before_a_restart_is_answered_after_it,
    a_crash_around_any_commit_leaves_one_answer,
    an_answer_that_comes_after_the_decision_is_dropped,
    a_new_question_begins_to_count_anew,
    an_attempt_that_was_overtaken_by_a_new_question_ends_nothing_of_the_next,
    an_attempt_with_many_slow_answers_stays_alone,
}

/// Fails so many times, then says what it was asked; nothing to what it does not know.
#[derive(Clone, Default)]
struct Oracle {
    calls: Arc<AtomicU32>,
    failures: u32,
}

impl Oracle {
    fn failing(failures: u32) -> Self {
        Self { failures, ..Self::default() }
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Answerer for Oracle {
    async fn answer(&self, question: &Question) -> Result<Option<String>, Unanswerable> {
        if self.calls.fetch_add(1, Ordering::SeqCst) < self.failures {
            return Err(Unanswerable("not now".to_owned()));
        }
        let known = question.text != "Who knows?";
        Ok(known.then(|| format!("{} of {}", question.text, question.data["title"])))
    }
}

fn with(oracle: &Oracle) -> impl FnOnce(Options) -> Options {
    let oracle = oracle.clone();
    move |options| options.answerer(oracle)
}

async fn asked(house: &House, question: &str) -> RunRef {
    let config = json!({"title": "Go on?", "actions": ["accept", "ask"]});
    house.register(line("asking", &[("gate", "core.approvalGate", config)])).await;
    let of = house.start("asking").await;
    ask(house, &of, question).await;
    of
}

async fn ask(house: &House, of: &RunRef, question: &str) {
    tell(house, of, json!({"action": "ask", "question": question})).await.unwrap();
}

async fn tell(house: &House, of: &RunRef, value: serde_json::Value) -> Result<(), Error> {
    let answer = Answer::new(value, Principal::named("ann"));
    let command = Command::ResolveNode { node: NodeId::parse("gate").unwrap(), interrupt: None, answer };
    house.engine.execute(of, &command).await.map(|_| ())
}

/// Replies of the gate, by whom and what; nothing where there is none.
async fn replies(house: &House, of: &RunRef) -> Vec<Option<(String, String)>> {
    let run = house.run(of).await;
    let reply = |ask: &holdpoint_engine::core::Ask| {
        ask.reply.as_ref().map(|reply| (reply.by.clone(), reply.text.clone()))
    };
    run.interrupts[0].asks.iter().map(reply).collect()
}

fn by_oracle(text: &str) -> Option<(String, String)> {
    Some(("system:answer-service".to_owned(), text.to_owned()))
}

async fn open_asks(house: &House) -> u64 {
    let page = house.engine.pending_page(&tenant(), &PendingFilter::default(), 10).await.unwrap();
    page.rows[0].open_asks
}

async fn a_question_is_answered_by_whoever_answers_questions(place: Place) {
    let oracle = Oracle::default();
    let house = House::with(place, with(&oracle)).await;
    let of = asked(&house, "Why?").await;
    assert_eq!((oracle.calls(), open_asks(&house).await), (0, 1), "the approver does not wait for it");
    assert_eq!(house.drain().await, 1);
    assert_eq!(replies(&house, &of).await, [by_oracle("Why? of \"Go on?\"")]);
    assert_eq!((oracle.calls(), open_asks(&house).await, house.drain().await), (1, 0, 0));
    assert_eq!(house.status(&of).await, "waiting-approval");
    tell(&house, &of, accept()).await.unwrap();
    assert_eq!(house.status(&of).await, "completed");
}

async fn what_nobody_is_responsible_for_is_left_to_people(place: Place) {
    let oracle = Oracle::default();
    let house = House::with(place, with(&oracle)).await;
    let of = asked(&house, "Who knows?").await;
    assert_eq!((house.drain().await, house.drain().await), (1, 0));
    house.clock.advance(3_600_000);
    assert_eq!((house.drain().await, oracle.calls()), (0, 1));
    assert_eq!((replies(&house, &of).await, open_asks(&house).await), (vec![None], 1));
}

async fn an_answerer_that_fails_is_asked_again_later_and_not_for_ever(place: Place) {
    let oracle = Oracle::failing(2);
    let house = House::with(place, with(&oracle)).await;
    let of = asked(&house, "Why?").await;
    assert_eq!((house.drain().await, house.drain().await), (1, 0), "not at once");
    house.clock.advance(5000);
    assert_eq!((house.drain().await, house.drain().await), (1, 0));
    house.clock.advance(5000);
    assert_eq!(house.drain().await, 0, "the second wait is longer");
    house.clock.advance(5000);
    assert_eq!((house.drain().await, oracle.calls()), (1, 3));
    assert!(replies(&house, &of).await[0].is_some());

    let never = Oracle::failing(u32::MAX);
    let house = House::with(house.place.another().await, with(&never)).await;
    asked(&house, "Why?").await;
    for _ in 0..20 {
        house.drain().await;
        house.clock.advance(3_600_000);
    }
    assert_eq!(never.calls(), 8);
}

async fn a_question_that_was_asked_before_a_restart_is_answered_after_it(place: Place) {
    let house = House::with(place, |options| options).await;
    let of = asked(&house, "Why?").await;
    assert_eq!(house.drain().await, 0, "nobody answers questions here");
    let oracle = Oracle::default();
    let house = house.reopen(with(&oracle)).await;
    assert_eq!(house.drain().await, 1);
    assert!(replies(&house, &of).await[0].is_some());
}

async fn a_crash_around_any_commit_leaves_one_answer(place: Place) {
    // Registered, started, asked, held, answered, settled: commits from 1.
    for stop in (1..=7).flat_map(|at| [Fault::StopBefore(at), Fault::StopAfter(at)]) {
        let oracle = Oracle::default();
        let answering = oracle.clone();
        let house =
            House::with(place.another().await, |options| options.answerer(answering).fault(stop)).await;
        let config = json!({"title": "Go on?", "actions": ["accept", "ask"]});
        let definition = line("asking", &[("gate", "core.approvalGate", config)]);
        if house.engine.register(&tenant(), definition).await.is_err() {
            continue;
        }
        let workflow = holdpoint_engine::core::WorkflowId::parse("asking").unwrap();
        let Ok(run) = house.engine.start(&workflow, crate::house::start(json!({}))).await else { continue };
        let of = RunRef { tenant: tenant(), run: run.id.clone() };
        // A question that was not acknowledged may have been put all the same.
        let _ = tell(&house, &of, json!({"action": "ask", "question": "Why?"})).await;
        let _ = house.engine.worker().drain().await;
        let house = house.reopen(with(&oracle)).await;
        if house.run(&of).await.interrupts[0].asks.is_empty() {
            continue;
        }
        house.drain().await;
        house.clock.advance(60_000);
        house.drain().await;
        assert_eq!(replies(&house, &of).await, [by_oracle("Why? of \"Go on?\"")], "{stop:?}");
        assert!((1..=2).contains(&oracle.calls()), "{stop:?}: asked {} times", oracle.calls());
        assert_eq!(open_asks(&house).await, 0, "{stop:?}");
        let log = house.log(&of).await;
        assert_eq!(log.iter().filter(|line| line.contains("ask.answered")).count(), 1, "{stop:?}: {log:#?}");
        house.clock.advance(3_600_000);
        assert_eq!(house.drain().await, 0, "{stop:?}: nothing is left over");
    }
}

async fn an_answer_that_comes_after_the_decision_is_dropped(place: Place) {
    let oracle = Oracle::failing(1);
    let house = House::with(place, with(&oracle)).await;
    let of = asked(&house, "Why?").await;
    house.drain().await;
    tell(&house, &of, accept()).await.unwrap();
    house.clock.advance(3_600_000);
    assert_eq!((house.drain().await, oracle.calls()), (0, 1));
    assert_eq!(replies(&house, &of).await, [None]);
}

async fn a_new_question_begins_to_count_anew(place: Place) {
    let oracle = Oracle::failing(1);
    let house = House::with(place, with(&oracle)).await;
    let of = asked(&house, "Why?").await;
    house.drain().await;
    ask(&house, &of, "How?").await;
    assert_eq!(house.drain().await, 1, "at once, both of them");
    assert_eq!(replies(&house, &of).await.iter().flatten().count(), 2);
    assert_eq!(oracle.calls(), 3);
}

type Said = Result<Option<String>, Unanswerable>;

/// Hands every question to the test, and says what the test says.
struct Ear(mpsc::UnboundedSender<(String, oneshot::Sender<Said>)>);

impl Answerer for Ear {
    async fn answer(&self, question: &Question) -> Said {
        let (say, said) = oneshot::channel();
        self.0.send((question.text.clone(), say)).unwrap();
        said.await.unwrap()
    }
}

fn drained(house: &House) -> tokio::task::JoinHandle<Result<usize, Error>> {
    let mut worker = house.engine.worker();
    tokio::spawn(async move { worker.drain().await })
}

async fn an_attempt_that_was_overtaken_by_a_new_question_ends_nothing_of_the_next(place: Place) {
    let (ear, mut heard) = mpsc::unbounded_channel();
    let house = House::with(place, |options| options.answerer(Ear(ear))).await;
    let of = asked(&house, "Why?").await;
    let first = drained(&house);
    let (_, say_first) = heard.recv().await.unwrap();
    ask(&house, &of, "How?").await;
    let second = drained(&house);
    let (_, say_second) = heard.recv().await.unwrap();
    say_first.send(Ok(None)).unwrap();
    assert_eq!(first.await.unwrap().unwrap(), 1, "it had one question, and is done with it");
    say_second.send(Err(Unanswerable("not now".to_owned()))).unwrap();
    let (_, say_second) = heard.recv().await.unwrap();
    say_second.send(Err(Unanswerable("not now".to_owned()))).unwrap();
    assert_eq!(second.await.unwrap().unwrap(), 1);
    let due = "SELECT ask_due_ms FROM pending WHERE ask_due_ms IS NOT NULL";
    assert_eq!(house.place.read(due).await.len(), 1, "the second attempt failed and is made again");
    house.clock.advance(5000);
    let third = drained(&house);
    for _ in 0..2 {
        let (text, say) = heard.recv().await.unwrap();
        say.send(Ok(Some(format!("{text} So.")))).unwrap();
    }
    assert_eq!(third.await.unwrap().unwrap(), 1);
    assert_eq!(replies(&house, &of).await, [by_oracle("Why? So."), by_oracle("How? So.")]);
}

async fn an_attempt_with_many_slow_answers_stays_alone(place: Place) {
    let (ear, mut heard) = mpsc::unbounded_channel();
    let house = House::with(place, |options| options.answerer(Ear(ear))).await;
    let of = asked(&house, "1").await;
    for question in ["2", "3", "4"] {
        ask(&house, &of, question).await;
    }
    let working = drained(&house);
    for question in ["1", "2", "3", "4"] {
        let (text, say) = heard.recv().await.unwrap();
        assert_eq!(text, question);
        house.clock.advance(25_000);
        tokio::select! {
            taken = house.drain() => assert_eq!(taken, 0, "{question}"),
            again = heard.recv() => panic!("somebody else asks too: {:?}", again.map(|(text, _)| text)),
        }
        say.send(Ok(Some(format!("of {text}")))).unwrap();
    }
    assert_eq!(working.await.unwrap().unwrap(), 1);
    assert_eq!(replies(&house, &of).await.iter().flatten().count(), 4);
}
