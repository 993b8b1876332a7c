//! What a record becomes: pieces of text and spans of the file, in the order of the payload.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use forkline_model::json::quoted;
use forkline_model::{EntryId, EntryType, TypeName};

use super::super::lines::{Part, changed};
use super::super::storage::Span;
use super::record::{
    self, CONTENT, CUSTOM_TYPE, DATA, DETAILS, DISPLAY, FROM_HOOK, MESSAGE_SHAPE, REPLACEMENT,
    ROLE, SHAPE, SUMMARY, SYSTEM_MESSAGE, TOKENS_BEFORE, USAGE,
};
use super::resolve::Tree;
use super::row::{Kind, Row};
use crate::error::{Error, Result};
use crate::fs::FileHandle;
use crate::scan::{Item, Object, Scan, ScanError, Shape};

/// A part of a JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// Bytes of the source.
    Span(Span),
    /// The messages that the compaction in this record keeps, comma-separated.
    Tail(u32),
}

/// The members of an object, or a value, as pieces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Pieces(pub(super) Vec<Piece>);

impl Pieces {
    pub(super) fn of(text: impl Into<String>) -> Self {
        Self(vec![Piece::Text(text.into())])
    }

    fn text(&mut self, text: impl Into<String>) {
        self.0.push(Piece::Text(text.into()));
    }

    /// A comma and a name, the first one without the comma.
    fn name(&mut self, name: &str) {
        let comma = if self.0.is_empty() { "" } else { "," };
        self.text(format!("{comma}\"{name}\":"));
    }

    /// A member whose value is in pieces, behind others.
    pub(super) fn member(&mut self, name: &str, value: Self) {
        let comma = if self.0.len() > 1 { "," } else { "" };
        self.text(format!("{comma}\"{name}\":"));
        self.0.extend(value.0);
    }

    /// More members, behind others; there may be none.
    pub(super) fn members(&mut self, members: Self) {
        if !members.0.is_empty() {
            self.text(",");
            self.0.extend(members.0);
        }
    }

    /// A member that is built.
    fn built(&mut self, name: &str, value: &str) {
        self.name(name);
        self.text(value);
    }

    /// A member whose value is copied, if the record has it.
    pub(super) fn copied(&mut self, name: &str, object: &Object, index: usize) {
        if let Some(found) = object.member(index) {
            self.name(name);
            self.0.push(Piece::Span(Span::from(found.span)));
        }
    }

    /// The same as a whole object.
    pub(super) fn into_object(mut self) -> Self {
        self.0.insert(0, Piece::Text("{".to_owned()));
        self.text("}");
        self
    }
}

/// The bytes of a legacy file.
#[derive(Debug, Clone)]
pub(super) struct Bytes {
    pub(super) file: Arc<dyn FileHandle>,
    pub(super) path: std::path::PathBuf,
    pub(super) version: u64,
}

impl Bytes {
    /// Looks at an object again that was read before.
    pub(super) fn object<T>(
        &self,
        span: Span,
        shape: &'static Shape,
        visit: impl FnOnce(&Object) -> T,
    ) -> Result<T> {
        let Span { offset, len } = span;
        let range: Range<u64> = offset..offset + len;
        let mut objects = Scan::new(Part::new(&self.file, range), offset, shape);
        match objects.next() {
            Ok(Some(Item::Object(object))) => Ok(visit(object)),
            Err(ScanError::Read { source, .. }) => Err(Error::io("read", &self.path, source)),
            _ => Err(self.changed(offset)),
        }
    }

