//! The budget in many orders of bodies that grow and end: it is never exceeded, and everything is returned.

use super::*;
use crate::sync::explore;
use shuttle::thread;

#[test]
fn is_never_exceeded_and_gets_everything_back() {
    const ALL: usize = 40;
    let metrics = Arc::new(Metrics::new().expect("unique names"));
    explore(move || {
        let budget = BodyBudget::new(BodyBounds { one: 20, all: ALL }, Arc::clone(&metrics));
        let bodies = [(1, 20), (1, 15), (2, 20), (3, 5)].map(|(caller, size)| {
            let budget = Arc::clone(&budget);
            thread::spawn(move || {
                let mut permit = budget.start_without_head([caller; 32]);
                let grown = (1..=size).take_while(|bytes| permit.grow_to(*bytes).is_ok()).count();
                let usage = budget.usage.lock();
                assert!(usage.total <= ALL && usage.callers.values().all(|bytes| *bytes <= 20));
                assert_eq!(usage.total, usage.callers.values().sum::<usize>());
                // A body is refused only while the memory is taken, by itself and others.
                assert!(grown <= size && usage.total >= grown);
            })
        });
        bodies.into_iter().for_each(|body| body.join().expect("no panic"));
        let usage = budget.usage.lock();
        assert!(usage.total == 0 && usage.callers.is_empty());
    });
}
