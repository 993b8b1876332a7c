//! A captured session as the source of a fork (contract §3.6).

use std::path::{Path, PathBuf};

use forkline_model::{ForkOptions, LaneAudit, Metadata, SessionId};

use super::open::{Reader, Use};
use super::plan::Pinned;
use super::rows::SessionRow;
use super::stage::Stage;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::fork::{Plan, Row, Source};

/// How often a source is read anew because its file changed under an immutable reader.
const ATTEMPTS: usize = 5;

/// A session as it was when it was pinned.
///
/// The plan moves the selected rows into the stage at once: what an immutable reader saw counts
/// only if the file is unchanged after its last read, and a plan must not be taken back. Where
/// the file did change, somebody has begun to write it, and the fork shows the later instant at
/// which it was pinned again; therefore such a source is planned before its boundary is told.
pub(super) struct SqliteSource {
    path: PathBuf,
    session: SessionId,
    row: SessionRow,
    reader: Option<Reader>,
    stage: Option<Stage>,
}

impl SqliteSource {
    /// Captures the session of that id in the database at exactly that path.
    ///
    /// # Errors
    /// *Unknown session*, *unsupported version*, *corrupt source*, *busy*, I/O.
    pub(super) fn open(path: &Path, session: &SessionId) -> Result<Self> {
        Reader::open(path, Use::Fork).and_then(|reader| Self::pinned(reader, session))
    }

    /// Pins what is committed now.
    ///
    /// # Errors
    /// Those of [`SqliteSource::open`].
    pub(super) fn pinned(reader: Reader, session: &SessionId) -> Result<Self> {
        reader.pin()?;
        let row = reader.session_row(session)?;
        Ok(Self {
            path: reader.path().to_owned(),
            session: session.clone(),
            row,
            reader: Some(reader),
            stage: None,
        })
    }
}

impl Source for SqliteSource {
    fn metadata(&self) -> &Metadata {
        &self.row.metadata
    }

    fn is_held(&self) -> bool {
        self.reader.as_ref().is_none_or(Reader::is_snapshot)
    }

    fn plan(&mut self, options: &ForkOptions, audit: LaneAudit, cx: &Context) -> Result<Plan> {
        for _ in 0..ATTEMPTS {
            let mut reader = self.reader.take().expect("a source is planned once");
            let pinned = Pinned {
                conn: &mut reader.conn,
                path: &self.path,
                session: self.session.as_str(),
                next_seq: self.row.next_seq,
            };
            let selected = pinned.select(options, audit, cx);
            if let Err(Error::Cancelled) = selected {
                return Err(Error::Cancelled);
            }
            if reader.is_intact() {
                selected?;
                let next_seq = self.row.next_seq;
                let stage = Stage::of_source(reader.into_scratch()?, &self.path);
                stage.check(&options.scope, next_seq, cx)?;
                self.stage = Some(stage);
                return Ok(Plan { next_seq });
            }
            drop(reader);
            let again = Self::open(&self.path, &self.session)?;
            (self.row, self.reader) = (again.row, again.reader);
        }
        Err(Error::Busy { place: self.path.as_path().into() })
    }

    fn stream(&mut self, sink: &mut dyn FnMut(Row<'_>) -> Result<()>, cx: &Context) -> Result<()> {
        let stage = self.stage.take().expect("a source is planned before it streams");
        stage.stream(sink, cx)
    }

    fn take_stage(&mut self, _cx: &Context) -> Result<Option<Stage>> {
        Ok(self.stage.take())
    }
}
