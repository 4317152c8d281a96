//! Target `proxy-header`: the PROXY protocol, versions 1 and 2.
//!
//! The laws: the result does not depend on the pieces; not one byte after the header is taken from the connection, and what follows
//! does not change the result; a part of a header is never a header.

use crate::judge::Judge;
use crate::sides::cuts;
use crate::work;
use diglot::fuzzing::proxy_header::read_proxy_header;
use std::io;

const BASE_WORK: u64 = 10_000;
const WORK_PER_BYTE: u64 = 50;

/// The longest header (536 bytes in version 2).
const LONGEST: usize = 536;

pub fn run(input: &[u8]) {
    let judge = Judge { target: "proxy-header", input };
    let (whole, work) = work::measure(|| read_proxy_header(&[input]));
    judge.require_linear(work, BASE_WORK, WORK_PER_BYTE);
    judge.require(whole.consumed <= LONGEST, || format!("took {} bytes", whole.consumed));
    for pieces in cuts(input) {
        let split = read_proxy_header(&pieces);
        judge.require(split == whole, || format!("depends on the pieces: {whole:?} {split:?}"));
    }
    let header = &input[..whole.consumed];
    let alone = read_proxy_header(&[header]);
    match whole.source {
        Ok(_) => {
            judge.require(alone == whole, || format!("depends on what follows: {whole:?} {alone:?}"));
            for end in 0..header.len() {
                let part = read_proxy_header(&[&header[..end]]);
                judge.require(part.source == Err(io::ErrorKind::UnexpectedEof), || format!("{end} bytes: {part:?}"));
            }
        }
        Err(io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData) => {}
        Err(kind) => judge.fail(&format!("an unexpected error: {kind:?}")),
    }
}
