//! Translates messages in requests and snapshots by the same rules, so that ids and carried members agree.

use super::carry::GATEWAY_KEY;
use super::event_parts::OutgoingEvent;
use super::event_shapes::NULLS_NOTE;
use super::report::TranslationReport;
use super::{aliases, carry, content_parts, nested_values, value_aliases};
use crate::codec::json;
use crate::dialect::{CarryLocation, ContentParts, MemberCase, PeerDialect, PeerVersion, SurroundingMessages};
use crate::event::input::{ACTIVITY, ASSISTANT, MessageMembers, REASONING, TOOL};
use crate::event::schema::MESSAGES;
use crate::event::{Event, EventRepair, Field, Json, JsonType, MemberKey, Members, get, remove, set};
use std::borrow::Cow;

/// Key under `extra["ag-ui"]` for preceding or following messages whose role the dialect lacks.
const PRECEDING: &str = "preceding";
const FOLLOWING: &str = "following";

/// Key under `extra["ag-ui"]` of the last message for request members that the dialect lacks.
pub(super) const INPUT_MEMBER: &str = "input";

pub(super) fn read_snapshot(event: &mut Event<'_>, side: PeerDialect) {
    let Some(list) = event.get(Field::Messages).and_then(json::parse_elements) else {
        return;
    };
    let mut canonical = Vec::new();
    for element in &list {
        match json::parse_message(element) {
            Some(mut members) => {
                aliases::read_field_names(side.dialect.field_aliases, &mut members);
                read(members, side, &mut canonical);
            }
            None => return,
        }
    }
    for message in &mut canonical {
        // An agent that keeps messages unchanged repeats the input carried by an earlier request.
        carry::take(message, INPUT_MEMBER);
    }
    event.set(Field::Messages, to_array(&canonical, false));
}

pub(super) fn write_snapshot(outgoing: &mut OutgoingEvent<'_>, side: PeerDialect) {
    let Some(value) = remove(&mut outgoing.members, Field::Messages) else {
        return;
    };
    let elements = json::parse_elements(&value).unwrap_or_default();
    let messages: Option<Vec<MessageMembers<'_>>> = elements.iter().map(json::parse_message).collect();
    let list = match messages {
        Some(messages) => {
            let written = write(messages, side, &CarryPolicy::Always);
            // Without a message to carry them on, messages with unknown roles are carried on the event.
            if side.dialect.is_versioned() && !written.iter().all(|message| has_known_role(message, side)) {
                outgoing.canonical.push((MemberKey::Known(Field::Messages), value.clone().into_owned()));
                Json::from_trusted("[]")
            } else {
                to_array(&written, side.member_case == MemberCase::Snake)
            }
        }
        None => value.into_owned(),
    };
    outgoing.members.push((MemberKey::Known(Field::Messages), list));
}

