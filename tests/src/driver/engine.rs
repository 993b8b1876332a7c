//! What the engines of this project can do, and how one is set up.

use std::path::Path;
use std::sync::Arc;

use forkline_engines::{
    Error, JsonlRepo, Location, MemoryRepo, Repo, RepoOptions, SessionRef, SqliteRepo,
};
use forkline_model::{Metadata, Millis, SessionId};

use super::{Capabilities, Feature};
use crate::lineup::EngineKind;

/// The shared container in a repository's folder.
pub(crate) const SHARED_CONTAINER: &str = "sessions.sqlite";

/// Of a repository under test. Legacy files are planted beside those ([`Feature::Legacy`]).
pub(super) fn capabilities(kind: EngineKind) -> Capabilities {
    let all = Capabilities::all().but(Feature::Legacy);
    match kind {
        EngineKind::Jsonl => all,
        EngineKind::Memory => all.but(Feature::TornTails),
        EngineKind::Sqlite | EngineKind::SqliteShared => {
            all.but(Feature::TornTails).but(Feature::Cwd)
        }
    }
}

/// A repository in `root`, which is there and empty.
pub(super) fn repository(
    kind: EngineKind,
    root: &Path,
    options: RepoOptions,
) -> Result<Arc<dyn Repo>, Error> {
    Ok(match kind {
        EngineKind::Memory => Arc::new(MemoryRepo::with(options)),
        EngineKind::Jsonl => Arc::new(JsonlRepo::with(root, options)?),
        EngineKind::Sqlite => Arc::new(SqliteRepo::per_file_with(root, options)?),
        EngineKind::SqliteShared => {
            Arc::new(SqliteRepo::shared_with(root.join(SHARED_CONTAINER), options)?)
        }
    })
}

/// A reference to a session that was never there.
pub(super) fn nowhere(kind: EngineKind, root: &Path, id: &SessionId) -> SessionRef {
    let metadata = Metadata {
        id: id.clone(),
        created_at: Millis::EPOCH,
        cwd: None,
        parent_session_id: None,
        legacy_parent_session_path: None,
    };
    let location = match kind {
        EngineKind::Memory => Location::Memory,
        EngineKind::Jsonl => Location::File(root.join("nowhere.jsonl")),
        EngineKind::Sqlite => Location::File(root.join("nowhere.sqlite")),
        EngineKind::SqliteShared => Location::File(root.join(SHARED_CONTAINER)),
    };
    SessionRef { metadata, location }
}
