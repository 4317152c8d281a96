//! The pipe in many orders of its run and its client: no wake-up is lost, and the client gets every byte and one end.

use super::*;
use crate::sync::explore;
use crate::telemetry::Metrics;
use http_body_util::BodyExt;
use shuttle::future::block_on;
use shuttle::thread;

const PIECES: u8 = 6;
const CAPACITY: usize = 2;

fn read_all(mut reader: PipeReader) -> Result<Vec<u8>, BodyAborted> {
    let mut bytes = Vec::new();
    while let Some(frame) = block_on(reader.frame()) {
        bytes.extend_from_slice(&frame?.into_data().expect("data"));
    }
    Ok(bytes)
}

fn write_all(writer: &PipeWriter) -> Result<(), PipeClosed> {
    (1..=PIECES).try_for_each(|piece| block_on(writer.write(&mut vec![piece])))
}

#[test]
fn a_client_gets_every_byte_and_one_end() {
    let slow_clients = SlowClients::new(1 << 20, Arc::new(Metrics::new().expect("unique names")));
    explore(move || {
        let (writer, reader) = pipe(CAPACITY, ());
        reader.attach(Version::HTTP_11);
        let client = thread::spawn(move || read_all(reader));
        write_all(&writer).expect("the client reads");
        writer.push(&mut vec![PIECES + 1]).expect("the client reads");
        block_on(writer.finish(&slow_clients, [1; 32]));
        assert_eq!(client.join().expect("no panic"), Ok((1..=PIECES + 1).collect()));
    });
}

#[test]
fn a_run_that_ends_early_never_looks_whole() {
    explore(|| {
        let (writer, reader) = pipe(CAPACITY, ());
        let client = thread::spawn(move || read_all(reader));
        write_all(&writer).expect("the client reads");
        drop(writer);
        assert_eq!(client.join().expect("no panic"), Err(BodyAborted));
    });
}

#[test]
fn a_run_notices_that_its_client_has_left() {
    explore(|| {
        let (writer, mut reader) = pipe(CAPACITY, ());
        let client = thread::spawn(move || {
            let _ = block_on(reader.frame());
        });
        // At the latest when there is no room.
        while block_on(writer.write(&mut vec![1])).is_ok() {}
        block_on(writer.wait_closed());
        client.join().expect("no panic");
    });
}

#[test]
fn a_client_that_is_disconnected_gets_an_error() {
    explore(|| {
        let (writer, reader) = pipe(CAPACITY, ());
        let client = thread::spawn(move || read_all(reader));
        let _ = block_on(writer.write(&mut vec![1]));
        writer.disconnect();
        assert_eq!(client.join().expect("no panic"), Err(BodyAborted));
        drop(writer);
    });
}
