//! From what the operator wrote to what the program runs on: puts variables in, reads each value, and collects every
//! problem instead of stopping at the first.
//!
//! A value that cannot be read is `None` from there on, and its problem has been noted; the pieces come together with
//! `?`, so that nothing is made up for it.

use std::fmt::Display;

use serde_saphyr::{Location, Spanned};

use super::access::ApiKey;
use super::file::{self, File, KeyFile, OneOrMany, SideMapping, Text};
use super::listen::Listen;
use super::load::Source;
use super::problem::{Position, Problem, Problems, did_you_mean, may_hold_password};
use super::scalar::{self, Fault};
use super::variable::{Expanded, Failure, expand};
use super::{Config, Limits, Route, Timeouts, words};
use crate::dialect::{self, Dialect, Set, Side};

mod access;
mod auth;
mod kept;
mod listen;
mod own;
mod paths;
mod process;
mod rates;
mod reach;
mod replay;
mod secret;
mod upstream;

use paths::Labels;
pub(super) use reach::reach;

/// Checks `file`, which was read from `source`.
pub(super) fn check(source: &Source<'_>, file: &File) -> Result<Config, Problems> {
    let mut check = Check::new(source);
    let config = check.config(file);
    check.end(config)
}

/// Checks the API keys of `file`, which was read from `source`.
pub(super) fn check_keys(source: &Source<'_>, file: &KeyFile) -> Result<Vec<ApiKey>, Problems> {
    let mut check = Check::new(source);
    let keys = check.key_list(&file.keys);
    check.end(keys)
}

struct Check<'a> {
    source: Source<'a>,
    /// Dialects of this file.
    dialects: Vec<&'static Dialect>,
    /// Names of those that have mistakes, which were noted where they are.
    mistaken: Vec<String>,
    /// Where the data plane listens, as far as it could be read: no upstream may lead back there.
    own: Vec<Seen<Listen>>,
    /// Issuers and lists of API keys, for routes to name.
    methods: Vec<auth::Method>,
    /// Rate limits, for routes to name; in the order of the file.
    policies: Vec<rates::Known>,
    problems: Vec<Problem>,
}

impl<'a> Check<'a> {
    fn new(source: &Source<'a>) -> Check<'a> {
        let (dialects, mistaken, own) = (Vec::new(), Vec::new(), Vec::new());
        let (methods, policies, problems) = (Vec::new(), Vec::new(), Vec::new());
        Check { source: *source, dialects, mistaken, own, methods, policies, problems }
    }

    fn end<T>(self, read: Option<T>) -> Result<T, Problems> {
        match read {
            Some(read) if self.problems.is_empty() => Ok(read),
            _ => Err(Problems::new(self.problems)),
        }
    }
}

/// A scalar with its variables put in, on its way to becoming a value.
struct Scalar {
    text: String,
    /// How messages name it: as it was written, so never with what came from a variable.
    shown: String,
    substituted: bool,
}

/// A value and where it was written.
#[derive(Clone)]
struct Seen<T> {
    value: T,
    path: String,
    position: Option<Position>,
}

impl<T> Seen<T> {
    /// A wrong value is shown where it is defined; two of the same are told apart by where they are used.
    fn new(value: T, path: &str, used: Location) -> Seen<T> {
        Seen { value, path: path.to_owned(), position: position(used) }
    }

    fn place(&self) -> String {
        match self.position {
            Some(position) => format!("{} ({position})", self.path),
            None => format!("the default of {}", self.path),
        }
    }
}

impl Check<'_> {
    fn config(&mut self, file: &File) -> Option<Config> {
        let trusted_proxies = self.trusted_proxies(&file.trusted_proxies);
        let listeners = self.listeners(&file.listeners, trusted_proxies.as_ref());
        let replay = self.replay(&file.replay, file.redis.is_some());
        let limits = self.limits(&file.limits);
        let keep_alive = self.value(&file.keep_alive, "keep_alive", scalar::duration);
        let process = self.process(file);
        let auth = self.auth(&file.auth);
        let rate_limits = self.rate_limits(file);
        self.dialects(&file.dialects);
        let routes = self.routes(&file.routes);
        let (data, status) = listeners?;
        Some(Config {
            data,
            status,
            trusted_proxies: trusted_proxies?,
            auth: auth?,
            rate_limits: rate_limits?,
            limits: limits?,
            keep_alive: keep_alive?,
            process: process?,
            replay: replay?,
            routes: routes?,
        })
    }

