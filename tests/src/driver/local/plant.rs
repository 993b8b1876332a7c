//! Session files of older versions, put where stored sessions are.

use std::fs;
use std::io;
use std::path::Path;

use forkline_engines::{Context, Error, Result};
use forkline_model::{Error as ModelError, RepoIndex, SessionId};

use super::super::Fault;
use super::{LocalDriver, LocalRepo, SESSIONS};
use crate::plain::layout;
use crate::plain_legacy::Members;
use crate::verify::legacy_metadata;

impl LocalDriver {
    /// Puts a legacy file into a repository of JSONL, and looks for it as a caller does.
    pub(super) fn plant(
        &mut self,
        repo: RepoIndex,
        id: &SessionId,
        lines: &[String],
        torn: &str,
    ) -> Result<()> {
        let text = text(lines, torn);
        let root = self.at(repo).root.join(SESSIONS);
        let metadata = legacy_metadata(text.as_bytes(), &root).ok();
        let Some(metadata) = metadata.filter(|metadata| metadata.id == *id) else {
            let reason = "its first line is no header of that session".to_owned();
            return Err(ModelError::InvalidPayload { what: "legacy file", reason }.into());
        };
        if self.is_taken(repo, id) {
            return Err(ModelError::SessionExists { session: id.clone() }.into());
        }
        let path = layout::jsonl_path(&root, &metadata);
        write(&path, &text).map_err(|error| Error::io("plant", &path, error))?;
        let repo = self.at(repo);
        let reference = repo.repo.find(id, &Context::new())?;
        repo.insert_closed(reference);
        repo.planted.insert(id.clone());
        Ok(())
    }
}

impl LocalRepo {
    /// Whether the file of a session is a legacy one now.
    pub(super) fn is_legacy(&self, id: &SessionId) -> Result<bool, Fault> {
        let slot = self.slots.get(id).filter(|_| self.planted.contains(id));
        let Some(path) = slot.and_then(|slot| slot.reference.path()) else { return Ok(false) };
        let unreadable = |error| Fault::new(format!("cannot read {}: {error}", path.display()));
        let text = fs::read_to_string(path).map_err(unreadable)?;
        let first = text.lines().next().unwrap_or_default().trim_start_matches('\u{feff}');
        let header = Members::parse(first).unwrap_or_default();
        Ok(header.text("type").as_deref() == Some("session"))
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text)
}

/// The file that these lines make.
pub(crate) fn text(lines: &[String], torn: &str) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    text + torn
}
