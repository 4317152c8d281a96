//! The data in Redis: keys, scripts, and the messages between processes.
//!
//! | key                  | value                                                                                         |
//! |----------------------|-----------------------------------------------------------------------------------------------|
//! | `run:{key}`          | a hash: `t`oken, `b`ody, `th`read, owner (`h`), `s`tate (open, ended, gone, cut), `n`umber of the last |
//! |                      | frame, `base` (the summary) and the last frame in it (`k`), `m`essages and st`a`te of the input, `d`ialect, |
//! |                      | `c`ontent, ids (`i`, `r`), `stop` if requested, `u` if too large to be joined                  |
//! | `run:{key}:token`    | a stream of its frames; the id of an entry is the number of its first and of its last frame   |
//! | `last:thread`        | the key of the last run of a thread                                                           |
//! | `home:process`       | the lease of a process; also the channel of its messages                                      |
//!
//! A run's frames have the run's hash tag. Every script that writes for an owner first checks that it still owns the
//! run, and is idempotent, since a call that timed out may have been executed.

use crate::replay::RunToken;
use crate::replay::store::ReplayKey;
use redis::Script;
use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

pub(super) const LEASE_TTL: Duration = Duration::from_secs(5);

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)+) => {
        $($(#[$doc])* pub(super) static $name: LazyLock<Script> = LazyLock::new(|| Script::new($text));)+
    };
}

scripts! {
    /// Renews a lease. Returns whether it was missing.
    HEARTBEAT = "
        local fresh = redis.call('EXISTS', KEYS[1]) == 0
        redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])
        return fresh and 1 or 0";

    /// Claims a run (token, body, a token that may be replaced, ms, its key, fields …), unless another run has the key.
    CLAIM = "
        local t, b, s, h = unpack(redis.call('HMGET', KEYS[1], 't', 'b', 's', 'h'))
        if t and t ~= ARGV[1] and t ~= ARGV[3] and s ~= 'gone' and s ~= 'cut' then
            if b == ARGV[2] then return {'known', t, h} end
            if s == 'open' then return {'taken', t, h} end
        end
        if t ~= ARGV[1] then
            if t then redis.call('DEL', KEYS[1] .. ':' .. t) end
            redis.call('DEL', KEYS[1])
            redis.call('HSET', KEYS[1], 't', ARGV[1], 'b', ARGV[2], 's', 'open', 'n', 0, 'k', 0, unpack(ARGV, 6))
        end
        redis.call('PEXPIRE', KEYS[1], ARGV[4])
        redis.call('SET', KEYS[2], ARGV[5], 'PX', ARGV[4])
        return {'mine', '', ''}";

    /// Appends frames (token, first, last, frames, ms, a message, the channel of each follower …). Returns 1, or 2 if a
    /// stop was requested, -1 if earlier frames are missing, -2 if another run has the key.
    APPEND = "
        local t, s, n, stop = unpack(redis.call('HMGET', KEYS[1], 't', 's', 'n', 'stop'))
        if not t then return -1 end
        if t ~= ARGV[1] or s ~= 'open' then return -2 end
        local first, last = tonumber(ARGV[2]), tonumber(ARGV[3])
        if tonumber(n) < last then
            if tonumber(n) + 1 ~= first then return -1 end
            redis.call('XADD', KEYS[2], ARGV[2] .. '-' .. ARGV[3], 'f', ARGV[4])
            redis.call('HSET', KEYS[1], 'n', ARGV[3])
        end
        redis.call('PEXPIRE', KEYS[1], ARGV[5])
        redis.call('PEXPIRE', KEYS[2], ARGV[5])
        for at = 7, #ARGV do redis.call('PUBLISH', ARGV[at], ARGV[6]) end
        return stop and 2 or 1";

    /// Replaces the oldest frames with a summary (token, last replaced frame, summary, whether to discard all frames,
    /// ms). Readers can no longer join if the summary is empty. Returns the same codes as `APPEND`.
    SUM = "
        local t, s, n = unpack(redis.call('HMGET', KEYS[1], 't', 's', 'n'))
        if not t then return -1 end
        if t ~= ARGV[1] or s ~= 'open' then return -2 end
        local through = tonumber(ARGV[2])
        if ARGV[4] == '1' then
            redis.call('DEL', KEYS[2])
            n = '0'
        end
        redis.call('HDEL', KEYS[1], 'm', 'a')
        if ARGV[3] == '' then
            redis.call('HDEL', KEYS[1], 'base')
            redis.call('HSET', KEYS[1], 'u', 1)
        else
            redis.call('HSET', KEYS[1], 'base', ARGV[3])
        end
        redis.call('HSET', KEYS[1], 'k', ARGV[2], 'n', math.max(through, tonumber(n)))
        redis.call('XTRIM', KEYS[2], 'MINID', through + 1)
        redis.call('PEXPIRE', KEYS[1], ARGV[5])
        return 1";

    /// Verifies a run (token, ms, the last copied frame) and renews its expiry. Returns the same codes as `APPEND`.
    TOUCH = "
        local t, s, n, stop = unpack(redis.call('HMGET', KEYS[1], 't', 's', 'n', 'stop'))
        if not t or (t == ARGV[1] and tonumber(n) < tonumber(ARGV[3])) then return -1 end
        if t ~= ARGV[1] or s ~= 'open' then return -2 end
        if tonumber(n) > 0 and redis.call('EXISTS', KEYS[2]) == 0 then return -1 end
        redis.call('PEXPIRE', KEYS[1], ARGV[2])
        redis.call('PEXPIRE', KEYS[2], ARGV[2])
        return stop and 2 or 1";

    /// Records the end of a run (token, state, ms, the last copied frame, a message, the channel of each follower …).
    /// Returns the same codes as `APPEND`.
    END = "
        local t, n = unpack(redis.call('HMGET', KEYS[1], 't', 'n'))
        if not t then return -1 end
        if t ~= ARGV[1] then return -2 end
        if tonumber(n) < tonumber(ARGV[4]) then return -1 end
        redis.call('HSET', KEYS[1], 's', ARGV[2])
        redis.call('PEXPIRE', KEYS[1], ARGV[3])
        redis.call('PEXPIRE', KEYS[2], ARGV[3])
        for at = 6, #ARGV do redis.call('PUBLISH', ARGV[at], ARGV[5]) end
        return 1";

    /// Deletes an evicted run (token, its key): its frames, and the rest unless another run has the key.
    EVICT = "
        redis.call('DEL', KEYS[2])
        if redis.call('HGET', KEYS[1], 't') ~= ARGV[1] then return 0 end
        redis.call('DEL', KEYS[1])
        if redis.call('GET', KEYS[3]) == ARGV[2] then redis.call('DEL', KEYS[3]) end
        return 1";

    /// Reads frames (token, the last frame already read, maximum number of entries, of bytes unless one entry is
    /// larger). Returns the state (empty if the run is gone), the last frame's number, and entries, the first of which
    /// may start with frames already read.
    READ = "
        local t, s, n = unpack(redis.call('HMGET', KEYS[1], 't', 's', 'n'))
        if t ~= ARGV[1] then return {'', 0, {}} end
        local from = string.format('%.0f', tonumber(ARGV[2]) + 1)
        local before = redis.call('XREVRANGE', KEYS[2], from, '-', 'COUNT', 1)
        if #before == 1 then
            local last = string.match(before[1][1], '-(%d+)$')
            if tonumber(last) > tonumber(ARGV[2]) then from = before[1][1] end
        end
        local entries, bytes = redis.call('XRANGE', KEYS[2], from, '+', 'COUNT', ARGV[3]), 0
        for at, entry in ipairs(entries) do
            bytes = bytes + #entry[2][2]
            if at > 1 and bytes > tonumber(ARGV[4]) then
                for after = #entries, at, -1 do entries[after] = nil end
                break
            end
        end
        return {s, tonumber(n), entries}";

    /// Ends an ownerless run (token, owner, number of the last frame, number of the error frame, the error frames, ms)
    /// if it is unchanged. There are no error frames if the last frame is the end of the run.
    END_ORPHANED = "
        local t, s, h, n = unpack(redis.call('HMGET', KEYS[1], 't', 's', 'h', 'n'))
        if t ~= ARGV[1] or s ~= 'open' or h ~= ARGV[2] or n ~= ARGV[3] then return 0 end
        local number = string.format('%.0f', tonumber(n) + 1)
        if ARGV[5] ~= '' then redis.call('XADD', KEYS[2], number .. '-' .. ARGV[4], 'f', ARGV[5]) end
        redis.call('HSET', KEYS[1], 'n', ARGV[4], 's', 'ended')
        redis.call('PEXPIRE', KEYS[1], ARGV[6])
        redis.call('PEXPIRE', KEYS[2], ARGV[6])
        return 1";

    /// Requests that a run end. Returns whether the run exists, its owner if it is open, and whether the caller has a
    /// lease.
    STOP = "
        local t, s, h = unpack(redis.call('HMGET', KEYS[1], 't', 's', 'h'))
        if not t or s == 'gone' or s == 'cut' then return {0, '', redis.call('EXISTS', KEYS[2])} end
        if s ~= 'open' then return {1, '', 1} end
        redis.call('HSET', KEYS[1], 'stop', 1)
        return {1, h, 1}";
}

