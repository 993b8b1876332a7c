//! The members of a legacy record, as far as the import looks at them.

use std::ops::Range;

use forkline_model::{Millis, TypeName};

use super::finding::What;
use super::row::Kind;
use super::time;
use crate::scan::{Class, Found, Member, Object, Shape, Text, as_integer};

macro_rules! shape {
    ($($index:ident = $number:literal, $member:ident($name:literal);)*) => {
        $(pub(super) const $index: usize = $number;)*

        /// Everything that a record of any kind can have.
        pub(super) static SHAPE: Shape = Shape::new(&[$(Member::$member($name)),*]);
    };
}

shape! {
    TYPE = 0, decoded("type");
    ID = 1, decoded("id");
    PARENT_ID = 2, decoded("parentId");
    TIMESTAMP = 3, decoded("timestamp");
    CUSTOM_TYPE = 4, decoded("customType");
    TARGET_ID = 5, decoded("targetId");
    FROM_ID = 6, decoded("fromId");
    FIRST_KEPT_ID = 7, decoded("firstKeptEntryId");
    FIRST_KEPT_INDEX = 8, decoded("firstKeptEntryIndex");
    MESSAGE = 9, placed("message");
    CONTENT = 10, placed("content");
    DISPLAY = 11, placed("display");
    DETAILS = 12, placed("details");
    DATA = 13, placed("data");
    SUMMARY = 14, placed("summary");
    USAGE = 15, placed("usage");
    FROM_HOOK = 16, placed("fromHook");
    SYSTEM_MESSAGE = 17, placed("systemMessage");
    TOKENS_BEFORE = 18, placed("tokensBefore");
    REPLACEMENT = 19, placed("replacement");
    NAME = 20, placed("name");
    LABEL = 21, placed("label");
    PROVIDER = 22, placed("provider");
    MODEL_ID = 23, placed("modelId");
    THINKING_LEVEL = 24, placed("thinkingLevel");
    ACTIVE_TOOL_NAMES = 25, placed("activeToolNames");
}

/// What of a message's own members is looked at.
pub(super) static MESSAGE_SHAPE: Shape =
    Shape::new(&[Member::decoded("role"), Member::placed("usage")]);
pub(super) const ROLE: usize = 0;
pub(super) const MESSAGE_USAGE: usize = 1;

/// The decoded text of a member that is a string.
pub(super) fn text(object: &Object, index: usize) -> Option<&str> {
    let found = object.member(index).filter(|found| found.class == Class::String)?;
    match found.text {
        Text::Decoded(text) => Some(text),
        Text::TooLong | Text::Surrogate | Text::Absent => None,
    }
}

/// Whether a member is absent or null.
pub(super) fn is_null(object: &Object, index: usize) -> bool {
    object.member(index).is_none_or(|found| found.class == Class::Null)
}

/// Whether a value is a string with something in it; its quotes are two bytes.
pub(super) fn has_text(found: &Found<'_>) -> bool {
    found.class == Class::String && found.span.end - found.span.start > 2
}

/// Kind, time and bytes of a record.
pub(super) struct Content {
    pub(super) kind: Kind,
    pub(super) ms: Millis,
    pub(super) span: Range<u64>,
}

/// What a record becomes, or what is wrong with it.
pub(super) fn content(object: &Object) -> Result<Content, What> {
    let span = object.span();
    let kind = match text(object, TYPE).unwrap_or_default() {
        "message" => return message(object),
        "custom_message" => Kind::CustomMessage,
        "custom" => Kind::Custom,
        "branch_summary" => Kind::BranchSummary,
        "compaction" => Kind::Compaction,
        "context_edit" => Kind::ContextEdit,
        "model_change" => Kind::Model,
        "thinking_level_change" => Kind::Thinking,
        "active_tools_change" => Kind::Tools,
        "session_info" => Kind::Info,
        "label" if object.member(LABEL).is_some_and(|label| has_text(&label)) => Kind::Label,
        "label" => Kind::LabelRemoval,
        "usage" => Kind::Usage,
        _ => return Err(unsupported(object)),
    };
    if !kind.is_entry() {
        return Ok(Content { kind, ms: Millis::EPOCH, span });
    }
    let ms = timestamp(object)?;
    if kind == Kind::Custom && object.member(CUSTOM_TYPE).is_some() {
        let name = text(object, CUSTOM_TYPE).and_then(|name| TypeName::new(name).ok());
        name.ok_or(What::BadCustomType)?;
    }
    Ok(Content { kind, ms, span })
}

fn message(object: &Object) -> Result<Content, What> {
    let ms = timestamp(object)?;
    Ok(match object.member(MESSAGE) {
        Some(found) if found.class == Class::Object => {
            Content { kind: Kind::Message, ms, span: found.span }
        }
        Some(found) => Content { kind: Kind::OddMessage, ms, span: found.span },
        None => Content { kind: Kind::OddMessage, ms, span: 0..0 },
    })
}

fn timestamp(object: &Object) -> Result<Millis, What> {
    text(object, TIMESTAMP).and_then(time::parse).ok_or(What::BadTimestamp)
}

fn unsupported(object: &Object) -> What {
    What::UnsupportedType(match object.member(TYPE) {
        None => "(none)".to_owned(),
        Some(found) => match found.text {
            Text::Decoded(text) => format!("{text:?}"),
            _ => "(no text)".to_owned(),
        },
    })
}

/// Version 1: the number of the line in which the kept part begins, from 1.
pub(super) fn first_kept_line(object: &Object) -> Option<u64> {
    let found = object.member(FIRST_KEPT_INDEX).filter(|found| found.class == Class::Number)?;
    // The index counts the header as 0.
    found.text.decoded().and_then(as_integer).map(|index| index + 1)
}
