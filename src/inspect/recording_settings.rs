//! A run's settings in the head of its recording, and back.

use super::captured_run::CapturedRun;
use super::recording::{RECORDING_VERSION, RecordedThread, RecordingHead, SideWords, find_framing, framing_name};
use super::stream_settings::StreamSettings;
use crate::codec::sse::SseLimits;
use crate::config::dialect_text::{format_dialect, parse_dialect};
use crate::config::enum_values::{GUARD, name_of};
use crate::config::shipped_dialects::SHIPPED_DIALECTS;
use crate::dialect::{self, PeerDialect, ThreadState, ValueAlias};
use crate::event::{Field, Json};
use crate::translate::{AllowedTools, RunIds};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;

impl RecordingHead {
    pub(super) fn new(run: &CapturedRun) -> RecordingHead {
        let settings = &run.settings;
        let end = run.facts().end;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        RecordingHead {
            diglot_recording: RECORDING_VERSION,
            route: run.head.route.to_string(),
            client: format_dialect(settings.client),
            agent: format_dialect(settings.agent),
            client_words: SideWords::new(settings.client),
            agent_words: SideWords::new(settings.agent),
            thread_id: raw_id(&settings.ids.thread_id),
            run_id: raw_id(&settings.ids.run_id),
            request_id: run.head.request_id.clone(),
            guard: name_of(GUARD, &settings.guard).to_owned(),
            max_frame: settings.limits.frame,
            max_events: settings.max_events,
            max_bytes: settings.max_bytes,
            tools: settings.tools.as_ref().map(|tools| tools.names().into_iter().map(str::to_owned).collect()),
            framing: framing_name(settings.framing).to_owned(),
            frame_token: settings.frame_token.as_deref().map(str::to_owned),
            thread: RecordedThread::new(settings.agent, &settings.thread),
            started_ms: run.head.started_ms,
            duration_ms: end.as_ref().map(|end| millis(end.duration)),
            outcome: end.as_ref().map(|end| end.outcome.to_owned()),
            code: end.as_ref().and_then(|end| end.code.clone()),
            message: end.and_then(|end| end.message),
        }
    }

    /// Returns the agent's dialect, which `option` replaces.
    ///
    /// # Errors
    /// Returns the cause and the way out.
    pub(crate) fn agent_side(&self, option: &str) -> Result<PeerDialect, String> {
        let side = parse_side(&self.agent, option)?;
        Ok(self.agent_words.add_to(side))
    }

    /// Returns the client's dialect, which `option` replaces.
    ///
    /// # Errors
    /// Returns the cause and the way out.
    pub(crate) fn client_side(&self, option: &str) -> Result<PeerDialect, String> {
        let side = parse_side(&self.client, option)?;
        Ok(self.client_words.add_to(side))
    }

    /// Returns the settings of the run's translator.
    #[cfg(test)]
    pub(super) fn settings(&self) -> Result<StreamSettings, String> {
        self.settings_for(self.agent_side("--from")?, self.client_side("--to")?)
    }

    /// Returns the settings of the run's translator, with these dialects in place of its own.
    ///
    /// # Errors
    /// Returns the cause.
    pub(crate) fn settings_for(&self, agent: PeerDialect, client: PeerDialect) -> Result<StreamSettings, String> {
        let guard = GUARD.iter().find(|(name, _)| *name == self.guard);
        let tools = self.tools.as_ref().map(|tools| Arc::new(AllowedTools::new(tools.iter().map(String::as_str))));
        Ok(StreamSettings {
            agent,
            client,
            ids: RunIds { thread_id: read_id(&self.thread_id)?, run_id: read_id(&self.run_id)? },
            limits: SseLimits { line: self.max_frame, frame: self.max_frame },
            guard: guard.ok_or_else(|| format!("`guard` is `{}`, not repair, strict or report", self.guard))?.1,
            tools,
            max_events: self.max_events,
            max_bytes: self.max_bytes,
            framing: find_framing(&self.framing)?,
            frame_token: self.frame_token.as_deref().map(Into::into),
            thread: self.thread.state_for(agent),
        })
    }
}

/// Reads a dialect in the form of a recording, in which a side may also be detected. `option` names another.
fn parse_side(text: &str, option: &str) -> Result<PeerDialect, String> {
    if text == dialect::AUTO {
        return Ok(PeerDialect::new_auto());
    }
    let name = text.split_once(':').map_or(text, |(name, _)| name);
    if dialect::find_by_name(name).is_some() {
        return parse_dialect(text);
    }
    let ships = SHIPPED_DIALECTS.iter().any(|(shipped, _)| *shipped == name);
    let or = if ships { format!("; {option} {name} is the file that ships") } else { String::new() };
    Err(format!(
        "its dialect `{name}` is not built in: name the configuration that had it, as in {option} diglot.yaml#{name}, or its dialect file{or}"
    ))
}

fn thread_names(agent: PeerDialect) -> &'static [Box<str>] {
    agent.dialect.mapping.map(|mapping| mapping.thread_names.as_slice()).unwrap_or_default()
}

impl RecordedThread {
    fn new(agent: PeerDialect, thread: &ThreadState) -> RecordedThread {
        let values = thread_names(agent).iter().zip(&thread.values).filter_map(|(name, value)| {
            let value = serde_json::from_str(value.as_ref()?.as_str()).ok()?;
            Some((name.to_string(), value))
        });
        RecordedThread { values: values.collect(), is_lost: thread.is_lost }
    }

    /// Returns the values by their positions in the rules of an agent, whose file may have changed.
    fn state_for(&self, agent: PeerDialect) -> ThreadState {
        let value = |name: &str| self.values.get(name).map(|value| Json::from_trusted(value.to_string()));
        ThreadState { values: thread_names(agent).iter().map(|name| value(name)).collect(), is_lost: self.is_lost }
    }
}

impl SideWords {
    fn new(side: PeerDialect) -> SideWords {
        let roles = side.value_aliases.iter().filter(|alias| alias.field == Field::Role);
        SideWords {
            roles: roles.map(|alias| (alias.canonical.to_owned(), alias.wire.to_owned())).collect(),
            errors: side.error_events.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// Adds the words to a side. They are leaked, since tables are `'static`, and a command reads few recordings.
    fn add_to(&self, mut side: PeerDialect) -> PeerDialect {
        let leak = |text: &String| -> &'static str { String::leak(text.clone()) };
        if !self.roles.is_empty() {
            let roles = self.roles.iter().map(|(canonical, wire)| ValueAlias {
                field: Field::Role,
                canonical: leak(canonical),
                wire: leak(wire),
                is_reversible: true,
            });
            side.value_aliases = Vec::leak(roles.collect());
        }
        if !self.errors.is_empty() {
            side.error_events = Vec::leak(self.errors.iter().map(leak).collect());
        }
        side
    }
}

fn raw_id(id: &Json<'_>) -> Box<RawValue> {
    // The text of a JSON value is always one.
    RawValue::from_string(id.as_str().to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn read_id(id: &RawValue) -> Result<Json<'static>, String> {
    match serde_json::from_str::<String>(id.get()) {
        Ok(_) => Ok(Json::from_trusted(id.get().to_owned())),
        Err(_) => Err(format!("an id is {}, not a string", id.get())),
    }
}
