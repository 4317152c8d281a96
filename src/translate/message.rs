//! Translates messages in requests and snapshots by the same rules, so that ids and carried members agree.

use super::carry::GATEWAY_KEY;
use super::carry_policy::{CarryPolicy, PLAIN_ROLES};
use super::event_parts::OutgoingEvent;
use super::event_shapes::NULLS_NOTE;
use super::list_budget::ListBudget;
use super::report::TranslationReport;
use super::{aliases, call_arguments, carry, content_parts, message_content, message_role, not_shown, value_aliases};
use crate::codec::json;
use crate::dialect::{CarryLocation, MemberCase, PeerDialect, PeerVersion, SurroundingMessages};
use crate::event::input::{ACTIVITY, ASSISTANT, DEVELOPER, MessageMembers, REASONING, ROLES, SYSTEM, TOOL};
use crate::event::schema::MESSAGES;
use crate::event::{Event, EventLoss, Field, Json, LossCounts, MemberKey, Members, get, remove, set};

/// Key under `extra["ag-ui"]` for preceding or following messages whose role the dialect lacks.
pub(super) const PRECEDING: &str = "preceding";
pub(super) const FOLLOWING: &str = "following";

/// Key under `extra["ag-ui"]` of the last message for request members that the dialect lacks.
pub(super) const INPUT_MEMBER: &str = "input";

pub(super) fn read_snapshot(event: &mut Event<'_>, side: PeerDialect, report: &mut TranslationReport) {
    let Some(list) = event.get(Field::Messages).and_then(json::parse_elements) else {
        return;
    };
    let mut canonical = Vec::new();
    let mut lists = ListBudget::default();
    for element in &list {
        match json::parse_message(element) {
            Some(mut members) => {
                aliases::read_field_names(side.dialect.field_aliases, &mut members);
                let foreign_role = message_role::repair_role(&mut members, side, report);
                let at = canonical.len();
                read(members, side, &mut canonical);
                // A text may hold parts, and messages of their own.
                if canonical[at..].iter().any(|message| lists.take_message(message).is_err()) {
                    report.has_excess = true;
                    return;
                }
                if let (Some(role), Some(message)) = (foreign_role, canonical.get_mut(at)) {
                    let carried = vec![(MemberKey::Known(Field::Role), role)];
                    let metadata = carry::merge(get(message, Field::Metadata), GATEWAY_KEY, carried);
                    set(message, MemberKey::Known(Field::Metadata), metadata);
                }
            }
            None => return,
        }
    }
    if let Some(adapter) = side.dialect.message_adapter {
        canonical.retain(|message| !adapter.is_kept(message, side.dialect.name));
        adapter.separate_parts(&mut canonical, side.dialect.name);
    }
    for message in &mut canonical {
        // An agent that keeps messages unchanged repeats the input carried by an earlier request.
        carry::take(message, INPUT_MEMBER);
    }
    event.set(Field::Messages, to_array(&canonical, false));
}