    fn limits(&mut self, limits: &file::Limits) -> Option<Limits> {
        let request_body = self.value(&limits.request_body, "limits.request_body", scalar::size);
        let frame = self.value(&limits.frame, "limits.frame", scalar::size);
        let client_buffer = self.value(&limits.client_buffer, "limits.client_buffer", scalar::size);
        let header_bytes = self.value(&limits.header_bytes, "limits.header_bytes", scalar::head_size);
        let headers = self.value(&limits.headers, "limits.headers", scalar::count);
        let head_timeout = self.value(&limits.head_timeout, "limits.head_timeout", scalar::duration);
        let body_timeout = self.value(&limits.body_timeout, "limits.body_timeout", scalar::duration);
        let idle_timeout = self.value(&limits.idle_timeout, "limits.idle_timeout", scalar::duration);
        let connections = self.value(&limits.connections, "limits.connections", scalar::count);
        let path = "limits.connections_per_address";
        let connections_per_address = self.optional(limits.connections_per_address.as_ref(), path, scalar::count);
        let max_streams = self.optional(limits.max_streams.as_ref(), "limits.max_streams", scalar::count);
        Some(Limits {
            request_body: request_body?,
            frame: frame?,
            client_buffer: client_buffer?,
            header_bytes: header_bytes?,
            headers: headers?.get(),
            head_timeout: head_timeout?,
            body_timeout: body_timeout?,
            idle_timeout: idle_timeout?,
            connections: connections?.get(),
            connections_per_address: connections_per_address?,
            max_streams: max_streams?,
        })
    }

    fn routes(&mut self, routes: &Spanned<Vec<Spanned<file::Route>>>) -> Option<Vec<Route>> {
        if routes.value.is_empty() {
            let hint =
                "add one: `routes: [{path: /chat, client: ag-ui, agent: hai, upstream: \"http://127.0.0.1:9001/\"}]`";
            self.note("routes", position(routes.defined), "there is no route, so nothing could be served", hint);
            return None;
        }
        let mut labels = Labels::default();
        let mut checked = Vec::new();
        for (index, route) in routes.value.iter().enumerate() {
            checked.push(self.route(route, &format!("routes[{index}]"), &mut labels));
        }
        let (paths, names): (Vec<_>, Vec<_>) = (labels.paths.iter().collect(), labels.names.iter().collect());
        let hint = "send each path to one route: change one of the two, or take one route away";
        self.distinct(&paths, |one, other| one == other, "this path is already taken by", hint);
        let hint = "give each route a name of its own; without one it is named by its path";
        self.distinct(&names, |one, other| one == other, "this name is already taken by", hint);
        self.disjoint(&labels);
        checked.into_iter().collect()
    }

    fn route(&mut self, written: &Spanned<file::Route>, at: &str, labels: &mut Labels) -> Option<Route> {
        let route = &written.value;
        let whole = position(written.defined);
        let path = self.required(route.path.as_ref(), at, "path", whole);
        let path = path.and_then(|path| self.seen(path, &format!("{at}.path"), scalar::path));
        let name = match &route.name {
            Some(name) => self.seen(name, &format!("{at}.name"), scalar::name),
            None => path.clone(),
        };
        labels.add(path.clone(), name.clone());
        let client = self.required(route.client.as_ref(), at, "client", whole);
        let client = client.and_then(|side| self.side(side, &format!("{at}.client")));
        let events_path = self.events_path(route, client, at, labels);
        let on_disconnect = self.on_disconnect(route, path.as_ref(), at, labels);
        let agent = self.required(route.agent.as_ref(), at, "agent", whole);
        let agent = agent.and_then(|side| self.side(side, &format!("{at}.agent")));
        let upstreams = self.required(route.upstream.as_ref(), at, "upstream", whole);
        let upstreams = upstreams.and_then(|list| self.upstreams(list, &format!("{at}.upstream")));
        let (tls, all) = (route.upstream_tls.as_ref(), upstreams.as_deref());
        let upstream_tls = self.upstream_tls(tls, &format!("{at}.upstream_tls"), all);
        let health = self.health(route.health.as_ref(), &format!("{at}.health"));
        let ejection = self.ejection(&route.ejection, &format!("{at}.ejection"));
        let events = route.events.as_ref().map(|events| self.value(events, &format!("{at}.events"), scalar::events));
        let guard = self.choice(&route.guard, &format!("{at}.guard"), words::GUARD);
        let timeouts = self.timeouts(&route.timeouts, &format!("{at}.timeouts"));
        let access = self.access(route, at);
        Some(Route {
            name: name?.value,
            path: path?.value,
            events_path: events_path?,
            on_disconnect: on_disconnect?,
            client: client?,
            agent: agent?,
            upstreams: upstreams?,
            upstream_tls: upstream_tls?,
            health: health?,
            ejection: ejection?,
            events: match events {
                Some(read) => Some(read?),
                None => None,
            },
            guard: guard?,
            timeouts: timeouts?,
            access: access?.into(),
        })
    }