pub(super) fn to_array(messages: &[MessageMembers<'_>], snake: bool) -> Json<'static> {
    let all: Vec<_> = messages
        .iter()
        .map(|message| json::build_object(|object| message.iter().for_each(|member| object.copy_member(member, snake))))
        .collect();
    json::to_array(&all)
}

/// Reads a message of a dialect, and the messages that it carries for AG-UI.
pub(super) fn read(message: Members<'_>, side: PeerDialect, out: &mut Vec<MessageMembers<'static>>) {
    let dialect = side.dialect;
    let Some((location, _)) = dialect.carry_location.carry_member() else {
        out.push(crate::event::into_owned_members(message));
        return;
    };
    let form = &dialect.message;
    let is_tool = get(&message, Field::Role).is_some_and(|role| role.is_str(TOOL));
    let mut canonical = Members::new();
    let mut own = Members::new();
    let mut unwrapped = carry::CarriedMembers::default();
    let mut nulls = Vec::new();
    for (key, value) in message {
        match &key {
            // The real client rejects null for all of these.
            MemberKey::Known(field) if form.fields.contains(field) && value.is_null() => {
                nulls.push(Json::string(field.camel()));
            }
            _ if carry::is_named(&key, location) => unwrapped = carry::unwrap_canonical(&value, dialect.carry_location),
            // Canonical tool messages have no name, and some agents reject unknown members.
            MemberKey::Known(Field::Name) if is_tool => own.push((key, value)),
            MemberKey::Known(field) if form.fields.contains(field) => canonical.push((key, value)),
            _ => own.push((key, value)),
        }
    }
    value_aliases::read_role(side, &mut canonical, &mut own);
    if let Some(rest) = unwrapped.rest.take() {
        match dialect.carry_location {
            CarryLocation::Metadata => canonical.push((MemberKey::Known(Field::Metadata), rest)),
            CarryLocation::Extra | CarryLocation::Native => own.push((carry::extension_key(location), rest)),
        }
    }
    if !nulls.is_empty() {
        own.push((carry::extension_key(NULLS_NOTE), json::to_array(&nulls)));
    }
    if let Some(parts) =
        get(&canonical, Field::Content).filter(|_| form.parts != ContentParts::Never).and_then(content_parts::read)
    {
        set(&mut canonical, MemberKey::Known(Field::Content), parts);
    }
    let takes = |content: &&Json<'_>| {
        form.parts != ContentParts::Never
            && (content_parts::is_parts(content) || content.json_type() == JsonType::Object)
    };
    if let Some(content) = get(&canonical, Field::Content).filter(|content| is_structured(content) && !takes(content)) {
        let text = Json::string(content.as_str());
        set(&mut canonical, MemberKey::Known(Field::Content), text);
        carry::note_json(&mut own, Field::Content);
    }
    let mut found = unwrapped.canonical;
    let mut surrounding = match (get(&found, Field::Content), dialect.message_adapter) {
        (None, Some(adapter)) => adapter.read(&mut canonical, &mut own, dialect.name),
        // Canonical content is used as is.
        _ => SurroundingMessages::default(),
    };
    let before = carry::take(&mut found, PRECEDING);
    let after = carry::take(&mut found, FOLLOWING);
    for (key, value) in found {
        set(&mut canonical, key, value);
    }
    if !own.is_empty() {
        let metadata = carry::merge(get(&canonical, Field::Metadata), dialect.name, own);
        set(&mut canonical, MemberKey::Known(Field::Metadata), metadata);
    }
    append_carried(before.as_ref(), out);
    let first = surrounding.before.first_mut().filter(|_| surrounding.replaces_message);
    match (first, dialect.message_adapter) {
        (Some(first), Some(adapter)) => {
            adapter.carry_message(&canonical, first, dialect.name);
            out.extend(surrounding.before);
        }
        _ => {
            out.extend(surrounding.before);
            out.push(crate::event::into_owned_members(canonical));
        }
    }
    out.extend(surrounding.after);
    append_carried(after.as_ref(), out);
}

fn is_structured(content: &Json<'_>) -> bool {
    matches!(content.json_type(), JsonType::Object | JsonType::Array | JsonType::Number | JsonType::Bool)
}

fn append_carried(list: Option<&Json<'_>>, out: &mut Vec<MessageMembers<'static>>) {
    for element in list.and_then(json::parse_elements).unwrap_or_default() {
        out.extend(json::parse_owned_members(&element));
    }
}

/// Determines whether members unknown to the dialect are carried.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CarryPolicy {
    Always,
    /// carries nothing and counts the lost members, because some peers would reject them
    Never(std::cell::Cell<u64>),
}

impl CarryPolicy {
    pub(crate) fn for_request(side: PeerDialect) -> Self {
        match side.dialect.message.lenient_since {
            Some(since) if side.peer_version < since => CarryPolicy::Never(std::cell::Cell::new(0)),
            _ => CarryPolicy::Always,
        }
    }

    pub(crate) fn lost_count(&self) -> u64 {
        match self {
            CarryPolicy::Always => 0,
            CarryPolicy::Never(count) => count.get(),
        }
    }

    /// Returns true if unknown members can be carried; counts one as lost otherwise.
    pub(crate) fn try_carry(&self) -> bool {
        if let CarryPolicy::Never(count) = self {
            count.set(count.get() + 1);
        }
        *self == CarryPolicy::Always
    }
}

fn is_supported_since(side: PeerDialect, name: &str) -> bool {
    side.dialect.message.since.iter().all(|(own, since)| *own != name || side.peer_version >= *since)
}

/// Returns true if a side accepts messages with this role. Versioned peers reject the request for an unknown role
/// (measured).
fn accepts_role(side: PeerDialect, role: &str) -> bool {
    let known = side.dialect.message.roles.contains(&role);
    let newer = role == ACTIVITY || role == REASONING;
    if known { is_supported_since(side, role) } else { !newer && !side.dialect.is_versioned() }
}