pub(super) fn write_snapshot(outgoing: &mut OutgoingEvent<'_>, side: PeerDialect, report: &mut TranslationReport) {
    let Some(value) = remove(&mut outgoing.members, Field::Messages) else {
        return;
    };
    let elements = json::parse_elements(&value).unwrap_or_default();
    let messages: Option<Vec<MessageMembers<'_>>> = elements.iter().map(json::parse_message).collect();
    let list = match messages {
        Some(messages) => {
            let policy = CarryPolicy::InSnapshot;
            let written = write(messages, side.for_client(), &policy);
            report.add_losses(&written.losses);
            let written = written.list;
            let requires_roles = side.dialect.is_versioned() || policy.writes_plain_messages(side);
            // Without a message to carry them on, messages with unknown roles are carried on the event.
            if requires_roles && !written.iter().all(|message| has_known_role(message, side)) {
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
    let role = get(&message, Field::Role).and_then(Json::text).unwrap_or_default();
    let role = value_aliases::canonical_role(side, &role).to_owned();
    // AG-UI's own, which the gateway writes where no message is there to carry it.
    let is_activity = role == ACTIVITY && get(&message, Field::ActivityType).is_some_and(|it| !it.is_null());
    let (mut canonical, mut own) = (Members::new(), Members::new());
    let mut unwrapped = carry::CarriedMembers::default();
    let mut nulls = Vec::new();
    for (key, value) in message {
        match &key {
            // The real client rejects null for all of these.
            MemberKey::Known(field) if form.fields.contains(field) && value.is_null() => {
                nulls.push(Json::string(field.camel()));
            }
            _ if carry::is_named(&key, location) => unwrapped = carry::unwrap_message(&value, dialect.carry_location),
            // Canonical tool messages have no name, and some agents reject unknown members.
            MemberKey::Known(Field::Name) if role == TOOL => own.push((key, value)),
            MemberKey::Known(field) if form.fields.contains(field) => canonical.push((key, value)),
            MemberKey::Known(Field::ActivityType) if is_activity => canonical.push((key, value)),
            _ => own.push((key, value)),
        }
    }
    value_aliases::read_role(side, &mut canonical, &mut own);
    match (unwrapped.rest.take(), dialect.carry_location) {
        (None, _) => {}
        (Some(rest), CarryLocation::Metadata) => canonical.push((MemberKey::Known(Field::Metadata), rest)),
        (Some(rest), _) => own.push((carry::extension_key(location), rest)),
    }
    if !nulls.is_empty() {
        own.push((carry::extension_key(NULLS_NOTE), json::to_array(&nulls)));
    }
    if !is_activity {
        message_content::read(&mut canonical, &mut own, &role, side);
    }
    let mut found = unwrapped.canonical;
    let mut surrounding = match (get(&found, Field::Content), dialect.message_adapter) {
        (None, Some(adapter)) if !is_activity => adapter.read(&mut canonical, &mut own, dialect.name),
        // Canonical content is used as is.
        _ => SurroundingMessages::default(),
    };
    let [before, after] = [PRECEDING, FOLLOWING].map(|place| carry::take(&mut found, place));
    for (key, value) in found {
        // One spelling: a second one would pass the checks of the first.
        set(&mut canonical, key.into_canonical(), value);
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

fn append_carried(list: Option<&Json<'_>>, out: &mut Vec<MessageMembers<'static>>) {
    for element in list.and_then(json::parse_elements).unwrap_or_default() {
        out.extend(json::parse_message(&element).map(crate::event::into_owned_members));
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

fn accepts_role_of(message: &MessageMembers<'_>, side: PeerDialect, carries: &CarryPolicy) -> bool {
    let role = get(message, Field::Role).and_then(Json::text).unwrap_or_default();
    if carries.writes_plain_messages(side) {
        // A client shows a message of a role that no document has as the assistant's.
        let is_shown = carries.keeps_notes() && !ROLES.contains(&&*role);
        role == DEVELOPER || PLAIN_ROLES.contains(&&*role) || is_shown
    } else {
        accepts_role(side, &role)
    }
}

/// Returns true if a written message has a role that the side accepts, under the side's own name.
fn has_known_role(message: &MessageMembers<'_>, side: PeerDialect) -> bool {
    let role = get(message, Field::Role).and_then(Json::text).unwrap_or_default();
    let role = value_aliases::canonical_role(side, &role);
    accepts_role(side, role) && !(side.dialect.message.has_plain_snapshots && [ACTIVITY, REASONING].contains(&role))
}

/// Returns true if a message may have the member. A side that accepts unknown members accepts those of any version.
fn accepts_member(side: PeerDialect, field: Field, carries: &CarryPolicy) -> bool {
    // Python supports "error" since 0.1.9 (measured).
    let since = field != Field::Error || side.peer_version != PeerVersion::V0_1;
    side.dialect.message.fields.contains(&field)
        && (carries.allows_carrying() || (since && is_supported_since(side, field.camel())))
}

/// Messages in a dialect's form.
pub(super) struct WrittenMessages<'a> {
    pub(crate) list: Vec<MessageMembers<'a>>,
    /// canonical messages whose role the dialect lacks, if there is no message to carry them on
    pub(crate) unplaced: Vec<Json<'static>>,
    /// what the side gets and does not show
    pub(crate) losses: LossCounts,
}

/// Writes canonical messages. Without an adjacent message to carry them on, those whose role the dialect lacks stay
/// unconverted.
pub(super) fn write<'a>(
    messages: Vec<MessageMembers<'a>>,
    side: PeerDialect,
    carries: &CarryPolicy,
) -> WrittenMessages<'a> {
    let mut written = write_by_policy(messages, side, carries);
    let unplaced = std::mem::take(&mut written.unplaced);
    unplaced.iter().for_each(|one| written.list.extend(json::parse_owned_members(one)));
    written
}

/// Writes canonical messages. Those whose role the dialect lacks are shown in another form, or carried on an adjacent
/// message.
pub(super) fn write_by_policy<'a>(
    mut messages: Vec<MessageMembers<'a>>,
    side: PeerDialect,
    carries: &CarryPolicy,
) -> WrittenMessages<'a> {
    let dialect = side.dialect;
    let list = Vec::with_capacity(messages.len());
    let mut written = WrittenMessages { list, unplaced: Vec::new(), losses: LossCounts::default() };
    if dialect.is_canonical() {
        written.list = messages;
        return written;
    }
    let waiting = &mut written.unplaced;
    if let Some(adapter) = dialect.message_adapter {
        adapter.join_parts(&mut messages, dialect.name);
        // Parts that come back keep their calls.
        if !carries.keeps_notes() {
            adapter.join_calls(&mut messages, dialect.name);
        }
    }
    let is_joined =
        |message: &Members<'_>| dialect.message_adapter.is_some_and(|it| it.is_joined_part(message, dialect.name));
    for message in messages {
        // The message's first part shows its text.
        if is_joined(&message) {
            if carries.try_carry() {
                waiting.push(to_carried(message, side, carries));
            }
            continue;
        }
        let loss = not_shown::loss_of_message(&message);
        if accepts_role_of(&message, side, carries) {
            count_hidden(&message, loss, side, carries, &mut written.losses);
            let preceding = (!waiting.is_empty()).then(|| json::to_array(&std::mem::take(waiting)));
            written.list.push(write_message(message, side, preceding, carries, &mut written.losses));
        } else if let Some(mut shown) = show_message(&message, side) {
            if !waiting.is_empty() {
                let list = json::to_array(&std::mem::take(waiting));
                add_carried_member(&mut shown, dialect.carry_location, PRECEDING, list);
            }
            written.list.push(shown);
        } else if carries.try_carry() {
            written.losses[loss as usize] += 1;
            waiting.push(to_carried(message, side, carries));
        }
    }
    if let Some(last) = written.list.last_mut()
        && !waiting.is_empty()
    {
        let list = json::to_array(&std::mem::take(waiting));
        add_carried_member(last, dialect.carry_location, FOLLOWING, list);
    }
    written
}

/// Counts what a client gets of a message and does not show.
fn count_hidden(
    message: &Members<'_>,
    loss: EventLoss,
    side: PeerDialect,
    carries: &CarryPolicy,
    losses: &mut LossCounts,
) {
    let hidden = if carries.keeps_notes() { side.dialect.message.hidden_content } else { &[] };
    losses[loss as usize] += u64::from(side.hides(loss) || hidden.contains(&loss));
    if let Some(content) = get(message, Field::Content).filter(|_| hidden.contains(&EventLoss::PartNotShown)) {
        losses[EventLoss::PartNotShown as usize] += not_shown::count_parts(content);
    }
}

/// Returns the form in which a message is carried: a request is where the gateway's notes end.
fn to_carried(mut message: MessageMembers<'_>, side: PeerDialect, carries: &CarryPolicy) -> Json<'static> {
    if *carries == CarryPolicy::InRequest {
        carry::remove_notes(&mut message, side.dialect.name);
    }
    json::to_object(&message)
}

/// Converts a message whose role the dialect lacks, if it has another form for it.
fn show_message(message: &MessageMembers<'_>, side: PeerDialect) -> Option<MessageMembers<'static>> {
    let mut shown = side.dialect.message_adapter?.show(message, side.dialect.name, side.text_format)?;
    value_aliases::write_role(side, &mut shown, &mut Members::new());
    aliases::write_field_names(side.dialect.field_aliases, &mut shown);
    Some(shown)
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
    // Before the members, in which the role may stand last.
    let role = message_role::find(&message);
    let record = MESSAGES.arm(&message);
    // A snapshot keeps what an agent sends; an agent gets the members that AG-UI has in messages of this role.
    let belongs = |field: Field| carries.keeps_notes() || MESSAGES.may_have(record, field.camel());
    for (key, value) in message {
        match &key {
            MemberKey::Known(Field::Metadata) => {
                let splices = |key: &MemberKey<'_>| match key {
                    MemberKey::Known(Field::Metadata) => dialect.carry_location != CarryLocation::Metadata,
                    MemberKey::Known(Field::Name) => role == Some(TOOL),
                    MemberKey::Known(field) => !form.fields.contains(field),
                    MemberKey::Other(name) => name == json::TYPE || carry::is_stable_name(key),
                };
                let (mine, rest) = carry::unpack(value, dialect.name, splices);
                own.extend(mine);
                let rest = rest.map(|rest| (MemberKey::Known(Field::Metadata), rest));
                match dialect.carry_location {
                    CarryLocation::Metadata => own.extend(rest),
                    CarryLocation::Extra | CarryLocation::Native => canonical.extend(rest),
                }
            }
            MemberKey::Known(Field::Content)
                if content_parts::is_parts(&value) || message_content::is_refused_list(side, &value, carries) =>
            {
                let (content, whole) = match carries.writes_plain_messages(side) {
                    true => (Json::string(&content_parts::joined_text(&value)), Some(value)),
                    false => content_parts::write(&value, side, role),
                };
                written.push((key.clone(), content));
                canonical.extend(whole.map(|whole| (key, whole)));
            }
            MemberKey::Known(field) if accepts_member(side, *field, carries) && belongs(*field) => {
                written.push((key, value));
            }
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
    losses: &mut LossCounts,
) -> MessageMembers<'a> {
    let dialect = side.dialect;
    let SplitMessage { mut written, mut own, mut canonical } = split_message(message, side, carries);
    if !dialect.is_versioned() {
        replace_unknown_role(&mut written, &mut canonical);
        show_error(&mut written, &mut canonical, losses);
    }
    if dialect.is_versioned() && carries.keeps_notes() {
        // Every version fails on null: the member stays as the guard repaired it.
        carry::keep_notes(dialect.name, &[NULLS_NOTE, carry::AS_JSON_NOTE], &mut own);
    }
    let as_json = carry::take_json_note(&mut own, Field::Content);
    if let Some(adapter) = dialect.message_adapter {
        adapter.write(&mut written, &mut own, &mut canonical, as_json, side.text_format);
    }
    if as_json {
        message_content::restore_json(&mut written, carries);
    }
    if carries.writes_plain_messages(side) {
        make_plain(&mut written, &mut canonical);
    }
    call_arguments::write(&mut written, &mut own);
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
    if !carries.keeps_notes() {
        own.retain(|(key, _)| !carry::is_note(key));
    }
    // An agent that rejects unknown members gets none of events.
    let is_of_event = |key: &MemberKey<'_>| matches!(key, MemberKey::Known(_)) || carry::is_named(key, json::TYPE);
    own.retain(|(key, _)| !is_of_event(key) || carries.try_carry());
    // The agent rejects unknown members even if the client itself sent them.
    if side.peer_version != PeerVersion::V0_1 || own.is_empty() || carries.try_carry() {
        written.extend(own);
    }
    if !(carried_before.is_none() && canonical.is_empty()) && carries.try_carry() {
        if let Some(whole) = get(&canonical, Field::Content) {
            losses[EventLoss::PartNotShown as usize] +=
                not_shown::count_hidden_parts(whole, get(&written, Field::Content));
        }
        let carried = carry::wrap_canonical(dialect.carry_location, carried_before.as_ref(), &canonical, None);
        written.extend(carried.map(|carried| (carry::extension_key(place), carried)));
    }
    aliases::write_field_names(dialect.field_aliases, &mut written);
    written
}

/// Shows the message of a role that no document has as one of the agent's.
fn replace_unknown_role<'a>(written: &mut MessageMembers<'a>, canonical: &mut MessageMembers<'a>) {
    let role = get(written, Field::Role).filter(|role| !ROLES.iter().any(|known| role.is_str(known))).cloned();
    if let Some(role) = role {
        canonical.push((MemberKey::Known(Field::Role), role));
        set(written, MemberKey::Known(Field::Role), Json::string(ASSISTANT));
    }
}

/// Gives a message a role that a dialect with plain messages knows.
fn make_plain(written: &mut MessageMembers<'_>, canonical: &mut MessageMembers<'_>) {
    if get(written, Field::Role).is_some_and(|role| role.is_str(DEVELOPER)) {
        // The nearest role: both instruct the agent.
        set(written, MemberKey::Known(Field::Role), Json::string(SYSTEM));
        canonical.push((MemberKey::Known(Field::Role), Json::string(DEVELOPER)));
    }
}

/// Shows a tool's error as its result if that is empty: the dialect has no member for it, or one that its documents do
/// not name.
fn show_error<'a>(written: &mut MessageMembers<'a>, canonical: &mut MessageMembers<'a>, losses: &mut LossCounts) {
    let error = get(canonical, Field::Error).or_else(|| get(written, Field::Error));
    let Some(error) = error.filter(|error| !error.is_str("")).cloned() else { return };
    match get(written, Field::Content).filter(|content| content.is_str("")).cloned() {
        Some(content) => {
            set(written, MemberKey::Known(Field::Content), error);
            // Parts without text are kept already.
            if get(canonical, Field::Content).is_none() {
                set(canonical, MemberKey::Known(Field::Content), content);
            }
        }
        None => losses[EventLoss::TextNotShown as usize] += 1,
    }
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