    fn changed(&self, offset: u64) -> Error {
        changed(&self.path, offset, "it is no record any more")
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Type, custom type and payload members of the entry that a record becomes.
pub(super) fn entry(
    bytes: &Bytes,
    tree: &mut Tree,
    index: u32,
    row: &Row,
) -> Result<(EntryType, Option<TypeName>, Pieces)> {
    let mut pieces = Pieces::default();
    let custom_type = match row.kind {
        Kind::Message | Kind::OddMessage | Kind::CustomMessage => {
            if let Some(message) = message(bytes, row)? {
                pieces.name("message");
                pieces.0.extend(message.0);
            }
            return Ok((EntryType::Message, None, pieces));
        }
        Kind::Custom => bytes.object(row.span, &SHAPE, |object| {
            pieces.copied("data", object, DATA);
            record::text(object, CUSTOM_TYPE).map(TypeName::new).transpose()
        })??,
        Kind::ContextEdit => {
            let target = reference(tree, row)?;
            pieces.built("targetId", &target);
            bytes.object(row.span, &SHAPE, |object| {
                pieces.copied("replacement", object, REPLACEMENT);
            })?;
            let data = std::mem::take(&mut pieces).into_object();
            pieces.name("data");
            pieces.0.extend(data.0);
            Some(TypeName::new("context_edit")?)
        }
        Kind::BranchSummary => {
            let from = reference(tree, row)?;
            bytes.object(row.span, &SHAPE, |object| {
                pieces.built("fromId", &from);
                pieces.copied("summary", object, SUMMARY);
                pieces.copied("details", object, DETAILS);
                pieces.copied("usage", object, USAGE);
                from_hook(&mut pieces, object);
            })?;
            return Ok((EntryType::BranchSummary, None, pieces));
        }
        Kind::Compaction => {
            bytes.object(row.span, &SHAPE, |object| {
                pieces.copied("summary", object, SUMMARY);
                pieces.built("retainedTail", "[");
                pieces.0.push(Piece::Tail(index));
                pieces.text("]");
                pieces.copied("tokensBefore", object, TOKENS_BEFORE);
                pieces.copied("details", object, DETAILS);
                pieces.copied("usage", object, USAGE);
                from_hook(&mut pieces, object);
                pieces.copied("systemMessage", object, SYSTEM_MESSAGE);
            })?;
            return Ok((EntryType::Compaction, None, pieces));
        }
        _ => unreachable!("only records of these kinds become entries"),
    };
    Ok((EntryType::Custom, custom_type, pieces))
}

fn from_hook(pieces: &mut Pieces, object: &Object) {
    if record::is_null(object, FROM_HOOK) {
        pieces.built("fromHook", "false");
    } else {
        pieces.copied("fromHook", object, FROM_HOOK);
    }
}

/// The new id that a record's reference leads to, or null, as JSON.
fn reference(tree: &mut Tree, row: &Row) -> Result<String> {
    let seq = match row.reference.index() {
        Some(target) => tree.row(target)?.entry,
        None => 0,
    };
    Ok(or_null(tree.id(seq)?.as_ref()))
}

/// An id or null as JSON.
pub(super) fn or_null(id: Option<&EntryId>) -> String {
    id.map_or_else(|| "null".to_owned(), |id| quoted(id.as_str()))
}

/// The message that a record is or becomes.
fn message(bytes: &Bytes, row: &Row) -> Result<Option<Pieces>> {
    match row.kind {
        Kind::CustomMessage => {
            let mut pieces = Pieces::default();
            bytes.object(row.span, &SHAPE, |object| {
                pieces.built("role", "\"custom\"");
                pieces.copied("customType", object, CUSTOM_TYPE);
                pieces.copied("content", object, CONTENT);
                pieces.copied("details", object, DETAILS);
                pieces.copied("display", object, DISPLAY);
                pieces.built("timestamp", &row.ms.to_string());
            })?;
            Ok(Some(pieces.into_object()))
        }
        Kind::Message if bytes.version < 3 => {
            let role = bytes.object(row.span, &MESSAGE_SHAPE, |message| {
                let role = message.member(ROLE)?;
                (role.text.decoded() == Some("hookMessage")).then_some(role.span)
            })?;
            let Some(role) = role else { return Ok(Some(span(row.span))) };
            let end = row.span.offset + row.span.len;
            Ok(Some(Pieces(vec![
                Piece::Span(Span::from(row.span.offset..role.start)),
                Piece::Text("\"custom\"".to_owned()),
                Piece::Span(Span::from(role.end..end)),
            ])))
        }
        _ => Ok((row.span.len > 0).then(|| span(row.span))),
    }
}

pub(super) fn span(span: Span) -> Pieces {
    Pieces(vec![Piece::Span(span)])
}

/// What a record gives to the tail of a compaction that keeps it.
pub(super) fn tail_message(bytes: &Bytes, tree: &mut Tree, row: &Row) -> Result<Option<Pieces>> {
    let mut pieces = Pieces::default();
    match row.kind {
        Kind::Message | Kind::OddMessage | Kind::CustomMessage => return message(bytes, row),
        Kind::BranchSummary => {
            let from = reference(tree, row)?;
            let has_text = bytes.object(row.span, &SHAPE, |object| {
                pieces.built("role", "\"branchSummary\"");
                pieces.copied("summary", object, SUMMARY);
                pieces.built("fromId", &from);
                object.member(SUMMARY).is_some_and(|summary| record::has_text(&summary))
            })?;
            if !has_text {
                return Ok(None);
            }
        }
        Kind::Compaction => bytes.object(row.span, &SHAPE, |object| {
            pieces.built("role", "\"compactionSummary\"");
            pieces.copied("summary", object, SUMMARY);
            pieces.copied("tokensBefore", object, TOKENS_BEFORE);
        })?,
        _ => return Ok(None),
    }
    pieces.built("timestamp", &row.ms.to_string());
    Ok(Some(pieces.into_object()))
}
