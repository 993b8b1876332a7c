//! The first line of a legacy file (formats §2).

use std::path::Path;

use forkline_model::{Metadata, Millis, SessionId};

use super::super::header::{self, FirstLine};
use super::time;
use crate::error::{Error, Place, Result};
use crate::fs::FileSystem;
use crate::scan::{as_integer, members};

/// The header of a legacy session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct LegacyHeader {
    pub(super) version: u64,
    pub(in super::super) id: SessionId,
    created_at: Millis,
    cwd: String,
    /// The path of the parent's file, as it is spelled.
    parent_session: Option<String>,
    /// What version 1 starts with, as JSON texts.
    pub(super) initial: Initial,
    /// Where the second line starts, in bytes.
    pub(super) end: u64,
}

/// The initial configuration in a version 1 header.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Initial {
    /// Provider and model id.
    pub(super) model: Option<(String, String)>,
    pub(super) thinking_level: Option<String>,
}

impl LegacyHeader {
    /// Reads the text of the first line, whose line break stands before `end`.
    ///
    /// # Errors
    /// *Corrupt source*, *unsupported version*.
    pub(in super::super) fn parse(text: &str, end: u64, path: &Path) -> Result<Self> {
        let place = || Place::line(path, 1);
        let corrupt = |what: &str| Error::corrupt(place(), format!("no header: {what}"));
        let all = members(text).map_err(|error| corrupt(&error.to_string()))?;
        let raw = |name: &str| {
            let mut of_name =
                all.iter().rev().filter(|member| member.name.as_deref() == Some(name));
            of_name.next().and_then(|member| text.get(member.value.clone()))
        };
        let decoded = |name: &str| raw(name).and_then(|raw| serde_json::from_str(raw).ok());
        let version = match raw("version") {
            None => 1,
            Some(raw) => {
                let known = as_integer(raw).filter(|version| (1..=3).contains(version));
                let found = format!("legacy version {raw}");
                known.ok_or_else(|| Error::UnsupportedVersion { place: place(), found })?
            }
        };
        let id: String = decoded("id").ok_or_else(|| corrupt("id is missing or no text"))?;
        let created_at: Option<String> = decoded("timestamp");
        let created_at = created_at.as_deref().and_then(time::parse);
        let parent_session = match raw("parentSession") {
            None => None,
            Some(_) => {
                Some(decoded("parentSession").ok_or_else(|| corrupt("parentSession is no text"))?)
            }
        };
        let text_of = |name: &str| {
            let is_text = version == 1 && decoded(name).is_some_and(|_: String| true);
            raw(name).filter(|_| is_text).map(str::to_owned)
        };
        Ok(Self {
            version,
            id: SessionId::new(id).map_err(|error| corrupt(&error.to_string()))?,
            created_at: created_at.ok_or_else(|| corrupt("timestamp is missing or no time"))?,
            cwd: decoded("cwd").ok_or_else(|| corrupt("cwd is missing or no text"))?,
            parent_session,
            initial: Initial {
                model: text_of("provider").zip(text_of("modelId")),
                thinking_level: text_of("thinkingLevel"),
            },
            end,
        })
    }

    /// The metadata. The parent's id comes from the header of the file that is named, if that
    /// can be read; a relative path starts in the folder of this file.
    pub(in super::super) fn metadata(&self, fs: &dyn FileSystem, path: &Path) -> Metadata {
        let parent = self.parent_session.as_deref().and_then(|parent| {
            let at = path.parent().unwrap_or(Path::new(".")).join(parent);
            let file = fs.open_read(&at).ok()?;
            match header::read(&*file, &at).ok()? {
                FirstLine::Current(header) => Some(header.metadata.id),
                FirstLine::Legacy(header) => Some(header.id),
            }
        });
        Metadata {
            id: self.id.clone(),
            created_at: self.created_at,
            cwd: Some(self.cwd.clone()),
            legacy_parent_session_path: self.parent_session.clone().filter(|_| parent.is_none()),
            parent_session_id: parent,
        }
    }
}