#[derive(Debug)]
pub(super) struct RedisKeys(String);

impl RedisKeys {
    pub(crate) fn new(prefix: &str) -> RedisKeys {
        RedisKeys(prefix.to_owned())
    }

    pub(crate) fn run(&self, run: &ReplayKey) -> String {
        format!("{}run:{{{}}}", self.0, hex::encode(run))
    }

    pub(crate) fn frames(&self, run: &ReplayKey, token: RunToken) -> String {
        format!("{}:{}", self.run(run), token.as_str())
    }

    pub(crate) fn last(&self, thread: &ReplayKey) -> String {
        format!("{}last:{}", self.0, hex::encode(thread))
    }

    pub(crate) fn process(&self, process: &str) -> String {
        format!("{}home:{process}", self.0)
    }
}

/// A message from one process to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplicaMessage<'a> {
    /// the run has new frames
    Updated(ReplayKey),
    Stop(ReplayKey),
    /// the named process has readers of the run
    Following(ReplayKey, &'a str),
}

impl<'a> ReplicaMessage<'a> {
    pub(crate) fn parse(message: &'a [u8]) -> Option<ReplicaMessage<'a>> {
        let mut parts = std::str::from_utf8(message).ok()?.split(' ');
        let name = parts.next()?;
        let run = parse_key(parts.next()?)?;
        match (name, parts.next()) {
            ("news", None) => Some(ReplicaMessage::Updated(run)),
            ("stop", None) => Some(ReplicaMessage::Stop(run)),
            ("listening", Some(process)) => Some(ReplicaMessage::Following(run, process)),
            _ => None,
        }
    }
}

impl fmt::Display for ReplicaMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplicaMessage::Updated(run) => write!(f, "news {}", hex::encode(run)),
            ReplicaMessage::Stop(run) => write!(f, "stop {}", hex::encode(run)),
            ReplicaMessage::Following(run, process) => write!(f, "listening {} {process}", hex::encode(run)),
        }
    }
}