    fn timeouts(&mut self, written: &file::Timeouts, at: &str) -> Option<Timeouts> {
        let connect = self.value(&written.connect, &format!("{at}.connect"), scalar::duration);
        let first_byte = self.value(&written.first_byte, &format!("{at}.first_byte"), scalar::duration);
        let first_event = self.optional(written.first_event.as_ref(), &format!("{at}.first_event"), scalar::duration);
        let idle = self.value(&written.idle, &format!("{at}.idle"), scalar::duration);
        let reader = self.value(&written.reader, &format!("{at}.reader"), scalar::duration);
        Some(Timeouts {
            connect: connect?,
            first_byte: first_byte?,
            first_event: first_event?,
            idle: idle?,
            reader: reader?,
        })
    }

    fn side(&mut self, written: &Spanned<file::Side>, at: &str) -> Option<Side> {
        match &written.value {
            file::Side::Name(name) if name == dialect::AUTO => Some(Side::auto()),
            file::Side::Name(name) => self.dialect(name, at, position(written.defined)).map(Side::new),
            file::Side::Mapping(mapping) => {
                let name = self.required(mapping.dialect.as_ref(), at, "dialect", position(written.defined))?;
                let path = format!("{at}.dialect");
                if name.value == dialect::AUTO {
                    let key = at.rsplit('.').next().unwrap_or(at);
                    let hint = format!("write `{key}: {}`", dialect::AUTO);
                    self.note(&path, position(name.defined), format!("`{}` takes no options", dialect::AUTO), hint);
                    return None;
                }
                let dialect = self.dialect(&name.value, &path, position(name.defined))?;
                self.options(dialect, mapping, at)
            }
        }
    }

    fn options(&mut self, dialect: &'static Dialect, mapping: &SideMapping, at: &str) -> Option<Side> {
        let mut side = Side::new(dialect);
        let written = [
            ("content", &mapping.content),
            ("fields", &mapping.fields),
            ("pin", &mapping.pin),
            ("timestamp", &mapping.timestamp),
        ];
        let mut all = Some(());
        for (key, written) in written {
            let chosen = written.as_ref().map(|written| self.option(dialect, written, at, key));
            match chosen {
                Some(Some(set)) => set(&mut side),
                Some(None) => all = None,
                None => {}
            }
        }
        if let Some(written) = &mapping.interrupt_tool {
            let path = self.belongs(dialect, written, at, dialect::INTERRUPT_TOOL);
            match path.and_then(|path| self.read(&written.value, &path, position(written.defined), scalar::tool)) {
                Some(tool) => side.interrupt_tool = tool,
                None => all = None,
            }
        }
        let side = self.words(mapping, at, side);
        all.and(side)
    }

    /// Whether the dialect has an option; notes it where it is written otherwise.
    fn has_option(&mut self, dialect: &'static Dialect, key: &str, written: Option<&Text>, at: &str) -> bool {
        let has = dialect.options.contains(&key);
        if !has {
            let others = dialect::ALL.iter().filter(|other| other.options.contains(&key)).map(|other| other.name);
            let hint = format!("take it away; it belongs to {}", quoted(others));
            let message = format!("the dialect `{}` has no option `{key}`", dialect.name);
            let place = written.and_then(|written| position(written.defined));
            self.note(&format!("{at}.{key}"), place, message, hint);
        }
        has
    }

