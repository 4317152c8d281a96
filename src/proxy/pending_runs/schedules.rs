//! A waiting run in many orders of two readers and the timeout: exactly one gets it.

use super::*;
use crate::sync::explore;
use shuttle::thread;

const KEY: PendingKey = PendingKey { thread: [1; 32], caller: [2; 32] };

#[test]
fn exactly_one_takes_a_waiting_run() {
    explore(|| {
        let pending = PendingRuns::default();
        let mut reservation = pending.reserve(KEY, Duration::from_secs(60)).expect("free");
        // As `offer` does, whose task is the last thread here.
        reservation.owns_entry = false;
        let (taken_tx, mut taken) = oneshot::channel();
        let offer = Some(PendingOffer { reader: 7, _taken_tx: taken_tx });
        pending.0.lock().insert(KEY.thread, PendingEntry { caller: KEY.caller, offer });
        let readers = [(); 2].map(|()| {
            let pending = pending.clone();
            thread::spawn(move || {
                let taken = pending.take(&KEY.thread);
                // The next run of the thread may wait at once.
                if taken.is_some() {
                    std::mem::forget(pending.reserve(KEY, Duration::from_secs(60)).expect("free again"));
                }
                taken.is_some()
            })
        });
        let timeout = thread::spawn({
            let pending = pending.clone();
            move || pending.withdraw(&KEY.thread, &mut taken).is_some()
        });
        let taken = readers.map(|reader| reader.join().expect("no panic"));
        let withdrawn = timeout.join().expect("no panic");
        assert_eq!([taken[0], taken[1], withdrawn].iter().filter(|got| **got).count(), 1);
        // The timeout leaves the next run alone.
        assert_eq!(pending.0.lock().len(), usize::from(!withdrawn));
    });
}