pub(super) fn parse_key(text: &str) -> Option<ReplayKey> {
    let mut key = ReplayKey::default();
    hex::decode_to_slice(text, &mut key).ok()?;
    Some(key)
}

/// Returns the frames after `number`; `first` is the number of the first frame in `frames`.
pub(super) fn frames_after(frames: &[u8], first: u64, number: u64) -> &[u8] {
    let skipped = usize::try_from((number + 1).saturating_sub(first)).unwrap_or(usize::MAX);
    let from = crate::replay::log::frame_ends(frames).take(skipped).last().unwrap_or_default();
    frames.get(from..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_only_messages_that_it_wrote() {
        let key: ReplayKey = std::array::from_fn(|index| u8::try_from(index * 7).unwrap_or(255));
        for message in [ReplicaMessage::Updated(key), ReplicaMessage::Stop(key), ReplicaMessage::Following(key, "abc")]
        {
            assert_eq!(ReplicaMessage::parse(message.to_string().as_bytes()), Some(message));
        }
        for text in ["", "news", "news 12", "listening", "news \u{e9}", &format!("stop {} x", hex::encode(key))] {
            assert_eq!(ReplicaMessage::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn skips_frames_already_delivered() {
        let frames = b"data: 4\n\ndata: 5\n\ndata: 6\n\n";
        for (number, left) in [(0, 27), (3, 27), (4, 18), (5, 9), (6, 0), (9, 0)] {
            assert_eq!(frames_after(frames, 4, number).len(), left, "{number}");
        }
    }
}
