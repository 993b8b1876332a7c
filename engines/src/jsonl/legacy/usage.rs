//! The usage that a legacy file's records carry (formats §2, "Imported usage").

use forkline_model::Usage;

use super::super::open::read_json;
use super::super::storage::Span;
use super::content::Bytes;
use super::record::{MESSAGE_SHAPE, MESSAGE_USAGE, ROLE, SHAPE, USAGE};
use super::resolve::Tree;
use super::row::Kind;
use crate::error::{Error, Place, Result};
use crate::scan::{Class, Object};

/// The sum over assistant and tool result messages, compactions, branch summaries and usage
/// records, in the order of the file.
///
/// # Errors
/// *Corrupt source* for usage that cannot be summed, I/O.
pub(super) fn imported(bytes: &Bytes, tree: &mut Tree) -> Result<Usage> {
    let mut sum = Usage::default();
    for index in 0..tree.rows.len() {
        let row = tree.row(index)?;
        let usage = match row.kind {
            Kind::Message => bytes.object(row.span, &MESSAGE_SHAPE, |message| {
                let role = message.member(ROLE);
                let role = role.as_ref().and_then(|role| role.text.decoded());
                let counts = matches!(role, Some("assistant" | "toolResult"));
                if counts { place(message, MESSAGE_USAGE) } else { None }
            })?,
            Kind::Compaction | Kind::BranchSummary | Kind::Usage => {
                bytes.object(row.span, &SHAPE, |object| place(object, USAGE))?
            }
            _ => None,
        };
        if let Some(span) = usage {
            let usage = Usage::parse(&read_json(&*bytes.file, bytes.path(), span)?);
            sum.add(&usage.map_err(|error| {
                Error::corrupt(Place::line(bytes.path(), u64::from(row.line)), error.to_string())
            })?);
        }
    }
    Ok(sum)
}

/// Where usage stands, if there is any.
fn place(object: &Object, index: usize) -> Option<Span> {
    let found = object.member(index).filter(|found| found.class != Class::Null)?;
    Some(Span::from(found.span))
}