fn accepts_role_of(message: &MessageMembers<'_>, side: PeerDialect) -> bool {
    accepts_role(side, &get(message, Field::Role).and_then(Json::text).unwrap_or_default())
}

/// Returns true if a written message has a role that the side accepts, under the side's own name.
fn has_known_role(message: &MessageMembers<'_>, side: PeerDialect) -> bool {
    let role = get(message, Field::Role).and_then(Json::text).unwrap_or_default();
    accepts_role(side, value_aliases::canonical_role(side, &role))
}

/// Returns true if a message may have the member. A side that accepts unknown members accepts those of any version.
fn accepts_member(side: PeerDialect, field: Field, carries: &CarryPolicy) -> bool {
    // Python supports "error" since 0.1.9 (measured).
    let since = field != Field::Error || side.peer_version != PeerVersion::V0_1;
    side.dialect.message.fields.contains(&field)
        && (*carries == CarryPolicy::Always || (since && is_supported_since(side, field.camel())))
}

/// Writes canonical messages. Those whose role the dialect lacks are carried on an adjacent message.
pub(super) fn write<'a>(
    mut messages: Vec<MessageMembers<'a>>,
    side: PeerDialect,
    carries: &CarryPolicy,
) -> Vec<MessageMembers<'a>> {
    let dialect = side.dialect;
    if dialect.is_canonical() {
        return messages;
    }
    let mut out: Vec<MessageMembers<'a>> = Vec::with_capacity(messages.len());
    let mut waiting: Vec<Json<'static>> = Vec::new();
    if let Some(adapter) = dialect.message_adapter {
        adapter.join_parts(&mut messages, dialect.name);
    }
    let is_joined =
        |message: &Members<'_>| dialect.message_adapter.is_some_and(|it| it.is_joined_part(message, dialect.name));
    for message in messages {
        if accepts_role_of(&message, side) && !is_joined(&message) {
            let preceding = (!waiting.is_empty()).then(|| json::to_array(&std::mem::take(&mut waiting)));
            out.push(write_message(message, side, preceding, carries));
        } else if carries.try_carry() {
            waiting.push(json::to_object(&message));
        }
    }
    if !waiting.is_empty() {
        let list = json::to_array(&waiting);
        match out.last_mut() {
            Some(last) => add_carried_member(last, dialect.carry_location, FOLLOWING, list),
            // Without an adjacent message, the dialect gets them unconverted rather than not at all.
            None => waiting.iter().for_each(|one| out.extend(json::parse_owned_members(one))),
        }
    }
    out
}

/// The members of a message, grouped by where they are written.
struct SplitMessage<'a> {
    written: MessageMembers<'a>,
    /// members of the peer's dialect that an earlier translation carried, to be restored
    own: MessageMembers<'static>,
    /// canonical members that the dialect lacks
    canonical: MessageMembers<'a>,
}

fn split_message<'a>(message: MessageMembers<'a>, side: PeerDialect, carries: &CarryPolicy) -> SplitMessage<'a> {
    let dialect = side.dialect;
    let form = &dialect.message;
    let mut written = Members::new();
    let mut own = Members::new();
    let mut canonical = Members::new();
    let is_tool = get(&message, Field::Role).is_some_and(|role| role.is_str(TOOL));
    for (key, value) in message {
        match &key {
            MemberKey::Known(Field::Metadata) => {
                let splices = |key: &MemberKey<'_>| match key {
                    MemberKey::Known(Field::Metadata) => dialect.carry_location != CarryLocation::Metadata,
                    MemberKey::Known(Field::Name) => is_tool,
                    MemberKey::Known(field) => !form.fields.contains(field),
                    MemberKey::Other(_) => true,
                };
                let (mine, rest) = carry::unpack(value, dialect.name, splices);
                own.extend(mine);
                let rest = rest.map(|rest| (MemberKey::Known(Field::Metadata), rest));
                match dialect.carry_location {
                    CarryLocation::Metadata => own.extend(rest),
                    CarryLocation::Extra | CarryLocation::Native => canonical.extend(rest),
                }
            }
            MemberKey::Known(Field::Content) if content_parts::is_parts(&value) || is_refused_list(side, &value) => {
                let (content, whole) =
                    content_parts::write(&value, side, carries == &CarryPolicy::Always, get(&written, Field::Role));
                written.push((key.clone(), content));
                canonical.extend(whole.map(|whole| (key, whole)));
            }
            MemberKey::Known(field) if accepts_member(side, *field, carries) => written.push((key, value)),
            _ => canonical.push((key, value)),
        }
    }
    SplitMessage { written, own, canonical }
}

