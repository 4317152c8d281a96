//! Slow clients in many orders: whoever is cut off is woken, and nothing stays counted.

use super::*;
use crate::sync::explore;
use shuttle::future::block_on;
use shuttle::thread;

const CLIENTS: u64 = 3;

#[test]
fn wakes_every_client_but_the_last() {
    let metrics = Arc::new(Metrics::new().expect("unique names"));
    explore(move || {
        // One fits.
        let clients = SlowClients::new(AGENT_READ_BUFFER, Arc::clone(&metrics));
        let waits = (0..CLIENTS).map(|_| {
            let clients = Arc::clone(&clients);
            thread::spawn(move || {
                let guard = clients.wait([1; 32], AGENT_READ_BUFFER);
                if guard.number < CLIENTS {
                    block_on(guard.wait_chosen());
                }
                assert!(clients.waiting.lock().bytes <= AGENT_READ_BUFFER);
            })
        });
        waits.collect::<Vec<_>>().into_iter().for_each(|wait| wait.join().expect("no panic"));
        assert_eq!(clients.waiting.lock().bytes, 0);
    });
}