    /// What a choice of an option sets.
    fn option(&mut self, dialect: &'static Dialect, written: &Text, at: &str, key: &str) -> Option<Set> {
        let path = self.belongs(dialect, written, at, key)?;
        let choices: Vec<(&str, Set)> = dialect::choices(key).map(|(_, word, set)| (*word, *set)).collect();
        self.choice(written, &path, &choices)
    }

    /// The path of an option, or a note that the dialect does not have it.
    fn belongs(&mut self, dialect: &'static Dialect, written: &Text, at: &str, key: &str) -> Option<String> {
        let path = format!("{at}.{key}");
        if !self.has_option(dialect, key, Some(written), at) {
            return None;
        }
        Some(path)
    }

    /// One of several words.
    fn choice<T: Clone>(&mut self, written: &Text, path: &str, choices: &[(&str, T)]) -> Option<T> {
        let scalar = self.scalar(&written.value, path, position(written.defined))?;
        if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == scalar.text) {
            return Some(choice.clone());
        }
        let message = format!("{} is not a choice here", scalar.shown);
        let names = quoted(choices.iter().map(|(name, _)| name));
        self.note(path, position(written.defined), message, format!("write {names}"));
        None
    }

    fn dialect(&mut self, name: &str, path: &str, position: Option<Position>) -> Option<&'static Dialect> {
        let scalar = self.scalar(name, path, position)?;
        let dialect = self.known_dialect(&scalar.text);
        if dialect.is_none() && !self.mistaken.iter().any(|name| name == scalar.text.as_str()) {
            let known = self.dialect_names();
            // The nearest name would tell what a variable holds.
            let nearest = did_you_mean(if scalar.substituted { "" } else { &scalar.text }, &known);
            self.note(path, position, format!("{} is no dialect", scalar.shown), nearest);
        }
        dialect
    }

    /// Notes a key that must be there and is not, at the mapping that lacks it.
    fn required<'w, T>(&mut self, value: Option<&'w T>, at: &str, key: &str, whole: Option<Position>) -> Option<&'w T> {
        let example = match key {
            "path" => "the path that clients call, such as `path: /agents/chat`",
            "client" => "what the clients speak, such as `client: ag-ui`",
            "agent" => "what the agent speaks, such as `agent: hai`",
            "upstream" => "where the agent is, such as `upstream: http://127.0.0.1:9001/chat`",
            "name" => "what routes call it, such as `name: acme-chat`",
            "extends" => "which dialect it changes, such as `extends: ag-ui`",
            _ => "which dialect it is, such as `dialect: hai`",
        };
        self.needed(value, at, key, example, whole)
    }

    fn needed<'w, T>(
        &mut self,
        value: Option<&'w T>,
        at: &str,
        key: &str,
        example: &str,
        whole: Option<Position>,
    ) -> Option<&'w T> {
        if value.is_none() {
            self.note(at, whole, format!("the key `{key}` is missing or empty"), format!("add {example}"));
        }
        value
    }

    /// Notes each value that is the same as one before it.
    fn distinct<T>(&mut self, all: &[&Seen<T>], same: impl Fn(&T, &T) -> bool, message: &str, hint: &str) {
        for (index, one) in all.iter().enumerate() {
            if let Some(earlier) = all[..index].iter().find(|earlier| same(&earlier.value, &one.value)) {
                // Of a default and what was written, only the written one can be changed.
                let (at, other) = if one.position.is_some() { (one, earlier) } else { (earlier, one) };
                self.note(&at.path, at.position, format!("{message} {}", other.place()), hint);
            }
        }
    }

    fn value<T>(&mut self, text: &Text, path: &str, read: fn(&str) -> Result<T, Fault>) -> Option<T> {
        self.seen(text, path, read).map(|seen| seen.value)
    }

    /// A value that may be left out; `None` where what is written cannot be read.
    #[expect(clippy::option_option, reason = "no key is one thing, a wrong value another")]
    fn optional<T>(
        &mut self,
        text: Option<&Text>,
        path: &str,
        read: fn(&str) -> Result<T, Fault>,
    ) -> Option<Option<T>> {
        match text {
            Some(text) => self.value(text, path, read).map(Some),
            None => Some(None),
        }
    }

    fn seen<T>(&mut self, text: &Text, path: &str, read: fn(&str) -> Result<T, Fault>) -> Option<Seen<T>> {
        self.read(&text.value, path, position(text.defined), read).map(|value| Seen::new(value, path, text.referenced))
    }

    /// Reads one scalar or each of a list.
    fn values<T>(
        &mut self,
        written: &Spanned<OneOrMany>,
        path: &str,
        read: fn(&str) -> Result<T, Fault>,
    ) -> Vec<Option<Seen<T>>> {
        match &written.value {
            OneOrMany::One(one) => {
                let value = self.read(one, path, position(written.defined), read);
                vec![value.map(|value| Seen::new(value, path, written.referenced))]
            }
            OneOrMany::Many(many) => self.list(many, path, read),
        }
    }

    fn list<T>(&mut self, many: &[Text], path: &str, read: fn(&str) -> Result<T, Fault>) -> Vec<Option<Seen<T>>> {
        let each = |(index, one): (usize, &Text)| self.seen(one, &format!("{path}[{index}]"), read);
        many.iter().enumerate().map(each).collect()
    }

    fn read<T>(
        &mut self,
        written: &str,
        path: &str,
        position: Option<Position>,
        read: fn(&str) -> Result<T, Fault>,
    ) -> Option<T> {
        let scalar = self.scalar(written, path, position)?;
        let fault = match read(&scalar.text) {
            Ok(value) => return Some(value),
            Err(fault) => fault,
        };
        let suggestion = fault.suggestion.filter(|_| !scalar.substituted && !may_hold_password(&scalar.text));
        let hint = match suggestion {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => fault.hint.to_owned(),
        };
        self.note(path, position, format!("{} {}", scalar.shown, fault.is), hint);
        None
    }

    fn scalar(&mut self, written: &str, path: &str, position: Option<Position>) -> Option<Scalar> {
        let form = "write `${NAME}` or `${NAME:-default}`; for the characters `${` themselves write `$${`";
        let (message, hint) = match expand(written, self.source.lookup) {
            Ok(Expanded { text, substituted }) if !text.is_empty() => {
                let shown = shown(written, substituted);
                return Some(Scalar { text, shown, substituted });
            }
            Ok(Expanded { substituted: false, .. }) => {
                ("the value is empty".to_owned(), "write one, or take the key away".to_owned())
            }
            Ok(_) => {
                let message = format!("{} is empty", shown(written, true));
                (message, "give the variable a value, or a default: `${NAME:-default}`".to_owned())
            }
            Err(Failure::Unset(name)) => {
                let hint = format!("set it where Diglot is started, or give a default: `${{{name}:-default}}`");
                (format!("the environment variable `{name}` is not set"), hint)
            }
            Err(Failure::Unclosed) => ("`${` without a `}` after it".to_owned(), form.to_owned()),
            Err(Failure::Malformed(inside)) => (format!("`${{{inside}}}` names no variable"), form.to_owned()),
        };
        self.note(path, position, message, hint);
        None
    }

    fn note(&mut self, path: &str, position: Option<Position>, message: impl Into<String>, hint: impl Into<String>) {
        self.problems.push(Problem::of_file(self.source.name, message).at(path, position, self.source.text).hint(hint));
    }
}

/// How a message names a value: the text of the file, never what a variable holds.
fn shown(written: &str, substituted: bool) -> String {
    const MAX_SHOWN: usize = 80;
    if may_hold_password(written) {
        return "the value".to_owned();
    }
    let cut: String = written.trim().chars().take(MAX_SHOWN).collect();
    let dots = if cut.len() < written.trim().len() { "…" } else { "" };
    let how = if substituted { ", with its variables put in," } else { "" };
    format!("`{cut}{dots}`{how}")
}

/// All values, unless one of them could not be read.
fn every<T>(list: Vec<Option<Seen<T>>>) -> Option<Vec<T>> {
    list.into_iter().map(|one| one.map(|one| one.value)).collect()
}

fn quoted<T: Display>(names: impl Iterator<Item = T>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ")
}

fn position(location: Location) -> Option<Position> {
    (location != Location::UNKNOWN).then(|| Position { line: location.line(), column: location.column() })
}