/// Writes a message. `preceding` contains the messages before it that the dialect cannot express.
fn write_message<'a>(
    message: MessageMembers<'a>,
    side: PeerDialect,
    preceding: Option<Json<'static>>,
    carries: &CarryPolicy,
) -> MessageMembers<'a> {
    let dialect = side.dialect;
    let SplitMessage { mut written, mut own, mut canonical } = split_message(message, side, carries);
    if dialect.is_versioned() {
        // Every version fails on null: the member stays as the guard repaired it.
        carry::keep_notes(dialect.name, &[NULLS_NOTE, carry::AS_JSON_NOTE], &mut own);
    }
    let as_json = carry::take_json_note(&mut own, Field::Content);
    if let Some(adapter) = dialect.message_adapter {
        adapter.write(&mut written, &mut own, &mut canonical, as_json, side.text_format);
    }
    if as_json {
        // Notes come back from clients, so they are checked like other external input.
        let text = get(&written, Field::Content).and_then(Json::text).map(Cow::into_owned);
        if let Some(value) = text.as_deref().and_then(json::parse_value).map(Json::into_owned) {
            set(&mut written, MemberKey::Known(Field::Content), value);
        }
    }
    value_aliases::write_role(side, &mut written, &mut own);
    for field in carry::take_fields(&mut own, NULLS_NOTE, |field| dialect.message.fields.contains(&field)) {
        // Drops the guard's placeholder for the null; any other value is newer.
        if get(&written, field).is_none_or(|value| value.is_str("")) {
            set(&mut written, MemberKey::Known(field), Json::NULL);
        }
    }
    canonical.extend(preceding.map(|list| (carry::extension_key(PRECEDING), list)));
    let place = dialect.carry_location.carry_member().map_or("", |(member, _)| member);
    let carried_before = carry::take(&mut own, place);
    // The agent rejects unknown members even if the client itself sent them.
    if side.peer_version != PeerVersion::V0_1 || own.is_empty() || carries.try_carry() {
        written.extend(own);
    }
    if !(carried_before.is_none() && canonical.is_empty()) && carries.try_carry() {
        let carried = carry::wrap_canonical(dialect.carry_location, carried_before.as_ref(), &canonical, None);
        written.extend(carried.map(|carried| (carry::extension_key(place), carried)));
    }
    aliases::write_field_names(dialect.field_aliases, &mut written);
    written
}

/// Returns true if `content` is a list, empty or with something other than parts, and the side may not accept it.
fn is_refused_list(side: PeerDialect, content: &Json<'_>) -> bool {
    matches!(side.dialect.message.parts, ContentParts::Binary(_)) && content.json_type() == JsonType::Array
}

pub(super) fn add_carried_member(
    message: &mut MessageMembers<'_>,
    location: CarryLocation,
    name: &'static str,
    value: Json<'static>,
) {
    let place = location.carry_member().map_or("", |(member, _)| member);
    let found = carry::take(message, place).map(|held| carry::unwrap_canonical(&held, location)).unwrap_or_default();
    let mut canonical = found.canonical;
    set(&mut canonical, carry::extension_key(name), value);
    if let Some(held) = carry::wrap_canonical(location, found.rest.as_ref(), &canonical, None) {
        message.push((carry::extension_key(place), held));
    }
}

/// Repairs the messages of a snapshot: the real client rejects the run for a single null or missing id.
pub(super) fn repair_snapshot(event: &mut Event<'_>, report: &mut TranslationReport) {
    let Some(list) = event.get(Field::Messages).and_then(json::parse_elements) else {
        return;
    };
    let mut changed = false;
    let mut messages = Vec::with_capacity(list.len());
    let mut strangers = Vec::new();
    for (at, element) in list.iter().enumerate() {
        let Ok(object) = json::parse_object(element.as_str()) else {
            strangers.push(element.clone().into_owned());
            continue;
        };
        if !object.canonical {
            report.count_repair(EventRepair::KeyNormalized);
            changed = true;
        }
        let mut message = crate::event::into_owned_members(json::members_with_type(object));
        changed |= repair_message(&mut message, at, report);
        messages.push(message);
    }
    // Only objects are messages.
    if !strangers.is_empty() {
        report.count_repair(EventRepair::ValueCarried);
        changed = true;
    }
    if changed {
        event.set(Field::Messages, to_array(&messages, false));
    }
    if !strangers.is_empty() {
        carry::pack(event, GATEWAY_KEY, vec![(MemberKey::Known(Field::Messages), json::to_array(&strangers))]);
    }
}

