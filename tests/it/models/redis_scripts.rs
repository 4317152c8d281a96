//! Holds `redis_model` to the real scripts: the same operations on the model and on a real Redis have the same results.

use super::super::support::redis::Redis;
use super::redis_model::{ClaimAnswer, Frame, RedisModel, RunState, StreamEntry, WriteAnswer};
use redis::{Connection, FromRedisValue, Script, ScriptInvocation};
use std::collections::HashMap;

const SOURCE: &str = include_str!("../../../src/replay/replication/redis_protocol.rs");

const RUN: &str = "run:{key}";
/// The fields of a run, and the entries of each of its streams: id and frames.
type RedisContents = (Vec<Option<String>>, Vec<Vec<(String, String)>>);

/// An entry of a stream as Redis returns it: id, field and frames.
type RawEntry = (String, (String, String));

const LAST_OF_THREAD: &str = "last:thread";
const TTL: u32 = 60_000;
const PROCESSES: [&str; 2] = ["home:0", "home:1"];

/// Operations on one key; enough for every order of a few of them.
const SEQUENCES: u64 = 1_500;
const LENGTH: usize = 14;

/// Draws numbers from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u8) -> u8 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u8::try_from((mixed ^ (mixed >> 31)) % u64::from(bound)).expect("below a byte")
    }
}

struct RealRedis {
    connection: Connection,
    scripts: HashMap<&'static str, Script>,
}

fn scripts() -> HashMap<&'static str, Script> {
    let names = ["HEARTBEAT", "CLAIM", "APPEND", "SUM", "TOUCH", "END", "READ", "END_ORPHANED", "STOP"];
    let text = |name: &str| {
        let (_, rest) = SOURCE.split_once(&format!("    {name} = \"\n")).expect("the script");
        let (text, _) = rest.split_once("\";").expect("its end");
        assert!(!text.contains('\\'), "{name} is written without escapes");
        text
    };
    names.into_iter().map(|name| (name, Script::new(text(name)))).collect()
}

fn stream_key(token: u8) -> String {
    format!("{RUN}:{token}")
}

fn state_name(state: RunState) -> &'static str {
    match state {
        RunState::Open => "open",
        RunState::Ended => "ended",
        RunState::Gone => "gone",
        RunState::Cut => "cut",
    }
}

fn frames_text(frames: &[Frame]) -> String {
    frames.iter().map(|frame| format!("data: {frame}\n\n")).collect()
}

fn write_code(answer: WriteAnswer) -> i64 {
    match answer {
        WriteAnswer::Written => 1,
        WriteAnswer::StopRequested => 2,
        WriteAnswer::Missing => -1,
        WriteAnswer::Superseded => -2,
    }
}

fn entry_texts(entries: &[StreamEntry]) -> Vec<(String, String)> {
    entries.iter().map(|entry| (format!("{}-{}", entry.first, entry.last), frames_text(&entry.frames))).collect()
}

