//! Makes the ids of interrupts unique for a client that asks its user by a call or a message.
//!
//! Interrupt ids are "unique per run" (`specs/ag-ui-1.0.md` §2), but the client keeps the question `interrupt:<id>` of
//! an earlier run, and would add to it. An interrupt of another run is renamed to `<id>:call`, and restored in
//! `resume`.

use super::id_kind::IdKind;
use super::restored_ids::{CallOriginal, OwnIds};
use super::{IdUse, MessageIdMap, MessageStart};
use crate::codec::json;
use crate::event::input::{INTERRUPT_ID, INTERRUPTS};
use crate::event::{Event, EventRepair, Field, IdMap, Json, MemberKey, Members, find_member, get, set};
use crate::translate::call_arguments::edit_calls;
use crate::translate::carry;
use crate::translate::report::TranslationReport;

#[derive(Clone, Debug, Default)]
pub(super) struct QuestionIds(pub(super) MessageIdMap);

impl QuestionIds {
    /// Creates the ids from those of the interrupts of earlier runs, as the client has them.
    pub(super) fn from_questions(question_ids: &[Json<'_>]) -> QuestionIds {
        QuestionIds(MessageIdMap::from_originals(originals(question_ids), IdUse::REPEATED))
    }

    /// Renames the interrupts of an outcome that the client's user was asked before.
    pub(super) fn rename_interrupts(&mut self, event: &mut Event<'_>, report: &mut TranslationReport) {
        if self.0.claims.len() == 0 {
            return;
        }
        let Some(mut members) = event.get(Field::Outcome).and_then(json::parse_owned_members) else { return };
        let Some((_, interrupts)) = members.iter_mut().find(|(key, _)| carry::is_named(key, INTERRUPTS)) else {
            return;
        };
        let renamed = edit_calls(interrupts, |_, interrupt| {
            let mut members = json::parse_owned_members(interrupt)?;
            let name = self.0.resolve_start(get(&members, Field::Id)?, IdKind::Call, MessageStart::Event, None)?;
            set(&mut members, MemberKey::Known(Field::Id), name);
            report.count_repair(EventRepair::IdNamespaced);
            Some(json::to_object(&members))
        });
        if let Some(renamed) = renamed {
            *interrupts = renamed;
            event.set(Field::Outcome, json::to_object(&members));
        }
    }
}

/// Restores the agent's ids of interrupts in the answers to them.
pub(in crate::translate) fn restore_answers(members: &mut Members<'_>, question_ids: &[Json<'_>]) {
    let renamed: IdMap<_> =
        originals(question_ids).into_iter().filter_map(|question| Some((question.id, question.original?))).collect();
    if renamed.is_empty() {
        return;
    }
    let resume = get(members, Field::Resume).and_then(|resume| {
        edit_calls(resume, |_, entry| {
            let mut members = json::parse_owned_members(entry)?;
            let id = find_member(&members, INTERRUPT_ID)?;
            let own = renamed.get(id)?.clone();
            set(&mut members, MemberKey::Other(INTERRUPT_ID.into()), own);
            Some(json::to_object(&members))
        })
    });
    resume.into_iter().for_each(|resume| set(members, MemberKey::Known(Field::Resume), resume));
}

fn originals(question_ids: &[Json<'_>]) -> Vec<CallOriginal> {
    let mut own_ids = OwnIds::default();
    question_ids.iter().filter_map(|id| own_ids.find_original(id, None)).collect()
}