pub(super) fn are_valid(list: &Json<'_>) -> bool {
    let discarded = &mut TranslationReport::default();
    let sound = |(at, element): (usize, &Json<'_>)| {
        let message = json::parse_message(element).map(crate::event::into_owned_members);
        message.is_some_and(|mut message| !repair_message(&mut message, at, discarded))
    };
    json::parse_elements(list).is_some_and(|elements| elements.iter().enumerate().all(sound))
}

/// Repairs a message; returns true if it changed.
fn repair_message(message: &mut MessageMembers<'static>, at: usize, report: &mut TranslationReport) -> bool {
    let before = message.len();
    message.retain(|(_, value)| !value.is_null());
    let mut changed = message.len() != before;
    if changed {
        report.count_repair(EventRepair::NullDropped);
    }
    let role = get(message, Field::Role).and_then(Json::text).unwrap_or_default().into_owned();
    let mut supplied = Vec::new();
    match get(message, Field::Id) {
        Some(id) if id.json_type() == JsonType::String => {}
        Some(id) => supplied.push((Field::Id, Json::string(id.as_str()))),
        None => supplied.push((Field::Id, Json::string(&format!("snapshot-{at}")))),
    }
    // Only assistant messages may lack content; parts are for users and tools.
    match get(message, Field::Content).map(Json::json_type) {
        None if role != ASSISTANT && role != ACTIVITY => supplied.push((Field::Content, Json::EMPTY_STRING)),
        Some(JsonType::Number | JsonType::Bool) => {
            let text = get(message, Field::Content).map(|content| Json::string(content.as_str()));
            supplied.extend(text.map(|text| (Field::Content, text)));
        }
        _ => {}
    }
    if role == TOOL && get(message, Field::ToolCallId).is_none() {
        supplied.push((Field::ToolCallId, Json::EMPTY_STRING));
    }
    supplied.extend(get(message, Field::ToolCalls).and_then(repair_calls).map(|calls| (Field::ToolCalls, calls)));
    supplied.extend(get(message, Field::Content).and_then(strip_nulls).map(|parts| (Field::Content, parts)));
    changed |= !supplied.is_empty();
    for (field, value) in supplied {
        report.count_repair(EventRepair::MemberSupplied);
        set(message, MemberKey::Known(field), value);
    }
    nested_values::repair_object(message, &MESSAGES, report) || changed
}

/// Removes nulls, which are not allowed in optional members of parts and calls; returns `None` if there were none.
fn strip_nulls(list: &Json<'_>) -> Option<Json<'static>> {
    let mut changed = false;
    let mended: Option<Vec<_>> = json::parse_elements(list)?
        .iter()
        .map(|element| {
            let mut members = json::parse_members(element)?;
            let before = members.len();
            members.retain(|(_, value)| !value.is_null());
            changed |= members.len() != before;
            Some(json::to_object(&members))
        })
        .collect();
    mended.filter(|_| changed).map(|all| json::to_array(&all))
}

fn repair_calls(calls: &Json<'_>) -> Option<Json<'static>> {
    let clean = strip_nulls(calls);
    let calls = clean.as_ref().unwrap_or(calls);
    let mut changed = false;
    let mended: Option<Vec<_>> = json::parse_elements(calls)?
        .iter()
        .map(|call| {
            let mut members = json::parse_members(call)?;
            let (_, function) = members.iter_mut().find(|(key, _)| carry::is_named(key, "function"))?;
            let mut inner = json::parse_owned_members(function)?;
            for (_, value) in inner
                .iter_mut()
                .filter(|(key, value)| carry::is_named(key, "arguments") && value.json_type() != JsonType::String)
            {
                *value = Json::string(value.as_str());
                changed = true;
            }
            *function = json::to_object(&inner);
            Some(json::to_object(&members))
        })
        .collect();
    mended.filter(|_| changed).map(|all| json::to_array(&all)).or(clean)
}
