//! The runs: each explores one setting to its end and says how many states that were.

use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Path};

use crate::flow::Flow;
use crate::properties::PROMISES;
use crate::setting::Setting;
use crate::state::{Action, State};

/// Explores every reachable state, and asserts that all promises hold in each and that what should happen sometimes does.
pub fn holds(setting: &Setting, reaches: &[&str]) {
    let discoveries = explore(setting, &PROMISES);
    for event in reaches {
        assert!(
            discoveries.contains_key(event),
            "{}: never reached: {event}",
            setting.name
        );
    }
}

/// Explores every reachable state, and asserts that all of `rules` hold in each; says what else was found.
pub fn explore(
    setting: &Setting,
    rules: &[&'static str],
) -> HashMap<&'static str, Path<State, Action>> {
    let started = Instant::now();
    let any_broken = HasDiscoveries::AnyOf(rules.iter().copied().collect());
    let checker = Flow::new(setting.clone())
        .checker()
        .threads(setting.threads)
        .finish_when(any_broken)
        .spawn_bfs()
        .join();
    println!(
        "model, {}: {} states, {} steps, depth {}, {:.1} s",
        setting.name,
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        started.elapsed().as_secs_f32(),
    );
    let discoveries = checker.discoveries();
    for rule in rules {
        if let Some(path) = discoveries.get(rule) {
            let last = path.last_state();
            panic!(
                "{}: not true: {rule}\n{}\n{last:?}\n{:?}",
                setting.name,
                story(path),
                checker.model().worst_ending(last)
            );
        }
    }
    // Without a violation nothing but an empty queue ends a run: no depth, no count and no time is set as a target.
    assert!(
        checker.is_done(),
        "{}: not explored to its end",
        setting.name
    );
    discoveries
}

/// Asserts that the promise is broken under this setting, and tells the shortest story of how.
pub fn is_broken(setting: &Setting, promise: &'static str) {
    let mut shortest = counterexample(setting, promise, None)
        .unwrap_or_else(|| panic!("{}: nothing breaks: {promise}", setting.name));
    // The checker looks at some more states after the first counterexample and may keep a later one, so it is asked for a
    // shorter one until there is none.
    loop {
        let depth = shortest.clone().into_actions().len() + 1;
        match counterexample(setting, promise, Some(depth)) {
            Some(shorter) => shortest = shorter,
            None => break,
        }
    }
    println!(
        "model, {}: not true in {} steps: {promise}\n{}",
        setting.name,
        shortest.clone().into_actions().len(),
        story(&shortest)
    );
}

fn counterexample(
    setting: &Setting,
    promise: &'static str,
    depth_max: Option<usize>,
) -> Option<Path<State, Action>> {
    let checker = Flow::new(setting.clone())
        .checker()
        .finish_when(HasDiscoveries::AllOf(BTreeSet::from([promise])));
    let checker = match depth_max {
        Some(depth) => checker.target_max_depth(depth),
        None => checker,
    };
    checker.spawn_bfs().join().discovery(promise)
}

fn story(path: &Path<State, Action>) -> String {
    let actions = path.clone().into_actions();
    let lines = actions.iter().map(|action| format!("    {action:?}"));
    lines.collect::<Vec<_>>().join("\n")
}