impl RealRedis {
    fn call<T: FromRedisValue>(
        &mut self,
        name: &'static str,
        keys: &[&str],
        prepare: impl FnOnce(&mut ScriptInvocation<'_>),
    ) -> T {
        let mut call = self.scripts[name].prepare_invoke();
        keys.iter().for_each(|key| {
            call.key(*key);
        });
        prepare(&mut call);
        call.invoke(&mut self.connection).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn write(&mut self, name: &'static str, token: u8, prepare: impl FnOnce(&mut ScriptInvocation<'_>)) -> i64 {
        let stream = stream_key(token);
        self.call(name, &[RUN, &stream], |call| {
            call.arg(token);
            prepare(call);
        })
    }

    fn delete(&mut self, key: &str) {
        redis::cmd("DEL").arg(key).exec(&mut self.connection).expect("deleted");
    }

    fn claim(&mut self, token: u8, body: u8, replaceable: Option<u8>, owner: usize) -> (String, String, String) {
        self.call("CLAIM", &[RUN, LAST_OF_THREAD], |call| {
            call.arg(token).arg(body).arg(replaceable.map(|token| token.to_string()).unwrap_or_default());
            call.arg(TTL).arg("key").arg("h").arg(owner);
        })
    }

    /// Returns what the model has, too.
    fn contents(&mut self) -> RedisContents {
        let fields = ["t", "b", "h", "s", "n", "k", "base", "stop"];
        let hash = redis::cmd("HMGET").arg(RUN).arg(&fields).query(&mut self.connection).expect("a hash");
        let stream = |token| {
            let entries: Vec<RawEntry> = redis::cmd("XRANGE")
                .arg(stream_key(token))
                .arg("-")
                .arg("+")
                .query(&mut self.connection)
                .expect("a stream");
            entries.into_iter().map(|(id, (_, frames))| (id, frames)).collect()
        };
        (hash, (1..=2).map(stream).collect())
    }
}

fn model_contents(model: &RedisModel) -> RedisContents {
    let hash = model.run.as_ref().map_or(vec![None; 8], |run| {
        let numbers = [usize::from(run.token), usize::from(run.body), run.owner].map(|number| Some(number.to_string()));
        let rest = [
            Some(state_name(run.state).to_owned()),
            Some(run.last.to_string()),
            Some(run.summed.to_string()),
            Some(frames_text(&run.base)).filter(|base| !base.is_empty()),
            run.stop.then(|| "1".to_owned()),
        ];
        numbers.into_iter().chain(rest).collect()
    });
    (hash, (1..=2).map(|token| entry_texts(model.stream(token))).collect())
}

/// Does one operation on both, and compares the answers.
fn step(dice: &mut Dice, model: &mut RedisModel, real: &mut RealRedis) -> String {
    let token = 1 + dice.below(2);
    let frames = |first: u8, last: u8| (first..=last).map(|number| token * 16 + number).collect::<Vec<Frame>>();
    match dice.below(12) {
        0 | 1 => {
            let (body, owner) = (dice.below(2), usize::from(token - 1));
            let replaceable = (dice.below(3) == 0).then_some(3 - token);
            let was_own = model.run.as_ref().is_some_and(|run| run.token == token);
            let expected = match model.claim(token, body, replaceable, owner) {
                ClaimAnswer::Mine => "mine",
                ClaimAnswer::Known => "known",
                ClaimAnswer::Taken { .. } => "taken",
            };
            assert_eq!(real.claim(token, body, replaceable, owner).0, expected);
            if expected == "mine" && !was_own {
                // Tokens are unique, so no stream is there before.
                model.streams.retain(|stream| stream.token != token);
                real.delete(&stream_key(token));
            }
            format!("claim {token} {body} {replaceable:?}: {expected}")
        }
        2..=4 => {
            let next = model.run.as_ref().map_or(1, |run| run.last + 1);
            let first = if dice.below(4) == 0 { 1 + dice.below(4) } else { next };
            let last = first + dice.below(2);
            let frames = frames(first, last);
            let answer = real.write("APPEND", token, |call| {
                call.arg(first).arg(last).arg(frames_text(&frames)).arg(TTL).arg("news");
            });
            assert_eq!(answer, write_code(model.append(token, first, last, &frames)));
            format!("append {token} {first}..={last}: {answer}")
        }
        5 => {
            let most = model.run.as_ref().map_or(1, |run| run.last.max(1));
            let through = 1 + dice.below(most);
            let anew = dice.below(2) == 0;
            let frames = frames(1, through);
            let answer = real.write("SUM", token, |call| {
                call.arg(through).arg(frames_text(&frames)).arg(u8::from(anew)).arg(TTL);
            });
            assert_eq!(answer, write_code(model.sum(token, through, &frames, anew)));
            format!("sum {token} {through} {anew}: {answer}")
        }
        6 => {
            let copied = dice.below(4);
            let answer = real.write("TOUCH", token, |call| {
                call.arg(TTL).arg(copied);
            });
            assert_eq!(answer, write_code(model.touch(token, copied)));
            format!("touch {token} {copied}: {answer}")
        }
        7 => {
            let how = [RunState::Ended, RunState::Gone, RunState::Cut][usize::from(dice.below(3))];
            let copied = dice.below(4);
            let answer = real.write("END", token, |call| {
                call.arg(state_name(how)).arg(TTL).arg(copied).arg("news");
            });
            assert_eq!(answer, write_code(model.end(token, how, copied)));
            format!("end {token} {how:?} {copied}: {answer}")
        }
        8 => {
            let owner = usize::from(dice.below(2));
            let copied = model.run.as_ref().map_or(0, |run| run.last).saturating_sub(dice.below(2));
            let frames = if dice.below(2) == 0 { vec![] } else { frames(copied + 1, copied + 2) };
            let last = usize::from(copied) + frames.len();
            let answer = real.write("END_ORPHANED", token, |call| {
                call.arg(owner).arg(copied).arg(last).arg(frames_text(&frames)).arg(TTL);
            });
            assert_eq!(answer == 1, model.end_orphaned(token, owner, copied, &frames));
            format!("end_orphaned {token} {owner} {copied}: {answer}")
        }
        9 => {
            let caller = usize::from(dice.below(2));
            let (exists, _, leased): (bool, String, bool) = real.call("STOP", &[RUN, PROCESSES[caller]], |_| {});
            assert_eq!((exists, leased), model.stop(caller));
            format!("stop: {exists} {leased}")
        }
        10 => {
            let process = usize::from(dice.below(2));
            let missing: bool = real.call("HEARTBEAT", &[PROCESSES[process]], |call| {
                call.arg(TTL);
            });
            assert_eq!(missing, model.heartbeat(process));
            format!("heartbeat {process}: {missing}")
        }
        _ => {
            real.delete(PROCESSES[0]);
            model.leases[0] = false;
            "the lease of 0 expires".to_owned()
        }
    }
}

/// Reads after every frame, and compares.
fn compare_reads(model: &RedisModel, real: &mut RealRedis) {
    for (token, after) in (1..=2).flat_map(|token| (0..6).map(move |after| (token, after))) {
        let stream = stream_key(token);
        let (state, last, entries): (String, u8, Vec<RawEntry>) = real.call("READ", &[RUN, &stream], |call| {
            call.arg(token).arg(after).arg(100).arg(1 << 20);
        });
        let entries: Vec<_> = entries.into_iter().map(|(id, (_, frames))| (id, frames)).collect();
        let expected = model.read(token, after);
        assert_eq!(state, expected.0.map_or("", state_name));
        assert_eq!((last, entries), (expected.1, entry_texts(&expected.2)), "{token} after {after}");
    }
}

#[tokio::test]
async fn the_scripts_do_what_their_models_do() {
    let server = Redis::start().await;
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", server.port())).expect("an address");
    let mut real = RealRedis { connection: client.get_connection().expect("connected"), scripts: scripts() };
    for seed in 0..SEQUENCES {
        redis::cmd("FLUSHALL").exec(&mut real.connection).expect("flushed");
        let (mut dice, mut model) = (Dice(seed), RedisModel::default());
        let mut done = Vec::new();
        for _ in 0..LENGTH {
            done.push(step(&mut dice, &mut model, &mut real));
            assert_eq!(real.contents(), model_contents(&model), "seed {seed}: {done:#?}");
        }
        compare_reads(&model, &mut real);
    }
}
