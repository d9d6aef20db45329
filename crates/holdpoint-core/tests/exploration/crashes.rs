//! Crashes between a decision and its effects: the run continues, and the uses of its grants are the same at the end.

use std::sync::Arc;

use holdpoint_core::{Event, GrantUse};

use crate::forks::{ExploredRun, Move, Shape};

/// The number of gates that are answered. A run with a loop would never end.
const GATES: usize = 2;

/// Accepts every gate and executes the run until it ends. Returns the run, and the length of its log after
/// each command: the events of a command are one commit.
fn finished(mut member: ExploredRun, work: Move) -> (ExploredRun, Vec<usize>) {
    let mut commits = vec![member.log.len()];
    loop {
        let steps = [work, Move::Work, Move::Vote("ann", "accept"), Move::Vote("bob", "accept")];
        let open = member.run.open_interrupts().next().is_some();
        if open && member.run.interrupts.len() > GATES {
            return (member, commits);
        }
        let advance = |step: &Move| {
            member.apply_move(*step).ok().filter(|next| next.fingerprint() != member.fingerprint())
        };
        let Some(next) = steps.iter().find_map(advance) else { return (member, commits) };
        member = next;
        commits.push(member.log.len());
    }
}

/// Returns the uses of every grant, without their times and their order.
fn uses(member: &ExploredRun) -> Vec<Vec<(String, u32)>> {
    let shown = |one: &GrantUse| (one.node.to_string(), one.visit);
    let sorted = |mut uses: Vec<(String, u32)>| {
        uses.sort();
        uses
    };
    member.run.interrupts.iter().map(|asked| sorted(asked.uses.iter().map(shown).collect())).collect()
}

/// Returns the run with the log of an older version, which did not record the uses of grants.
fn without_uses(mut member: ExploredRun) -> ExploredRun {
    for event in &mut member.log {
        if let Event::NodeStarted { uses, .. } = Arc::make_mut(event) {
            uses.clear();
        }
    }
    member
}

#[test]
fn a_crash_between_decision_and_effect_changes_no_use() {
    for (shape, gates) in [(Shape::Chain, 1), (Shape::Parallel, 1), (Shape::Loop, 2)] {
        for work in [Move::Work, Move::WorkBeside] {
            let (whole, commits) = finished(ExploredRun::new(shape), work);
            let both = |visit| ["mail", "pay"].map(|node| (node.to_owned(), visit)).to_vec();
            let expected: Vec<_> = (1..=gates).map(both).collect();
            assert_eq!(uses(&whole)[..expected.len()], expected, "{shape:?}");
            for commit in commits {
                let (after, _) = finished(whole.crashed_at(commit), work);
                assert_eq!(uses(&after), uses(&whole), "{shape:?} after event {commit}");
                let (older, _) = finished(without_uses(whole.clone()).crashed_at(commit), work);
                assert_eq!(uses(&older), uses(&whole), "{shape:?} of an older version after event {commit}");
            }
        }
    }
}
